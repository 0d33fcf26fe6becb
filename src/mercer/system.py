"""Versions, memory, CPU and devices of this installation, for ``mercer info`` and bug reports."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform

import numpy as np

from mercer import __version__, ops
from mercer.parallel.device import torch_ops
from mercer.parallel.threads import max_threads

_CORE = ("numpy", "scipy", "scikit-learn", "threadpoolctl", "click", "rich")
_EXTRAS = {"parquet": "pyarrow", "dask": "distributed", "gpu": "torch", "plot": "matplotlib"}


def describe_system() -> dict[str, str]:
    """Return a line of text for each topic, in display order."""
    return {
        "mercer": __version__,
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "packages": ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _CORE),
        "extras": ", ".join(
            f"{name}: {'yes' if _is_installed(module) else 'no'}"
            for name, module in _EXTRAS.items()
        ),
        "cpu": ", ".join(_cpu_features()) or "no vector extensions found",
        "threads": str(max_threads()),
        "blas": _blas(),
        "core": ops.cpu.isa() if ops.cpu.available() else f"not in use: {ops.cpu.why_not()}",
        "ops": _ops(),
        "gpu": torch_ops().transfer.describe_gpus()
        if _is_installed("torch")
        else "not in use: pip install 'mercer[gpu]'",
    }


def physical_memory() -> int:
    """Return the bytes of physical memory; 8 GiB where the system does not report them."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 8 * 2**30


def _ops() -> str:
    by_backend: dict[str, list[str]] = {}
    for name in sorted(ops.OPS):
        by_backend.setdefault(ops.implementation_of(name), []).append(name)
    return "; ".join(f"{backend}: {', '.join(names)}" for backend, names in by_backend.items())


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _cpu_features() -> list[str]:
    simd = np.show_config(mode="dicts").get("SIMD Extensions", {})
    return [*simd.get("baseline", []), *simd.get("found", [])]


def _blas() -> str:
    from threadpoolctl import threadpool_info

    pools = [info for info in threadpool_info() if info["user_api"] == "blas"]
    return ", ".join(
        sorted(
            f"{pool['internal_api']} {pool['version']} ({pool['num_threads']} threads)"
            for pool in pools
        )
    )

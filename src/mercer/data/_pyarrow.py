"""Import of pyarrow, which is optional."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def pyarrow(purpose: str, module: str = "") -> Any:
    """Import pyarrow, or its submodule; raise a ValueError where it is not installed."""
    try:
        return import_module("pyarrow" + (f".{module}" if module else ""))
    except ImportError:
        raise ValueError(f"{purpose} needs pyarrow: pip install 'mercer[parquet]'.") from None

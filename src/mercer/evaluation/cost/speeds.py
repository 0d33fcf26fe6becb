"""How fast this machine is, as measured once: seconds for a unit of each kind of work, kept in a
file of the user's cache.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mercer import __version__, ops
from mercer.parallel.threads import threads
from mercer.persistence.atomic_write import replacing

_VERSION = 1
ANY = "any"  # the rate of a kind that has none of its own
ADVICE = "mercer info --measure"

Rates = Mapping[str, tuple[float, ...]]

# For a machine that was not measured: of about half the speed, for each thread, of a server's core
# of 2023.
_BUILT_IN: dict[str, dict[str, tuple[float, ...]]] = {
    "float32": {
        ANY: (2e-10, 2e-10),
        "FourierFeatures(Matrix)": (4e-11, 5e-11),
        "FourierFeatures(Hadamard)": (1e-10, 1e-10),
        "LaplaceFeatures(Matrix)": (4e-11, 5e-11),
        "Hashes": (3e-10, 0.0),
    },
    "float64": {
        ANY: (4e-10, 4e-10),
        "FourierFeatures(Matrix)": (8e-11, 1e-10),
        "FourierFeatures(Hadamard)": (2e-10, 2e-10),
        "LaplaceFeatures(Matrix)": (8e-11, 1e-10),
        "Hashes": (3e-10, 0.0),
    },
    "csr": {ANY: (1e-9, 4e-10)},
    "sums": {"float32": (2e-11, 2e-8), "float64": (4e-11, 3e-8), "csr": (4e-9, 2e-9)},
    "products": {
        "float32": (2e-9, 1e-9),
        "float64": (2e-9, 1e-9),
        "csr": (4e-9, 4e-9),
        "coded": (4e-9, 4e-9),
    },
    "gradients": {
        "float32": (4e-9, 1e-9),
        "float64": (2e-9, 1e-9),
        "csr": (4e-9, 4e-9),
        "coded": (4e-9, 4e-9),
    },
    "images": {
        "float32": (8e-9, 1e-9),
        "float64": (2e-9, 1e-9),
        "csr": (4e-9, 4e-9),
        "coded": (4e-9, 4e-9),
    },
    "solve": {"eigenvectors": (4e-10,), "factor": (4e-11,)},
    "read": {ANY: (1e-8,), "array": (2e-10,), "npy": (1e-9,), "csv": (5e-8,), "svmlight": (1e-7,)},
    "look": {ANY: (5e-9,)},
    "draw": {ANY: (0.01, 1e-7)},
    "start": {ANY: (0.05,)},
}


@dataclass(frozen=True)
class Speeds:
    """Seconds for each unit of work.

    Attributes
    ----------
    tables : mapping of mapping of tuple of float
        "float32", "float64", "csr", by kind of part: seconds for a multiply-add and for a byte, as
        ``Cost`` counts them, all threads at work; with " alone" behind, the same on one thread.
        "sums", "products", "gradients" and "images", by form of the features: see ``trials``.
        "solve": for D^3. "read", by kind of stream: for a number. "look", by map: for a number that
        is seen. "draw", by map: at all, and for a number. "start": of a fit.
    core, threads, when : str, int, str
        Where and when they were measured; "" where they were not.
    """

    tables: Mapping[str, Rates]
    core: str = ""
    threads: int = 1
    when: str = ""
    mercer: str = __version__
    note: str = field(default="", compare=False)

    @property
    def measured(self) -> bool:
        return bool(self.when)

    def rates(self, table: str, name: str) -> tuple[float, ...]:
        """Those of a name in a table; of any, where it has none of its own."""
        found = self.tables.get(table)
        if found is None:  # of one thread, where all were measured together
            return tuple(
                self.threads * rate for rate in self.rates(table.removesuffix(" alone"), name)
            )
        return found[name] if name in found else found[ANY]


def built_in(note: str = "") -> Speeds:
    """What is assumed of a machine that was not measured."""
    return Speeds(
        {name: dict(rates) for name, rates in _BUILT_IN.items()},
        ops.cpu.isa(),
        threads(),
        note=note,
    )


def place() -> Path:
    """The file: in MERCER_CACHE, else in the user's cache folder."""
    given = os.environ.get("MERCER_CACHE", "")
    if given:
        return Path(given) / "speeds.json"
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if home else Path.home() / ".cache") / "mercer" / "speeds.json"


def read(path: Path | None = None) -> Speeds:
    """The record of this machine; what is built in, with a sentence that says why, where there is
    none that can be used.
    """
    path = place() if path is None else path
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return built_in(f"not measured on this machine: {ADVICE}")
    except (OSError, UnicodeDecodeError, ValueError):
        return built_in(
            f"{path} cannot be read as a record of speeds, and is ignored: {ADVICE} writes a new "
            "one"
        )
    wrong = _misfit(found)
    if wrong:
        return built_in(f"{path} {wrong}, and is ignored: {ADVICE} writes a new one")
    tables = {
        table: {name: tuple(rates) for name, rates in names.items()}
        for table, names in found["tables"].items()
    }
    return Speeds(tables, found["core"], found["threads"], found["when"], found["mercer"])


def write(speeds: Speeds, path: Path | None = None) -> Path:
    """Keep the record, whole or not at all."""
    path = place() if path is None else path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise ValueError(
            f"{path.parent} is a file, and must be a folder: MERCER_CACHE names another."
        ) from None
    kept = {"version": _VERSION, **asdict(speeds)}
    del kept["note"]
    with replacing(path) as file:
        file.write(json.dumps(kept, indent=1).encode() + b"\n")
    return path


def _misfit(found: Any) -> str:
    """Why a record is not one of this installation, or is damaged; nothing where it can be used."""
    if not isinstance(found, dict) or found.get("version") != _VERSION:
        return "is no record of speeds of this version"
    tables = found.get("tables")
    words = all(isinstance(found.get(name), str) for name in ("when", "core", "mercer"))
    if (
        not words
        or not isinstance(tables, dict)
        or not _complete(tables)
        or not all(map(_is_table, tables.values()))
    ):
        return "is damaged"
    here = {"mercer": __version__, "core": ops.cpu.isa(), "threads": threads()}
    for name, value in here.items():
        if found.get(name) != value:
            return f"was measured with {name} {found.get(name)}, not {value}"
    return ""


def _complete(tables: dict[str, Any]) -> bool:
    """Whether all is there that has no rate to fall back on."""
    return all(
        isinstance(tables.get(table), dict)
        and ({ANY} if ANY in rates else set(rates)) <= set(tables[table])
        for table, rates in _BUILT_IN.items()
    )


def _is_table(rates: Any) -> bool:
    return isinstance(rates, dict) and all(
        isinstance(values, list)
        and values
        and all(
            isinstance(one, int | float) and not isinstance(one, bool) and 0 <= one < math.inf
            for one in values
        )
        for values in rates.values()
    )

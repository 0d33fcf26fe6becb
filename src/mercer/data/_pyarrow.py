"""Import of pyarrow, which is optional."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class NeedsPyarrow(ValueError):
    """pyarrow is needed, and not installed."""


def pyarrow(purpose: str, module: str = "") -> Any:
    """Import pyarrow, or its submodule; raise NeedsPyarrow where it is not installed."""
    try:
        return import_module("pyarrow" + (f".{module}" if module else ""))
    except ImportError:
        raise NeedsPyarrow(f"{purpose} needs pyarrow: pip install 'mercer[parquet]'.") from None

"""Feature maps, one file for each. The registry has every map of this folder."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mercer.maps.base import Map


@cache
def every_map() -> tuple[type[Map], ...]:
    """Return every map class that has cases, compositions included, in the order of file names."""
    from mercer.maps.base import Map

    modules = [
        importlib.import_module(f"{__name__}.{module.name}")
        for module in pkgutil.iter_modules(__path__)
    ]
    return tuple(
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Map)
        and value is not Map
        and value.__module__ == module.__name__
        and "cases" in vars(value)
    )


@cache
def registry() -> dict[str, type[Map]]:
    """Return the maps that have a name, by that name."""
    return {cls.name: cls for cls in every_map() if cls.name is not None}


def suggest_maps(name: str) -> str:
    """Return a sentence with the maps that have a kernel of this name or alias; "" for none."""
    from mercer.kernels.registry import canonical_name

    maps = [each for each, cls in registry().items() if canonical_name(name) in cls.kernels]
    return f" Maps with the kernel {name!r}: {', '.join(sorted(maps))}." if maps else ""

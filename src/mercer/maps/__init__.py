"""One file for each map. The registry walks this folder: a new map is found by being here."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mercer.maps.base import Map


def every_map() -> list[type[Map]]:
    """Every map class that has cases, compositions included, by the order of file names."""
    return list(_classes())


@cache
def _classes() -> tuple[type[Map], ...]:
    """Import the modules of this folder, once, and collect their maps."""
    from mercer.maps.base import Map

    found = []
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for value in vars(module).values():
            ours = (
                isinstance(value, type)
                and issubclass(value, Map)
                and value.__module__ == module.__name__
            )
            if ours and "cases" in vars(value) and value is not Map:
                found.append(value)
    return tuple(found)


def registry() -> dict[str, type[Map]]:
    """The maps that have a name, by that name."""
    return {cls.name: cls for cls in every_map() if cls.name is not None}

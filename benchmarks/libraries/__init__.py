"""One rival for each file: `name`, and `rival(feature_map)`, an unfitted estimator for the same
kernel and size, or None.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def libraries() -> list[ModuleType]:
    """Every rival whose package is installed."""
    found = []
    for module in pkgutil.iter_modules(__path__):
        try:
            found.append(importlib.import_module(f"{__name__}.{module.name}"))
        except ImportError as error:
            print(f"without {module.name}: {error}")
    return found

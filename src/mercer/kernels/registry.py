"""Kernels by name: "jensen-shannon" is JensenShannon, "exp-chi2" is ExpChi2 and "rbf" is
Gaussian.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, fields

from mercer.kernels import additive, elementwise, euclidean, hashing
from mercer.kernels.additive import Additive
from mercer.kernels.base import Kernel
from mercer.validation.parameters import validate_option

_ALSO = {"rbf": "gaussian"}  # scikit-learn's names for the same kernels


def names() -> dict[str, type[Kernel]]:
    """The kernels that numbers alone make, by the name that their class gives them."""
    found = [
        value
        for module in (additive, hashing, elementwise, euclidean)
        for value in vars(module).values()
    ]
    ours = {value for value in found if isinstance(value, type) and issubclass(value, Kernel)}
    bases = {base for cls in ours for base in cls.__mro__[1:]}
    whole = [
        cls for cls in ours - bases if all(field.default is not MISSING for field in fields(cls))
    ]
    return {_name(cls): cls for cls in sorted(whole, key=_name)}


def additive_names() -> dict[str, type[Additive]]:
    """Those that are a sum over columns."""
    return {name: cls for name, cls in names().items() if issubclass(cls, Additive)}


def named(who: str, name: object) -> type[Kernel]:
    """The kernel class of that name; otherwise a ValueError with the nearest one."""
    known = names()
    return known[validate_option(who, "kernel", _ALSO.get(str(name), name), known)]


def _name(cls: type[Kernel]) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()

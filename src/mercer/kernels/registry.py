"""Kernel classes by name: "jensen-shannon" is JensenShannon, "rbf" and "gaussian" are Gaussian.

scikit-learn's names are aliases, and "_" in a name is "-". Its "chi2", exp(-gamma sum (x - z)^2/(x
+ z)), is "exp-chi2" here; "chi2" is the additive kernel of the literature, its "additive_chi2".
"""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from functools import cache

from mercer.kernels import additive, elementwise, euclidean, hashing
from mercer.kernels.additive import Additive
from mercer.kernels.base import Kernel
from mercer.validation.parameters import Option

ALIASES = {"additive_chi2": "chi2", "rbf": "gaussian"}  # scikit-learn's names of the same kernels


class KernelOption(Option):
    """One of some kernels by name, or an alias of one."""

    def __init__(self, *names: str) -> None:
        super().__init__(*names, *(alias for alias, name in ALIASES.items() if name in names))

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and canonical_name(value) in self.options


def canonical_name(name: str) -> str:
    """Return the name of a kernel from an alias of it: "gaussian" for "rbf"."""
    return ALIASES.get(name, name.replace("_", "-"))


@cache
def kernel_classes() -> dict[str, type[Kernel]]:
    """Return the kernel classes whose parameters all have defaults, by name, sorted."""
    values = [
        v for module in (additive, hashing, elementwise, euclidean) for v in vars(module).values()
    ]
    classes = {value for value in values if isinstance(value, type) and issubclass(value, Kernel)}
    bases = {base for cls in classes for base in cls.__mro__[1:]}
    named = {
        re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower(): cls
        for cls in classes - bases
        if all(field.default is not MISSING for field in fields(cls))
    }
    return dict(sorted(named.items()))


def additive_classes() -> dict[str, type[Additive]]:
    """Return the kernel classes that are a sum over columns, by name."""
    return {name: cls for name, cls in kernel_classes().items() if issubclass(cls, Additive)}


def kernel_class(name: str) -> type[Kernel]:
    """Return the kernel class of a name or an alias."""
    return kernel_classes()[canonical_name(name)]

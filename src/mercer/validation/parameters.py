"""Parameter constraints, declared once for errors, help texts and the command line.

A class states them as ``parameter_constraints``, a tuple of alternatives for each parameter::

    parameter_constraints = {
        "n_components": (Integer(),),
        "gamma": (Positive(), Option("auto", "scale", "median")),
        "normalize": (Flag(),),
    }

This module imports neither NumPy nor scikit-learn, so that ``mercer fit --help`` does not wait for
them.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Protocol

from mercer.errors import ParameterError, Setting

_PREFIXES = ("", "K", "M", "G", "T")


class Constraint(Protocol):
    """A set of allowed values: ``value in constraint``; its str() ends the sentence "must be"."""

    def __contains__(self, value: object) -> bool: ...


Constraints = Mapping[str, tuple[Constraint, ...]]
"""Parameter name -> the alternatives that its value may satisfy."""


@dataclass(frozen=True)
class Integer:
    """An integer of at least ``minimum``; no bool."""

    minimum: int = 1

    def __contains__(self, value: object) -> bool:
        return _is_integer(value) and value >= self.minimum  # type: ignore[operator]

    def __str__(self) -> str:
        return f"an integer of at least {self.minimum}"


@dataclass(frozen=True)
class Positive:
    """A finite number above 0; with ``below``, also below it."""

    below: float = math.inf

    def __contains__(self, value: object) -> bool:
        number = isinstance(value, Real) and not isinstance(value, bool)
        return number and 0 < float(value) < self.below  # type: ignore[arg-type]

    def __str__(self) -> str:
        if self.below < math.inf:
            return f"a number between 0 and {self.below:g}"
        return "a finite number above 0"


class Option:
    """One of some strings."""

    def __init__(self, *options: str) -> None:
        self.options = options

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and value in self.options

    def __str__(self) -> str:
        if len(self.options) < 3:
            return " or ".join(map(repr, self.options))
        return f"one of {', '.join(map(repr, self.options))}"

    def nearest(self, value: object) -> str | None:
        """Return the option that is spelled most like a value; None where none is like it."""
        return next(iter(difflib.get_close_matches(str(value), self.options, n=1)), None)


class Flag:
    """True or False; 0 and 1 are integers."""

    def __contains__(self, value: object) -> bool:
        return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")

    def __str__(self) -> str:
        return "True or False"


class MemorySize:
    """A number of bytes, or a string such as "2GB" (powers of 1000) or "500 MiB" (of 1024)."""

    def __contains__(self, value: object) -> bool:
        return _bytes(value) is not None

    def __str__(self) -> str:
        return "a number of bytes above 0 or a string such as '2GB' or '500 MiB'"


class Missing:
    """None."""

    def __contains__(self, value: object) -> bool:
        return value is None

    def __str__(self) -> str:
        return "None"


@dataclass(frozen=True)
class InstanceOf:
    """An instance of one of some types, described by a text: "an array", "a callable"."""

    types: type | tuple[type, ...]
    text: str

    def __contains__(self, value: object) -> bool:
        return isinstance(value, self.types)

    def __str__(self) -> str:
        return self.text


def validate_parameters(estimator: Any) -> None:
    """Raise a ParameterError for the first parameter of an estimator outside its constraints."""
    constraints: Constraints = estimator.parameter_constraints
    for name, alternatives in constraints.items():
        validate_parameter(type(estimator).__name__, name, getattr(estimator, name), *alternatives)


def validate_parameter(
    estimator_name: str, name: str, value: object, *alternatives: Constraint
) -> None:
    """Raise a ParameterError unless a value satisfies one of the constraints."""
    if any(value in constraint for constraint in alternatives):
        return
    needed = " or ".join(map(str, alternatives))
    if len(alternatives) > 1:
        needed = f"{', '.join(map(str, alternatives[:-1]))}, or {alternatives[-1]}"
    nearest = (option.nearest(value) for option in alternatives if isinstance(option, Option))
    hint = next((f" Did you mean {name!r}?" for name in nearest if name is not None), "")
    if not isinstance(value, str):
        hint = ""
    raise ParameterError(estimator_name, Setting(name), f" must be {needed}, got {value!r}.{hint}")


def validate_option(estimator_name: str, name: str, value: object, options: Iterable[str]) -> str:
    """Return a value that is one of the options; otherwise raise with the nearest of them."""
    options = list(options)
    if isinstance(value, str) and value in options:
        return value
    near = difflib.get_close_matches(str(value), options, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    text = f" must be one of {', '.join(map(repr, options))}, got {value!r}.{hint}"
    raise ParameterError(estimator_name, Setting(name), text)


def validate_integer(estimator_name: str, name: str, value: Any, *, least: int = 1) -> int:
    """Return a value that is an integer of at least `least` as an int."""
    validate_parameter(estimator_name, name, value, Integer(least))
    return int(value)


def validate_positive(estimator_name: str, name: str, value: Any) -> float:
    """Return a value that is a finite number above 0 as a float."""
    validate_parameter(estimator_name, name, value, Positive())
    return float(value)


def validate_positive_or_option(
    estimator_name: str, name: str, value: object, options: Iterable[str]
) -> None:
    """Raise unless a value is a finite number above 0 or one of the options."""
    validate_parameter(estimator_name, name, value, Positive(), Option(*options))


def validate_probability(estimator_name: str, name: str, value: Any) -> float:
    """Return a value that is strictly between 0 and 1 as a float."""
    validate_parameter(estimator_name, name, value, Positive(below=1))
    return float(value)


def validate_flag(estimator_name: str, name: str, value: object) -> bool:
    """Return a value that is True or False as a bool."""
    validate_parameter(estimator_name, name, value, Flag())
    return bool(value)


def parse_memory(estimator_name: str, name: str, value: object) -> int:
    """Return a memory size in bytes: an integer, or a string such as "2GB" or "500 MiB"."""
    validate_parameter(estimator_name, name, value, MemorySize())
    size = _bytes(value)
    assert size is not None
    return size


def warn_not_converged(text: str, stacklevel: int = 2) -> None:
    """Issue scikit-learn's ConvergenceWarning."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(text, ConvergenceWarning, stacklevel=stacklevel + 1)


def _is_integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _bytes(value: object) -> int | None:
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kKMGT]?)(i?)B?\s*", value)
        if match is None:
            return None
        number, prefix, binary = match.groups()
        value = int(float(number) * (1024 if binary else 1000) ** _PREFIXES.index(prefix.upper()))
    return int(value) if _is_integer(value) and value > 0 else None  # type: ignore[call-overload, operator]

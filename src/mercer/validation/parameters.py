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
import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar

from mercer.errors import ParameterError, Setting

_PREFIXES = ("", "K", "M", "G", "T")

P = ParamSpec("P")
T = TypeVar("T")


class Constraint:
    """A set of allowed values: ``value in constraint``; its str() ends the sentence "must be".

    The constraints of this module are data, and all of them are tested here. One of another module
    overrides both methods.
    """

    def __contains__(self, value: Any) -> bool:
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        is_integer = is_number and isinstance(value, Integral)
        is_array = hasattr(value, "__array__")
        match self:
            case Integer(minimum, maximum):
                return is_integer and minimum <= value <= (math.inf if maximum is None else maximum)
            case Positive(below, at_most):
                return is_number and 0 < float(value) < below and float(value) <= at_most
            case Nonnegative():
                return is_number and 0 <= float(value) < math.inf
            case Between(low, high):
                return is_number and low <= float(value) <= high
            case NumberOption():
                return is_number and float(value) in self.options
            case Interval(low):
                if not isinstance(value, tuple | list) or len(value) != 2:
                    return False
                if not all(end in Between(-math.inf, math.inf) for end in value):
                    return False
                return -math.inf < value[0] < value[1] < math.inf and low in (None, value[0])
            case Option():
                return isinstance(value, str) and value in self.options
            case Flag():
                return type(value).__name__ in ("bool", "bool_")
            case MemorySize():
                return _bytes(value) is not None
            case Missing():
                return value is None
            case InstanceOf(types):
                return isinstance(value, types)
            case ArrayLike():
                arrays = is_array or hasattr(value, "tocsr")
                return (isinstance(value, list | tuple) or arrays) and not isinstance(value, type)
            case PositiveNumbers():
                if not (isinstance(value, list | tuple) or is_array):
                    return False
                one_axis = len(getattr(value, "shape", (1,))) == 1
                return one_axis and all(number in Positive() for number in value)
            case Function(_, excluded):
                return callable(value) and not isinstance(value, (type, excluded))
            case Seed():
                return value is None or value in Integer(0, 2**64 - 1) or _is_generator(value)
            case Threads():
                return value is None or (is_integer and value != 0)
        raise NotImplementedError


Constraints = Mapping[str, tuple[Constraint, ...]]
"""Parameter name -> the alternatives that its value may satisfy."""


@dataclass(frozen=True)
class Integer(Constraint):
    """An integer of at least ``minimum`` and, where there is one, at most ``maximum``; no bool."""

    minimum: int = 1
    maximum: int | None = None

    def __str__(self) -> str:
        if self.maximum is None:
            return f"an integer of at least {self.minimum}"
        return f"an integer from {self.minimum} to {self.maximum}"


@dataclass(frozen=True)
class Positive(Constraint):
    """A finite number above 0 that is also below ``below`` and at most ``at_most``."""

    below: float = math.inf
    at_most: float = math.inf
    noun: str = "a number"

    def __str__(self) -> str:
        if self.below < math.inf:
            return f"{self.noun} between 0 and {self.below:g}"
        if self.at_most < math.inf:
            return f"{self.noun} above 0 and at most {self.at_most:g}"
        return "a finite number above 0"


class Nonnegative(Constraint):
    """A finite number of at least 0."""

    def __str__(self) -> str:
        return "a finite number of at least 0"


@dataclass(frozen=True)
class Between(Constraint):
    """A number from ``low`` to ``high``, both included."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"a number from {self.low:g} to {self.high:g}"


class NumberOption(Constraint):
    """One of some numbers."""

    def __init__(self, *options: float) -> None:
        self.options = options

    def __str__(self) -> str:
        *others, last = (f"{option:g}" for option in self.options)
        return f"{', '.join(others)} or {last}"


@dataclass(frozen=True)
class Interval(Constraint):
    """A pair (low, high) of finite numbers, low < high; with ``low``, it begins there."""

    low: float | None = None

    def __str__(self) -> str:
        low = "low" if self.low is None else f"{self.low:g}"
        return f"({low}, high), finite numbers {low} < high"


class Option(Constraint):
    """One of some strings."""

    def __init__(self, *options: str) -> None:
        self.options = options

    def __str__(self) -> str:
        if len(self.options) < 3:
            return " or ".join(map(repr, self.options))
        return f"one of {', '.join(map(repr, self.options))}"


class Flag(Constraint):
    """True or False; 0 and 1 are integers."""

    def __str__(self) -> str:
        return "True or False"


class MemorySize(Constraint):
    """A number of bytes, or a string such as "2GB" (powers of 1000) or "500 MiB" (of 1024)."""

    def __str__(self) -> str:
        return "a number of bytes above 0 or a string such as '2GB' or '500 MiB'"


class Missing(Constraint):
    """None."""

    def __str__(self) -> str:
        return "None"


@dataclass(frozen=True)
class InstanceOf(Constraint):
    """An instance of one of some types, described by a text: "an array", "a callable"."""

    types: type | tuple[type, ...]
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class ArrayLike(Constraint):
    """A list, a tuple, an array, a sparse matrix or a data frame, described by a text."""

    text: str

    def __str__(self) -> str:
        return self.text


class PositiveNumbers(Constraint):
    """A 1-d array, a list or a tuple of finite numbers above 0."""

    def __str__(self) -> str:
        return "an array of finite numbers above 0"


@dataclass(frozen=True)
class Function(Constraint):
    """A callable that is neither a class nor an instance of ``excluded``, described by a text."""

    text: str
    excluded: type | tuple[type, ...] = ()

    def __str__(self) -> str:
        return self.text


class Seed(Constraint):
    """None, an integer from 0 to 2^64 - 1, or NumPy's Generator or RandomState."""

    def __str__(self) -> str:
        return "None, an integer from 0 to 2^64 - 1, a numpy Generator or a RandomState"


class Threads(Constraint):
    """A number of threads: None and -1 for all that the process may use, -2 for all but one."""

    def __str__(self) -> str:
        return "None, an integer of at least 1, or negative (-1 for all)"


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
    options = [option for one in alternatives if isinstance(one, Option) for option in one.options]
    near = difflib.get_close_matches(value, options, n=1) if isinstance(value, str) else []
    hint = f" Did you mean {near[0]!r}?" if near else ""
    text = f" must be {describe_constraints(alternatives)}, got {value!r}.{hint}"
    raise ParameterError(estimator_name, Setting(name), text)


def describe_constraints(alternatives: Sequence[Constraint]) -> str:
    """Return the alternatives of a parameter as text: "an integer of at least 1, or 'auto'"."""
    *others, last = map(str, alternatives)
    return f"{', '.join(others)}, or {last}" if others else last


def validate_arguments(**constraints: Constraint) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function: arguments outside their constraints raise a ParameterError."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def validated(*args: P.args, **kwargs: P.kwargs) -> T:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            for name, constraint in constraints.items():
                validate_parameter(function.__name__, name, bound.arguments[name], constraint)
            return function(*args, **kwargs)

        return validated

    return decorate


def validate_option(
    estimator_name: str, name: str, value: object, options: Iterable[str], hint: str = ""
) -> str:
    """Return a value that is one of the options; otherwise raise with a hint or the nearest."""
    options = list(options)
    if isinstance(value, str) and value in options:
        return value
    near = difflib.get_close_matches(str(value), options, n=1)
    hint = hint or (f" Did you mean {near[0]!r}?" if near else "")
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


def validate_probability(estimator_name: str, name: str, value: Any) -> float:
    """Return a value that is strictly between 0 and 1 as a float."""
    validate_parameter(estimator_name, name, value, Positive(below=1))
    return float(value)


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


def _is_generator(value: object) -> bool:
    """Return whether a value is NumPy's Generator or RandomState, without importing NumPy."""
    return any(
        base.__name__ in ("Generator", "RandomState") and base.__module__[:12] == "numpy.random"
        for base in type(value).__mro__
    )


def _bytes(value: Any) -> int | None:
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kKMGT]?)(i?)B?\s*", value)
        if match is None:
            return None
        number, prefix, binary = match.groups()
        value = int(float(number) * (1024 if binary else 1000) ** _PREFIXES.index(prefix.upper()))
    return int(value) if value in Integer() else None

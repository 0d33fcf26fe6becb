"""Every parameter of every map is constrained; a value outside raises an error that names it."""

import inspect

import numpy as np
import pytest
from sklearn.base import clone

from mercer.errors import ParameterError
from mercer.kernels import Additive, Chi2, Gaussian, Kernel
from mercer.maps import registry
from mercer.validation.parameters import (
    ArrayLike,
    Flag,
    Function,
    InstanceOf,
    Integer,
    Interval,
    Missing,
    Nonnegative,
    NumberOption,
    Option,
    Positive,
    PositiveNumbers,
    Seed,
    Threads,
    validate_parameters,
)

PARAMETERS = [(cls, name) for cls in registry().values() for name in cls.parameter_constraints]
CASES = [case for cls in registry().values() for case in (cls(), *cls.cases())]
ROWS = np.array([[0.5, 0.25], [0.125, 1.0], [0.75, 0.5]])


class Wrong:
    """A value that no parameter may have."""

    def __repr__(self) -> str:
        return "Wrong()"


@pytest.mark.parametrize("cls", registry().values(), ids=lambda cls: cls.__name__)
def test_every_parameter_of_a_map_has_constraints(cls):
    assert list(cls.parameter_constraints) == list(inspect.signature(cls).parameters)


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(repr(case).split()))
def test_defaults_and_cases_satisfy_their_constraints(case):
    validate_parameters(case)


@pytest.mark.parametrize(
    ("cls", "name"), PARAMETERS, ids=[f"{cls.__name__}-{name}" for cls, name in PARAMETERS]
)
@pytest.mark.parametrize(
    "value", [Wrong(), Wrong, "no such option", -0.5], ids=["object", "class", "option", "number"]
)
def test_a_wrong_value_is_refused_by_name_in_fit(cls, name, value):
    case = clone(cls()).set_params(**{name: value})
    with pytest.raises(ParameterError) as caught:
        case.fit(ROWS)
    assert (caught.value.estimator_name, caught.value.parameter) == (cls.__name__, name)
    sentence = str(caught.value)
    assert sentence.startswith(f"{cls.__name__}: {name} must be ")
    assert f", got {value!r}." in sentence
    for constraint in cls.parameter_constraints[name]:
        assert str(constraint) in sentence


@pytest.mark.parametrize(
    ("constraint", "text", "inside", "outside"),
    [
        (Integer(), "an integer of at least 1", [1, np.int32(7)], [0, 1.0, True, None, "1"]),
        (Integer(1, 16), "an integer from 1 to 16", [1, 16], [0, 17]),
        (Positive(), "a finite number above 0", [1, 1e-300, np.float32(2)], [0, np.inf, np.nan]),
        (Positive(below=1), "a number between 0 and 1", [0.5], [1, 1.0, 0.0, True]),
        (Positive(at_most=2), "a number above 0 and at most 2", [2, 2.0], [2.1, 0, np.nan]),
        (
            Positive(below=1, noun="a share of the variance"),
            "a share of the variance between 0 and 1",
            [0.5],
            [1],
        ),
        (Nonnegative(), "a finite number of at least 0", [0, 0.0, 3], [-1e-9, np.inf, False]),
        (NumberOption(0.5, 1.5, 2.5), "0.5, 1.5 or 2.5", [0.5, np.float32(1.5)], [1, "0.5", True]),
        (Option("a"), "'a'", ["a"], ["b", 1]),
        (Option("a", "b"), "'a' or 'b'", ["a", "b"], ["c", np.array(["a", "b"])]),
        (Option("a", "b", "c"), "one of 'a', 'b', 'c'", ["c"], ["d"]),
        (Flag(), "True or False", [True, np.False_], [0, 1, "True", None]),
        (Missing(), "None", [None], [0, ""]),
        (
            Interval(),
            "(low, high), finite numbers low < high",
            [(-1, 1.5), [0, np.float64(1)]],
            [(1, 1), (0, np.inf), (0,), "01", (0, "1"), (False, True), None],
        ),
        (Interval(low=0), "(0, high), finite numbers 0 < high", [(0, 1), (0.0, 2)], [(0.1, 1)]),
        (
            PositiveNumbers(),
            "an array of finite numbers above 0",
            [[1, 2.5], (0.5,), np.ones(3), np.ones(2, np.float32)],
            [[0], [np.nan], [np.inf], np.ones((2, 2)), "12", 3, [[1]], ["1"], np.array(1.0)],
        ),
        (ArrayLike("rows"), "rows", [[[1]], np.ones(2)], ["rows", 1, None, np.ndarray]),
        (Function("a callable"), "a callable", [len, Gaussian()], [Gaussian, 1, "len"]),
        (Function("a callable", excluded=Kernel), "a callable", [len], [Gaussian(), Gaussian]),
        (InstanceOf(Additive, "a sum"), "a sum", [Chi2()], [Gaussian(), Chi2]),
        (
            Seed(),
            "None, an integer from 0 to 2^64 - 1, a numpy Generator or a RandomState",
            [None, 0, 2**64 - 1, np.random.default_rng(0), np.random.RandomState(0)],
            [-1, 2**64, 0.5, True, "0", np.random.Generator],
        ),
        (
            Threads(),
            "None, an integer of at least 1, or negative (-1 for all)",
            [None, 1, -2, np.int64(4)],
            [0, 1.5, True, "2"],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_constraints(constraint, text, inside, outside):
    assert str(constraint) == text
    assert [value for value in inside if value not in constraint] == []
    assert [value for value in outside if value in constraint] == []

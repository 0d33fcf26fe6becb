"""Options of mercer fit from the declaration of the estimators' parameters."""

from __future__ import annotations

import pytest

from mercer.cli._parameters import ParameterType, option_name
from mercer.cli.fit import fit
from mercer.errors import ParameterError
from mercer.linear_model.parameters import ESTIMATOR_PARAMETERS


def convert(name: str, text: str) -> object:
    return ParameterType(name, ESTIMATOR_PARAMETERS[name]).convert(text, None, None)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("alpha", "0.5", 0.5),
        ("alpha", "[0.1, 1]", [0.1, 1]),
        ("alpha", "gcv", "gcv"),
        ("penalty", "group", "group"),
        ("fit_intercept", "false", False),
        ("pca", "32", 32),
        ("pca", "none", None),
        ("class_weight", "balanced", "balanced"),
        ("class_weight", '{"1": 3}', {"1": 3}),
        ("max_memory", "2GB", "2GB"),
        ("checkpoint", "1", "1"),
        ("cluster", "tcp://localhost:8786", "tcp://localhost:8786"),
        ("device", "cuda:0", "cuda:0"),
        ("n_jobs", "-1", -1),
        ("tol", "1e-3", 1e-3),
    ],
)
def test_a_text_is_the_value_that_the_constraints_allow(name, text, value):
    converted = convert(name, text)
    assert (type(converted), converted) == (type(value), value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("alpha", "big", "alpha must be a number of at least 0, a list of such numbers, or one of"),
        ("alpha", "gvc", "Did you mean 'gcv'?"),
        ("fit_intercept", "0", "fit_intercept must be True or False, got 0."),
        ("pca", "1.5", "pca must be an integer of at least 1, or None, got 1.5."),
        ("max_memory", "lots", "max_memory must be a number of bytes above 0"),
        ("tol", "0", "tol must be a finite number above 0, got 0."),
    ],
)
def test_other_texts_are_refused_by_the_constraints(name, text, message):
    with pytest.raises(ParameterError) as caught:
        convert(name, text)
    assert message in str(caught.value)
    assert caught.value.parameter == name


def test_there_is_an_option_for_every_parameter():
    options = {option.opts[0]: option for option in fit.params}
    assert set(options) >= {option_name(name) for name in set(ESTIMATOR_PARAMETERS) - {"verbose"}}
    assert options["--alpha"].metavar == "NUMBER|auto|gcv|kfold|loo|evidence"
    assert options["--checkpoint"].metavar == "FILE"
    assert options["--loss"].help.endswith("Classifiers only.  [default: squared]")

"""The table of parameters agrees with the constructors, and states what they accept."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mercer import KernelClassifier, KernelRegressor, RandomFourier
from mercer.linear_model.parameters import ESTIMATOR_PARAMETERS, validate_estimator


def defaults_of(cls):
    return {name: one.default for name, one in inspect.signature(cls).parameters.items()}


def test_names_defaults_and_order_are_those_of_the_constructors():
    table = {name: entry.default for name, entry in ESTIMATOR_PARAMETERS.items()}
    assert list(defaults_of(KernelClassifier).items()) == list(table.items())
    shared = {
        name: entry.default
        for name, entry in ESTIMATOR_PARAMETERS.items()
        if not entry.classifier_only
    }
    assert list(defaults_of(KernelRegressor).items()) == list(shared.items())


def test_defaults_satisfy_their_constraints_and_every_entry_has_one_line_of_help():
    for cls in (KernelClassifier, KernelRegressor):
        validate_estimator(cls())
    for entry in ESTIMATOR_PARAMETERS.values():
        assert entry.help.endswith(".")
        assert "\n" not in entry.help


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("feature_map", [RandomFourier(4), "hellinger"]),
        ("alpha", 0),
        ("alpha", np.float32(1)),
        ("alpha", np.array([0.1, 1.0])),
        ("alpha", "loo"),
        ("pca", np.int64(3)),
        ("max_memory", "2GB"),
        ("checkpoint", Path("sums")),
        ("n_jobs", -1),
        ("verbose", True),
        ("class_weight", {"a": 2.0}),
    ],
)
def test_values_that_are_accepted(name, value):
    validate_estimator(KernelClassifier(**{name: value}))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("feature_map", [], "feature_map must be a mercer map"),
        ("feature_map", 3, "feature_map must be a mercer map"),
        ("alpha", -1.0, "alpha must be a number of at least 0, a list of such numbers, or one of"),
        ("alpha", [], "alpha must be"),
        ("alpha", True, "alpha must be"),
        ("alpha", "gvc", "Did you mean 'gcv'"),
        ("loss", "logistc", "loss must be one of.*Did you mean 'logistic'"),
        ("penalty", "l3", "penalty must be one of 'l2', 'l1', 'group'"),
        ("fit_intercept", 1, "fit_intercept must be True or False"),
        ("pca", 0, "pca must be an integer of at least 1"),
        ("class_weight", "even", "class_weight must be None, 'balanced', or a dictionary"),
        ("max_iter", 0, "max_iter must be an integer of at least 1"),
        ("tol", 0.0, "tol must be a finite number above 0"),
        ("max_memory", "2 giga", "max_memory must be a number of bytes"),
        ("checkpoint", 7, "checkpoint must be a path"),
        ("precision", "fp8", "precision must be"),
        ("n_jobs", 0, "n_jobs must be None, an integer of at least 1"),
        ("verbose", -1, "verbose must be"),
    ],
)
def test_values_that_are_refused(name, value, message):
    with pytest.raises(ValueError, match=f"KernelClassifier: .*{message}"):
        validate_estimator(KernelClassifier(**{name: value}))


def test_the_table_loads_neither_numpy_nor_scikit_learn():
    code = (
        "import sys; import mercer.linear_model.parameters; "
        "assert not {'numpy', 'sklearn', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

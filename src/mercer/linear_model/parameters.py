"""Parameters of KernelRegressor and KernelClassifier: constraints, defaults and help texts.

The estimators validate from this table, and ``mercer fit --help`` is written from it. Importing it
loads neither NumPy nor scikit-learn; a constraint that needs them imports them when it is tested.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from mercer.validation.parameters import (
    Constraint,
    Flag,
    InstanceOf,
    Integer,
    MemorySize,
    Missing,
    Option,
    Positive,
    Threads,
    validate_parameter,
)


class FeatureMaps(Constraint):
    """A map, a composition of maps, the name of a map, or a non-empty list of these."""

    def __contains__(self, value: object) -> bool:
        from mercer.maps.base import Map

        if isinstance(value, list | tuple):
            return len(value) > 0 and all(part in self for part in value)
        return isinstance(value, str | Map)

    def __str__(self) -> str:
        return (
            "a mercer map, a composition of maps, a registered name such as 'fourier', or a list "
            "of these"
        )


class NonNegativeNumbers(Constraint):
    """A finite number of at least 0, or a non-empty list of such numbers."""

    def __contains__(self, value: object) -> bool:
        import numpy as np

        if isinstance(value, str):
            return False
        numbers = np.asarray(value)
        return (
            numbers.dtype.kind in "iuf"
            and numbers.ndim <= 1
            and numbers.size > 0
            and bool(np.all((numbers >= 0) & (numbers < np.inf)))
        )

    def __str__(self) -> str:
        return "a number of at least 0, a list of such numbers"


@dataclass(frozen=True)
class Parameter:
    """One parameter of the estimators.

    Attributes
    ----------
    default : object
        Default value in the constructor.
    help : str
        One line for ``mercer fit --help``.
    constraints : tuple of Constraint
        Alternatives that a value may satisfy; empty where only its use can tell (an address, a
        device, a random state).
    classifier_only : bool
    """

    default: Any
    help: str
    constraints: tuple[Constraint, ...] = ()
    classifier_only: bool = False


ESTIMATOR_PARAMETERS: dict[str, Parameter] = {
    "feature_map": Parameter(
        "fourier",
        "A feature map, or several side by side.",
        (FeatureMaps(),),
    ),
    "scale": Parameter(
        "auto",
        "Centre columns and divide them by their spread: true, false, or auto, which does so for "
        "kernels of differences whose bandwidth comes from the data.",
        (Flag(), Option("auto")),
    ),
    "metric": Parameter(
        None,
        "learned to weight the columns, and their combinations, by how much the target depends on "
        "them.",
        (Option("learned"), Missing()),
    ),
    "loss": Parameter(
        "squared",
        "squared, squared_hinge, logistic (one versus rest) or log_loss (multinomial).",
        (Option("squared", "squared_hinge", "logistic", "log_loss"),),
        classifier_only=True,
    ),
    "alpha": Parameter(
        "auto",
        "Regularization: a number, [a,list] to choose from, or auto, gcv, kfold, loo, evidence.",
        (NonNegativeNumbers(), Option("auto", "gcv", "kfold", "loo", "evidence")),
    ),
    "penalty": Parameter(
        "l2",
        "l2; l1 for sparse coefficients, group for sparse maps (both with squared loss).",
        (Option("l2", "l1", "group"),),
    ),
    "fit_intercept": Parameter(True, "false to fit no intercept.", (Flag(),)),
    "pca": Parameter(
        None,
        "Fit on this number of principal components of each map.",
        (Integer(), Missing()),
    ),
    "uncertainty": Parameter(
        False,
        "true to measure and store standard deviations, intervals and probabilities.",
        (Flag(),),
    ),
    "class_weight": Parameter(
        None,
        'balanced, or {"label": weight, ...}.',
        (Missing(), Option("balanced"), InstanceOf(dict, "a dictionary label -> weight")),
        classifier_only=True,
    ),
    "max_iter": Parameter(
        100,
        "Maximum number of Newton steps.",
        (Integer(),),
        classifier_only=True,
    ),
    "tol": Parameter(
        1e-4,
        "Tolerance of Newton's method, relative to the coefficients.",
        (Positive(),),
        classifier_only=True,
    ),
    "max_memory": Parameter(
        None,
        "Memory for normal equations or Hessians, such as 2GB, beside a few blocks of rows.",
        (MemorySize(), Missing()),
    ),
    "checkpoint": Parameter(
        None,
        "File from which an interrupted fit resumes (squared loss, normal equations).",
        (InstanceOf((str, os.PathLike), "a path"), Missing()),
    ),
    "cluster": Parameter(None, "Address of a Dask scheduler."),
    "device": Parameter(None, "GPU: cuda or cuda:0 (needs torch)."),
    "precision": Parameter(
        None,
        "Precision of float32 products on a GPU: float32, tf32 or bf16.",
        (Option("float32", "tf32", "bf16"), Missing()),
    ),
    "n_jobs": Parameter(None, "Number of threads; all of them by default.", (Threads(),)),
    "verbose": Parameter(
        0,
        "1 prints the plan, 2 also the progress.",
        (Integer(0), Flag()),
    ),
    "random_state": Parameter(None, "Seed of the feature map."),
}
"""Parameter name -> Parameter, in the order of KernelClassifier's constructor."""


def validate_estimator(estimator: Any) -> None:
    """Raise a ParameterError for the first parameter of an estimator outside its constraints."""
    name = type(estimator).__name__
    for parameter, entry in ESTIMATOR_PARAMETERS.items():
        if entry.constraints and hasattr(estimator, parameter):
            value = getattr(estimator, parameter)
            validate_parameter(name, parameter, value, *entry.constraints)

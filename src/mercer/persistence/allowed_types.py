"""Classes that may be in a model file, with the types of their fields and fitted attributes."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import kernels, maps
from mercer.data.table_schema import TableColumn, TableSchema
from mercer.linear_model.calibration import Calibration
from mercer.linear_model.classifier import KernelClassifier
from mercer.linear_model.conformal import ConformalIntervals
from mercer.linear_model.exact_variance import ExactVariance
from mercer.linear_model.left_out import FoldModels
from mercer.linear_model.posterior import Posterior
from mercer.linear_model.prediction_sets import PredictionSets
from mercer.linear_model.predictor import LinearPredictor
from mercer.linear_model.regressor import KernelRegressor
from mercer.linear_model.routes import Plan
from mercer.linear_model.solvers.ridge import AlphaSearch
from mercer.maps import every_map, stages

_SKLEARN_ATTRIBUTES = {
    "n_features_in_": int,
    "feature_names_in_": NDArray[Any] | None,
    "_sklearn_output_config": dict | None,
}


@dataclass(frozen=True)
class AllowedClasses:
    """Classes that may be in a file, by name; all others are refused.

    Attributes
    ----------
    models : mapping of str to type
        Maps and estimators.
    records : mapping of str to type
        Dataclasses and named tuples that models consist of.
    """

    models: Mapping[str, type]
    records: Mapping[str, type]

    @functools.cached_property
    def attributes(self) -> dict[str, dict[str, Any]]:
        """Names and types of the fitted attributes of each model."""
        return {name: _fitted_attributes(cls) for name, cls in self.models.items()}

    @functools.cached_property
    def fields(self) -> dict[str, dict[str, Any]]:
        """Names and types of the fields of each record."""
        types = {}
        for name, cls in self.records.items():
            hints = typing.get_type_hints(cls)
            names = [f.name for f in fields(cls)] if is_dataclass(cls) else cls._fields  # type: ignore[attr-defined]
            types[name] = {field: hints[field] for field in names}
        return types

    @functools.cached_property
    def names(self) -> dict[type, str]:
        """Name of each class."""
        return {cls: name for name, cls in (*self.models.items(), *self.records.items())}


@functools.cache
def allowed_classes() -> AllowedClasses:
    """Return the maps, the estimators and the dataclasses they consist of.

    Dataclasses that hold functions are excluded.
    """
    models = {cls.__name__: cls for cls in (*every_map(), KernelRegressor, KernelClassifier)}
    other = (
        LinearPredictor,
        AlphaSearch,
        Plan,
        TableSchema,
        TableColumn,
        Posterior,
        ExactVariance,
        FoldModels,
        ConformalIntervals,
        Calibration,
        PredictionSets,
    )
    records: dict[str, type] = {cls.__name__: cls for cls in other}
    for package in (kernels, stages, maps):
        for info in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{info.name}")
            for value in list(vars(module).values()):
                defined_here = getattr(value, "__module__", None) == module.__name__
                if (
                    defined_here
                    and isinstance(value, type)
                    and is_dataclass(value)
                    and not any(map(_is_callable_type, typing.get_type_hints(value).values()))
                ):
                    assert records.setdefault(value.__name__.lstrip("_"), value) is value, value
    return AllowedClasses(models, records)


def required_fields(cls: type) -> set[str]:
    """Return the fields without a default; fields added later have one, so older files load."""
    if not is_dataclass(cls):
        return set(cls._fields) - set(cls._field_defaults)  # type: ignore[attr-defined]
    return {f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING}


def has_type(value: Any, hint: Any) -> bool:
    """Return whether a value has the annotated type; floats must not be NaN."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    # a named alias, such as NumPy's NDArray from 2.5 on
    if hasattr(origin, "__value__"):
        origin = typing.get_origin(origin.__value__)
    if hint is Any:
        return value is not None and (not isinstance(value, float) or value == value)
    if origin in (typing.Union, types.UnionType):
        return any(has_type(value, option) for option in inner)
    if origin is tuple:
        return isinstance(value, tuple) and all(has_type(item, inner[0]) for item in value)
    if origin is not None:
        return isinstance(value, origin)
    if hint is float:
        return isinstance(value, float | np.floating) and bool(value == value)
    if hint is int:
        return is_integer(value)
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    return isinstance(value, hint)


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer and not a boolean."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _fitted_attributes(cls: type) -> dict[str, Any]:
    """Return the annotated attributes of a class and its bases in mercer that are no parameters."""
    hints: dict[str, Any] = {**_SKLEARN_ATTRIBUTES}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] == __name__.partition(".")[0]:
            hints |= inspect.get_annotations(base, eval_str=True)
    params = inspect.signature(cls).parameters
    return {
        name: hint for name, hint in hints.items() if name not in params and not hasattr(cls, name)
    }


def _is_callable_type(hint: Any) -> bool:
    return typing.get_origin(hint) is Callable or any(map(_is_callable_type, typing.get_args(hint)))

"""Intake: what a model is given to learn from or to predict, as a stream of the right width."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, validate_data

from mercer.data import Stream, open_stream
from mercer.data.column_roles import TARGET
from mercer.data.matrix import MatrixStream
from mercer.errors import ParameterError, Setting
from mercer.linear_model.normal_equations import Array
from mercer.linear_model.targets import is_source, require_targets
from mercer.maps.base import Map, convert_tensor
from mercer.parallel import devices
from mercer.validation.rows import drop_index_columns
from mercer.validation.sparse import canonical_csr
from mercer.validation.times import refuse_times

_COLUMNS = Setting("columns", text="open_stream(source, columns=[...])")


class Intake(BaseEstimator):
    """An estimator whose rows come from memory, by scikit-learn's rules, or from a stream. A
    subclass says what targets are.
    """

    feature_map_: Map

    def _numeric(self) -> bool:
        """Whether targets are numbers; labels otherwise."""
        raise NotImplementedError

    def _checked(self, y: Array) -> Array:
        """Targets in memory, once they are known to be right."""
        raise NotImplementedError

    def _open(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Stream:
        """X, y and weights as a stream of the right width."""
        who = type(self).__name__
        if not is_source(X):
            return self._in_memory(X, y, sample_weight, reset=reset)
        opened = open_stream(X)
        fitted_on = (
            [] if reset or isinstance(X, Stream) else list(getattr(self, "feature_names_in_", ()))
        )
        if set(opened.left_out) & set(fitted_on):  # it was an input then
            opened = open_stream(X, columns=fitted_on)
        stream = copy.copy(opened).beside(y, sample_weight)  # a copy: the caller's has its own y
        names = (
            None if isinstance(stream, MatrixStream) else stream.columns
        )  # a matrix has numbers for names
        if reset:
            self.n_features_in_ = stream.width
            if names is not None:
                self.feature_names_in_ = np.array(names, dtype=object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            self._must_have_target(stream)
        if stream.width != self.n_features_in_:
            raise ParameterError(
                "",
                f"{stream.name} has {stream.width} columns, but {who} is expecting "
                f"{self.n_features_in_}. ",
                "Choose them with ",
                _COLUMNS,
                ".",
            )
        known = getattr(self, "feature_names_in_", None)
        if known is not None and names is not None and list(names) != list(known):
            seen, fitted = next((a, b) for a, b in zip(names, known, strict=True) if a != b)
            raise ParameterError(
                "",
                f"{stream.name} has the column {seen!r} where {who} was fitted on {fitted!r}. ",
                "Put them in order with ",
                _COLUMNS,
                ".",
            )
        return stream

    def _in_memory(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Stream:
        options: Any = {
            "accept_sparse": "csr",
            "dtype": [np.float64, np.float32],
            "ensure_all_finite": False,
        }
        targets = weights = None
        X = drop_index_columns(X, () if reset else getattr(self, "feature_names_in_", ()))
        y, sample_weight = (devices.brought_home(values) for values in (y, sample_weight))
        who = type(self).__name__
        for values, what in ((X, "X"), (y, "y"), (sample_weight, "sample_weight")):
            refuse_times(who, values, what)
        X = canonical_csr(who, X) if hasattr(X, "tocsr") else X
        if devices.is_tensor(X):
            rows = convert_tensor(self, X, reset=reset)
            if y is not None or reset:
                require_targets(who, y)
                targets = self._checked(np.asarray(y))
                check_consistent_length(rows, targets)
        elif y is None and not reset:
            plain = type(X) is np.ndarray and self.feature_map_._is_plain(X)
            rows = X if plain else validate_data(self, X, reset=False, **options)
        else:
            require_targets(who, y)
            numeric = self._numeric()
            rows, targets = validate_data(
                self, X, y, reset=reset, multi_output=True, y_numeric=numeric, **options
            )
            targets = self._checked(targets)
        if sample_weight is not None:
            weights = _check_sample_weight(
                sample_weight, rows, dtype=np.float64, ensure_non_negative=True
            )
        stream = open_stream(rows).beside(targets, weights)
        if hasattr(self, "feature_names_in_"):
            stream.columns = tuple(map(str, self.feature_names_in_))
        return stream

    def _must_have_target(self, stream: Stream) -> None:
        if stream.target is None:
            who = type(self).__name__
            raise ParameterError(
                "", f"{who} requires y: open the rows with a target, ", TARGET, "."
            )

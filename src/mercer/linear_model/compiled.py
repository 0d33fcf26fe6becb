"""Predictor: the scores of one row, or of a few, without the layers of streams and devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.linear_model.predictor import LinearPredictor
from mercer.maps._transform import cast_transform
from mercer.maps.base import Map
from mercer.maps.block import Dense
from mercer.parallel.threads import row_slices
from mercer.validation.rows import require_finite_features

_ROWS = 256  # whose features exist at once


class Predictor:
    """f(x) = b + phi(x)'c for a row of numbers, or a few, in the calling thread.

    It has the map and the coefficients of a model, is not changed by predictions, and may be used
    by any number of threads. ``KernelRegressor.compiled`` and ``KernelClassifier.compiled``
    construct it.

    Attributes
    ----------
    n_features_in_ : int
        Numbers of a row.
    dtype : dtype
        Of the arithmetic; rows of other dtypes are cast.
    """

    def __init__(
        self,
        feature_map: Map,
        predictor: LinearPredictor,
        dtype: Any,
        decode: Callable[[Array], Array],
        decode_probabilities: Callable[[Array], Array] | None,
    ) -> None:
        self.n_features_in_ = int(feature_map.n_features_in_)
        self.dtype = np.dtype(dtype)
        self._map = feature_map
        self._transform = cast_transform(feature_map.tile_transform_, self.dtype)
        self._coef = np.ascontiguousarray(predictor.coef.astype(self.dtype))
        self._predictor = predictor
        self._decode = decode
        self._decode_probabilities = decode_probabilities
        if not np.isfinite(self._coef).all():
            raise ValueError(
                f"The model has coefficients up to {np.abs(predictor.coef).max():.2g}, outside the "
                f"range of {self.dtype}: use compiled('float64')."
            )

    def __repr__(self) -> str:
        features, outputs = self._coef.shape
        return (
            f"Predictor({self.n_features_in_:,} columns -> {features:,} features -> {outputs} "
            f"{'output' if outputs == 1 else 'outputs'}, {self.dtype})"
        )

    def predict(self, X: Any) -> Any:
        """Predict the target, or the class, of each row.

        Parameters
        ----------
        X : array-like of shape (n_features,) or (n_samples, n_features)
            Finite numbers, in the order of the columns of ``fit``.

        Returns
        -------
        number, label or array
            As of the model's ``predict``; of a 1-d X its only element.
        """
        return self._decode_rows(X, self._decode)

    def decision_function(self, X: Any) -> Array:
        """Return b + phi(x)'c.

        Parameters
        ----------
        X : array-like of shape (n_features,) or (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_outputs)
            One number for each row where there is one output; of a 1-d X its only element.
        """
        return self._decode_rows(X, lambda scores: scores if scores.shape[1] > 1 else scores[:, 0])

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, where the model has one.

        Parameters
        ----------
        X : array-like of shape (n_features,) or (n_samples, n_features)

        Returns
        -------
        array of shape (n_classes,) or (n_samples, n_classes)
        """
        if self._decode_probabilities is None:
            raise AttributeError(
                "The model has no probabilities. Fit a KernelClassifier with loss='log_loss' or "
                "uncertainty=True, or "
                "call predict_proba of the model once before compiled()."
            )
        return self._decode_rows(X, self._decode_probabilities)

    def _decode_rows(self, X: Any, decode: Callable[[Array], Array]) -> Any:
        if hasattr(X, "columns") or hasattr(X, "toarray"):
            raise TypeError(
                f"A compiled predictor needs an array of numbers, got a {type(X).__name__}: use "
                "predict of the model, or give X.to_numpy() or X.toarray()."
            )
        rows = np.ascontiguousarray(X, dtype=self.dtype)
        single = rows.ndim == 1
        if single:
            rows = rows[None]
        if rows.ndim != 2 or rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"A compiled predictor needs rows of {self.n_features_in_} numbers, as many as the "
                f"model was fitted to, got an array of shape {np.shape(X)}."
            )
        if len(rows) <= _ROWS:
            scores = self._scores(rows)
        else:
            scores = np.concatenate([self._scores(rows[s]) for s in row_slices(len(rows), _ROWS)])
        decoded = decode(scores)
        return decoded[0] if single else decoded

    def _scores(self, rows: Array) -> Array:
        if not self._transform.validates_input:
            self._map._validate_values(rows)
        block = self._transform(rows)
        scores = (block @ self._coef).astype(np.float64, copy=False)
        if self.dtype == np.float32 and isinstance(block, Dense):
            self._predictor.restore_cancelled(block.Z, scores)
        scores += self._predictor.intercept
        require_finite_features(rows, scores)
        if self._map.bounds_ is not None:
            self._map.bounds_(rows, numbered=False)
        return scores

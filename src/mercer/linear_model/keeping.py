"""Keeping: a fitted model on its way to a file, to another process, or over the chunks of a Dask
array.
"""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from mercer.linear_model import heads
from mercer.linear_model.mapping import make_map, widths_of
from mercer.maps.base import Map
from mercer.parallel.dask_cluster import map_chunks
from mercer.parallel.tile_size import Plan
from mercer.rng import seed_from
from mercer.validation.parameters import validate_flag, validate_parameters

MOMENTS = (
    "_seen",
    "_beside",
)  # what partial_fit adds to: neither a file nor another process has them


class Keeping(BaseEstimator):
    """What a fitted model is beside its parameters, and how it travels."""

    # What fit finds, by its type: a model file has these attributes, scikit-learn's, and no others:
    # no moments.
    feature_map_: Map
    plan_: Plan
    seed_: int
    _head: heads.Head | None
    _columns: bool  # targets came as columns
    _taken: int  # rows

    def _solved(self) -> heads.Head:
        raise NotImplementedError

    def _forget(self) -> None:
        """A fit that fails leaves no model."""
        for name in {*MOMENTS, "_head"} & set(vars(self)):
            delattr(self, name)

    def _lazily(self, method: str, X: Any, dtype: np.dtype[Any], *, wide: bool) -> Any:
        """What a method gives for the chunks of a Dask array, as one."""
        return map_chunks(self, method, X, self._solved().coef.shape[1] if wide else None, dtype)

    def _packed(self) -> Self:
        """A copy for another process, which predicts and knows no more."""
        self._solved()
        other = copy.copy(self)
        other.cluster = None
        other.feature_map_ = self.feature_map_._packed()
        for name in MOMENTS:
            other.__dict__.pop(name, None)
        return other

    def _unpacked(self) -> Self:
        other = copy.copy(self)
        other.feature_map_ = self.feature_map_._unpacked()
        return other

    def _kept(self) -> dict[str, Any]:
        """What fit has found, by attribute: beside the parameters, all that a model file holds.
        Moments are not kept.
        """
        self._solved()
        params = self.get_params(deep=False)
        return {
            name: value for name, value in vars(self).items() if name not in {*params, *MOMENTS}
        }

    def _keep(self, kept: dict[str, Any]) -> None:
        """Take over what _kept gave, when its parts go together."""
        self.__dict__.update(kept)
        who = type(self).__name__
        heads.check_alpha(who, self.alpha)
        validate_flag(who, "fit_intercept", self.fit_intercept)
        seed_from(who, self.seed_)
        head, made = self._head, self.feature_map_
        if head is None:
            raise ValueError(f"{who} has no head.")
        feature_map = make_map(who, self.feature_map, None, None)
        validate_parameters(feature_map)
        feature_map.check(self.n_features_in_)
        if made.n_features_in_ != self.n_features_in_:
            raise ValueError(
                f"{who} has {self.n_features_in_} columns, and its map {made.n_features_in_}."
            )
        head.check(made._n_features_out)
        heads.check_head(who, self.penalty, self.alpha, self.pca, tuple(widths_of(made).values()))

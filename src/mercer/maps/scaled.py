"""Columns of one spread: for tables whose columns have unlike units, before a map that takes
columns as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.kernels import Kernel
from mercer.kernels import Scaled as ScaledKernel
from mercer.maps._transform import Chain
from mercer.maps.base import Array, Map
from mercer.maps.stages.linear import Divide
from mercer.rng import Rng
from mercer.stats.basic import ColumnSpread
from mercer.validation.parameters import Threads


class Scaled(Map):
    """phi(x) = (x_1/s_1, ..., x_d/s_d), s_i the standard deviation of column i; 1 for a column that
    is constant.

    ``Scaled() >> RandomFourier()`` has a bandwidth of its own for each column. Nothing is taken
    off, so that 0 stays 0, sparse rows stay sparse and numbers of at least 0 stay so; kernels of
    differences do not see a mean, and a model's intercept takes it.

    Parameters
    ----------
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    scale_ : array of shape (n_features,)
        s.

    Examples
    --------
    >>> from mercer import Scaled
    >>> Scaled().fit_transform([[1.0, 400.0], [3.0, 0.0]])
    array([[1., 2.],
           [3., 0.]])
    """

    name = "scaled"
    numpy_attributes = True
    kernels = ("linear",)
    paper = "columns divided by their standard deviation"
    parameter_constraints = {
        "n_jobs": (Threads(),),
    }
    size_parameter = None
    rate = None
    scale_: Array

    def __init__(self, *, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    @property
    def kernel_(self) -> Kernel:
        """sum x z/scale_^2, which the features have without error."""
        check_is_fitted(self)
        return ScaledKernel(self.scale_)

    def required_statistics(self, d: int) -> ColumnSpread:
        return ColumnSpread()

    def build(self, rng: Rng, d: int, statistics: Any) -> Chain:
        deviation: Array = statistics.deviation
        if not np.isfinite(deviation).all():
            column = int(np.argmin(np.isfinite(deviation)))
            raise ValueError(
                f"{type(self).__name__} needs columns whose squares have a finite sum, and "
                f"column {column} has not: divide it first."
            )
        self.scale_ = np.where(deviation > 0, deviation, 1.0)
        return Chain((Divide(self.scale_),))

    @classmethod
    def cases(cls) -> list[Map]:
        return [cls()]

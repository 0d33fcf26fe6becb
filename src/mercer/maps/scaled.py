"""Columns divided by their standard deviation, for tables whose columns have different units."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._typing import Array
from mercer.kernels import Kernel
from mercer.kernels import Scaled as ScaledKernel
from mercer.maps._transform import Chain
from mercer.maps.base import Map
from mercer.maps.stages.linear import Divide
from mercer.rng import Rng
from mercer.stats.basic import ColumnSpread
from mercer.validation.parameters import Threads


class Scaled(Map):
    """phi(x) = (x_1/s_1, ..., x_d/s_d), s_i the standard deviation of column i, 1 if constant.

    ``Scaled() >> RandomFourier()`` has a bandwidth of its own for each column. The mean is not
    subtracted: 0 stays 0, so that CSR rows stay sparse and nonnegative numbers nonnegative; kernels
    of differences do not depend on it, and a model has an intercept.

    Parameters
    ----------
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    scale_ : array of shape (n_features,)
        s.
    kernel_, limit_ : Kernel
        sum x z/scale_^2.

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
    statistics_name = "column scales"
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
        """sum x z/scale_^2; the features have no error."""
        check_is_fitted(self)
        return ScaledKernel(self.scale_)

    def required_statistics(self, d: int) -> ColumnSpread:
        return ColumnSpread()

    def build(self, rng: Rng, d: int, statistics: Any) -> Chain:
        deviation: Array = statistics.deviation
        if not np.isfinite(deviation).all():
            column = int(np.argmin(np.isfinite(deviation)))
            raise ValueError(
                f"{type(self).__name__} needs columns whose squares have a finite sum, and that of "
                f"column {column} is not. Divide this column by a constant first."
            )
        self.scale_ = np.where(deviation > 0, deviation, 1.0)
        return Chain((Divide(self.scale_),))

    @classmethod
    def cases(cls) -> list[Map]:
        return [cls()]

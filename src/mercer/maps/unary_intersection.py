"""Unary codes of the intersection kernel (Maji and Berg, ICCV 2009)."""

from __future__ import annotations

import numpy as np

from mercer.kernels import Intersection
from mercer.maps._coded import CodedMap
from mercer.maps.anchors import Lookup
from mercer.maps.base import Bounds, Decay, Map
from mercer.maps.stages.lookup import AnchorInterpolation, NearestAnchor
from mercer.rng import Rng
from mercer.stats.histogram import Histogram
from mercer.validation.parameters import Flag, Integer, Interval, Missing, Threads


class UnaryIntersection(CodedMap):
    """phi(x_i) = sqrt(h/N) (1, ..., 1, f, 0, ..., 0), R ones, N x_i/h = R + f, 0 <= x_i <= h.

    <phi(x), phi(z)> is sum min(x, z) within h/(4N) a column; without f, within h/N.

    Parameters
    ----------
    n_levels : int, default=20
        N, the values for each input.
    interpolate : bool, default=True
        Keep f: Maji and Berg's phi2; False is their phi1.
    feature_range : (0, float) or None, default=None
        (0, h), the same for all data; None takes the largest value of the rows in ``fit``.
    sparse_output : bool, default=True
        CSR features; False gives a dense array.
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    high_ : float
        h.
    kernel_, limit_ : Kernel
        The intersection kernel, sum min(x, z).

    Notes
    -----
    With interpolation the map is the Nystroem approximation of the intersection kernel with the
    levels as landmarks. No map of N values has an error below h/(4N) for this kernel.

    S. Maji and A. C. Berg, "Max-margin additive classifiers for detection", ICCV 2009.

    Examples
    --------
    >>> from mercer import UnaryIntersection
    >>> phi = UnaryIntersection(10, feature_range=(0, 1), sparse_output=False)
    >>> (phi.fit_transform([[0.37]]) * 10**0.5).round(4)
    array([[1. , 1. , 1. , 0.7, 0. , 0. , 0. , 0. , 0. , 0. ]])
    """

    name = "unary-intersection"
    kernels = ("intersection",)
    paper = "Maji and Berg, ICCV 2009; a comparator of Wang et al., ICCV 2015"
    parameter_constraints = {
        "n_levels": (Integer(),),
        "interpolate": (Flag(),),
        "feature_range": (Interval(low=0), Missing()),
        "sparse_output": (Flag(),),
        "n_jobs": (Threads(),),
    }
    domain = "nonnegative"
    size_parameter = "n_levels"
    nested = False
    kernel_ = Intersection()
    high_: float

    def __init__(
        self,
        n_levels: int = 20,
        *,
        interpolate: bool = True,
        feature_range: tuple[float, float] | None = None,
        sparse_output: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.n_levels = n_levels
        self.interpolate = interpolate
        self.feature_range = feature_range
        self.sparse_output = sparse_output
        self.n_jobs = n_jobs

    @property
    def rate(self) -> Decay:
        """Proportional to 1/N."""
        return Decay((16, 64, 256), 0.4)

    def required_statistics(self, d: int) -> Histogram | None:
        return Histogram() if self.feature_range is None else None

    def build(self, rng: Rng, d: int, statistics: Histogram | None) -> Lookup:
        if self.feature_range is not None:
            self.high_ = float(self.feature_range[1])
        else:
            self.high_ = statistics.high if statistics is not None and statistics.high > 0 else 1.0
        anchors = np.linspace(0.0, self.high_, self.n_levels + 1)[None]
        ones = np.tri(self.n_levels + 1, self.n_levels, -1)[None]
        table = ones * np.sqrt(self.high_ / self.n_levels)
        if self.interpolate:
            return Lookup(bool(self.sparse_output), AnchorInterpolation(anchors, table), d)
        stage = NearestAnchor(anchors[:, 1:], table, inclusive=True)
        return Lookup(bool(self.sparse_output), stage, d)

    @classmethod
    def cases(cls) -> list[Map]:
        return [
            cls(16),
            cls(16, interpolate=False),
            cls(16, feature_range=(0, 40.0), sparse_output=False),
        ]

    @property
    def bounds_(self) -> Bounds:  # type: ignore[override]
        """The range of the levels; values outside it are clipped to it, with a warning."""
        return Bounds(type(self).__name__, 0.0, self.high_)

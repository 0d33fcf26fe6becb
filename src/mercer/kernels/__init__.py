"""Exact kernels, k(X, Z) -> Gram matrix: literal formulas in float64, the reference for all maps.

A kernel is a frozen dataclass whose docstring begins with its formula. A column that is zero in
both X and Z changes no kernel with ``ignores_zeros``, which `mercer.gram` uses on sparse data.

    >>> from mercer.kernels import Chi2, ExpChi2, Gaussian
    >>> X = [[0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.0, 0.5]]
    >>> print(Chi2()(X).round(4))
    [[1.     0.7378]
     [0.7378 1.    ]]
    >>> bool(abs(Gaussian(0.5).over(Chi2())(X) - ExpChi2(0.5)(X)).max() < 1e-15)
    True
"""

from mercer.kernels.additive import (
    Additive,
    Chi2,
    CustomAdditive,
    Hellinger,
    Homogeneous,
    Intersection,
    JensenShannon,
    Signed,
)
from mercer.kernels.base import Kernel, Sum
from mercer.kernels.callable import CallableKernel
from mercer.kernels.elementwise import (
    GMM,
    ExpChi2,
    ExponentialSemigroup,
    Laplacian,
    MinMax,
    ReciprocalSemigroup,
    Resemblance,
    SkewedChi2,
    SkewedIntersection,
)
from mercer.kernels.euclidean import (
    Cauchy,
    Centered,
    ComposedKernel,
    Cosine,
    CosineRBF,
    Euclidean,
    Gaussian,
    Linear,
    Matern,
    Metric,
    Radial,
    Scaled,
)
from mercer.kernels.hashing import Bits, SignStable

__all__ = [
    "GMM",
    "Additive",
    "Bits",
    "CallableKernel",
    "Cauchy",
    "Centered",
    "Chi2",
    "ComposedKernel",
    "Cosine",
    "CosineRBF",
    "CustomAdditive",
    "Euclidean",
    "ExpChi2",
    "ExponentialSemigroup",
    "Gaussian",
    "Hellinger",
    "Homogeneous",
    "Intersection",
    "JensenShannon",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Metric",
    "MinMax",
    "Radial",
    "ReciprocalSemigroup",
    "Resemblance",
    "Scaled",
    "SignStable",
    "Signed",
    "SkewedChi2",
    "SkewedIntersection",
    "Sum",
]

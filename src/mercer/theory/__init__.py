"""Theory of the maps: variances, error bounds, and the sizes that they require.

n_components counts output columns everywhere: the paired form has one frequency for two columns,
the offset form one for each.

    >>> from mercer import theory
    >>> round(theory.variance(0.5, 0.2, 1000, form="paired"), 6)
    0.0007
    >>> theory.components_for_pair(0.1, 0.01, form="paired")
    2120
"""

from mercer.theory.compressive import (
    CompressiveSizes,
    bound_compressive,
    bound_isometry,
    bound_sparse,
    components_sparse,
    compressed_gaussian,
    compressed_variance,
    measurements_isometry,
    projection_spread,
    sizes_compressive,
)
from mercer.theory.fourier import (
    bound_uniform,
    components_for_pair,
    components_uniform,
    nrff_variance,
    variance,
)
from mercer.theory.hashing import (
    anchors_error,
    correlation_of_gmm,
    gmm_of_correlation,
    gmm_variance,
    rbf_from_gmm_variance,
)
from mercer.theory.laplace import (
    laplace_bound,
    laplace_components,
    laplace_curvature,
    laplace_normalized_variance,
    laplace_shift,
    laplace_variance,
)

__all__ = [
    "CompressiveSizes",
    "anchors_error",
    "bound_compressive",
    "bound_isometry",
    "bound_sparse",
    "bound_uniform",
    "components_for_pair",
    "components_sparse",
    "components_uniform",
    "compressed_gaussian",
    "compressed_variance",
    "correlation_of_gmm",
    "gmm_of_correlation",
    "gmm_variance",
    "laplace_bound",
    "laplace_components",
    "laplace_curvature",
    "laplace_normalized_variance",
    "laplace_shift",
    "laplace_variance",
    "measurements_isometry",
    "nrff_variance",
    "projection_spread",
    "rbf_from_gmm_variance",
    "sizes_compressive",
    "variance",
]

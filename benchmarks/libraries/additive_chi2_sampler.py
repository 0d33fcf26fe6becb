"""scikit-learn's AdditiveChi2Sampler: 5 values for each input (sample_steps=3), the most it has."""

from __future__ import annotations

from typing import Any

from sklearn.kernel_approximation import AdditiveChi2Sampler

from mercer import Chi2Chebyshev, Chi2Series, Homogeneous
from mercer.maps.base import Map

name = "sklearn AdditiveChi2Sampler(3)"


def rival(feature_map: Map) -> Any:
    """For every map of the chi2 kernel of non-negative data."""
    chi2 = isinstance(feature_map, Chi2Series | Chi2Chebyshev) or (
        isinstance(feature_map, Homogeneous)
        and feature_map.kernel == "chi2"
        and feature_map.degree == 1
    )
    return (
        AdditiveChi2Sampler(sample_steps=3)
        if chi2 and feature_map.domain == "nonnegative"
        else None
    )

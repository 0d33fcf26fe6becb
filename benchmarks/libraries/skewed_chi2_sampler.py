"""scikit-learn's SkewedChi2Sampler: offset form, independent draws."""

from __future__ import annotations

from typing import Any

from sklearn.kernel_approximation import SkewedChi2Sampler

from mercer import SkewedFourier
from mercer.maps.base import Map

name = "sklearn SkewedChi2Sampler"


def rival(feature_map: Map) -> Any:
    """SkewedChi2Sampler of the same size and skew as a fitted map."""
    if not isinstance(feature_map, SkewedFourier) or feature_map.kernel != "chi2":
        return None
    return SkewedChi2Sampler(
        skewedness=feature_map.skew_, n_components=feature_map.n_components, random_state=0
    )

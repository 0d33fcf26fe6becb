"""scikit-learn's RBFSampler: random Fourier features of the Gaussian kernel, offset form,
independent draws.
"""

from __future__ import annotations

from typing import Any

from sklearn.kernel_approximation import RBFSampler

from mercer import RandomFourier
from mercer.maps.base import Map

name = "sklearn RBFSampler"


def rival(feature_map: Map) -> Any:
    """RBFSampler of the same size and gamma as a fitted map, for the Gaussian kernel."""
    if not isinstance(feature_map, RandomFourier) or feature_map.kernel != "gaussian":
        return None
    gamma = feature_map.gamma_
    return RBFSampler(gamma=gamma, n_components=feature_map.n_components, random_state=0)

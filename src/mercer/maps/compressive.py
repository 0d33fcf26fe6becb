"""Compressive random features: Fourier features of random projections (Chang et al., CVPR 2016)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._typing import Array
from mercer.kernels import Gaussian, Kernel
from mercer.maps._bandwidth import Gamma
from mercer.maps._transform import Chain, kernel_on_first_stage
from mercer.maps.base import Map, Rate
from mercer.maps.fourier import RandomFourier
from mercer.maps.projection import RandomProjection, as_basis, check_projection, projection_size
from mercer.maps.stages.fourier import FourierFeatures
from mercer.maps.stages.projection import CheckedProjection, sample_projection
from mercer.rng import Rng
from mercer.stats.base import Statistic


class CompressiveFourier(Map):
    """phi(x) = RandomFourier features of P x, P random, m x d, for k(x, z) = exp(-gamma |x - z|^2).

    It is ``RandomProjection(n_measurements) >> RandomFourier(n_components, gamma=gamma)`` with
    gamma from the original rows, and costs m (d + D) in place of d D multiply-adds a row; the
    measurements P x exist for one tile at a time.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        D, the number of output columns; "auto" as in RandomFourier.
    n_measurements : int or "auto", default="auto"
        m, at most d, the columns of X; with method="gaussian" it may be more. "auto" is
        min(50, d), and 50 with method="gaussian". An orthoprojector of m = d is exact.
    gamma : float or {"auto", "scale", "median"}, default="auto"
        As in RandomFourier, from the original rows: a projection keeps distances on average.
    method : {"orthoprojector", "bernoulli", "gaussian", "hadamard"}, default="orthoprojector"
        As in RandomProjection.
    basis : array of shape (d, d) or None, default=None
        As in RandomProjection.
    form : {"paired", "offset"}, default="paired"
        As in RandomFourier.
    design : {"auto", "iid", "orthogonal", "hadamard", "sobol"}, default="auto"
        As in RandomFourier, for n_measurements columns.
    random_state : int, Generator, RandomState or None, default=None
        Seed; ``seed_`` is the one in use.
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    n_components_, gamma_, design_, n_measurements_ : int, float, str, int
        The values in use.
    kernel_ : Kernel
        The Gaussian kernel of the original rows.
    limit_ : Kernel
        The Gaussian kernel of the projected rows, the limit as n_components grows.

    Notes
    -----
    Over random orthoprojectors the mean of limit_ is 1F1(m/2; d/2; -(d/m) a), a = gamma |x - z|^2,
    where kernel_ is exp(-a): a bias of about a^2 exp(-a) (1 - m/d)/m, which is at most .54/m. The
    standard deviation of one P is larger: see ``mercer.theory.compressed_gaussian`` and
    ``compressed_variance``. At equal cost RandomFourier(design="hadamard") without compression has
    no such bias; compression is for signals that are measured, stored or sent as m numbers.

    Chang, Sankaranarayanan and Vijaya Kumar, CVPR 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import CompressiveFourier, RandomFourier, RandomProjection
    >>> rng = np.random.default_rng(0)
    >>> signals = rng.normal(size=(100, 784)) * (rng.random((100, 784)) < 0.1)
    >>> phi = CompressiveFourier(2000, n_measurements=200, gamma=0.005, random_state=0).fit(signals)
    >>> Z, K = phi.transform(signals), phi.kernel_(signals)
    >>> error, bias = abs(Z @ Z.T - K).mean(), abs(phi.limit_(signals) - K).mean()
    >>> print(f"mean error {error:.4f}, of the projection {bias:.4f}, mean of k {K.mean():.2f}")
    mean error 0.0248, of the projection 0.0241, mean of k 0.46

    Measurements P x of a camera, without the signals x, are mapped by RandomFourier with the same
    gamma. The error against the kernel of the signals is the same:

    >>> measured = RandomProjection(200, random_state=1).fit_transform(signals)
    >>> Z = RandomFourier(2000, gamma=0.005, random_state=2).fit_transform(measured)
    >>> print(f"{abs(Z @ Z.T - K).mean():.4f} off")
    0.0258 off
    """

    name = "compressive"
    kernels = ("gaussian",)
    paper = "Chang, Sankaranarayanan and Vijaya Kumar, CVPR 2016"
    statistics_name = "bandwidth statistics"
    parameter_constraints = {
        "n_components": RandomFourier.parameter_constraints["n_components"],
        "n_measurements": RandomProjection.parameter_constraints["n_components"],
        "gamma": RandomFourier.parameter_constraints["gamma"],
        "method": RandomProjection.parameter_constraints["method"],
        "basis": RandomProjection.parameter_constraints["basis"],
        "form": RandomFourier.parameter_constraints["form"],
        "design": RandomFourier.parameter_constraints["design"],
        "random_state": RandomFourier.parameter_constraints["random_state"],
        "n_jobs": RandomFourier.parameter_constraints["n_jobs"],
    }
    size_follows_rows = True
    n_components_: int
    gamma_: float
    design_: str

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        n_measurements: int | str = "auto",
        gamma: float | str = "auto",
        method: str = "orthoprojector",
        basis: Array | None = None,
        form: str = "paired",
        design: str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_measurements = n_measurements
        self.gamma = gamma
        self.method = method
        self.basis = basis
        self.form = form
        self.design = design
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def kernel_(self) -> Kernel:
        """The exact kernel of the original rows."""
        check_is_fitted(self)
        return Gaussian(self.gamma_)

    @property
    def limit_(self) -> Kernel:
        """The Gaussian kernel of the projected rows."""
        check_is_fitted(self)
        return kernel_on_first_stage(Gaussian(self.gamma_), self.tile_transform_, self.domain)

    @property
    def n_measurements_(self) -> int:
        """The number of columns of P x."""
        check_is_fitted(self)
        chain: Any = self.tile_transform_
        return int(chain.stages[0].cost(self.n_features_in_).columns)

    @property
    def rate(self) -> Rate:
        """The rate of RandomFourier."""
        return self._fourier(self.gamma).rate

    @property
    def depends_on_units(self) -> bool:
        """Whether gamma is computed from differences of rows; a basis is one of rows as given."""
        return self.basis is None and isinstance(self.gamma, str)

    def check(self, d: int) -> None:
        estimator_name, m = type(self).__name__, self.n_measurements
        check_projection(estimator_name, "n_measurements", m, d, self.method, self.basis)

    def required_statistics(self, d: int) -> Statistic | None:
        return self._gamma().required_statistics(d, self.seed_)

    def build(self, rng: Rng, d: int, statistics: Any) -> Chain:
        m = projection_size(self.n_measurements, d, self.method)
        self.gamma_ = self._gamma().value(d, statistics)
        fourier = self._fourier(self.gamma_)
        fourier.n_components_ = self.n_components_
        (waves,) = fourier.build(rng, m, None).stages
        assert isinstance(waves, FourierFeatures)
        self.design_ = fourier.design_
        measured = sample_projection(rng, self.method, m, d, as_basis(self.basis))
        return Chain((CheckedProjection(measured, waves.max_entry(np.float64, m)), waves))

    @classmethod
    def cases(cls) -> list[Map]:
        return [
            cls(64, n_measurements=4, gamma=0.3, method="gaussian", random_state=0),
            cls(64, n_measurements=2, gamma=0.3, design="iid", random_state=0),
            cls(
                64,
                n_measurements=2,
                gamma="median",
                method="hadamard",
                form="offset",
                design="iid",
                random_state=0,
            ),
        ]

    def _gamma(self) -> Gamma:
        return Gamma(type(self).__name__, "gaussian", self.gamma)

    def _fourier(self, gamma: float | str) -> RandomFourier:
        return RandomFourier(self.n_components, gamma=gamma, form=self.form, design=self.design)

"""Homogeneous kernel maps: sampled spectra of additive kernels (Vedaldi and Zisserman, PAMI 2012).

kernel            K(l), k(x, z) = sum sqrt(x z) K(log(z/x))    spectrum kappa(w)
chi2              sech(l/2)                                    sech(pi w)
intersection      exp(-|l|/2)                                  2 / (pi (1 + 4 w^2))
jensen-shannon    -                                            2/ln 4 sech(pi w) / (1 + 4 w^2)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mercer import kernels
from mercer._typing import Array
from mercer.errors import ParameterError, Setting
from mercer.kernels import Additive, Kernel
from mercer.kernels.registry import KernelOption
from mercer.maps._additive import AdditiveMap
from mercer.maps._transform import Chain
from mercer.maps.base import Decay, Map
from mercer.maps.stages.elementwise import HomogeneousLift
from mercer.rng import Rng
from mercer.validation.parameters import Flag, Integer, Option, Positive, Threads

_NODES = 400  # Gauss-Legendre nodes for the coefficients of the rectangular window


def _sech(t: Array) -> Array:
    return 2 * np.exp(-np.abs(t)) / (1 + np.exp(-2 * np.abs(t)))


@dataclass(frozen=True)
class _Signature:
    """An additive kernel sqrt(x z) K(log(z/x)), the spectrum of K, and the periods for n terms."""

    kernel: type[Additive]
    spectrum: Callable[[Array], Array]
    uniform: Callable[[int], float]
    rectangular: Callable[[int], float]

    def of_logarithm(self, l: Array) -> Array:
        """Return K(l) = k(e^(-l/2), e^(l/2))."""
        return self.kernel().term(np.exp(-l / 2), np.exp(l / 2))


_SIGNATURES = {
    "chi2": _Signature(
        kernels.Chi2,
        lambda w: _sech(np.pi * w),
        lambda n: 5.86 * np.sqrt(n) + 3.65,
        lambda n: 8.80 * np.sqrt(n + 4.44) - 12.6,
    ),
    "intersection": _Signature(
        kernels.Intersection,
        lambda w: 2 / np.pi / (1 + 4 * w**2),
        lambda n: 2.38 * np.log(n + 0.8) + 5.6,
        lambda n: 2.00 * np.log(n + 0.99) + 3.52,
    ),
    "jensen-shannon": _Signature(
        kernels.JensenShannon,
        lambda w: 2 / np.log(4) * _sech(np.pi * w) / (1 + 4 * w**2),
        lambda n: 6.64 * np.sqrt(n) + 7.24,
        lambda n: 9.63 * np.sqrt(n + 1) - 2.93,
    ),
}

# Coefficients that are integrated at most: the error of chi2 with 100 of them is 2e-12, and the
# nodes of 200 take half a minute.
_MOST_TERMS = 128


class Homogeneous(AdditiveMap):
    """phi(x) = sqrt(x) (sqrt(c_0), sqrt(2 c_j) cos(f_j L ln x), sqrt(2 c_j) sin(f_j L ln x)).

    For each number x >= 0 of a row, j = 1..n, phi(0) = 0: 2 n + 1 values, side by side, in this
    order. CSR rows give CSR features.

    Parameters
    ----------
    n_terms : int, default=1
        n, the number of sampled frequencies; 0 gives a scaled square root.
    kernel : {"chi2", "intersection", "jensen-shannon"}, default="chi2"
        An additive kernel that is homogeneous of degree 1. "additive_chi2" is "chi2".
    window : {"rectangular", "uniform"}, default="rectangular"
        "uniform" samples the spectrum, c_j = L kappa(j L); "rectangular" has the Fourier
        coefficients of the kernel cut to one period, without the frequencies whose coefficient is
        not positive.
    period : float or "auto", default="auto"
        2 pi / L. "auto" is Vedaldi and Zisserman's choice for n terms.
    degree : float, default=1.0
        Degree of homogeneity: the kernel is sum (x z)^((degree - 1)/2) k(x, z).
    signed : bool, default=False
        Map negative numbers to sign(x) phi(|x|).
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    period_ : float
        The period in use.
    harmonics_ : tuple of int
        f_1, ..., f_n.
    kernel_ : Kernel
        The exact kernel.
    limit_ : Kernel or None
        kernel_ with period="auto". With a fixed period, a periodic kernel without a closed form.

    Notes
    -----
    A. Vedaldi and A. Zisserman, "Efficient additive kernels via explicit feature maps", PAMI 2012.

    Examples
    --------
    >>> from mercer import Homogeneous
    >>> Homogeneous(1, window="uniform").fit_transform([[0.3]]).round(4)
    array([[ 0.4452,  0.2191, -0.2235]])
    """

    name = "homogeneous"
    kernels = tuple(_SIGNATURES)
    paper = (
        "Vedaldi and Zisserman, PAMI 2012; a comparator of CVPR 2014, ICCV 2015 and arXiv 1206.4074"
    )
    parameter_constraints = {
        "n_terms": (Integer(0),),
        "kernel": (KernelOption(*_SIGNATURES),),
        "window": (Option("rectangular", "uniform"),),
        "period": (Positive(), Option("auto")),
        "degree": (Positive(),),
        "signed": (Flag(),),
        "n_jobs": (Threads(),),
    }
    period_: float
    harmonics_: tuple[int, ...]

    def __init__(
        self,
        n_terms: int = 1,
        *,
        kernel: str = "chi2",
        window: str = "rectangular",
        period: float | str = "auto",
        degree: float = 1.0,
        signed: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.n_terms = n_terms
        self.kernel = kernel
        self.window = window
        self.period = period
        self.degree = degree
        self.signed = signed
        self.n_jobs = n_jobs

    def additive(self) -> Additive:
        kernel: Additive = _SIGNATURES[self._kernel_name].kernel()
        return kernel if self.degree == 1 else kernels.Homogeneous(kernel, float(self.degree))

    @property
    def limit_(self) -> Kernel | None:
        """The kernel where the period grows with n_terms; None for a fixed one."""
        return self.kernel_ if self.period == "auto" else None

    @property
    def rate(self) -> Decay:
        """Faster for chi2 and Jensen-Shannon than for the intersection kernel, which has a cusp."""
        return Decay((1, 4, 16), 0.9 if self._kernel_name == "intersection" else 0.5)

    def check(self, d: int) -> None:
        if self.window == "rectangular" and self.n_terms > _MOST_TERMS:
            raise ParameterError(
                type(self).__name__,
                Setting("n_terms"),
                f" is {self.n_terms}, and at most {_MOST_TERMS} are of use: the error of the chi2 "
                "kernel is then that of float64. Give fewer, or ",
                Setting("window", "'uniform'"),
                ", whose coefficients have a formula.",
            )

    def build(self, rng: Rng, d: int, statistics: None) -> Chain:
        signature = _SIGNATURES[self._kernel_name]
        if self.period == "auto":
            auto = signature.rectangular if self.window == "rectangular" else signature.uniform
            self.period_ = max(1.0, float(auto(self.n_terms)))
        else:
            self.period_ = float(self.period)
        step = 2 * np.pi / self.period_
        harmonics, coefficients = self._coefficients(signature, step)
        self.harmonics_ = tuple(int(h) for h in harmonics[1:])
        amplitudes = np.sqrt(coefficients * np.where(harmonics == 0, 1.0, 2.0))
        degree = float(self.degree)
        return Chain((HomogeneousLift(amplitudes, self.harmonics_, step, degree, self.signed),))

    @classmethod
    def cases(cls) -> list[Map]:
        return [
            cls(3),
            cls(2, window="uniform", kernel="jensen-shannon"),
            cls(3, kernel="intersection"),
            cls(2, degree=0.5, signed=True),
        ]

    def _coefficients(self, signature: _Signature, step: float) -> tuple[Array, Array]:
        """Return (0, f_1, ..., f_n) and their c: the first n, or the first n with c > 0."""
        n = self.n_terms
        if self.window == "uniform":
            harmonics = np.arange(n + 1)
            return harmonics, step * signature.spectrum(harmonics * step)
        half = np.pi / step
        candidates = np.arange(3 * n + 1)
        nodes, weights = np.polynomial.legendre.leggauss(_NODES + 8 * len(candidates))
        # The signature is even: with half a period a cusp at 0 is an end.
        l = half * (nodes + 1) / 2
        waves = np.cos(np.outer(candidates, l) * step)
        coefficients = waves @ (weights * signature.of_logarithm(l)) / 2
        usable = np.flatnonzero((coefficients > 0) | (candidates == 0))[: n + 1]
        return candidates[usable], coefficients[usable]

"""The Hellinger map, sqrt(x)."""

from __future__ import annotations

from mercer.kernels import Hellinger as HellingerKernel
from mercer.kernels import Kernel
from mercer.maps._transform import Chain
from mercer.maps.base import Map
from mercer.maps.stages.elementwise import SquareRoot
from mercer.rng import Rng
from mercer.validation.parameters import Threads


class Hellinger(Map):
    """phi(x) = sqrt(x), so that <phi(x), phi(z)> = sum sqrt(x z) exactly, for x >= 0.

    CSR rows give CSR features.

    Parameters
    ----------
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    kernel_, limit_ : Kernel
        The exact kernel.

    Examples
    --------
    >>> from mercer import Hellinger
    >>> Hellinger().fit_transform([[1.0, 4.0], [0.0, 9.0]])
    array([[1., 2.],
           [0., 3.]])
    """

    name = "hellinger"
    kernels = ("hellinger",)
    paper = "the square root of histograms"
    parameter_constraints = {
        "n_jobs": (Threads(),),
    }
    domain = "nonnegative"
    size_parameter = None
    rate = None

    def __init__(self, *, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    @property
    def kernel_(self) -> Kernel:
        """The exact kernel; the features have no error."""
        return HellingerKernel()

    def build(self, rng: Rng, d: int, statistics: None) -> Chain:
        return Chain((SquareRoot(),))

    @classmethod
    def cases(cls) -> list[Map]:
        return [cls()]

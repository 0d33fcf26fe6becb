"""The identity map, for linear models beside those with a map."""

from __future__ import annotations

from mercer.kernels import Kernel
from mercer.kernels import Linear as LinearKernel
from mercer.maps._transform import Chain
from mercer.maps.base import Map
from mercer.maps.stages.linear import IdentityStage
from mercer.rng import Rng
from mercer.validation.parameters import Threads


class Identity(Map):
    """phi(x) = x, so that <phi(x), phi(z)> = <x, z>: a linear model, as a map like the others.

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
    >>> from mercer import Identity
    >>> Identity().fit_transform([[1.0, -4.0], [0.0, 9.0]])
    array([[ 1., -4.],
           [ 0.,  9.]])
    """

    name = "linear"
    kernels = ("linear",)
    paper = "the columns as they are"
    parameter_constraints = {
        "n_jobs": (Threads(),),
    }
    size_parameter = None
    rate = None

    def __init__(self, *, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    @property
    def kernel_(self) -> Kernel:
        """The exact kernel; the features have no error."""
        return LinearKernel()

    def build(self, rng: Rng, d: int, statistics: None) -> Chain:
        return Chain((IdentityStage(),))

    @classmethod
    def cases(cls) -> list[Map]:
        return [cls()]

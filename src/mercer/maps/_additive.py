"""Base class of maps for additive kernels: several values for each input, and a signed form."""

from __future__ import annotations

from mercer.kernels import Additive, Kernel, Signed
from mercer.maps.base import Map


class AdditiveMap(Map):
    """phi(x) = (lift(x_1), lift(x_2), ...) for x >= 0; signed, sign(x) lift(|x|) for all x."""

    domain_advice = "For signed data use signed=True, GCWS or RandomFourier."
    size_parameter = "n_terms"
    nested = False
    signed: bool

    @property
    def domain(self) -> str:  # type: ignore[override]
        """Domain of the data: "nonnegative", or "real" when signed."""
        return "real" if self.signed else "nonnegative"

    @property
    def kernel_(self) -> Kernel:
        """The exact kernel."""
        return Signed(self.additive()) if self.signed else self.additive()

    def additive(self) -> Additive:
        """Return the exact kernel of non-negative numbers."""
        raise NotImplementedError

"""Type aliases and structural tests that all layers share; imports nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
else:
    Array = Any


def is_csr(x: Any) -> bool:
    """Return whether x is a CSR matrix, of SciPy or of a device, and not a dense array.

    Rows are either dense or CSR once they are validated, so that one attribute decides, without an
    import of SciPy.
    """
    return hasattr(x, "indptr")

"""n_components="auto": the number of random features by the number of rows n.

D = max(1024, 2 sqrt(n)), at most 4 n, at least 64, rounded up to a power of two; at most 8192.

n             30   100   300   100,000   1,000,000   10,000,000
D            128   512  1024      1024        2048         8192

Ridge regression on order sqrt(n) random features, up to logarithms, learns at the rate of the exact
kernel (Rudi and Rosasco, NIPS 2017). More than a few times n features change a function of n rows
no more. docs/decisions/sizes.md has measured accuracies.
"""

from __future__ import annotations

import math

from mercer.validation.parameters import Integer, Option

AUTO = "auto"
SIZE = (Integer(), Option(AUTO))
_USUAL = 1024  # up to 262,144 rows; a kernel error of about 3%
_LEAST = 64  # fewer random features follow no law, and cost nothing to double
_MOST = 8192  # normal equations of 512 MiB; more are for those who ask for them


def auto_size(n: int) -> int:
    """Return the number of random features for n rows."""
    wanted = min(max(_USUAL, 2 * math.isqrt(n)), 4 * n)
    return min(max(_LEAST, 1 << max(wanted - 1, 0).bit_length()), _MOST)  # a power of two

"""torch twins of the ops, for tensors on any device; kernels of our own where plain torch is far
from what the device can do.

The only place that names torch. Nothing imports it but `mercer.parallel.devices`, when a device or
a tensor is asked for.
"""

from __future__ import annotations

from mercer.ops.torch import device_array as device_array
from mercer.ops.torch import linalg as linalg
from mercer.ops.torch import matmul as matmul
from mercer.ops.torch import sparse as sparse
from mercer.ops.torch import transfer as transfer
from mercer.ops.torch.codes import (
    brackets,
    coded_descent,
    coded_product,
    coded_rows,
    coded_sums,
    gcws,
    gcws_csr,
    gcws_parameters,
    levels,
)
from mercer.ops.torch.dense import (
    chi2_chebyshev,
    chi2_series,
    cos_,
    cossin,
    exp2neg_,
    hadamard,
    hadamard_cos,
    hadamard_cossin,
    homogeneous,
    product_cos,
    product_cossin,
)
from mercer.ops.torch.device_array import DeviceArray
from mercer.ops.torch.gram import (
    gram_chi2,
    gram_chi2_distance,
    gram_intersection,
    gram_jensen_shannon,
    gram_l1,
    gram_l2,
    gram_minmax,
)
from mercer.ops.torch.sparse import (
    csr_exp2neg,
    csr_product,
    gram_chi2_csr,
    gram_intersection_csr,
    gram_minmax_csr,
    spread,
)

__all__ = [
    "DeviceArray",
    "brackets",
    "chi2_chebyshev",
    "chi2_series",
    "coded_descent",
    "coded_product",
    "coded_rows",
    "coded_sums",
    "cos_",
    "cossin",
    "csr_exp2neg",
    "csr_product",
    "exp2neg_",
    "gcws",
    "gcws_csr",
    "gcws_parameters",
    "gram_chi2",
    "gram_chi2_csr",
    "gram_chi2_distance",
    "gram_intersection",
    "gram_intersection_csr",
    "gram_jensen_shannon",
    "gram_l1",
    "gram_l2",
    "gram_minmax",
    "gram_minmax_csr",
    "hadamard",
    "hadamard_cos",
    "hadamard_cossin",
    "homogeneous",
    "levels",
    "product_cos",
    "product_cossin",
    "spread",
]

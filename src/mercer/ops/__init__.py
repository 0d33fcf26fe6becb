"""The hot array functions, by the type of their first array.

reference.py defines each one; faster twins stand beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from mercer.ops import cpu, reference

__all__ = [
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

P = ParamSpec("P")
R = TypeVar("R")


def _by_array(op: Callable[P, R], compiled: Callable[P, R]) -> Callable[P, R]:
    """The fastest op for the type of the first array: the place where a compiled or a device twin
    enters.
    """
    name = op.__name__

    @wraps(op)
    def dispatched(*args: P.args, **kwargs: P.kwargs) -> R:
        gpu = sys.modules.get("mercer.ops.torch")  # there once a device or a tensor was asked for
        if gpu is not None and any(
            isinstance(one, gpu.DeviceArray) for one in (*args, *kwargs.values())
        ):
            return cast(R, getattr(gpu, name)(*args, **kwargs))
        if cpu.available() and any(
            isinstance(one, np.ndarray) for one in (*args, *kwargs.values())
        ):
            return compiled(*args, **kwargs)
        return op(*args, **kwargs)

    return dispatched


def is_device(array: Any) -> bool:
    """Whether an array is a tensor on a device."""
    return bool(getattr(array, "resident", False))


def is_array(value: Any) -> bool:
    """Whether a value is an array, of NumPy or on a device."""
    return isinstance(value, np.ndarray) or is_device(value)


def empty(shape: tuple[int, ...], dtype: Any, beside: Any) -> Any:
    """An empty array where another array or a CSR matrix is."""
    return np.empty(shape, dtype, like=beside) if is_device(beside) else np.empty(shape, dtype)


def beside(values: Any, other: Any) -> Any:
    """Values as an array where another array is."""
    return (
        np.asarray(values, like=other)
        if is_device(other)
        else values
        if is_device(values)
        else np.asarray(values)
    )


def home(name: str) -> str:
    """Where the op of that name runs for NumPy arrays: an instruction set of the compiled core, or
    numpy.
    """
    return cpu.isa() if name in cpu.__all__ else "numpy"


brackets = _by_array(reference.brackets, cpu.brackets)
chi2_chebyshev = _by_array(reference.chi2_chebyshev, cpu.chi2_chebyshev)
chi2_series = _by_array(reference.chi2_series, cpu.chi2_series)
coded_descent = _by_array(reference.coded_descent, cpu.coded_descent)
coded_product = _by_array(reference.coded_product, cpu.coded_product)
coded_rows = _by_array(reference.coded_rows, cpu.coded_rows)
coded_sums = _by_array(reference.coded_sums, cpu.coded_sums)
cos_ = _by_array(reference.cos_, cpu.cos_)
cossin = _by_array(reference.cossin, cpu.cossin)
csr_exp2neg = _by_array(reference.csr_exp2neg, cpu.csr_exp2neg)
csr_product = _by_array(reference.csr_product, cpu.csr_product)
exp2neg_ = _by_array(reference.exp2neg_, cpu.exp2neg_)
gcws = _by_array(reference.gcws, cpu.gcws)
gcws_csr = _by_array(reference.gcws_csr, cpu.gcws_csr)
gcws_parameters = _by_array(reference.gcws_parameters, cpu.gcws_parameters)
gram_chi2 = _by_array(reference.gram_chi2, cpu.gram_chi2)
gram_chi2_csr = _by_array(reference.gram_chi2_csr, cpu.gram_chi2_csr)
gram_chi2_distance = _by_array(reference.gram_chi2_distance, cpu.gram_chi2_distance)
gram_intersection = _by_array(reference.gram_intersection, cpu.gram_intersection)
gram_intersection_csr = _by_array(reference.gram_intersection_csr, cpu.gram_intersection_csr)
gram_jensen_shannon = _by_array(reference.gram_jensen_shannon, cpu.gram_jensen_shannon)
gram_l1 = _by_array(reference.gram_l1, cpu.gram_l1)
gram_l2 = _by_array(reference.gram_l2, cpu.gram_l2)
gram_minmax = _by_array(reference.gram_minmax, cpu.gram_minmax)
gram_minmax_csr = _by_array(reference.gram_minmax_csr, cpu.gram_minmax_csr)
hadamard = _by_array(reference.hadamard, cpu.hadamard)
hadamard_cos = _by_array(reference.hadamard_cos, cpu.hadamard_cos)
hadamard_cossin = _by_array(reference.hadamard_cossin, cpu.hadamard_cossin)
homogeneous = _by_array(reference.homogeneous, cpu.homogeneous)
levels = _by_array(reference.levels, cpu.levels)
product_cos = _by_array(reference.product_cos, cpu.product_cos)
product_cossin = _by_array(reference.product_cossin, cpu.product_cossin)
spread = _by_array(reference.spread, cpu.spread)

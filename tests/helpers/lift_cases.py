"""Cases of the elementwise maps: several values for every entry of a histogram."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.helpers.op_arguments import Args, Array, Axes, Case, eps, histogram, wide

# Errors are bounded by eps times the largest value of the same x, times the growth of the
# recurrence. Value q of the series is a product of q factors (4 + q/2: as large as the reference's
# own error, in which roundings mostly cancel). Value q of Chebyshev is a polynomial of degree q in
# ln x, so q times the relative error of the logarithm, which is 2 eps. An angle of homogeneous has
# a relative error of 2 eps: logarithm, step and product; its amplitude is its scale; for degrees
# other than 1 the exponent counts as an angle. A denormal x / (x + k) has an absolute error, which
# the later steps multiply.


def lift_values(truth: Array, args: Args) -> Array:
    """Return magnitudes with shape (n, d, N)."""
    n, d = args["X"].shape
    return np.abs(truth).reshape(n, d, truth.shape[1] // d if d else 1)


def lift_bound(growth: float) -> Callable[[Array, Args], Array]:
    def bound(truth: Array, args: Args) -> Array:
        with np.errstate(all="ignore"):
            values = lift_values(np.nan_to_num(truth), args)
            scale = values.max(axis=2, initial=0, keepdims=True)
            steps = growth * np.arange(values.shape[2])
            pole = np.max(args["poles"], initial=0) if "poles" in args else args["center"]
            tail = np.nan_to_num(scale / values[:, :, :1], posinf=0) + 2 * np.sqrt(
                wide(np.asarray(pole))
            )
            return (eps(args) * (4 + steps) * scale + 4 * smallest(args) * (1 + tail)).reshape(
                truth.shape
            )

    return bound


def homogeneous_bound(truth: Array, args: Args) -> Array:
    x, amplitudes = wide(args["X"])[:, :, None], wide(args["amplitudes"])
    with np.errstate(all="ignore"):
        logs = np.abs(np.log(np.where(x > 0, x, 1)))
        exponent = args["degree"] / 2
        angles = (
            np.append(0, np.repeat(args["harmonics"], 2)) * args["step"]
            + (exponent != 0.5) * exponent
        ) * logs
        scale = np.append(amplitudes[0], np.repeat(amplitudes[1:], 2)) * x**exponent
        bound = eps(args) * (4 + 2 * angles) * scale + smallest(args) * (1 + amplitudes.max())
        return np.nan_to_num(bound, posinf=0).reshape(truth.shape)


def smallest(args: Args) -> Any:
    return wide(np.finfo(args["out"].dtype).smallest_subnormal.reshape(1))[0]


def series(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    poles = rng.random(1 + m % 10).astype(dtype) + dtype(0.001)
    return {
        "X": histogram(rng, dtype, n, d),
        "poles": poles,
        "out": np.empty((n, len(poles) * d), dtype=dtype),
    }


def chebyshev(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    terms = 1 + m % 10
    X, out = histogram(rng, dtype, n, d), np.empty((n, terms * d), dtype=dtype)
    return {"X": X, "n_terms": terms, "center": (0.375, 3.0)[m % 2], "out": out}


def homogeneous(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    """Make arguments with all harmonics from 1 on, or with gaps."""
    count = m % 6
    chosen = rng.permutation(count * (1 + n % 2))[:count] + 1
    out = np.empty((n, (2 * count + 1) * d), dtype=dtype)
    amplitudes = (0.1 + 0.9 * rng.random(count + 1)).astype(dtype)
    degree = (1.0, 1.0, 2.0, 0.7)[(n + m) % 4]
    X = histogram(rng, dtype, n, d)
    return {
        "X": X,
        "amplitudes": amplitudes,
        "harmonics": np.sort(chosen),
        "step": 0.8,
        "degree": degree,
        "out": out,
    }


def piecewise(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    """Make arguments with pieces of 5 to 30 octaves about 1; some numbers are in none of them."""
    values, per_octave, octaves = 1 + m % 19, m % 5, 5 + m % 26
    width = 4 if values <= 4 else -(-values // 8) * 8
    table = rng.standard_normal((1 + octaves * 2**per_octave, 4, width)).astype(dtype)
    return {
        "X": histogram(rng, dtype, n, d),
        "table": table,
        "values": values,
        "per_octave": per_octave,
        "first": -octaves + 2,
        "out": np.empty((n, values * d), dtype=dtype),
    }


def piecewise_bound(truth: Array, args: Args) -> Array:
    """Return 4 eps of the sum of |c_k t^k|, which is at most that of |c_k| 2^-k."""
    sizes = np.abs(wide(args["table"])).max(axis=(0, 2), initial=0) * 0.5 ** np.arange(4)
    return np.where(np.isnan(truth), 0, 4 * eps(args) * sizes.sum())


LIFT = Axes({"X": 0}, {"X": 1}, values=0)
LIFTS: dict[str, Case] = {
    "chi2_series": Case(series, lift_bound(0.5), LIFT),
    "chi2_chebyshev": Case(chebyshev, lift_bound(2), LIFT),
    "homogeneous": Case(homogeneous, homogeneous_bound, LIFT),
    "piecewise_cubic": Case(piecewise, piecewise_bound, LIFT),
}

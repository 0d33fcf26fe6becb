"""Fits the polynomials of math.h and prints them as C++. Needs mpmath. Run: python native/fit.py

Minimax by Remez's exchange. 24 bits: the coefficients are rounded one by one and the rest refitted
after each. 53 bits, or 0 inside the interval: all rounded at once, since the refit of the high
powers alone is too ill-conditioned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp

mp.mp.dps = 50
Function = Callable[[Any], Any]


def remez(
    target: Function, basis: list[Function], weight: Function, low: Any, high: Any
) -> list[Any]:
    """c that minimises max |weight(x) (target(x) - sum_k c_k basis_k(x))| on [low, high]."""
    n = len(basis)
    points = [
        (low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (k + mp.mpf(1) / 2) / (n + 1))
        for k in range(n + 1)
    ]
    grid = [low + (high - low) * (1 - mp.cos(mp.pi * k / 1500)) / 2 for k in range(1501)]
    for _ in range(12):
        rows = [[b(x) for b in basis] + [(-1) ** i / weight(x)] for i, x in enumerate(points)]
        solution = mp.lu_solve(mp.matrix(rows), mp.matrix([target(x) for x in points]))
        c, level = list(solution)[:n], abs(solution[n])
        errors = [
            weight(x) * (target(x) - sum(a * b(x) for a, b in zip(c, basis, strict=True)))
            for x in grid
        ]
        peaks: list[int] = []
        for i, error in enumerate(errors):
            if peaks and (error > 0) == (errors[peaks[-1]] > 0):
                if abs(error) > abs(errors[peaks[-1]]):
                    peaks[-1] = i
            else:
                peaks.append(i)
        while len(peaks) > n + 1:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        if len(peaks) < n + 1 or max(map(abs, errors)) < level * mp.mpf("1.001"):
            break
        points = [grid[i] for i in peaks]
    return c


def rounded(x: Any, bits: int) -> Any:
    mantissa, exponent = mp.frexp(x)
    return mp.ldexp(mp.nint(mp.ldexp(mantissa, bits)), exponent - bits)


def fit(
    name: str, target: Function, powers: list[int], weight: Function, low: Any, high: Any, bits: int
) -> None:
    fixed: list[Any] = []
    if bits == 53 or low < 0:
        fixed = [
            rounded(c, bits)
            for c in remez(target, [lambda x, p=p: x**p for p in powers], weight, low, high)
        ]
    for k in range(len(fixed), len(powers)):
        basis = [lambda x, p=p: x**p for p in powers[k:]]

        def rest(x: Any, k: int = k) -> Any:
            return target(x) - sum(c * x**p for c, p in zip(fixed, powers[:k], strict=True))

        fixed.append(rounded(remez(rest, basis, weight, low, high)[0], bits))
    grid = [low + (high - low) * mp.mpf(i) / 997 for i in range(998)]
    worst = max(
        abs(weight(x) * (target(x) - sum(c * x**p for c, p in zip(fixed, powers, strict=True))))
        for x in grid
    )
    digits, suffix = (9, "f") if bits == 24 else (17, "")
    print(f"// {name}, {bits} bits: error {mp.nstr(worst, 3)}")
    print("{" + ", ".join(mp.nstr(c, digits, strip_zeros=False) + suffix for c in fixed) + "}")


def one(x: Any) -> Any:
    return mp.mpf(1)


def slope(f: Any) -> Any:
    return mp.expm1(f * mp.log(2)) / f if f else mp.log(2)


def main() -> None:
    tiny, half, edge = mp.mpf(10) ** -12, mp.mpf(1) / 2, (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)
    for bits, sine, exponential, log1p, log in ((24, 5, 6, 11, 4), (53, 9, 11, 22, 9)):
        odd = list(range(1, 2 * max(sine, log), 2))
        fit(
            "sin(2 pi u) = u P(u^2)",
            lambda u: mp.sin(2 * mp.pi * u),
            odd[:sine],
            one,
            tiny,
            half / 2,
            bits,
        )
        fit("(2^f - 1) / f = P(f)", slope, list(range(exponential)), one, -half, half, bits)
        fit(
            "log2(1 + u) / u = P(u)",
            lambda u: mp.log(1 + u, 2) / u,
            list(range(log1p)),
            one,
            tiny,
            mp.mpf(1),
            bits,
        )
        target, weight = (lambda s: 2 * mp.atanh(s) / mp.log(2)), (lambda s: 1 / s)
        fit("log2((1 + s) / (1 - s)) = s P(s^2)", target, odd[:log], weight, tiny, edge, bits)


if __name__ == "__main__":
    main()

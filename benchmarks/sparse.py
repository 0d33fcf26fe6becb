"""Lasso from moments against scikit-learn's, and seven maps with PCA: time and optimality."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.linear_model import lasso_path
from threadpoolctl import threadpool_limits

from benchmarks.measure import Row, against, alone
from benchmarks.targets import GAMMA, pixels
from mercer import RandomFourier
from mercer.linear_model.normal_equations import NormalEquations
from mercer.linear_model.solvers.lasso import GroupLasso, Lasso
from mercer.maps.block import Dense
from mercer.stats.moments import Moments

RIVAL = "sklearn lasso_path, Gram given"
TOLERANCES = 10.0 ** -np.arange(4, 15)


def rows(rounds: int) -> Iterator[Row]:
    """Return all rows: a whole path of alphas, after the pass over the rows."""
    rounds = min(rounds, 5)
    for size, least in ((256, 1e-2), (1024, 1e-2)):
        yield path(size, least, rounds)
    yield groups(rounds)


def equations(
    maps: list[RandomFourier], n: int = 10_000
) -> tuple[NormalEquations, np.ndarray, np.ndarray, str]:
    """Return normal equations of the features of n images, and features and targets."""
    X, source = pixels(n)
    Z = np.hstack([one.fit(X).transform(X) for one in maps]).astype(np.float64)
    y = np.sin(X.astype(np.float64) @ np.random.default_rng(0).normal(size=X.shape[1]) / 4)
    seen = Moments()
    seen.add(Dense(Z), y=y)
    return NormalEquations.of(seen), Z - Z.mean(axis=0), y - y.mean(), source


def path(size: int, least: float, rounds: int) -> Row:
    """Time 20 alphas down to ``least`` of the first.

    The rival's tolerance is the loosest that is as near to optimal as 1e-6 at the last alpha.
    """
    normal, Z, y, source = equations([RandomFourier(size, gamma=GAMMA, random_state=0)])
    solver = Lasso()
    alphas = solver.max_alpha(normal) * np.geomspace(1, least, 20)

    def theirs(tol: float) -> Any:
        given: Any = {
            "precompute": normal.scatter,
            "Xy": normal.cross[:, 0],
            "max_iter": 10**6,
            "tol": tol,
        }
        return lasso_path(Z, y, alphas=alphas / len(Z), **given)[1]

    def off(coef: np.ndarray) -> float:
        return solver.kkt(normal, float(alphas[-1]), coef[:, -1:])

    tol = next((tol for tol in TOLERANCES if off(theirs(tol)) <= 1e-6), TOLERANCES[-1])
    return against(
        f"LASSO path of 20 alphas, {source} {len(Z)} rows -> {size}; error: optimality "
        "conditions at the last",
        lambda: list(solver.path(normal, alphas)),
        f"{RIVAL}, tol={tol:g}",
        lambda: theirs(tol),
        rounds,
        threads=1,
        error=list(solver.path(normal, alphas))[-1].kkt,
        rival_error=off(theirs(tol)),
    )


def groups(rounds: int, size: int = 200) -> Row:
    """Time seven maps with similar features; scikit-learn has no equivalent."""
    gammas = GAMMA * 2.0 ** np.arange(-3, 4)
    normal, Z, _, source = equations(
        [RandomFourier(size, gamma=float(g), random_state=i) for i, g in enumerate(gammas)]
    )
    solver = GroupLasso((size,) * len(gammas))
    alphas = solver.max_alpha(normal) * np.geomspace(1, 1e-2, 20)
    with threadpool_limits(1):
        return alone(
            f"group LASSO path of 20 alphas, {source} {len(Z)} rows -> 7 maps of {size}; error: "
            "optimality conditions",
            lambda: list(solver.path(normal, alphas)),
            min(rounds, 3),
            threads=1,
            error=list(solver.path(normal, alphas))[-1].kkt,
        )

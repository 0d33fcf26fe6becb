"""LASSO and group LASSO from the normal equations, without another pass over the rows.

The objectives are 1/2 sum w |y - b - z'c|^2 + alpha |c|_1, for each output by itself, and 1/2 sum w
|y - b - z'c|^2 + alpha sum_g sqrt(|g|) |c_g|, where c_g has the coefficients of map g for all
outputs: a map is used for all of them or for none. The intercept b is not penalized. With n rows
alpha is n times that of scikit-learn's Lasso.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.linalg import LinAlgError

from mercer._typing import Array
from mercer.linear_model.normal_equations import NormalEquations
from mercer.linear_model.solvers.pca import spans
from mercer.validation.parameters import warn_not_converged

# of the optimality conditions, relative to the smallest alpha that makes all coefficients 0
_TOLERANCE = 1e-9
_STEPS = 500  # sign changes for one output
_SWEEPS = 1000  # over all groups
_LENGTHS_EVERY = 20  # sweeps
_EPS = float(np.finfo(np.float64).eps)


class Solver(Protocol):
    """Solver of a sparse penalty: its largest useful alpha, and a path of solutions."""

    def max_alpha(self, normal: NormalEquations) -> float: ...
    def path(self, normal: NormalEquations, alphas: Array) -> Iterator[SparseSolution]: ...


class SparseSolution(NamedTuple):
    """Coefficients (D, t), and the violation of their optimality conditions.

    The violation is relative to the smallest alpha that makes all coefficients (of an output) 0.
    """

    coef: Array
    kkt: float


class Lasso:
    """min 1/2 |y - Zc|^2 + alpha |c|_1 for each output, from scatter H and cross v.

    A feature-sign search: for given signs s of the active coefficients, c = H^-1 (v - alpha s) is
    their minimum. A step towards it ends at the first zero, and coefficients whose gradient exceeds
    alpha become active. Each step lowers the objective, and the last one is exact to rounding; on a
    path each alpha starts from the solution of the last. (Lee, Battle, Raina and Ng, NIPS 2006,
    with several coefficients at a time.) Where H is diagonal, as for principal components, c =
    S(v, alpha)/H at once.

    Rounding, above all of float32 features, may leave H with negative eigenvalues, and the
    objective is then unbounded below where alpha is small. Twice the most negative one is added to
    the diagonal from there on, with a warning; ``kkt_`` is that of the original H.
    """

    def max_alpha(self, normal: NormalEquations) -> float:
        """Return the smallest alpha at which all coefficients are 0: max |v|."""
        return float(np.abs(normal.cross).max(initial=0.0))

    def path(self, normal: NormalEquations, alphas: Array) -> Iterator[SparseSolution]:
        """Yield the solution for each alpha; fastest from the largest alpha down."""
        H, V = normal.scatter, normal.cross
        diagonal = np.diag(H)
        is_diagonal = np.count_nonzero(H) == np.count_nonzero(diagonal)
        coef = np.zeros_like(V)
        for alpha in alphas:
            if is_diagonal:
                h = np.where(diagonal > 0, diagonal, np.inf)[:, None]
                coef = np.sign(V) * np.maximum(np.abs(V) - alpha, 0.0) / h
            else:
                try:
                    coef = _search_signs_of_outputs(H, V, alpha, coef)
                except LinAlgError:
                    H = _regularize(H, alpha)
                    coef = _search_signs_of_outputs(H, V, alpha, coef)
            yield SparseSolution(coef, self.kkt(normal, alpha, coef))

    def kkt(self, normal: NormalEquations, alpha: float, coef: Array) -> float:
        """Return the violation of the optimality conditions, over max |v| of the output.

        With g = v - Hc it is |g - alpha sign(c)| where c is not 0, and max(|g| - alpha, 0) where it
        is.
        """
        g = normal.cross - normal.scatter @ coef
        violation = np.where(
            coef != 0, np.abs(g - alpha * np.sign(coef)), np.maximum(np.abs(g) - alpha, 0.0)
        )
        largest = np.abs(normal.cross).max(axis=0)
        return float((violation / np.where(largest > 0, largest, 1.0)).max(initial=0.0))


class GroupLasso:
    """min 1/2 |y - Zc|^2 + alpha sum_g sqrt(|g|) |c_g|, by block coordinate descent.

    Given the others, with r = v_g - sum over other groups of H_gh c_h: c_g = 0 where |r| <= alpha
    sqrt(|g|) = a; otherwise, with H_gg = Q diag(e) Q' and s = Q'r, |c_g| = t solves sum s^2/(e t +
    a)^2 = 1, and c_g = Q (s t/(e t + a)).

    Parameters
    ----------
    widths : sequence of int
        Features, or components, of each group.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        self.groups = spans(widths)
        self.sizes = np.sqrt(np.asarray(widths, dtype=np.float64))

    def max_alpha(self, normal: NormalEquations) -> float:
        """Return the smallest alpha at which all groups are 0: max |v_g|/sqrt(|g|)."""
        return float(max(np.linalg.norm(normal.cross[g]) / size for g, size in self._each()))

    def path(self, normal: NormalEquations, alphas: Array) -> Iterator[SparseSolution]:
        """Yield the solution for each alpha; fastest from the largest alpha down."""
        largest = self.max_alpha(normal) or 1.0
        given, coef = normal, np.zeros_like(normal.cross)
        eigen = self._decompose(normal)
        for alpha in alphas:
            try:
                coef = self._descend(normal, eigen, alpha, coef.copy(), largest)
            except LinAlgError:
                normal = replace(normal, scatter=_regularize(normal.scatter, alpha))
                eigen = self._decompose(normal)
                coef = self._descend(normal, eigen, alpha, coef.copy(), largest)
            violation = self._violation(coef, given.cross - given.scatter @ coef, alpha)
            yield SparseSolution(coef, violation / largest)

    def _decompose(self, normal: NormalEquations) -> list[tuple[Array, Array]]:
        """Return eigenvalues and eigenvectors of each H_gg."""
        return [np.linalg.eigh(normal.scatter[g, g]) for g in self.groups]

    def _descend(
        self,
        normal: NormalEquations,
        eigen: Sequence[tuple[Array, Array]],
        alpha: float,
        coef: Array,
        largest: float,
    ) -> Array:
        """Sweep over the groups from `coef`, in place; raise LinAlgError where c'H c < 0."""
        H, goal = normal.scatter, _TOLERANCE * largest
        left = normal.cross - H @ coef
        for sweep in range(1, _SWEEPS + 1):
            unchanged = True
            for (g, size), (e, Q) in zip(self._each(), eigen, strict=True):
                new = _solve_group(e, Q, left[g] + H[g, g] @ coef[g], alpha * size)
                step = new - coef[g]
                if step.any():
                    left -= H[:, g] @ step
                    coef[g] = new
                    unchanged = False
            _require_positive(coef, normal.cross - left)
            violation = self._violation(coef, left, alpha)
            if sweep % _LENGTHS_EVERY == 0 and violation > goal and coef.any():
                other = self._solve_lengths(normal, alpha, coef)
                other_left = normal.cross - H @ other
                if self._violation(other, other_left, alpha) < violation:
                    coef, left = other, other_left
                    violation = self._violation(coef, left, alpha)
            if violation <= goal or unchanged:  # a gradient that changes nothing is rounding
                return coef
        warn_not_converged(
            f"group LASSO is {violation / largest:.2g} of the largest gradient from optimal after "
            f"{_SWEEPS} sweeps. Take a larger alpha."
        )
        return coef

    def _solve_lengths(self, normal: NormalEquations, alpha: float, coef: Array) -> Array:
        """Solve for the lengths t of the active groups by Newton's method.

        c = (H + diag(a/t))^-1 v solves for all groups at once where |c_g| = t_g: one equation for
        each group. Features of several maps of the same rows are correlated, and block coordinate
        descent alone then takes thousands of sweeps.
        """
        from scipy.linalg import cho_factor, cho_solve

        lengths = np.array([np.linalg.norm(coef[g]) for g in self.groups])
        active = np.flatnonzero(lengths)
        rows = np.concatenate(
            [np.arange(self.groups[i].start, self.groups[i].stop) for i in active]
        )
        columns = spans([self.groups[i].stop - self.groups[i].start for i in active])
        H, v = normal.scatter[np.ix_(rows, rows)], normal.cross[rows]
        a, u = alpha * self.sizes[active], np.log(lengths[active])
        best, least = coef[rows], np.inf
        for _ in range(20):
            weights = np.concatenate(
                [np.full(g.stop - g.start, x) for g, x in zip(columns, a / np.exp(u), strict=True)]
            )
            factor = cho_factor(
                H + np.diag(weights), lower=True, overwrite_a=True, check_finite=False
            )
            c = cho_solve(factor, v)
            squares = np.array([np.sum(c[g] ** 2) for g in columns])
            rest = np.log(squares) / 2 - u
            if not np.abs(rest).max() < least:
                break
            best, least = c, float(np.abs(rest).max())
            if least <= 4 * _EPS:
                break
            slopes = -np.eye(len(u))
            for h, g in enumerate(columns):
                right = np.zeros_like(c)
                right[g] = weights[g.start] * c[g]
                derivative = cho_solve(factor, right)
                slopes[:, h] += [
                    np.sum(c[k] * derivative[k]) / square
                    for k, square in zip(columns, squares, strict=True)
                ]
            u -= np.clip(np.linalg.solve(slopes, rest), -2, 2)
        solution = np.zeros_like(coef)
        solution[rows] = best
        return solution

    def _violation(self, coef: Array, left: Array, alpha: float) -> float:
        """Return the largest violation of a group's optimality conditions, over sqrt(|g|).

        It is |g - alpha sqrt(|g|) c/|c|| for an active group, max(|g| - alpha sqrt(|g|), 0) for one
        that is 0.
        """
        return max(
            _group_violation(coef[g], left[g], alpha * size) / size for g, size in self._each()
        )

    def _each(self) -> Iterator[tuple[slice, float]]:
        return zip(self.groups, self.sizes.tolist(), strict=True)


def _search_signs_of_outputs(H: Array, V: Array, alpha: float, start: Array) -> Array:
    return np.stack(
        [_search_signs(H, v, alpha, w) for v, w in zip(V.T, start.T, strict=True)], axis=1
    )


def _search_signs(H: Array, v: Array, alpha: float, start: Array) -> Array:
    """Solve for one output from `start`; raise LinAlgError where c'H c < 0."""
    w, goal = start.copy(), _TOLERANCE * np.abs(v).max() / 4
    g = v - H @ w
    for _ in range(_STEPS):
        s = np.sign(w)
        if np.abs(g - alpha * s)[s != 0].max(initial=0.0) <= goal:
            violating = (s == 0) & (np.abs(g) > alpha + goal)
            if not violating.any():
                return w
            s = np.where(violating, np.sign(g), s)
        w = _step_to_signs(H, g, alpha, w, s)
        active = np.flatnonzero(w)
        g = v - H[:, active] @ w[active]
        _require_positive(w, v - g)
    warn_not_converged(
        f"LASSO has not determined the signs of its coefficients after {_STEPS} steps. Take a "
        "larger alpha."
    )
    return w


def _step_to_signs(H: Array, g: Array, alpha: float, w: Array, s: Array) -> Array:
    """Step from w towards the minimum for these signs while the objective falls.

    It ends where a coefficient becomes 0.
    """
    new = (w == 0) & (s != 0)
    while True:
        active = np.flatnonzero(s)
        step = _solve_with_jitter(H[np.ix_(active, active)], g[active] - alpha * s[active])
        wrong = new[active] & (step * s[active] <= 0)
        if not wrong.any():
            break
        s[active[wrong]] = 0
        if not s[new].any():  # the one of the largest gradient always enters with its sign
            best = np.argmax(np.where(new, np.abs(g), 0.0))
            s[best] = np.sign(g[best])
    at, signs = w[active], s[active]
    slope = alpha * signs @ step - g[active] @ step
    bend = step @ (H[np.ix_(active, active)] @ step)
    crossing = np.flatnonzero(at * step < 0)
    crossing = crossing[np.argsort(-at[crossing] / step[crossing], kind="stable")]
    moved = w.copy()
    # The objective's slope along the step is slope + bend t; it jumps where a sign changes.
    for j in crossing:
        t = -at[j] / step[j]
        if slope + bend * t >= 0:
            break
        slope += 2 * alpha * abs(step[j])
        if slope + bend * t >= 0:
            moved[active] = at + t * step
            moved[active[j]] = 0.0
            return moved
    if not bend > 0:
        raise LinAlgError("The objective is unbounded below.")
    moved[active] = at - slope / bend * step
    return moved


def _solve_with_jitter(A: Array, b: Array) -> Array:
    """Return (A + jitter I)^-1 b, with the least jitter that has a Cholesky factor."""
    from scipy.linalg import cho_factor, cho_solve

    jitter, scale = 0.0, float(np.abs(np.diag(A)).mean()) or 1.0
    while True:
        try:
            return cho_solve(
                cho_factor(A + jitter * np.eye(len(A)), lower=True, check_finite=False), b
            )
        except LinAlgError:
            jitter = 10 * jitter or len(A) * _EPS * scale


def _require_positive(c: Array, image: Array) -> None:
    """Raise a LinAlgError unless c'H c >= 0, where image = H c."""
    if not np.sum(c * image) >= 0:
        raise LinAlgError("The scatter has negative eigenvalues.")


def _regularize(H: Array, alpha: float) -> Array:
    """Return H + 2 l I, where -l is its smallest eigenvalue, negative by rounding."""
    from scipy.linalg import eigvalsh

    least = float(eigvalsh(H, subset_by_index=[0, 0], check_finite=False)[0])
    more = 2 * abs(least) + len(H) * _EPS * float(np.diag(H).max())
    warn_not_converged(
        f"the rounding of the normal equations, whose smallest eigenvalue is {least:.2g}, exceeds "
        f"alpha = {alpha:.3g}: {more:.2g} is added to their diagonal. Take a larger alpha; float64 "
        "rows have smaller rounding errors than float32."
    )
    return H + np.diag(np.full(len(H), more))


def _solve_group(e: Array, Q: Array, r: Array, a: float) -> Array:
    """Return argmin over c of 1/2 c'H c - r'c + a |c|, H = Q diag(e) Q'."""
    s = Q.T @ r
    s[e <= len(e) * _EPS * e[-1]] = 0.0  # directions that no row has
    energy = np.sum(s**2, axis=1)
    if energy.sum() <= a**2:
        return np.zeros_like(r)
    t = 0.0
    # Newton on 1/sqrt(sum) - 1, which is concave: from the left, without overshooting
    for _ in range(100):
        denominator = e * t + a
        total = np.sum(energy / denominator**2)
        step = (np.sqrt(total) - 1) * total / np.sum(energy * e / denominator**3)
        t += step
        if step <= 4 * _EPS * t:
            break
    return Q @ (s * (t / (e * t + a))[:, None])


def _group_violation(c: Array, g: Array, a: float) -> float:
    length = float(np.linalg.norm(c))
    return float(
        np.linalg.norm(g - a * c / length) if length else max(float(np.linalg.norm(g)) - a, 0.0)
    )

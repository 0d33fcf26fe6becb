"""LASSO and group LASSO from the normal equations: no row is seen again.

The objectives are 1/2 sum w |y - b - z'c|^2 + alpha |c|_1, for each output by itself, and 1/2 sum w
|y - b - z'c|^2 + alpha sum_g sqrt(|g|) |c_g|, where c_g has the coefficients of map g for all
outputs: a map serves all of them or none. The intercept b is not penalised. With n rows alpha is n
times that of scikit-learn's Lasso.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.linalg import LinAlgError

from mercer.linear_model.normal_equations import Array, Normal
from mercer.linear_model.solvers.pca import spans
from mercer.validation.parameters import warn_not_converged

# of the optimality conditions, in units of the smallest alpha that makes all coefficients 0
_TOLERANCE = 1e-9
_STEPS = 500  # changes of signs for one output
_SWEEPS = 1000  # over all groups
_LENGTHS_EVERY = 20  # sweeps
_EPS = float(np.finfo(np.float64).eps)


class Solver(Protocol):
    """A penalty: when all coefficients are 0, and what they are for each of several alphas."""

    def most(self, normal: Normal) -> float: ...
    def path(self, normal: Normal, alphas: Array) -> Iterator[Sparse]: ...


class Sparse(NamedTuple):
    """Coefficients (D, t), and how far they are from optimal: in units of the smallest alpha that
    makes all of them, or of an output, 0.
    """

    coef: Array
    kkt: float


class Lasso:
    """min 1/2 |y - Zc|^2 + alpha |c|_1 for each output, from scatter H and cross v.

    A search over signs: with those of the coefficients in use known, c = H^-1 (v - alpha s) is
    their minimum. On the way there the first zeros are stopped at, and coefficients whose gradient
    exceeds alpha come in. Each step lowers the objective, and the last one is exact to rounding; a
    path starts each alpha where the one before ended. (Lee, Battle, Raina and Ng, NIPS 2006, with
    several coefficients at a time.) Where H is diagonal, as it is after principal components, c =
    S(v, alpha)/H at once.

    Rounding, of float32 features above all, may leave H with negative eigenvalues, and the
    objective then falls for ever where alpha is small. Twice the most negative one is added to the
    diagonal from there on, with a warning; ``kkt_`` is that of H as it was.
    """

    def most(self, normal: Normal) -> float:
        """The smallest alpha at which all coefficients are 0: max |v|."""
        return float(np.abs(normal.cross).max(initial=0.0))

    def path(self, normal: Normal, alphas: Array) -> Iterator[Sparse]:
        """The coefficients for each alpha, in the order given; the largest alpha first is the
        fastest.
        """
        H, V = normal.scatter, normal.cross
        diagonal = np.diag(H)
        alone = np.count_nonzero(H) == np.count_nonzero(diagonal)
        coef = np.zeros_like(V)
        for alpha in alphas:
            if alone:
                h = np.where(diagonal > 0, diagonal, np.inf)[:, None]
                coef = np.sign(V) * np.maximum(np.abs(V) - alpha, 0.0) / h
            else:
                try:
                    coef = _all_by_signs(H, V, alpha, coef)
                except LinAlgError:
                    H = _lifted(H, alpha)
                    coef = _all_by_signs(H, V, alpha, coef)
            yield Sparse(coef, self.kkt(normal, alpha, coef))

    def kkt(self, normal: Normal, alpha: float, coef: Array) -> float:
        """max |g - alpha sign(c)| where c is not 0 and max(|g| - alpha, 0) where it is, g = v - Hc,
        over max |v| of the output.
        """
        g = normal.cross - normal.scatter @ coef
        off = np.where(
            coef != 0, np.abs(g - alpha * np.sign(coef)), np.maximum(np.abs(g) - alpha, 0.0)
        )
        most = np.abs(normal.cross).max(axis=0)
        return float((off / np.where(most > 0, most, 1.0)).max(initial=0.0))


class GroupLasso:
    """min 1/2 |y - Zc|^2 + alpha sum_g sqrt(|g|) |c_g|, by descent over groups.

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

    def most(self, normal: Normal) -> float:
        """The smallest alpha at which all groups are 0: max |v_g|/sqrt(|g|)."""
        return float(max(np.linalg.norm(normal.cross[g]) / size for g, size in self._each()))

    def path(self, normal: Normal, alphas: Array) -> Iterator[Sparse]:
        """The coefficients for each alpha, in the order given; the largest alpha first is the
        fastest.
        """
        most = self.most(normal) or 1.0
        given, coef = normal, np.zeros_like(normal.cross)
        turned = self._turned(normal)
        for alpha in alphas:
            try:
                coef = self._descend(normal, turned, alpha, coef.copy(), most)
            except LinAlgError:
                normal = replace(normal, scatter=_lifted(normal.scatter, alpha))
                turned = self._turned(normal)
                coef = self._descend(normal, turned, alpha, coef.copy(), most)
            yield Sparse(coef, self._off(coef, given.cross - given.scatter @ coef, alpha) / most)

    def _turned(self, normal: Normal) -> list[tuple[Array, Array]]:
        """Eigenvalues and eigenvectors of each H_gg."""
        return [np.linalg.eigh(normal.scatter[g, g]) for g in self.groups]

    def _descend(
        self,
        normal: Normal,
        turned: Sequence[tuple[Array, Array]],
        alpha: float,
        coef: Array,
        most: float,
    ) -> Array:
        """Sweeps over the groups from `coef`, which is changed in place; a LinAlgError where H is
        negative on the way.
        """
        H, near = normal.scatter, _TOLERANCE * most
        left = normal.cross - H @ coef
        for sweep in range(1, _SWEEPS + 1):
            still = True
            for (g, size), (e, Q) in zip(self._each(), turned, strict=True):
                new = _one_group(e, Q, left[g] + H[g, g] @ coef[g], alpha * size)
                step = new - coef[g]
                if step.any():
                    left -= H[:, g] @ step
                    coef[g] = new
                    still = False
            _must_be_positive(coef, normal.cross - left)
            off = self._off(coef, left, alpha)
            if sweep % _LENGTHS_EVERY == 0 and off > near and coef.any():
                nearer = self._by_lengths(normal, alpha, coef)
                other = normal.cross - H @ nearer
                if self._off(nearer, other, alpha) < off:
                    coef, left = nearer, other
                    off = self._off(coef, left, alpha)
            if off <= near or still:  # a gradient that changes nothing is rounding
                return coef
        warn_not_converged(
            f"group LASSO is {off / most:.2g} of the largest gradient from optimal after "
            f"{_SWEEPS} sweeps. Take a larger alpha."
        )
        return coef

    def _by_lengths(self, normal: Normal, alpha: float, coef: Array) -> Array:
        """Newton's method for the lengths t of the groups in use.

        c = (H + diag(a/t))^-1 v solves for all groups at once where |c_g| = t_g, which are as many
        equations as there are groups. Maps of the same rows are much alike, and descent over groups
        alone takes thousands of sweeps then.
        """
        from scipy.linalg import cho_factor, cho_solve

        lengths = np.array([np.linalg.norm(coef[g]) for g in self.groups])
        used = np.flatnonzero(lengths)
        rows = np.concatenate([np.arange(self.groups[i].start, self.groups[i].stop) for i in used])
        places = spans([self.groups[i].stop - self.groups[i].start for i in used])
        H, v, a, u = (
            normal.scatter[np.ix_(rows, rows)],
            normal.cross[rows],
            alpha * self.sizes[used],
            np.log(lengths[used]),
        )
        best, least = coef[rows], np.inf
        for _ in range(20):
            weights = np.concatenate(
                [np.full(g.stop - g.start, x) for g, x in zip(places, a / np.exp(u), strict=True)]
            )
            factor = cho_factor(
                H + np.diag(weights), lower=True, overwrite_a=True, check_finite=False
            )
            c = cho_solve(factor, v)
            squares = np.array([np.sum(c[g] ** 2) for g in places])
            rest = np.log(squares) / 2 - u
            if not np.abs(rest).max() < least:
                break
            best, least = c, float(np.abs(rest).max())
            if least <= 4 * _EPS:
                break
            slopes = -np.eye(len(u))
            for h, g in enumerate(places):
                alone = np.zeros_like(c)
                alone[g] = weights[g.start] * c[g]
                turned = cho_solve(factor, alone)
                slopes[:, h] += [
                    np.sum(c[k] * turned[k]) / square
                    for k, square in zip(places, squares, strict=True)
                ]
            u -= np.clip(np.linalg.solve(slopes, rest), -2, 2)
        made = np.zeros_like(coef)
        made[rows] = best
        return made

    def _off(self, coef: Array, left: Array, alpha: float) -> float:
        """The largest |g - alpha sqrt(|g|) c/|c|| of a group in use, or max(|g| - alpha sqrt(|g|),
        0) of one that is 0, over sqrt(|g|).
        """
        return max(_group_off(coef[g], left[g], alpha * size) / size for g, size in self._each())

    def _each(self) -> Iterator[tuple[slice, float]]:
        return zip(self.groups, self.sizes.tolist(), strict=True)


def _all_by_signs(H: Array, V: Array, alpha: float, start: Array) -> Array:
    return np.stack([_by_signs(H, v, alpha, w) for v, w in zip(V.T, start.T, strict=True)], axis=1)


def _by_signs(H: Array, v: Array, alpha: float, start: Array) -> Array:
    """c of one output, from `start` on; a LinAlgError where H is negative on the way."""
    w, near = start.copy(), _TOLERANCE * np.abs(v).max() / 4
    g = v - H @ w
    for _ in range(_STEPS):
        s = np.sign(w)
        if np.abs(g - alpha * s)[s != 0].max(initial=0.0) <= near:
            waiting = (s == 0) & (np.abs(g) > alpha + near)
            if not waiting.any():
                return w
            s = np.where(waiting, np.sign(g), s)
        w = _towards(H, g, alpha, w, s)
        used = np.flatnonzero(w)
        g = v - H[:, used] @ w[used]
        _must_be_positive(w, v - g)
    warn_not_converged(
        f"LASSO has not settled the signs of its coefficients after {_STEPS} steps. Take a "
        "larger alpha."
    )
    return w


def _towards(H: Array, g: Array, alpha: float, w: Array, s: Array) -> Array:
    """From w to the minimum for these signs, or as far as the objective falls on the way; it stops
    where a coefficient is 0.
    """
    new = (w == 0) & (s != 0)
    while True:
        used = np.flatnonzero(s)
        step = _solved(H[np.ix_(used, used)], g[used] - alpha * s[used])
        wrong = new[used] & (step * s[used] <= 0)
        if not wrong.any():
            break
        s[used[wrong]] = 0
        if not s[new].any():  # the first one alone always comes in with its sign
            best = np.argmax(np.where(new, np.abs(g), 0.0))
            s[best] = np.sign(g[best])
    at, signs = w[used], s[used]
    slope = alpha * signs @ step - g[used] @ step
    bend = step @ (H[np.ix_(used, used)] @ step)
    crossing = np.flatnonzero(at * step < 0)
    crossing = crossing[np.argsort(-at[crossing] / step[crossing], kind="stable")]
    moved = w.copy()
    # The objective's slope on the way is slope + bend t, and jumps where a coefficient changes its
    # sign.
    for j in crossing:
        t = -at[j] / step[j]
        if slope + bend * t >= 0:
            break
        slope += 2 * alpha * abs(step[j])
        if slope + bend * t >= 0:
            moved[used] = at + t * step
            moved[used[j]] = 0.0
            return moved
    if not bend > 0:
        raise LinAlgError("The objective falls for ever.")
    moved[used] = at - slope / bend * step
    return moved


def _solved(A: Array, b: Array) -> Array:
    """(A + a little)^-1 b: as little as makes a Cholesky factor."""
    from scipy.linalg import cho_factor, cho_solve

    little, scale = 0.0, float(np.abs(np.diag(A)).mean()) or 1.0
    while True:
        try:
            return cho_solve(
                cho_factor(A + little * np.eye(len(A)), lower=True, check_finite=False), b
            )
        except LinAlgError:
            little = 10 * little or len(A) * _EPS * scale


def _must_be_positive(c: Array, image: Array) -> None:
    """c'H c >= 0, image = H c, or a LinAlgError."""
    if not np.sum(c * image) >= 0:
        raise LinAlgError("Moments are negative.")


def _lifted(H: Array, alpha: float) -> Array:
    """H + 2 l I, where -l is its smallest eigenvalue, which is below 0 by rounding."""
    from scipy.linalg import eigvalsh

    least = float(eigvalsh(H, subset_by_index=[0, 0], check_finite=False)[0])
    more = 2 * abs(least) + len(H) * _EPS * float(np.diag(H).max())
    warn_not_converged(
        f"the rounding of moments, whose smallest eigenvalue is {least:.2g}, hides the minimum "
        f"at alpha = {alpha:.3g}: {more:.2g} is added "
        "to their diagonal. Take a larger alpha; float64 rows have smaller rounding than float32."
    )
    return H + np.diag(np.full(len(H), more))


def _one_group(e: Array, Q: Array, r: Array, a: float) -> Array:
    """argmin over c of 1/2 c'H c - r'c + a |c|, H = Q diag(e) Q'."""
    s = Q.T @ r
    s[e <= len(e) * _EPS * e[-1]] = 0.0  # directions that no row has
    energy = np.sum(s**2, axis=1)
    if energy.sum() <= a**2:
        return np.zeros_like(r)
    t = 0.0
    for _ in range(
        100
    ):  # Newton on 1/sqrt(sum) - 1, which is concave: from the left, without overshooting
        below = e * t + a
        total = np.sum(energy / below**2)
        ahead = (np.sqrt(total) - 1) * total / np.sum(energy * e / below**3)
        t += ahead
        if ahead <= 4 * _EPS * t:
            break
    return Q @ (s * (t / (e * t + a))[:, None])


def _group_off(c: Array, g: Array, a: float) -> float:
    length = float(np.linalg.norm(c))
    return float(
        np.linalg.norm(g - a * c / length) if length else max(float(np.linalg.norm(g)) - a, 0.0)
    )

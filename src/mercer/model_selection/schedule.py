"""Schedule of successive halving: rows, rounds, sizes and limits, as arithmetic on numbers."""

from __future__ import annotations

from dataclasses import dataclass

from mercer.linear_model.memory import LEAST_LIMIT

_HELD_OUT = 2000
_FIRST, _MOST = 1000, 9000  # rows that the first and the last round train on
_FEATURES = 256  # of the first round
_WIDEST = 4096  # features: the eigenvectors of more take minutes
_ALWAYS = 1024  # features that are tried however few rows there are, as estimators do by default
_FINALISTS = 4
# below, the final has more folds and finalists, and the round is a cross-validation: that is cheap
# there, and few held-out rows would rank 70 candidates by noise
_FEW_ROWS = 5000
_ROUND_FOLDS = 3
_FOLDS = 3
# steps of conjugate gradients over a grid of alphas, each slower than products of matrices
_PASSES = 5000.0
# D x D arrays of float64 that least squares from moments of two folds holds, and room for a block
_SOLVER_ARRAYS = 9


@dataclass(frozen=True)
class Budget:
    """Limits of a search.

    Attributes
    ----------
    rows : int
        Rows that are drawn at most: differences below their noise need not be resolved.
    boosting_rounds : int
        Of gradient boosting, scikit-learn's default; half of them for many classes.
    boosting_share : float
        Share of the time for the cross-validation of gradient boosting, which is only a reference.
    """

    rows: int = 30_000
    boosting_rounds: int = 100
    boosting_share: float = 0.25


@dataclass(frozen=True)
class Schedule:
    """Rows and sizes of all rounds.

    The sample is split, in order, into rows of rounds, held-out rows that score them, and rows of
    the final cross-validation.

    Attributes
    ----------
    rows, held_out, final : int
        Rows of rounds, rows that score them, rows that score the finalists.
    rounds : tuple of (int, int)
        Training rows of each round, and features at most.
    keep : tuple of int
        Candidates that are kept after each round.
    folds : int
        Of the final cross-validation.
    sizes : tuple of int
        Features of the finalists, increasing.
    round_folds : int
        Folds of the rows of rounds and those that score them; 1 where the latter score them all.
    """

    rows: int
    held_out: int
    final: int
    rounds: tuple[tuple[int, int], ...]
    keep: tuple[int, ...]
    folds: int
    sizes: tuple[int, ...]
    round_folds: int = 1

    @property
    def scored(self) -> int:
        """Rows that score rounds."""
        return self.held_out if self.round_folds == 1 else self.rows + self.held_out


def make_schedule(rows: int, candidates: int, limit: int) -> Schedule:
    """Split rows in halves: rounds with three times as many rows each, and the final."""
    final = rows // 2
    held_out = max(1, min(_HELD_OUT, (rows - final) // 3))
    most = rows - final - held_out
    rounds, size = [], _FEATURES
    count = min(most, _FIRST)
    while True:
        rounds.append((count, size))
        if count * 3 > min(most, _MOST):
            break
        count, size = count * 3, size * 2
    finalists = _FINALISTS if rows > _FEW_ROWS else _FINALISTS + 2
    keep = [max(finalists, -(-candidates // 3 ** (i + 1))) for i in range(len(rounds))]
    keep[-1] = finalists
    widest = most_features(limit)
    trained = rows - -(-final // _FOLDS)
    most_size = min(widest, max(trained, _ALWAYS))
    sizes = tuple(size * 2**i for i in range(1, 8) if size * 2**i <= most_size)
    folds = min(_FOLDS if rows > _FEW_ROWS else _FOLDS + 2, final)
    round_folds = _ROUND_FOLDS if rows <= _FEW_ROWS and most + held_out >= _ROUND_FOLDS else 1
    return Schedule(
        most, held_out, final, tuple(rounds), tuple(keep), folds, sizes or (size,), round_folds
    )


def most_features(limit: int) -> int:
    """Return the features whose moments are summed at most: more take minutes, or exceed limit."""
    return max(_FEATURES, min(_WIDEST, int((limit / (8 * _SOLVER_ARRAYS)) ** 0.5)))


def model_memory(limit: int) -> int:
    """Return max_memory of a model: moments up to ``most_features``, passes beyond.

    It is not below what any fit may take.
    """
    return max(LEAST_LIMIT, 8 * _SOLVER_ARRAYS * most_features(limit) ** 2)


def estimate_seconds(
    rows: int, outputs: int, *, entries: float, flops: float, weights: float, features: float
) -> float:
    """Estimate a fit that was not timed yet, on one core: weights, features, and moments or passes.

    Parameters
    ----------
    rows, outputs : int
    entries, flops : float
        Stored numbers of a row of features, and multiply-adds to compute it.
    weights, features : float
        Numbers that are drawn, and D.
    """
    solving = rows * entries * features + 2 * features**3
    if features > _WIDEST:
        solving = _PASSES * outputs * (rows * entries + 20 * features)
    return weights * 5e-8 + (rows * flops + solving) * 2e-10

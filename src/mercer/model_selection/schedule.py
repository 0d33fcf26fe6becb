"""The course of a race: its rows, rounds, sizes and limits, as pure arithmetic on numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

_ROWS = 30_000  # a race draws no more: what differs less than their noise need not be told apart
_HELD_OUT = 2000
_FIRST, _MOST = 1000, 9000  # rows that the first and the last round may learn from
_FEATURES = 256  # of the first round
_WIDEST = 4096  # features: the eigenvectors of more take minutes
_FINALISTS = 4
# up to which the final has more folds and finalists: it costs little there, and rounds say less
_FEW_ROWS = 5000
_FOLDS = 3
_WIDE = 20_000
_TREES = 20_000  # columns times classes
_PROBED = 2_000_000  # numbers
_THREADED_TREES = 1e6  # numbers
_EXACT_ROWS = 2000
# steps of conjugate gradients over a grid of alphas, each of which is slower than products of
# matrices
_PASSES = 5000.0
_DEAR = 1.0  # seconds of a guess: such models race after all others
# D x D arrays of float64 that least squares from moments holds, as in mercer.parallel.tile_size
_SOLVER_ARRAYS = 4


@dataclass(frozen=True)
class Course:
    """How a race of models is run: its rows, in order, are those of rounds, those that rounds are
    scored on, and those of the final.

    Attributes
    ----------
    rows, held_out, final : int
        Rows of rounds, rows that they are scored on, rows that the finalists are scored on.
    rounds : tuple of (int, int)
        Rows that are learnt from in each round, and features at most.
    keep : tuple of int
        Models that go on after each round.
    folds : int
        Of the cross-validation of the finalists.
    sizes : tuple of int
        Features that the finalists may have, rising.
    """

    rows: int
    held_out: int
    final: int
    rounds: tuple[tuple[int, int], ...]
    keep: tuple[int, ...]
    folds: int
    sizes: tuple[int, ...]


def race_rows(row_bytes: float, limit: int) -> int:
    """Rows that are drawn for a race: at most so many that a quarter of the limit holds them, and
    enough to tell models apart.
    """
    return min(_ROWS, int(limit / 4 / max(row_bytes, 1.0)))


def least_limit(row_bytes: float, rows: int) -> int:
    """The limit at which so many rows are drawn."""
    return ceil(4 * rows * max(row_bytes, 1.0))


def plan_course(rows: int, models: int, limit: int) -> Course:
    """Half of the rows for rounds that learn from three times as many rows each, half for the
    final.
    """
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
    keep = [max(finalists, -(-models // 3 ** (i + 1))) for i in range(len(rounds))]
    keep[-1] = finalists
    widest = most_features(limit)
    learnt = rows - -(-final // _FOLDS)
    sizes = tuple(size * 2**i for i in range(1, 8) if size * 2**i <= min(widest, learnt))
    folds = min(_FOLDS if rows > _FEW_ROWS else _FOLDS + 2, final)
    return Course(most, held_out, final, tuple(rounds), tuple(keep), folds, sizes or (size,))


def most_features(limit: int) -> int:
    """Features whose moments a race takes: those of more take minutes, or do not fit into the
    limit.
    """
    return max(_FEATURES, min(_WIDEST, int((limit / (8 * _SOLVER_ARRAYS)) ** 0.5)))


def race_memory(limit: int) -> int:
    """What a model of a race may hold: moments of as many features as a race takes, and passes over
    the rows beyond that.
    """
    return 8 * _SOLVER_ARRAYS * most_features(limit) ** 2


def probe_rows(columns: int) -> int:
    """Rows that bandwidths come from, before a race: fewer where they are very wide."""
    return max(16, min(256, _PROBED // max(columns, 1)))


def is_wide(columns: int) -> bool:
    """Whether there are so many columns that drawing weights for them is most of the work: kernels
    are then tried at one width only.
    """
    return columns > _WIDE


def is_dear(seconds: float) -> bool:
    """Whether a model of the first round is guessed to take so long that it waits until all others
    have run.
    """
    return seconds > _DEAR


def worth_boosting(columns: int, outputs: int) -> bool:
    """Whether trees are grown on so many columns, for so many classes."""
    return columns * outputs <= _TREES


def worth_tree_threads(rows: int, columns: int) -> bool:
    """Whether trees on so many numbers are worth more than one thread."""
    return rows * columns >= _THREADED_TREES


def worth_gram(rows: int) -> bool:
    """Whether exact kernels are learnt from so many rows."""
    return rows <= _EXACT_ROWS


@dataclass(frozen=True)
class Each:
    """What a model of a race costs: for a row, stored numbers of its features and multiply-adds;
    weights that are drawn, and features.
    """

    entries: float
    flops: float
    weights: float
    features: float


def guess_seconds(rows: int, each: Each, outputs: int) -> float:
    """A rough time of a fit that nothing was measured of: weights drawn, features made, and moments
    or passes, on one core.
    """
    solving = rows * each.entries * each.features + 2 * each.features**3
    if each.features > _WIDEST:
        solving = _PASSES * outputs * (rows * each.entries + 20 * each.features)
    return each.weights * 5e-8 + (rows * each.flops + solving) * 2e-10

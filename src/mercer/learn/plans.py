"""How a model is fitted: from moments in one pass, or by passes over the rows. Arithmetic on numbers, said before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

_SOLVER_ARRAYS = 4  # D x D arrays of float64: moments (half of one), the scatter, and two for its eigenvectors
_PASS_BYTES = 96 * 2**20  # of blocks, while they are read again and again
_UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True)
class Plan:
    """What will be done, and what it holds in memory at once beside the data's own blocks.

    Attributes
    ----------
    route : "moments" or "passes"
    rows : int or None
        None when only a pass can tell.
    columns, features : int
        d and D.
    held : int
        Bytes of the route's arrays.
    limit : int
        Bytes that they may have.
    passes : tuple of str
        What each pass over the rows is for.
    """

    route: str
    rows: int | None
    columns: int
    features: int
    held: int
    limit: int
    passes: tuple[str, ...]

    def __str__(self) -> str:
        rows = "rows of unknown number" if self.rows is None else f"{self.rows:,} rows"
        how = {
            "moments": f"least squares from moments, which hold {size(self.held)} of at most {size(self.limit)}",
            "passes": f"conjugate gradients over blocks, since moments would hold more than {size(self.limit)}",
        }[self.route]
        return (
            f"{rows} x {self.columns:,} columns -> {self.features:,} features; {how}. Passes: {', '.join(self.passes)}."
        )


def plan(
    rows: int | None,
    columns: int,
    features: int,
    *,
    limit: int,
    folds: int = 1,
    looks: bool = False,
    labels: bool = False,
    counts: bool = False,
    again: bool = False,
) -> Plan:
    """The route for squared loss: moments where they fit into the limit.

    Parameters
    ----------
    rows, columns, features : int
    limit : int
        Bytes.
    folds : int
        Moments that are kept apart, for k-fold cross-validation; 1 otherwise.
    looks, labels, counts, again : bool
        Whether the map sees the rows first, targets are labels, classes are counted first, rows are seen again for their leverages.
    """
    more = 1.5 * folds + 1 if folds > 1 else 0  # moments and scatter of each fold, and the scatter of all
    held = int(8 * features**2 * (_SOLVER_ARRAYS + more))
    first = ["what the map must know"] * looks + ["classes and their weights"] * counts
    if held <= limit:
        passes = (*first, "moments", *["leverages"] * again)
        return Plan("moments", rows, columns, features, held, limit, passes)
    passes = (*first, *["classes"] * (labels and not counts), "one for each step of conjugate gradients")
    return Plan("passes", rows, columns, features, _PASS_BYTES, limit, passes)


def tolerance(itemsize: int) -> float:
    """How far conjugate gradients go, as a share of the first residual: what the products of features of this width can resolve."""
    return 1e-7 if itemsize == 8 else 1e-6


def size(count: float) -> str:
    """Bytes in words: 1.5 GB."""
    for unit in _UNITS[:-1]:
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} {_UNITS[-1]}"

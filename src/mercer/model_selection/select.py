"""select: compare kernels, bandwidths and sizes on some rows; the leaderboard of the results."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import clone

from mercer import system
from mercer._html import format_table
from mercer.kernels import Kernel
from mercer.linear_model.base import make_map
from mercer.linear_model.classifier import KernelClassifier
from mercer.linear_model.regressor import KernelRegressor
from mercer.maps.tabular import Tabular
from mercer.model_selection.halving import Clock, Result, SuccessiveHalving, kernel_of
from mercer.model_selection.models import CONSTANT, ExactCandidate
from mercer.model_selection.sample import draw
from mercer.model_selection.schedule import Budget
from mercer.model_selection.scoring import SCORINGS, Scoring, find_scoring
from mercer.model_selection.summary import Comparison, decide, describe_skipped
from mercer.rng import seed_from
from mercer.validation.parameters import parse_memory, validate_option, validate_positive

_COLUMNS = ("Gram err", "features", "B/row", "fit s", "pred s")
OTHERS = 12  # models beside the finalists in a table
_SIZED_ROWS = 256  # rows whose features are measured in bytes


@dataclass(frozen=True, eq=False)
class Entry:
    """Row of a leaderboard.

    Attributes
    ----------
    name : str
        "linear", "fourier gamma=0.11", "exact Gaussian(0.11)", "gradient boosting": unique.
    kind : {"linear", "map", "exact", "outside"}
        Only the first two can win. Gradient boosting and guessing, a constant prediction, are
        "outside".
    model : estimator or None
        Not fitted; None for exact kernels.
    kernel : Kernel or None
        The exact kernel, or the one that is approximated.
    score, spread : float
        Accuracy, R^2 or `scoring`, and its standard error: over the rows (groups of rows, where
        there are any) of all folds for finalists, otherwise over the held-out rows of the last
        round.
    rows : int
        Training rows.
    rounds : int
        Rounds of successive halving that it was in.
    finalist : bool
        Whether the score is that of cross-validation, on rows of no round; sizes and the winner
        are chosen on them.
    gram_error : float or None
        Relative root mean square error over pairs of held-out rows; None where nothing is
        approximated.
    features : int
    bytes_per_row : float
        Of the features, as the map stores them.
    fit_seconds, predict_seconds : float
        Of one fit, and of predicting one fold or the held-out rows.
    """

    name: str
    kind: str
    model: Any
    kernel: Kernel | None
    score: float
    spread: float
    rows: int
    rounds: int
    finalist: bool
    gram_error: float | None
    features: int
    bytes_per_row: float
    fit_seconds: float
    predict_seconds: float

    def __repr__(self) -> str:
        return (
            f"Entry({self.name!r}, score={self.score:.4g} +- {self.spread:.2g}, rows={self.rows}, "
            f"features={self.features}, fit_seconds={self.fit_seconds:.3g})"
        )


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Result of ``select``. ``print`` shows it as a table.

    Attributes
    ----------
    entries : tuple of Entry
        Best first: finalists, then the others by the last round they were in.
    winner : Entry
        The best map, or linear where no map is better by more than one standard error.
    summary : str
        The winner, by how much, and how certain that is.
    numeric : bool
        Whether targets are numbers.
    rows, columns : int
        Of the data.
    seconds : float
        Duration of the search.
    stopped : str or None
        Models that the time limit has left out.
    refused : dict
        Reasons for maps that are no candidates, by name.
    settings : dict
        Parameters and schedule, to run it again.
    notes : tuple of str
        Warnings of the models.
    encoder : Tabular or None
        The encoding of the columns of a table, fitted to the sample.
    scoring : str or None
        The score, by scikit-learn's name; None for accuracy or R^2.
    corrected_score : float or None
        Estimate of the winner's score that does not profit from the choice on the same rows.
    comparisons : tuple of Comparison
        Differences of the winner's score and those of the next best candidate, linear, gradient
        boosting and guessing, with 95% intervals.
    unfinished : tuple of str
        Models that led in the last round they were in, and that the time was not enough for.
    skipped : dict of tuples of str
        All models that the time was not enough for, by stage: "round 1", "the final".
    search : SuccessiveHalving or None
        The search, with its sample, for ``resume``.
    """

    entries: tuple[Entry, ...]
    summary: str
    numeric: bool
    rows: int
    columns: int
    seconds: float
    winner: Entry
    stopped: str | None = None
    refused: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    encoder: Tabular | None = None
    scoring: str | None = None
    corrected_score: float | None = None
    comparisons: tuple[Comparison, ...] = ()
    unfinished: tuple[str, ...] = ()
    skipped: dict[str, tuple[str, ...]] = field(default_factory=dict)
    search: SuccessiveHalving | None = field(default=None, repr=False)

    @property
    def measure(self) -> Scoring:
        """Score of the entries."""
        return SCORINGS[self.scoring] if self.scoring else find_scoring(None, numeric=self.numeric)

    def resume(self, max_seconds: float = 60) -> Leaderboard:
        """Continue the search, and return a leaderboard as of a search that had all the time.

        Parameters
        ----------
        max_seconds : float, default=60
            Time limit of the continuation.

        Returns
        -------
        Leaderboard
            This one is not changed.
        """
        search = self.search
        if search is None:
            raise ValueError("This leaderboard has no search to continue: call select again.")
        search.resume(validate_positive("resume", "max_seconds", max_seconds))
        total = self.settings["max_seconds"] + max_seconds
        return _make_leaderboard(search, {**self.settings, "max_seconds": total})

    @property
    def best_(self) -> KernelClassifier | KernelRegressor:
        """Model of the winner, not fitted: a KernelClassifier or KernelRegressor.

        For a table its map begins with the encoding of the columns.
        """
        model: KernelClassifier | KernelRegressor = clone(self.winner.model)
        if self.encoder is None:
            return model
        given = make_map("select", model.feature_map, None, None, scale=model.scale)
        return model.set_params(feature_map=clone(self.encoder) >> given)

    def __str__(self) -> str:
        """Format the table, the summary, and what was left out."""
        lines = self._cells()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = [
            " ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
            for line in lines
        ]
        return "\n".join([*table, *self._sentences()])

    def __repr__(self) -> str:
        measure = self.measure
        return (
            f"Leaderboard({len(self.entries)} models of {self.rows:,} rows x {self.columns:,} "
            f"columns, winner {self.winner.name!r}, {measure.label} "
            f"{measure.format(self.winner.score)})"
        )

    def _repr_html_(self) -> str:
        header, *rows = self._cells()
        return format_table(header, rows, " ".join(self._sentences()))

    def shown(self) -> tuple[Entry, ...]:
        """Return the entries that are printed: the finalists and the best of the others."""
        finalists = sum(entry.finalist for entry in self.entries)
        return self.entries[: finalists + OTHERS]

    def _cells(self) -> list[tuple[str, ...]]:
        """Return the header and the rows of the table."""
        header = ("model", self.measure.label, "+-", "rows", *_COLUMNS)
        return [header, *(format_entry(entry, self.measure) for entry in self.shown())]

    def _sentences(self) -> list[str]:
        """Return the sentences below the table."""
        more = len(self.entries) - len(self.shown())
        left_out = f"{more} more models are in entries." if more else None
        return [text for text in (left_out, self.summary, self.stopped) if text]


def format_entry(entry: Entry, scoring: Scoring) -> tuple[str, ...]:
    """Format an entry as the cells of its row."""
    error = "-"
    if entry.gram_error is not None:
        error = f"{entry.gram_error:.2%}" if entry.gram_error < 10 else "> 1000%"
    return (
        entry.name,
        scoring.format(entry.score),
        scoring.format_spread(entry.spread),
        f"{entry.rows:,}",
        error,
        f"{entry.features:,}",
        f"{entry.bytes_per_row:,.0f}",
        f"{entry.fit_seconds:.3f}",
        f"{entry.predict_seconds:.3f}",
    )


def select(
    X: Any,
    y: Any = None,
    *,
    max_seconds: float = 60,
    max_memory: int | str | None = None,
    kernels: Any = "auto",
    task: str | None = None,
    scoring: str | None = None,
    random_state: Any = None,
    budget: Budget | None = None,
    tell: Callable[[str, str], None] = lambda stage, name: None,
) -> Leaderboard:
    """Choose a kernel, its bandwidth and the number of features by successive halving.

    Each round trains on three times as many rows with twice as many features and keeps the best
    third of the candidates; up to 5,000 rows have one round, a cross-validation. Bandwidths are
    factors of an estimate from the data, and alphas are chosen by generalized cross-validation from
    moments. The finalists are cross-validated on rows of no round, and get more features for as
    long as their scores rise. Linear is always a candidate, and wins where no map is better by more
    than one standard error of the difference. Gradient boosting of trees, exact kernels and a
    constant prediction are references: they are listed and cannot win. Linear and trees are fitted
    first, then the maps that win most often, and exact kernels last, in time that is left. The cost
    is linear in the rows of the sample.

    Parameters
    ----------
    X : array-like, sparse matrix, data frame, path or stream
        Rows. A sample is drawn where there are more than are needed. Models are fitted and scored
        with the weights of a stream; standard errors are those of its groups.
    y : array-like of shape (n_samples,), optional
        Labels or numbers; None where the stream has them.
    max_seconds : float, default=60
        Time limit, of the clock on the wall. A fit that has begun is completed, and linear is
        always fitted. The result depends on time only where ``stopped`` is not None, and
        ``Leaderboard.resume`` continues from there.
    max_memory : int, str or None, default=None
        Bytes, or "2GB", for the sample and for the moments of a model; half of the machine's
        memory when None.
    kernels : "auto", list, tuple or set, default="auto"
        Names of maps ("fourier", with its kernels and bandwidths), and maps, which are used
        unchanged. "auto" has one map for each kernel.
    task : {"classify", "regress"} or None, default=None
        None: strings, booleans and at most 100 distinct integers are labels, other values are
        numbers.
    scoring : str or None, default=None
        Score that candidates are ranked by, as in scikit-learn: "accuracy", "balanced_accuracy",
        "roc_auc" (two classes), "roc_auc_ovr", "neg_log_loss" (of calibrated probabilities); "r2",
        "neg_root_mean_squared_error", "neg_mean_absolute_error". None: accuracy or R^2. It does not
        change how a model is fitted.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the sample and of all maps.
    budget : Budget, optional
        Rows that are drawn, and rounds and share of the time of gradient boosting.
    tell : callable, optional
        tell(stage, name) is called before each model is fitted.

    Returns
    -------
    Leaderboard
        ``entries`` best first, ``winner``, ``corrected_score``, ``summary``, and ``best_``, the
        winner's model.

    Raises
    ------
    ValueError
        Where there are fewer than 8 rows, where all rows or all targets are equal, where no model
        takes the rows, and where the scoring is of another task.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import select
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> board = select(X, y, kernels=["fourier"], random_state=0)
    >>> board.winner.kind
    'map'
    >>> bool(board.best_.fit(X[:200], y[:200]).score(X[200:], y[200:]) > 0.9)
    True
    """
    clock = Clock(validate_positive("select", "max_seconds", max_seconds))
    limit = system.physical_memory() // 2
    if max_memory is not None:
        limit = parse_memory("select", "max_memory", max_memory)
    numeric = None
    if task is not None:
        numeric = validate_option("select", "task", task, ("classify", "regress")) == "regress"
    seed = seed_from("select", random_state)
    budget = Budget() if budget is None else budget
    sample = draw(X, y, numeric=numeric, limit=limit, seed=seed, most_rows=budget.rows)
    search = SuccessiveHalving(
        sample, kernels, limit, seed, clock, budget, tell, scoring_name=scoring
    )
    search.run()
    settings = {"max_seconds": max_seconds, "max_memory": max_memory, "kernels": kernels}
    return _make_leaderboard(search, settings)


def _make_leaderboard(search: SuccessiveHalving, settings: dict[str, Any]) -> Leaderboard:
    """Order the results of a search, and choose the winner."""
    sample, schedule = search.sample, search.schedule
    verdict = decide(search)
    validated = {result.candidate.name for result in search.final}
    finals = [*search.final, search.baseline(in_final=True)]
    finalists = {id(result): _make_entry(search, result, finalist=True) for result in finals}
    others = {
        id(result): _make_entry(search, result, finalist=False)
        for name, result in search.last.items()
        if name not in validated
    }
    return Leaderboard(
        entries=(
            *sorted(finalists.values(), key=lambda entry: -entry.score),
            *sorted(others.values(), key=lambda entry: (-entry.rounds, -entry.score)),
        ),
        summary=verdict.summary,
        numeric=sample.numeric,
        rows=sample.total,
        columns=sample.columns,
        seconds=search.seconds + search.clock.spent(),
        winner={**others, **finalists}[id(verdict.winner)],
        stopped=describe_skipped(search),
        refused=search.refused,
        settings={
            **settings,
            "random_state": search.seed,
            "alphas": "generalized cross-validation",
            "rows": sample.rows,
            "rounds": schedule.rounds,
            "held_out": schedule.held_out if sample.timed else schedule.scored,
            "final": schedule.final,
            "folds": schedule.folds,
        },
        notes=tuple(search.notes),
        encoder=sample.encoder,
        scoring=search.scoring.name,
        corrected_score=verdict.corrected_score,
        comparisons=verdict.comparisons,
        unfinished=verdict.unfinished,
        skipped={stage: tuple(names) for stage, names in search.skipped.items()},
        search=search,
    )


def _make_entry(search: SuccessiveHalving, result: Result, *, finalist: bool) -> Entry:
    candidate, sample = result.candidate, search.sample
    fitted = result.feature_map
    kernel = candidate.kernel if isinstance(candidate, ExactCandidate) else None
    features = result.rows if candidate.kind == "exact" else sample.columns
    if candidate.name == CONSTANT:
        features = 0
    bytes_per_row = 8.0 * features
    if fitted is not None:
        rows = sample.X[:_SIZED_ROWS]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # issued when it was fitted
            size = sum(block.nbytes for block in fitted.blocks(rows))
        kernel, features = kernel_of(fitted), fitted._n_features_out
        bytes_per_row = size / rows.shape[0]
    model = None
    if candidate.kind != "exact":
        model = candidate.build(result.size, search.options)
        model = getattr(model, "model", model)  # scikit-learn's own
    return Entry(
        name=result.label,
        kind=candidate.kind,
        model=model,
        kernel=kernel,
        score=result.score,
        spread=result.spread,
        rows=result.rows,
        rounds=search.rounds.get(candidate.name, 0),
        finalist=finalist,
        gram_error=search.gram_error(result) if finalist else None,
        features=features,
        bytes_per_row=bytes_per_row,
        fit_seconds=result.fit_seconds,
        predict_seconds=result.predict_seconds,
    )

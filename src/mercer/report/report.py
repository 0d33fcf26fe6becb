"""Write a leaderboard as one HTML page with its figures inside."""

from __future__ import annotations

import errno
import importlib
import os
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from mercer import system
from mercer.evaluation.certificate import format_percent
from mercer.kernels.additive import Additive
from mercer.model_selection.models import CONSTANT
from mercer.model_selection.select import OTHERS, Entry, Leaderboard, format_entry
from mercer.parallel.tile_size import format_bytes
from mercer.persistence.atomic_write import open_atomic
from mercer.report import figures
from mercer.report.best_model import fit_best
from mercer.report.coverage import SHOWN, measure_coverage
from mercer.report.data import (
    ErrorCurve,
    HeatMap,
    SampleSplit,
    gram_heat_map,
    ignored_warnings,
    measure_curve,
    scalar_heat_map,
    split_model,
)
from mercer.report.importances import measure_importances
from mercer.report.predictions import SHOWN_CLASSES, measure_confusion, measure_residuals
from mercer.validation.rows import validate_rows

LEAST_ROWS = 8
_CURVES = 4  # panels in the figure of errors
_COLUMNS = ("±", "rows", "Gram error", "features", "bytes/row", "fit s", "predict s")
_GRAM_ERROR = 4  # index in format_entry; models of earlier rounds have none
_SETTINGS = {  # name in Leaderboard.settings -> text of the page
    "rows": "rows drawn",
    "rounds": "rounds, rows × features",
    "held_out": "rows held out of rounds",
    "final": "rows cross-validated",
}
# of mercer.system.describe_system: those that do not identify the machine
_FACTS = ("mercer", "python", "packages", "threads", "blas", "core")
_INVALID = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def write_report(
    board: Leaderboard,
    path: str | os.PathLike[str],
    *,
    X: Any,
    y: Any,
    names: Sequence[object] | None = None,
    command: str = "mercer compare",
    next_command: str = "board.best_.fit(X, y)",
    title: str = "mercer compare",
) -> None:
    """Write a leaderboard as one HTML page without scripts or external resources.

    The page has the summary, what to run next, final scores, differences with intervals, scores of
    rounds, score against fit time; of the best model the importances of columns, the confusion
    matrix or residuals, and the coverage of its intervals or prediction sets; Gram error against
    size with the theoretical error, exact and approximate Gram matrices, memory, settings and the
    command. What is not in the leaderboard is measured on the rows of X, which takes some seconds.
    The same arguments give the same bytes.

    Parameters
    ----------
    board : Leaderboard
        Result of ``select``.
    path : path-like
        File to write; replaced atomically.
    X : array or sparse matrix of shape (n_samples, n_features)
        Sample of the rows. Maps and the best model are fitted on one half and measured on the
        other.
    y : array of shape (n_samples,)
        Classes or numbers; the rows of the heat maps are sorted by them.
    names : sequence, optional
        Names of the columns.
    command : str
        Command line that repeats the comparison.
    next_command : str
        What to run next, such as the command line that fits the best model to all rows.
    title : str
        Title of the page, such as the name of the data.

    Raises
    ------
    ValueError
        If matplotlib or Jinja2 is not installed, or X, y and names do not match the leaderboard.
    FileNotFoundError, IsADirectoryError
        If path is in no folder, or is a folder.
    """
    path = Path(path)
    require_ready(path)
    sample = _validate_sample(board, X, y, names)
    page = _render(board, sample, names, command, next_command, title)
    with open_atomic(path) as file:
        file.write(page.encode("utf-8"))


def require_ready(path: Path) -> None:
    """Raise if a report cannot be written to path: a package or the folder is missing."""
    for package in ("matplotlib", "jinja2"):
        try:
            importlib.import_module(package)
        except ImportError:
            raise ValueError(f"A report needs {package}: pip install 'mercer[plot]'.") from None
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder", str(path.parent))


def _validate_sample(
    board: Leaderboard, X: Any, y: Any, names: Sequence[object] | None
) -> SampleSplit:
    X, y = validate_rows("write_report", X), np.asarray(y)
    if X.shape[1] != board.columns:
        raise ValueError(
            f"write_report: the leaderboard has {board.columns} columns and X has {X.shape[1]}."
        )
    if y.shape != (X.shape[0],):
        raise ValueError(
            f"write_report needs one class or number for each of the {X.shape[0]} rows of X, got y "
            f"of shape {y.shape}."
        )
    if X.shape[0] < LEAST_ROWS:
        raise ValueError(f"write_report needs at least {LEAST_ROWS} rows, got {X.shape[0]}.")
    if names is not None and len(names) != X.shape[1]:
        raise ValueError(f"write_report: got {len(names)} names for {X.shape[1]} columns.")
    return SampleSplit.of(X, y, classes=not board.numeric)


def _render(
    board: Leaderboard,
    sample: SampleSplit,
    names: Sequence[object] | None,
    command: str,
    next_command: str,
    title: str,
) -> str:
    best, leading = board.winner, _leading(board)
    final = [pair for pair in leading if pair[1].finalist]
    rounds = [pair for pair in leading if not pair[1].finalist]
    others = [pair for pair in enumerate(board.entries, 1) if pair not in leading]
    references = [entry for entry in board.entries if entry.kind in ("linear", "outside")]
    label = board.measure.label.replace("^2", "²")
    metric = label[:1].upper() + label[1:]
    seed = board.settings.get("random_state")
    seed = int(seed) if isinstance(seed, int | np.integer) else 0
    with ignored_warnings():  # issued when models were fitted; a metric here is not learned
        curves, heat, scalar = _approximations(board, sample, seed)
    fitted = fit_best(best.name, best.model, sample, seed)
    coverage = importances = confusion = residuals = None
    if fitted is not None:
        coverage = measure_coverage(fitted)
        importances = measure_importances(fitted, names, board.measure, seed, board.encoder)
        if board.numeric:
            residuals = measure_residuals(fitted)
        else:
            confusion = measure_confusion(fitted)
    # a constant prediction would be far from all others
    compared = [one for one in board.comparisons if one.name != CONSTANT]
    # a constant prediction would be far below all others
    drawn = [pair for pair in leading if pair[1].name != CONSTANT]
    drawings = {
        "scores": figures.scores(drawn, best, label, board.measure),
        "coverage": figures.coverage(coverage) if coverage else None,
        "comparisons": figures.comparisons(compared, label, board.measure) if compared else None,
        "importances": figures.importances(importances, label, board.measure)
        if importances
        else None,
        "confusion": figures.confusion(confusion.most_frequent()) if confusion else None,
        "residuals": figures.residuals(residuals) if residuals else None,
        "errors": figures.errors(curves) if curves else None,
        "gram": figures.heat_map(heat, "gram") if heat else None,
        "scalar": figures.heat_map(scalar, "scalar") if scalar else None,
        "memory": figures.memory(leading, board.rows),
    }
    facts = system.describe_system()
    settings = [
        ("data", f"{board.rows:,} rows, {board.columns:,} columns"),
        *(
            (_SETTINGS.get(name, name.replace("_", " ")), _format_setting(value))
            for name, value in board.settings.items()
            if value is not None
        ),
        ("seconds", f"{board.seconds:.3g}"),
        *((name, facts[name]) for name in _FACTS),
    ]
    source = files("mercer.report").joinpath("template.html.jinja").read_text("utf-8")
    template = environment().from_string(source)
    page: str = template.render(
        title=title,
        summary=board.summary.replace("R^2", "R²").replace(" +- ", " ± "),
        metric=metric,
        numeric=board.numeric,
        score_label=label,
        columns=("#", "model", label, *_COLUMNS),
        round_columns=("#", "model", "round", label, *_without_gram_error(_COLUMNS, 2)),
        final=_table(board, final),
        rounds=_table(board, rounds),
        others=_table(board, others),
        next_command=next_command,
        comparisons=[
            (
                one.name,
                *one.format(board.measure),
                "undecided" if not one.certain else "better" if one.low > 0 else "worse",
            )
            for one in board.comparisons
        ],
        points=board.measure.percent,
        skipped=list(board.skipped.items()),
        max_seconds=board.settings.get("max_seconds", 0),
        better="upper" if board.measure.sign > 0 else "lower",
        stopped=board.stopped,
        highlights=[
            (entry.name, board.measure.format(entry.score), f"{entry.fit_seconds:.3g}")
            for entry in (best, *(entry for entry in references if entry is not best))
        ],
        figures=drawings,
        fitted_rows=sample.train.shape[0],
        measured_rows=sample.test.shape[0],
        coverage=coverage,
        importances=importances,
        confusion=confusion,
        shown_classes=SHOWN_CLASSES,
        residuals=residuals,
        guessing=CONSTANT,
        shown=SHOWN,
        curves=curves,
        heat=heat,
        scalar=scalar,
        best=best.name,
        rows=board.rows,
        row_bytes=best.bytes_per_row,
        exact_bytes=8.0 * board.rows,
        command=command,
        settings=settings,
        column_names=None if names is None else list(names),
        encodings=[] if board.encoder is None else board.encoder.decisions_,
        excluded=list(board.refused.items()),
        notes=board.notes,
    )
    return page


def environment() -> Any:
    """Return the Jinja2 environment of the page: autoescape on, invalid characters replaced."""
    from jinja2 import Environment, StrictUndefined

    page = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_replace_invalid,
    )
    page.filters.update(
        memory=format_bytes,
        percent=format_percent,
        thousands="{:,}".format,
        digits="{:.3g}".format,
    )
    return page


def _replace_invalid(value: Any) -> Any:
    """Replace the characters that HTML or UTF-8 does not have; markup is left as it is."""
    return value if hasattr(value, "__html__") else _INVALID.sub("\ufffd", str(value))


def _leading(board: Leaderboard) -> list[tuple[int, Entry]]:
    """Return (rank, entry) of the table that is not folded.

    These are the finalists, the best OTHERS of the rest, the winner and the first of each kind.
    """
    ranked = list(enumerate(board.entries, 1))
    others = [rank for rank, entry in ranked if not entry.finalist][:OTHERS]
    firsts = {entry.kind: rank for rank, entry in reversed(ranked)}
    ranks = {*others, *firsts.values()}
    return [
        (rank, entry)
        for rank, entry in ranked
        if entry.finalist or rank in ranks or entry is board.winner
    ]


def _table(
    board: Leaderboard, ranked: Sequence[tuple[int, Entry]]
) -> list[tuple[str, tuple[str, ...], str]]:
    """Return (CSS class, cells, remark) of each row.

    A model of earlier rounds has its last round and no Gram error.
    """
    skipped = {name for names in board.skipped.values() for name in names}
    rows = []
    for rank, entry in ranked:
        name, *cells = format_entry(entry, board.measure)
        remark = ""
        if not entry.finalist:
            cells = [str(entry.rounds), *_without_gram_error(cells, 1)]
            remark = "not finished" if entry.name in skipped else ""
            remark = "led, not finished" if entry.name in board.unfinished else remark
        kind = "best" if entry is board.winner else "reference" if entry.name == CONSTANT else ""
        rows.append((kind, (str(rank), name, *cells), remark))
    return rows


def _without_gram_error(cells: Sequence[str], before: int) -> list[str]:
    """Leave out the Gram error of a row that lacks the first cells of ``format_entry``."""
    place = _GRAM_ERROR - before
    return [cell for i, cell in enumerate(cells) if i != place]


def _approximations(
    board: Leaderboard, sample: SampleSplit, seed: int
) -> tuple[list[ErrorCurve], HeatMap | None, HeatMap | None]:
    """Return the error curves of maps, and the heat maps of a Gram matrix and a scalar kernel.

    The best entry of each class of maps has a curve, for at most _CURVES classes. The Gram matrix
    is that of the best model, or else of the first map that has one.
    """
    maps = [
        (entry, parts[1])
        for entry in board.entries
        if entry.kind == "map" and entry.kernel is not None and (parts := split_model(entry.model))
    ]
    curves: dict[type, ErrorCurve] = {}
    for entry, feature_map in maps:
        if type(feature_map) not in curves and len(curves) < _CURVES:
            curve = measure_curve(entry.name, entry.model, sample, seed)
            if curve is not None:
                curves[type(feature_map)] = curve
    heat_maps = (
        gram_heat_map(entry.name, entry.model, sample, board.numeric, seed)
        for entry, _ in sorted(maps, key=lambda pair: pair[0] is not board.winner)
    )
    heat = next(filter(None, heat_maps), None)
    scalars = (
        scalar_heat_map(entry.name, entry.model, sample, seed)
        for entry, feature_map in maps
        if isinstance(entry.kernel, Additive) and feature_map.rate is not None
    )
    scalar = None if heat is None else next(filter(None, scalars), None)
    return list(curves.values()), heat, scalar


def _format_setting(value: Any) -> str:
    if isinstance(value, np.ndarray | list | tuple):
        separator = " × " if all(isinstance(item, int) for item in value) else ", "
        return separator.join(map(_format_setting, value))
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)

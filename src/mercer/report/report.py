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
from mercer.evaluation.certificate import share
from mercer.kernels.additive import Additive
from mercer.model_selection.select import Entry, Leaderboard, shown
from mercer.parallel.tile_size import size as in_words
from mercer.persistence.atomic_write import remove_leftovers, replacing
from mercer.report import figures
from mercer.report.data import Curve, Heat, Rows, curve, heat, map_of, scalar_heat
from mercer.validation.rows import validate_rows

LEAST_ROWS = 8
OTHERS = 12  # models beside the finalists in the table that is not folded
_CURVES = 4  # panels in the figure of errors
_COLUMNS = ("±", "rows", "Gram error", "features", "bytes/row", "fit s", "predict s")
_SETTINGS = {  # name in Leaderboard.settings -> text of the page
    "rows": "rows drawn",
    "rounds": "rounds, rows × features",
    "held_out": "rows held out of rounds",
    "final": "rows of the final",
    "folds": "folds of the final",
}
# of mercer.system.facts: those that do not identify the machine
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
    title: str = "mercer compare",
) -> None:
    """Write a leaderboard as one HTML page without scripts or external resources.

    The page has the summary, the table, score against fit time, Gram error against size with the
    theoretical error, exact and approximate Gram matrices, memory, settings and the command. The
    Gram errors are measured on the rows of X, which takes some seconds. The same arguments give
    the same bytes.

    Parameters
    ----------
    board : Leaderboard
        Result of ``select``.
    path : path-like
        File to write; replaced atomically.
    X : array or sparse matrix of shape (n_samples, n_features)
        Sample of the rows. Maps are fitted on one half and measured on the other.
    y : array of shape (n_samples,)
        Classes or numbers; the rows of the heat maps are sorted by them.
    names : sequence, optional
        Names of the columns.
    command : str
        Command line that repeats the comparison.
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
    page = _render(board, _validate_sample(board, X, y, names), names, command, title)
    remove_leftovers(path)
    with replacing(path) as file:
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


def _validate_sample(board: Leaderboard, X: Any, y: Any, names: Sequence[object] | None) -> Rows:
    who = "write_report"
    X, y = validate_rows(who, X), np.asarray(y)
    if X.shape[1] != board.columns:
        raise ValueError(
            f"{who}: the leaderboard has {board.columns} columns and X has {X.shape[1]}."
        )
    if y.shape != (X.shape[0],):
        raise ValueError(
            f"{who} needs one class or number for each of the {X.shape[0]} rows of X, got y of "
            f"shape {y.shape}."
        )
    if X.shape[0] < LEAST_ROWS:
        raise ValueError(f"{who} needs at least {LEAST_ROWS} rows, got {X.shape[0]}.")
    if names is not None and len(names) != X.shape[1]:
        raise ValueError(f"{who}: got {len(names)} names for {X.shape[1]} columns.")
    return Rows.of(X, y)


def _render(
    board: Leaderboard, rows: Rows, names: Sequence[object] | None, command: str, title: str
) -> str:
    """Return the page; the only function that reads the attributes of a leaderboard."""
    winner, leading = board.winner, _leading(board)
    others = [pair for pair in enumerate(board.entries, 1) if pair not in leading]
    baselines = [one for one in board.entries if one.kind in ("linear", "outside")]
    score = "{:.4f}" if board.numeric else "{:.2%}"
    metric = "R²" if board.numeric else "Accuracy"
    seed = board.settings.get("random_state")
    seed = int(seed) if isinstance(seed, int | np.integer) else 0
    curves, matrix, scalar = _approximations(board, rows, seed)
    exact_bytes = 8.0 * board.rows  # a row of the Gram matrix
    drawings = {
        "scores": figures.scores(leading, winner, board.numeric),
        "errors": figures.errors(curves) if curves else None,
        "gram": figures.heats(matrix, "gram") if matrix else None,
        "scalar": figures.heats(scalar, "scalar") if scalar else None,
        "memory": figures.memory(leading, board.rows),
    }
    facts = system.facts()
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
    template = files("mercer.report").joinpath("template.html.jinja").read_text("utf-8")
    return (
        environment()
        .from_string(template)
        .render(
            title=title,
            verdict=board.verdict,
            metric=metric,
            numeric=board.numeric,
            columns=("#", "model", metric if board.numeric else metric.lower(), *_COLUMNS),
            leading=_table(board, leading),
            others=_table(board, others),
            early=any(not entry.finalist for _, entry in leading),
            stopped=board.stopped,
            baselines=[
                (one.name, score.format(one.score), f"{one.fit_seconds:.3g}")
                for one in (winner, *(one for one in baselines if one is not winner))
            ],
            figures=drawings,
            fitted_rows=rows.seen.shape[0],
            measured_rows=rows.unseen.shape[0],
            curves=curves,
            heat=matrix,
            scalar=scalar,
            winner=winner.name,
            rows=board.rows,
            row_bytes=winner.bytes_per_row,
            exact_bytes=exact_bytes,
            command=command,
            settings=settings,
            column_names=None if names is None else list(names),
            excluded=list(board.refused.items()),
            notes=board.notes,
        )
    )


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
    page.filters.update(memory=in_words, percent=share, thousands="{:,}".format)
    return page


def _replace_invalid(value: Any) -> Any:
    """Replace the characters that HTML or UTF-8 does not have; markup is left as it is."""
    return (
        value
        if hasattr(value, "__html__")
        else _INVALID.sub("\N{REPLACEMENT CHARACTER}", str(value))
    )


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
) -> list[tuple[str, tuple[str, ...]]]:
    """Return (CSS class, cells) of each row."""
    return [
        (
            "marked" if entry is board.winner else "" if entry.finalist else "early",
            (str(rank), *shown(entry, numeric=board.numeric)),
        )
        for rank, entry in ranked
    ]


def _approximations(
    board: Leaderboard, rows: Rows, seed: int
) -> tuple[list[Curve], Heat | None, Heat | None]:
    """Return the Gram errors of maps, and the heat maps of a Gram matrix and of a scalar kernel.

    The best entry of each class of maps has a curve, up to _CURVES of them. The first heat map is
    that of the winner, or else of the best map that has one.
    """
    maps = [
        one
        for one in board.entries
        if one.kind == "map" and one.kernel is not None and map_of(one.model)
    ]
    curves: dict[type, Curve] = {}
    for one in maps:
        family = type(map_of(one.model)[1])  # type: ignore[index]
        if family not in curves and len(curves) < _CURVES:
            measured = curve(one.name, one.model, rows, seed)
            if measured is not None:
                curves[family] = measured
    first = sorted(maps, key=lambda one: one is not board.winner)
    matrices = (heat(one.name, one.model, rows, board.numeric, seed) for one in first)
    matrix = next(filter(None, matrices), None)
    scalars = (
        scalar_heat(one.name, one.model, rows, seed)
        for one in maps
        if isinstance(one.kernel, Additive)
    )
    return list(curves.values()), matrix, matrix and next(filter(None, scalars), None)


def _format_setting(value: Any) -> str:
    if isinstance(value, np.ndarray | list | tuple):
        between = " × " if all(isinstance(one, int) for one in value) else ", "
        return between.join(map(_format_setting, value))
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)

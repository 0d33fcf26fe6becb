"""write_report(board, path): a leaderboard as one page of HTML with its figures inside, to be read
anywhere and printed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mercer import system
from mercer.evaluation.certificate import share
from mercer.kernels.additive import Additive
from mercer.model_selection.select import Entry, Leaderboard, shown
from mercer.parallel.tile_size import size as in_words
from mercer.persistence.atomic_write import remove_leftovers, replacing
from mercer.report import figures, page
from mercer.report.data import HEAT_ROWS, Curve, Heat, Rows, curve, heat, map_of, scalar_heat
from mercer.validation.rows import validate_rows

LEAST_ROWS = 8
OTHERS = 12  # models beside the finalists that are shown at once
_CURVES = 4  # maps in the figure of errors
_NAMES = 12  # columns and classes that are named
_LONGEST = 60  # of a name; the rest is an ellipsis
_HEADER = (
    "#",
    "<model",
    "score",
    "±",
    "rows",
    "Gram error",
    "features",
    "bytes/row",
    "fit s",
    "predict s",
)
_SETTINGS = {  # what select calls them, and what they are
    "rows": "rows drawn",
    "rounds": "rounds, rows × features",
    "held_out": "rows held out of rounds",
    "final": "rows of the final",
    "folds": "folds of the final",
}
_FACTS = (
    "mercer",
    "python",
    "packages",
    "threads",
    "blas",
    "core",
)  # of the machine; none of them names it


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
    """Write a leaderboard as a page of plain HTML: no script, nothing from elsewhere, the same
    bytes for the same arguments.

    The verdict, the table, score against seconds, Gram error against size with what theory says,
    exact and approximate kernel values, memory, what was run and how to run it again. It takes some
    seconds: errors are measured on the rows of X.

    Parameters
    ----------
    board : Leaderboard
        What ``select`` has found.
    path : path-like
        The page appears there whole, or not at all.
    X : array or sparse matrix of shape (n_samples, n_features)
        A sample of the rows. Maps are fitted on half of it and measured on the other half.
    y : array of shape (n_samples,)
        Classes or numbers, by which the rows of the heat maps are sorted.
    names : sequence, optional
        Of the columns.
    command : str
        What runs it again.
    title : str
        What the page is called, such as the name of the data.
    """
    path = Path(path)
    require_ready(path)
    rows = _checked(board, X, y, names)
    text = _text(board, rows, names, command, title)
    remove_leftovers(path)
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def require_ready(path: Path) -> None:
    """Refuse at once what would stop a report after all the work: no matplotlib, no folder to write
    into.
    """
    figures.require_matplotlib()
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder", str(path.parent))


def _checked(board: Leaderboard, X: Any, y: Any, names: Sequence[object] | None) -> Rows:
    who = "write_report"
    X, y = validate_rows(who, X), np.asarray(y)
    if X.shape[1] != board.columns:
        raise ValueError(
            f"{who}: the leaderboard is of {board.columns} columns, X has {X.shape[1]}."
        )
    if y.shape != (X.shape[0],):
        raise ValueError(
            f"{who} needs one number or class for each of the {X.shape[0]} rows of X, got y of "
            f"{y.shape}."
        )
    if X.shape[0] < LEAST_ROWS:
        raise ValueError(f"{who} needs at least {LEAST_ROWS} rows, got {X.shape[0]}.")
    if names is not None and len(names) != X.shape[1]:
        raise ValueError(f"{who}: {len(names)} names for {X.shape[1]} columns.")
    return Rows.of(X, y)


def _text(
    board: Leaderboard, rows: Rows, names: Sequence[object] | None, command: str, title: str
) -> str:
    return page.document(
        title,
        f"<h1>{page.isolated(title)}</h1>",
        page.paragraph(board.verdict, "verdict"),
        _leaderboard(board),
        _scores(board),
        *_gram_errors(board, rows),
        _memory(board),
        _run(board, names, command),
    )


def _shown(board: Leaderboard) -> list[tuple[int, Entry]]:
    """(rank, entry) of those on the first page: finalists, the best of the others, the winner, and
    the first of each kind.
    """
    ranked = list(enumerate(board.entries, 1))
    others = [rank for rank, one in ranked if not one.finalist][:OTHERS]
    firsts = {one.kind: rank for rank, one in reversed(ranked)}
    kept = {*others, *firsts.values()}
    return [
        (rank, one) for rank, one in ranked if one.finalist or rank in kept or one is board.winner
    ]


def _leaderboard(board: Leaderboard) -> str:
    first = _shown(board)
    rest = [(rank, one) for rank, one in enumerate(board.entries, 1) if (rank, one) not in first]
    notes = [
        f"{'R²' if board.numeric else 'Accuracy'} on rows that were not trained on, ± one "
        "standard error. Gram error: root mean "
        "square over pairs of such rows, relative to the exact kernel. Exact kernels and "
        "references from outside cannot win.",
        "Grey: no finalist, scored by a round of the race; the others by cross-validation, on "
        "rows that no round has seen."
        if any(not one.finalist for _, one in first)
        else "",
        board.stopped or "",
    ]
    return page.section(
        "Leaderboard",
        _table(board, "Leaderboard", first),
        page.folded(f"The other {len(rest)} models", _table(board, "Other models", rest))
        if rest
        else "",
        *(page.paragraph(note, "aside") for note in notes if note),
    )


def _table(board: Leaderboard, label: str, ranked: Sequence[tuple[int, Entry]]) -> str:
    header = tuple(
        ("R²" if board.numeric else "accuracy") if name == "score" else name for name in _HEADER
    )
    lines = [
        (str(rank), _cut(one.name), *shown(one, numeric=board.numeric)[1:]) for rank, one in ranked
    ]
    kinds = [
        "marked" if one is board.winner else "" if one.finalist else "early" for _, one in ranked
    ]
    return page.table(label, header, lines, kinds)


def _scores(board: Leaderboard) -> str:
    what = "R²" if board.numeric else "Accuracy"
    won = board.winner
    label = (
        f"{what} against seconds to fit, {len(_shown(board))} models. {won.name}: "
        f"{_score(won, board)} in {won.fit_seconds:.3g} s. "
        + " ".join(
            f"{one.name}: {_score(one, board)} in {one.fit_seconds:.3g} s."
            for one in board.entries
            if one.kind in ("linear", "outside") and one is not won
        )
    )
    caption = page.escaped(
        "Up and left is better. Numbers are ranks in the leaderboard; bars are one standard "
        "error. Pale: no finalist, so that it was "
        "fitted and scored on fewer rows."
    )
    return page.section(
        f"{what} against seconds",
        page.figure(figures.scores(_shown(board), board.winner, board.numeric), label, caption),
    )


def _score(entry: Entry, board: Leaderboard) -> str:
    return f"{entry.score:.4f}" if board.numeric else f"{entry.score:.2%}"


def _gram_errors(board: Leaderboard, rows: Rows) -> Iterator[str]:
    """The sections on how near maps are to their kernels; none where no map took part."""
    seed = board.settings.get("random_state")
    seed = int(seed) if isinstance(seed, int | np.integer) else 0
    maps = [
        one
        for one in board.entries
        if one.kind == "map" and one.kernel is not None and map_of(one.model)
    ]
    curves: list[Curve] = []
    families: set[str] = set()
    for one in maps:
        family = type(map_of(one.model)[1]).__name__  # type: ignore[index]
        if family not in families and len(curves) < _CURVES:
            found = curve(one.name, one.model, rows, seed)
            if found is not None:
                families.add(family)
                curves.append(found)
    if curves:
        yield page.section(
            "Gram error against size",
            page.figure(figures.errors(curves), _of_curves(curves), _on_curves(curves, rows)),
        )
    first = sorted(maps, key=lambda one: one is not board.winner)
    shown_heat = next(
        filter(None, (heat(one.name, one.model, rows, board.numeric, seed) for one in first)), None
    )
    if shown_heat is None:
        return
    parts = [
        page.figure(
            figures.heats(shown_heat, "gram"),
            _of_heat(shown_heat),
            _on_heat(shown_heat, board.numeric),
        )
    ]
    scalars = (
        scalar_heat(one.name, one.model, rows, seed)
        for one in maps
        if isinstance(one.kernel, Additive)
    )
    scalar = next(filter(None, scalars), None)
    if scalar is not None:
        parts.append(
            page.figure(figures.heats(scalar, "scalar"), _of_heat(scalar), _on_scalar(scalar))
        )
    yield page.section("Exact and approximate kernel", *parts)


def _of_curves(curves: list[Curve]) -> str:
    parts = [
        f"{one.name}: {share(one.errors[0])} at {one.size_parameter} {one.sizes[0]:,}, "
        f"{share(one.errors[-1])} at {one.sizes[-1]:,}."
        for one in curves
    ]
    return " ".join(["Relative Gram error against size.", *parts])


def _on_curves(curves: list[Curve], rows: Rows) -> str:
    words = [
        f"Measured on pairs of {rows.unseen.shape[0]:,} rows by maps that were fitted on "
        f"{rows.seen.shape[0]:,} others; random maps "
        "are drawn four times at each size. Panels have scales of their own; the grey line is "
        "the size in the leaderboard."
    ]
    if any(one.law is not None for one in curves):
        words.append(
            "Dashed: the rate that is known for the map, fitted to pilots of half the size and "
            "less."
        )
    if any(one.theory is not None for one in curves):
        words.append(
            "Theory: the variance of independent draws on these pairs; structured designs do "
            "better."
        )
    asked = [
        (one.name, one.theory.everywhere)
        for one in curves
        if one.theory is not None and one.theory.everywhere
    ]
    text = page.escaped(" ".join(words))
    for name, size in asked:
        text += (
            f" A bound for all pairs at once asks for {size:,} components of "
            f"{page.isolated(_cut(name))} where a tenth of the "
            "kernel's root mean square is the error: it says nothing at these sizes."
        )
    return text


def _of_heat(found: Heat) -> str:
    what = "of two numbers" if found.grid is not None else f"of {len(found.exact)} rows"
    return (
        f"Heat maps of the kernel {found.kernel} {what}: exact, approximated by {found.name}, "
        "and their difference, "
        f"which is {share(found.error)} of the exact one."
    )


def _on_heat(found: Heat, numeric: bool) -> str:
    order = "the target" if numeric else "class"
    text = (
        f"{page.isolated(found.kernel)} of {len(found.exact)} rows that the map was not fitted "
        f"on, sorted by {order}, exact and by "
        f"{page.isolated(_cut(found.name))}. The difference has a scale of its own; it is "
        f"{share(found.error)} of the exact matrix."
    )
    if found.reduced:
        text += (
            " The sample has too few rows for the size in the leaderboard: this is "
            f"{page.escaped(found.reduced)}."
        )
    if found.groups:
        text += f" Classes, from the top: {_listed([label for label, _ in found.groups])}."
    return text


def _on_scalar(found: Heat) -> str:
    return (
        f"The kernel of two numbers, {page.isolated(found.kernel)}, on a grid of {HEAT_ROWS} "
        "numbers from 0 to the largest of one "
        f"column, exact and by {page.isolated(_cut(found.name))}: off by {share(found.error)}."
    )


def _memory(board: Leaderboard) -> str:
    won = board.winner
    exact = 8.0 * board.rows
    label = (
        f"Memory for one row of features. {won.name}: {in_words(won.bytes_per_row)}; a row of "
        "the exact kernel's matrix: "
        f"{in_words(exact)}."
    )
    caption = (
        f"For all {board.rows:,} rows: {in_words(won.bytes_per_row * board.rows)} of features "
        f"with {page.isolated(_cut(won.name))}, "
        f"{in_words(exact * board.rows)} for the matrix of an exact kernel, which grows with the "
        "square of the rows. Models read rows in "
        "blocks, and never hold all features at once."
    )
    return page.section(
        "Memory", page.figure(figures.memory(_shown(board), board.rows), label, caption)
    )


def _run(board: Leaderboard, names: Sequence[object] | None, command: str) -> str:
    settings = {name: value for name, value in board.settings.items() if value is not None}
    known = system.facts()
    facts = [
        ("data", f"{board.rows:,} rows, {board.columns:,} columns"),
        *(
            (_SETTINGS.get(name, name.replace("_", " ")), _setting(value))
            for name, value in settings.items()
        ),
        ("seconds", f"{board.seconds:.3g}"),
        *((name, known[name]) for name in _FACTS),
    ]
    left_out = [(name, why) for name, why in board.refused.items()]
    return page.section(
        "What was run",
        page.command(command),
        page.facts(facts),
        "" if names is None else f'<p class="aside">Columns: {_listed(names)}.</p>',
        "" if not left_out else "<h3>Left out</h3>\n" + page.facts(left_out),
        *(page.paragraph(note, "aside") for note in board.notes),
    )


def _setting(value: Any) -> str:
    if isinstance(value, np.ndarray | list | tuple):
        between = " × " if all(isinstance(one, int) for one in value) else ", "
        return between.join(_setting(one) for one in value)
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)


def _listed(names: Sequence[object]) -> str:
    """The first names as HTML, and how many more there are."""
    words = ", ".join(page.isolated(_cut(str(name))) for name in names[:_NAMES])
    more = len(names) - _NAMES
    return words if more <= 0 else f"{words} and {more:,} more"


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"

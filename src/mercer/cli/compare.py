"""mercer compare: which kernel, and which size, for the rows of a file."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mercer.cli import _map_syntax
from mercer.cli._console import Voice, console, plain_table, speaks
from mercer.cli._options import PATH, describe_index, open_data, options, require_target
from mercer.cli.targets import Task, task_of

if TYPE_CHECKING:
    from mercer.model_selection.select import Entry, Leaderboard

_OTHERS = 12  # models beside the finalists that a reader is shown


def _page(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """A report replaces what is there, so that it must not have the name of data."""
    if value is not None and value.suffix.lower() not in (".html", ".htm"):
        raise click.BadParameter(
            f"a report is a page of HTML: {value.with_suffix('.html').name}, not {value.name}."
        )
    return value


@click.command(short_help="Which kernel and which size for your data.")
@click.argument("data", type=PATH, required=False)
@options("target", "columns", "drop")
@click.option(
    "--max-seconds", type=float, default=60, show_default=True, help="When the race is stopped."
)
@click.option("--max-memory", metavar="SIZE", help="What the sample and a model may hold: 2GB.")
@click.option(
    "--kernels",
    metavar="A,B,...",
    help="Names of maps that race (see mercer maps); one for each kernel if not given.",
)
@options("task", "max-classes", "seed")
@click.option(
    "--report",
    type=PATH,
    callback=_page,
    help="Also write a page of HTML with figures: report.html.",
)
@speaks
def compare(
    data: Path | None,
    target: str | None,
    columns: str | None,
    drop: str | None,
    max_seconds: float,
    max_memory: str | None,
    kernels: str | None,
    task: str | None,
    max_classes: int,
    seed: int,
    report: Path | None,
    voice: Voice,
) -> None:
    """Race linear, maps at several bandwidths and sizes, and trees on DATA, or without it on
    scikit-learn's digits as histograms.

    Rounds learn from ever more rows and keep the best; the finalists are scored by cross-validation
    on rows that no round has seen: accuracy for classes, R^2 for numbers. Maps for numbers of at
    least 0 are left out where there are others.

    \b
    Examples:
      mercer compare
      mercer compare data.parquet --target digit --kernels fourier,hellinger --max-seconds 20
      mercer compare data.parquet --target digit --report report.html
    """
    if report is not None:
        from mercer.report.report import require_ready

        require_ready(report)  # now, not after the race
    how: dict[str, Any] = {
        "max_seconds": max_seconds,
        "max_memory": max_memory,
        "random_state": seed,
    }
    how["kernels"] = "auto" if kernels is None else [name.strip() for name in kernels.split(",")]
    if data is None:
        if target is not None:
            raise click.UsageError("--target is for DATA: mercer compare DATA --target COLUMN.")
        X, y = digits()
        with racing(voice) as tell:
            board = _select(X, y, tell, **how)
        about = "Digits as histograms"
    else:
        require_target(data, target)
        stream = open_data(data, target=target, columns=columns, drop=drop)
        chosen = task_of(stream, task, max_classes)
        voice.say(f"{describe_index(stream)} {chosen.why}".strip())
        board = race(stream, chosen, voice, **how)
        about = data.name
    drawn = board.settings["rows"]
    some = f"{drawn:,} rows drawn from {board.rows:,}" if drawn < board.rows else f"{drawn:,} rows"
    voice.say(f"{about}: {some}, {_count(board.columns, 'column')}; {board.seconds:.0f} s")
    show(board, voice)
    if report is not None:
        rows, names = ((X, y), None) if data is None else ((stream, None), stream.columns)
        _write(report, board, rows, names, data, about, voice)
    if data is not None:
        given = {"target": target, "columns": columns, "drop": drop, "task": task}
        named = "".join(
            f" --{name} {shlex.quote(value)}" for name, value in given.items() if value is not None
        )
        words = shlex.quote(_map_syntax.spell(_map_syntax.of_map(board.best_.feature_map)))
        voice.say(
            f"Next: mercer fit {shlex.quote(str(data))}{named} --map {words} --seed {seed} -o "
            "model.mercer"
        )


def _write(
    report: Path,
    board: Leaderboard,
    rows: tuple[Any, Any],
    names: Any,
    data: Path | None,
    about: str,
    voice: Voice,
) -> None:
    """The report, its errors measured on a sample of the rows."""
    from mercer.model_selection.sample import draw
    from mercer.report.data import ROWS
    from mercer.report.report import write_report

    seed = int(board.settings["random_state"])
    some = draw(*rows, numeric=board.numeric, limit=32 * board.columns * ROWS, seed=seed)
    write_report(
        board,
        report,
        X=some.X,
        y=some.y,
        names=names,
        command=_again(data),
        title=f"{about}: which kernel?",
    )
    voice.say(f"The report is in {report}.")
    voice.event("report", path=str(report), bytes=report.stat().st_size)


def _again(data: Path | None) -> str:
    """The command that runs this again, in the folder of the data."""
    ctx = click.get_current_context()
    words = ["mercer", "compare", *([] if data is None else [data.name])]
    for option in ctx.command.params:
        name = str(option.name)
        given = ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if isinstance(option, click.Option) and given and name not in ("voice", "debug"):
            value = ctx.params.get(name, ctx.meta.get("mercer.zero_based"))
            if isinstance(value, bool):
                words.append((option.opts if value else option.secondary_opts)[0])
            else:
                words += [option.opts[0], value.name if isinstance(value, Path) else _word(value)]
    return shlex.join(words)


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def digits() -> tuple[Any, Any]:
    """scikit-learn's digits as histograms of ink (rows with sum 1)."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X / X.sum(axis=1, keepdims=True), y


def race(stream: Any, task: Task, voice: Voice, **how: Any) -> Leaderboard:
    """The race on a sample of a stream."""
    with voice.watching("read") as watch, racing(voice) as tell:
        return _select(stream.watched(watch), None, tell, task=task.name, **how)


def _select(X: Any, y: Any, tell: Callable[[str, str], None], **how: Any) -> Leaderboard:
    from mercer.model_selection.select import select

    return select(X, y, tell=tell, **how)


@contextmanager
def racing(voice: Voice) -> Iterator[Callable[[str, str], None]]:
    """tell(stage, name) for select: a line that changes where standard error is a terminal, events
    among JSON lines.
    """
    if voice.as_json or not sys.stderr.isatty():
        yield lambda stage, name: voice.event("trial", stage=stage, name=name)
        return
    with console(stderr=True).status("race") as status:
        yield lambda stage, name: status.update(f"{stage}: {name}")


def show(board: Leaderboard, voice: Voice) -> None:
    """The table, and what is to be said of it."""
    from mercer.model_selection.candidates import TWINS, twin
    from mercer.model_selection.select import shown

    measure = ">R^2" if board.numeric else ">accuracy"
    table = plain_table(
        "model", measure, ">+-", ">rows", ">Gram err", ">features", ">B/row", ">fit s"
    )
    finalists = sum(entry.finalist for entry in board.entries)
    for i, entry in enumerate(board.entries):
        if i < finalists + _OTHERS:
            table.add_row(*shown(entry, numeric=board.numeric)[:-1])
        voice.event("entry", **_facts(entry))
    voice.table(table)
    more = len(board.entries) - finalists - _OTHERS
    said = [f"And {more} more, which --json lists."] if more > 0 else []
    if finalists:
        first = f"The first {finalists}" if finalists > 1 else "The first"
        rows = _count(board.settings["final"], "row")
        said.append(
            f"{first}: {board.settings['folds']}-fold cross-validation on {rows} that no round "
            "has seen."
        )
    if finalists < len(board.entries):
        who = "The others" if finalists else "All"
        said.append(
            f"{who}: the last round that they were in, on "
            f"{_count(board.settings['held_out'], 'held-out row')}."
        )
    voice.say(" ".join([*said, "+- is one standard error."]))
    twins = [name for name, why in board.refused.items() if name in TWINS and why == twin(name)]
    if twins:
        voice.say(
            "Other ways to kernels of the race took no part unless --kernels names them: "
            f"{', '.join(twins)}."
        )
    for name, why in board.refused.items():
        if name not in twins:
            voice.say(f"{name} took no part. {why}")
    for note in board.notes:
        voice.note(note)
    if board.stopped is not None:
        voice.say(board.stopped)
    voice.say(board.verdict)
    best = _map_syntax.spell(_map_syntax.of_map(board.best_.feature_map))
    voice.event(
        "verdict", verdict=board.verdict, winner=board.winner.name, map=best, stopped=board.stopped
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _facts(entry: Entry) -> dict[str, Any]:
    facts = {name: value for name, value in vars(entry).items() if name != "model"}
    return {**facts, "kernel": None if entry.kernel is None else repr(entry.kernel)}

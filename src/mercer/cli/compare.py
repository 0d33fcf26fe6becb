"""mercer compare: select a kernel and a size for the rows of a file."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mercer.cli import _map_syntax
from mercer.cli._console import (
    Console,
    is_terminal,
    output_options,
    plain_table,
    rich_console,
)
from mercer.cli._options import (
    PATH,
    kind_options,
    open_data,
    print_columns,
    print_stream,
    require_output,
    require_target,
    shared_options,
)
from mercer.cli._task import Task, infer_task

if TYPE_CHECKING:
    from mercer.model_selection.select import Leaderboard

_NAME_WIDTH = 18  # of models in a narrow table, at least
_LEFT_OUT = (6, 4, 5, 3)  # columns of a table that a narrow terminal lacks, the first one first


def _require_html(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Refuse a report whose name may be that of data, which it would replace."""
    if value is not None and value.suffix.lower() not in (".html", ".htm"):
        raise click.BadParameter(
            f"a report is an HTML page: {value.with_suffix('.html').name}, not {value.name}."
        )
    return value


@click.command(short_help="Select a kernel and a size for your data.")
@click.argument("data", type=PATH, required=False)
@shared_options("target", "columns", "drop", "kinds", "weight", "group", "time")
@click.option("--max-seconds", type=float, default=60, show_default=True, help="Time limit.")
@click.option("--max-memory", metavar="SIZE", help="Memory limit of the sample and a model: 2GB.")
@click.option(
    "--kernels",
    metavar="A,B,...",
    help="Maps to compare (see mercer maps); by default one for each kernel.",
)
@click.option(
    "--scoring",
    metavar="NAME",
    help="Score to rank by: accuracy, balanced_accuracy, roc_auc, roc_auc_ovr, neg_log_loss; r2, "
    "neg_root_mean_squared_error, neg_mean_absolute_error.  [default: accuracy or r2]",
)
@shared_options("task", "max-classes", "seed")
@click.option(
    "--report", type=PATH, callback=_require_html, help="Write an HTML report: report.html."
)
@output_options
def compare(
    data: Path | None,
    target: str | None,
    columns: str | None,
    drop: str | None,
    weight: str | None,
    group: str | None,
    time: str | None,
    max_seconds: float,
    max_memory: str | None,
    kernels: str | None,
    scoring: str | None,
    task: str | None,
    max_classes: int,
    seed: int,
    report: Path | None,
    console: Console,
) -> None:
    """Compare a linear model, maps at several bandwidths and sizes, and trees on DATA.

    Successive halving on a sample of the rows: rounds fit to more and more rows and keep the best.
    The finalists are scored by cross-validation on rows that no round has used, by accuracy, R^2 or
    --scoring, and by --weight where it is given. Maps that need values of at least 0 are skipped
    where there are others. Without DATA, scikit-learn's digits are used as histograms.

    \b
    Examples:
      mercer compare
      mercer compare data.parquet --target digit --kernels fourier,hellinger --max-seconds 20
      mercer compare data.parquet --target digit --scoring neg_log_loss
      mercer compare data.parquet --target digit --report report.html
    """
    if report is not None:
        from mercer.report.report import require_ready

        require_ready(report)  # before the comparison, not after it
        require_output(report, force=True, inputs=(data,))
    settings: dict[str, Any] = {
        "max_seconds": max_seconds,
        "max_memory": max_memory,
        "random_state": seed,
        "scoring": scoring,
        "kernels": "auto" if kernels is None else [name.strip() for name in kernels.split(",")],
    }
    if data is None:
        if target is not None:
            raise click.UsageError("--target is for DATA: mercer compare DATA --target COLUMN.")
        X, y = load_histograms()
        with _status(console) as tell:
            board = _select(X, y, tell, **settings)
        name = "Digits as histograms"
    else:
        require_target(data, target)
        roles: Any = {"columns": columns, "drop": drop, "weight": weight, "group": group}
        stream = open_data(data, target=target, time=time, **roles)
        inferred = infer_task(stream, task, max_classes, "comparing {}s")
        stream = print_stream(stream, inferred, console)
        board = compare_stream(stream, inferred, console, **settings)
        name = data.name
    sampled = board.settings["rows"]
    rows = f"{sampled:,} rows"
    rows = f"a sample of {rows} of {board.rows:,}" if sampled < board.rows else rows
    if board.encoder is not None:
        print_columns(board.encoder, console)
    width = _count(board.columns, "column" if board.encoder is None else "encoded column")
    console.print(f"{name}: {rows}, {width}; {board.seconds:.0f} s")
    print_leaderboard(board, console)
    given = {
        "target": target,
        "columns": columns,
        "drop": drop,
        "task": task,
        "weight": weight,
        "group": group,
        "time": time,
        **kind_options(),
    }
    options = {option: value for option, value in given.items() if value is not None}
    if report is not None:
        then = _next_command(data and Path(data.name), options, board, seed)
        _write_report(report, board, data, name, then, console)
    console.print(f"Next: {_next_command(data, options, board, seed)}", wrap=False)


def _next_command(data: Path | None, options: dict[str, str], board: Leaderboard, seed: int) -> str:
    """Return the command that fits the winner to all rows; without data, a comparison of a file."""
    if data is None:
        return "mercer compare data.csv --target COLUMN --report report.html"
    given = [f"--{option} {shlex.quote(value)}" for option, value in options.items()]
    words = ["mercer fit", shlex.quote(str(data)), *given, "--map", shlex.quote(_map_text(board))]
    return " ".join([*words, f"--seed {seed} -o model.mercer"])


def _map_text(board: Leaderboard) -> str:
    return _map_syntax.format_spec(_map_syntax.spec_of_map(board.best_.feature_map))


def _write_report(
    report: Path,
    board: Leaderboard,
    data: Path | None,
    name: str,
    next_command: str,
    console: Console,
) -> None:
    """Write the report; what it measures is measured on the sample of the search."""
    from mercer.report.report import write_report

    assert board.search is not None
    sample = board.search.sample
    write_report(
        board,
        report,
        X=sample.X,
        y=sample.y,
        names=sample.names,
        command=_command_line(data),
        next_command=next_command,
        title=f"{name}: which kernel?",
    )
    console.print(f"Wrote the report to {report}.")
    console.event("report", path=str(report), bytes=report.stat().st_size)


def _command_line(data: Path | None) -> str:
    """Return the command line of this run, with file names relative to the folder of the data."""
    ctx = click.get_current_context()
    words = ["mercer", "compare", *([] if data is None else [data.name])]
    for option in ctx.command.params:
        name = str(option.name)
        given = ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if isinstance(option, click.Option) and given and name not in ("console", "debug"):
            value = ctx.params.get(name, ctx.meta.get("mercer.zero_based"))
            if isinstance(value, bool):
                words.append((option.opts if value else option.secondary_opts)[0])
                continue
            text = f"{value:g}" if isinstance(value, float) else str(value)
            words += [option.opts[0], value.name if isinstance(value, Path) else text]
    return shlex.join(words)


def load_histograms() -> tuple[Any, Any]:
    """Load scikit-learn's digits as histograms: rows with sum 1."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X / X.sum(axis=1, keepdims=True), y


def compare_stream(stream: Any, task: Task, console: Console, **settings: Any) -> Leaderboard:
    """Compare maps on a sample of a stream."""
    with console.progress("read") as progress, _status(console) as tell:
        return _select(stream.with_progress(progress), None, tell, task=task.name, **settings)


def _select(X: Any, y: Any, tell: Callable[[str, str], None], **settings: Any) -> Leaderboard:
    from mercer.model_selection.select import select

    return select(X, y, tell=tell, **settings)


@contextmanager
def _status(console: Console) -> Iterator[Callable[[str, str], None]]:
    """Return tell(stage, name) for select: a status line on a terminal, events with --json."""
    if console.as_json or not is_terminal(sys.stderr):
        yield lambda stage, name: console.event("trial", stage=stage, name=name)
        return
    with rich_console(stderr=True).status("compare") as status:
        yield lambda stage, name: status.update(f"{stage}: {name}")


def print_leaderboard(board: Leaderboard, console: Console) -> None:
    """Print the table of a comparison, notes and the summary."""
    from mercer.model_selection.candidates import ALTERNATIVES, alternative_reason
    from mercer.model_selection.select import format_entry

    measure = board.measure
    header = ("model", measure.label, "+-", "rows", "Gram err", "features", "B/row", "fit s")
    cells = [header, *(format_entry(entry, measure)[:-1] for entry in board.shown())]
    columns = _fitting_columns(cells, rich_console().width)
    table = plain_table(*(f">{header[i]}" if i else header[i] for i in columns))
    finalists = sum(entry.finalist for entry in board.entries)
    for number, row in enumerate(cells[1:], 1):
        table.add_row(*(row[i] for i in columns), end_section=number == finalists)
    for entry in board.entries:
        fields = {name: value for name, value in vars(entry).items() if name != "model"}
        fields["kernel"] = None if entry.kernel is None else repr(entry.kernel)
        console.event("entry", **fields)
    console.table(table)
    left_out = [name for i, name in enumerate(header) if i not in columns]
    if left_out:
        console.print(f"A wider terminal has {', '.join(left_out)} too.")
    console.print(_describe_scores(board, finalists))
    skipped = [
        name
        for name, why in board.refused.items()
        if name in ALTERNATIVES and why == alternative_reason(name)
    ]
    if skipped:
        names = ", ".join(skipped)
        console.print(
            f"Skipped (other maps for kernels already compared; add with --kernels): {names}."
        )
    for name, why in board.refused.items():
        if name not in skipped:
            console.print(f"Skipped {name}: {why}")
    for note in board.notes:
        console.note(note)
    if board.stopped is not None:
        console.print(board.stopped)
    console.print(board.summary)
    console.event(
        "summary",
        summary=board.summary,
        winner=board.winner.name,
        map=_map_text(board),
        stopped=board.stopped,
        scoring=measure.name,
        corrected_score=board.corrected_score,
        comparisons=[vars(one) for one in board.comparisons],
        unfinished=list(board.unfinished),
    )


def _fitting_columns(cells: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the columns of a table that leave room for the names of models, in their order."""
    columns = list(range(len(cells[0])))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for i in _LEFT_OUT:
        needed = sum(widths[j] + 2 for j in columns[1:])
        if needed + min(widths[0], _NAME_WIDTH) + 3 <= width:
            break
        columns.remove(i)
    return columns


def _describe_scores(board: Leaderboard, finalists: int) -> str:
    """Return sentences about the rows on which the models of the table were scored."""
    others = len(board.entries) - finalists
    sentences = []
    if len(board.entries) > len(board.shown()):
        more = len(board.entries) - len(board.shown())
        sentences.append(f"{more} more are listed with --json.")
    if finalists:
        first = f"First {finalists}" if finalists > 1 else "First"
        rows = _count(board.settings["final"], "row")
        sentences.append(
            f"{first}: {board.settings['folds']}-fold cross-validation on {rows} that no round "
            "has used."
        )
    if others:
        rows = _count(board.settings["held_out"], "held-out row")
        sentences.append(f"{'Others' if finalists else 'All'}: last round, on {rows}.")
    return " ".join([*sentences, "+- is one standard error."])


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"

"""Command line of the experiments: python -m experiments run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from experiments.records import SIZES
from mercer.cli._console import Console, output_options, plain_table, rich_console
from mercer.cli._errors import CommandGroup, on_interrupt

if TYPE_CHECKING:
    from experiments.records import Experiment, Paper
    from experiments.running import Bench, Outcome, Results, Task
    from experiments.sets import Sets


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Reproduce the experiments of the five papers."""


@main.command(name="run", short_help="Run the experiments of the five papers.")
@click.argument("names", metavar="[PAPER]...", nargs=-1)
@click.option(
    "--size",
    type=click.Choice(SIZES),
    default="quick",
    show_default=True,
    help="Takes a minute, three quarters of an hour, or hours.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    envvar="MERCER_DATA",
    help="Folder of the data sets, .npz files; $MERCER_DATA by default.",
)
@click.option(
    "--download", is_flag=True, help="Download missing data sets from OpenML, where it has them."
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Store results in this JSON file; stored results are not computed again.",
)
@click.option(
    "--page",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Write papers.md and its pictures into this folder.",
)
@click.option("--show", is_flag=True, help="Run nothing: show the results in --out.")
@output_options
def run_papers(
    names: tuple[str, ...],
    size: str,
    data: Path | None,
    download: bool,
    out: Path | None,
    page: Path | None,
    show: bool,
    console: Console,
) -> None:
    """Run the experiments of the five papers, and print each table with published numbers.

    Each number has a verdict by a stated rule.

    Rows whose data are missing are listed as absent. With --out an interrupted run resumes, and a
    long one can be run in parts: python -m experiments run chi2 --size standard --out results.json.

    \b
    Examples:
      python -m experiments run --show
      python -m experiments run chi2 --show --out results.json
    """
    from experiments import papers
    from experiments.running import Bench, Results, cells, to_do, why_absent
    from experiments.sets import Sets

    available = papers()
    unknown = [name for name in names if name not in available]
    if unknown:
        raise click.UsageError(
            f"There is no paper {unknown[0]!r}. Available papers: {', '.join(available)}."
        )
    selected = [paper for name, paper in available.items() if not names or name in names]
    if data is not None and not data.is_dir():
        raise ValueError(
            f"{data} is not a folder: --data, or $MERCER_DATA, needs a folder of data sets."
        )
    if show and out is not None and not out.is_file():
        console.note(
            f"{out.name} does not exist: --show displays the results that a run has stored in it."
        )
    results = Results.read(out) if out is not None else Results()
    bench = Bench(size, Sets(data, download=download))
    failed: dict[str, Exception] = {}
    if not show:
        tasks = to_do(selected, size, bench.sets, results)
        if not (
            tasks or any(results.get(size, one.experiment, one.cell) for one in cells(selected))
        ):
            console.note(
                "nothing was run: the data of all rows are missing. Set their folder with --data."
            )
        results.write()  # fails before the first cell where the file cannot be written
        failed = _run(tasks, bench, results, console)
    for paper in selected:
        _show(paper, size, results, bench.sets, console, everything=show)
    absent = [] if show else [one for one in cells(selected) if why_absent(one.cell, bench.sets)]
    if absent:
        console.note(
            f"{len(absent)} of {len(list(cells(selected)))} cells need data that are not here: set "
            "their folder with --data or $MERCER_DATA. --show lists them."
        )
    if size == SIZES[0]:
        console.print(
            "\nQuick: a few rows, one draw, to test that everything runs; verdicts are meaningful "
            "from --size standard on."
        )
    if page is not None:
        _write(page, list(available.values()), size, results, console)
    if failed:
        key, error = next(iter(failed.items()))
        raise ValueError(f"{len(failed)} cell(s) failed, first {key!r}: {error}")


def _run(
    tasks: Sequence[Task], bench: Bench, results: Results, console: Console
) -> dict[str, Exception]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from experiments.running import run

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    quiet = console.as_json or sys.stderr is None or not sys.stderr.isatty()
    done = 0
    with Progress(
        *columns, console=rich_console(stderr=True), transient=True, disable=quiet
    ) as progress:
        bar = progress.add_task("papers", total=len(tasks))

        def begin() -> Any:
            for task in tasks:
                progress.update(bar, description=task.key)
                yield task

        def watch(task: Task, outcome: Outcome | Exception) -> None:
            nonlocal done
            done += 1
            progress.advance(bar)
            if isinstance(outcome, Exception):
                console.event("failed", cell=task.key, error=str(outcome))
                return
            console.event("cell", cell=task.key, size=bench.size, **outcome.to_json())
            for note in outcome.notes:
                console.note(f"{task.key}: {note}")

        def describe_progress() -> str:
            where = (
                f", stored in {results.path}: the same command resumes there"
                if results.path
                else ", and lost: --out stores them"
            )
            return f"{done} of {len(tasks)} cells are done{where}."

        with on_interrupt(describe_progress):
            return run(begin(), bench, results, watch)


def _show(
    paper: Paper, size: str, results: Results, sets: Sets, console: Console, *, everything: bool
) -> None:
    """Print the tables of a paper: of all its experiments, or of those with a result."""
    shown = [
        experiment
        for experiment in paper.experiments
        if everything or any(results.get(size, experiment, cell) for cell in experiment.cells)
    ]
    if shown:
        console.print(f"\n{paper.title} ({paper.citation})")
    for experiment in shown:
        _show_table(experiment, size, results, sets, console, everything=everything)


def _show_table(
    experiment: Experiment,
    size: str,
    results: Results,
    sets: Sets,
    console: Console,
    *,
    everything: bool,
) -> None:
    """Print a table; without everything, one line for a table that has no published number."""
    from experiments.page import format_row
    from experiments.running import why_absent
    from experiments.verdicts import MISSES, table

    rows = table(experiment, size, results, lambda cell: why_absent(cell, sets))
    console.print(f"\n{experiment.source}: {experiment.title}; {experiment.unit}")
    shown = plain_table("row", "column", ">published", ">ours", ">difference", "verdict")
    for row in rows:
        shown.add_row(row.label, row.column, *format_row(row, experiment.form))
        ours = None if row.ours is None else row.ours.to_json()
        console.event(
            "row",
            experiment=experiment.key,
            label=row.label,
            column=row.column,
            published=row.published,
            ours=ours,
            rule=row.rule.name,
            verdict=row.verdict,
            reason=row.reason,
        )
    if not everything and all(row.published is None for row in rows):
        numbers = sum(row.ours is not None for row in rows)
        console.print(f"{numbers} numbers, none of them published: see --page, --json or --show.")
        return
    console.table(shown)
    for row in rows:
        if row.verdict == MISSES:
            console.print(f"{row.label}, {row.column}: {row.reason}. {row.note}".rstrip())


def _write(
    folder: Path, papers: Sequence[Paper], size: str, results: Results, console: Console
) -> None:
    from experiments.page import FOLDER, page
    from mercer.persistence.atomic_write import open_atomic

    files = page(papers, size, results)
    (folder / FOLDER).mkdir(exist_ok=True)
    for name, contents in files.items():
        with open_atomic(folder / name) as file:
            file.write(contents)
    console.print(f"\nWritten: {folder / 'papers.md'} and {len(files) - 1} pictures.")


if __name__ == "__main__":
    main(prog_name="python -m experiments")

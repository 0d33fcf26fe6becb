"""mercer compare: linear, exact kernels and every map on the same rows."""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mercer.cli.sources import PATH, open_data, options, require_target
from mercer.cli.targets import REGRESS, task_of
from mercer.cli.voice import Voice, plain_table, speaks

if TYPE_CHECKING:
    from mercer.comparison import Entry, Split


LEAST_ROWS = 8


@click.command(short_help="Linear, exact kernels and every map on your data.")
@click.argument("data", type=PATH, required=False)
@options("target", "columns", "drop")
@click.option(
    "--rows", type=click.IntRange(LEAST_ROWS), default=2000, show_default=True, help="Rows that are drawn from DATA."
)
@options("task", "max-classes")
@speaks
def compare(
    data: Path | None,
    target: str | None,
    columns: str | None,
    drop: str | None,
    rows: int,
    task: str | None,
    max_classes: int,
    voice: Voice,
) -> None:
    """Compare linear, exact kernels and every map on DATA, or without it on scikit-learn's digits.

    A quarter of the rows is held out, and scored: accuracy for classes, R^2 for numbers. Maps for numbers of at least 0 are left out
    where there are others.

    \b
    Examples:
      mercer compare
      mercer compare data.parquet --target digit --rows 200
    """
    if data is None:
        from mercer.comparison import digits

        if target is not None:
            raise click.UsageError("--target is for DATA: mercer compare DATA --target COLUMN.")
        split, about = digits(), "Digits as histograms"
    else:
        split, about = _split_of(data, target, columns, drop, rows, task, max_classes, voice)
    held_out = f"{len(split.X)} rows for training, {len(split.X_test)} held out, {split.X.shape[1]} columns"
    entries, notes = _race(split, voice)
    voice.say(f"{about}: {held_out}")
    voice.table(_table(entries, split))
    voice.say(_footnote(split))
    for note in notes:
        voice.say(note)
    if data is not None:
        best = max((entry for entry in entries if entry.name not in ("linear", "exact")), key=lambda one: one.score)
        given = {"target": target, "columns": columns, "drop": drop, "task": task}
        named = "".join(f" --{name} {shlex.quote(value)}" for name, value in given.items() if value is not None)
        linear = next((entry.score for entry in entries if entry.name == "linear"), -1.0)
        if linear >= best.score:
            voice.say("Linear does as well as any map on these rows.")
            return
        voice.say(f"Next: mercer fit {shlex.quote(str(data))}{named} --map {best.name} -o model.mercer")


def _split_of(
    data: Path,
    target: str | None,
    columns: str | None,
    drop: str | None,
    rows: int,
    task: str | None,
    max_classes: int,
    voice: Voice,
) -> tuple[Split, str]:
    require_target(data, target)
    stream = open_data(data, target=target, columns=columns, drop=drop)
    chosen = task_of(stream, task, max_classes)
    from mercer.comparison import sample, split_rows

    with voice.watching("read") as watch:
        X, y = sample(stream.watched(watch), rows)
    if len(X) < LEAST_ROWS:
        raise ValueError(
            f"compare holds a quarter of the rows out, and {data.name} has {len(X)}: it needs at least {LEAST_ROWS}."
        )
    if y.ndim > 1:
        raise ValueError("compare takes one target, got several.")
    voice.say(chosen.why)
    seen = f"{data.name}, {len(X):,} rows drawn from {stream.rows:,}" if len(X) < (stream.rows or 0) else data.name
    return split_rows(X, y, numeric=chosen.name == REGRESS), seen


def _race(split: Split, voice: Voice) -> tuple[list[Entry], list[str]]:
    """The entries, and what the models have warned of."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from mercer.comparison import contestants

    runs, refused = contestants(split)
    entries: list[Entry] = []
    notes = {f"{name} is left out. {said}": name for name, said in refused.items()}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    quiet = voice.as_json or not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=quiet) as progress:
        bar = progress.add_task("comparing", total=len(runs))
        for name, run in runs:
            progress.update(bar, description=name)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    entry = run()
                except ValueError as error:
                    notes[f"{name} is left out. {error}"] = name
                else:
                    entries.append(entry)
                    voice.event("entry", **{**vars(entry), "kernel": repr(entry.kernel)})
            notes |= {str(one.message): name for one in caught}
            progress.advance(bar)
    return entries, list(notes)


def _table(entries: list[Entry], split: Split) -> Any:
    measure = ">R^2" if split.numeric else ">accuracy"
    table = plain_table("model", measure, ">Gram err", ">features", ">B/row", ">fit s", ">pred s")
    for entry in entries:
        table.add_row(
            _model(entry),
            f"{entry.score:.4f}" if split.numeric else f"{entry.score:.2%}",
            _share(entry.gram_error),
            f"{entry.features:,}",
            f"{entry.bytes_per_row:,.0f}",
            f"{entry.fit_seconds:.3f}",
            f"{entry.predict_seconds:.3f}",
        )
    return table


def _share(error: float | None) -> str:
    return "-" if error is None else f"{error:.2%}" if error < 10 else "> 1000%"


def _footnote(split: Split) -> str:
    from mercer.comparison import ALPHAS, PAIRS, SVM_C

    head = "ridge regression" if split.numeric else "ridge classifier"
    exact = "kernel ridge regression" if split.numeric else f"SVM with C = {SVM_C:g}"
    return (
        f"Maps and linear: {head}, alpha from {ALPHAS[0]:g} to {ALPHAS[-1]:g} by generalised cross-validation. "
        f"Exact kernels: {exact}; its features are the training rows.\n"
        f"Gram error: root mean square over {PAIRS:,} held-out pairs, relative to the exact kernel."
    )


def _model(entry: Entry) -> str:
    """linear | exact Gaussian(0.11) | fourier ~ Gaussian(0.11)"""
    kernel = re.sub(r"\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.3g}", repr(entry.kernel))
    kernel = re.sub(r"\w+=", "", kernel)
    return {"linear": "linear", "exact": f"exact {kernel}"}.get(entry.name, f"{entry.name} ~ {kernel}")

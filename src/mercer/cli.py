"""The command line: reads, runs, prints. Heavy imports stay inside the commands, so that --help is quick."""

from __future__ import annotations

import re
import warnings
from typing import Any

import click

from mercer import __version__


class Sentences(click.Group):
    """Errors of data, files and settings are one sentence and exit code 1, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (ValueError, OSError) as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=Sentences, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mercer")
def main() -> None:
    """Nonlinear kernel methods at linear cost: feature maps, the exact kernel beside each one, and the measured error."""


@main.command()
def compare() -> None:
    """Compare linear, exact kernels and every map on scikit-learn's digits.

    \b
    Example:
      mercer compare
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from mercer.leaderboard import ALPHAS, PAIRS, SVM_C, contestants, digits

    console = Console()
    split = digits()
    runs = contestants(split)
    table = _table("model", ">accuracy", ">Gram err", ">features", ">B/row", ">fit s", ">pred s")
    notes: dict[str, str] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("comparing", total=len(runs))
        for name, run in runs:
            progress.update(task, description=name)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                entry = run()
            notes |= {str(one.message): name for one in caught}
            table.add_row(
                _model(entry),
                f"{entry.accuracy:.2%}",
                "-" if entry.gram_error is None else f"{entry.gram_error:.2%}",
                f"{entry.features:,}",
                f"{entry.bytes_per_row:,.0f}",
                f"{entry.fit_seconds:.3f}",
                f"{entry.predict_seconds:.3f}",
            )
            progress.advance(task)
    rows, test_rows = len(split.X), len(split.X_test)
    console.print(f"Digits as histograms: {rows} rows for training, {test_rows} held out, {split.X.shape[1]} columns")
    console.print(table)
    console.print(
        f"Maps and linear: ridge classifier, alpha from {ALPHAS[0]:g} to {ALPHAS[-1]:g} by generalised cross-validation. "
        f"Exact kernels: SVM with C = {SVM_C:g}; its features are the training rows.\n"
        f"Gram error: root mean square over {PAIRS:,} held-out pairs, relative to the exact kernel.",
        style="dim",
        soft_wrap=True,
    )
    for note in notes:
        console.print(note, style="dim", soft_wrap=True)


@main.command()
def maps() -> None:
    """List the maps: kernels, domain, the parameter that buys accuracy, the paper.

    \b
    Example:
      mercer maps
    """
    from rich.console import Console

    from mercer.maps import registry

    table = _table("name", "class(knob)", "kernels; domain; paper")
    for name, cls in sorted(registry().items()):
        about = f"{', '.join(cls.kernels)}; {cls().domain}\n{cls.paper}\n"
        table.add_row(name, f"{cls.__name__}({cls.knob or ''})", about)
    Console().print(table)


@main.command()
def info() -> None:
    """Print versions, CPU features, threads, which ops are compiled and which extras are there.

    \b
    Example:
      mercer info
    """
    from rich.console import Console

    from mercer.machine import facts

    table = _table("", "", header=False)
    for name, value in facts().items():
        table.add_row(name, value)
    Console().print(table)


def _model(entry: Any) -> str:
    """linear | exact Gaussian(0.11) | fourier ~ Gaussian(0.11)"""
    kernel = re.sub(r"\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.3g}", repr(entry.kernel))
    kernel = re.sub(r"\w+=", "", kernel)
    return {"linear": "linear", "exact": f"exact {kernel}"}.get(entry.name, f"{entry.name} ~ {kernel}")


def _table(*names: str, header: bool = True) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD if header else None, show_header=header, pad_edge=False, padding=(0, 1, 0, 0))
    for name in names:
        right = name.startswith(">")
        whole = right or name in ("name", "class(knob)")
        table.add_column(name.lstrip(">"), justify="right" if right else "left", no_wrap=whole, overflow="fold")
    return table

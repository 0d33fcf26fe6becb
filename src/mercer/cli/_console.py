"""Output of a command: text and progress bars for a terminal, or one JSON object on each line."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import TextWrapper
from typing import Any, TextIO

import click

_SECONDS = 0.5  # between two progress events

Progress = Callable[[int, int | None], None]
"""Called with the index of the next row, and the number of rows or None."""


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether standard output or error is a terminal; it is None where it was closed."""
    return stream is not None and stream.isatty()


@dataclass(frozen=True)
class Console:
    """Standard output and standard error of one run of a command; JSON with --json."""

    as_json: bool

    def print(self, text: str, *, wrap: bool = True) -> None:
        """Print text; nothing with --json.

        Lines are wrapped at words on a terminal, unless they are commands to be copied.
        """
        if not self.as_json:
            click.echo(wrap_lines(text) if wrap and is_terminal(sys.stdout) else text)

    def note(self, text: str) -> None:
        """Print a note to standard error, or a note event with --json."""
        if self.as_json:
            self.event("note", text=text)
        else:
            text = f"Note: {text}"
            click.echo(wrap_lines(text) if is_terminal(sys.stderr) else text, err=True)

    def event(self, kind: str, /, **fields: Any) -> None:
        """Print a JSON object on one line; nothing without --json."""
        if self.as_json:
            click.echo(json.dumps({"event": kind, **fields}, default=str))

    def print_file(self, action: str, rows: int, seconds: float, output: Path) -> None:
        """Print the summary of a command that has written rows to a file."""
        from mercer.parallel.tile_size import format_bytes

        length = output.stat().st_size
        self.print(
            f"{action} {rows:,} rows in {seconds:.1f} s; wrote {output} ({format_bytes(length)})."
        )
        self.event("done", output=str(output), rows=rows, seconds=round(seconds, 3), bytes=length)

    def table(self, table: Any) -> None:
        """Print a rich table; nothing with --json."""
        if not self.as_json:
            rich_console().print(table)

    @contextmanager
    def progress(self, description: str) -> Iterator[Progress | None]:
        """Return a callback for Stream.with_progress, or None.

        It draws a bar where standard error is a terminal, and prints events with --json.
        """
        if self.as_json:
            yield _ProgressEvents(self)
        elif is_terminal(sys.stderr):
            with _progress_bars() as bars:
                yield _ProgressBar(bars, description)
        else:
            yield None


def wrap_lines(text: str, width: int | None = None) -> str:
    """Wrap lines at words; what follows a label in front of two spaces stays in its column."""
    width = shutil.get_terminal_size().columns if width is None else width
    lines = []
    for line in text.split("\n"):
        label = re.match(r" {2,}\S.{0,24}? {2,}(?=\S)| *", line)
        indent = " " * (len(label[0]) if label else 0)
        wrapper = TextWrapper(
            width,
            subsequent_indent=indent if len(indent) < width // 2 else "",
            replace_whitespace=False,
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += wrapper.wrap(line) if len(line) > width else [line]
    return "\n".join(lines)


class _TextOutput(io.TextIOWrapper):
    """Text output that is discarded once it cannot be written: a closed pipe, a full disk."""

    def write(self, text: str) -> int:
        try:
            super().write(text)
            self.flush()
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                lost = f"Note: messages cannot be written ({error.strerror}); the command goes on."
                click.echo(lost, err=True)
            # what the buffer holds is written there, too
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
        return len(text)


@contextmanager
def discard_lost_messages() -> Iterator[None]:
    """Go on without standard output where its reader ends: ``mercer fit --json ... | head -1``.

    Or where its disk is full: ``mercer fit ... > log``.
    """
    stream = sys.stdout
    if not hasattr(stream, "buffer"):  # a StringIO is no pipe
        yield
        return
    stream.flush()
    sys.stdout = _TextOutput(stream.buffer, stream.encoding, stream.errors)
    try:
        yield
    finally:
        sys.stdout.detach()
        sys.stdout = stream


class _PassCounter:
    """Count passes over the rows: one begins where the row index does not increase."""

    passes = 0
    row = 0

    def update(self, row: int) -> bool:
        """Set the current row; return whether a pass begins with it."""
        begins = self.passes == 0 or row < self.row or row == 0
        if begins:
            self.passes, self.first, self.started = self.passes + 1, row, time.monotonic()
        self.row = row
        return begins

    def rate(self) -> float:
        """Return the rows per second of the current pass."""
        return (self.row - self.first) / max(time.monotonic() - self.started, 1e-9)


class _ProgressEvents(_PassCounter):
    def __init__(self, console: Console) -> None:
        self.console, self.printed = console, 0.0

    def __call__(self, row: int, total: int | None) -> None:
        self.update(row)
        now = time.monotonic()
        if row > self.first and (row == total or now - self.printed >= _SECONDS):
            fields = {"rows": row, "of": total, "rate": round(self.rate(), 1), "pass": self.passes}
            self.console.event("progress", **fields)
            self.printed = now


class _ProgressBar(_PassCounter):
    def __init__(self, bars: Any, description: str) -> None:
        self.bars, self.description = bars, description
        self.task = bars.add_task(description, total=None, rate="")

    def __call__(self, row: int, total: int | None) -> None:
        if self.update(row):
            text = f"{self.description}, pass {self.passes}"
            text = self.description if self.passes == 1 else text
            self.bars.reset(self.task, description=text, total=total, completed=row)
        rate = self.rate()
        text = f"{rate:,.0f} rows/s" if rate else ""
        self.bars.update(self.task, completed=row, total=total, rate=text)


def rich_console(*, stderr: bool = False) -> Any:
    """Return a rich console that prints [gpu] and :name: as they are, not as markup."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False)


def _progress_bars() -> Any:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} rows"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=rich_console(stderr=True),
        transient=True,
    )


def plain_table(*names: str, header: bool = True) -> Any:
    """Return an empty rich table.

    Names that begin with ">" are right-aligned columns; those and names that begin with "=" are
    not wrapped.
    """
    from rich import box
    from rich.table import Table

    style = box.SIMPLE_HEAD if header else None
    table = Table(box=style, show_header=header, pad_edge=False, padding=(0, 1, 0, 0))
    for name in names:
        table.add_column(
            name.lstrip(">="),
            justify="right" if name.startswith(">") else "left",
            no_wrap=name[:1] in (">", "="),
            overflow="fold",
        )
    return table


def output_options(command: Any) -> Any:
    """Add --json, which passes a Console to the command, and --debug."""
    json_flag = click.option(
        "--json",
        "console",
        is_flag=True,
        callback=lambda ctx, param, value: Console(value),
        help="Print one JSON object on each line instead of text.",
    )
    debug_flag = click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=store_option,
        help="Show the traceback of an error.",
    )
    return json_flag(debug_flag(command))


def store_option(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Store the value of an option in the context, under "mercer." and its name."""
    ctx.meta[f"mercer.{param.name}"] = value

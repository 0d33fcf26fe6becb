"""What a command says: sentences on standard output, bars where standard error is a terminal, or
one JSON object on each line.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

_SECONDS = 0.5  # between two lines of progress

Watch = Callable[[int, int | None], None]


class Voice:
    """One for each run of a command."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    def say(self, text: str) -> None:
        """A sentence for a reader; nothing among JSON lines."""
        if not self.as_json:
            click.echo(text)

    def note(self, text: str) -> None:
        """Something to know that is no error."""
        if self.as_json:
            self.event("note", text=text)
        else:
            click.echo(f"Note: {text}", err=True)

    def event(self, kind: str, /, **facts: Any) -> None:
        """A line of JSON; nothing for a reader."""
        if self.as_json:
            click.echo(json.dumps({"event": kind, **facts}, default=str))

    def written(self, what: str, rows: int, seconds: float, output: Path) -> None:
        """The last word of a command whose result is a file of rows."""
        from mercer.parallel.tile_size import size

        length = output.stat().st_size
        self.say(f"{what} {rows:,} rows in {seconds:.1f} s, written to {output} ({size(length)}).")
        self.event("done", output=str(output), rows=rows, seconds=round(seconds, 3), bytes=length)

    def table(self, table: Any) -> None:
        """A table of rich; nothing among JSON lines."""
        if not self.as_json:
            console().print(table)

    @contextmanager
    def watching(self, what: str, begin: Callable[[], None] = lambda: None) -> Iterator[Watch]:
        """watch(row, rows in all) for Stream.watched; begin() is called before each pass over the
        rows.
        """
        if self.as_json:
            yield _Lines(self, begin)
        elif sys.stderr.isatty():
            with _bars() as progress:
                yield _Bars(progress, what, begin)
        else:
            yield _Passes(begin)


class _Passes:
    """Counts passes: one begins where the row is not beyond the last one."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self.begin, self.passes, self.last = begin, 0, 0

    def __call__(self, row: int, of: int | None) -> None:
        if self.passes == 0 or row < self.last or row == 0:
            self.begin()
            self.passes, self.first, self.since = self.passes + 1, row, time.monotonic()
            self._start(row, of)
        self.last = row
        self._show(row, of)

    def _start(self, row: int, of: int | None) -> None:
        pass

    def _show(self, row: int, of: int | None) -> None:
        pass


class _Lines(_Passes):
    def __init__(self, voice: Voice, begin: Callable[[], None]) -> None:
        super().__init__(begin)
        self.voice, self.said = voice, 0.0

    def _show(self, row: int, of: int | None) -> None:
        now = time.monotonic()
        if row > self.first and (row == of or now - self.said >= _SECONDS):
            rate = (row - self.first) / max(now - self.since, 1e-9)
            self.voice.event(
                "progress", rows=row, of=of, rate=round(rate, 1), **{"pass": self.passes}
            )
            self.said = now


class _Bars(_Passes):
    def __init__(self, progress: Any, what: str, begin: Callable[[], None]) -> None:
        super().__init__(begin)
        self.progress, self.what, self.task = (
            progress,
            what,
            progress.add_task(what, total=None, rate=""),
        )

    def _start(self, row: int, of: int | None) -> None:
        what = self.what if self.passes == 1 else f"{self.what}, pass {self.passes}"
        self.progress.reset(self.task, description=what, total=of, completed=row)

    def _show(self, row: int, of: int | None) -> None:
        rate = (row - self.first) / max(time.monotonic() - self.since, 1e-9)
        self.progress.update(
            self.task, completed=row, total=of, rate=f"{rate:,.0f} rows/s" if rate else ""
        )


def console(*, stderr: bool = False) -> Any:
    """One of rich that shows words as they are: [gpu] and :name: are no markup."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False)


def _bars() -> Any:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} rows"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
    )


def plain_table(*names: str, header: bool = True) -> Any:
    """An empty table of rich; names that begin with ">" are those of columns of numbers, with "="
    those of columns without line breaks.
    """
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD if header else None,
        show_header=header,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name in names:
        right = name.startswith(">")
        table.add_column(
            name.lstrip(">="),
            justify="right" if right else "left",
            no_wrap=name[:1] in (">", "="),
            overflow="fold",
        )
    return table


def speaks(command: Any) -> Any:
    """Adds --json, which gives the command its voice, and --debug."""
    json_flag = click.option(
        "--json",
        "voice",
        is_flag=True,
        callback=lambda ctx, param, value: Voice(value),
        help="One JSON object on each line instead of text.",
    )
    debug_flag = click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_remember,
        help="Show the traceback of an error.",
    )
    return json_flag(debug_flag(command))


def _remember(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta["mercer.debug"] = True

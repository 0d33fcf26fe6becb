"""Errors of data, files and settings are one sentence and an exit code, without a traceback."""

from __future__ import annotations

import errno
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

INTERRUPTED, TERMINATED = 130, 143
_STOPPED = "mercer.stopped"

_SAID_HERE = {  # what the library says of its arguments, and what they are on the command line
    "open_stream(source, columns=[...])": "--columns",
    "open_stream(source, target='column')": "--target",
    "columns=[...]": "--columns or --drop",
    "max_memory=": "--max-memory ",
    "max_memory": "--max-memory",
    "select: max_seconds": "--max-seconds",
    "select: kernels": "--kernels",
    "loss='logistic'": "--loss logistic",
    "feature_map is one map: give a list of maps": "--map is one map: give --map 'a + b'",
    "and pca is None: give pca=": "and there are none: give --pca",
    "n_jobs": "--jobs",
    "random_state": "--seed",
    "zero_based=True, or zero_based=False": "--zero-based, or --one-based",
    "zero_based=True": "--zero-based",
}


class Terminated(KeyboardInterrupt):
    """SIGTERM, handled as Ctrl-C is: what is done is kept."""


class Sentences(click.Group):
    """A group of commands whose errors are sentences: exit code 1 for data and files, 2 for usage, 130 for Ctrl-C.

    With --debug, or MERCER_DEBUG=1, the traceback is shown instead.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order in which they are needed

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _signals(ctx), _warnings_in_words(), stopping(lambda: ""):
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt as stop:
            click.echo(f"\nStopped. {' '.join(map(str, stop.args))}".rstrip(), err=True)
            ctx.exit(TERMINATED if isinstance(stop, Terminated) else INTERRUPTED)
        except Exception as error:
            if ctx.meta.get("mercer.debug") or os.environ.get("MERCER_DEBUG", "") not in ("", "0"):
                raise
            raise click.ClickException(sentence(error)) from error


def sentence(error: Exception) -> str:
    """What went wrong, in words."""
    if isinstance(error, OSError):
        return _of_file(error)
    if isinstance(error, MemoryError):
        return f"There is not enough memory{f' ({error})' if str(error) else ''}: use fewer features, or fewer rows at a time."
    if isinstance(error, ValueError):
        text = str(error)
        for library, here in _SAID_HERE.items():
            text = text.replace(library, here)
        return text
    return f"This should not happen ({type(error).__name__}: {error}). Run it again with --debug, and report what it shows."


def _of_file(error: OSError) -> str:
    name = os.path.basename(str(error.filename)) if error.filename else ""
    name = name.removeprefix(".").partition(".part")[0] if name.endswith(".part") else name
    what = error.strerror or str(error)
    if error.errno == errno.ENOSPC and what == os.strerror(errno.ENOSPC):
        what = "The disk is full: nothing was written under the name of the output. Make room, and run it again"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"No permission{f': {error.filename}' if error.filename else ''} ({what})."
    return f"{f'{name}: ' if name else ''}{what}."


@contextmanager
def _signals(ctx: click.Context) -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt and SIGTERM raises Terminated, and the context knows that they came."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        ctx.meta[_STOPPED] = KeyboardInterrupt if number == signal.SIGINT else Terminated
        raise ctx.meta[_STOPPED]

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {  # what is ignored stays so, as in a shell's background, where Ctrl-C is meant for others
        number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)
    }
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stopping(kept: Callable[[], str]) -> Iterator[None]:
    """Where Ctrl-C or SIGTERM end the work inside, they say what is kept.

    A signal may come between two lines of a wait for a thread, whose lock then fails in place of it: an error after a signal is the signal.
    """
    try:
        yield
    except KeyboardInterrupt as stop:
        stop.args = stop.args or (kept(),)
        raise
    except Exception as error:
        context = click.get_current_context(silent=True)
        stopped = None if context is None else context.meta.get(_STOPPED)
        if stopped is None or isinstance(error, click.exceptions.Exit):
            raise
        raise stopped(kept()) from error


@contextmanager
def _warnings_in_words() -> Iterator[None]:
    """Warnings are notes on standard error, each once."""

    def show(message: Any, *where: Any, **more: Any) -> None:
        text = str(message)
        if text not in seen:
            seen.add(text)
            click.echo(f"Note: {text}", err=True)

    seen: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show
        yield

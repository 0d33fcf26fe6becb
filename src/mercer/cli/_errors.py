"""Errors of data, files and settings are one sentence and an exit code, without a traceback."""

from __future__ import annotations

import errno
import os
import signal
import threading
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import click

from mercer.cli._signatures import maps
from mercer.errors import ParameterError, Part, Setting, join_parts

INTERRUPTED, TERMINATED = 130, 143
_STOPPED = "mercer.stopped"

_OPTIONS = {  # of parameters whose options have another name, or that stand for several
    "n_jobs": ("--jobs",),
    "random_state": ("--seed",),
    "feature_map": ("--map",),
    "a list of maps": ("--map 'a + b'",),
    "columns": ("--columns", "--drop"),
    "open_stream(source, columns=[...])": ("--columns",),
    "zero_based=True": ("--zero-based",),
    "zero_based=False": ("--one-based",),
}


class Terminated(KeyboardInterrupt):
    """SIGTERM, handled as Ctrl-C is: what is done is kept."""


class Sentences(click.Group):
    """A group of commands whose errors are sentences: exit code 1 for data and files, 2 for usage,
    130 for Ctrl-C.

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
            raise click.ClickException(sentence(error, self._options(ctx))) from error

    def _options(self, ctx: click.Context) -> frozenset[str]:
        """The options of the command that was run."""
        command = self.get_command(ctx, ctx.invoked_subcommand or "")
        params = [] if command is None else command.get_params(ctx)
        return frozenset(
            option for param in params for option in (*param.opts, *param.secondary_opts)
        )


def sentence(error: Exception, options: Collection[str] = ()) -> str:
    """What went wrong, in words; parameters for which the command has options are named by
    these.
    """
    from mercer.errors import RowError

    if isinstance(error, OSError):
        return _of_file(error)
    if isinstance(error, MemoryError):
        return (
            f"There is not enough memory{f' ({error})' if str(error) else ''}: use fewer "
            "features, or fewer rows at a time."
        )
    if isinstance(error, ParameterError):
        return _of_parameters(error.who, error.parts, options)
    if isinstance(error, RowError):
        return _of_parameters("", error.parts, options)
    if isinstance(error, ValueError):
        return str(error)
    return (
        f"This should not happen ({type(error).__name__}: {error}). Run it again with "
        "--debug, and report what it shows."
    )


def _of_parameters(who: str, parts: tuple[Part, ...], options: Collection[str]) -> str:
    """The sentence with the options of the command in place of parameters. Those of a map stay:
    --map has them by their names.
    """
    of_map = who in (one.cls for one in maps().values())

    def spell(setting: Setting) -> str:
        if of_map:
            return str(setting)
        names = (
            _OPTIONS.get(str(setting))
            or _OPTIONS.get(setting.parameter)
            or (option_of(setting.parameter),)
        )
        known = " or ".join(name for name in names if name.split()[0] in options)
        given = setting.value.strip("'") if str(setting) not in _OPTIONS else ""
        return f"{known} {given}".strip() if known else str(setting)

    first = parts[0]
    named = isinstance(first, Setting) and spell(first) != str(
        first
    )  # an option needs no name of an estimator
    return f"{'' if named or not who else f'{who}: '}{join_parts(parts, spell)}"


def option_of(parameter: str) -> str:
    """The option that stands for a parameter of an estimator."""
    return _OPTIONS.get(parameter, (f"--{parameter.replace('_', '-')}",))[0]


def _of_file(error: OSError) -> str:
    name = os.path.basename(str(error.filename)) if error.filename else ""
    name = name.removeprefix(".").partition(".part")[0] if name.endswith(".part") else name
    what = error.strerror or str(error)
    if error.errno == errno.ENOSPC and what == os.strerror(errno.ENOSPC):
        what = (
            "The disk is full: nothing was written under the name of the output. Make room, "
            "and run it again"
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"No permission{f': {error.filename}' if error.filename else ''} ({what})."
    return f"{f'{name}: ' if name else ''}{what}."


@contextmanager
def _signals(ctx: click.Context) -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt and SIGTERM raises Terminated, and the context knows that
    they came.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        ctx.meta[_STOPPED] = KeyboardInterrupt if number == signal.SIGINT else Terminated
        raise ctx.meta[_STOPPED]

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # what is ignored stays so, as in a shell's background, where Ctrl-C is meant for others
    before = {
        number: handler
        for number, handler in handlers.items()
        if handler not in (signal.SIG_IGN, None)
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

    A signal may come between two lines of a wait for a thread, whose lock then fails in place of
    it: an error after a signal is the signal.
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

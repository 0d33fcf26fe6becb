"""Errors of data, files and options as one sentence and an exit code, without a traceback."""

from __future__ import annotations

import errno
import os
import signal
import threading
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from mercer.cli._parameters import option_name
from mercer.errors import ParameterError, Part, RowError, Setting, join_parts

_SIGNAL = "mercer.signal"

# Settings that are not spelled as the option of their parameter: by parameter and text or value.
_SPELLINGS: dict[tuple[str, str], tuple[str, ...]] = {
    ("feature_map", "a list of maps"): ("--map 'a + b'",),
    ("columns", "columns=[...]"): ("--columns", "--drop"),
    ("zero_based", "zero_based=True"): ("--zero-based",),
    ("zero_based", "zero_based=False"): ("--one-based",),
}


_FULL = {
    errno.ENOSPC: "The disk is full",
    errno.EFBIG: "File too large",
    **({errno.EDQUOT: "The disk quota is used up"} if hasattr(errno, "EDQUOT") else {}),
}


class Terminated(KeyboardInterrupt):
    """SIGTERM, handled as Ctrl-C is."""


class HungUp(KeyboardInterrupt):
    """SIGHUP, the end of a terminal or a connection, handled as Ctrl-C is."""


_INTERRUPTS = {"SIGINT": KeyboardInterrupt, "SIGTERM": Terminated, "SIGHUP": HungUp}
_EXIT_CODES: dict[type, int] = {KeyboardInterrupt: 130, Terminated: 143, HungUp: 129}


class CommandGroup(click.Group):
    """A group of commands that print errors as sentences.

    Exit codes: 1 for data and files, 2 for usage, 130 for Ctrl-C, 143 for SIGTERM, 129 for
    SIGHUP. With --debug, or MERCER_DEBUG=1, the traceback is shown instead.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they were added, not sorted."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _handle_signals(ctx), _print_warnings(), on_interrupt(lambda: ""):
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt as interrupt:
            with suppress(OSError):  # of a terminal that was closed
                click.echo(f"\nStopped. {' '.join(map(str, interrupt.args))}".rstrip(), err=True)
            ctx.exit(_EXIT_CODES[type(interrupt)])
        except Exception as error:
            if ctx.meta.get("mercer.debug") or os.environ.get("MERCER_DEBUG", "") not in ("", "0"):
                raise
            raise click.ClickException(format_error(error, self._options(ctx))) from error

    def _options(self, ctx: click.Context) -> frozenset[str]:
        """Return the options of the invoked command."""
        command = self.get_command(ctx, ctx.invoked_subcommand or "")
        params = [] if command is None else command.get_params(ctx)
        return frozenset(name for param in params for name in (*param.opts, *param.secondary_opts))


def format_error(error: Exception, options: Collection[str] = ()) -> str:
    """Return an error as a sentence, with parameters named by the options of the command."""
    if isinstance(error, OSError):
        return _format_os_error(error)
    if isinstance(error, MemoryError):
        detail = f" ({error})" if str(error) else ""
        return f"Out of memory{detail}: use fewer features, or fewer rows at a time."
    if isinstance(error, ParameterError):
        return _format_parts(error.estimator_name, error.parts, options)
    if isinstance(error, RowError):
        return _format_parts("", error.parts, options)
    if isinstance(error, ValueError):
        return str(error)
    return (
        f"Internal error ({type(error).__name__}: {error}). Run the command again with --debug, "
        "and report the traceback."
    )


def _format_parts(estimator_name: str, parts: tuple[Part, ...], options: Collection[str]) -> str:
    """Join the parts of a message, with options in place of parameters.

    Parameters of maps keep their names, which --map uses.
    """
    if estimator_name and _is_map(estimator_name):
        return f"{estimator_name}: {join_parts(parts)}"

    def spell(setting: Setting) -> str:
        names = _SPELLINGS.get((setting.parameter, str(setting)))
        value = setting.value.strip("'") if names is None else ""
        names = names or (option_name(setting.parameter),)
        spelling = " or ".join(name for name in names if name.split()[0] in options)
        return f"{spelling} {value}".strip() if spelling else str(setting)

    first = parts[0]
    begins_with_option = isinstance(first, Setting) and spell(first) != str(first)
    prefix = "" if begins_with_option or not estimator_name else f"{estimator_name}: "
    return prefix + join_parts(parts, spell)


def _is_map(name: str) -> bool:
    from mercer.maps import registry

    return any(cls.__name__ == name for cls in registry().values())


def _format_os_error(error: OSError) -> str:
    name = os.path.basename(str(error.filename)) if error.filename else ""
    name = name.removeprefix(".").removesuffix(".part") if name.endswith(".part") else name
    reason = error.strerror or str(error)
    full = _FULL.get(error.errno or 0)
    if full is not None and reason == os.strerror(error.errno or 0):
        reason = (
            f"{full}: nothing was written under the name of the output. Free space, and run the "
            "command again"
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"No permission{f': {error.filename}' if error.filename else ''} ({reason})."
    return f"{f'{name}: ' if name else ''}{reason}."


@contextmanager
def _handle_signals(ctx: click.Context) -> Iterator[None]:
    """Raise the class of _INTERRUPTS on a signal, and note it in the context."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        ctx.meta[_SIGNAL] = _INTERRUPTS[signal.Signals(number).name]
        raise ctx.meta[_SIGNAL]

    numbers = [getattr(signal, name) for name in _INTERRUPTS if hasattr(signal, name)]
    handlers = {number: signal.getsignal(number) for number in numbers}
    # an ignored signal stays ignored: in a shell's background Ctrl-C is meant for others
    handlers = {n: each for n, each in handlers.items() if each not in (signal.SIG_IGN, None)}
    for number in handlers:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def on_interrupt(describe: Callable[[], str]) -> Iterator[None]:
    """Add a text, describe(), to a signal that ends the body.

    A signal may arrive while a thread is waited for, whose lock then raises an error of its own:
    an error after a signal is replaced by the signal.
    """
    try:
        yield
    except KeyboardInterrupt as interrupt:
        interrupt.args = interrupt.args or (describe(),)
        raise
    except Exception as error:
        context = click.get_current_context(silent=True)
        signalled = None if context is None else context.meta.get(_SIGNAL)
        if signalled is None or isinstance(error, click.exceptions.Exit):
            raise
        raise signalled(describe()) from error


@contextmanager
def _print_warnings() -> Iterator[None]:
    """Print each distinct warning once, as a note on standard error."""
    printed: set[str] = set()

    def show(message: Any, *args: Any, **kwargs: Any) -> None:
        text = str(message)
        if text not in printed:
            printed.add(text)
            click.echo(f"Note: {text}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show
        yield

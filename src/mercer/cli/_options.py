"""Options that several commands share, and the files that they name."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mercer.cli._console import Console, discard_lost_messages, plain_table, store_option
from mercer.cli._task import CLASSIFY, MOST_CLASSES, REGRESS

if TYPE_CHECKING:
    from mercer.data import Stream

_MOST_NAMES = 12  # columns listed in an error
_MOST_ROWS = 40  # columns listed in a table
TABLES = (".parquet", ".csv", ".tsv")  # that are written
STANDARD = Path("-")  # standard input or output
SVMLIGHT = (".svm", ".svmlight", ".libsvm")
_LABELLED = (".npz", *SVMLIGHT)  # files that have their own targets

# a path that cannot be read is an error of files (exit code 1), not of usage
PATH = click.Path(path_type=Path, readable=False)


def shared_options(*names: str) -> Callable[[Any], Any]:
    """Add the named options to a command; "columns" includes --zero-based, "kinds" one for each."""

    def decorate(command: Any) -> Any:
        for name in reversed(names):
            if name == "columns":
                command = _OPTIONS["base"](command)
            if name == "kinds":
                for kind_option in reversed(_KIND_OPTIONS):
                    command = kind_option(command)
            else:
                command = _OPTIONS[name](command)
        return command

    return decorate


def _add_kinds(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Store the columns of a kind in the context, where open_data reads them."""
    kind = {"numeric": "number", "categorical": "category"}.get(str(param.name), str(param.name))
    columns = [] if value is None else [name.strip() for name in value.split(",") if name.strip()]
    kinds = ctx.meta.setdefault("mercer.kinds", {})
    for name in columns:
        if kinds.setdefault(name, kind) != kind:
            raise click.UsageError(f"Column {name!r} is declared as {kinds[name]} and {kind}.")


def kind_options() -> dict[str, str]:
    """Return the columns that the options of this command declare, by the name of the option."""
    kinds = click.get_current_context().meta.get("mercer.kinds", {})
    names = {"number": "numeric", "category": "categorical"}
    options: dict[str, list[str]] = {}
    for column, kind in kinds.items():
        options.setdefault(names.get(kind, kind), []).append(column)
    return {option: ",".join(columns) for option, columns in options.items()}


_KINDS = {
    "categorical": "categories",
    "numeric": "numbers",
    "date": "dates",
    "text": "text of several words",
}
_KIND_OPTIONS = [
    click.option(
        f"--{name}",
        metavar="A,B,...",
        expose_value=False,
        callback=_add_kinds,
        help=f"Columns of a table to use as {what}.",
    )
    for name, what in _KINDS.items()
]
_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "base": click.option(
        "--zero-based/--one-based",
        default=None,
        expose_value=False,
        callback=store_option,
        help="First column number of an svmlight file, if ambiguous.",
    ),
    "target": click.option(
        "--target", metavar="COLUMN", help="Target column; several, separated by commas."
    ),
    "columns": click.option(
        "--columns",
        metavar="A,B,...",
        help="Input columns, by name; by number or 0:64 for .npy. Others are ignored.",
    ),
    "drop": click.option("--drop", metavar="A,B,...", help="Columns to ignore."),
    "weight": click.option("--weight", metavar="COLUMN", help="Column of sample weights."),
    "group": click.option(
        "--group",
        metavar="COLUMN",
        help="Column of groups, such as patients: validation leaves out whole groups.",
    ),
    "time": click.option(
        "--time", metavar="COLUMN", help="Column of times: validation leaves out the latest rows."
    ),
    "force": click.option("--force", is_flag=True, help="Replace an existing output file."),
    "output": click.option("-o", "--output", type=PATH, required=True, help="Output file."),
    "task": click.option(
        "--task",
        type=click.Choice([CLASSIFY, REGRESS]),
        help="Classification or regression; inferred from the target by default.",
    ),
    "max-classes": click.option(
        "--max-classes",
        type=click.IntRange(2),
        default=MOST_CLASSES,
        show_default=True,
        help="Refuse a target with more classes.",
    ),
    "device": click.option("--device", help="GPU: cuda or cuda:0 (needs torch)."),
    "seed": click.option(
        "--seed",
        type=click.IntRange(0, 2**64 - 1),
        default=0,
        show_default=True,
        help="Seed of the random numbers.",
    ),
}


def open_data(
    path: Path,
    *,
    target: str | None = None,
    weight: str | None = None,
    columns: str | None = None,
    drop: str | None = None,
    group: str | None = None,
    time: str | None = None,
    n_features: int | None = None,
) -> Stream:
    """Open DATA with the columns that options name: by name in a table, by number in a matrix."""
    from mercer.data.open import open_stream, open_table

    table = open_table(path)
    names = None if table is None else [column.name for column in table.columns]
    inputs, targets = _select(columns, names), _select(target, names)
    weights = _select(weight, names)
    index: list[str] = []
    context = click.get_current_context(silent=True)
    settings = {} if context is None else context.meta
    kinds = settings.get("mercer.kinds") or None
    if group is not None and time is not None:
        raise click.UsageError("Use --group or --time, not both.")
    left_out = drop is not None or group is not None or time is not None
    if left_out or kinds:
        declared = kind_options() if kinds else {}
        _require_one_role(
            {
                "--target": targets,
                "--weight": weights,
                "--group": _select(group, names),
                "--time": _select(time, names),
                "--drop": _select(drop, names),
                **{f"--{option}": _select(text, names) for option, text in declared.items()},
            },
            inputs,
        )
    if left_out:
        used = [*(targets or []), *(weights or []), *filter(None, (group, time))]
        if table is not None and columns is None:
            index = [each.name for each in table.columns if each.index and each.name not in used]
        inputs = _without(path, drop, inputs, names, [*used, *index])
    roles: dict[str, Any] = {
        "target": targets[0] if targets is not None and len(targets) == 1 else targets,
        "columns": inputs,
        "weight": None if weights is None else weights[0],
    }
    if path.suffix.lower() in SVMLIGHT:
        roles["n_features"] = n_features
        roles["zero_based"] = settings.get("mercer.zero_based")
    if table is None:
        return open_stream(path, **roles)
    stream: Any = table.stream(**roles, kinds=kinds)
    stream.left_out = stream.left_out or tuple(index)
    if group is not None:
        stream = stream.with_group_column(group)
    return stream if time is None else stream.with_time_column(time)


def _require_one_role(options: dict[str, list[Any] | None], inputs: list[Any] | None) -> None:
    """Raise a usage error for a column in two options, or of a declared kind and no input."""
    used: dict[Any, str] = {}
    for option, columns in options.items():
        declares = option.removeprefix("--") in _KINDS
        for name in columns or ():
            other = used.setdefault(name, option)
            if other != option:
                raise click.UsageError(
                    f"Column {name!r} is named by {other} and {option}: use one of them."
                )
            if declares and inputs is not None and name not in inputs:
                raise click.UsageError(
                    f"Column {name!r} is named by {option} and is not among --columns."
                )


def open_like(
    path: Path,
    names: Sequence[str] | None,
    width: int,
    *,
    columns: str | None = None,
    target: str | None = None,
) -> Stream:
    """Open DATA with the columns of a model: by name if both have names, otherwise by number."""
    from mercer.data.open import open_table
    from mercer.data.table_schema import number_schema

    table = open_table(path) if names is not None and columns is None else None
    if names is not None and table is not None:
        available = [column.name for column in table.columns]
        inputs = _match_columns(list(names), available, path.name)
        by_name = table.stream(columns=inputs, target=target, weight=None)
        if by_name.schema is None or inputs != list(names):
            return by_name
        # texts are numbers, or refused by row and value
        schema = number_schema(names)
        return table.stream(columns=None, target=target, weight=None, schema=schema)
    sparse = path.suffix.lower() in SVMLIGHT
    stream = open_data(path, columns=columns, target=target, n_features=width if sparse else None)
    if stream.width != width:
        raise ValueError(
            f"{path.name} has {stream.width} input columns, and the model was fitted on {width}. "
            "Choose them with --columns."
        )
    return stream


def print_reading(stream: Stream, console: Console) -> None:
    """Print how a file is read, and which columns of a pandas index are ignored."""
    sentences = list(stream.notes)
    if stream.left_out:
        names = ", ".join(map(repr, stream.left_out))
        sentences.append(
            f"Ignoring {names}, the index of the pandas frame that was written (use it as an input "
            "with --columns)."
        )
    if sentences:
        console.print(f"{stream.name}: {' '.join(sentences)}")
        console.event("reading", data=stream.name, notes=sentences)


def print_stream(stream: Stream, task: Any, console: Console) -> Stream:
    """Print how a source is read, its target, and columns that are likely to be no inputs.

    Returns the stream, with columns retyped where the first rows are of another type.
    """
    from mercer.data.arrow import read_retyped
    from mercer.model_selection.leaks import find_leaks

    stream, leaks = read_retyped(stream, partial(find_leaks, numeric=task.name == REGRESS))
    rows = "" if stream.rows is None else f"{stream.rows:,} rows x "
    schema = stream.schema
    columns = f"{stream.width if schema is None else len(schema.columns):,} columns"
    kinds = "" if schema is None else f" ({schema.describe()})"
    print_reading(stream, console)
    console.print(f"{stream.name}: {rows}{columns}{kinds}. {task.reason}")
    for leak in leaks:
        console.note(f"{leak} Leave it out with --drop {shlex.quote(leak.column)}.")
        console.event("leak", **vars(leak))
    return stream


def print_columns(encoder: Any, console: Console) -> None:
    """Print what was done to each column of a table: the decisions of a fitted Tabular."""
    table = plain_table("=column", "=kind", ">features", "encoding")
    decisions = encoder.decisions_
    # of a wide table the columns that are not numbers as they are
    special = [each for each in decisions if each.action != "number, scaled"]
    shown = decisions if len(decisions) <= _MOST_ROWS else special[:_MOST_ROWS]
    for each in shown:
        table.add_row(each.name, each.kind, f"{len(each.features):,}", each.action)
    for each in decisions:
        console.event("column", **each.as_dict())
    console.table(table)
    if len(shown) < len(decisions):
        console.print(f"{len(decisions) - len(shown):,} more columns are listed with --json.")


def require_target(path: Path, target: str | None) -> None:
    """Raise a usage error if DATA needs a target and none is given."""
    from mercer.data.inputs import resolve
    from mercer.data.open import open_table

    if target is not None or path.suffix.lower() in _LABELLED or not resolve(path).exists():
        return

    table = open_table(path)
    names = [] if table is None else [column.name for column in table.columns]
    listed = f" {path.name} has {_format_columns(names)}." if names else ""
    raise click.UsageError(f"Name the column to be predicted: --target COLUMN.{listed}")


def require_output(
    path: Path, force: bool, suffixes: Sequence[str] = (), inputs: Sequence[Path | None] = ()
) -> None:
    """Raise, before any work, if the output cannot be written or is one of the input files.

    Until the command ends, no other run may write it, and a closed pipe does not stop the command.
    """
    from mercer.persistence.atomic_write import reserve_output

    if suffixes and path.suffix.lower() not in suffixes:
        raise ValueError(
            f"{path.name} has a suffix that cannot be written: use {', '.join(suffixes)}."
        )
    if path.is_dir():
        raise ValueError(f"The output {path} is a folder: name a file.")
    target = Path(os.path.realpath(path))  # of a link, which may have no file yet
    folder = target.parent if path.is_symlink() else path.parent
    if not folder.is_dir():
        raise ValueError(f"There is no folder {folder} to write {target.name} to.")
    if path.exists() and not path.is_file():
        raise ValueError(f"The output {path} is not a regular file, and is not replaced: name one.")
    if path.exists() and not force:
        raise ValueError(f"{path} exists: name another file, or replace it with --force.")
    if any(
        other is not None
        and (
            os.path.realpath(other) == str(target)
            or (other.exists() and path.exists() and other.samefile(path))
        )
        for other in inputs
    ):
        raise ValueError(
            f"{path} is an input or the checkpoint, and the output: name another file."
        )
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise ValueError(f"No permission to write {path.name} to the folder {target.parent}.")
    context = click.get_current_context()
    context.with_resource(reserve_output(path))
    context.with_resource(discard_lost_messages())


def _select(text: str | None, names: list[str] | None) -> list[Any] | None:
    """Return the columns of an option: names of a table; numbers or ranges of a matrix."""
    if text is None:
        return None
    if names is not None:
        if text in names:
            return [text]
        return [part.strip() for part in text.split(",") if part.strip()]
    columns: list[Any] = []
    for part in text.split(","):
        span = re.fullmatch(r"\s*(\d+):(\d+)\s*", part)
        if span:
            columns += range(int(span[1]), int(span[2]))
        else:
            columns.append(int(part) if re.fullmatch(r"\s*-?\d+\s*", part) else part)
    return columns


def _without(
    path: Path,
    drop: str | None,
    inputs: list[Any] | None,
    names: list[str] | None,
    used: list[Any],
) -> list[Any]:
    """Return the inputs without dropped and otherwise used columns; raise for unknown ones."""
    if names is None:
        option = "--group and --time are" if drop is None else "--drop is"
        raise ValueError(
            f"{option} for files with named columns, and {path.name} has none: use --columns."
        )
    dropped = _select(drop, names) or []
    for name in dropped:
        if name not in names:
            raise ValueError(
                f"{path.name} has no column {name!r} (--drop). It has {_format_columns(names)}."
            )
    candidates = names if inputs is None else inputs
    return [name for name in candidates if name not in dropped and name not in used]


def _match_columns(fitted: list[str], available: list[str], name: str) -> list[str]:
    """Return the columns of a file that are a model's inputs; "z[0]", "z[1]" are of the list z."""
    if set(fitted) <= set(available):
        return fitted
    lists = list(dict.fromkeys(re.sub(r"\[\d+\]$", "", column) for column in fitted))
    if set(lists) <= set(available):
        return lists
    needed = lists if set(lists) & set(available) else fitted
    missing = [column for column in needed if column not in available]
    new = [column for column in available if column not in fitted]
    others = f" It also has {_format_columns(new)}." if new else ""
    raise ValueError(
        f"{name} lacks {_format_columns(missing)}, which the model was fitted on.{others}"
    )


def _format_columns(names: list[str]) -> str:
    """Return "the columns 'a', 'b', ... and 'z'"; the first and last ones if there are many."""
    listed = list(map(repr, names))
    if len(listed) > _MOST_NAMES:
        count = len(names) - _MOST_NAMES + 1
        listed = [*listed[: _MOST_NAMES - 4], f"{count} more", *listed[-3:]]
    return f"the column{'s' * (len(names) > 1)} {', '.join(listed)}"

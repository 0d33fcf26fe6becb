"""DATA and -o: what is read, by the names a user gives, and where the result goes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mercer.cli.targets import CLASSIFY, MOST_CLASSES, REGRESS

if TYPE_CHECKING:
    from mercer.data import Stream
    from mercer.data.arrow import Column

_MOST_NAMES = 12  # that are listed in an error
TABLES = (".parquet", ".csv", ".tsv")
SVMLIGHT = (".svm", ".svmlight", ".libsvm")
_LABELLED = (".npz", *SVMLIGHT)  # files that have their own targets

PATH = click.Path(
    path_type=Path, readable=False
)  # what cannot be read is an error of files, not of usage


def options(*names: str) -> Callable[[Any], Any]:
    """The options of that name, which several commands share."""

    def decorate(command: Any) -> Any:
        for name in reversed(names):
            command = _OPTIONS[name](_OPTIONS["base"](command) if name == "columns" else command)
        return command

    return decorate


def _base(ctx: click.Context, param: click.Parameter, value: bool | None) -> None:
    """Kept for open_data: every command that chooses columns has it."""
    ctx.meta["mercer.zero_based"] = value


_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "base": click.option(
        "--zero-based/--one-based",
        default=None,
        expose_value=False,
        callback=_base,
        help="How an svmlight file counts its columns, where that is not plain.",
    ),
    "target": click.option(
        "--target", metavar="COLUMN", help="The column that is the target; several, with commas."
    ),
    "columns": click.option(
        "--columns",
        metavar="A,B,...",
        help="The inputs, by name (by number or 0:64 for .npy); all others are left out.",
    ),
    "drop": click.option("--drop", metavar="A,B,...", help="Columns to leave out."),
    "weight": click.option(
        "--weight", metavar="COLUMN", help="The column with the weights of rows."
    ),
    "force": click.option("--force", is_flag=True, help="Replace the output when it exists."),
    "output": click.option("-o", "--output", type=PATH, required=True, help="The file to write."),
    "task": click.option(
        "--task",
        type=click.Choice([CLASSIFY, REGRESS]),
        help="What the target is, where that is not plain.",
    ),
    "max-classes": click.option(
        "--max-classes",
        type=click.IntRange(2),
        default=MOST_CLASSES,
        show_default=True,
        help="A target with more is refused.",
    ),
    "device": click.option("--device", help="cuda, or cuda:0: a GPU, through torch."),
    "seed": click.option(
        "--seed",
        type=click.IntRange(0, 2**64 - 1),
        default=0,
        show_default=True,
        help="Of all that is drawn at random.",
    ),
}


def open_data(
    path: Path,
    *,
    target: str | None = None,
    weight: str | None = None,
    columns: str | None = None,
    drop: str | None = None,
    n_features: int | None = None,
) -> Stream:
    """The rows of DATA; names are looked up among the columns of its table, numbers among those of
    a matrix.
    """
    from mercer.data import open_stream

    table = _table(path)
    names = None if table is None else [column.name for column in table]
    chosen = _chosen(columns, names)
    targets, heavy = _chosen(target, names), _chosen(weight, names)
    index = [] if table is None else [column.name for column in table if column.index]
    if drop is not None:
        others = [*(targets or []), *(heavy or []), *(index if columns is None else [])]
        chosen = _without(path, drop, chosen, names, others)
    roles: dict[str, Any] = {
        "target": targets[0] if targets is not None and len(targets) == 1 else targets,
        "columns": chosen,
        "weight": None if heavy is None else heavy[0],
    }
    if path.suffix.lower() in SVMLIGHT:
        context = click.get_current_context(silent=True)
        roles |= {
            "n_features": n_features,
            "zero_based": None if context is None else context.meta.get("mercer.zero_based"),
        }
    stream = open_stream(path, **{name: role for name, role in roles.items() if role is not None})
    if drop is not None and columns is None:
        stream.left_out = tuple(
            name for name in index if name not in (*(targets or []), *(heavy or []))
        )
    return stream


def open_like(
    path: Path,
    names: Sequence[str] | None,
    width: int,
    *,
    columns: str | None = None,
    target: str | None = None,
) -> Stream:
    """The rows of DATA with the columns of other rows: by their names where both have names,
    otherwise as many as those.
    """
    table = _table(path)
    if names is not None and table is not None and columns is None:
        from mercer.data import open_stream

        there = [column.name for column in table]
        return open_stream(path, columns=_wanted(list(names), there, path.name), target=target)
    sparse = path.suffix.lower() in SVMLIGHT
    stream = open_data(path, columns=columns, target=target, n_features=width if sparse else None)
    if stream.width != width:
        raise ValueError(
            f"{path.name} has {stream.width} input columns, and the model was fitted on {width}. "
            "Choose them with --columns."
        )
    return stream


def describe_index(stream: Stream) -> str:
    """Say which columns are left out as the index of a pandas frame; nothing where there are
    none.
    """
    if not stream.left_out:
        return ""
    names = ", ".join(map(repr, stream.left_out))
    return (
        f"Left out: {names}, the index of the pandas frame that was written (name it in "
        "--columns to use it as an input)."
    )


def names_of(stream: Stream) -> Sequence[str] | None:
    """The names of the columns of a table; a matrix has none."""
    from mercer.data.matrix import MatrixStream

    return None if isinstance(stream, MatrixStream) else stream.columns


def require_target(path: Path, target: str | None) -> None:
    """Refuse DATA that needs a target when none is named."""
    if target is not None or path.suffix.lower() in _LABELLED or not path.exists():
        return
    table = _table(path)
    listed = (
        "" if table is None else f" {path.name} has {_listed([column.name for column in table])}."
    )
    raise click.UsageError(f"Name the column to be predicted: --target COLUMN.{listed}")


def require_output(
    path: Path, force: bool, suffixes: Sequence[str] = (), read: Sequence[Path | None] = ()
) -> None:
    """Refuse an output that cannot or should not be written, or is one of the files that are read,
    before anything else is done.
    """
    if suffixes and path.suffix.lower() not in suffixes:
        raise ValueError(
            f"{path.name} is of no kind that is written here. Those are {', '.join(suffixes)}."
        )
    if path.is_dir():
        raise ValueError(f"The output {path} is a folder: name a file.")
    if not path.parent.is_dir():
        raise ValueError(f"There is no folder {path.parent} to write {path.name} to.")
    if path.exists() and not force:
        raise ValueError(f"{path} exists: name another file, or replace it with --force.")
    if path.exists() and any(
        one is not None and one.exists() and one.samefile(path) for one in read
    ):
        raise ValueError(f"{path} is read while the output is written: name another file.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ValueError(
            f"No permission to write {path.name} to the folder {path.parent.resolve()}."
        )


def _table(path: Path) -> list[Column] | None:
    from mercer.data.tables import table_columns

    return table_columns(path)


def _chosen(text: str | None, names: list[str] | None) -> list[Any] | None:
    """The columns that an option names: by name in a table; by number, or a range of them, in a
    matrix.
    """
    if text is None:
        return None
    if names is not None:
        return (
            [text] if text in names else [part.strip() for part in text.split(",") if part.strip()]
        )
    found: list[Any] = []
    for part in text.split(","):
        span = re.fullmatch(r"\s*(\d+):(\d+)\s*", part)
        found += (
            range(int(span[1]), int(span[2]))
            if span
            else [int(part) if re.fullmatch(r"\s*-?\d+\s*", part) else part]
        )
    return found


def _without(
    path: Path, drop: str, chosen: list[Any] | None, names: list[str] | None, others: list[Any]
) -> list[Any]:
    """The inputs without those to drop, which must be there."""
    if names is None:
        raise ValueError(
            f"--drop is for files that have names of columns, and {path.name} has none: use "
            "--columns."
        )
    left_out = _chosen(drop, names) or []
    strange = next((name for name in left_out if name not in names), None)
    if strange is not None:
        raise ValueError(
            f"{path.name} has no column {strange!r} (--drop). It has {_listed(names)}."
        )
    inputs = names if chosen is None else chosen
    return [name for name in inputs if name not in left_out and name not in others]


def _wanted(known: list[str], there: list[str], name: str) -> list[str]:
    """The columns of a file that give the inputs of a model; "z[0]", "z[1]", ... are the column of
    lists "z".
    """
    if set(known) <= set(there):
        return known
    lists = [re.sub(r"\[\d+\]$", "", one) for one in known]
    folded = list(dict.fromkeys(lists))
    if set(folded) <= set(there):
        return folded
    missing = [one for one in (folded if set(folded) & set(there) else known) if one not in there]
    new = [one for one in there if one not in known]
    beside = f" New are {_listed(new)}." if new else ""
    raise ValueError(f"{name} lacks {_listed(missing)} that the model was fitted on.{beside}")


def _listed(names: list[str]) -> str:
    """ "the columns 'a', 'b', ... and 'z'": the first and the last ones where there are many."""
    shown = list(map(repr, names))
    if len(shown) > _MOST_NAMES:
        shown = [*shown[: _MOST_NAMES - 4], f"{len(names) - _MOST_NAMES + 1} more", *shown[-3:]]
    return f"the column{'s' * (len(names) > 1)} {', '.join(shown)}"

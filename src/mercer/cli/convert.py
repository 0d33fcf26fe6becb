"""mercer convert: the same rows in another kind of file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from mercer.cli._console import Voice, speaks
from mercer.cli._options import (
    PATH,
    SVMLIGHT,
    TABLES,
    describe_index,
    open_data,
    options,
    require_output,
)


@click.command(short_help="The same rows in another kind of file.")
@click.argument("source", type=PATH, metavar="IN")
@click.argument("output", type=PATH, metavar="OUT")
@options("target", "columns", "drop", "force")
@speaks
def convert(
    source: Path,
    output: Path,
    target: str | None,
    columns: str | None,
    drop: str | None,
    force: bool,
    voice: Voice,
) -> None:
    """Copy the rows of IN to OUT, a file of another kind: .csv, .tsv, .parquet, .npy or svmlight.

    Between tables all columns are kept as they are. A .npy file and an svmlight file have numbers
    only, and no names; the label of an svmlight file is --target. What would be lost is refused, or
    said.

    \b
    Examples:
      mercer convert data.parquet copy.csv
      mercer convert copy.csv data.svm --target digit
      mercer convert data.svm rows.npy
    """
    require_output(output, force, (*TABLES, ".npy", *SVMLIGHT))
    if source.resolve() == output.resolve():
        raise ValueError(f"{source} is read while {output} is written: name another file.")
    start = time.perf_counter()
    with voice.watching("convert") as watch:
        rows = _copied(source, output, target, columns, drop, voice, watch)
    voice.written("Copied", rows, time.perf_counter() - start, output)


def _copied(
    source: Path,
    output: Path,
    target: str | None,
    columns: str | None,
    drop: str | None,
    voice: Voice,
    watch: Any,
) -> int:
    from mercer.data.csv import DELIMITERS
    from mercer.data.tables import Misfit, copy_table, open_table

    types: dict[str, str] = {}
    while columns is None and drop is None and output.suffix.lower() in TABLES:
        table = open_table(source, types)
        if table is None:
            break
        index = [
            column.name
            for column in table.columns
            if column.index and output.suffix.lower() in DELIMITERS
        ]
        try:
            rows = copy_table(table, output, watch)
            if index:
                voice.note(
                    f"{', '.join(map(repr, index))}, the index of the pandas frame that was "
                    "written, is an ordinary column of "
                    f"{output.name}: leave it out with --drop where it is no input."
                )
            return rows
        except Misfit as error:
            types[error.column] = error.wider
            voice.note(f"{error} It is copied as {error.wider}.")
    stream = open_data(source, target=target, columns=columns, drop=drop).watched(watch)
    if stream.left_out:
        voice.note(describe_index(stream))
    if output.suffix.lower() in SVMLIGHT:
        return _to_svmlight(stream, output, voice)
    if output.suffix.lower() == ".npy":
        return _to_npy(stream, output, voice)
    return _to_table(stream, output)


def _to_svmlight(stream: Any, output: Path, voice: Voice) -> int:
    from mercer.data.svmlight import svmlight_writer

    if stream.target is None:
        voice.note(f"every row of {output.name} gets the label 0: --target COLUMN names one.")
    _tell_names(stream, output, voice)
    with svmlight_writer(output) as lines:
        for chunk in stream.chunks():
            lines.write(chunk.X, chunk.y)
    return lines.rows


def _to_npy(stream: Any, output: Path, voice: Voice) -> int:
    """The inputs, and the target as the last column where there is one."""
    import numpy as np

    from mercer.data import open_sink

    _tell_names(stream, output, voice)
    labels = _names_of_target(stream)
    if labels:
        voice.note(f"the target is the last column of {output.name}: --target -1 finds it.")
    with open_sink(output, stream.width + len(labels), dtype=stream.dtype) as sink:
        for chunk in stream.chunks():
            X = chunk.X.toarray() if stream.sparse else chunk.X
            if labels:
                y = np.asarray(chunk.y).reshape(len(X), -1)
                if y.dtype.kind not in "biuf":
                    raise ValueError(
                        f"{output.name} has numbers only, and the target has words: write .parquet."
                    )
                X = np.column_stack([X, y])
            sink.write(X)
    return sink.rows


def _to_table(stream: Any, output: Path) -> int:
    import numpy as np

    from mercer.data import open_sink

    names = list(stream.columns or (f"x{place}" for place in range(stream.width)))
    labels = _names_of_target(stream)
    first = next(stream.chunks())
    kinds = {} if not labels else dict.fromkeys(labels, np.asarray(first.y).dtype)
    with open_sink(output, {**dict.fromkeys(names, stream.dtype), **kinds}) as sink:
        for chunk in stream.chunks():
            X = chunk.X.toarray() if stream.sparse else chunk.X
            y = [] if not labels else list(np.asarray(chunk.y).reshape(len(X), -1).T)
            sink.write(dict(zip([*names, *labels], [*X.T, *y], strict=True)))
    return sink.rows


def _names_of_target(stream: Any) -> list[str]:
    if stream.target is None:
        return []
    return stream.target if isinstance(stream.target, list) else [stream.target]


def _tell_names(stream: Any, output: Path, voice: Voice) -> None:
    from mercer.data.matrix import MatrixStream

    if stream.columns is not None and not isinstance(stream, MatrixStream):
        voice.note(
            f"{output.name} has no names of columns: they are counted in the order of "
            f"{stream.name}."
        )

"""mercer predict and mercer transform: what a saved model makes of the rows of a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from mercer.cli import _map_syntax
from mercer.cli._console import Voice, speaks
from mercer.cli._options import (
    PATH,
    SVMLIGHT,
    TABLES,
    describe_index,
    open_data,
    open_like,
    options,
    require_output,
)
from mercer.cli.fit import MapType

_PIECE = 2**25  # bytes of features that are made dense at once


@click.command(short_help="Predictions of a saved model.")
@click.argument("model", type=PATH)
@click.argument("data", type=PATH)
@options("output")
@click.option(
    "--scores", is_flag=True, help="Columns score_<class> too; of two classes the second has one."
)
@click.option("--proba", is_flag=True, help="Columns probability_<class> too.")
@options("columns", "device", "force")
@speaks
def predict(
    model: Path,
    data: Path,
    output: Path,
    scores: bool,
    proba: bool,
    columns: str | None,
    device: str | None,
    force: bool,
    voice: Voice,
) -> None:
    """Predict the rows of DATA with a saved model.

    Columns are found by the names that the model was fitted on; others are left alone. The output
    has a column "prediction", and is written row by row to .parquet, .csv, .tsv or .npy.

    \b
    Examples:
      mercer predict model.mercer data.parquet -o predictions.parquet
      mercer predict model.mercer data.csv --scores -o scores.csv
    """
    require_output(output, force, (*TABLES, ".npy"), (model, data))
    if scores and proba:
        raise click.UsageError("--scores or --proba, not both.")
    from mercer.linear_model.base import write_predictions
    from mercer.maps.base import Map
    from mercer.parallel.device import use_device
    from mercer.persistence.io import load

    loaded = load(model)
    if isinstance(loaded, Map):
        raise ValueError(f"{model.name} is a map, which predicts nothing: use mercer transform.")
    stream = _open_for(loaded, data, columns)
    start = time.perf_counter()
    with use_device(device), voice.watching("predict") as watch:
        beside = "score" if scores else "probability" if proba else None
        rows = write_predictions(loaded, stream.watched(watch), output, beside)
    voice.written("Predicted", rows, time.perf_counter() - start, output)


@click.command(short_help="Features of a map.")
@click.argument("sources", type=PATH, nargs=-1, required=True, metavar="[MODEL] DATA")
@click.option(
    "--map", "maps", type=MapType(), help="Fit this map to DATA first, instead of a saved MODEL."
)
@options("output")
@click.option("--save", "kept", type=PATH, help="With --map: a file for the fitted map.")
@options("target", "columns", "drop", "seed", "device", "force")
@speaks
def transform(
    sources: tuple[Path, ...],
    maps: Any,
    output: Path,
    kept: Path | None,
    target: str | None,
    columns: str | None,
    drop: str | None,
    seed: int,
    device: str | None,
    force: bool,
    voice: Voice,
) -> None:
    """Write the features that a map makes of the rows of DATA.

    The map is that of a saved MODEL, or a saved map, or with --map one that is fitted to DATA. The
    output is .npy, .parquet (one column of lists), .csv or .tsv, or svmlight for features most of
    which are 0, which has room for --target too.

    \b
    Examples:
      mercer transform model.mercer data.parquet -o features.npy
      mercer transform data.parquet --target digit --map gcws:n_hashes=16 --save gcws.mercer -o
      features.svm
    """
    if len(sources) != (1 if maps is not None else 2) or (maps is None and (kept or drop)):
        raise click.UsageError(
            "mercer transform MODEL DATA -o OUT, or mercer transform DATA --map MAP [--drop A,B] "
            "[--save FILE] -o OUT."
        )
    require_output(output, force, (*TABLES, ".npy", *SVMLIGHT), sources)
    data = sources[-1]
    from mercer.parallel.device import use_device
    from mercer.persistence.io import save

    if maps is None:
        fitted = _map_of(sources[0])
        stream = _open_for(fitted, data, columns, target)
    else:
        from mercer.linear_model.base import make_map

        if kept is not None:
            require_output(kept, force, read=(*sources, output))
        stream = open_data(data, target=target, columns=columns, drop=drop)
        if stream.left_out:
            voice.say(describe_index(stream))
        with voice.watching("look") as watch:
            fitted = make_map("transform", _map_syntax.build(maps), seed, None)._fit_stream(
                stream.watched(watch)
            )
        if kept is not None:
            save(fitted, kept)
    start = time.perf_counter()
    with use_device(device), voice.watching("transform") as watch:
        rows = _write_features(stream.watched(watch), fitted, output)
    voice.written(
        f"{fitted._n_features_out:,} features of", rows, time.perf_counter() - start, output
    )
    sparse = output.suffix.lower() in SVMLIGHT
    if target is not None and not sparse:
        voice.note(
            f"{output.name} has the features alone, without the target {target!r}: svmlight has "
            "room for both."
        )
    if sparse and stream.target is None:
        voice.note(f"every row of {output.name} has the label 0: name one with --target.")


def _map_of(path: Path) -> Any:
    from mercer.persistence.io import load

    loaded = load(path)
    return getattr(loaded, "feature_map_", loaded)


def _open_for(fitted: Any, data: Path, columns: str | None, target: str | None = None) -> Any:
    names = getattr(fitted, "feature_names_in_", None)
    return open_like(data, names, int(fitted.n_features_in_), columns=columns, target=target)


def _write_features(stream: Any, fitted: Any, output: Path) -> int:
    """Block by block, whole or not at all."""
    from mercer.data import open_sink
    from mercer.data.batches import features
    from mercer.data.svmlight import svmlight_writer
    from mercer.maps.block import Dense, at_home

    made = features(stream, fitted)
    if output.suffix.lower() in SVMLIGHT:
        with svmlight_writer(output) as lines:
            for piece in made.pieces():
                block = at_home(piece.block)
                lines.write(block.toarray() if isinstance(block, Dense) else block.tocsr(), piece.y)
        return lines.rows
    D, kind = made.width, made.dtype
    columns: Any = (
        {"features": (kind, D)}
        if output.suffix.lower() == ".parquet"
        else [*fitted.get_feature_names_out()]
    )
    with open_sink(output, columns, dtype=kind) as sink:
        for piece in made.pieces():
            step = max(1, _PIECE // (D * kind.itemsize))
            block = at_home(piece.block)
            rows: Any = block.toarray() if isinstance(block, Dense) else block.tocsr()
            for start in range(0, rows.shape[0], step):
                part = rows[start : start + step]
                sink.write(part.toarray() if hasattr(part, "indptr") else part)
    return sink.rows

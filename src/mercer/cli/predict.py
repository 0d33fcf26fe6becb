"""mercer predict and mercer transform: predictions and features of the rows of a file."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import click

from mercer.cli import _map_syntax
from mercer.cli._console import Console, output_options
from mercer.cli._options import (
    PATH,
    STANDARD,
    SVMLIGHT,
    TABLES,
    kind_options,
    open_data,
    open_like,
    print_reading,
    require_output,
    shared_options,
)
from mercer.cli.fit import MapType


@click.command(short_help="Predict the rows of a file.")
@click.argument("model", type=PATH)
@click.argument("data", type=PATH)
@shared_options("output")
@click.option(
    "--scores",
    is_flag=True,
    help="Add columns score_<class>; of two classes, only that of the second.",
)
@click.option(
    "--proba",
    is_flag=True,
    help="Add columns probability_<class>; needs fit --uncertainty true, or --loss log_loss.",
)
@click.option(
    "--std",
    is_flag=True,
    help="Add a column std: standard deviations, noise included; needs fit --uncertainty true.",
)
@click.option(
    "--interval",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="COVERAGE",
    help="Add columns lower and upper: prediction intervals of this coverage, such as 0.9; needs "
    "fit --uncertainty true.",
)
@click.option(
    "--leverage",
    is_flag=True,
    help="Add a column leverage: small for rows like those of the fit, large far from them.",
)
@click.option(
    "--set",
    "set_coverage",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="COVERAGE",
    help="Add columns set_<class>, true or false: the classes that a row may have, of which its "
    "own is one with this probability (0.9); needs fit --uncertainty true.",
)
@click.option(
    "--keep", metavar="A,B,...", help="Columns of DATA to write beside the predictions: ids."
)
@shared_options("columns", "device", "force")
@output_options
def predict(
    model: Path,
    data: Path,
    output: Path,
    scores: bool,
    proba: bool,
    std: bool,
    interval: float | None,
    leverage: bool,
    set_coverage: float | None,
    keep: str | None,
    columns: str | None,
    device: str | None,
    force: bool,
    console: Console,
) -> None:
    """Predict the rows of DATA with a saved model.

    Columns are matched by the names that the model was fitted on; others are ignored. The output,
    a .parquet, .csv, .tsv or .npy file, has a column "prediction"; with -o - it is CSV on standard
    output.

    \b
    Examples:
      mercer predict model.mercer data.parquet -o predictions.parquet
      mercer predict model.mercer data.csv --scores -o scores.csv
      gunzip -c data.csv.gz | mercer predict model.mercer - -o - > predictions.csv
    """
    to_file = output != STANDARD
    if to_file:
        require_output(output, force, (*TABLES, ".npy"), (model, data))
    elif console.as_json:
        raise click.UsageError("Use -o - or --json, not both: one output has one format.")
    chosen = {
        "score": scores,
        "probability": proba,
        "std": std,
        "interval": interval is not None,
        "leverage": leverage,
        "set": set_coverage is not None,
    }
    extra = [name for name, wanted in chosen.items() if wanted]
    if len(extra) > 1:
        raise click.UsageError(
            "Use one of --scores, --proba, --std, --interval, --leverage and --set at a time."
        )
    from mercer.linear_model.base import encoder_of, write_predictions
    from mercer.maps.base import Map
    from mercer.parallel.device import use_device
    from mercer.persistence.io import load

    loaded = load(model)
    if isinstance(loaded, Map):
        raise ValueError(f"{model.name} is a feature map, not a model: use mercer transform.")
    stream = _open_for(loaded, data, columns)
    if to_file:
        print_reading(stream, console)
    kept = None if keep is None else _kept_columns(stream, keep)
    encoder, unseen = encoder_of(loaded.feature_map_), Counter[str]()
    if encoder is not None:
        stream.with_observer(lambda chunk: unseen.update(encoder.count_unseen(chunk.X)))
    start = time.perf_counter()
    with use_device(device), console.progress("predict") as progress:
        rows = write_predictions(
            loaded,
            stream.with_progress(progress),
            output,
            next(iter(extra), None),
            kept,
            interval or set_coverage,
        )
    if unseen:
        counts = ", ".join(f"{name!r} {count:,}" for name, count in unseen.items())
        console.note(f"cells with a value that the model was not fitted on: {counts}.")
        console.event("unseen", counts=dict(unseen))
    if to_file:
        console.print_file("Predicted", rows, time.perf_counter() - start, output)


@click.command(short_help="Write the features of a map.")
@click.argument("sources", type=PATH, nargs=-1, required=True, metavar="[MODEL] DATA")
@click.option(
    "--map", "spec", type=MapType(), help="Fit this map to DATA, instead of a saved MODEL."
)
@shared_options("output")
@click.option("--save", "saved_map", type=PATH, help="With --map: file for the fitted map.")
@shared_options("target", "columns", "drop", "kinds", "seed", "device", "force")
@output_options
def transform(
    sources: tuple[Path, ...],
    spec: Any,
    output: Path,
    saved_map: Path | None,
    target: str | None,
    columns: str | None,
    drop: str | None,
    seed: int,
    device: str | None,
    force: bool,
    console: Console,
) -> None:
    """Write the features of a map for the rows of DATA.

    The map is that of a saved MODEL, a saved map, or with --map one that is fitted to DATA. The
    output is a .npy, .parquet (one column of lists), .csv or .tsv file; or an svmlight file, for
    sparse features, which also has the --target.

    \b
    Examples:
      mercer transform model.mercer data.parquet -o features.npy
      mercer transform data.csv --target digit --map gcws:n_hashes=16 --save map.mercer -o z.svm
    """
    for_map = saved_map or drop or kind_options()
    if len(sources) != (1 if spec is not None else 2) or (spec is None and for_map):
        raise click.UsageError(
            "mercer transform MODEL DATA -o OUT, or mercer transform DATA --map MAP [--drop A,B] "
            "[--categorical A,B] [--save FILE] -o OUT."
        )
    require_output(output, force, (*TABLES, ".npy", *SVMLIGHT), sources)
    data = sources[-1]
    from mercer.parallel.device import use_device
    from mercer.persistence.io import load, save

    if spec is None:
        loaded = load(sources[0])
        feature_map = getattr(loaded, "feature_map_", loaded)
        stream = _open_for(feature_map, data, columns, target)
    else:
        from mercer.linear_model.base import make_map

        if saved_map is not None:
            require_output(saved_map, force, inputs=(*sources, output))
        stream = open_data(data, target=target, columns=columns, drop=drop)
        print_reading(stream, console)
        encode = stream.schema is not None
        feature_map = make_map(
            "transform", _map_syntax.build(spec), seed, None, scale=encode and "auto", encode=encode
        )
        with console.progress("fit") as progress:
            feature_map._fit_stream(stream.with_progress(progress))
        if saved_map is not None:
            save(feature_map, saved_map)
    start = time.perf_counter()
    with use_device(device), console.progress("transform") as progress:
        rows = write_features(stream.with_progress(progress), feature_map, output)
    action = f"{feature_map._n_features_out:,} features of"
    console.print_file(action, rows, time.perf_counter() - start, output)
    is_svmlight = output.suffix.lower() in SVMLIGHT
    if target is not None and not is_svmlight:
        console.note(
            f"{output.name} has the features without the target {target!r}; an svmlight file has "
            "both."
        )
    if is_svmlight and stream.target is None:
        console.note(f"every row of {output.name} has the label 0: name a column with --target.")


def _kept_columns(stream: Any, keep: str) -> Any:
    from mercer.data.kept_columns import KeptColumns
    from mercer.data.table_files import FilesStream

    if not isinstance(stream, FilesStream):
        raise ValueError(f"--keep is for files with named columns, and {stream.name} has none.")
    return KeptColumns(stream, [name.strip() for name in keep.split(",") if name.strip()])


def _open_for(fitted: Any, data: Path, columns: str | None, target: str | None = None) -> Any:
    from mercer.data.open import open_stream
    from mercer.linear_model.base import encoder_of

    encoder = encoder_of(getattr(fitted, "feature_map_", fitted))
    if encoder is not None and columns is None:
        return open_stream(data, target=target, schema=encoder.schema_)
    names = getattr(fitted, "feature_names_in_", None)
    return open_like(data, names, int(fitted.n_features_in_), columns=columns, target=target)


def write_features(stream: Any, feature_map: Any, output: Path, dense_bytes: int = 2**25) -> int:
    """Write the features of a stream to a file, block by block; return the number of rows.

    Sparse features are written as dense pieces of at most `dense_bytes`, but for svmlight.
    """
    from mercer.data import open_writer
    from mercer.data.batches import features
    from mercer.data.svmlight import svmlight_writer
    from mercer.maps.block import Dense, block_to_host

    source = features(stream, feature_map)
    width, dtype = source.width, source.dtype
    columns: Any = [*feature_map.get_feature_names_out()]
    if output.suffix.lower() == ".parquet":
        columns = {"features": (dtype, width)}
    is_svmlight = output.suffix.lower() in SVMLIGHT
    opened: Any = (
        svmlight_writer(output) if is_svmlight else open_writer(output, columns, dtype=dtype)
    )
    step = max(1, dense_bytes // (width * dtype.itemsize))
    with opened as writer:
        for batch in source.batches():
            block = block_to_host(batch.block)
            rows: Any = block.toarray() if isinstance(block, Dense) else block.tocsr()
            if is_svmlight:
                writer.write(rows, batch.y)
                continue
            for start in range(0, rows.shape[0], step):
                part = rows[start : start + step]
                writer.write(part if isinstance(block, Dense) else part.toarray())
    return int(writer.rows)

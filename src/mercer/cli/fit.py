"""mercer fit: fit a model to the rows of a file and save it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from mercer.cli import _map_syntax
from mercer.cli._console import Console, output_options
from mercer.cli._errors import on_interrupt
from mercer.cli._options import (
    PATH,
    open_data,
    open_like,
    print_columns,
    print_stream,
    require_output,
    require_target,
    shared_options,
)
from mercer.cli._parameters import estimator_options, option_name
from mercer.cli._task import CLASSIFY, Task, infer_task
from mercer.linear_model.parameters import ESTIMATOR_PARAMETERS

AUTO = "auto"  # the map that mercer compare selects


class MapType(click.ParamType):
    """A map, or a composition of maps, in the text syntax."""

    name = "map"

    def __init__(self, *, auto: bool = False) -> None:
        self.auto = auto  # whether "auto" is allowed

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or (self.auto and value == AUTO):
            return value
        try:
            return _map_syntax.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(text) for text in _map_syntax.completions(incomplete)]


@click.command(short_help="Fit a model to the rows of a file.")
@click.argument("data", type=PATH)
@shared_options("target")
@click.option(
    "--map",
    "spec",
    type=MapType(auto=True),
    help="name:option=value,... (see mercer maps), a >> b, a + b; or auto, the map that mercer "
    f"compare selects.  [default: {ESTIMATOR_PARAMETERS['feature_map'].default}]",
)
@click.option(
    "--max-seconds",
    type=float,
    default=60,
    show_default=True,
    help="Time limit for selecting a map with --map auto.",
)
@shared_options("output")
@click.option("--test", type=PATH, help="Held-out rows: print the score on them.")
@shared_options("task", "columns", "drop", "kinds", "weight", "group", "time")
@click.option("--unlabeled", type=PATH, help="Additional rows without a target, for --pca.")
@shared_options("max-classes", "seed", "force")
@estimator_options
@output_options
def fit(
    data: Path,
    target: str | None,
    spec: Any,
    max_seconds: float,
    output: Path,
    test: Path | None,
    task: str | None,
    columns: str | None,
    drop: str | None,
    weight: str | None,
    group: str | None,
    time: str | None,
    unlabeled: Path | None,
    max_classes: int,
    seed: int,
    force: bool,
    console: Console,
    **options: Any,
) -> None:
    """Fit a model to the rows of DATA and write it to a file.

    DATA is a .parquet, .csv, .tsv, .feather, .arrow, .jsonl, .npy, .npz or svmlight file; a
    .csv.gz or .jsonl.gz (.bz2, .zst); a folder of tables of one format; a URL such as s3://...;
    or - for a table from standard input. It may be larger than memory. Separators, decimal marks,
    encodings and headers of CSV files are detected.

    \b
    Examples:
      mercer fit data.parquet --target digit --test data.csv -o model.mercer
      mercer fit data.csv --target digit --map "chi2-series >> fourier" -o chi2.mercer
      mercer fit data.parquet --target digit --map auto --max-seconds 5 -o chosen.mercer
      mercer fit data.csv --target digit --map gcws:n_hashes=64,bits=4 -o gcws.mercer
    """
    parameters = {
        name.removeprefix("parameter_"): value
        for name, value in options.items()
        if value is not None
    }
    checkpoint = parameters.get("checkpoint")
    inputs = (data, test, unlabeled, None if checkpoint is None else Path(checkpoint))
    require_output(output, force, inputs=inputs)
    require_target(data, target)
    roles: Any = {"target": target, "weight": weight, "columns": columns, "drop": drop}
    stream = open_data(data, **roles, group=group, time=time)
    test_stream = None if test is None else open_data(test, **roles)
    inferred = infer_task(stream, task, max_classes, "fitting a {}")
    for name in parameters:
        if inferred.name != CLASSIFY and ESTIMATOR_PARAMETERS[name].classifier_only:
            raise click.UsageError(f"{option_name(name)} is for classifiers. {inferred.reason}")
    if isinstance(parameters.get("class_weight"), dict):
        parameters["class_weight"] = _match_labels(parameters["class_weight"], inferred.y)
    stream = print_stream(stream, inferred, console)

    from mercer.data import open_stream
    from mercer.data.matrix import MatrixStream
    from mercer.linear_model.base import encoder_of
    from mercer.linear_model.classifier import KernelClassifier
    from mercer.linear_model.regressor import KernelRegressor
    from mercer.persistence.io import save

    is_matrix = isinstance(stream, MatrixStream)  # its columns have numbers, not names
    cls: Any = KernelClassifier if inferred.name == CLASSIFY else KernelRegressor
    if spec == AUTO:
        limits = {"max_seconds": max_seconds, "max_memory": parameters.get("max_memory")}
        feature_map = _select_map(stream, inferred, console, **limits, random_state=seed)
    else:
        default = ESTIMATOR_PARAMETERS["feature_map"].default
        feature_map = default if spec is None else _map_syntax.build(spec)
    model = cls(feature_map, random_state=seed, verbose=int(not console.as_json), **parameters)
    others = {}
    if unlabeled is not None:
        names = None if is_matrix else stream.columns
        others["unlabeled"] = open_like(unlabeled, names, stream.width)
    start = perf_counter()
    with (
        on_interrupt(lambda: _describe_checkpoint(checkpoint, parameters.get("loss", "squared"))),
        console.progress("fit") as progress,
    ):
        if "cluster" not in parameters:  # whose workers report no progress
            stream.with_progress(progress)
        model.fit(stream, **others)
    seconds = perf_counter() - start
    plan = model.plan_
    console.event(
        "plan",
        route=plan.route,
        passes=list(plan.passes),
        features=plan.features,
        bytes=plan.solver_bytes,
    )
    save(model, output)
    encoder = encoder_of(model.feature_map_)
    if encoder is not None:
        print_columns(encoder, console)
    _print_summary(model, stream, seconds, output, console)
    _print_half_size(model, stream, seed, console)
    if test_stream is not None:
        if encoder is not None and test is not None:
            test_stream = open_stream(test, target=stream.target, schema=encoder.schema_)
        score = float(model.score(test_stream))
        measure = "accuracy" if inferred.name == CLASSIFY else "R^2"
        text = f"{score:.2%}" if measure == "accuracy" else f"{score:.4f}"
        console.print(f"{measure} on {test_stream.name}: {text}")
        console.event("score", score=score, measure=measure, data=str(test))
    arguments = f"{shlex.quote(str(output))} {shlex.quote(str(data))}"
    if columns is None and target is not None and is_matrix and stream.columns is not None:
        columns = _column_ranges(stream.columns)
    selected = "" if columns is None else f" --columns {shlex.quote(columns)}"
    console.print(f"Next: mercer predict {arguments}{selected} -o predictions.parquet", wrap=False)


def _select_map(stream: Any, task: Task, console: Console, **limits: Any) -> Any:
    """Return the map that mercer compare selects on a sample of the rows."""
    from mercer.cli.compare import compare_stream

    board = compare_stream(stream, task, console, **limits)
    text = _map_syntax.format_spec(_map_syntax.spec_of_map(board.best_.feature_map))
    console.print(f"{board.summary} Using --map {shlex.quote(text)}.")
    if board.stopped is not None:
        console.print(board.stopped)
    console.event(
        "summary", summary=board.summary, winner=board.winner.name, map=text, stopped=board.stopped
    )
    return board.best_.feature_map


def _describe_checkpoint(checkpoint: str | None, loss: str) -> str:
    """Return a sentence about what an interrupted fit has written."""
    if checkpoint is None and loss != "squared":
        return "Nothing was written."
    if checkpoint is None:
        return "Nothing was written; with --checkpoint FILE an interrupted fit can be resumed."
    from mercer.stats.checkpoint import Checkpoint

    rows = Checkpoint.read_row_count(checkpoint)
    folder, name = Path(checkpoint).parent, Path(checkpoint).name
    if not rows and any(other.startswith(f"{name}.pass-") for other in os.listdir(folder)):
        return f"What was read so far is beside {checkpoint}: run the same command again to resume."
    if not rows:
        return f"{checkpoint} has no rows yet: run the same command again to start over."
    return f"The first {rows:,} rows are in {checkpoint}: run the same command again to resume."


def _match_labels(weights: dict[Any, Any], y: Any) -> dict[Any, Any]:
    """Return class weights with the labels of y as keys: "1" is 1 where labels are numbers."""
    import numpy as np

    labels = {str(label): label for label in np.unique(y).tolist()}
    return {labels.get(str(label), label): weight for label, weight in weights.items()}


def _column_ranges(names: Sequence[str]) -> str:
    """Return the columns of a matrix, "x0", "x1", ..., as ranges: "0:3,4:65"."""
    runs: list[list[int]] = []  # [first, last + 1]
    for number in (int(name.removeprefix("x")) for name in names):
        if runs and runs[-1][1] == number:
            runs[-1][1] = number + 1
        else:
            runs.append([number, number + 1])
    return ",".join(f"{start}:{stop}" for start, stop in runs)


def _print_half_size(model: Any, stream: Any, seed: int, console: Console) -> None:
    """Print the score with half of the features, and the option for more where they would help."""
    from mercer.evaluation.convergence import fitted_size
    from mercer.model_selection.half_size import score_half

    compared = score_half(model, stream.with_progress(None), seed)
    if compared is None:
        return
    # the estimator scales the columns again by itself
    feature_map = model.feature_map_.maps_[-1] if model.plan_.scaled else model.feature_map_
    size = fitted_size(feature_map)
    option = ""
    if compared.more_help and size is not None:
        larger = _map_syntax.spec_of_map(feature_map.with_size(2 * size))
        option = f" Try --map {shlex.quote(_map_syntax.format_spec(larger))}."
    console.print(f"{compared}{option}")
    console.event(
        "half_size",
        measure=compared.measure,
        rows=compared.rows,
        features=compared.features,
        score=compared.score,
        half=compared.half,
        half_score=compared.half_score,
        deviation=compared.deviation,
        more_help=compared.more_help,
        fewer_suffice=compared.fewer_suffice,
    )


def format_noise(model: Any) -> str:
    """Return the standard deviation of the noise of each output."""
    import numpy as np

    deviations = np.sqrt(np.atleast_1d(model.noise_variance_))
    return ", ".join(f"{value:.4g}" for value in deviations)


def format_importances(model: Any, most: int = 5) -> str:
    """Return the columns with the largest importances: "pulse 52%, weight 37%, 6 others 11%"."""
    import numpy as np

    shares = model.importances_
    names = getattr(model, "feature_names_in_", [f"x{i}" for i in range(len(shares))])
    first = np.argsort(-shares, kind="stable")[:most]
    parts = [f"{names[i]} {shares[i]:.0%}" for i in first]
    if len(shares) > most:
        parts.append(f"{len(shares) - most:,} others {1 - shares[first].sum():.0%}")
    return ", ".join(parts)


def _print_summary(model: Any, stream: Any, seconds: float, output: Path, console: Console) -> None:
    from mercer.linear_model.metric import fitted_metrics
    from mercer.parallel.tile_size import format_bytes

    rows, features = (
        int(stream.rows or model.n_samples_seen_),
        int(model.feature_map_._n_features_out),
    )
    classes = len(model.classes_) if hasattr(model, "classes_") else None
    parts = [] if classes is None else [f"{classes:,} classes"]
    used = ""
    if model.penalty != "l2":
        coef = model.feature_coef_.reshape(-1, features)
        used = f"{int((coef != 0).any(axis=0).sum()):,} used of "
    parts += [f"{used}{features:,} features", f"alpha {model.alpha_:.3g}"]
    console.print(
        f"Fitted on {rows:,} rows in {seconds:.1f} s: {', '.join(parts)}. "
        f"Wrote {output} ({format_bytes(output.stat().st_size)})."
    )
    score = getattr(model, "validation_score_", None)
    if score is not None:
        console.print(f"{score}.")
        if score.is_chance:
            console.note(
                "on rows left out the model is no better than a constant prediction. The columns "
                "may say nothing about the target; compare other maps with mercer compare."
            )
    importances, metrics = None, fitted_metrics(model.feature_map_)
    if len(metrics) == 1 and metrics[0].is_identity_:
        console.print(
            "No importances: no learned metric had a lower error on held-out rows than the columns "
            "as they are, and the metric is the identity."
        )
    elif metrics:
        importances = getattr(model, "importances_", None)
    if importances is not None:
        console.print(f"Importances by the learned metric: {format_importances(model)}.")
    if model.uncertainty and hasattr(model, "noise_variance_"):
        console.print(f"Standard deviation of the noise: {format_noise(model)}.")
    if model.penalty == "group" and model.zero_maps_:
        console.print(f"Maps with all-zero coefficients: {', '.join(model.zero_maps_)}.")
    console.event(
        "done",
        model=str(output),
        rows=rows,
        seconds=round(seconds, 3),
        features=features,
        classes=classes,
        alpha=float(model.alpha_),
        validation=None if score is None else score._asdict(),
        importances=None if importances is None else importances.tolist(),
    )

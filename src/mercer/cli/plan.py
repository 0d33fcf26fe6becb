"""mercer plan: the size, time and memory of a fit, before it is run."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from mercer.cli import _map_syntax
from mercer.cli._console import Console, output_options
from mercer.cli._options import PATH, open_data, print_reading, shared_options
from mercer.cli._parameters import estimator_option
from mercer.cli._task import CLASSIFY, infer_task
from mercer.cli.fit import MapType

_SAMPLE_ROWS = 4000  # on which the error is measured
_PAIRS = 500, 5000  # of rows, at least and at most
_PAIR_NUMBERS = 2_000_000  # of all pairs, where there are more than the least
_SPLIT_FROM = 8  # rows of a sample that is split into halves


@click.command(short_help="Estimate size, seconds and memory of a fit.")
@click.argument("data", type=PATH)
@shared_options("target")
@click.option(
    "--map",
    "spec",
    type=MapType(),
    default="fourier",
    show_default=True,
    help="name:option=value,... (see mercer maps), a >> b, a + b.",
)
@estimator_option("scale")
@click.option("--error", type=float, help="Relative error of kernel values, such as 0.01.")
@click.option("--max-memory", metavar="SIZE", help="Memory limit of the fit: 2GB.")
@click.option("--max-seconds", type=float, help="Time limit of the fit.")
@click.option(
    "--loss",
    default="squared",
    show_default=True,
    help="squared, squared_hinge, logistic or log_loss.",
)
@shared_options("task", "columns", "drop", "kinds", "weight", "max-classes", "seed")
@output_options
def plan(
    data: Path,
    target: str | None,
    spec: Any,
    parameter_scale: bool | str | None,
    error: float | None,
    max_memory: str | None,
    max_seconds: float | None,
    loss: str,
    task: str | None,
    columns: str | None,
    drop: str | None,
    weight: str | None,
    max_classes: int,
    seed: int,
    console: Console,
) -> None:
    """Estimate what a fit to the rows of DATA would take: size, route, seconds and memory.

    The error is measured with small maps on a sample of the rows. No model is fitted: seconds are
    extrapolated from two timed samples of the rows.

    \b
    Examples:
      mercer plan data.parquet --target digit --map exp-chi2 --error 0.01
      mercer plan data.csv --target digit --map fourier --error 0.05 --max-seconds 10
    """
    from mercer.evaluation.plan import plan as estimate
    from mercer.validation.parameters import validate_positive

    if error is not None:
        validate_positive("plan", "error", error)
    stream = open_data(data, target=target, weight=weight, columns=columns, drop=drop)
    print_reading(stream, console)
    scale = "auto" if parameter_scale is None else parameter_scale
    outputs = _count_outputs(stream, task, max_classes, loss)
    with console.progress("plan") as progress:
        stream.with_progress(progress)
        feature_map, rate = _measure(_map_syntax.build(spec), stream, scale, error, seed)
    limit = None if max_memory is None else int(max_memory) if max_memory.isdigit() else max_memory
    result = estimate(
        stream,
        feature_map,
        scale=scale,
        error=error,
        max_memory=limit,
        max_seconds=max_seconds,
        rate=rate,
        loss=loss,
        outputs=outputs,
    )
    console.print(str(result))
    console.event("plan", **{**asdict(result), "seconds": result.seconds, "fits": result.fits})


def _count_outputs(stream: Any, requested: str | None, max_classes: int, loss: str) -> int:
    """Return the number of outputs of a model: targets, or classes in the first rows.

    It is 1 for two classes, and without a target.
    """
    import numpy as np

    if stream.target is None:
        return 1
    task = infer_task(stream, requested, max_classes, "planning a {}")
    if task.name == CLASSIFY:
        classes = len(np.unique(task.y))
        return classes if classes > 2 else 1
    if loss != "squared":
        raise ValueError(f"--loss {loss} is for classifiers. {task.reason}")
    return 1 if task.y.ndim == 1 else int(task.y.shape[1])


def _measure(
    feature_map: Any, stream: Any, scale: bool | str, error: float | None, seed: int
) -> tuple[Any, Any]:
    """Fit the map to half of a sample and measure its rate of convergence on the other half.

    Columns are scaled where the estimators scale them. The rate is None for a map without an exact
    kernel.
    """
    import numpy as np

    from mercer.data.batches import Rows
    from mercer.evaluation.certificate import certify
    from mercer.evaluation.convergence import with_seed
    from mercer.linear_model.base import fit_encoder
    from mercer.maps.block import matrix
    from mercer.maps.compose import is_scaled, scale_columns
    from mercer.maps.scaled import Scaled
    from mercer.maps.tabular import Tabular
    from mercer.stats.basic import Reservoir
    from mercer.stats.reduce import accumulate

    first = feature_map if stream.schema is None else Tabular()
    rows = accumulate(Rows(stream, first), Reservoir(_SAMPLE_ROWS, seed)).rows
    encoder = None
    if isinstance(rows, np.ndarray) and not feature_map.accepts_missing:
        encoder = fit_encoder(rows, stream, scale="robust" if scale is True else scale)
    if encoder is not None:
        rows, scale = matrix(encoder._transform_block(rows)), False
    if error is not None and rows.shape[0] < 2:
        raise ValueError(
            f"--error is measured on pairs of different rows, and there is {rows.shape[0]} row: "
            "plan without it."
        )
    fitted_on, held_out = (rows[::2], rows[1::2]) if rows.shape[0] >= _SPLIT_FROM else (rows, rows)
    if is_scaled(scale_columns(feature_map, scale)) and not is_scaled(feature_map):
        scaled = Scaled().fit(fitted_on)
        fitted_on, held_out = scaled.transform(fitted_on), scaled.transform(held_out)
    fitted = with_seed(feature_map, seed).fit(fitted_on)
    least, most = _PAIRS
    pairs = max(least, min(most, _PAIR_NUMBERS // rows.shape[1]))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # values outside the range of the half
            certificate = certify(fitted, held_out, pairs=pairs, error=error, random_state=seed)
    except AttributeError as none:  # a composition without an exact kernel
        if error is not None:
            raise ValueError(
                f"--error needs an exact kernel to be measured against. {none}"
            ) from None
        return fitted, None
    if error is not None and certificate.relative is None:
        raise ValueError(
            "--error is relative to the exact kernel, which is 0 for every pair of these rows: "
            "plan without it."
        )
    return fitted, certificate.rate

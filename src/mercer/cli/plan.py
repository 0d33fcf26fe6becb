"""mercer plan: what a fit would take, before it is run."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from mercer.cli import _map_syntax
from mercer.cli._console import Voice, speaks
from mercer.cli._options import PATH, describe_index, open_data, options
from mercer.cli.fit import MapType
from mercer.cli.targets import CLASSIFY, task_of

_SAMPLE = 4000  # rows of the pilot
_PAIRS = 500, 5000  # that it measures, at least and at most
_NUMBERS = 2_000_000  # that they have at most where there are more than the least
_LEAST = 8  # rows that are halved


@click.command(short_help="What a fit would take: size, seconds, memory.")
@click.argument("data", type=PATH)
@options("target")
@click.option(
    "--map",
    "maps",
    type=MapType(),
    default="fourier",
    show_default=True,
    help="name:option=value,... (see mercer maps), a >> b, a + b.",
)
@click.option(
    "--error", type=float, help="A relative error of kernel values that is wanted, such as 0.01."
)
@click.option("--max-memory", help="What the fit may hold: 2GB.")
@click.option("--max-seconds", type=float, help="What the fit may take.")
@click.option(
    "--loss", default="squared", show_default=True, help="squared, squared_hinge or logistic."
)
@options("task", "columns", "drop", "weight", "max-classes", "seed")
@speaks
def plan(
    data: Path,
    target: str | None,
    maps: Any,
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
    voice: Voice,
) -> None:
    """Estimate what a fit to the rows of DATA would take: size, route, seconds and memory.

    The error is measured with small maps on a sample of the rows. No model is fitted.

    \b
    Examples:
      mercer plan data.parquet --target digit --map exp-chi2 --error 0.01
      mercer plan data.csv --target digit --map fourier --error 0.05 --max-seconds 10
    """
    from mercer.evaluation.plan import plan as quote
    from mercer.validation.parameters import validate_positive

    if error is not None:
        validate_positive("plan", "error", error)
    stream = open_data(data, target=target, weight=weight, columns=columns, drop=drop)
    if stream.left_out:
        voice.say(describe_index(stream))
    outputs = _outputs(stream, task, max_classes, loss)
    feature_map = _map_syntax.build(maps)
    with voice.watching("plan") as watch:
        fitted, rate = _pilot(feature_map, stream.watched(watch), error, seed)
    limit = None if max_memory is None else int(max_memory) if max_memory.isdigit() else max_memory
    found = quote(
        stream,
        fitted,
        error=error,
        max_memory=limit,
        max_seconds=max_seconds,
        rate=rate,
        loss=loss,
        outputs=outputs,
    )
    voice.say(str(found))
    voice.event("plan", **{**asdict(found), "seconds": found.seconds, "fits": found.fits})


def _outputs(stream: Any, task: str | None, max_classes: int, loss: str) -> int:
    """Targets, or classes that the first rows have; one for two classes, and without a target.
    Losses other than squared need classes.
    """
    import numpy as np

    if stream.target is None:
        return 1
    y = np.asarray(next(stream.chunks()).y)
    if task_of(stream, task, max_classes).name != CLASSIFY:
        if loss != "squared":
            raise ValueError(
                f"--loss {loss} is for classes, and the target is numbers (--task classify if not)."
            )
        return 1 if y.ndim == 1 else y.shape[1]
    count = len(np.unique(y))
    return count if count > 2 else 1


def _pilot(feature_map: Any, stream: Any, error: float | None, seed: int) -> tuple[Any, Any]:
    """The map, fitted on half of a sample, and how its error falls, measured on the other half;
    None where it has no exact kernel.
    """
    from mercer.data.batches import Rows
    from mercer.evaluation.certificate import certify
    from mercer.stats.basic import Reservoir
    from mercer.stats.reduce import fold

    kept = Reservoir(_SAMPLE, seed)
    fold(Rows(stream, feature_map), kept)
    rows = kept.rows
    if error is not None and rows.shape[0] < 2:
        raise ValueError(
            f"--error is measured on pairs of different rows, and there is {rows.shape[0]} row: "
            "leave it out."
        )
    seen, unseen = (rows[::2], rows[1::2]) if rows.shape[0] >= _LEAST else (rows, rows)
    names = [name for name in feature_map.get_params() if name.split("__")[-1] == "random_state"]
    fitted = feature_map.set_params(**{name: seed + i for i, name in enumerate(names)}).fit(seen)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # rows outside the range of the other half
            found = certify(
                fitted, unseen, pairs=_pairs(stream.width), error=error, random_state=seed
            )
    except AttributeError as none:  # a composition without an exact kernel
        if error is not None:
            raise ValueError(
                f"--error needs an exact kernel to be measured against. {none}"
            ) from None
        return fitted, None
    if error is not None and found.relative is None:
        raise ValueError(
            "--error is relative to the exact kernel, which is 0 for every pair of these rows: "
            "leave it out."
        )
    return fitted, found.rate


def _pairs(columns: int) -> int:
    """Pairs of rows of so many columns, whose exact kernels are evaluated for each pilot."""
    least, most = _PAIRS
    return max(least, min(most, _NUMBERS // columns))

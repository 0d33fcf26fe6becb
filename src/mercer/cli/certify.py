"""mercer certify: the measured error of a saved map on the rows of a file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from mercer.cli._console import Voice, speaks
from mercer.cli._options import PATH, open_like, options


@click.command(short_help="Measured error of a map, and the size for another.")
@click.argument("model", type=PATH)
@click.argument("data", type=PATH)
@click.option(
    "--error",
    type=float,
    help="A relative error that is wanted, such as 0.01: which size reaches it?",
)
@click.option(
    "--pairs", type=int, default=20_000, show_default=True, help="Pairs of rows that are measured."
)
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Of the interval.")
@options("columns", "seed", "device")
@speaks
def certify(
    model: Path,
    data: Path,
    error: float | None,
    pairs: int,
    confidence: float,
    columns: str | None,
    seed: int,
    device: str | None,
    voice: Voice,
) -> None:
    """Measure how far a saved map is from its exact kernel on the rows of DATA, which it should not
    have been fitted on.

    The error is split into what more features remove, what they cannot (bias), and rounding. With
    --error, the size that would reach it.

    \b
    Example:
      mercer certify model.mercer data.parquet --error 0.01
    """
    from mercer.evaluation.certificate import certify as measure
    from mercer.parallel.device import use_device
    from mercer.persistence.io import load

    loaded = load(model)
    fitted = getattr(loaded, "feature_map_", loaded)
    names = getattr(loaded, "feature_names_in_", None)
    stream = open_like(data, names, int(loaded.n_features_in_), columns=columns)
    with use_device(device), voice.watching("certify") as watch:
        found = measure(
            fitted,
            stream.watched(watch),
            pairs=pairs,
            confidence=confidence,
            error=error,
            random_state=seed,
        )
    voice.say(str(found))
    voice.event("certificate", **asdict(found))

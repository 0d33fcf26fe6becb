"""mercer certify: the measured error of a saved map on the rows of a file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from mercer.cli._console import Console, output_options
from mercer.cli._options import PATH, open_like, shared_options


@click.command(short_help="Measure the error of a map, and the size for a smaller one.")
@click.argument("model", type=PATH)
@click.argument("data", type=PATH)
@click.option("--error", type=float, help="Also print the size for this relative error: 0.01.")
@click.option(
    "--pairs", type=int, default=20_000, show_default=True, help="Number of pairs of rows."
)
@click.option(
    "--confidence", type=float, default=0.95, show_default=True, help="Confidence of the interval."
)
@shared_options("columns", "seed", "device")
@output_options
def certify(
    model: Path,
    data: Path,
    error: float | None,
    pairs: int,
    confidence: float,
    columns: str | None,
    seed: int,
    device: str | None,
    console: Console,
) -> None:
    """Measure the error of a saved map against its exact kernel on the rows of DATA.

    DATA should not be the rows that the map was fitted on. The error is the sum of a sampling
    error, which falls with the number of features, a bias, which does not, and rounding. With
    --error, the size for that error is printed.

    \b
    Example:
      mercer certify model.mercer data.parquet --error 0.01
    """
    from mercer.evaluation.certificate import certify as measure
    from mercer.parallel.device import use_device
    from mercer.persistence.io import load

    loaded = load(model)
    feature_map = getattr(loaded, "feature_map_", loaded)
    names = getattr(loaded, "feature_names_in_", None)
    stream = open_like(data, names, int(loaded.n_features_in_), columns=columns)
    with use_device(device), console.progress("certify") as progress:
        certificate = measure(
            feature_map,
            stream.with_progress(progress),
            pairs=pairs,
            confidence=confidence,
            error=error,
            random_state=seed,
        )
    console.print(str(certificate))
    console.event("certificate", **asdict(certificate))

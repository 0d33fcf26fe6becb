"""make bench: every case of every map against its rivals; a table on the screen, JSON in benchmarks/results/maps.json."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.base import clone

from benchmarks.libraries import libraries
from benchmarks.measure import interleaved, milliseconds, ratio
from mercer.leaderboard import gram_error
from mercer.machine import facts
from mercer.maps import every_map
from mercer.maps.base import Map

RESULTS = Path(__file__).parent / "results"


def rows_for(feature_map: Map, n: int, d: int) -> np.ndarray:
    """float32 rows in the map's domain, scaled so that the cases' kernels are neither 0 nor 1."""
    rng = np.random.default_rng(0)
    X = rng.gamma(1.0, size=(n, d)) if feature_map.domain == "nonnegative" else rng.normal(size=(n, d))
    return (X / np.sqrt(d)).astype(np.float32)


def run(case: Map, n: int, d: int, size: int, rounds: int) -> list[dict[str, Any]]:
    """One record for each rival of the case, or one without a rival."""
    resized = case.resized(size) if case.rate is not None else clone(case)
    X = rows_for(case, n, d)
    ours = resized.fit(X)
    sample = X[:500]
    record = {
        "map": " ".join(repr(resized).split()),
        "error": gram_error(ours.kernel_, sample, ours.transform(sample)),
        "bytes_per_row": sum(block.nbytes for block in ours.blocks(sample)) / len(sample),
    }
    records = []
    for library in libraries():
        theirs = library.rival(resized)
        if theirs is None:
            continue
        theirs.fit(X)
        seconds = interleaved({"ours": partial(ours.transform, X), "theirs": partial(theirs.transform, X)}, rounds)
        rival = {
            "rival": library.name,
            "rival_error": gram_error(ours.kernel_, sample, theirs.transform(sample)),
            "milliseconds": milliseconds(seconds["ours"]),
            "rival_milliseconds": milliseconds(seconds["theirs"]),
            "ratio": asdict(ratio(seconds["ours"], seconds["theirs"])),
        }
        records.append(record | rival)
    if not records:
        seconds = interleaved({"ours": partial(ours.transform, X)}, rounds)
        records.append(record | {"milliseconds": milliseconds(seconds["ours"])})
    return records


def table(records: list[dict[str, Any]]) -> Table:
    """The records as a table."""
    shown = Table("map", "rival", "ms", "times faster (quartiles)", "Gram error", "rival's", "bytes/row")
    for record in records:
        times = record.get("ratio")
        shown.add_row(
            record["map"],
            record.get("rival", "-"),
            f"{record['milliseconds']:.1f}",
            f"{times['median']:.2f} ({times['low']:.2f}-{times['high']:.2f})" if times else "-",
            f"{record['error']:.2%}",
            f"{record['rival_error']:.2%}" if times else "-",
            f"{record['bytes_per_row']:,.0f}",
        )
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--columns", type=int, default=128)
    parser.add_argument("--size", type=int, default=1024, help="value of each map's knob")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    cases = [case for cls in every_map() for case in cls.cases()]
    records = []
    for case in track(cases, description="maps", transient=True):
        records += run(case, options.rows, options.columns, options.size, options.rounds)
    Console(width=160).print(table(records))
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "maps.json"
    path.write_text(json.dumps({"machine": facts(), "settings": vars(options), "records": records}, indent=1) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    main()

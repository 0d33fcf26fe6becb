"""Run the benchmarks: tables on the screen, JSON in results/, Markdown in README.md."""

from __future__ import annotations

import argparse
import importlib

from rich.progress import track

from benchmarks.table import show

PARTS = (
    "targets",
    "compressive",
    "subspaces",
    "landmarks",
    "coded",
    "one_thread",
    "moments",
    "learning",
    "latency",
    "sparse",
    "losses",
    "regimes",
    "cluster",
    "command",
    "plan",
    "certificates",
    "defaults",
    "small_sets",
    "selection",
    "uncertainty",
    "calibration",
    "metric",
    "maps",
    "ops",
    "slopes",
    "picture",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="part",
        help=f"any of {', '.join(PARTS)}; all of them by default",
    )
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {sorted(unknown)[0]!r}; there are {', '.join(PARTS)}")
    for name in options.parts or PARTS:
        module = importlib.import_module(f"benchmarks.{name}")
        rows = list(track(module.rows(options.rounds), description=name, transient=True))
        show(name, rows)
        if hasattr(module, "finish"):
            module.finish(rows)


if __name__ == "__main__":
    main()

"""Mixed tables: default models and selected maps beside gradient boosting with its own categories.

Run with ``python -m benchmarks.tables FOLDER``, a folder with penguins.json, cars.json, movies.json
and flights-3m.parquet of the npm package vega-datasets. Nothing is downloaded.

Models read the CSV file of the training rows as it is; gradient boosting has its categories as
pandas categories, dates as numbers and columns of more than 255 values left out.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import mercer

_FLIGHTS = 20_000  # rows of the third table
_MOST_CATEGORIES = 255  # of HistGradientBoosting


def tables(folder: Path) -> Iterator[tuple[str, pd.DataFrame, str]]:
    """Yield name, table and target."""
    penguins = pd.read_json(folder / "penguins.json").replace(".", None)
    yield "penguins: species", penguins.dropna(subset=["Species"]), "Species"
    yield "cars: origin", pd.read_json(folder / "cars.json"), "Origin"
    movies = pd.read_json(folder / "movies.json", convert_dates=False)
    kept = movies.dropna(subset=["IMDB Rating"]).drop(columns=["Rotten Tomatoes Rating"])
    yield "movies: IMDB rating", kept, "IMDB Rating"
    flights = pd.read_parquet(folder / "flights-3m.parquet").sample(_FLIGHTS, random_state=0)
    late = np.where(flights["delay"] > 15, "late", "in time")
    yield "flights: late", flights.drop(columns="delay").assign(late=late), "late"


def boosting(train: pd.DataFrame, test: pd.DataFrame, target: str, numeric: bool) -> float:
    """Return the score of HistGradientBoosting, with categories as it takes them."""
    columns = {}
    for name in train.columns.drop(target):
        both = pd.concat([train[name], test[name]])
        if pd.api.types.is_datetime64_any_dtype(both):
            columns[name] = both.astype("int64").astype(float)
        elif not pd.api.types.is_numeric_dtype(both):
            if both.nunique() > _MOST_CATEGORIES:
                continue
            columns[name] = both.astype(str).astype("category")
        else:
            columns[name] = both.astype(float)
    X = pd.DataFrame(columns)
    kind: Any = HistGradientBoostingRegressor if numeric else HistGradientBoostingClassifier
    model = kind(categorical_features="from_dtype", random_state=0)
    model.fit(X[: len(train)], train[target])
    return float(model.score(X[len(train) :], test[target]))


def measure(name: str, table: pd.DataFrame, target: str) -> str:
    """Return a line of the table: scores on rows held out, and seconds."""
    table = table.sample(frac=1, random_state=1)
    split = int(0.7 * len(table))
    train, test = table[:split], table[split:]
    numeric = pd.api.types.is_numeric_dtype(table[target])
    kind: Any = mercer.KernelRegressor if numeric else mercer.KernelClassifier
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / "train.csv", Path(folder) / "test.csv"]
        train.to_csv(paths[0], index=False)
        test.to_csv(paths[1], index=False)
        start = time.perf_counter()
        model = kind(random_state=0).fit(mercer.open_stream(paths[0], target=target))
        schema = model.schema_
        held_out = mercer.open_stream(paths[1], target=target, schema=schema)
        default, seconds = model.score(held_out), time.perf_counter() - start
        start = time.perf_counter()
        board = mercer.select(
            mercer.open_stream(paths[0], target=target), max_seconds=30, random_state=0
        )
        chosen = board.best_.fit(mercer.open_stream(paths[0], target=target))
        held_out = mercer.open_stream(paths[1], target=target, schema=chosen.schema_)
        selected, selecting = chosen.score(held_out), time.perf_counter() - start
    start = time.perf_counter()
    trees = boosting(train, test, target, numeric)
    boosted = time.perf_counter() - start
    return (
        f"| {name} | {len(train):,} x {table.shape[1] - 1} | {default:.4f} ({seconds:.1f} s) | "
        f"{selected:.4f} ({selecting:.0f} s) | {trees:.4f} ({boosted:.1f} s) |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    warnings.simplefilter("ignore")
    print("| table: target | rows x columns | default | selected | gradient boosting |")
    print("| --- | --- | --- | --- | --- |")
    for name, table, target in tables(folder):
        print(measure(name, table, target), flush=True)
    start = time.perf_counter()
    stream = mercer.open_stream(folder / "flights-3m.parquet", target="delay")
    for _ in stream.chunks():
        pass
    reading = time.perf_counter() - start
    start = time.perf_counter()
    mercer.Tabular()._fit_stream(stream)
    encoding = time.perf_counter() - start
    start = time.perf_counter()
    model = mercer.KernelRegressor(mercer.RandomFourier(512), random_state=0).fit(stream)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(
        f"3,000,000 flights: a pass of reading {reading:.1f} s, with the statistics of Tabular "
        f"{encoding:.1f} s; a fit of 512 Fourier features {seconds:.1f} s (R^2 of left-out rows "
        f"{model.validation_score_.explained:.3f}); peak of the process {peak:.0f} MB"
    )


if __name__ == "__main__":
    main()

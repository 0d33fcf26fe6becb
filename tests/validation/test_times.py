"""Dates, times and durations raise an error with their column in arrays, targets and weights.

Estimators encode those of tables.
"""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.helpers.shell import fails, run

from mercer import (
    GCWS,
    KernelClassifier,
    KernelRegressor,
    Nystroem,
    RandomFourier,
    certify,
    gram,
    kernels,
    open_stream,
    plan,
    select,
)
from mercer.validation.times import is_time

pl = pytest.importorskip("polars", reason="polars is not installed: pip install --group dev")

N = 40
A = np.random.default_rng(0).random(N)
Y = np.arange(N) % 2
DAYS = np.datetime64("2020-01-01") + np.arange(N).astype("timedelta64[D]")
GAPS = np.arange(N).astype("timedelta64[s]")
VALUES = {
    "date": [dt.date(2020, 1, 1) + dt.timedelta(days=i) for i in range(N)],
    "datetime": [dt.datetime(2020, 1, 1) + dt.timedelta(hours=i) for i in range(N)],
    "timedelta": [dt.timedelta(minutes=i) for i in range(N)],
    "time": [dt.time(i % 24) for i in range(N)],
}
ARROW = {"date": "date32", "datetime": "timestamp", "timedelta": "duration", "time": "time64"}
POLARS = {"date": "Date", "datetime": "Datetime", "timedelta": "Duration", "time": "Time"}

SOURCES = {
    "datetime64": (np.stack([DAYS, DAYS], axis=1), r"\(datetime64\[D\]\) in X, column 0"),
    "timedelta64": (np.stack([GAPS, GAPS], axis=1), r"\(timedelta64\[s\]\) in X, column 0"),
    "objects of datetime64": (
        np.array([[1.0, day] for day in DAYS], dtype=object),
        r"\(datetime64\) in X, row 0, column 1",
    ),
    "lists of datetime64": ([[day, day] for day in DAYS], r"\(datetime64\) in X, row 0, column 0"),
    "list of arrays": (list(np.stack([GAPS, GAPS], axis=1)), r"\(timedelta64\[s\]\) in X, row 0"),
    "pandas datetime64": (
        pd.DataFrame({"a": A, "when": DAYS}),
        r"\(datetime64\[s\]\) in X, column 1 \('when'\)",
    ),
    "pandas timedelta64": (
        pd.DataFrame({"a": A, "when": GAPS}),
        r"\(timedelta64\[s\]\) in X, column 1 \('when'\)",
    ),
    "pandas time zone": (
        pd.DataFrame({"a": A, "when": pd.date_range("2020", periods=N, tz="UTC").as_unit("us")}),
        r"\(datetime64\[us, UTC\]\) in X, column 1 \('when'\)",
    ),
    "pandas period": (
        pd.DataFrame({"a": A, "when": pd.period_range("2020", periods=N, freq="D")}),
        r"\(period\[D\]\) in X, column 1 \('when'\)",
    ),
    "pandas category": (
        pd.DataFrame({"a": A, "when": pd.Categorical(DAYS)}),
        r"\(datetime64\[s\]\) in X, column 1 \('when'\)",
    ),
    "pandas of Arrow": (
        pd.DataFrame({"a": A, "when": pd.Series(VALUES["date"], dtype="date32[pyarrow]")}),
        r"\(date32\[day\]\[pyarrow\]\) in X, column 1 \('when'\)",
    ),
    "pandas, one in the last row": (
        pd.DataFrame(
            {"a": A, "when": pd.Series([1.0] * (N - 1) + VALUES["date"][:1], dtype=object)}
        ),
        rf"\(date\) in X, column 1 \('when'\), row {N - 1}",
    ),
}
for kind, values in VALUES.items():
    pairs = np.array([[i, value] for i, value in enumerate(values)], dtype=object)
    SOURCES[f"objects of {kind}"] = (pairs, rf"\({kind}\) in X, row 0, column 1")
    SOURCES[f"lists of {kind}"] = (pairs.tolist(), rf"\({kind}\) in X, row 0, column 1")
    SOURCES[f"polars {kind}"] = (
        pl.DataFrame({"a": A, "when": values}),
        rf"\({POLARS[kind]}.*\) in X, column 1 \('when'\)",
    )
    SOURCES[f"Arrow {kind}"] = (
        pa.table({"a": A, "when": values}),
        rf"\({ARROW[kind]}.*\) in X, column 1 \('when'\)",
    )

PLAIN = RandomFourier(4, gamma=0.5, random_state=0).fit(np.stack([A, A], axis=1))
NAMED = RandomFourier(4, gamma=0.5, random_state=0).fit(pd.DataFrame({"a": A, "when": A}))
REGRESSOR = KernelRegressor(RandomFourier(4, gamma=0.5, random_state=0), alpha=1.0)
CLASSIFIER = KernelClassifier(RandomFourier(4, gamma=0.5, random_state=0), alpha=1.0)
FITTED = KernelRegressor(RandomFourier(4, gamma=0.5, random_state=0), alpha=1.0).fit(
    np.stack([A, A], axis=1), A
)
ENTRIES = {
    "fit": lambda X: RandomFourier(4).fit(X),
    "transform": PLAIN.transform,
    "transform, names": NAMED.transform,
    "codes": lambda X: GCWS(4).fit(np.stack([A, A], axis=1)).codes(X),
    "KernelRegressor.fit": lambda X: REGRESSOR.fit(X, A),
    "KernelRegressor.predict": FITTED.predict,
    "KernelClassifier.fit": lambda X: CLASSIFIER.fit(X, Y),
    "KernelClassifier.partial_fit": lambda X: CLASSIFIER.partial_fit(X, Y, classes=[0, 1]),
    "gram": lambda X: gram(kernels.Linear(), X),
    "a kernel": lambda X: kernels.Linear()(X),
    "certify": lambda X: certify(PLAIN, X),
    "landmarks": lambda X: Nystroem(landmarks=X, gamma=1.0).fit(np.stack([A, A], axis=1)),
}


TABLES = [name for name in SOURCES if name.startswith(("pandas", "polars", "Arrow"))]
FITS = ("KernelRegressor.fit", "KernelClassifier.fit", "KernelClassifier.partial_fit")


@pytest.mark.parametrize("source", SOURCES)
def test_columns_of_dates_and_times_are_refused_by_name(source):
    X, place = SOURCES[source]
    for name, call in ENTRIES.items():
        if source in TABLES and name in FITS:
            continue
        with pytest.raises(
            ValueError,
            match=rf"needs numbers, got dates or times {place}\. Drop the column, or convert",
        ):
            call(X)


@pytest.mark.parametrize("source", sorted(set(SOURCES) - set(TABLES)))
def test_streams_of_dates_and_times_are_refused(source):
    X, _ = SOURCES[source]
    for call in (open_stream, plan, lambda X: select(X, Y)):
        with pytest.raises(ValueError, match=r"dates or times .* days since a date"):
            call(X)


@pytest.mark.parametrize("source", TABLES)
def test_dates_and_times_of_tables_are_encoded(source):
    X, _ = SOURCES[source]
    kind = open_stream(X).schema.columns[1].kind
    numbers, categories = ("delta", " time"), ("category", "last row")
    number = any(word in source for word in numbers) and "zone" not in source
    category = any(word in source for word in categories)
    assert kind == ("number" if number else "category" if category else "date")
    model = KernelClassifier(RandomFourier(16, random_state=0)).fit(X, Y)
    assert np.isfinite(model.decision_function(X)).all()
    estimate = plan(X)
    assert estimate.encoded and estimate.passes[0] == "columns of the table"
    board = select(X, Y, kernels=["fourier"], max_seconds=2, random_state=0)
    assert np.isfinite(board.best_.fit(X, Y).decision_function(X)).all()


@pytest.mark.parametrize(
    "values", [DAYS, GAPS, pd.Series(DAYS), pl.Series(VALUES["date"]), VALUES["time"]]
)
def test_targets_and_weights_of_dates_are_refused(values):
    X = np.stack([A, A], axis=1)
    for model, y in ((REGRESSOR, A), (CLASSIFIER, Y)):
        with pytest.raises(
            ValueError,
            match=r"needs numbers or labels, got dates or times \(.*\) in y.*Convert them to",
        ):
            model.fit(X, values)
        with pytest.raises(
            ValueError, match=r"needs numbers, got dates or times \(.*\) in sample_weight"
        ):
            model.fit(X, y, sample_weight=values)
    with pytest.raises(ValueError, match=r"got dates or times"):
        open_stream((X, np.asarray(values, dtype=None if hasattr(values, "dtype") else object)))


def test_numbers_in_objects_lists_and_frames_are_numbers():
    X = np.stack([A, Y], axis=1)
    expected = PLAIN.transform(X)
    frame = pd.DataFrame({"a": A, "b": Y.astype(object)})
    for rows in (X.tolist(), X.astype(object), frame, list(X), pl.DataFrame({"a": A, "b": Y})):
        np.testing.assert_array_equal(
            RandomFourier(4, gamma=0.5, random_state=0).fit(rows).transform(rows), expected
        )


@pytest.mark.parametrize(
    "dtype", ["float64", "int8", "bool", "object", "category", "str", "Float32", "UInt8", "double"]
)
def test_other_types_are_no_times(dtype):
    assert not is_time(dtype)


@pytest.mark.parametrize("kind", VALUES)
def test_files_with_dates_are_encoded_and_refused_by_models_of_numbers(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pa.table({"a": A, "when": VALUES[kind], "y": A})
    pq.write_table(table, "d.parquet")
    names = ["d.parquet"]
    if kind != "timedelta":  # which CSV has no form for
        pl.from_arrow(table).write_csv("d.csv")
        names.append("d.csv")
    pq.write_table(table.drop_columns("when").append_column("when", pa.array(A)), "numbers.parquet")
    run("fit numbers.parquet --target y --map fourier:n_components=8 -o m.mercer --alpha 1")
    for name in names:
        run(f"fit {name} --target y --map fourier:n_components=8 -o other.mercer --force")
        run(f"predict other.mercer {name} -o p.csv --force")
        if kind in ("date", "datetime"):  # others are numbers of seconds
            for command in (f"predict m.mercer {name} -o q.csv", f"certify m.mercer {name}"):
                assert "Column 'when' has numbers, got datetime" in fails(command)

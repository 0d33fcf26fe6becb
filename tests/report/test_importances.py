"""Importances of columns on the report: of a learned metric, or by permuted values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from mercer import (
    Identity,
    KernelClassifier,
    KernelRegressor,
    Metric,
    RandomFourier,
    Tabular,
    select,
    write_report,
)
from mercer.model_selection.scoring import SCORINGS
from mercer.report.best_model import fit_best
from mercer.report.data import SampleSplit
from mercer.report.importances import SHOWN_COLUMNS, measure_importances

R2 = SCORINGS["r2"]


def rows(d: int = 15) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(500, d))
    return X, np.sin(2 * X[:, 3]) + X[:, 7]


def test_columns_of_a_learned_metric_are_in_the_order_of_their_shares_and_named():
    X, y = rows()
    names = [f"column {i}" for i in range(15)]
    model = KernelRegressor(Metric() >> RandomFourier(64), random_state=0)
    found = measure_importances(fit_best("metric", model, SampleSplit.of(X, y), 0), names, R2, 0)
    assert found.learned and len(found.names) == SHOWN_COLUMNS and found.columns == 15
    assert set(found.names[:2]) == {"column 3", "column 7"}
    assert list(found.values) == sorted(found.values, reverse=True)
    assert sum(found.values) <= 1


@pytest.mark.parametrize("sparse", [False, True])
def test_permuted_values_of_a_linear_model_lose_what_they_explain(sparse):
    X = np.random.default_rng(0).normal(size=(1000, 5))
    y = 2 * X[:, 3] + X[:, 1]
    sample = SampleSplit.of(csr_array(X) if sparse else X, y)
    best = fit_best("linear", KernelRegressor(Identity(), alpha=1e-6), sample, 0)
    found = measure_importances(best, None, R2, 0)
    assert not found.learned and found.columns == 5
    assert found.names[:2] == ("x3", "x1")
    # E (w x - w x')^2 = 2 w^2, relative to the variance 2^2 + 1^2
    assert found.values[0] == pytest.approx(8 / 5, rel=0.15)
    assert found.values[1] == pytest.approx(2 / 5, rel=0.15)
    assert max(map(abs, found.values[2:])) < 1e-3
    assert 0 < found.spreads[0] < 0.2
    assert found == measure_importances(best, None, R2, 0)


def test_features_of_one_column_of_a_table_are_permuted_together():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    city, x = rng.choice(["a", "b", "c"], 600), rng.normal(size=600)
    encoder = Tabular().fit(pandas.DataFrame({"x": x, "city": city}))
    X = encoder.transform(pandas.DataFrame({"x": x, "city": city}))
    names = encoder.get_feature_names_out()
    assert len(names) == 4
    sample = SampleSplit.of(X, (city == "b").astype(int), classes=True)
    best = fit_best("linear", KernelClassifier(Identity()), sample, 0)
    found = measure_importances(best, names, SCORINGS["accuracy"], 0, encoder)
    assert found.names == ("city", "x")
    # 2 p (1 - p) of the labels differ where p is the share of a class
    share = np.mean(city == "b")
    assert found.values[0] == pytest.approx(2 * share * (1 - share), abs=0.06)


def test_too_many_columns_have_none():
    X = np.random.default_rng(0).normal(size=(40, 400))
    best = fit_best("linear", KernelRegressor(Identity()), SampleSplit.of(X, X[:, 0]), 0)
    assert measure_importances(best, None, R2, 0) is None


@pytest.mark.full
def test_the_page_has_them_where_a_metric_won(tmp_path):
    X, y = rows(8)
    board = select(X, y, kernels=[Metric() >> RandomFourier(256)], max_seconds=600, random_state=0)
    assert board.winner.kind == "map"
    write_report(board, tmp_path / "report.html", X=X, y=y)
    page = (tmp_path / "report.html").read_text()
    assert "Columns that matter" in page
    assert "x3" in page and "learned metric" in page

"""The importances of columns on the report, where the best model learned a metric."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import Identity, KernelRegressor, Metric, RandomFourier, select, write_report
from mercer.report.data import SampleSplit
from mercer.report.importances import SHOWN_COLUMNS, measure_importances


def rows(d: int = 15) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(500, d))
    return X, np.sin(2 * X[:, 3]) + X[:, 7]


def test_columns_are_in_the_order_of_their_shares_and_named():
    X, y = rows()
    names = [f"column {i}" for i in range(15)]
    model = KernelRegressor(Metric() >> RandomFourier(64), random_state=0)
    found = measure_importances(model, SampleSplit.of(X, y), names, 0)
    assert found is not None
    assert len(found) == SHOWN_COLUMNS
    assert {name for name, _ in found[:2]} == {"column 3", "column 7"}
    shares = [share for _, share in found]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) <= 1
    plain = measure_importances(KernelRegressor(Identity()), SampleSplit.of(X, y), names, 0)
    assert plain is None


@pytest.mark.full
def test_the_page_has_them_where_a_metric_won(tmp_path):
    X, y = rows(8)
    board = select(X, y, kernels=[Metric() >> RandomFourier(256)], max_seconds=600, random_state=0)
    assert board.winner.kind == "map"
    write_report(board, tmp_path / "report.html", X=X, y=y)
    page = (tmp_path / "report.html").read_text()
    assert "Columns that matter" in page
    assert "x3" in page

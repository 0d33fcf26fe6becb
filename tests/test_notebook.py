"""What a notebook shows of results: a short text or a table, never screens of arrays."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_wine
from tests.helpers.leaderboards import board as leaderboard

from mercer import (
    GCWS,
    Anchors,
    Chi2Series,
    KernelClassifier,
    KernelRegressor,
    Metric,
    Nystroem,
    RandomFourier,
    Scaled,
    Tabular,
    accumulate,
    certify,
    open_stream,
    plan,
    select,
)
from mercer.model_selection.select import OTHERS
from mercer.stats.basic import Range, RowCount, Spread
from mercer.stats.moments import Moments

X, y = load_wine(return_X_y=True)


class Tags(HTMLParser):
    """Collect the text, and require that every tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + "\n"


def read(result) -> str:
    parser = Tags()
    parser.feed(result._repr_html_())
    assert parser.open == []
    return parser.text


@pytest.fixture(scope="module")
def model():
    return KernelClassifier(RandomFourier(32, random_state=0), alpha=0.1).fit(X, y)


@pytest.mark.parametrize("name", ["plan_", "certificate", "estimate"])
def test_plans_and_certificates_are_shown_as_they_are_printed(model, name):
    results = {
        "plan_": lambda: model.plan_,
        "certificate": lambda: certify(model, X, pairs=200),
        "estimate": lambda: plan(X, RandomFourier(32)),
    }
    result = results[name]()
    assert read(result).strip() == str(result)
    assert len(repr(result)) < 400 and "\n" not in repr(result).strip()


def fitted(feature_map):
    return feature_map.fit(X)


COMPOSITION = Scaled() >> RandomFourier(32, random_state=0)
# what may be the last line of a cell: made from a fitted model
OBJECTS = {
    "unfitted model": lambda model: KernelClassifier(COMPOSITION),
    "fitted model": lambda model: model,
    "model of a metric": lambda model: KernelClassifier(Metric() >> RandomFourier(32)).fit(X, y),
    "map": lambda model: RandomFourier(32),
    "composition": lambda model: fitted(COMPOSITION),
    "sum": lambda model: fitted(Scaled() + RandomFourier(32)),
    "tabular": lambda model: fitted(Tabular()),
    "kernel": lambda model: fitted(COMPOSITION).kernel_,
    "kernel of Scaled": lambda model: fitted(Scaled()).kernel_,
    "transform": lambda model: fitted(COMPOSITION).tile_transform_,
    "transform of landmarks": lambda model: fitted(Nystroem(8)).tile_transform_,
    "transform of series": lambda model: fitted(Chi2Series(2)).tile_transform_,
    "stream": lambda model: open_stream(X),
    "chunk": lambda model: next(iter(open_stream(X).with_targets(y, None).chunks())),
    "dense block": lambda model: next(iter(fitted(RandomFourier(32)).blocks(X))),
    "coded block": lambda model: next(iter(fitted(GCWS(16)).blocks(X))),
    "block of tables": lambda model: next(iter(fitted(Anchors(8)).blocks(X))),
    "sparse block": lambda model: next(iter(fitted(Scaled(center=False)).blocks(csr_array(X)))),
    "predictor": lambda model: model.compiled(),
    "plan": lambda model: model.plan_,
    "timings": lambda model: plan(X, RandomFourier(32)).timings,
    "rate": lambda model: certify(model, X, pairs=200).rate,
    "range": lambda model: accumulate(open_stream(X), Range()),
    "count": lambda model: accumulate(open_stream(X), RowCount()),
    "spread": lambda model: accumulate(open_stream(X), Spread()),
    "moments": lambda model: accumulate(open_stream(X), Moments(target=False)),
    "regressor": lambda model: KernelRegressor(Anchors(8)).fit(X, y),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_the_last_line_of_a_cell_is_short_and_has_no_array(model, name):
    result = OBJECTS[name](model)
    for text in (repr(result), str(result)):
        assert len(text) <= 400 and text.count("\n") <= 4
        assert "array(" not in text and "[[" not in text and " at 0x" not in text


def test_a_leaderboard_is_a_table_with_its_summary():
    board = select(X, y, kernels=["hellinger"], max_seconds=5, random_state=0)
    for part in (board.entries[0], board.search, board.search.sample):
        assert len(repr(part)) < 250 and "\n" not in repr(part)
    text = read(board)
    assert board.summary in text and text.count("hellinger") >= 1
    assert "<table>" in board._repr_html_() and "accuracy" in text
    assert repr(board).startswith("Leaderboard(") and board.winner.name in repr(board)
    assert len(repr(board)) < 200


def test_a_long_leaderboard_shows_the_finalists_and_the_best_others():
    entry = leaderboard().entries[0]
    entries = tuple(replace(entry, name=f"model {i:02}", finalist=i < 3) for i in range(40))
    board = leaderboard(entries=entries, winner=entries[0])
    for text in (str(board), read(board)):
        assert [f"model {i:02}" in text for i in range(40)] == [i < 3 + OTHERS for i in range(40)]
        assert f"{40 - 3 - OTHERS} more models are in entries." in text

"""What a notebook shows of results: a short text or a table, never screens of arrays."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from sklearn.datasets import load_wine

from mercer import KernelClassifier, RandomFourier, certify, plan, select

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


def test_a_leaderboard_is_a_table_with_its_summary():
    board = select(X, y, kernels=["hellinger"], max_seconds=5, random_state=0)
    text = read(board)
    assert board.summary in text and text.count("hellinger") >= 1
    assert "<table>" in board._repr_html_() and "accuracy" in text
    assert repr(board).startswith("Leaderboard(") and board.winner.name in repr(board)
    assert len(repr(board)) < 200

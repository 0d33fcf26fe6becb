"""What commands print on narrow terminals: no line is cut, no column of names disappears."""

from __future__ import annotations

import io

import pytest
from tests.helpers.leaderboards import board

from mercer.cli._console import Console, wrap_lines
from mercer.cli.compare import print_leaderboard

SETTINGS = {"folds": 5, "final": 800, "held_out": 400, "random_state": 0}
LONG = "scaled >> fourier laplacian gamma=0.000123"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_leaderboard_fits_the_terminal_and_has_every_name_and_score(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    shown = board(settings=SETTINGS, names={"exp-chi2 gamma=2": LONG})
    print_leaderboard(shown, Console(as_json=False))
    said = capsys.readouterr().out
    table = [line.rstrip() for line in said.split("5-fold")[0].splitlines()]
    assert max(map(len, table)) <= width
    words = " ".join(table).split()
    for entry in shown.entries:
        assert set(entry.name.split()) <= set(words)
        assert shown.measure.format(entry.score) in words
    assert ("B/row" in table[1]) == (width >= 80)
    assert ("A wider terminal has" in said) == (width < 80)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_are_wrapped_at_words_on_a_terminal_and_commands_are_not(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    sentence = "Nothing in this sentence is cut, however narrow the terminal may be."
    for stream, lines in ((Terminal(), 2), (io.StringIO(), 1)):
        monkeypatch.setattr("sys.stdout", stream)
        Console(as_json=False).print(sentence)
        found = stream.getvalue().splitlines()
        assert len(found) == lines and " ".join(found) == sentence
        Console(as_json=False).print(sentence, wrap=False)
        assert stream.getvalue().splitlines()[-1] == sentence


def test_text_behind_a_label_stays_in_its_column():
    text = (
        "  route         least squares from normal equations, and more of it\n  tiles         512"
    )
    assert wrap_lines(text, 40).splitlines() == [
        "  route         least squares from",
        "                normal equations, and",
        "                more of it",
        "  tiles         512",
    ]
    assert wrap_lines("short", 40) == "short"
    assert wrap_lines("a" * 50, 40) == "a" * 50  # such as a path

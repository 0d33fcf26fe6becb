"""mercer compare --report: the page, and errors that are raised before the comparison."""

from __future__ import annotations

import html
import json
import sys

import numpy as np
import pytest
from tests.helpers.shell import call, fails, run

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Write table.csv to the current folder: three classes, and one hostile column name."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.gamma(1 + 2 * np.eye(3)[y])
    lines = ["a,<script>alert(1)</script>,c,kind"]
    lines += [",".join([*(f"{x:.4f}" for x in row), "uvw"[k]]) for row, k in zip(X, y, strict=True)]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.full
def test_compare_writes_the_report_with_the_summary_and_the_command(table):
    (table / "pages").mkdir()
    said = run(
        f"compare {table}/table.csv --target kind --kernels hellinger,fourier --seed 3 "
        "--max-seconds 9000 "
        "--report pages/report.html"
    )
    assert "Wrote the report to pages/report.html." in said
    text = (table / "pages" / "report.html").read_text(encoding="utf-8")
    shown = html.unescape(text)
    lines = [line.replace(" +- ", " ± ") for line in said.splitlines() if "linear" in line.lower()]
    assert any(f'<p class="summary">{line}</p>' in shown for line in lines)
    assert "<pre>mercer fit table.csv --target kind --map " in text
    again = (
        "mercer compare table.csv --target kind --max-seconds 9000 --kernels "
        "hellinger,fourier --seed 3 --report report.html"
    )
    assert f"<pre>{again}</pre>" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text and "<script" not in text
    assert str(table) not in text and "u</bdi>, <bdi>v</bdi>, <bdi>w" in text


@pytest.mark.full
def test_with_json_the_report_is_an_event(table):
    lines = run(
        "compare table.csv --target kind --kernels hellinger --report report.html --json"
    ).splitlines()
    event = json.loads(lines[-1])
    assert event == {
        "event": "report",
        "path": "report.html",
        "bytes": (table / "report.html").stat().st_size,
    }


def test_a_report_that_cannot_be_written_is_refused_before_the_comparison(table, monkeypatch):
    def select(*rows, **options):
        raise AssertionError("the comparison has begun")

    monkeypatch.setattr("mercer.model_selection.select.select", select)
    start = "compare table.csv --target kind --report"
    assert fails(f"{start} no/report.html") == "no: There is no such folder."
    assert (
        "a report is an HTML page: table.html, not table.csv" in call(f"{start} table.csv").stderr
    )
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert fails(f"{start} report.html") == "A report needs matplotlib: pip install 'mercer[plot]'."

"""python -m experiments, and the committed page."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pytest
from experiments.__main__ import main
from experiments.page import page
from experiments.records import Cell, Measured
from experiments.running import Results, cells
from experiments.verdicts import misses
from tests.helpers import shell
from tests.helpers.experiment_data import Counted, experiment, paper_of, toy_paper, write_sets
from tests.helpers.svg_compare import assert_same_picture, assert_same_text

from experiments import papers

call, fails, run = (partial(one, group=main) for one in (shell.call, shell.fails, shell.run))
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Use a temporary folder, and the toy paper alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MERCER_DATA", raising=False)
    monkeypatch.setattr("experiments.papers", lambda: {"toy": toy_paper()})
    return tmp_path


def test_a_run_shows_published_ours_difference_and_verdict(toy):
    said = run("run toy")
    assert "Table 7: A table; accuracy, %" in said
    assert " low   n = 1       90.00         80.00      -10.00  misses" in said
    assert "absent: nobody has the" in said
    assert "low, n = 1: off by -10.00, and 1 is allowed. Half the rows." in said
    assert "Quick: a few rows, one draw," in said
    assert "numbers, none of them published: see --page, --json or --show." in said


@pytest.mark.full
def test_without_data_the_five_papers_say_so_in_one_line_and_print_no_screens(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MERCER_DATA", raising=False)
    said = call("run")
    assert said.exit_code == 0
    notes = [line for line in said.stderr.splitlines() if "data" in line]
    assert len(notes) == 1 and "need data that are not here" in notes[0]
    assert len(said.stdout.splitlines()) < 80


def test_nothing_is_run_where_results_are_shown_only(toy):
    said = run("run --show --out r.json --size standard")
    assert "not run" in said and "misses" not in said
    assert not Path("r.json").exists()
    run("run --out r.json --size standard")
    assert "misses" in run("run --show --out r.json --size standard")


def test_the_page_is_written_into_a_folder(toy):
    assert "papers.md and 2 pictures" in run("run --out r.json --page .")
    files = page([toy_paper()], "quick", Results.read(Path("r.json")))
    assert {name: Path(name).read_bytes() for name in files} == files


def test_every_cell_and_row_is_a_line_of_json(toy):
    lines = [json.loads(line) for line in run("run --json").splitlines()]
    assert [line["cell"] for line in lines if line["event"] == "cell"] == [
        "toy/table/low/n = 1",
        "toy/table/ours/n = 1",
        "toy/heat/a/left",
        "toy/heat/b/left",
    ]
    rows = {(line["label"], line["column"]): line for line in lines if line["event"] == "row"}
    assert (rows["low", "n = 1"]["verdict"], rows["low", "n = 10"]["verdict"]) == (
        "misses",
        "agrees",
    )
    assert rows["ours", "n = 1"]["ours"] == {"mean": 95.0, "spread": 0.5, "draws": 3}


def test_a_paper_that_there_is_not_is_a_usage_error(toy):
    assert fails("run toys", 2) == "There is no paper 'toys'. Available papers: toy."


def test_a_cell_that_fails_is_an_error_after_the_others_are_kept(toy, monkeypatch):
    monkeypatch.setattr("experiments.papers", lambda: {"toy": paper_of(Counted("bad", "b").toy)})
    result = call("run --out r.json")
    assert result.exit_code == 1
    assert "1 cell(s) failed, first 'toy/table/bad/x': a bad cell" in result.stderr
    assert set(Results.read(Path("r.json")).sizes["quick"]) == {"toy/table/b/x"}


def test_ctrl_c_says_how_much_is_kept(toy, monkeypatch):
    monkeypatch.setattr(
        "experiments.papers", lambda: {"toy": paper_of(Counted("a", "stop", "b").toy)}
    )
    result = call("run --out r.json")
    assert result.exit_code == 130
    assert (
        "1 of 3 cells are done, stored in r.json: the same command resumes there." in result.stderr
    )


def test_data_are_found_by_option_and_by_environment(toy, monkeypatch):
    monkeypatch.setattr("experiments.papers", papers)
    folder = write_sets(toy, ["caltech101_bow"])
    for line, env in (
        (f"run chi2 --show --data {folder}", {}),
        ("run chi2 --show", {"MERCER_DATA": str(folder)}),
    ):
        said = call(line, COLUMNS="200", **env).stdout
        assert "fashion_mnist.npz is not in" in said
        assert "caltech101_bow.npz is not in" not in said
    assert "no folder of data was given" in call("run chi2 --show", COLUMNS="200").stdout


def test_a_folder_that_is_not_there_is_named(toy):
    assert (
        fails("run --data nowhere")
        == "nowhere is not a folder: --data, or $MERCER_DATA, needs a folder of data sets."
    )
    result = call("run", MERCER_DATA="nowhere")
    assert result.exit_code == 1 and "nowhere is not a folder" in result.stderr


def test_nothing_to_run_and_nothing_to_show_are_said(toy, monkeypatch):
    one = Cell("a", ("x",), lambda bench: {"x": Measured(1.0)}, needs=("mnist",))
    monkeypatch.setattr("experiments.papers", lambda: {"toy": paper_of(experiment(one))})
    result = call("run", COLUMNS="120")
    assert "Note: nothing was run: the data of all rows are missing." in result.stderr
    assert "1 of 1 cells need data that are not here" in result.stderr
    assert "absent" not in result.stdout
    assert (
        "absent: mnist.npz: no folder of data was given" in call("run --show", COLUMNS="120").stdout
    )
    assert "r.json does not exist" in call("run --show --out r.json").stderr


def test_without_a_file_what_is_done_is_lost_and_said_to_be(toy, monkeypatch):
    monkeypatch.setattr(
        "experiments.papers", lambda: {"toy": paper_of(Counted("a", "stop", "b").toy)}
    )
    assert "1 of 3 cells are done, and lost: --out stores them." in call("run").stderr


def test_a_file_that_cannot_be_written_is_known_before_anything_is_run(toy, monkeypatch):
    counted = Counted("a")
    monkeypatch.setattr("experiments.papers", lambda: {"toy": paper_of(counted.toy)})
    Path("file").touch()
    assert call("run --out file/r.json").exit_code == 1
    assert counted.runs == []


@pytest.mark.skipif(not (DOCS / "papers.json").is_file(), reason="no run is committed yet")
class TestTheCommittedRun:
    results = Results.read(DOCS / "papers.json")

    @pytest.mark.full
    def test_the_page_is_what_the_results_make(self):
        """Compare text and structure exactly, and numbers approximately, with the committed page.

        Coordinates depend on the processor's last digit.
        """
        files = page(papers().values(), "standard", self.results)
        assert_same_text((DOCS / "papers.md").read_text(), files.pop("papers.md").decode())
        assert {f"papers/{path.name}" for path in (DOCS / "papers").glob("*.svg")} == set(files)
        for name, picture in files.items():
            committed = (DOCS / name).read_bytes()
            if matplotlib_of(committed) == matplotlib_of(picture):
                assert_same_picture(committed, picture)

    def test_it_has_every_cell_and_no_other(self):
        assert set(self.results.sizes["standard"]) == {
            task.key for task in cells(papers().values()) if task.cell.run is not None
        }
        for task in cells(papers().values()):
            if task.cell.run is not None:
                assert self.results.get("standard", task.experiment, task.cell), (
                    f"{task.key} is of an older version"
                )

    def test_every_row_that_misses_has_a_reason(self):
        for paper in papers().values():
            for where, row in misses(paper, "standard", self.results):
                assert row.note, f"{where.key}, {row.label}, {row.column}: {row.reason}"


def matplotlib_of(picture: bytes) -> bytes:
    """Return the version of matplotlib that drew a picture."""
    return picture.partition(b"<dc:title>Matplotlib v")[2].partition(b",")[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", papers())
def test_a_quick_run_on_the_real_data(name, tmp_path):
    if not os.environ.get("MERCER_DATA"):
        pytest.skip("MERCER_DATA is not set")
    result = call(f"run {name} --size quick --out {tmp_path / 'r.json'} --page {tmp_path}")
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "papers.md").stat().st_size > 1000

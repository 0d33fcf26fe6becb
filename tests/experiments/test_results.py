"""Results of papers: verdicts, resumed runs, and the page."""

from __future__ import annotations

import json
import xml.etree.ElementTree as xml
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from experiments.page import page
from experiments.pictures import svg
from experiments.records import (
    RANDOM,
    SPLIT,
    Cell,
    Experiment,
    Measured,
    Picture,
    not_comparable,
    order,
)
from experiments.running import Bench, Outcome, Results, cells, run, run_cell, why_absent
from experiments.sets import Sets
from experiments.verdicts import misses, table
from tests.helpers.experiment_data import Counted, experiment, fixed, paper_of, toy_paper

# Verdicts


def results_of(toy: Experiment) -> Results:
    results = Results()
    bench = Bench("quick", Sets())
    run([task for task in cells([paper_of(toy)]) if task.cell.run is not None], bench, results)
    return results


def verdicts(toy: Experiment) -> list[str]:
    return [row.verdict for row in table(toy, "quick", results_of(toy))]


@pytest.mark.parametrize(
    ("rule", "ours", "verdict"),
    [
        (SPLIT, 91.0, "agrees"),
        (SPLIT, 91.01, "misses"),
        (SPLIT, 88.99, "misses"),
        (RANDOM, 92.5, "agrees"),
        (RANDOM, 87.4, "misses"),
        (not_comparable("the data"), 10.0, "not comparable"),
    ],
)
def test_numbers_agree_within_the_points_of_their_rule(rule, ours, verdict):
    assert verdicts(experiment(fixed("a", {"x": 90.0}, x=ours), rule=rule)) == [verdict]


def test_a_rule_of_a_cell_goes_before_that_of_the_table():
    cell = replace(fixed("a", {"x": 90.0}, x=92.0), rule=RANDOM)
    assert verdicts(experiment(cell)) == ["agrees"]


def test_order_is_that_of_the_column():
    rows = experiment(
        fixed("a", {"x": 1.0, "y": 3.0}, x=50.0, y=60.0),
        fixed("b", {"x": 2.0, "y": 2.0}, x=40.0, y=50.0),
        fixed("c", {"x": 3.0, "y": 1.0}, x=70.0, y=40.0),
        rule=order(),
    )
    found = {(row.label, row.column): row for row in table(rows, "quick", results_of(rows))}
    assert found["a", "x"].verdict == found["b", "x"].verdict == "misses"
    assert found["a", "x"].reason == "above b, and in the paper the other way round"
    assert found["b", "x"].reason == "below a, and in the paper the other way round"
    assert found["c", "x"].verdict == "agrees"
    assert {found[label, "y"].verdict for label in "abc"} == {"agrees"}


def test_columns_have_orders_of_their_own():
    rows = experiment(fixed("a", {"x": 1.0}, x=50.0), fixed("b", {"y": 2.0}, y=40.0), rule=order())
    assert verdicts(rows) == ["agrees", "agrees"]


@pytest.mark.parametrize(("ties", "verdict"), [(0.9, "misses"), (1.0, "agrees")])
def test_published_ties_have_no_order(ties, verdict):
    rows = (fixed("a", {"x": 1.0}, x=50.0), fixed("b", {"x": 2.0}, x=40.0))
    assert verdicts(experiment(*rows, rule=order(ties))) == [verdict] * 2


@pytest.mark.parametrize(("spread", "verdict"), [(0.6, "misses"), (0.8, "agrees")])
def test_differences_of_ours_below_their_spread_have_no_order(spread, verdict):
    """Spreads of s each: the difference 1 is beyond hypot(s, s) for s = 0.6 only."""
    a, b = Measured(51.0, spread, 3), Measured(50.0, spread, 3)
    assert (
        verdicts(experiment(fixed("a", {"x": 1.0}, x=a), fixed("b", {"x": 2.0}, x=b), rule=order()))
        == [verdict] * 2
    )


def test_rows_without_a_number_say_why():
    rows = experiment(
        Cell("lost", ("x",), published={"x": 1.0}, absent="nobody has the data"),
        Cell("missing", ("x",), lambda bench: {}, {"x": 2.0}, needs=("mnist",)),
        Cell("later", ("x", "y"), lambda bench: {}, {"x": 2.0}),
        fixed("new", {}, x=3.0),
        Cell("ours", ("x",), lambda bench: {}, needs=("mnist",), ours=True),
    )
    results, sets = Results(), Sets()
    run(
        [task for task in cells([paper_of(rows)]) if task.cell.label == "new"],
        Bench("quick", sets),
        results,
    )
    found = table(rows, "quick", results, lambda cell: why_absent(cell, sets))
    assert [(row.label, row.verdict) for row in found] == [
        ("lost", "absent"),
        ("missing", "absent"),
        ("later", "not run"),
        ("new", "-"),
        ("ours", "absent"),
    ]
    assert found[0].reason == "nobody has the data"
    assert "mnist.npz" in found[1].reason


def test_misses_are_found_in_all_tables():
    toy = experiment(fixed("a", {"x": 90.0}, x=95.0), fixed("b", {"x": 90.0}, x=90.5))
    assert [row.label for _, row in misses(paper_of(toy), "quick", results_of(toy))] == ["a"]


# Runs


def test_mean_and_spread_are_those_of_the_draws():
    one = Measured.of([1.0, 2.0, 4.0])
    assert (one.mean, one.draws) == (7 / 3, 3)
    assert one.spread == pytest.approx(np.std([1, 2, 4], ddof=1))
    assert Measured.of([2.0]).spread is None


def test_what_is_done_is_not_done_again(tmp_path):
    counted = Counted("a", "b")
    for _ in range(2):
        counted.go(tmp_path / "r.json")
    assert counted.runs == ["a", "b"]
    counted.go(tmp_path / "r.json", "standard")
    assert counted.runs == ["a", "b"] * 2


def test_a_new_version_of_an_experiment_is_run_again(tmp_path):
    counted = Counted("a")
    counted.go(tmp_path / "r.json")
    counted.go(tmp_path / "r.json", toy=replace(counted.toy, version=2))
    assert counted.runs == ["a", "a"]


def test_a_run_that_is_stopped_goes_on_where_it_was(tmp_path):
    counted = Counted("a", "stop", "b")
    with pytest.raises(KeyboardInterrupt):
        counted.go(tmp_path / "r.json")
    assert set(Results.read(tmp_path / "r.json").sizes["quick"]) == {"toy/table/a/x"}
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]
    with pytest.raises(KeyboardInterrupt):
        counted.go(tmp_path / "r.json")
    assert counted.runs == ["a", "stop", "stop"]


def test_a_cell_that_fails_does_not_stop_the_others_and_is_tried_again(tmp_path):
    counted = Counted("bad", "b")
    assert str(counted.go(tmp_path / "r.json")["toy/table/bad/x"]) == "a bad cell"
    counted.go(tmp_path / "r.json")
    assert counted.runs == ["bad", "b", "bad"]


def test_results_are_read_as_they_were_written(tmp_path):
    Counted("a").go(tmp_path / "r.json")
    before = Results.read(tmp_path / "r.json")
    outcome = before.sizes["quick"]["toy/table/a/x"]
    assert outcome.figures["x"] == Measured(2.33333, 1.52753, 3, 0.25)
    assert Outcome.from_json(json.loads(json.dumps(outcome.to_json()))) == outcome
    text = (tmp_path / "r.json").read_bytes()
    before.write()
    assert (tmp_path / "r.json").read_bytes() == text


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"format": 1}', '{"format": 1, "machine": {}, "sizes": {"quick": {"a": {}}}}'],
)
def test_a_file_of_something_else_is_refused(tmp_path, text):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(ValueError, match=r"r\.json is not a file of results"):
        Results.read(tmp_path / "r.json")


def test_a_file_of_another_format_is_refused(tmp_path):
    (tmp_path / "r.json").write_text('{"format": 2}')
    with pytest.raises(ValueError, match=r"r.json has format 2, and this is 1\."):
        Results.read(tmp_path / "r.json")


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"z": Measured(1.0)}, "gave the columns"),
        ({}, "gave the columns"),
        ({"x": Measured(np.nan)}, "gave nan"),
    ],
)
def test_numbers_that_cannot_be_are_refused(figures, said):
    toy = experiment(Cell("a", ("x", "y"), lambda bench: figures))
    with pytest.raises(ValueError, match=said):
        run_cell(next(cells([paper_of(toy)])), Bench("quick", Sets()))


def test_warnings_of_a_cell_are_kept_as_notes():
    def warn(bench):
        np.float64(1.0) / np.float64(0.0)
        return {"x": Measured(1.0)}

    outcome = run_cell(
        next(cells([paper_of(experiment(Cell("a", ("x",), warn)))])), Bench("quick", Sets())
    )
    assert outcome.notes == ("divide by zero encountered in scalar divide",)


# The page


def toy_results() -> Results:
    results = Results(machine={"mercer": "0.1.0"})
    toy = toy_paper()
    for task in cells([toy]):
        if task.cell.run is not None:
            figures = task.cell.run(Bench("quick", Sets()))
            results.keep("quick", task.key, Outcome(1, figures, 0.5, "2020-02-02", "0.1.0"))
    return results


def test_the_page_has_tables_verdicts_and_what_misses():
    files = page([toy_paper()], "quick", toy_results())
    text = files["papers.md"].decode()
    assert set(files) == {"papers.md", "papers/toy-table.svg", "papers/toy-heat.svg"}
    assert "| low | n = 1 | 90.00 | 80.00 | -10.00 | misses | 1 |" in text
    assert "| low | n = 10 | 91.00 | 91.50 | +0.50 | agrees | 1 |" in text
    assert "| ours | n = 10 | - | 96.00 ± 0.25 |  | - | 3 |" in text
    assert "| lost | n = 1 | 1.00 | - |  | absent: nobody has the data |  |" in text
    assert (
        "|  | left | right |\n| --- | --- | --- |\n| a | 1.0e-03 | 2.0e-03 |\n| b | 3.0e-03 |  |"
        in text
    )
    assert (
        "- **toy/table**: Half the rows.\n  - low, n = 1: published 90.00, ours 80.00; off by "
        "-10.00, and" in text
    )
    assert "| A toy | 1 | 1 | 0 | 1 | 0 | 5 |" in text
    assert "Run 2020-02-02. mercer 0.1.0" in text


def test_the_page_says_which_rows_are_ours_and_which_have_rules_of_their_own():
    own = replace(fixed("new", {}, x=3.0), ours=True)
    rows = experiment(
        fixed("a", {"x": 90.0}, x=91.0), replace(fixed("b", {"x": 90.0}, x=92.0), rule=RANDOM), own
    )
    text = page([paper_of(rows)], "quick", results_of(rows))["papers.md"].decode()
    assert "| *new* | x |" in text and "| a | x |" in text
    assert "Rule: split; random for b." in text


def test_a_run_of_nothing_leaves_the_machine_of_the_last_one(tmp_path):
    results = Results(tmp_path / "r.json", {"mercer": "of old"})
    run([], Bench("quick", Sets()), results)
    assert results.machine == {"mercer": "of old"}


def test_the_same_results_are_the_same_bytes():
    with matplotlib.rc_context({"lines.linewidth": 7, "font.size": 30}):
        first = page([toy_paper()], "quick", toy_results())
    assert first == page([toy_paper()], "quick", toy_results())


def test_pictures_are_well_formed_and_name_their_rows():
    toy = toy_paper()
    for name, words in {
        "papers/toy-table.svg": ("low", "ours"),
        "papers/toy-heat.svg": ("left", "right"),
    }.items():
        picture = page([toy], "quick", toy_results())[name]
        assert xml.fromstring(picture).tag.endswith("svg")
        assert all(f">{word}<" in picture.decode() for word in words)


def test_a_picture_over_what_no_number_has_is_refused():
    toy = experiment(
        fixed("a", {}, x=Measured(1.0, features=3), y=1.0), picture=Picture("D", "y", x="features")
    )
    with pytest.raises(ValueError, match="over features, which column 'y' does not have"):
        svg(toy, {"a": {"x": Measured(1.0, features=3), "y": Measured(1.0)}})
    with pytest.raises(ValueError, match="there is none in 'x'"):
        svg(replace(toy, picture=Picture("D", "y")), {"a": {"x": Measured(1.0)}})


def test_papers_without_results_are_not_on_the_page():
    other = replace(
        toy_paper(),
        name="other",
        title="Another",
        experiments=(replace(experiment(), key="other/t"),),
    )
    assert "Another" not in page([toy_paper(), other], "quick", toy_results())["papers.md"].decode()
    with pytest.raises(ValueError, match="the results have none of size full"):
        page([toy_paper()], "full", toy_results())

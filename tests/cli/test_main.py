"""The command line as a whole: help, examples, errors, exit codes, completion; fit and predict
have files of their own.
"""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from tests.helpers.selection_data import select
from tests.helpers.shell import call, fails, run

import mercer
from mercer.cli import _errors, main
from mercer.cli._console import Console, plain_table
from mercer.maps import registry


@pytest.mark.parametrize(
    ("rows", "final", "best"),
    [
        ("450", "225", "9[78]"),
        pytest.param("1,797", "898", "9[89]", marks=pytest.mark.full),
    ],
)
def test_compare_shows_the_table_and_the_summary(rows, final, best, monkeypatch):
    monkeypatch.setattr("mercer.model_selection.select.select", select)
    some = [part[: int(rows.replace(",", ""))] for part in load_digits(return_X_y=True)]
    monkeypatch.setattr("sklearn.datasets.load_digits", lambda return_X_y: some)
    output = run("compare --kernels hellinger,fourier --max-seconds 9000")
    lines = output.splitlines()
    assert re.match(rf"Digits as histograms: {rows} rows, 64 columns; \d+ s", lines[0])
    for name in ("exact", "fourier", "gradient boosting", "guessing"):
        assert any(line.strip().startswith(name) for line in lines), name
    # the better one of linear models, on columns as they are or scaled, is in the final
    linear = re.search(r"^ *(?:linear|scaled) +([\d.]+)%", output, flags=re.MULTILINE)
    accuracy = float(linear[1])
    assert 90 < accuracy < 97
    assert re.search(
        rf"^\S.* wins with {best}\.\d\d% .* points more than linear\. ", output, flags=re.MULTILINE
    )
    assert f"5-fold cross-validation on {final} rows that no round has used" in output
    assert max(map(len, lines[:12])) <= 80


@pytest.mark.parametrize(
    ("finalists", "words"),
    [
        (0, "All: last round, on 1 held-out row. +- is one standard error."),
        (
            1,
            "First: 2-fold cross-validation on 4 rows that no round has used. Others: last round, "
            "on 1 held-out row.",
        ),
        (
            2,
            "First 2: 2-fold cross-validation on 4 rows that no round has used. +- is one "
            "standard error.",
        ),
    ],
)
def test_compare_says_what_was_cross_validated_and_nothing_of_what_was_not(
    finalists, words, monkeypatch
):
    from tests.helpers.leaderboards import board

    some = board()
    entries = tuple(
        type(one)(**{**vars(one), "finalist": i < finalists})
        for i, one in enumerate([one for one in some.entries if one.kind in ("linear", "map")][:2])
    )
    settings = {**some.settings, "folds": 2, "final": 4, "held_out": 1, "rows": 8}
    made = board(entries=entries, winner=entries[0], settings=settings, columns=1)
    monkeypatch.setattr("mercer.model_selection.select.select", lambda *args, **how: made)
    output = " ".join(run("compare").split())
    assert words in output
    assert " 1 column; " in output


def test_compare_of_numbers_shows_r2_and_leaves_out_what_does_not_take_the_rows(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    frame = pd.DataFrame(
        {
            "a": X[:, 0],
            "b": X[:, 1],
            "c": X[:, 2],
            "y": 10 + np.sin(2 * X[:, 0]) + X[:, 1],
            "id": "word",
        }
    )
    frame.to_csv("numbers.csv", index=False)
    line = (
        "compare numbers.csv --target y --drop id --kernels fourier,hellinger,projection "
        "--max-seconds 9000"
    )
    heard = [json.loads(one) for one in run(f"{line} --json").splitlines()]
    found = {one["name"]: one for one in heard if one["event"] == "entry"}
    assert found["linear"]["score"] < 0.9
    assert max(one["score"] for name, one in found.items() if name.startswith("fourier")) > 0.95
    assert not [name for name in found if "hellinger" in name]
    summary = next(one for one in heard if one["event"] == "summary")
    assert summary["stopped"] is None
    assert "R^2" in summary["summary"]
    output = run(line)
    assert "numbers.csv: 400 rows, 3 columns" in output
    assert "Skipped hellinger: Hellinger needs numbers of at least 0" in output
    assert (
        "Skipped projection: RandomProjection: n_components must be at most the number of "
        "columns" in output
    )
    following = re.search(
        r"Next: mercer (fit numbers.csv --target y --drop id --map .* -o model.mercer)", output
    )[1]
    assert summary["map"] in following
    assert "R^2" in run(f"{following} --test numbers.csv")


@pytest.mark.parametrize(
    ("scoring", "label"),
    [
        pytest.param("neg_root_mean_squared_error", "RMSE", marks=pytest.mark.full),
        ("roc_auc", "AUC"),
    ],
)
def test_compare_scores_by_what_is_asked_for_and_by_the_weights(
    scoring, label, tmp_path, monkeypatch
):
    """Rows of weight 0 have other targets: with them no model is good."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mercer.model_selection.select.select", select)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    numbers = np.hypot(*X.T)
    target = numbers if scoring.startswith("neg") else np.where(numbers > 1.18, "out", "in")
    target[::3] = target[::3][::-1]
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": target, "w": 1.0})
    frame.loc[::3, "w"] = 0.0
    frame.to_csv("rows.csv", index=False)
    line = f"compare rows.csv --target y --kernels fourier --max-seconds 9000 --scoring {scoring}"
    events = [json.loads(one) for one in run(f"{line} --weight w --json").splitlines()]
    summary = next(one for one in events if one["event"] == "summary")
    assert summary["scoring"] == scoring
    winner = next(e for e in events if e["event"] == "entry" and e["name"] == summary["winner"])
    least = -0.2 if scoring.startswith("neg") else 0.95
    assert winner["score"] > least
    assert summary["corrected_score"] <= winner["score"]
    assert {"linear", "gradient boosting"} <= {one["name"] for one in summary["comparisons"]}
    assert not winner["name"].startswith("guessing") and summary["unfinished"] == []
    output = run(f"{line} --drop w --report page.html")
    assert re.search(rf"^ *model +{label} ", output, flags=re.MULTILINE)
    assert f'<th scope="col">{label}</th>' in Path("page.html").read_text()
    assert " --weight w " in run(f"{line} --weight w")


def test_compare_refuses_a_score_of_another_task_and_names_the_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"a": np.arange(40.0) ** 2, "y": ["p", "q"] * 20}).to_csv("rows.csv", index=False)
    error = fails("compare rows.csv --target y --scoring r2")
    assert "--scoring must be one of 'accuracy', " in error and "got 'r2'" in error


@pytest.mark.full
def test_fit_chooses_the_map_by_itself(folder):
    output = run("fit data.parquet --target digit --map auto --max-seconds 4 -o model.mercer")
    words = re.search(r"Using --map (.*)\.$", output, flags=re.MULTILINE)[1]
    assert run(f"fit data.parquet --target digit --map {words} -o same.mercer")
    assert np.array_equal(
        mercer.load("model.mercer").feature_coef_, mercer.load("same.mercer").feature_coef_
    )


def test_maps_lists_every_registered_map():
    output = run("maps")
    for name, cls in registry().items():
        assert name in output
        assert cls.__name__ in output
    listed = [json.loads(line) for line in run("maps --json").splitlines()]
    assert [one["name"] for one in listed] == sorted(registry())


def test_the_options_of_a_map_are_shown_with_their_defaults():
    output = run("maps gcws")
    assert re.search(r"bits +8 +int b, from 1 to 16\.", output)
    assert "--map gcws:n_hashes=256" in output
    assert "Did you mean 'gcws'?" in call("maps gwcs").stderr


def test_info_says_what_is_there():
    output = run("info")
    for word in ("mercer", "python", "numpy", "scikit-learn", "threads", "blas", "ops", "extras"):
        assert word in output
    assert json.loads(run("info --json"))["mercer"] in output


def test_tables_show_words_as_they_are(capsys):
    table = plain_table("word")
    for word in ("mercer[gpu]", ":snake:", "[bold]red"):
        table.add_row(word)
    Console(as_json=False).table(table)
    assert capsys.readouterr().out.split()[-3:] == ["mercer[gpu]", ":snake:", "[bold]red"]


def commands() -> list[click.Command]:
    return list(main.commands.values())


def examples(command: click.Command) -> list[str]:
    """The lines of the command's help that are to be typed."""
    text = re.split(r"Examples?:\n", call(f"{command.name} --help").stdout)[1]
    return re.findall(r"^ +mercer (.*)$", text.partition("\n\n")[0], flags=re.MULTILINE)


@pytest.mark.parametrize("command", commands(), ids=lambda command: command.name)
def test_every_command_has_an_example_in_its_help(command):
    assert examples(command)
    assert all(line.split()[0] == command.name for line in examples(command))


@pytest.mark.full
def test_the_examples_of_all_commands_run_in_their_order(folder):
    for command in commands():
        for line in examples(command):
            limit = " --max-seconds 3" if command.name == "compare" else ""  # the last one counts
            if line != "compare":  # which a test of its own looks at
                run(line + limit)
    made = {path.name for path in folder.iterdir()}
    assert {
        "model.mercer",
        "predictions.parquet",
        "scores.csv",
        "features.npy",
    } <= made
    truth = pd.read_parquet("data.parquet")["digit"]
    assert np.mean(pd.read_parquet("predictions.parquet")["prediction"] == truth) > 0.98


def test_an_unknown_command_is_a_usage_error():
    result = call("compere")
    assert result.exit_code == 2
    assert "No such command 'compere'" in result.output


def test_an_error_is_one_sentence_and_exit_code_1():
    result = call("info", MERCER_NUM_THREADS="abc")
    assert result.exit_code == 1
    assert (
        result.output == "Error: MERCER_NUM_THREADS must be an integer of at least 1, got 'abc'.\n"
    )


@pytest.mark.parametrize(("line", "env"), [("info --debug", {}), ("info", {"MERCER_DEBUG": "1"})])
def test_the_traceback_is_shown_when_it_is_asked_for(line, env):
    result = call(line, MERCER_NUM_THREADS="abc", **env)
    assert isinstance(result.exception, ValueError)
    assert result.exit_code == 1


def test_an_error_of_our_own_asks_for_a_report(monkeypatch):
    monkeypatch.setattr("mercer.system.describe_system", lambda: 1 / 0)
    assert fails("info") == (
        "Internal error (ZeroDivisionError: division by zero). Run the command again with "
        "--debug, and report the traceback."
    )


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "The disk is full: nothing was written under the name",
        ),
        (
            OSError(errno.ENOSPC, "The checkpoint c could not be written: No space left"),
            "The checkpoint c could not be",
        ),
        (
            OSError(errno.EACCES, "Permission denied", "/a/b.csv"),
            "No permission: /a/b.csv (Permission denied).",
        ),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "a/m.mercer"),
            "m.mercer: No such file",
        ),
        (
            MemoryError("Unable to allocate 8 TiB"),
            "Out of memory (Unable to allocate 8 TiB): use fewer",
        ),
        (
            ValueError("n_jobs and columns=[...] are words of a user."),
            "n_jobs and columns=[...] are words of a user.",
        ),
    ],
)
def test_errors_of_files_and_memory_are_sentences(error, expected):
    assert _errors.format_error(error).startswith(expected)


def test_warnings_are_notes_without_a_line_of_code(monkeypatch):
    import warnings

    def warn_twice():
        for _ in range(2):
            warnings.warn("values outside the anchors", UserWarning, stacklevel=2)
        return {"mercer": "x"}

    monkeypatch.setattr("mercer.system.describe_system", warn_twice)
    assert call("info").stderr == "Note: values outside the anchors\n"


@pytest.mark.full
def test_a_closed_pipe_is_no_error():
    command = f"'{sys.executable}' -c 'from mercer.cli import main; main()' maps --json | head -n 1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert len(result.stdout.splitlines()) == 1
    assert "Traceback" not in result.stderr and "Error" not in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_completion_script_for_each_shell(shell):
    assert "_MERCER_COMPLETE" in run(f"completion {shell}")


def completed(line: str, monkeypatch) -> list[str]:
    words = line.split(" ")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    result = call("", _MERCER_COMPLETE="bash_complete")
    return [one.partition(",")[2] for one in result.stdout.splitlines()]


def test_commands_options_and_maps_are_completed(monkeypatch):
    monkeypatch.setattr(main, "name", "mercer")
    assert completed("mercer tra", monkeypatch) == ["transform"]
    assert "--max-memory" in completed("mercer fit --max", monkeypatch)
    assert completed("mercer fit --map gc", monkeypatch) == ["gcws"]
    assert completed("mercer fit --map gcws:bi", monkeypatch) == ["gcws:bits="]
    assert completed("mercer maps hell", monkeypatch) == ["hellinger"]


def test_help_is_in_the_order_of_the_road():
    listed = re.findall(
        r"^  (\w+) {2,}", call("--help").stdout.partition("Commands:")[2], flags=re.MULTILINE
    )
    assert listed[:3] == ["compare", "fit", "predict"]
    assert os.environ.get("MERCER_DEBUG") is None


def test_kinds_of_files_are_those_that_streams_read():
    from mercer.cli import _options
    from mercer.data import svmlight
    from mercer.data.open import SUFFIXES

    assert _options.SVMLIGHT == svmlight.SVMLIGHT
    assert {*_options.TABLES, *_options.SVMLIGHT} < set(SUFFIXES)

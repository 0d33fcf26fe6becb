"""Parameter errors: fields that Python and the command line write in their own syntax."""

import pickle

import numpy as np
import pandas as pd
import pytest
from tests.helpers.shell import fails

from mercer import KernelRegressor, RandomFourier, open_stream
from mercer.cli._errors import format_error
from mercer.data.column_roles import COLUMNS
from mercer.errors import ParameterError, RowError, Setting

FIT = {
    "--jobs",
    "--seed",
    "--max-memory",
    "--columns",
    "--drop",
    "--map",
    "--penalty",
    "--zero-based",
    "--one-based",
}


def raised(call):
    with pytest.raises(ValueError) as caught:
        call()
    return caught.value


def test_an_error_knows_its_parameter_and_says_what_it_said():
    error = raised(lambda: KernelRegressor(max_memory="lots").fit([[1.0], [2.0]], [1.0, 2.0]))
    assert isinstance(error, ParameterError)
    assert (error.estimator_name, error.parameter) == ("KernelRegressor", "max_memory")
    assert str(error).startswith("KernelRegressor: max_memory must be a number of bytes above 0")
    assert raised(lambda: RandomFourier(0).fit([[1.0]])).parameter == "n_components"
    assert raised(lambda: RandomFourier(random_state=-1).fit([[1.0]])).parameter == "random_state"
    assert str(raised(lambda: RandomFourier(n_jobs=0).fit([[1.0]]))).startswith(
        "RandomFourier: n_jobs must be None"
    )
    assert str(raised(lambda: KernelRegressor(n_jobs=0).fit([[1.0]], [1.0]))).startswith(
        "KernelRegressor: n_jobs must"
    )


@pytest.mark.parametrize(
    "error",
    [
        ParameterError(
            "fit", Setting("n_jobs"), " must be 1, not {0}, or ", Setting("loss", "'logistic'"), "."
        ),
        RowError(3, "Bad at", ", column 'n_jobs'", advice=(". Leave it out with ", COLUMNS, ".")),
        RowError(3, "Bad at", ".").with_location("a.csv, row 3"),
    ],
)
def test_errors_go_to_other_processes_and_back(error):
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.parts) == (str(error), error.parts)


def test_advice_stays_with_an_error_that_is_moved():
    error = RowError(3, "Bad at", "", advice=(". Leave it out with ", COLUMNS, "."))
    assert (
        str(error.with_offset(10, "fit")) == "fit: Bad at row 13. Leave it out with columns=[...]."
    )
    assert (
        format_error(error.with_location("line 4"), FIT)
        == "Bad at line 4. Leave it out with --columns or --drop."
    )


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((Setting("n_jobs"), " must be 1, got 'n_jobs'."), "--jobs must be 1, got 'n_jobs'."),
        ((Setting("random_state"), " must be 1."), "--seed must be 1."),
        (("a file n_jobs has no ", COLUMNS), "fit: a file n_jobs has no --columns or --drop"),
        (
            ("order by ", Setting("columns", text="open_stream(source, columns=[...])")),
            "fit: order by --columns",
        ),
        (("give ", Setting("zero_based", "True")), "fit: give --zero-based"),
        (("give ", Setting("zero_based", "False")), "fit: give --one-based"),
        (
            (Setting("penalty", "'group'"), " is for ", Setting("feature_map")),
            "--penalty group is for --map",
        ),
        (("give ", Setting("feature_map", text="a list of maps")), "fit: give --map 'a + b'"),
        ((Setting("max_memory", "5"), " is few"), "--max-memory 5 is few"),
        ((Setting("alpha"), " is for another command"), "fit: alpha is for another command"),
    ],
)
def test_the_command_line_names_the_options_that_it_has(parts, expected):
    assert format_error(ParameterError("fit", *parts), FIT) == expected


def test_parameters_of_a_map_keep_their_names():
    error = raised(lambda: RandomFourier(random_state=-1).fit([[1.0]]))
    assert format_error(error, FIT) == str(error)


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns = {
        "n_jobs": [1.0, 2.0],
        "max_memory": ["a", "b"],
        "random_state": [0.5, 1.5],
        "y": [0.25, 0.75],
    }
    pd.DataFrame(columns).to_csv("columns=[...].csv", index=False)
    return "'columns=[...].csv'"


def test_words_of_a_user_come_back_as_they_were_written(table):
    assert "has no column 'a' (columns)" in fails(f"fit {table} --target y --columns n_jobs,a -o m")
    found = fails(f"fit {table} --target y --columns n_jobs,random_state,loss -o m")
    assert (
        "has no column 'loss' (columns). Its columns: 'n_jobs', 'max_memory', 'random_state', 'y'."
        in found
    )
    assert "columns=[...].csv has no column" in found
    pd.DataFrame({"a": [1.0, 2.0], "y": [0.25, 0.75]}).to_csv("plain.csv", index=False)
    found = fails("fit plain.csv --target y --columns n_jobs,a -o m")
    assert found == "plain.csv has no column 'n_jobs' (columns). Its columns: 'a', 'y'."
    found = fails(f"fit {table} --target y --numeric max_memory -o m")
    assert "Column 'max_memory'" in found and "columns=[...].csv" in found


def test_options_are_named_where_they_are_wrong(table):
    rest = f"fit {table} --target y --drop max_memory -o m"
    assert fails(f"{rest} --jobs 0").startswith("--jobs must be None, an integer of at least 1")
    assert fails(f"{rest} --map fourier:n_jobs=0").startswith("RandomFourier: n_jobs must be None")
    assert fails(f"{rest} --max-memory lots").startswith(
        "--max-memory must be a number of bytes above 0"
    )
    assert fails(f"{rest} --penalty group").startswith(
        "--penalty group selects maps, and --map is one map"
    )
    assert "is not in the range" in fails(f"{rest} --seed -1", 2)
    assert fails(f"{rest} --map fourier:random_state=-1").startswith(
        "RandomFourier: random_state must be None"
    )


def test_rows_that_do_not_fit_a_table_say_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ["n_jobs,y", *(f"{i},{i / 7}" for i in range(300_000)), "columns=[...],1"]
    (tmp_path / "late.csv").write_text("\n".join(lines) + "\n")
    stream = open_stream("late.csv", target="y")
    error = raised(lambda: [None for _ in stream.chunks()])
    assert "and then 'columns=[...]' at" in str(error)
    assert str(error).endswith("Correct it, or leave the column out with columns=[...].")
    assert format_error(error, FIT).endswith(
        "Correct it, or leave the column out with --columns or --drop."
    )
    assert "and then 'columns=[...]' at" in format_error(error, FIT)


def test_arrays_of_another_width_are_told_how_to_choose():
    model = KernelRegressor(RandomFourier(8, random_state=0), alpha=1.0).fit(
        np.eye(3), [1.0, 2.0, 3.0]
    )
    error = raised(lambda: model.predict(open_stream(np.eye(4))))
    assert str(error).endswith("Choose them with open_stream(source, columns=[...]).")
    assert format_error(error, FIT).endswith("Choose them with --columns.")

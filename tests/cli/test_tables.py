"""Commands on tables with words, dates, ids and missing cells."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.helpers.shell import call, fails, run

from mercer import load

FIT = "--map fourier:n_components=64 -o m.mercer --force"


def people(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    age = rng.integers(18, 80, n).astype(float)
    city = rng.choice(["Paris", "London", "Oslo", "São Paulo"], n)
    joined = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, n), "D")
    score = 0.05 * (age - 45) + 1.0 * (city == "Paris") + 0.3 * rng.normal(size=n)
    age[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "id": np.arange(1, n + 1),
            "age": age,
            "city": city,
            "joined": joined,
            "member": rng.random(n) < 0.4,
            "household": rng.integers(0, n // 4, n),
            "buys": np.where(score > 0.3, "yes", "no"),
        }
    )


@pytest.fixture
def table(tmp_path, monkeypatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    frame = people()
    frame.to_csv("people.csv", index=False)
    frame.to_parquet("people.parquet")
    return frame


def events(command: str) -> list[dict]:
    return [json.loads(line) for line in run(f"{command} --json").splitlines()]


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_fit_prints_what_it_does_to_each_column(table, name):
    text = run(f"fit {name} --target buys {FIT}")
    assert "6 columns (3 numbers, 1 boolean, 1 category, 1 date)" in text
    for words in (
        "dropped: counts rows",
        f"{table['age'].isna().sum()} missing filled with",
        "category, 4 values",
        "date, scaled, month, weekday",
    ):
        assert words in text
    columns = {e["name"]: e for e in events(f"fit {name} --target buys {FIT}") if "kind" in e}
    assert columns["city"]["features"] == [
        f"city_{city}" for city in table["city"].value_counts(sort=True).index
    ]
    inspected = run("inspect m.mercer")
    assert "dropped: counts rows" in inspected and "category, 4 values" in inspected


def test_csv_and_parquet_of_a_table_give_one_model(table):
    scores = []
    for name in ("people.csv", "people.parquet"):
        run(f"fit {name} --target buys {FIT}")
        scores.append(load("m.mercer").feature_coef_)
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-10)


def test_predict_keeps_columns_and_counts_unseen_categories(table):
    run(f"fit people.csv --target buys {FIT}")
    new = people()[["city", "joined", "household", "member", "age", "id"]].assign(note="hi, there")
    new.loc[:2, "city"] = "Mars"
    new.to_csv("new.csv", index=False)
    text = call("predict m.mercer new.csv --keep id,note -o p.csv").output
    assert "value that the model was not fitted on: 'city' 3." in text
    found = pd.read_csv("p.csv")
    assert list(found.columns) == ["id", "note", "prediction"]
    assert (found["id"] == new["id"]).all() and (found["note"] == "hi, there").all()
    with pytest.warns(UserWarning, match="'city' 3"):
        predicted = load("m.mercer").predict(new)
    assert (found["prediction"] == predicted).all()
    run("predict m.mercer people.parquet --keep id,city -o p.parquet")
    kept = pd.read_parquet("p.parquet")
    assert kept["id"].dtype == np.int64 and (kept["city"] == table["city"]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.rename(columns={"city": "citty"}), "needs 'city' (did you mean 'citty'?)"),
        (lambda f: f.assign(age="old"), "Column 'age' has numbers, got 'old'"),
        (lambda f: f.assign(joined="soon"), "Column 'joined' has"),
    ],
)
def test_predict_refuses_other_tables(table, change, message):
    run(f"fit people.csv --target buys {FIT}")
    change(people()).to_csv("new.csv", index=False)
    assert message in fails("predict m.mercer new.csv -o p.csv")
    assert not Path("p.csv").exists()
    assert "has no column 'nobody' (keep)" in fails(
        "predict m.mercer people.csv --keep nobody -o p.csv"
    )


def test_kinds_are_overridden_by_options(table):
    def kinds(options: str) -> dict[str, str]:
        said = events(f"fit people.csv --target buys {options} {FIT}")
        return {e["name"]: e["kind"] for e in said if e["event"] == "column"}

    assert kinds("")["household"] == "number"
    assert kinds("--categorical household")["household"] == "category"
    assert "id" not in kinds("--drop id")
    assert kinds("--categorical joined --numeric member")["joined"] == "category"
    assert "'nobody'" in fails(f"fit people.csv --target buys --categorical nobody {FIT}")


def test_groups_and_times_are_left_out_together_and_are_no_inputs(table):
    text = run(f"fit people.csv --target buys --group household {FIT}")
    assert "alpha by 5-fold cross-validation" in text and "Leave-one-out" not in text
    assert "household" not in load("m.mercer").feature_names_in_
    text = run(f"fit people.parquet --target buys --time joined {FIT}")
    assert "Held-out" in text
    assert "joined" not in load("m.mercer").feature_names_in_
    for options, message in (
        ("--group nobody", "no column 'nobody' (group)"),
        ("--time city", "the time 'city' must be a number or a date"),
    ):
        assert message in fails(f"fit people.csv --target buys {options} {FIT}")
    assert "--group or --time, not both" in fails(
        f"fit people.csv --target buys --group id --time joined {FIT}", code=2
    )


def test_columns_that_say_the_target_are_named(table):
    table.assign(copy=np.where(table["buys"] == "yes", 3.0, 1.0)).to_csv("leak.csv", index=False)
    text = call(f"fit leak.csv --target buys {FIT}").output
    assert "Column 'copy' alone predicts 100.00% of the classes" in text
    assert "--drop copy" in text
    assert "alone predicts" not in call(f"fit people.csv --target buys {FIT}").output
    numbers = table[["id", "household"]].assign(y=np.random.default_rng(0).normal(size=len(table)))
    numbers.to_csv("numbers.csv", index=False)
    text = call(f"fit numbers.csv --target y {FIT}").output
    assert "Column 'id' counts the rows." in text
    numbers.assign(seen=100 * numbers["y"] + 7).to_csv("numbers.csv", index=False)
    text = call(f"fit numbers.csv --target y {FIT}").output
    assert "Column 'seen' alone predicts the target with R^2" in text


@pytest.mark.parametrize("options", ["", "--group household", "--time joined"])
def test_compare_takes_mixed_tables(table, options):
    command = f"compare people.csv --target buys {options} --kernels fourier --max-seconds 10"
    text = run(f"{command} --report r.html")
    page = Path("r.html").read_text()
    assert "Columns of the table" in page and "category, 4 values" in page
    assert "category, 4 values" in text and "encoded columns" in text
    assert "--map 'tabular:scale=false >> " in text
    next_command = text[text.index("Next: mercer ") + 13 :].split(" -o ")[0].replace("\n", " ")
    run(f"{next_command} -o best.mercer --force")
    assert load("best.mercer").score(table.drop(columns="buys"), table["buys"]) > 0.8


def write_long() -> None:
    """Write a CSV file in which letters follow digits beyond the first megabyte."""
    rows = 40_000
    rng = np.random.default_rng(0)
    code = rng.integers(0, 5, rows).astype(str)
    code[30_000:] = np.where(rng.random(10_000) < 0.5, "x", code[30_000:])
    frame = pd.DataFrame(
        {"code": code, "size": rng.normal(size=rows), "pad": ["word " * 12] * rows}
    )
    frame["y"] = (code == "3") * 1.0 + 0.1 * frame["size"]
    frame.to_csv("long.csv", index=False)


def test_a_column_that_changes_its_type_later_is_read_as_what_it_is(table):
    write_long()
    text = run("fit long.csv --target y --map fourier:n_components=32 -o m.mercer")
    assert "code" in text and "category, 6 values" in text
    assert load("m.mercer").validation_score_.explained > 0.5


@pytest.mark.full
def test_compare_reads_a_column_that_changes_its_type_again(table):
    write_long()
    assert "category, 6 values" in run("compare long.csv --target y --kernels linear")


def test_first_rows_of_another_type_are_read_again(table):
    rng = np.random.default_rng(0)
    codes = [f"{code:05}" for code in rng.integers(20_000, 20_040, 2000)]
    codes[1500] = "01234"
    pd.DataFrame({"zip": codes, "y": rng.normal(size=2000)}).to_parquet("late.parquet")
    said = call(f"fit late.parquet --target y {FIT}").output
    assert "got '01234' at late.parquet, row 1500 of the file: the column is read as" in said
    assert "1 columns (1 category)" in said


def test_declared_categories_are_the_same_in_every_format(table):
    rng = np.random.default_rng(3)
    codes = rng.integers(1, 5, 300)
    frame = pd.DataFrame({"x": rng.normal(size=300), "c": codes, "flag": codes > 2})
    frame["y"] = np.where(np.isin(codes, (1, 4)), "yes", "no")
    frame.to_csv("codes.csv", index=False)
    frame.to_parquet("codes.parquet")
    frame.to_json("codes.jsonl", orient="records", lines=True)
    frame.astype({"c": float}).to_csv("floats.csv", index=False)
    for name in ("codes.csv", "codes.parquet", "codes.jsonl"):
        run(f"fit {name} --target y --categorical c,flag {FIT}")
        for other in ("codes.csv", "codes.parquet", "codes.jsonl", "floats.csv"):
            text = call(f"predict m.mercer {other} -o p.csv --force").output
            assert "not fitted on" not in text
            assert (pd.read_csv("p.csv")["prediction"] == frame["y"]).mean() > 0.95


def test_the_test_file_has_the_kinds_of_the_training_file(table):
    people(100).assign(note="extra", city=None).to_csv("test.csv", index=False)
    text = run(f"fit people.csv --target buys --test test.csv {FIT}")
    assert "accuracy on test.csv" in text


def test_plan_encodes_the_columns_of_a_table(table):
    text = run("plan people.csv --target buys --map fourier:n_components=64")
    assert "passes: columns of the table, bandwidth statistics" in text.replace("\n", " ")


def test_numbers_written_as_text_are_no_classes(table):
    amounts = [f"{amount:,}" for amount in range(1000, 1400)]
    table.assign(amount=amounts).to_csv("amounts.csv", index=False)
    found = fails(f"fit amounts.csv --target amount {FIT}")
    assert "400 distinct texts, most of them numbers such as '1,000'" in found


def test_a_date_that_counts_rows_is_named(table):
    minutes = pd.date_range("2024-01-01", periods=len(table), freq="min")
    table.sort_values("buys").assign(at=minutes).to_csv("sorted.csv", index=False)
    text = call(f"fit sorted.csv --target buys {FIT}").output
    assert "Column 'at' counts the rows." in text


def test_marks_of_numbers_are_said(table):
    table.assign(price=[f"$ {age:,.2f}" for age in table["age"].fillna(1234)]).to_parquet(
        "p.parquet"
    )
    assert "number in $, scaled" in run(f"fit p.parquet --target buys {FIT}")


def test_predict_names_the_cell_that_a_model_of_numbers_does_not_take(table):
    numbers = pd.DataFrame({"a": np.arange(40.0) % 7, "b": np.arange(40.0) ** 2, "y": 1.0})
    numbers["y"] = numbers["a"] - 0.1 * numbers["b"]
    numbers.to_csv("numbers.csv", index=False)
    run(f"fit numbers.csv --target y {FIT}")
    numbers.astype({"b": object}).replace({"b": {49.0: "1,200"}}).to_csv("new.csv", index=False)
    message = fails("predict m.mercer new.csv -o p.csv")
    assert "'b' has numbers, got '1,200' at new.csv, row 7 of the file. Write it as" in message


def test_kept_columns_have_their_types(table):
    run(f"fit people.csv --target buys --columns age,city {FIT}")
    n = len(table)
    kept = {
        "flag": pa.array([None if i % 5 == 0 else i % 2 == 0 for i in range(n)]),
        "count": pa.array([None if i % 3 == 0 else 2**60 + i for i in range(n)]),
        "point": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2.0 * n)), 2),
        "tags": pa.array([["a"] * (i % 3) for i in range(n)]),
        "when": pa.array(table["joined"], pa.timestamp("us")),
        "share": pa.array(np.linspace(0, 1, n)),
    }
    inputs = {name: pa.array(table[name], from_pandas=True) for name in ("age", "city")}
    pq.write_table(pa.table({**kept, **inputs}), "new.parquet")
    keep = ",".join(kept)
    run(f"predict m.mercer new.parquet --keep {keep} -o p.parquet")
    written = pq.read_table("p.parquet")
    assert {name: written.column(name).to_pylist() for name in kept} == {
        name: values.to_pylist() for name, values in kept.items()
    }
    assert written.schema.field("flag").type == pa.bool_()
    run("predict m.mercer new.parquet --keep flag,count -o p.csv")
    assert Path("p.csv").read_text().splitlines()[2].startswith(f"false,{2**60 + 1},")
    assert "CSV has no columns of lists" in fails(
        "predict m.mercer new.parquet --keep tags -o q.csv"
    )
    table[["age", "city", "member", "id"]].to_json("new.jsonl", orient="records", lines=True)
    run("predict m.mercer new.jsonl --keep member,id -o p.parquet --force")
    written = pd.read_parquet("p.parquet")
    assert written["member"].dtype == bool and (written["id"] == table["id"]).all()


def test_transform_and_plan_take_kinds(table):
    transform = "transform people.csv --map linear --columns household,member -o z.csv --force"
    run(transform)
    assert len(pd.read_csv("z.csv").columns) == 2
    run(f"{transform} --categorical household --save map.mercer")
    assert len(pd.read_csv("z.csv").columns) > 60
    assert "mercer transform DATA --map MAP" in fails(
        "transform map.mercer people.csv --categorical household -o y.csv", 2
    )
    plan = "plan people.csv --target buys --map linear"
    assert "x 140 columns" in run(f"{plan} --categorical household,member")
    assert "x 13 columns" in run(plan)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--drop id --categorical id", "'id' is named by --drop and --categorical"),
        ("--date buys", "'buys' is named by --target and --date"),
        ("--drop buys", "'buys' is named by --target and --drop"),
        ("--group buys", "'buys' is named by --target and --group"),
        ("--group id --drop id", "'id' is named by --group and --drop"),
        ("--columns age,city --numeric id", "'id' is named by --numeric and is not among --col"),
        ("--numeric id,age --categorical age", "'age' is declared as number and category"),
    ],
)
def test_options_that_contradict_each_other_are_refused(table, options, message):
    assert message in fails(f"fit people.csv --target buys {options} {FIT}", 2)

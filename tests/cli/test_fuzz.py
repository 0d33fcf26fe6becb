"""Files and words that are damaged at random: an answer or one sentence, never a traceback, never
half a file.
"""

from __future__ import annotations

import contextlib
import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file
from tests.helpers.shell import call

from mercer.cli._map_syntax import format_spec, parse

SUFFIXES = (".csv", ".tsv", ".parquet", ".npy", ".svm", ".mercer")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Files of every kind, and a model."""
    folder = tmp_path_factory.mktemp("whole")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((60, 3)), columns=["a", "b", "c"]).assign(
        label=np.resize(["x", "y"], 60), n=1
    )
    frame.to_csv(folder / "data.csv", index=False)
    frame.to_csv(folder / "data.tsv", index=False, sep="\t")
    frame.to_parquet(folder / "data.parquet", index=False)
    numbers = frame.drop(columns="label").to_numpy()
    np.save(folder / "data.npy", numbers)
    dump_svmlight_file(numbers, np.zeros(60), str(folder / "data.svm"), zero_based=False)
    made = call(
        f"fit {folder}/data.csv --target label --map fourier:n_components=8 -o {folder}/data.mercer"
    )
    assert made.exit_code == 0, made.output
    return folder


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The content with a few bytes changed, taken out, put in, repeated or cut off."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at, size = rng.randrange(len(data) + 1), rng.choice((1, 1, 2, 8, 40))
        kind = rng.randrange(5)
        if kind == 0:
            data[at : at + size] = rng.randbytes(min(size, len(data) - at))
        elif kind == 1:
            del data[at : at + size]
        elif kind == 2:
            data[at:at] = rng.choice(
                (rng.randbytes(size), b",", b"\n", b'"', b"nan", b"1e999", b"\x00", b":")
            )
        elif kind == 3:
            data[at:at] = data[max(0, at - size) : at]
        elif rng.random() < 0.3:
            del data[at:]
    return bytes(data)


def lines(name: str) -> list[str]:
    if name.endswith(".mercer"):
        return [f"inspect {name}", f"predict {name} whole.csv -o p.csv"]
    target = {".npy": "--target 3", ".svm": ""}.get(name[name.index(".") :], "--target label")
    fit = f"fit {name} {target} --map hellinger -o m.mercer"
    drop = "" if name.endswith((".npy", ".svm")) else "--drop label"
    transform = f"transform {name} {drop} --map hellinger -o z.npy"
    return [transform, fit, f"predict whole.mercer {name} -o p.npy"]


def try_files(whole, folder, seeds: range) -> dict[int, int]:
    """Exit codes, how often each."""
    codes: dict[int, int] = {}
    (folder / "whole.csv").write_bytes((whole / "data.csv").read_bytes())
    (folder / "whole.mercer").write_bytes((whole / "data.mercer").read_bytes())
    for seed in seeds:
        rng = random.Random(seed)
        suffix = SUFFIXES[seed % len(SUFFIXES)]
        path = folder / f"bad{suffix}"
        path.write_bytes(damaged((whole / f"data{suffix}").read_bytes(), rng))
        for line in lines(path.name):
            result = call(line)
            codes[result.exit_code] = codes.get(result.exit_code, 0) + 1
            assert result.exit_code in (0, 1), (seed, line, result.output)
            assert "Internal error" not in result.output, (seed, line, result.output)
            output = folder / line.split(" -o ")[-1]
            assert output.exists() == (result.exit_code == 0) or line.startswith("inspect"), (
                seed,
                line,
            )
            output.unlink(missing_ok=True)
        path.unlink()
    assert {one.name for one in folder.iterdir()} == {"whole.csv", "whole.mercer"}
    return codes


@pytest.mark.full
def test_damaged_files_are_read_or_refused_in_one_sentence(whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    codes = try_files(whole, tmp_path, range(120))
    assert codes[0] > 20 and codes[1] > 70


@pytest.mark.slow
def test_thousands_of_damaged_files(whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try_files(whole, tmp_path, range(1000, 7000))


@given(
    st.text(st.sampled_from("abcdefourigcws:,=>+() 01.-_\"'[]"), max_size=40) | st.text(max_size=20)
)
def test_any_text_is_a_map_or_a_sentence(text):
    with contextlib.suppress(ValueError):
        assert parse(format_spec(parse(text))) == parse(text)

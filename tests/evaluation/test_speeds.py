"""The record of this machine's speeds: kept whole, and ignored in a sentence where it cannot be
used.
"""

from __future__ import annotations

import json

import pytest

from mercer import plan
from mercer.evaluation.cost import speeds
from mercer.evaluation.cost.speeds import Speeds, built_in
from mercer.evaluation.cost.trials import _rates, _two
from mercer.evaluation.outline import Part
from mercer.parallel.tile_size import Cost


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("MERCER_CACHE", str(tmp_path / "cache"))


def record(**more) -> Speeds:
    known = built_in()
    return Speeds(**{**vars(known), "when": "2026-01-01T00:00:00+00:00", **more})


def test_a_record_comes_back_as_it_went():
    path = speeds.write(record())
    assert path == speeds.place()
    assert speeds.read() == record()
    assert speeds.read().measured
    assert not list(path.parent.glob(".*"))


def test_without_a_record_what_is_built_in_is_used_and_said():
    assert not speeds.read().measured
    assert speeds.read().note == "not measured on this machine: mercer info --measure"


def test_the_folder_is_that_of_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv("MERCER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert speeds.place() == tmp_path / "mercer" / "speeds.json"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert speeds.place() == tmp_path / ".cache" / "mercer" / "speeds.json"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda kept: kept.update(version=0), "is no record of speeds of this version"),
        (lambda kept: kept.update(mercer="0.0.1"), "was measured with mercer 0.0.1, not "),
        (lambda kept: kept.update(core="z80"), "was measured with core z80, not "),
        (lambda kept: kept.update(threads=999), "was measured with threads 999, not "),
        (lambda kept: kept.pop("tables"), "is damaged"),
        (lambda kept: kept["tables"].pop("sums"), "is damaged"),
        (lambda kept: kept["tables"]["sums"].update(float32=[-1.0, 0.0]), "is damaged"),
        (lambda kept: kept["tables"]["sums"].update(float32=["fast"]), "is damaged"),
        (lambda kept: kept["tables"]["sums"].update(float32=[]), "is damaged"),
        (lambda kept: kept.update(when=None), "is damaged"),
    ],
)
def test_a_record_of_something_else_is_ignored_in_a_sentence(change, words):
    path = speeds.write(record())
    kept = json.loads(path.read_text())
    change(kept)
    path.write_text(json.dumps(kept))
    found = speeds.read()
    assert not found.measured
    assert words in found.note
    assert found.note.endswith("and is ignored: mercer info --measure writes a new one")
    assert found.note in str(plan((100, 3), "hellinger"))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1]", b"null"])
def test_a_damaged_file_is_ignored_in_a_sentence(content):
    path = speeds.write(record())
    path.write_bytes(content)
    assert "and is ignored: mercer info --measure" in speeds.read().note


def test_a_plan_takes_its_seconds_from_the_record():
    slow = plan((100_000, 20), "hellinger").seconds
    tables = {
        table: {name: tuple(r / 10 for r in rates) for name, rates in of.items()}
        for table, of in built_in().tables.items()
    }
    speeds.write(record(tables=tables))
    fast = plan((100_000, 20), "hellinger")
    assert fast.seconds == pytest.approx(slow / 10)
    assert "measured on this machine, 2026-01-01" in str(fast)


def test_rates_are_found_again_from_trials_of_chains():
    """Two kinds, each seen alone and both together at sizes that differ."""
    true = {"A": (2e-10, 0.0), "B": (1e-11, 3e-10)}
    costs = [(1e4, 1e2), (1e5, 1e4), (3e6, 1e3)]
    trials = []
    for kinds in ("A", "B", "AB"):
        for flops, of in costs:
            parts = tuple(Part(kind, Cost(flops, of)) for kind in kinds)
            trials.append((parts, sum(true[k][0] * flops + true[k][1] * of for k in kinds)))
    found = _rates(trials)
    for kind, rates in true.items():
        assert found[kind] == pytest.approx(rates, rel=1e-6, abs=1e-16)
    assert _two(
        [[1.0, 10.0], [1.0, 1000.0]], [0.5 + 10 * 2e-3, 0.5 + 1000 * 2e-3]
    ) == pytest.approx((0.5, 2e-3))


@pytest.mark.slow
def test_all_that_a_plan_needs_is_measured():
    from mercer.evaluation.cost.trials import measure
    from mercer.maps import registry

    told: list[str] = []
    found = measure(told.append)
    assert set(built_in().tables) <= set(found.tables)
    assert found.measured
    assert {cls.__name__ for cls in registry().values()} <= {what.split(",")[0] for what in told}
    speeds.write(found)
    assert speeds.read() == found
    for name in ("fourier", "gcws", "nystroem"):
        assert 0 < plan((1000, 30), name).seconds < 100

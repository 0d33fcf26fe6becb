"""What all tests share: warnings are errors (pyproject.toml), and Hypothesis is random only through a fixed seed."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "mercer", derandomize=True, deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("mercer")


@pytest.fixture(scope="session")
def digits_files(tmp_path_factory):
    """A folder with data.parquet and data.csv: scikit-learn's digits, 64 columns and "digit"."""
    from sklearn.datasets import load_digits

    folder = tmp_path_factory.mktemp("digits")
    frame = load_digits(as_frame=True).frame.rename(columns={"target": "digit"})
    frame.to_parquet(folder / "data.parquet")
    frame.to_csv(folder / "data.csv", index=False)
    return folder


@pytest.fixture
def folder(digits_files, tmp_path, monkeypatch):
    """A folder of one's own with these files, as the current folder."""
    shutil.copytree(digits_files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def model(folder):
    """What fit makes of that folder's digits, which is in model.mercer there."""
    import mercer
    from digit_rows import SMALL
    from shell import run

    run(f"fit data.parquet --target digit {SMALL} -o model.mercer")
    return mercer.load("model.mercer")


@pytest.fixture
def small(monkeypatch):
    """Streams in chunks of a few rows (21 of five numbers), so that a few hundred are many chunks."""
    monkeypatch.setattr("mercer.streams.base._CHUNK_BYTES", 21 * 5 * 8)
    monkeypatch.setattr("mercer.streams.text._BLOCK", 512)
    monkeypatch.setattr("mercer.streams.svmlight._RANGE", 300)

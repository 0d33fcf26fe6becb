"""What all tests share: warnings are errors (pyproject.toml), and Hypothesis is random only through
a fixed seed.
"""

from __future__ import annotations

import logging
import shutil

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "mercer",
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
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
    from tests.helpers.digits_data import SMALL
    from tests.helpers.shell import run

    import mercer

    run(f"fit data.parquet --target digit {SMALL} -o model.mercer")
    return mercer.load("model.mercer")


@pytest.fixture
def small():
    """Streams in chunks of a few rows (21 of five numbers), so that a few hundred are many
    chunks.
    """
    from mercer.data.stream import CHUNK_BYTES

    token = CHUNK_BYTES.set(21 * 5 * 8)
    yield
    CHUNK_BYTES.reset(token)


@pytest.fixture
def small_grid(monkeypatch):
    """Blocks of 64 rows, and threads for every little thing."""
    from tests.helpers.reduction_data import BLOCK

    monkeypatch.setattr("mercer.parallel.tile_size._LEAST_BLOCK", BLOCK)
    monkeypatch.setattr("mercer.parallel.tile_size._MOST_BLOCK", BLOCK)
    monkeypatch.setattr("mercer.parallel.threads.worth_threads", lambda cost, rows: True)
    monkeypatch.setattr("mercer.parallel.tile_size._CHECKPOINT_SHARE", 0)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks and tiles of a few rows, as the workers of a cluster have them here."""
    from tests.helpers.cluster_data import BLOCK, TILE

    from mercer.parallel import tile_size

    monkeypatch.setattr(tile_size, "_LEAST_BLOCK", BLOCK)
    monkeypatch.setattr(tile_size, "_MOST_BLOCK", BLOCK)
    monkeypatch.setattr(tile_size, "_CHECKPOINT_SHARE", 0)
    monkeypatch.setattr("mercer.data.batches.Tiles.most_rows", TILE)


@pytest.fixture(scope="module")
def preload(tmp_path_factory):
    """What every worker runs when it starts."""
    from tests.helpers.cluster_data import SMALL

    path = tmp_path_factory.mktemp("preload") / "small_blocks.py"
    path.write_text(SMALL)
    return str(path)


@pytest.fixture(scope="module")
def cluster(preload):
    """A worker in a process of its own, and as many more as it is scaled to."""
    import dask
    import distributed

    config = {
        "distributed.scheduler.allowed-failures": 1,
        # it takes copies of a fold's job away from workers every two seconds, which then draw its
        # map again
        "distributed.scheduler.active-memory-manager.start": False,
    }
    with (
        dask.config.set(config),
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            preload=preload,
            silence_logs=logging.CRITICAL,
        ) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def client(cluster):
    import distributed

    with distributed.Client(cluster, set_as_default=False) as made:
        yield made


@pytest.fixture(scope="module")
def few_trees():
    """Trees are the slowest of all, and as many as scikit-learn grows are not needed here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mercer.model_selection.models._ROUNDS_OF_TREES", 3)
        yield

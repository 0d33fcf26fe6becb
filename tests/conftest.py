"""Shared fixtures. Warnings are errors (pyproject.toml).

Seeds are fixed: Hypothesis derives its own from the test, and ``random_state=None``, which draws
entropy from the operating system elsewhere, has a seed of the test's or the fixture's name here.
MERCER_TEST_SEED=1 gives every test other seeds.
"""

from __future__ import annotations

import logging
import os
import shutil
import zlib
from unittest.mock import patch

# A worker for each core has one BLAS thread: with as many as there are cores, OpenBLAS waits in a
# loop for threads that have no core, and tests of some solvers take ten times as long. BLAS reads
# this when NumPy is imported.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
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


_TEST_SEED = int(os.environ.get("MERCER_TEST_SEED", 0))


def _fix_seeds(name):
    import mercer.rng

    words = np.random.default_rng([zlib.crc32(name.encode()), _TEST_SEED])
    mercer.rng.new_seed = lambda: int(words.integers(2**63))
    np.random.seed(words.integers(2**32))  # noqa: NPY002 (scikit-learn's random_state=None)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef, request):
    _fix_seeds(f"{request.node.nodeid} {fixturedef.argname}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    _fix_seeds(item.nodeid)


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
    """Make a temporary folder with these files the current folder."""
    shutil.copytree(digits_files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def model(folder):
    """Fit a model on the digits of that folder, and save it there as model.mercer."""
    from tests.helpers.digits_data import SMALL
    from tests.helpers.shell import run

    import mercer

    run(f"fit data.parquet --target digit {SMALL} -o model.mercer")
    return mercer.load("model.mercer")


@pytest.fixture
def small():
    """Read streams in chunks of a few rows: 21 of five numbers."""
    from mercer.data.stream import CHUNK_BYTES

    token = CHUNK_BYTES.set(21 * 5 * 8)
    yield
    CHUNK_BYTES.reset(token)


@pytest.fixture
def small_grid():
    """Use blocks of 64 rows, threads for any amount of work, and a checkpoint after each shard."""
    from tests.helpers.reduction_data import BLOCK

    from mercer.parallel.tile_size import override_limits

    blocks = {"min_block_rows": BLOCK, "max_block_rows": BLOCK}
    with override_limits(**blocks, thread_flops=0, checkpoint_cost_ratio=0):
        yield


@pytest.fixture
def small_blocks():
    """Use blocks and tiles of a few rows, as the workers of the test cluster do."""
    from tests.helpers.cluster_data import BLOCK, TILE

    from mercer.parallel.tile_size import override_limits

    blocks = {"min_block_rows": BLOCK, "max_block_rows": BLOCK}
    with override_limits(**blocks, max_tile_rows=TILE, checkpoint_cost_ratio=0):
        yield


@pytest.fixture(scope="module")
def preload(tmp_path_factory):
    """Write the preload script of every worker, and return its path."""
    from tests.helpers.cluster_data import SMALL

    path = tmp_path_factory.mktemp("preload") / "small_blocks.py"
    path.write_text(SMALL)
    return str(path)


@pytest.fixture(scope="module")
def cluster(preload):
    """Start a cluster of one worker process, which tests scale to more."""
    import dask
    import distributed

    config = {
        "distributed.scheduler.allowed-failures": 1,
        # It drops copies of a job from workers every two seconds, which then draw its map again.
        "distributed.scheduler.active-memory-manager.start": False,
    }
    with (
        patch.dict(os.environ),  # where Dask leaves OMP_NUM_THREADS=1 and the like
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

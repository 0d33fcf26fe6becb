"""Fits with a checkpoint that are stopped again and again: every pass goes on where it was, and
the model is that of a fit in one run, for every source.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import dump_svmlight_file

from mercer import KernelClassifier, KernelRegressor, RandomFourier, open_stream, save
from mercer.data.stream import CHUNK_BYTES
from mercer.parallel.tile_size import override_limits
from mercer.stats.checkpoint import Checkpoint

BLOCK, N = 64, 64 * 40 + 9  # three shards


@pytest.fixture
def small_blocks():
    """Blocks of 64 rows, tiles of 40, chunks of about a block, and a checkpoint after each one."""
    token = CHUNK_BYTES.set(BLOCK * 5 * 8)
    limits = {"min_block_rows": BLOCK, "max_block_rows": BLOCK, "checkpoint_cost_ratio": 0}
    with override_limits(**limits, max_tile_rows=40, checkpoint_seconds=0):
        yield
    CHUNK_BYTES.reset(token)


def table(*, mixed: bool = False) -> pa.Table:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    columns = {f"c{i}": X[:, i] for i in range(4)}
    if mixed:
        columns["word"] = rng.choice(["red", "green", "blue"], N)
        columns["c0"] = np.where(rng.random(N) < 0.1, None, X[:, 0].astype(object))
    return pa.table({**columns, "label": (X[:, 0] + X[:, 1] > 0).astype(int)})


def write_source(folder: Path, kind: str) -> dict[str, object]:
    rows = table(mixed=kind == "mixed csv")
    path = folder / f"rows.{kind.split()[-1]}"
    if kind.endswith("csv"):
        rows.to_pandas().to_csv(path, index=False)
    elif kind == "parquet":
        pq.write_table(rows, path, row_group_size=100)
    elif kind == "folder":
        path.mkdir()
        for i in range(3):
            part = rows.slice(i * 900, 900)
            pq.write_table(part, path / f"{i}.parquet", row_group_size=100)
    elif kind == "feather":
        feather.write_feather(rows, path, chunksize=100)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
    else:
        matrix = np.column_stack([column.to_numpy() for column in rows.columns])
        if kind == "npy":
            np.save(path, matrix)
            return {"path": path, "target": -1}
        if kind == "svm":
            dump_svmlight_file(matrix[:, :-1], matrix[:, -1], str(path), zero_based=False)
        else:
            np.savez(path, X=matrix[:, :-1], y=matrix[:, -1].astype(int))
        return {"path": path}
    return {"path": path, "target": "label"}


KINDS = ["csv", "mixed csv", "parquet", "folder", "feather", "jsonl", "npy", "npz", "svm"]


def fit(source: dict[str, object], model, output: Path, stop_after: float = np.inf) -> int:
    """Fit and save; raise KeyboardInterrupt after so many chunks. Returns the chunks read."""
    options = dict(source)
    stream = open_stream(options.pop("path"), **options)
    chunks = 0

    def progress(row: int, total: int | None) -> None:
        nonlocal chunks
        chunks += 1
        if chunks > stop_after:
            raise KeyboardInterrupt

    save(model.fit(stream.with_progress(progress)), output)
    return chunks


def make_model(name: str, checkpoint: Path | None):
    phi = RandomFourier(24, random_state=0)  # gamma from a pass, columns scaled by another one
    options = {"checkpoint": checkpoint, "random_state": 0, "n_jobs": 1}
    if name == "balanced":
        return KernelClassifier(phi, alpha=1.0, class_weight="balanced", **options)
    return KernelClassifier(phi, alpha="kfold", **options)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["kfold", "balanced"])
def test_a_fit_that_is_stopped_every_few_chunks_ends_with_the_same_model(
    small_blocks, tmp_path, kind, name
):
    source = write_source(tmp_path, kind)
    chunks = fit(source, make_model(name, None), tmp_path / "straight.mercer")
    checkpoint, attempts = tmp_path / "fit.ckpt", 0
    while True:
        attempts += 1
        # stopped after an eighth of the work: without progress it would never end
        try:
            fit(source, make_model(name, checkpoint), tmp_path / "model.mercer", chunks // 8)
        except KeyboardInterrupt:
            assert attempts < 40
            continue
        break
    assert attempts >= 5
    model, straight = (tmp_path / f"{each}.mercer" for each in ("model", "straight"))
    assert model.read_bytes() == straight.read_bytes()
    assert not list(tmp_path.glob("*.pass-*")) and not list(tmp_path.glob(".*.part"))
    assert Checkpoint.read(checkpoint).complete


def test_the_first_pass_over_a_csv_file_is_resumed(small_blocks, tmp_path):
    source = write_source(tmp_path, "csv")
    checkpoint = tmp_path / "fit.ckpt"
    model = KernelRegressor(
        RandomFourier(24, random_state=0), checkpoint=checkpoint, random_state=0, n_jobs=1
    )
    with pytest.raises(KeyboardInterrupt):
        fit(source, model, tmp_path / "model.mercer", 40)
    (first,) = tmp_path.glob("fit.ckpt.pass-*")
    rows = Checkpoint.read_row_count(first)
    assert not checkpoint.exists() and 0 < rows < N
    with pytest.raises(KeyboardInterrupt):
        fit(source, model, tmp_path / "model.mercer", 40)
    assert Checkpoint.read_row_count(first) > rows
    other = write_source(tmp_path, "mixed csv")  # another content: nothing of it is resumed
    fit(other, model, tmp_path / "model.mercer")
    model.checkpoint = None
    fit(other, model, tmp_path / "straight.mercer")
    assert (tmp_path / "model.mercer").read_bytes() == (tmp_path / "straight.mercer").read_bytes()


def test_parameters_that_are_refused_leave_no_pass(small_blocks, tmp_path):
    source = write_source(tmp_path, "csv")
    model = KernelClassifier("fourier", checkpoint=tmp_path / "fit.ckpt", max_memory=30_000)
    with pytest.raises(ValueError, match="max_memory is 30 kB"):
        fit(source, model, tmp_path / "model.mercer")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]

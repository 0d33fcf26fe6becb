"""Files that change while they are read: every pass is of one content, or the work is refused and
says what changed.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from sklearn.datasets import dump_svmlight_file

from mercer import KernelClassifier, KernelRegressor, RandomFourier, accumulate, open_stream
from mercer.cli import main
from mercer.data import ChangedFileError
from mercer.data.batches import Rows
from mercer.data.files import FileSet
from mercer.data.stream import CHUNK_BYTES
from mercer.parallel.dask_worker import ShardJob, sum_shard
from mercer.stats.moments import Moments

ROWS = 400
X = np.random.default_rng(0).normal(size=(ROWS, 3))
Y = (X[:, 0] > 0).astype(float)


def write_npy(path: Path, sign: float) -> None:
    np.save(path, np.column_stack([sign * X, Y]))


def write_npz(path: Path, sign: float) -> None:
    np.savez(path, X=sign * X, y=Y)


def write_csv(path: Path, sign: float) -> None:
    # numbers of one width, so that another content can be written in place
    lines = [",".join(f"{value:22}" for value in row.values()) for row in rows(sign)]
    path.write_text("\n".join(["a,b,c,y", *lines]) + "\n")


def write_svm(path: Path, sign: float) -> None:
    with path.open("wb") as file:
        dump_svmlight_file(sign * X, Y, file, zero_based=False)


def write_parquet(path: Path, sign: float) -> None:
    # pages of fixed sizes, so that another content can be written in place
    pq.write_table(frame(sign), path, compression="none", use_dictionary=False)


def frame(sign: float) -> pa.Table:
    return pa.table({**dict(zip("abc", sign * X.T, strict=True)), "y": Y})


def write_arrow(path: Path, sign: float) -> None:
    with pa.OSFile(str(path), "wb") as sink, ipc.new_file(sink, frame(sign).schema) as writer:
        writer.write_table(frame(sign), max_chunksize=50)


def write_jsonl(path: Path, sign: float) -> None:
    # 0 in front of a missing minus sign is no JSON: a space
    lines = [json.dumps(row).replace(": ", ":  ").replace("  -", " -") for row in rows(sign)]
    path.write_text("\n".join(lines) + "\n")


def rows(sign: float) -> list[dict[str, float]]:
    return frame(sign).to_pylist()


def write_folder(path: Path, sign: float) -> None:
    path.mkdir(exist_ok=True)
    write_parquet(path / "a.parquet", 1.0)
    write_parquet(path / "b.parquet", sign)


FORMATS = {
    "d.npy": (write_npy, {"target": -1}),
    "d.npz": (write_npz, {}),
    "d.csv": (write_csv, {"target": "y"}),
    "d.svm": (write_svm, {}),
    "d.parquet": (write_parquet, {"target": "y"}),
    "d.arrow": (write_arrow, {"target": "y"}),
    "d.jsonl": (write_jsonl, {"target": "y"}),
    "folder": (write_folder, {"target": "y"}),
}


def overwrite(path: Path, write) -> None:
    """The same rows with the other sign, as large, at the same path and of the same inode."""
    other = path.with_name(f"other{path.suffix}")
    write(other, -1.0)
    for one in [path] if path.is_file() else sorted(path.iterdir()):
        new = other if path.is_file() else other / one.name
        with one.open("r+b") as file:
            file.write(new.read_bytes())
            file.truncate()


def replace(path: Path, write) -> None:
    """Another file under the same name."""
    other = path.with_name(f"other{path.suffix}")
    write(other, -1.0)
    if path.is_file():
        os.replace(other, path)
    else:
        os.replace(other / "b.parquet", path / "b.parquet")


def append(path: Path, write) -> None:
    path = path if path.is_file() else path / "b.parquet"
    with path.open("ab") as file:
        file.write(b"\n1,2,3,0\n")


def truncate(path: Path, write) -> None:
    path = path if path.is_file() else path / "b.parquet"
    os.truncate(path, path.stat().st_size // 3)


def remove(path: Path, write) -> None:
    (path if path.is_file() else path / "b.parquet").unlink()


def touch(path: Path, write) -> None:
    os.utime(path if path.is_file() else path / "b.parquet", ns=(1, 1))


CHANGES = {
    overwrite: r"has changed since it was opened: (modified|size|its content)",
    replace: "has changed since it was opened: another file has taken its place",
    append: "has changed since it was opened: size ",
    truncate: "has changed since it was opened: size ",
    remove: "has changed since it was opened: it does not exist any more",
    touch: r"has changed since it was opened: modified .* -> 1970-01-01 00:00:00.000000001 UTC\. "
    r".* start again",
}


@pytest.fixture(params=FORMATS)
def source(request, tmp_path):
    write, roles = FORMATS[request.param]
    path = tmp_path / request.param
    write(path, 1.0)
    return path, write, roles


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_between_two_passes_is_refused(source, change):
    path, write, roles = source
    stream = open_stream(path, **roles)
    assert sum(len(chunk) for chunk in stream.chunks()) in (ROWS, 2 * ROWS)
    change(path, write)
    with pytest.raises(ChangedFileError, match=CHANGES[change]):
        next(stream.chunks())


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_within_a_pass_is_refused(source, change):
    path, write, roles = source
    stream = open_stream(path, **roles)
    chunks = stream.chunks()
    next(chunks)
    change(path, write)
    with pytest.raises(ChangedFileError, match=CHANGES[change]):
        list(chunks)


def test_a_change_after_opening_and_before_the_first_pass_is_refused(source):
    path, write, roles = source
    stream = open_stream(path, **roles)
    overwrite(path, write)
    with pytest.raises(ChangedFileError):
        KernelRegressor(RandomFourier(8, random_state=0)).fit(stream)


MODELS = {
    "moments": KernelRegressor(RandomFourier(8, gamma=0.1, random_state=0), alpha=1.0),
    "statistics": KernelRegressor(RandomFourier(8, random_state=0), alpha=1.0),
    "leverages": KernelRegressor(RandomFourier(8, gamma=0.1, random_state=0), alpha="loo"),
    "passes": KernelRegressor(
        RandomFourier(8, gamma=0.1, random_state=0), alpha=1.0, max_memory="1KB"
    ),
    "balanced": KernelClassifier(
        RandomFourier(8, gamma=0.1, random_state=0), alpha=1.0, class_weight="balanced"
    ),
    "logistic": KernelClassifier(
        RandomFourier(8, gamma=0.1, random_state=0), alpha=1.0, loss="logistic"
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_is_refused_whichever_pass_a_file_changes_in(name, tmp_path):
    """The last pass begins when `starts` is at its end; a change in each of them is noticed, and
    leaves no model.
    """
    write_csv(tmp_path / "d.csv", 1.0)

    def fit(change_at: int | None) -> int:
        starts = 0

        def watch(row: int, rows: int | None) -> None:
            nonlocal starts
            starts += row == 0
            if row == 0 and starts == change_at:
                overwrite(tmp_path / "d.csv", write_csv)

        model = MODELS[name]
        try:
            model.fit(open_stream(tmp_path / "d.csv", target="y").with_progress(watch))
        finally:
            assert hasattr(model, "_predictor") == (change_at is None)
            write_csv(tmp_path / "d.csv", 1.0)
        return starts

    passes = fit(None)
    assert passes >= (1 if name == "moments" else 2)
    for at in {1, 2, passes} - ({2} if passes == 1 else set()):
        with pytest.raises(ChangedFileError, match=r"d.csv has changed since it was opened"):
            fit(at)


def test_a_file_that_is_added_to_a_folder_is_refused(tmp_path):
    write_folder(tmp_path / "folder", 1.0)
    stream = open_stream(tmp_path / "folder", target="y")
    list(stream.chunks())
    (tmp_path / "folder" / ".c.parquet.part").write_bytes(b"hidden, as half-written files are")
    list(stream.chunks())
    write_parquet(tmp_path / "folder" / "c.parquet", 1.0)
    with pytest.raises(
        ChangedFileError,
        match=r"c.parquet has changed since it was opened: it is new in the folder",
    ):
        list(stream.chunks())


def test_content_that_differs_at_the_same_size_and_times_is_refused(tmp_path, monkeypatch):
    """As memory-mapped writes may leave it, whose pages are dirty already: what stat() says is made
    to stay the same.
    """
    path = tmp_path / "d.npy"
    write_npy(path, 1.0)
    stream = open_stream(path, target=-1)
    kept = os.stat(path)
    np.lib.format.open_memmap(path, mode="r+")[:] *= -1
    monkeypatch.setattr(os, "stat", lambda *args, **named: kept)
    with pytest.raises(
        ChangedFileError,
        match=r"d.npy has changed since it was opened: its content differs, at the same",
    ):
        list(stream.chunks())


def test_rows_that_are_not_those_of_the_pass_before_are_refused(source, monkeypatch):
    """Without what stat() and the sampled pages say: by the checksum of the rows alone."""
    path, write, roles = source
    stream = open_stream(path, **roles)
    n = sum(len(chunk) for chunk in stream.chunks())
    monkeypatch.setattr(FileSet, "require_same", lambda self, error=None: None)
    assert sum(len(chunk) for chunk in stream.chunks()) == n
    overwrite(path, write)
    with pytest.raises(
        ChangedFileError,
        match=rf"{path.name} has changed since it was opened: rows 0 to {n - 1} are not those of "
        "an earlier pass, at the same size and time",
    ):
        list(stream.chunks())


@pytest.mark.parametrize("what", ["label", "target", "weight"])
def test_targets_and_weights_are_in_the_checksum_of_the_rows(what, tmp_path, monkeypatch):
    path = tmp_path / "d.parquet"
    words = np.array(["no", "yes"])
    table = pa.table({"a": X[:, 0], "target": Y, "label": words[Y.astype(int)], "weight": 1 + Y})
    roles = {"columns": ["a"], "target": "target" if what == "weight" else what, "weight": "weight"}
    pq.write_table(table, path)
    stream = open_stream(path, **roles)
    list(stream.chunks())
    monkeypatch.setattr(FileSet, "require_same", lambda self, error=None: None)
    stream._table._idle[0].clear()  # it is opened again
    place = table.column_names.index(what)
    pq.write_table(table.set_column(place, what, table.column(what).combine_chunks()[::-1]), path)
    with pytest.raises(ChangedFileError, match="not those of an earlier pass"):
        list(stream.chunks())


def test_passes_in_other_chunks_and_from_other_rows_have_the_checksums_of_the_same_rows(
    source, monkeypatch
):
    monkeypatch.setattr("mercer.data.stream.SEGMENT_BYTES", 3 * 8 * 64)
    monkeypatch.setattr("mercer.data.stream.SEGMENT_ROWS", 64)
    path, write, roles = source
    large = open_stream(path, **roles)
    token = CHUNK_BYTES.set(1000)
    small = open_stream(path, **roles)
    CHUNK_BYTES.reset(token)
    list(large.chunks())
    assert len(large._checksums) >= ROWS // 64, "there are several segments"
    small._checksums = large._checksums
    for stream, start, rows in [(small, 0, 1), (small, 130, 7), (large, 1, 50), (large, 384, 1)]:
        list(stream.chunks(start, rows))
    next(small.chunks())
    monkeypatch.setattr(FileSet, "require_same", lambda self, error=None: None)
    overwrite(path, write)
    with pytest.raises(ChangedFileError, match=r"rows (192|448) to (255|511) are not those of an"):
        list(small.chunks(130 if path.is_file() else 400, 7))


@pytest.mark.parametrize("batch", [20_000, 200_000])
def test_an_arrow_file_that_becomes_shorter_does_not_end_the_process(batch, tmp_path):
    """As a memory map does, by SIGBUS."""
    code = f"""
import os, numpy as np, pyarrow as pa, pyarrow.ipc as ipc
from mercer import open_stream
table = pa.table({{"a": np.arange(200_000.0), "b": np.arange(200_000.0)}})
with pa.OSFile("d.arrow", "wb") as sink, ipc.new_file(sink, table.schema) as writer:
    writer.write_table(table, max_chunksize={batch})
stream = open_stream("d.arrow")
stream.chunk_bytes = 2**16
chunks = stream.chunks()
next(chunks)
os.truncate("d.arrow", 100_000)
try:
    list(chunks)
except ValueError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "d.arrow has changed since it was opened: size 3,2" in done.stdout


def test_a_time_of_modification_that_is_put_back_does_not_hide_a_change(tmp_path):
    path = tmp_path / "d.npy"
    write_npy(path, 1.0)
    stream = open_stream(path, target=-1)
    before = path.stat()
    with path.open("r+b") as file:  # beyond what the checksum looks at, were the file large
        file.seek(200)
        file.write(b"\x01")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(
        ChangedFileError, match=r"written to, renamed, linked or given other permissions at"
    ):
        list(stream.chunks())


def test_reading_a_file_and_copying_it_are_no_changes(source, tmp_path):
    path, _, roles = source
    stream = open_stream(path, **roles)
    first = [chunk.X for chunk in stream.chunks()]
    (shutil.copytree if path.is_dir() else shutil.copy2)(path, tmp_path / "copy")
    again = [chunk.X for chunk in stream.chunks()]
    assert len(first) == len(again)
    assert all((abs(one - other)).max() == 0 for one, other in zip(first, again, strict=True))


def test_a_checkpoint_has_no_rows_of_after_the_change(tmp_path, small_grid):
    """It is not written once the file has changed, so that the old file, put back, cannot be mixed
    with what came between.
    """
    path, kept = tmp_path / "d.npy", tmp_path / "half.ckpt"
    np.save(path, np.tile(X, (8, 1)))
    rows = Rows(open_stream(path))
    assert 2 * rows.grid.step < 8 * ROWS, (
        "a shard is full before the change, and another one after it"
    )

    def change(done: int, of: int | None) -> None:
        if done == rows.grid.rows:
            np.save(path, np.tile(-X, (8, 1)))

    with pytest.raises(ChangedFileError):
        accumulate(rows, Moments(target=False), checkpoint=kept, progress=change)
    assert not kept.exists()


def test_a_copy_that_takes_the_files_as_they_are_does_not_speak_for_the_original(tmp_path):
    write_npy(tmp_path / "d.npy", 1.0)
    stream = open_stream(tmp_path / "d.npy")
    other = copy.copy(stream)
    overwrite(tmp_path / "d.npy", write_npy)
    other.record_files()
    list(other.chunks())
    with pytest.raises(ChangedFileError):
        list(stream.chunks())


def test_a_worker_checks_the_files_before_and_after_each_shard(tmp_path, monkeypatch):
    write_npy(tmp_path / "d.npy", 1.0)
    job = ShardJob(
        Rows(open_stream(tmp_path / "d.npy")), Moments(target=False), include_arrays=True
    )
    sum_shard(job, 0, 100, {})
    add = Moments.add

    def change_first(self, *args, **named):
        overwrite(tmp_path / "d.npy", write_npy)
        add(self, *args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Moments, "add", change_first)
        with pytest.raises(ChangedFileError):
            sum_shard(job, 100, 200, {})
    with pytest.raises(ChangedFileError):
        sum_shard(job, 200, 300, {})


def test_a_cluster_is_asked_again_for_nothing_that_has_changed(tmp_path):
    """The driver looks at the files before and after the sum, whatever workers see of them."""
    distributed = pytest.importorskip("distributed")
    write_npy(tmp_path / "d.npy", 1.0)
    rows = open_stream(tmp_path / "d.npy")
    with (
        distributed.LocalCluster(
            1, processes=False, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        change = lambda done, of: overwrite(tmp_path / "d.npy", write_npy)  # noqa: E731
        with pytest.raises(ChangedFileError):
            accumulate(rows, Moments(target=False), client=client, progress=change)
        with pytest.raises(ChangedFileError):
            accumulate(rows, Moments(target=False), client=client)


def test_scoring_reads_one_content_in_both_of_its_passes(tmp_path, monkeypatch):
    write_svm(tmp_path / "d.svm", 1.0)
    model = KernelRegressor(RandomFourier(8, gamma=0.1, random_state=0)).fit(tmp_path / "d.svm")
    predict = KernelRegressor.predict

    def change_first(self, rows, out=None):
        overwrite(tmp_path / "d.svm", write_svm)
        return predict(self, rows, out)

    monkeypatch.setattr(KernelRegressor, "predict", change_first)
    with pytest.raises(ChangedFileError, match=r"d.svm has changed"):
        model.score(tmp_path / "d.svm")


@pytest.mark.parametrize("kind", ["d.npy", "d.csv", "d.parquet"])
def test_mercer_fit_ends_with_an_error_and_writes_no_model(kind, tmp_path, monkeypatch):
    write, roles = FORMATS[kind]
    path = tmp_path / kind
    write(path, 1.0)
    fit = KernelClassifier.fit

    def change_first(self, stream, **named):
        overwrite(path, write)
        return fit(self, stream, **named)

    monkeypatch.setattr(KernelClassifier, "fit", change_first)
    output = tmp_path / "model.mercer"
    arguments = [
        "fit",
        str(path),
        "--target",
        str(roles["target"]),
        "--map",
        "fourier:n_components=8,gamma=0.1",
    ]
    outcome = CliRunner().invoke(main, [*arguments, "-o", str(output)])
    assert outcome.exit_code == 1
    assert f"Error: {kind} has changed since it was opened" in outcome.stderr
    assert "Copy the data to where nothing writes to it, and start again" in " ".join(
        outcome.stderr.split()
    )
    assert not output.exists()

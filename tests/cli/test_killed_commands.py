"""kill -9 at random times of commands on every source: outputs are whole or absent, and a fit with
a checkpoint ends with the same bytes. A soak of mixed commands in one process: memory and open
files do not grow.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

# One process that forks a child for every attempt, so that a kill costs no imports.
SETUP = """
import contextlib, gc, io, json, os, random, signal, sys, time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import dump_svmlight_file

os.chdir(sys.argv[1])
rng = np.random.default_rng(0)
X = rng.random((2000, 4)).round(6)
label = (X[:, 0] > X[:, 1]).astype(int)
table = pd.DataFrame({**{f"c{i}": X[:, i] for i in range(4)}, "label": label})
table.to_csv("data.csv", index=False)
table.to_parquet("data.parquet", row_group_size=500)
table.to_feather("data.feather")
table.to_json("data.jsonl", orient="records", lines=True)
table.assign(word=rng.choice(["a", "b", "c"], 2000)).to_csv("mixed.csv", index=False)
np.save("data.npy", np.column_stack([X, label]))
np.savez("data.npz", X=X, y=label)
dump_svmlight_file(X, label, "data.svm", zero_based=False)
os.mkdir("folder")
for i in range(3):
    table[700 * i : 700 * (i + 1)].to_parquet(f"folder/{i}.parquet", row_group_size=500)

from mercer.cli import main
from mercer.data.stream import CHUNK_BYTES
from mercer.parallel.tile_size import set_limits

set_limits(min_block_rows=64, max_block_rows=64, checkpoint_cost_ratio=0, checkpoint_seconds=0.02)
CHUNK_BYTES.set(2**14)
TARGETS = {"data.npy": "-1", "data.npz": None, "data.svm": None}
SOURCES = ["data.csv", "mixed.csv", "data.parquet", "data.feather", "data.jsonl", "data.npy",
           "data.npz", "data.svm", "folder"]
FIT = "--map fourier:n_components=64 --alpha 1 --seed 0"


def fit_of(source):
    target = TARGETS.get(source, "label")
    return f"fit {source} {FIT}" + (f" --target {target}" if target else "")


def call(line):
    try:
        main.main(line.split(), prog_name="mercer")
    except SystemExit as end:
        return end.code or 0
"""
KILLS = (
    SETUP
    + """
kills = int(sys.argv[2])


def child(line):
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1), os.dup2(quiet, 2)
            code = call(line)
        finally:
            os._exit(code)
    return pid


def finish(line):
    begin = time.monotonic()
    status = os.waitpid(child(line), 0)[1]
    assert status == 0, (line, status)
    return time.monotonic() - begin


finish(f"{fit_of('data.csv')} -o model.mercer")
JOBS = [(f"{fit_of(source)} --checkpoint {{0}}.ckpt -o {{0}}.mercer", "mercer")
        for source in SOURCES]
JOBS += [("predict model.mercer data.csv -o {0}.csv", "csv"),
         ("predict model.mercer data.parquet --scores -o {0}.parquet", "parquet"),
         ("transform model.mercer data.jsonl -o {0}.npy", "npy"),
         ("transform model.mercer data.csv -o {0}.svm", "svm"),
         ("compare data.csv --target label --max-seconds 0.2 --kernels fourier --report {0}.html",
          "html")]
chance, counts, wrong = random.Random(int(sys.argv[3])), [0, 0, 0], []
chance.shuffle(JOBS)
while counts[0] < kills:
    for number, (job, suffix) in enumerate(JOBS):
        if counts[0] >= kills:
            break
        seconds = finish(job.format(f"whole{number}"))
        whole, path = (Path(f"{name}{number}.{suffix}") for name in ("whole", "killed"))
        for attempt in range(2):
            pid = child(job.format(f"killed{number}") + " --force" * (suffix != "html"))
            time.sleep(chance.random() * seconds)
            os.kill(pid, signal.SIGKILL)
            killed = os.WIFSIGNALED(os.waitpid(pid, 0)[1])
            counts[0] += killed
            counts[1] += any(Path().glob(f"killed{number}.ckpt*"))
            content = path.read_bytes() if path.exists() else None
            complete = content is not None and content.rstrip().endswith(b"</html>")
            is_whole = complete if suffix == "html" else content == whole.read_bytes()
            if content is not None and not is_whole:
                wrong.append([job, "half a file"])
        finish(job.format(f"killed{number}") + " --force" * (suffix != "html"))
        counts[2] += 1
        if suffix != "html" and path.read_bytes() != whole.read_bytes():
            wrong.append([job, "other bytes"])
        left = [each.name for each in Path().iterdir() if each.name.startswith(".killed")]
        left += [each.name for each in Path().glob("*.pass-*")]
        if left:
            wrong.append([job, left])
        for each in [*Path().glob(f"killed{number}.*"), *Path().glob(f"whole{number}.*")]:
            each.unlink()
print(json.dumps({"killed": counts[0], "with a checkpoint": counts[1], "finished": counts[2],
                  "wrong": wrong}))
"""
)
SOAK = (
    SETUP
    + """
import pyarrow
# pools of one thread, which is there after the first round: larger ones grow when they are busy
pyarrow.set_cpu_count(1)
pyarrow.set_io_thread_count(1)
seconds = float(sys.argv[2])
LINES = [f"{fit_of(source)} -o model{i}.mercer --force" for i, source in enumerate(SOURCES)]
LINES += [f"{fit_of('data.csv')} --checkpoint c.ckpt -o model0.mercer --force",
          "predict model0.mercer data.csv -o out.csv --force",
          "predict model0.mercer data.parquet -o out.parquet --force",
          "transform model0.mercer data.jsonl -o out.npy --force",
          "transform model0.mercer data.csv -o out.svm --force",
          "plan data.csv --target label", "inspect model0.mercer",
          "certify model0.mercer data.parquet --pairs 50",
          "predict model0.mercer missing.csv -o out.csv --force",  # fails
          "fit data.csv --target nothing -o out.mercer"]  # fails


def measure():
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


quiet = os.open(os.devnull, os.O_WRONLY)
stdout = os.dup(1)
os.dup2(quiet, 1), os.dup2(quiet, 2)
end, rounds, measures = time.monotonic() + seconds, 0, []
while rounds < 3 or time.monotonic() < end:
    for line in LINES:
        code = call(line)
        assert code == (1 if "missing" in line or "nothing" in line else 0), (line, code)
        Path("c.ckpt").unlink(missing_ok=True)
    rounds += 1
    measures.append(measure())
os.write(stdout, json.dumps({"rounds": rounds, "measures": measures}).encode())
"""
)


def run(code: str, *arguments: str) -> dict[str, object]:
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MERCER_NUM_THREADS": "1", "MERCER_DEBUG": ""}
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.full
@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_commands_that_are_killed_leave_whole_outputs_and_are_resumed(tmp_path, kills):
    found = run(KILLS, str(tmp_path), str(kills), "0")
    assert found["wrong"] == []
    assert found["killed"] >= kills and found["finished"] >= kills // 4


@pytest.mark.full
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="memory is read from /proc")
@pytest.mark.parametrize("seconds", [20, pytest.param(600, marks=pytest.mark.slow)])
def test_mixed_commands_in_one_process_hold_no_more_memory_and_files(tmp_path, seconds):
    found = run(SOAK, str(tmp_path), str(seconds))
    memory, files, threads = zip(*found["measures"], strict=True)
    # the first round fills caches and pools; later ones may differ by what malloc keeps
    assert memory[-1] - memory[len(memory) // 2] < 2**25, found
    assert len(set(files[1:])) == 1 and max(threads[1:]) == min(threads[1:]), found

"""kill -9 at random times of a checkpointed sum: the resumed sum has the same bits."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# One process that forks a child for every attempt, so that a kill costs no imports. Blocks are
# small, so that there are many shards.
SCRIPT = """
import hashlib, json, os, random, signal, sys, time
from pathlib import Path

import numpy as np

from mercer import RandomFourier, accumulate, open_stream
from mercer.parallel.tile_size import set_limits
from mercer.stats.checkpoint import Checkpoint
from mercer.stats.class_sums import ClassSums
from mercer.stats.moments import Moments
from mercer.data.batches import features
from mercer.stats.base import CombinedStatistics

kills, folder = int(sys.argv[1]), Path(sys.argv[2])
set_limits(min_block_rows=64, max_block_rows=64, checkpoint_cost_ratio=0)
rng = np.random.default_rng(0)
np.savez(folder / "rows.npz", X=rng.random((64 * 16 * 20 + 5, 8), dtype=np.float32),
         y=rng.integers(0, 3, 64 * 16 * 20 + 5))


def attempt(path, answer, n_jobs):
    stream = open_stream(folder / "rows.npz")
    seed = (Checkpoint.read_spec(path) or {"seed": 5})["seed"] if path else 5
    mapped = RandomFourier(600, gamma=0.1, random_state=seed).fit(np.ones((1, 8)))
    total = accumulate(features(stream, mapped), CombinedStatistics(Moments(), ClassSums()),
                 checkpoint=path, spec={"seed": seed}, n_jobs=n_jobs)
    digest = hashlib.sha256()
    for name, array in sorted(total.state().arrays.items()):
        digest.update(array.tobytes())
    (folder / answer).write_text(digest.hexdigest())


def child(*args):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            attempt(*args)
            code = 0
        finally:
            os._exit(code)
    return pid


def after_a_checkpoint(pid):
    # every second kill, so that there is something to resume on a machine of any speed
    before = path.stat().st_mtime_ns if path.exists() else None
    while not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        try:
            if path.stat().st_mtime_ns != before:
                return
        except FileNotFoundError:
            pass
        time.sleep(0.001)


begin = time.monotonic()
assert os.waitpid(child(None, "whole", 1), 0)[1] == 0
seconds = time.monotonic() - begin
expected, chance, path = (folder / "whole").read_text(), random.Random(0), folder / "sum"
killed, resumed, finished, leftovers = 0, 0, [], 0
while killed < kills or path.exists():
    pid = child(path, "answer", 1 + killed % 2)
    if killed < kills:
        if killed % 2:
            after_a_checkpoint(pid)
            time.sleep(chance.random() * seconds / 20)
        else:
            time.sleep(chance.random() * seconds)
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    leftovers += len(list(folder.glob(".sum*.part")))
    if os.WIFSIGNALED(status):
        killed += 1
        resumed += path.exists()
        Checkpoint.read(path) if path.exists() else None  # whole, whenever the kill came
        continue
    assert status == 0
    finished.append((folder / "answer").read_text() == expected)
    path.unlink()
print(json.dumps({"killed": killed, "resumed": resumed, "finished": finished,
                  "leftovers": leftovers}))
"""


@pytest.mark.full
@pytest.mark.parametrize("kills", [10, pytest.param(50, marks=pytest.mark.slow)])
def test_a_killed_fold_is_resumed_bit_for_bit(kills, tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(kills), str(tmp_path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert answer.returncode == 0, answer.stderr
    seen = json.loads(answer.stdout.splitlines()[-1])
    assert seen["killed"] == kills
    assert seen["finished"] and all(seen["finished"]), seen
    assert seen["resumed"] >= kills // 5, f"too few kills came after a checkpoint: {seen}"

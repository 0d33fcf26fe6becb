"""A checkpointed fit that is killed at random moments has the bits of an uninterrupted one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# One process that forks a child for every attempt, so that a kill costs no imports. Blocks are
# small, so that there are many shards.
SCRIPT = """
import json, os, random, signal, sys, time
from pathlib import Path

import numpy as np

from mercer import KernelClassifier, RandomFourier
from mercer.parallel import tile_size

kills, folder = int(sys.argv[1]), Path(sys.argv[2])
tile_size.set_limits(min_block_rows=64, max_block_rows=64, checkpoint_cost_ratio=0)
rng = np.random.default_rng(0)
rows = 64 * 16 * 16 + 5
np.savez(folder / "rows.npz", X=rng.random((rows, 8), dtype=np.float32), y=rng.integers(0, 3, rows))


def attempt(path, answer, seed, n_jobs):
    model = KernelClassifier(
        RandomFourier(200, gamma=0.1), alpha=[0.1, 1.0], class_weight="balanced",
        checkpoint=path, random_state=seed, n_jobs=n_jobs
    )
    model.fit(folder / "rows.npz")
    np.savez(folder / answer, coef=model.feature_coef_, intercept=model.intercept_,
             alpha=model.alpha_, seed=model.seed_)


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
assert os.waitpid(child(None, "whole.npz", 0, 1), 0)[1] == 0
seconds = time.monotonic() - begin
chance, path = random.Random(0), folder / "sum"
killed, resumed, equal = 0, 0, []
while killed < kills or path.exists():
    pid = child(path, "answer.npz", None, 1 + killed % 2)  # without a seed: the checkpoint has it
    if killed < kills:
        if killed % 2:
            after_a_checkpoint(pid)
            time.sleep(chance.random() * seconds / 20)
        else:
            time.sleep(chance.random() * seconds)
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        killed += 1
        resumed += path.exists()
        continue
    assert status == 0
    answer = np.load(folder / "answer.npz")
    assert os.waitpid(child(None, "whole.npz", int(answer["seed"]), 1), 0)[1] == 0
    whole = np.load(folder / "whole.npz")
    equal.append(all(np.array_equal(answer[name], whole[name]) for name in whole.files))
    path.unlink()
print(json.dumps({"killed": killed, "resumed": resumed, "equal": equal}))
"""


@pytest.mark.full
@pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_a_killed_fit_ends_in_the_same_model(kills, tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(kills), str(tmp_path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert answer.returncode == 0, answer.stderr
    seen = json.loads(answer.stdout.splitlines()[-1])
    assert seen["killed"] == kills
    assert seen["equal"] and all(seen["equal"]), seen
    assert seen["resumed"] >= kills // 5, f"too few kills came after a checkpoint: {seen}"

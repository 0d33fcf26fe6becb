"""Disks that are full, or may not be written to: outputs are whole or absent, for every size.

The disk is a small tmpfs where it can be mounted (ENOSPC), otherwise the size of files is limited
(RLIMIT_FSIZE, EFBIG). One process forks a child for every attempt, so that it costs no imports.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import contextlib, io, json, os, resource, subprocess, sys, traceback
from pathlib import Path

import numpy as np

disk, steps, kind = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
os.chdir(disk.parent)
rng = np.random.default_rng(0)
X = rng.random((1000, 8))
np.save("data.npy", np.column_stack([X, X[:, 0] > X[:, 1]]))
names = [f"c{i}" for i in range(8)]
np.savetxt("data.csv", np.column_stack([X, X[:, 0] > X[:, 1]]), delimiter=",", fmt="%.6g",
           header=",".join([*names, "label"]), comments="")

from experiments.__main__ import main as papers
from experiments.records import Measured
from experiments.running import Outcome, Results
from mercer.cli import main
from mercer.report import report

FIT = "fit data.csv --target label --map fourier:n_components=64 --alpha 1 --seed 0"
COMPARE = "compare data.csv --target label --max-seconds 0.2 --kernels hellinger"
PREDICT = "predict model.mercer data.csv"
COMMANDS = {
    "out.mercer": FIT,
    "out.csv": f"{PREDICT} --scores",
    "out.parquet": f"{PREDICT} --scores",
    "out.npy": "transform model.mercer data.csv",
    "out.svm": "transform model.mercer data.csv",
    "out.ckpt": FIT,
    "out.html": COMPARE,
    "out.json": "run chi2 --size quick",
}
cells = {f"cell {i}": Outcome(1, {"ours": Measured(i / 7)}, 1.0, "", "") for i in range(2000)}
Results.read = classmethod(lambda cls, path: cls(path, {}, {"quick": cells}))
import experiments.running
experiments.running.to_do = lambda *args: []  # what is tried is the writing of the results


def run(name, folder):
    path = f"{folder}/{name}"
    if name == "out.json":
        papers.main([*COMMANDS[name].split(), "--out", path], prog_name="experiments")
    if name == "out.ckpt":
        words = [*COMMANDS[name].split(), "--checkpoint", path, "-o", "checked.mercer", "--force"]
    else:
        option = "--report" if name == "out.html" else "-o"
        words = [*COMMANDS[name].split(), option, path]
        words += ["--force"] * (name != "out.html")
    main.main(words, prog_name="mercer")


def child(name, folder, limit=None):
    # the exit code and standard error of a command
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.close(read)
            os.dup2(write, 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            run(name, folder)
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said


run_first = f"{FIT} -o model.mercer"
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main.main(run_first.split(), prog_name="mercer")
Path("whole").mkdir()
results = []
for name in COMMANDS:
    if kind == "read-only" and name == "out.ckpt":
        continue
    if name == "out.html" and kind != "read-only":
        # rendered once: what is tried is the writing of the page
        page = "<p>" + "x" * 300_000
        report._render = lambda *args: page
    code, said = child(name, "whole") if kind != "read-only" else (0, "")
    assert code == 0, said
    expected = Path("whole", name).read_bytes() if kind != "read-only" else b"?" * 1000
    for i in range(steps):
        # a checkpoint of passes before the last one needs space, too
        most = 2**22 if name == "out.ckpt" else 1.1 * len(expected)
        size = 4096 + round(most * i / max(1, steps - 1))
        old = b"old" if i % 2 and name != "out.ckpt" else None
        if kind == "tmpfs":
            subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)
        if old is not None and kind != "read-only":
            (disk / name).write_bytes(old)
        before = sorted(os.listdir(disk))
        code, said = child(name, disk, size if kind == "limit" else None)
        path = disk / name
        left = sorted(os.listdir(disk))
        content = path.read_bytes() if path.exists() else None
        results.append({
            "name": name, "size": size, "code": code, "said": said,
            "whole": content == expected,
            "unchanged": left == before and content == old or name == "out.ckpt",
            "parts": [each for each in left if each.endswith(".part")],
        })
        for each in left if kind != "read-only" else ():
            (disk / each).unlink()
print(json.dumps(results))
"""


def run_script(disk: Path, steps: int, kind: str) -> list[dict[str, object]]:
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(disk), str(steps), kind]
    root = str(Path(__file__).parents[2])  # of the experiments
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MERCER_DEBUG": "", "PYTHONPATH": root}
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def mount(folder: Path, options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture
def disk(tmp_path):
    """Mount a tmpfs; yield its folder and "tmpfs", or a plain folder and "limit"."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = mount(folder, "size=64k")
    yield folder, "tmpfs" if mounted else "limit"
    if mounted:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.full
@pytest.mark.parametrize("steps", [12, pytest.param(100, marks=pytest.mark.slow)])
def test_outputs_of_a_full_disk_are_whole_or_absent(disk, steps):
    folder, kind = disk
    results = run_script(folder, steps, kind)
    wrong = []
    for one in results:
        went_well = one["code"] == 0 and (one["whole"] or one["name"] == "out.ckpt")
        words = "checkpoint" if one["name"] == "out.ckpt" else "nothing was written under the name"
        refused = one["code"] == 1 and one["unchanged"] and words in one["said"]
        if not (went_well or refused) or one["parts"] or "Traceback" in one["said"]:
            wrong.append(one)
    assert not wrong, wrong[:3]
    for name in {one["name"] for one in results}:
        codes = {one["code"] for one in results if one["name"] == name}
        assert codes == {0, 1}, (name, codes)  # some sizes were too small, and some were not


@pytest.mark.full
def test_a_read_only_folder_is_refused_before_any_work(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    if mount(folder, "ro,size=64k"):
        try:
            results = run_script(folder, 1, "read-only")
        finally:
            subprocess.run(["umount", str(folder)], check=True)
    elif os.geteuid() != 0:
        folder.chmod(0o500)
        results = run_script(folder, 1, "read-only")
    else:
        pytest.skip("root may write to every folder, and no read-only one can be mounted")
    for one in results:
        assert one["code"] == 1 and "No permission" in one["said"], one
        assert one["unchanged"] and "Traceback" not in one["said"], one

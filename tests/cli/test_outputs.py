"""Outputs of commands: links, devices, FIFOs, closed pipes and two runs for one file."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.shell import fails, run
from tests.helpers.waiting import LIMIT, wait_until

from mercer import load

MERCER = "from mercer.cli import main; main(prog_name='mercer')"
FIT = "fit data.csv --target digit --map fourier:n_components=16 --alpha 1"


@pytest.mark.parametrize(
    "line",
    [
        f"{FIT} -o out.mercer --force",
        "predict model.mercer data.csv -o out.csv --force",
        "transform model.mercer data.csv -o out.npy --force",
        "transform data.csv --target digit --map hellinger --save out.mercer -o z.svm --force",
        "compare --max-seconds 1 --report out.html",
    ],
)
def test_devices_and_fifos_are_not_replaced(line, folder):
    run(f"{FIT} -o model.mercer")
    name = next(word for word in line.split() if word.startswith("out."))
    for kind in ("fifo", "device"):
        if kind == "fifo":
            os.mkfifo(name)
        else:
            os.symlink(os.devnull, name)
        what = os.stat(name)
        assert f"{name} is not a regular file, and is not replaced" in fails(line)
        assert os.path.samestat(os.stat(name), what) and not stat.S_ISREG(what.st_mode)
        Path(name).unlink()


def test_a_private_model_behind_a_link_stays_private_and_behind_it(folder):
    Path("models").mkdir()
    Path("latest.mercer").symlink_to("models/3.mercer")
    run(f"{FIT} -o latest.mercer")
    Path("models/3.mercer").chmod(0o600)
    run(f"{FIT} --seed 1 -o latest.mercer --force")
    assert Path("latest.mercer").is_symlink()
    assert stat.S_IMODE(Path("models/3.mercer").stat().st_mode) == 0o600
    assert load("latest.mercer").random_state == 1 and os.listdir("models") == ["3.mercer"]


@pytest.mark.parametrize("existing", [True, False])
def test_a_checkpoint_is_not_the_output(existing, folder):
    if existing:
        Path("one").write_bytes(b"")
    Path("two").symlink_to("one")
    words = "is an input or the checkpoint, and the output"
    assert words in fails(f"{FIT} --checkpoint one -o one --force")
    assert words in fails(f"{FIT} --checkpoint two -o one --force")
    assert Path("one").exists() == existing


@pytest.mark.parametrize("options", [["--json"], []], ids=["json", "text"])
@pytest.mark.parametrize(
    ("line", "output"),
    [
        (f"{FIT} --test data.csv -o out.mercer", "out.mercer"),
        ("predict model.mercer data.csv -o out.csv", "out.csv"),
    ],
)
def test_a_reader_that_stops_reading_does_not_stop_the_command(line, output, options, folder):
    run(f"{FIT} -o model.mercer")
    process = subprocess.Popen(
        [sys.executable, "-c", MERCER, *line.split(), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    said = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(LIMIT) == 0, said
    assert said == ""
    run(line.replace("out.", "again."))
    assert Path(output).read_bytes() == Path(output.replace("out.", "again.")).read_bytes()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")
def test_messages_that_find_a_full_disk_do_not_stop_the_command(folder):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", MERCER, *f"{FIT} -o out.mercer".split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LIMIT,
        )
    assert done.returncode == 0, done.stderr
    expected = "Note: messages cannot be written (No space left on device); the command goes on.\n"
    assert done.stderr == expected
    run(f"{FIT} -o again.mercer")
    assert Path("out.mercer").read_bytes() == Path("again.mercer").read_bytes()


@pytest.mark.skipif(os.name != "posix", reason="descriptors are closed by a POSIX shell")
def test_a_command_without_standard_output_and_error_writes_its_file(folder):
    words = [sys.executable, "-c", MERCER, *f"{FIT} -o out.mercer".split()]
    line = f"{shlex.join(words)} >&- 2>&-"
    assert subprocess.run(["sh", "-c", line], timeout=LIMIT).returncode == 0
    assert load("out.mercer").random_state == 0


def test_links_without_an_end_and_without_a_folder_are_refused_in_words(folder):
    Path("loop.mercer").symlink_to("loop.mercer")
    assert "loop.mercer: Too many levels of symbolic links." in fails(f"{FIT} -o loop.mercer")
    Path("far.mercer").symlink_to("none/far.mercer")
    expected = f"There is no folder {Path.cwd() / 'none'} to write far.mercer to."
    assert expected in fails(f"{FIT} -o far.mercer")


def test_a_temporary_name_that_is_no_file_of_ours_is_left(folder):
    for make in (os.mkfifo, os.mkdir, lambda name: os.symlink("data.csv", name)):
        make(".out.mercer.part")
        before = os.lstat(".out.mercer.part")
        words = ".out.mercer.part is not a regular file, and in the way of the temporary file"
        assert words in fails(f"{FIT} -o out.mercer")
        assert os.path.samestat(os.lstat(".out.mercer.part"), before)
        os.rename(".out.mercer.part", f"old{before.st_ino}")


def test_predictions_for_a_reader_that_stops_end_the_command(folder):
    run(f"{FIT} -o model.mercer")
    command = [sys.executable, "-c", MERCER, "predict", "model.mercer", "data.csv", "-o", "-"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(LIMIT) == 1


@pytest.mark.full
def test_of_two_runs_for_one_output_one_is_refused_before_its_work(folder):
    line = f"{FIT.replace('data.csv', '-')} -o model.mercer --json"
    with Path("data.csv").open("rb") as rows:  # for which the first one waits
        first = subprocess.Popen(
            [sys.executable, "-c", MERCER, *line.split()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        wait_until(Path(".model.mercer.part").exists, "a reserved output")
        words = "model.mercer is being written by another run: wait until it ends"
        assert words in fails(f"{FIT} --seed 1 -o model.mercer")
        run(f"{FIT} --seed 1 -o other.mercer")
        said, problem = first.communicate(rows.read(), timeout=LIMIT)
    assert first.returncode == 0, problem
    assert "done" in [json.loads(line)["event"] for line in said.splitlines()]
    assert load("model.mercer").random_state == 0
    assert not Path(".model.mercer.part").exists()

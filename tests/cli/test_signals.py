"""Ctrl-C, SIGTERM and SIGHUP, sent to a real process: exit codes, the checkpoint named, and the
same model when the command is run again.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from tests.helpers.waiting import LIMIT, wait_until

from mercer.cli._errors import CommandGroup, on_interrupt

# A fit in small steps: blocks of 1,024 rows, a shard for each, and a source that takes its time
# where it is asked to.
SLOWLY = """
import signal, sys, time
# also where the tests run in a shell's background, or under nohup
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
import mercer.parallel.tile_size
from mercer.data.stream import CHUNK_BYTES
from mercer.data.npy import NpyStream
mercer.parallel.tile_size.set_limits(max_block_rows=1024, shard_blocks=1)
CHUNK_BYTES.set(2**15)
seconds, read = float(sys.argv.pop(1)), NpyStream._read
def slowly(self, start, rows):
    for parts in read(self, start, rows):
        time.sleep(seconds)
        yield parts
NpyStream._read = slowly
from mercer.cli import main
main(prog_name="mercer")
"""
FIT = ("fit", "data.npy", "--target", "-1", "--map", "fourier:n_components=32,gamma=0.1")


@pytest.fixture
def folder(tmp_path):
    X = np.random.default_rng(0).normal(size=(30_000, 4))
    np.save(tmp_path / "data.npy", np.column_stack([X, np.sin(X[:, 0])]))
    return tmp_path


def start(
    folder: Path, seconds: float, *arguments: str, ignored: str = ""
) -> subprocess.Popen[str]:
    ignore = f"signal.signal(signal.{ignored}, signal.SIG_IGN)" if ignored else ""
    code = SLOWLY.replace("from mercer.cli", f"{ignore}\nfrom mercer.cli")
    command = [sys.executable, "-c", code, str(seconds), *FIT, *arguments]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.full),
        (signal.SIGTERM, 143),
        (signal.SIGHUP, 129),
    ],
    ids=["Ctrl-C", "SIGTERM", "SIGHUP"],
)
def test_a_fit_that_is_stopped_names_the_checkpoint_and_is_gone_on_with(folder, number, code):
    process = start(folder, 0.2, "--checkpoint", "half.ckpt", "-o", "model.mercer")
    wait_until((folder / "half.ckpt").exists, "a checkpoint")
    process.send_signal(number)
    output, said = process.communicate(timeout=LIMIT)
    assert process.returncode == code, said
    assert "KernelRegressor: 30,000 rows" in output
    assert "\nStopped. The first " in said
    assert said.strip().endswith("rows are in half.ckpt: run the same command again to resume.")
    assert "Traceback" not in said
    assert {path.name for path in folder.iterdir()} == {"data.npy", "half.ckpt"}
    if number != signal.SIGINT:
        return  # what is kept is the same

    again = start(folder, 0.0, "--checkpoint", "half.ckpt", "-o", "model.mercer")
    straight = start(folder, 0.0, "-o", "straight.mercer")
    for one in (again, straight):
        _, said = one.communicate(timeout=LIMIT)
        assert one.returncode == 0, said
    assert (folder / "model.mercer").read_bytes() == (folder / "straight.mercer").read_bytes()


@pytest.mark.full
def test_a_fit_without_checkpoint_says_that_nothing_is_left(folder):
    process = start(folder, 0.2, "-o", "model.mercer")
    assert process.stdout is not None
    while "KernelRegressor: " not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, said
    assert said.strip().endswith(
        "\nStopped. Nothing was written; with --checkpoint FILE an interrupted fit can be resumed."
    )
    assert {path.name for path in folder.iterdir()} == {"data.npy"}


def test_an_error_after_a_signal_is_the_signal():
    """As where it comes between two lines of a wait for a thread, whose lock is then released
    twice.
    """

    @click.group(cls=CommandGroup)
    def main() -> None: ...

    @main.command()
    def wait() -> None:
        with on_interrupt(lambda: "Half is kept."):
            try:
                signal.raise_signal(signal.SIGTERM)
            except KeyboardInterrupt:
                raise RuntimeError("cannot release un-acquired lock") from None

    outcome = CliRunner().invoke(main, ["wait"])
    assert outcome.exit_code == 143
    assert outcome.stderr.strip() == "Stopped. Half is kept."


@pytest.mark.full
def test_a_fit_under_nohup_is_not_stopped_by_the_end_of_its_terminal(folder):
    process = start(folder, 0.05, "-o", "model.mercer", ignored="SIGHUP")
    assert process.stdout is not None
    while "KernelRegressor: " not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGHUP)
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, said
    assert (folder / "model.mercer").exists()

"""Outputs are replaced whole: links, permissions, other writers and what killed ones have left."""

from __future__ import annotations

import os
import signal
import stat
import struct
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.helpers.waiting import LIMIT, wait_until

from mercer.persistence import atomic_write
from mercer.persistence.atomic_write import open_atomic, reserve_output

ACL = "system.posix_acl_access"
# read and write for the owner, read for user 1234, nothing for group and others
READERS = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", *entry)
    for entry in (
        (1, 6, 2**32 - 1),
        (2, 4, 1234),
        (4, 0, 2**32 - 1),
        (16, 4, 2**32 - 1),
        (32, 0, 2**32 - 1),
    )
)


def write(path: Path, content: bytes = b"new") -> None:
    with open_atomic(path) as file:
        file.write(content)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("kind", ["fifo", "device", "socket"])
def test_what_is_no_file_is_refused_and_stays(kind, tmp_path):
    path = tmp_path / "out"
    if kind == "device":
        path.symlink_to(os.devnull)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        os.mknod(path, stat.S_IFSOCK | 0o600)
    before = path.stat()
    with pytest.raises(ValueError, match="out is not a regular file, and is not replaced"):
        write(path)
    with pytest.raises(ValueError, match="not a regular file"), reserve_output(path):
        pass
    assert os.path.samestat(path.stat(), before) and names(tmp_path) == {"out"}
    assert stat.S_IFMT(path.stat().st_mode) == stat.S_IFMT(before.st_mode) != stat.S_IFREG


@pytest.mark.parametrize("existing", [True, False], ids=["existing", "dangling"])
def test_links_are_followed(existing, tmp_path):
    real, link, second = tmp_path / "real" / "file", tmp_path / "link", tmp_path / "second"
    real.parent.mkdir()
    if existing:
        real.write_bytes(b"old")
    second.symlink_to("real/file")
    link.symlink_to(second)
    write(link)
    assert link.is_symlink() and second.is_symlink() and not real.is_symlink()
    assert real.read_bytes() == b"new"
    assert names(tmp_path) == {"real", "link", "second"} and names(real.parent) == {"file"}


@pytest.mark.parametrize("bits", [0o600, 0o640, 0o444, 0o664])
def test_the_mode_of_an_existing_file_is_kept_and_never_wider_meanwhile(bits, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    path.chmod(bits)
    with open_atomic(path) as file:
        assert mode(tmp_path / ".model.part") & ~bits & 0o077 == 0
        file.write(b"new")
    assert mode(path) == bits and path.read_bytes() == b"new"


def test_a_new_file_has_the_mode_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write(tmp_path / "model")
    finally:
        os.umask(before)
    assert mode(tmp_path / "model") == 0o640


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give files away"
)
def test_owner_and_group_of_an_existing_file_are_kept(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    path.chmod(0o640)
    os.chown(path, 1234, 2345)
    write(path)
    found = path.stat()
    assert (found.st_uid, found.st_gid, mode(path)) == (1234, 2345, 0o640)


def test_the_access_control_list_of_an_existing_file_is_kept(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    path.chmod(0o600)
    try:
        os.setxattr(path, ACL, READERS)
    except (AttributeError, OSError) as error:
        pytest.skip(f"no access control lists here: {error}")
    write(path)
    assert os.getxattr(path, ACL) == READERS and mode(path) == 0o640
    # a list that a folder gives its new files is not that of a file that had none
    os.setxattr(tmp_path, "system.posix_acl_default", READERS)
    plain = tmp_path / "plain"
    plain.write_bytes(b"old")
    os.removexattr(plain, ACL)
    plain.chmod(0o600)
    write(plain)
    with pytest.raises(OSError, match="No data"):
        os.getxattr(plain, ACL)
    assert mode(plain) == 0o600


WRITER = """
import sys, time
from pathlib import Path
from mercer.persistence.atomic_write import open_atomic
with open_atomic(Path(sys.argv[1])) as file:
    file.write(b"other" * 100_000)
    file.flush()
    print("open", flush=True)
    sys.stdin.read()
"""


def start_writer(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "open\n"
    return process


def test_of_two_writers_one_writes_the_whole_file_and_the_other_says_so(tmp_path):
    path = tmp_path / "model"
    process = start_writer(path)
    with pytest.raises(FileExistsError, match="model is being written by another run: wait"):
        write(path)
    with pytest.raises(FileExistsError, match="being written"), reserve_output(path):
        pass
    write(tmp_path / "model.b")  # another name is no concern of it
    process.communicate("", timeout=LIMIT)
    assert process.returncode == 0
    assert path.read_bytes() == b"other" * 100_000
    assert names(tmp_path) == {"model", "model.b"}
    write(path)
    assert path.read_bytes() == b"new"


def test_what_a_killed_writer_left_is_removed_by_the_next_of_the_same_name_only(tmp_path):
    for name in ("model", "model.b"):
        process = start_writer(tmp_path / name)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=LIMIT)
    assert names(tmp_path) == {".model.part", ".model.b.part"}
    write(tmp_path / "model")
    assert names(tmp_path) == {"model", ".model.b.part"}
    with reserve_output(tmp_path / "model.b"):
        pass
    assert names(tmp_path) == {"model"}


def test_writers_in_threads_leave_one_whole_file(tmp_path):
    path, refused, start = tmp_path / "model", [], threading.Barrier(8)

    def run(number: int) -> None:
        start.wait(LIMIT)
        for _ in range(50):
            try:
                write(path, bytes([number]) * 10_000)
            except FileExistsError:
                refused.append(number)

    workers = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for each in workers:
        each.start()
    for each in workers:
        each.join(LIMIT)
    content = path.read_bytes()
    assert len(content) == 10_000 and len(set(content)) == 1
    assert len(refused) < 400 and names(tmp_path) == {"model"}


@pytest.mark.parametrize("reserved", [True, False])
def test_a_file_that_another_program_has_written_meanwhile_is_left(reserved, tmp_path):
    path = tmp_path / "model"

    def run() -> None:
        with reserve_output(path) if reserved else nullcontext(), open_atomic(path) as file:
            file.write(b"new")
            path.write_bytes(b"theirs")

    with pytest.raises(FileExistsError, match="written by another program since this one began"):
        run()
    assert path.read_bytes() == b"theirs" and names(tmp_path) == {"model"}


def test_without_locks_the_later_writer_wins_and_the_earlier_one_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_write, "fcntl", None)
    path = tmp_path / "model"
    earlier = open_atomic(path)
    earlier.__enter__().write(b"earlier")
    later = open_atomic(path)
    later.__enter__().write(b"later")
    with pytest.raises(FileExistsError, match="another program"):
        earlier.__exit__(None, None, None)
    later.__exit__(None, None, None)
    assert path.read_bytes() == b"later" and names(tmp_path) == {"model"}


def test_a_reservation_is_used_by_the_write_or_removed(tmp_path):
    path = tmp_path / "model"
    with reserve_output(path):
        assert names(tmp_path) == {".model.part"}
        write(path)
        assert names(tmp_path) == {"model"}
        write(path, b"second")
    assert path.read_bytes() == b"second"
    with pytest.raises(KeyboardInterrupt), reserve_output(path):
        raise KeyboardInterrupt
    assert names(tmp_path) == {"model"}


def test_no_descriptor_is_left_open(tmp_path):
    if not Path("/proc/self/fd").exists():
        pytest.skip("open descriptors are counted in /proc")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        write(tmp_path / "a")
        with reserve_output(tmp_path / "a"):
            write(tmp_path / "a")
        with reserve_output(tmp_path / "a"), pytest.raises(FileExistsError):
            atomic_write._open_part(tmp_path / "a", tmp_path / "a")
        with pytest.raises(ZeroDivisionError), open_atomic(tmp_path / "a"):
            raise ZeroDivisionError
    assert len(os.listdir("/proc/self/fd")) == before
    wait_until(lambda: names(tmp_path) == {"a"}, "no part")

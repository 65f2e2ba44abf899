"""Two mounts of one folder, each through a forwarder of its own: locks, creation and appending agree between them."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mounting import DEADLINE_S, forwarded_mount, open_folder, wait_until

pytestmark = pytest.mark.fuse


@pytest.fixture(scope="module")
def mounts() -> Iterator[tuple[Path, Path]]:
    with open_folder() as base:
        (base / "export").mkdir()
        for name in ("one", "two"):
            (base / name / "state").mkdir(parents=True)
            (base / name / "mounted").mkdir()
        first, second = (base / name for name in ("one", "two"))
        with (
            forwarded_mount(base / "export", first / "mounted", state=first / "state") as one,
            forwarded_mount(base / "export", second / "mounted", state=second / "state") as two,
        ):
            yield one.folder, two.folder


def together(mounts: tuple[Path, Path], program: str, *arguments: str) -> list[str]:
    """Runs a program on both mounts at the same time; what each said."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(folder), str(number), *arguments], stdout=subprocess.PIPE, text=True
        )
        for number, folder in enumerate(mounts)
    ]
    said = [process.communicate(timeout=DEADLINE_S)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    return said


def test_what_one_writes_the_other_reads_at_once(mounts: tuple[Path, Path]) -> None:
    one, two = mounts
    (one / "data").write_bytes(b"first")
    assert (two / "data").read_bytes() == b"first"
    for number in range(20):
        with (one / "data").open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), b"%05d" % number, 0)
        assert (two / "data").read_bytes() == b"%05d" % number


def test_names_are_seen_by_the_other(mounts: tuple[Path, Path]) -> None:
    one, two = mounts
    (one / "folder").mkdir()
    wait_until(lambda: (two / "folder").is_dir(), "the folder is there")
    (two / "folder" / "a").write_bytes(b"x")
    (two / "folder" / "a").rename(two / "folder" / "b")
    wait_until(lambda: [path.name for path in (one / "folder").iterdir()] == ["b"], "the new name is there")
    wait_until(lambda: not (one / "folder" / "a").exists(), "the old name is gone")


@pytest.mark.parametrize("kind", ["flock", "posix"])
def test_a_lock_of_one_holds_the_other_off(mounts: tuple[Path, Path], kind: str) -> None:
    take = fcntl.flock if kind == "flock" else fcntl.lockf
    one, two = (folder / f"locked-{kind}" for folder in mounts)
    one.write_bytes(b"x")
    with one.open("r+b") as holding, two.open("r+b") as wanting:
        take(holding, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            take(wanting, fcntl.LOCK_EX | fcntl.LOCK_NB)
        waiting = f"""
import fcntl
with open({str(two)!r}, "r+b") as file:
    print("waits", flush=True)
    fcntl.{"flock" if kind == "flock" else "lockf"}(file, fcntl.LOCK_EX)
    print("has it", flush=True)
"""
        with subprocess.Popen([sys.executable, "-c", waiting], stdout=subprocess.PIPE, text=True) as waiter:
            try:
                assert waiter.stdout is not None
                assert waiter.stdout.readline() == "waits\n"
                take(holding, fcntl.LOCK_UN)
                assert waiter.stdout.readline() == "has it\n"
                assert waiter.wait(DEADLINE_S) == 0
            finally:
                waiter.kill()
        take(wanting, fcntl.LOCK_EX | fcntl.LOCK_NB)


EXCLUSIVE = """
import os, sys
folder, number = sys.argv[1:3]
made = []
for name in range(150):
    try:
        os.close(os.open(f"{folder}/exclusive-{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        made.append(name)
    except FileExistsError:
        pass
print(*made)
"""


def test_a_flock_is_gone_with_the_close_of_its_file(mounts: tuple[Path, Path]) -> None:
    """The kernel waits for no RELEASE: what is asked next must not overtake it."""
    path = mounts[0] / "closed"
    path.write_bytes(b"x")
    for _ in range(300):
        with path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_of_two_exclusive_creations_one_succeeds(mounts: tuple[Path, Path]) -> None:
    made = [set(map(int, said.split())) for said in together(mounts, EXCLUSIVE)]
    assert made[0] | made[1] == set(range(150))
    assert not made[0] & made[1]


APPEND = """
import os, sys
folder, number = sys.argv[1:3]
fd = os.open(f"{folder}/appended", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for turn in range(300):
    os.write(fd, f"{number}:{turn:06}:{'x' * 29}\\n".encode())
os.close(fd)
"""


def test_appended_lines_are_whole_and_all_there(mounts: tuple[Path, Path]) -> None:
    together(mounts, APPEND)
    lines = (mounts[0] / "appended").read_text().splitlines()
    assert sorted(lines) == sorted(f"{number}:{turn:06}:{'x' * 29}" for number in range(2) for turn in range(300))
    for number in "01":
        own = [line for line in lines if line.startswith(number)]
        assert own == sorted(own)


COUNT = """
import fcntl, os, sys
folder, number = sys.argv[1:3]
fd = os.open(f"{folder}/counted", os.O_RDWR | os.O_CREAT)
for turn in range(150):
    fcntl.lockf(fd, fcntl.LOCK_EX)
    found = int(os.pread(fd, 9, 0) or b"0")
    os.pwrite(fd, b"%09d" % (found + 1), 0)
    fcntl.lockf(fd, fcntl.LOCK_UN)
os.close(fd)
"""


def test_a_number_counted_up_under_a_lock_by_both(mounts: tuple[Path, Path]) -> None:
    together(mounts, COUNT)
    assert (mounts[1] / "counted").read_bytes() == b"%09d" % 300


def test_a_file_one_has_open_survives_its_removal_by_the_other(mounts: tuple[Path, Path]) -> None:
    one, two = mounts
    (one / "open").write_bytes(b"data")
    with (one / "open").open("r+b", buffering=0) as file:
        (two / "open").unlink()
        assert os.pread(file.fileno(), 9, 0) == b"data"
        os.pwrite(file.fileno(), b"more", 4)
        assert os.pread(file.fileno(), 9, 0) == b"datamore"
    wait_until(lambda: not (one / "open").exists(), "the name is gone")


def test_a_name_that_becomes_another_file(mounts: tuple[Path, Path]) -> None:
    """One has looked it up; the other replaces it. The kernel asks again when it hears that the file is stale."""
    one, two = mounts
    for turn in range(10):
        (one / "replaced").write_bytes(b"old")
        assert (two / "replaced").read_bytes() == b"old"
        (one / "new").write_bytes(b"new %d" % turn)
        (one / "new").rename(one / "replaced")
        assert (two / "replaced").read_bytes() == b"new %d" % turn

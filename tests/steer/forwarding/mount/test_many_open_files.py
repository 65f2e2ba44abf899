"""Thousands of files open at once through one mount and one forwarder, half of them without a name any more."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from mounting import forwarded_mount, open_folder
from waiting import PATIENCE_S

pytestmark = pytest.mark.fuse
FILES = 10_000
FILES_SHORT = 3_000
PROGRAM = """
import os, resource, sys
folder, count = sys.argv[1], int(sys.argv[2])
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
files = [os.open(f"{folder}/{n}", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644) for n in range(count)]
for n in range(0, count, 2):
    os.unlink(f"{folder}/{n}")
for n, file in enumerate(files):
    assert os.pwrite(file, b"%08d" % n, 0) == 8
for n, file in enumerate(files):
    assert os.pread(file, 99, 0) == b"%08d" % n, n
for file in files:
    os.close(file)
print(len(os.listdir(folder)))
"""


def test_thousands_of_open_files(thorough: bool) -> None:
    files = FILES if thorough else FILES_SHORT
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and most < files + 500:
        pytest.skip(f"a process may open {most} files here: ulimit -Hn {2 * files}")
    with open_folder() as base:
        for name in ("export", "mounted", "state"):
            (base / name).mkdir()
        with forwarded_mount(base / "export", base / "mounted", state=base / "state") as mount:
            done = subprocess.run(
                [sys.executable, "-c", PROGRAM, str(mount.folder), str(files)],
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
            assert (done.returncode, done.stdout.strip()) == (0, str(files // 2)), done.stderr

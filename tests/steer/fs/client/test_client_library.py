"""The client without FUSE: the same files, the same forwarders, the same records as a mount."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fairlead.core.batches.spool import Spool
from fairlead.core.errors import UnreachableError
from fairlead.steer.fs.client.client import Client
from fairlead.steer.fs.trace.recorder import Trace
from plane import Plane
from waiting import PATIENCE_S


@pytest.fixture
def plane(plane: Plane) -> Plane:
    plane.forwarder("a")
    return plane


def test_files_and_names(plane: Plane) -> None:
    with Client.connect(plane.address("a")) as client:
        client.makedirs("one/two")
        with client.open("one/two/file", "x+") as file:
            assert file.write(b"hello, world") == 12
            assert file.pread(5, 7) == b"world"
            file.seek(0)
            assert file.read(5) == b"hello"
            file.sync()
        assert (plane.tree / "one/two/file").read_bytes() == b"hello, world"
        assert client.stat("one/two/file").st_size == 12
        with client.open("one/two/file", "a") as file:
            file.write(b"!")
        client.symlink("two/file", "one/link")
        assert client.readlink("one/link") == "two/file"
        with client.open("one/link") as file:
            assert file.readall() == b"hello, world!"
        client.link("one/two/file", "other")
        client.rename("one/two/file", "one/two/renamed")
        client.truncate("other", 5)
        assert client.stat("one/two/renamed").st_size == 5
        client.chmod("other", 0o600)
        assert client.stat("other").st_mode & 0o777 == 0o600
        assert client.stat("one/link", follow=False).st_size == len("two/file")
        assert sorted(client.listdir()) == ["one", "other"]
        assert client.exists("one/two")
        client.unlink("one/two/renamed")
        client.rmdir("one/two")
        assert not client.exists("one/two")
        with pytest.raises(FileNotFoundError):
            client.stat("nothing")
        with pytest.raises(FileExistsError):
            client.open("other", "x")
        with pytest.raises(OSError) as refused:
            client.open("../escape", "w")
        assert refused.value.errno == errno.EINVAL


@pytest.mark.parametrize("checksum", [False, True])
def test_large_data_over_unix(plane: Plane, checksum: bool) -> None:
    data = os.urandom(5 * 1024 * 1024 + 17)
    with Client.connect(plane.address("a"), checksum=checksum) as client:
        with client.open("large", "w") as file:
            assert file.write(data) == len(data)
        with client.open("large") as file:
            assert file.readall() == data
        with client.open("large") as file, io.BufferedReader(file, 1 << 16) as buffered:
            buffered.seek(1000)
            assert buffered.read(100_000) == data[1000:101_000]
    assert (plane.tree / "large").read_bytes() == data


def test_a_lost_forwarder_is_replaced(plane: Plane) -> None:
    plane.forwarder("b")
    with Client.connect([plane.address("a"), plane.address("b")]) as client:
        client.mkdir("folder")
        with client.open("folder/log", "a") as file:
            file.write(b"one\n")
            plane.kill_forwarder("a")
            file.write(b"two\n")
            client.mkdir("folder/inner")
            assert client.address == plane.address("b")
            with pytest.raises(FileExistsError):
                client.mkdir("folder/inner")
        assert sorted(client.listdir("folder")) == ["inner", "log"]
    assert (plane.tree / "folder/log").read_bytes() == b"one\ntwo\n"


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError):
        Client.connect(f"unix:{tmp_path}/nobody")


def test_threads_share_a_client(plane: Plane) -> None:
    with Client.connect(plane.address("a")) as client, ThreadPoolExecutor(4) as threads:

        def work(number: int) -> bytes:
            for step in range(20):
                with client.open(f"file{number}", "w") as file:
                    file.write(b"%d %d" % (number, step))
            with client.open(f"file{number}") as file:
                return file.readall()

        assert list(threads.map(work, range(4))) == [b"%d 19" % number for number in range(4)]


def test_requests_are_recorded_under_their_job(plane: Plane) -> None:
    spool = plane.folder / "spool"
    trace = Trace(Spool(spool, node="n1", writer="client"), fs="fairlead:test", mount_point="/t")
    trace.start()
    with Client.connect(plane.address("a"), trace=trace, job="4711") as client:
        with client.open("file", "w") as file:
            for _ in range(10):
                file.write(b"x" * 4096)
        trace.close()
    assert any(b"4711" in part.read_bytes() for part in spool.rglob("*") if part.is_file())


def test_a_forwarder_that_ends_in_peace_is_replaced_too(plane: Plane) -> None:
    plane.forwarder("b")
    with Client.connect([plane.address("a"), plane.address("b")]) as client:
        client.mkdir("x")
        process: subprocess.Popen[bytes] = plane.forwarders.pop("a")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        client.mkdir("y")
        assert sorted(client.listdir()) == ["x", "y"]

"""A mount of a folder of this machine, made and ended as a user does it."""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fairlead.steer.forwarding.mount.process import control
from fairlead.steer.fs.fuse.mount_table import find_in_mount_table, probe_mount_folder
from mounting import DEADLINE_S, NOBODY, fairlead, local_mount, open_folder, take_off, wait_until

pytestmark = pytest.mark.fuse
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "greeting").write_text("hello\n")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "mount point"
    place.mkdir()
    yield place
    take_off(place)


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    place = tmp_path / "runtime"
    place.mkdir(mode=0o700)
    return place


def _live(runtime: Path, folder: Path) -> dict[str, object]:
    done = fairlead("mount", "--list", "--json", runtime=runtime)
    assert done.returncode == 0, done.stderr
    mounts = json.loads(done.stdout)["mounts"]
    return next((mount for mount in mounts if mount["mountpoint"] == str(folder)), {})


def _pid_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


def test_mounts_in_the_background_and_unmounts(source: Path, folder: Path, runtime: Path) -> None:
    done = fairlead("mount", "--local", source, folder, runtime=runtime)
    assert done.returncode == 0, done.stderr
    assert (folder / "greeting").read_text() == "hello\n"
    (folder / "new").write_bytes(b"x" * 3_000_000)
    assert (source / "new").read_bytes() == b"x" * 3_000_000
    known = _live(runtime, folder)
    assert known["state"] == "serving"
    assert known["source"] == str(source)
    assert isinstance(known["requests"], int)
    assert known["requests"] > 0
    pid = known["pid"]
    assert isinstance(pid, int)
    done = fairlead("umount", folder, runtime=runtime)
    assert done.returncode == 0, done.stderr
    assert find_in_mount_table(str(folder)) is None
    assert _pid_gone(pid)
    assert _live(runtime, folder) == {}
    assert list((runtime / "fairlead").iterdir()) == []


def test_paths_may_be_relative(source: Path, folder: Path, runtime: Path, tmp_path: Path) -> None:
    done = fairlead("mount", "--local", "source", "mount point", runtime=runtime, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (folder / "greeting").read_text() == "hello\n"
    done = fairlead("umount", "mount point", runtime=runtime, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(source: Path, folder: Path, tmp_path: Path, number: int) -> None:
    with local_mount(source, folder, state=tmp_path) as mount:
        assert (folder / "greeting").read_text() == "hello\n"
        assert mount.end(number) == 0, mount.said()
        assert not mount.mounted
        assert "Traceback" not in mount.said()


def test_a_signal_ends_it_although_a_file_is_open(source: Path, folder: Path, tmp_path: Path) -> None:
    with local_mount(source, folder, state=tmp_path) as mount:
        fd = os.open(folder / "greeting", os.O_RDONLY)
        try:
            assert mount.end() == 0, mount.said()
            assert not mount.mounted
            with pytest.raises(OSError, match=os.strerror(errno.ENOTCONN)):
                os.fstat(fd)
        finally:
            with suppress(OSError):
                os.close(fd)
        assert "Traceback" not in mount.said()


def test_a_removed_file_that_was_open_at_the_end_is_not_left(source: Path, folder: Path, tmp_path: Path) -> None:
    with local_mount(source, folder, state=tmp_path) as mount:
        fd = os.open(folder / "greeting", os.O_RDWR)
        (folder / "greeting").unlink()
        try:
            assert mount.end() == 0, mount.said()
        finally:
            with suppress(OSError):
                os.close(fd)
    with local_mount(source, folder, state=tmp_path) as mount:
        assert list(folder.iterdir()) == []
        assert mount.end() == 0
    assert not [path for path in source.rglob("*") if path.is_file()]


def test_a_killed_mount_is_shown_and_can_be_unmounted(source: Path, folder: Path, tmp_path: Path) -> None:
    with local_mount(source, folder, state=tmp_path) as mount:
        mount.kill()
        assert probe_mount_folder(str(folder), within_s=DEADLINE_S) == errno.ENOTCONN
        assert _live(mount.runtime, folder)["state"] == "dead"
        done = fairlead("umount", folder, runtime=mount.runtime)
        assert done.returncode == 0, done.stderr
        assert "was dead" in done.stderr
        assert not mount.mounted
        assert _live(mount.runtime, folder) == {}


def test_a_killed_mount_is_recovered_by_mounting_again(source: Path, folder: Path, tmp_path: Path) -> None:
    with local_mount(source, folder, state=tmp_path) as dead:
        dead.kill()
        with local_mount(source, folder, state=tmp_path) as mount:
            assert "took a dead mount off" in mount.said()
            assert (folder / "greeting").read_text() == "hello\n"


def test_a_busy_mount_is_only_unmounted_by_force(source: Path, folder: Path, tmp_path: Path) -> None:
    with local_mount(source, folder, state=tmp_path) as mount:
        with (folder / "greeting").open() as file:
            done = fairlead("umount", folder, runtime=mount.runtime)
            assert done.returncode == 8
            assert "open" in done.stderr
            assert "--force" in done.stderr
            assert file.read() == "hello\n"
            done = fairlead("umount", "--force", folder, runtime=mount.runtime)
            assert done.returncode == 0, done.stderr
            assert not mount.mounted
            file.seek(0)
            assert file.read() == "hello\n", "who has it open goes on"
        wait_until(lambda: mount.process.poll() is not None, "the process ends with the last file")
        assert mount.process.returncode == 0


def test_what_cannot_be_mounted_is_said(source: Path, folder: Path, runtime: Path, tmp_path: Path) -> None:
    inside = source / "inside"
    inside.mkdir()
    file = tmp_path / "file"
    file.touch()
    for arguments, word in [
        (["--local", source, tmp_path / "absent"], "no such folder"),
        (["--local", source, file], "not a directory"),
        (["--local", tmp_path / "absent", folder], "no such folder"),
        (["--local", file, folder], "not a directory"),
        (["--local", source, inside], "in one another"),
        (["--local", inside, source], "in one another"),
        (["--local", source, source], "in one another"),
        (["--local", source, folder, "--spool", folder / "spool"], "under the mount point"),
    ]:
        done = fairlead("mount", *arguments, runtime=runtime)
        assert done.returncode == 8, (arguments, done.stderr)
        assert word in done.stderr, arguments
        assert "Traceback" not in done.stderr
    for wrong in (["--local", source], ["--local", source, "a", "b"], [folder], ["nonsense", folder]):
        done = fairlead("mount", *wrong, runtime=runtime)
        assert done.returncode == 2, (wrong, done.stderr)
    done = fairlead("mount", f"unix:{tmp_path}/nobody.sock", folder, runtime=runtime)
    assert done.returncode == 8
    assert "no forwarder answers" in done.stderr
    assert find_in_mount_table(str(folder)) is None
    done = fairlead("umount", folder, runtime=runtime)
    assert done.returncode == 8
    assert "nothing is mounted" in done.stderr
    done = fairlead("umount", "/proc", runtime=runtime)
    assert done.returncode == 8
    assert "none of ours" in done.stderr


@pytest.mark.slow
def test_a_hung_mount_is_shown_and_taken_off_by_force(source: Path, folder: Path, tmp_path: Path) -> None:
    with local_mount(source, folder, state=tmp_path) as mount:
        mount.process.send_signal(signal.SIGSTOP)
        try:
            assert _live(mount.runtime, folder)["state"] == "silent"
            done = fairlead("mount", "--local", source, folder, runtime=mount.runtime)
            assert done.returncode == 8
            assert "does not answer" in done.stderr
            done = fairlead("umount", "--force", folder, runtime=mount.runtime)
            assert done.returncode == 0, done.stderr
            assert not mount.mounted
        finally:
            mount.process.send_signal(signal.SIGCONT)
        assert mount.process.wait(DEADLINE_S) == 0, mount.said()


def test_a_request_to_stop(source: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with local_mount(source, folder, state=tmp_path) as mount:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(mount.runtime))
        assert control.ask_mount_process(folder, {"do": "stop"}, timeout_s=DEADLINE_S) == {}
        assert mount.process.wait(DEADLINE_S) == 0, mount.said()
        assert not mount.mounted


def test_the_list_for_a_person(source: Path, folder: Path, tmp_path: Path, runtime: Path) -> None:
    with local_mount(source, folder, state=tmp_path) as mount:
        done = fairlead("mount", "--list", runtime=mount.runtime)
        assert done.returncode == 0, done.stderr
        for word in ("folder", "from", "serving", str(mount.process.pid)):
            assert word in done.stdout
        assert done.stderr == ""


def test_a_second_mount_on_the_folder_is_refused(source: Path, folder: Path, tmp_path: Path) -> None:
    with local_mount(source, folder, state=tmp_path) as mount:
        done = fairlead("mount", "--local", source, folder, runtime=mount.runtime)
        assert done.returncode == 8
        assert "already mounted" in done.stderr
        assert (folder / "greeting").read_text() == "hello\n"


def test_read_only(source: Path, folder: Path, tmp_path: Path) -> None:
    with local_mount(source, folder, "--read-only", state=tmp_path):
        assert (folder / "greeting").read_text() == "hello\n"
        with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
            (folder / "new").touch()


@pytest.mark.parametrize("option", ["--passthrough=auto", "--passthrough=off", "--cache"])
def test_data_and_sizes_are_right(source: Path, folder: Path, tmp_path: Path, option: str) -> None:
    with local_mount(source, folder, option, state=tmp_path):
        path = folder / "data"
        block = os.urandom(1 << 16)
        with path.open("wb+", buffering=0) as file:
            for index in range(40):
                assert file.write(block) == len(block)
                assert os.fstat(file.fileno()).st_size == (index + 1) << 16
            assert path.stat().st_size == 40 << 16
            os.pwrite(file.fileno(), b"end", 5_000_000)
            assert path.stat().st_size == 5_000_003
            assert os.pread(file.fileno(), 10, 4_999_997) == b"\0\0\0end"
            os.ftruncate(file.fileno(), 100_000)
            assert path.stat().st_size == 100_000
            assert (source / "data").stat().st_size == 100_000
        with path.open("ab", buffering=0) as first, path.open("ab", buffering=0) as second:
            first.write(b"1")
            second.write(b"2")
        assert path.stat().st_size == 100_002
        whole = path.read_bytes()
        assert whole == (source / "data").read_bytes()
        assert whole[-2:] == b"12"
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 8192) as memory:
            assert memory[:100] == block[:100]
            memory[:5] = b"HELLO"
            memory.flush()
        assert (source / "data").read_bytes()[:5] == b"HELLO"
        path.chmod(0o4755)
        with path.open("r+b", buffering=0) as file:
            file.write(b"x")
        path.unlink()
        assert not (source / "data").exists()


@pytest.mark.parametrize("option", ["--passthrough=auto", "--passthrough=off"])
def test_an_unlinked_open_file_goes_on(source: Path, folder: Path, tmp_path: Path, option: str) -> None:
    with local_mount(source, folder, option, state=tmp_path), (folder / "gone").open("w+b", buffering=0) as file:
        file.write(b"before")
        (folder / "gone").unlink()
        file.write(b"after")
        assert os.pread(file.fileno(), 100, 0) == b"beforeafter"
        assert os.fstat(file.fileno()).st_size == 11
        assert [path.name for path in folder.iterdir()] == ["greeting"]


@as_root
def test_passthrough_takes_reads_and_writes_out_of_the_mount(source: Path, folder: Path, tmp_path: Path) -> None:
    with local_mount(source, folder, "--spool", tmp_path / "spool", state=tmp_path) as mount:
        status = _live(mount.runtime, folder)["status"]
        assert isinstance(status, dict)
        if status["passthrough"] == "off":
            pytest.skip("this kernel has no FUSE passthrough")
        assert "opens and closes only" in mount.said()
        with (folder / "data").open("wb+", buffering=0) as file:
            before = _live(mount.runtime, folder)["requests"]
            assert isinstance(before, int)
            for _ in range(300):
                file.write(b"x" * 4096)
            assert os.pread(file.fileno(), 4096, 8192) == b"x" * 4096
            after = _live(mount.runtime, folder)["requests"]
            assert isinstance(after, int)
            status = _live(mount.runtime, folder)["status"]
            assert isinstance(status, dict)
            if status["passthrough"] != "on":
                pytest.skip(f"passthrough {status['passthrough']}")
            # A write clears what may make a file run as another user; the kernel asks for that, no more.
            assert after - before < 150, "writes came to the mount"
        assert (source / "data").stat().st_size == 300 * 4096


def test_many_threads_of_work(source: Path, folder: Path, tmp_path: Path) -> None:
    wrong: list[BaseException] = []

    def work(number: int) -> None:
        try:
            mine = folder / f"worker{number}"
            mine.mkdir()
            for index in range(40):
                path = mine / f"file{index}"
                path.write_bytes(bytes([number]) * (1000 + index))
                assert path.read_bytes() == bytes([number]) * (1000 + index)
                path.rename(mine / f"renamed{index}")
            assert {path.name for path in mine.iterdir()} == {f"renamed{index}" for index in range(40)}
        except (OSError, AssertionError) as error:
            wrong.append(error)

    with local_mount(source, folder, "--passthrough=off", state=tmp_path) as mount:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive()
        assert not wrong
        assert "Traceback" not in mount.said()


def test_a_slow_request_holds_up_nobody(source: Path, folder: Path, tmp_path: Path) -> None:
    """A lock that waits, and a hundred files meanwhile; then the lock is given back, and the waiter has it."""
    waiting = f"""
import fcntl
file = open({str(folder / "greeting")!r}, "r+")
print("waits", flush=True)
fcntl.lockf(file, fcntl.LOCK_EX)
print("has it", flush=True)
"""
    with (
        local_mount(source, folder, state=tmp_path) as mount,
        (folder / "greeting").open("r+") as file,
    ):
        fcntl.lockf(file, fcntl.LOCK_EX)
        with subprocess.Popen([sys.executable, "-c", waiting], stdout=subprocess.PIPE, text=True) as waiter:
            try:
                assert waiter.stdout is not None
                assert waiter.stdout.readline() == "waits\n"
                for index in range(100):
                    (folder / f"file{index}").write_text("x")
                assert waiter.poll() is None
                fcntl.lockf(file, fcntl.LOCK_UN)
                assert waiter.stdout.readline() == "has it\n"
                assert waiter.wait(DEADLINE_S) == 0
            finally:
                waiter.kill()
        assert "Traceback" not in mount.said()


def test_a_waiting_lock_can_be_interrupted(source: Path, folder: Path, tmp_path: Path) -> None:
    waiting = f"""
import fcntl
file = open({str(folder / "greeting")!r}, "r+")
print("waits", flush=True)
fcntl.flock(file, fcntl.LOCK_EX)
"""
    with local_mount(source, folder, state=tmp_path), (folder / "greeting").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with subprocess.Popen([sys.executable, "-c", waiting], stdout=subprocess.PIPE, text=True) as waiter:
            assert waiter.stdout is not None
            assert waiter.stdout.readline() == "waits\n"
            waiter.send_signal(signal.SIGTERM)
            assert waiter.wait(DEADLINE_S) == -signal.SIGTERM


@as_root
@pytest.mark.usefixtures("fuse_for_everybody")
def test_an_ordinary_user_mounts_through_fusermount() -> None:
    with open_folder() as place:
        for name in ("source", "mount", "state"):
            (place / name).mkdir()
            os.chown(place / name, NOBODY, NOBODY)
        runtime = place / "runtime"
        runtime.mkdir(mode=0o700)
        os.chown(runtime, NOBODY, NOBODY)
        mountpoint = place / "mount"
        try:
            done = fairlead("mount", "--local", place / "source", mountpoint, runtime=runtime, uid=NOBODY)
            assert done.returncode == 0, done.stderr
            script = f"echo hello > {mountpoint}/a && cat {mountpoint}/a && stat -c %u {mountpoint}/a"
            used = subprocess.run(
                ["sh", "-c", script],
                user=NOBODY,
                group=NOBODY,
                extra_groups=[],
                capture_output=True,
                text=True,
                check=False,
            )
            assert used.stdout.split() == ["hello", str(NOBODY)], used.stderr
            assert probe_mount_folder(str(mountpoint), within_s=DEADLINE_S) == errno.EACCES, "root may not look in"
            listed = json.loads(fairlead("mount", "--list", "--json", runtime=runtime, uid=NOBODY).stdout)["mounts"]
            assert [one["state"] for one in listed if one["mountpoint"] == str(mountpoint)] == ["serving"]
            pid = next(one["pid"] for one in listed if one["mountpoint"] == str(mountpoint))
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: _pid_gone(pid), "the mount process is gone")
            done = fairlead("umount", mountpoint, runtime=runtime, uid=NOBODY)
            assert done.returncode == 0, done.stderr
            assert find_in_mount_table(str(mountpoint)) is None
            done = fairlead("mount", "--local", place / "source", "/usr", runtime=runtime, uid=NOBODY)
            assert done.returncode == 8
            assert "Traceback" not in done.stderr
        finally:
            take_off(mountpoint)


@as_root
def test_other_users_act_as_themselves(source: Path, tmp_path: Path) -> None:
    with open_folder() as place:
        (place / "mount").mkdir()
        (place / "source").mkdir()
        (place / "source").chmod(0o1777)
        (place / "source" / "secret").write_text("root's")
        (place / "source" / "secret").chmod(0o600)
        with local_mount(place / "source", place / "mount", state=tmp_path):
            script = f"cd {place}/mount && echo x > mine && ! cat secret 2>/dev/null && stat -c %u mine"
            used = subprocess.run(
                ["sh", "-c", script],
                user=NOBODY,
                group=NOBODY,
                extra_groups=[],
                capture_output=True,
                text=True,
                check=False,
            )
            assert used.stdout.split() == [str(NOBODY)], used.stderr
            assert (place / "source" / "mine").stat().st_uid == NOBODY


def test_the_control_socket_survives_nonsense(source: Path, folder: Path, tmp_path: Path) -> None:
    import socket

    with local_mount(source, folder, state=tmp_path) as mount:
        place = next((mount.runtime / "fairlead").glob("*.sock"))
        fd = os.open(place.parent, os.O_PATH)
        try:
            for text in (
                b"",
                b"\n",
                b"{}\n",
                b"[1]\n",
                b"\xff\xfe\n",
                b'{"do": "remap"}\n',
                b'{"do": 7}\n',
                b"x" * 100_000,
            ):
                with socket.socket(socket.AF_UNIX) as sock:
                    sock.connect(f"/proc/self/fd/{fd}/{place.name}")
                    try:
                        sock.sendall(text)
                        sock.shutdown(socket.SHUT_WR)
                        said = sock.recv(1 << 16)
                    except OSError:
                        continue
                    assert b"error" in said
        finally:
            os.close(fd)
        assert _live(mount.runtime, folder)["state"] == "serving"
        assert (place.parent.stat().st_mode & 0o777) == 0o700
        assert "Traceback" not in mount.said()


def test_state_files_are_not_put_where_others_may_write(source: Path, folder: Path, runtime: Path) -> None:
    (runtime / "fairlead").mkdir(mode=0o777)
    (runtime / "fairlead").chmod(0o777)
    done = fairlead("mount", "--local", source, folder, runtime=runtime)
    assert done.returncode == 8
    assert "open to others" in done.stderr
    assert find_in_mount_table(str(folder)) is None


def test_a_tree_over_storage_targets(folder: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    table = tmp_path / "targets.toml"
    table.write_text(
        f'[metadata]\nstore = "{tmp_path}/store"\n[layout]\nstripe_count = 2\nstripe_size = "64k"\n'
        f'[[targets]]\nname = "one"\npath = "{tmp_path}/one"\n[[targets]]\nname = "two"\npath = "{tmp_path}/two"\n'
    )
    with local_mount(Path(f"targets:{table}"), folder, state=tmp_path) as mount:
        data = os.urandom(1_000_000)
        (folder / "striped").write_bytes(data)
        assert (folder / "striped").read_bytes() == data
        assert (folder / "striped").stat().st_size == len(data)
        assert mount.end() == 0, mount.said()

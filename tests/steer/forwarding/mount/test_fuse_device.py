"""What is known of mounts without making one: the kernel's table, INIT, errors of opening, map files, control."""

from __future__ import annotations

import errno
import os
import socket
import threading
from pathlib import Path

import pytest

from fairlead.core.errors import ConfigError, MountError, UnreachableError
from fairlead.steer.forwarding.mount.local.lock_waiters import ParkedLock, WaitingLocks
from fairlead.steer.forwarding.mount.process import control, map_file
from fairlead.steer.forwarding.mount.process.control import Control, MountRecord
from fairlead.steer.fs.fuse import abi, device, negotiation
from fairlead.steer.fs.fuse import mount_table as mounted
from fairlead.steer.fs.fuse.abi import Init
from waiting import PATIENCE_S

TABLE = """\
22 26 0:20 / /proc rw,nosuid - proc proc rw
30 26 0:40 / /mnt/a\\040b rw,relatime shared:3 master:1 - fuse.fairlead fairlead:unix:/run/x\\134y rw,user_id=0
31 26 0:41 / /mnt/plain ro - ext4 /dev/sda1 rw
32 31 0:42 / /mnt/plain rw - fuse.fairlead fairlead rw
not a line
33 26 0:43 / /odd rw - only
"""


def test_the_kernels_table_is_read(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(TABLE)
    found = mounted.read_mount_table(table)
    assert [mount.path for mount in found] == ["/proc", "/mnt/a b", "/mnt/plain", "/mnt/plain"]
    assert found[1].source == "fairlead:unix:/run/x\\y"
    uppermost = mounted.find_in_mount_table("/mnt/plain", table)
    assert uppermost is not None
    assert uppermost.fs_type == mounted.FS_TYPE
    assert mounted.find_in_mount_table("/mnt", table) is None
    assert [mount.path for mount in mounted.list_mount_table(table)] == ["/mnt/a b", "/mnt/plain"]


def test_a_mount_point_is_named_without_asking_it(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "again").symlink_to(tmp_path / "link")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("real", "link", "again", "link/.", "real/../link"):
        assert mounted.resolve_mountpoint(tmp_path / name) == str(real), name
    assert mounted.resolve_mountpoint(tmp_path / "absent") == str(tmp_path / "absent")
    assert mounted.resolve_mountpoint(tmp_path / "loop") == str(tmp_path / "loop")
    assert mounted.resolve_mountpoint("/") == "/"


def test_whether_a_folder_answers(tmp_path: Path) -> None:
    assert mounted.probe_mount_folder(str(tmp_path), within_s=60) == 0
    assert mounted.probe_mount_folder(str(tmp_path / "absent"), within_s=60) == errno.ENOENT


def _init(major: int = 7, minor: int = 45, flags: int = (1 << 64) - 1) -> memoryview:
    return memoryview(abi.INIT_IN.pack(major, minor, 131072, flags & 0xFFFFFFFF, flags >> 32) + bytes(44))


def test_features_are_agreed_on() -> None:
    reply, session = negotiation.negotiate_fuse_init(_init())
    assert session is not None
    assert session.flags == negotiation.WANTED
    assert not session.passthrough
    assert session.max_write == abi.MAX_WRITE
    assert len(reply) == 64
    fields = abi.INIT_OUT.unpack_from(reply)
    assert fields[:2] == (abi.MAJOR, abi.MINOR)
    assert fields[3] | fields[10] << 32 == session.flags
    assert fields[8] == abi.MAX_PAGES
    assert fields[11] == 0, "no passthrough, no stacking"
    reply, session = negotiation.negotiate_fuse_init(_init(), extra=Init.PASSTHROUGH)
    assert session is not None
    assert session.passthrough
    assert abi.INIT_OUT.unpack_from(reply)[11] == 1


def test_an_older_kernel_gets_what_it_knows() -> None:
    old = Init.ASYNC_READ | Init.BIG_WRITES | Init.POSIX_LOCKS
    reply, session = negotiation.negotiate_fuse_init(_init(minor=31, flags=int(old)), extra=Init.PASSTHROUGH)
    assert session is not None
    assert session.flags == old
    assert session.max_write == 32 * abi.PAGE
    assert abi.INIT_OUT.unpack_from(reply)[10] == 0
    with pytest.raises(MountError, match="too old"):
        negotiation.negotiate_fuse_init(_init(minor=12))
    with pytest.raises(MountError, match="cut off"):
        negotiation.negotiate_fuse_init(memoryview(b"1234"))
    reply, session = negotiation.negotiate_fuse_init(_init(major=8))
    assert session is None, "it asks again with our version"
    assert abi.INIT_OUT.unpack_from(reply)[0] == 7


def test_the_first_exchange() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        body = bytes(_init())
        ours.send(abi.IN_HEADER.pack(40 + len(body), abi.Op.INIT, 2, 0, 0, 0, 0, 0, 0) + body)
        assert negotiation.answer_fuse_init(theirs.fileno()).minor == 45
        length, error, unique = abi.OUT_HEADER.unpack_from(ours.recv(1000))
        assert (length, error, unique) == (80, 0, 2)
        ours.send(abi.IN_HEADER.pack(40, abi.Op.GETATTR, 4, 0, 0, 0, 0, 0, 0))
        with pytest.raises(MountError, match="began with request 3"):
            negotiation.answer_fuse_init(theirs.fileno())


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, word in (("absent", "no such folder"), ("file", "not a directory")):
        with pytest.raises(MountError, match=word):
            device.open_fuse_device(tmp_path / name)


def test_a_machine_without_fuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "DEVICE", str(tmp_path / "fuse"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(MountError, match="there is no /dev/fuse") as caught:
        device.open_fuse_device(tmp_path)
    assert "modprobe fuse" in str(caught.value)


def test_a_user_without_fusermount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MountError, match="only root can mount") as caught:
        device.open_fuse_device(tmp_path)
    assert "fuse3" in str(caught.value)


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("fusermount3: option allow_other only allowed if 'user_allow_other' is set in fuse.conf", "--allow-other"),
        ("fusermount3: fuse device /dev/fuse not found. Kernel module not loaded?", "modprobe"),
        ("fusermount3: user has no write access to mountpoint /usr", "yours"),
        ("fusermount3: mount failed: Operation not permitted", "set-uid"),
        ("", "host check"),
    ],
)
def test_what_fusermount_says_is_passed_on(
    said: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "fusermount3"
    program.write_text(f'#!/bin/sh\necho "{said}" >&2\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MountError, match="fusermount3 refuses") as caught:
        device.open_fuse_device(tmp_path)
    assert remedy in str(caught.value)


def test_a_map_file_names_the_forwarders_of_a_node(tmp_path: Path) -> None:
    path = tmp_path / "map"
    path.write_text("# site\nc[001-016,020],login* unix:/a,tcp:b:1  # first\n\nc17 unix:/c\n* unix:/d\n")
    for node, addresses in [
        ("c001", ["unix:/a", "tcp:b:1"]),
        ("c016.cluster", ["unix:/a", "tcp:b:1"]),
        ("c020", ["unix:/a", "tcp:b:1"]),
        ("login-2", ["unix:/a", "tcp:b:1"]),
        ("c17", ["unix:/c"]),
        ("c1", ["unix:/d"]),
        ("c021", ["unix:/d"]),
        ("xc001", ["unix:/d"]),
    ]:
        assert map_file.read_map_file(path, node) == addresses, node
    path.write_text("c1 unix:/a more\n")
    with pytest.raises(ConfigError, match="NODES ADDRESS"):
        map_file.read_map_file(path, "c1")
    path.write_text("c1 unix:/a\n")
    with pytest.raises(ConfigError, match="no line names this node, c2"):
        map_file.read_map_file(path, "c2")
    with pytest.raises(ConfigError, match="cannot be read"):
        map_file.read_map_file(tmp_path / "absent", "c2")


def test_a_lock_request_is_answered_once() -> None:
    waiting = WaitingLocks()
    request = ParkedLock(8, 2, 0, 0, 0, 0, b"")
    assert waiting.park(request)
    assert waiting.interrupt(8)
    assert not waiting.interrupt(8), "the second finds nothing"
    assert not waiting.park(request), "interrupted while it was tried again"
    assert waiting.park(request)
    assert waiting.take_locks() == [request]
    assert len(waiting) == 0
    for unique in range(1000, 3000):
        assert not waiting.interrupt(unique)
    assert waiting.park(request._replace(unique=1000)), "old interrupts are dropped"
    assert not waiting.park(request._replace(unique=2999))


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def _record(path: str, pid: int | None = None) -> MountRecord:
    pid = os.getpid() if pid is None else pid
    return MountRecord(mountpoint=path, source="/tree", pid=pid, born=control.read_start_ticks(pid), started_ns=1)


def test_a_mount_answers_on_its_socket(runtime: Path, tmp_path: Path) -> None:
    folder = str(tmp_path / "mount")

    def perform(request: dict[str, object]) -> object:
        if request.get("do") == "status":
            return {"state": "serving", "requests": 5}
        raise MountError("cannot", where=folder, remedy="something else")

    place = Control(_record(folder), perform)

    def serve() -> None:
        for _ in range(3):
            place.answer()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert control.ask_mount_process(folder, {"do": "status"}, timeout_s=60) == {"state": "serving", "requests": 5}
    with pytest.raises(MountError, match="cannot"):
        control.ask_mount_process(folder, {"do": "dance"}, timeout_s=60)
    listed = next(mount for mount in control.list_mounts() if mount.mountpoint == folder)
    assert (listed.state, listed.requests, listed.source) == ("serving", 5, "/tree")
    thread.join(PATIENCE_S)
    place.close()
    assert list((runtime / "fairlead").iterdir()) == []
    with pytest.raises(MountError, match="no mount of yours"):
        control.ask_mount_process(folder, {"do": "status"})


def test_what_a_dead_process_left_is_removed(runtime: Path, tmp_path: Path) -> None:
    folder = str(tmp_path / "mount")
    left = Control(MountRecord(mountpoint=folder, source="/tree", pid=os.getpid(), born=1, started_ns=1), lambda _: {})
    record = control.read_mount_state(folder)
    assert record is not None
    assert not record.is_alive(), "the number is used again by another process"
    assert folder not in [mount.mountpoint for mount in control.list_mounts()]
    assert list((runtime / "fairlead").iterdir()) == []
    left.close()
    assert control.read_start_ticks(0) == 0


def test_a_socket_nobody_serves(runtime: Path, tmp_path: Path) -> None:
    folder = str(tmp_path / "mount")
    place = Control(_record(folder), lambda _: {})
    with pytest.raises(UnreachableError, match="does not answer"):
        control.ask_mount_process(folder, {"do": "status"}, timeout_s=0.05)
    place.close()


def test_state_is_kept_from_others(runtime: Path) -> None:
    (runtime / "fairlead").mkdir(mode=0o700)
    assert control.open_state_folder() == runtime / "fairlead"
    (runtime / "fairlead").chmod(0o750)
    with pytest.raises(MountError, match="open to others"):
        control.open_state_folder()
    (runtime / "fairlead").rmdir()
    (runtime / "fairlead").symlink_to("/tmp")
    with pytest.raises(MountError):
        control.open_state_folder()

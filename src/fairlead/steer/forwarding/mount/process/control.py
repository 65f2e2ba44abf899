"""The mounts on this machine and how to ask one: a state file and a unix control socket for each.

A request is one line of JSON, `{"do": "status"}`, `{"do": "remap", "addresses": [...]}`, `{"do": "stop"}`,
`{"do": "record", "on": false}`; so is the answer, `{"ok": ...}` or
`{"error": {"what", "where", "remedy"}}`. Only the user may enter the folder of files and sockets.
"""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from fairlead.core.errors import FairleadError, MountError, UnreachableError
from fairlead.steer.fs.fuse.mount_table import list_mount_table, resolve_mountpoint
from fairlead.steer.fs.wire.address import parse_address

_LINE_BYTES = 1 << 16
_PATIENCE_S = 5.0
REMAP_WITHIN_S = 40.0
"""Longer than a mount itself waits for the requests its old forwarder still has."""
_ANSWER_S = 10.0
"""A mount that has not answered by then is shown as silent."""
ControlRequest = dict[str, Any]


class MountRecord(msgspec.Struct, frozen=True):
    """The state file of a mount process: folder, source, process, its start (clock ticks since boot; ns), log."""

    mountpoint: str
    source: str
    pid: int
    born: int
    started_ns: int
    log: str = ""

    def is_alive(self) -> bool:
        """Whether that very process runs: a process id is used again, its start time is not."""
        return read_start_ticks(self.pid) == self.born


class ListedMount(msgspec.Struct, frozen=True):
    """A mount as `fairlead mount --list` shows it. `state`: what the mount reports; dead, silent or foreign."""

    mountpoint: str
    source: str
    state: str
    pid: int | None = None
    started_ns: int | None = None
    requests: int | None = None
    status: dict[str, Any] | None = None


def read_start_ticks(pid: int) -> int:
    """The start of a process in clock ticks since boot; 0 if there is none, or only a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    return 0 if fields[0] in "ZX" else int(fields[19])


def open_state_folder() -> Path:
    """The folder of state files and control sockets, created if absent. `MountError` if others may enter it."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.path.isdir(runtime):
        folder = Path(runtime) / "fairlead"
    elif os.geteuid() == 0:
        folder = Path("/run/fairlead")
    else:
        folder = Path(f"/tmp/fairlead-{os.geteuid()}")  # noqa: S108 (made 0700, its owner is checked)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise MountError(
            f"no folder for state files: {error.strerror}", where=str(folder), remedy="set XDG_RUNTIME_DIR"
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise MountError(
            "the folder of state files is open to others", where=str(folder), remedy=f"chmod 700 {folder}, or remove it"
        )
    return folder


def read_mount_state(mountpoint: str) -> MountRecord | None:
    """The state file of the mount process on that folder, alive or not."""
    return _read(_file(mountpoint))


def build_mount_log_path(mountpoint: str) -> Path:
    """The log of a mount process in the background."""
    return _file(mountpoint).with_suffix(".log")


def ask_mount_process(mountpoint: str | Path, request: ControlRequest, *, timeout_s: float = _PATIENCE_S) -> Any:
    """Sends the mount on that folder a request and returns its answer. Raises `MountError` (no such mount, or the error
    it answers with), `UnreachableError` (no answer within `timeout_s`)."""
    path = resolve_mountpoint(mountpoint)
    record = read_mount_state(path)
    if record is None:
        raise MountError("no mount of yours is known there", where=path, remedy="fairlead mount --list")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock, _Near(open_state_folder()) as near:
            sock.settimeout(timeout_s)
            sock.connect(f"{near}/{_name(path)}.sock")
            sock.sendall(msgspec.json.encode(request) + b"\n")
            line = _line(sock)
        answer = msgspec.json.decode(line, type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise UnreachableError(
            f"the mount process does not answer: {error}", where=path, remedy=f"fairlead umount --force {path}"
        ) from error
    if "error" in answer:
        said = answer["error"]
        raise MountError(said.get("what", "refused"), where=said.get("where"), remedy=said.get("remedy"))
    return answer.get("ok")


class Control:
    """The control socket and state file of this process's mount. Poll `fileno`, then call `answer`."""

    def __init__(self, record: MountRecord, perform: Callable[[ControlRequest], Any]) -> None:
        """`perform` carries out a request and returns the answer, or raises `FairleadError`."""
        self._perform = perform
        self._file = _file(record.mountpoint)
        self._path = self._file.with_suffix(".sock")
        self._path.unlink(missing_ok=True)
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _Near(self._path.parent) as near:
            self._sock.bind(f"{near}/{self._path.name}")
        self._sock.listen(16)
        self._inode = self._path.stat().st_ino
        fresh = self._file.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(record))
        fresh.replace(self._file)

    def fileno(self) -> int:
        """Readable when a request is waiting."""
        return self._sock.fileno()

    def answer(self) -> None:
        """Accepts one caller. A thread answers, so that a slow request (a remap) delays no other."""
        connection, _ = self._sock.accept()
        threading.Thread(target=self._converse, args=(connection,), name="control", daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        """One request, one answer. A caller that sends nothing, or leaves, is dropped."""
        with connection:
            connection.settimeout(_PATIENCE_S)
            try:
                line = _line(connection)
                connection.sendall(msgspec.json.encode(self._reply(line)) + b"\n")
            except OSError:
                return

    def close(self) -> None:
        """Removes the socket and the state file, unless they are another mount's by now."""
        self._sock.close()
        try:
            if self._path.stat().st_ino != self._inode:
                return
        except OSError:
            return
        for path in (self._path, self._file):
            path.unlink(missing_ok=True)
        log = self._file.with_suffix(".log")
        if log.exists() and log.stat().st_size == 0:
            log.unlink(missing_ok=True)

    def _reply(self, line: bytes) -> dict[str, Any]:
        try:
            request = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError as error:
            return {"error": {"what": f"no request: {error}"}}
        try:
            return {"ok": self._perform(request)}
        except FairleadError as error:
            return {"error": {"what": error.what, "where": error.where, "remedy": error.remedy}}


def remap_mount(folder: str | Path, addresses: Sequence[str], *, within_s: float = REMAP_WITHIN_S) -> str:
    """Has a mount process move to other forwarders (`recovery.failover`) and returns the address it is at then. Raises
    `MountError`, `UnreachableError`, `UsageError` (an invalid address)."""
    wanted = [str(parse_address(text)) for text in addresses]
    answer = ask_mount_process(folder, {"do": "remap", "addresses": wanted}, timeout_s=within_s)
    if not isinstance(answer, dict) or not isinstance(answer.get("forwarder"), str):
        raise UnreachableError("the mount process answered something else", where=str(folder))
    return str(answer["forwarder"])


def list_mounts() -> list[ListedMount]:
    """Every mount of fairlead this user can see; state files of mounts that are gone are removed."""
    try:
        folder = open_state_folder()
        records = {record.mountpoint: record for file in sorted(folder.glob("*.json")) if (record := _read(file))}
    except MountError:
        records = {}
    table = {mount.path: mount.source for mount in list_mount_table()}
    found = []
    for path, record in records.items():
        if path in table or record.is_alive():
            found.append(_asked(record))
        else:
            _forget(path)
    found += [
        ListedMount(mountpoint=path, source=source.removeprefix("fairlead:"), state="foreign")
        for path, source in table.items()
        if path not in records
    ]
    return sorted(found, key=lambda mount: mount.mountpoint)


def _asked(record: MountRecord) -> ListedMount:
    """A mount with the status it reports, if it runs and answers."""
    state, status = "dead", None
    if record.is_alive():
        try:
            status = ask_mount_process(record.mountpoint, {"do": "status"}, timeout_s=_ANSWER_S)
            state = str(status.get("state", "serving"))
        except (MountError, UnreachableError):
            state = "silent"
    return ListedMount(
        mountpoint=record.mountpoint,
        source=record.source,
        state=state,
        pid=record.pid,
        started_ns=record.started_ns,
        requests=None if status is None else status.get("requests"),
        status=status,
    )


def _forget(mountpoint: str) -> None:
    file = _file(mountpoint)
    for path in (file, file.with_suffix(".sock"), file.with_suffix(".log")):
        path.unlink(missing_ok=True)


def forget_dead_mount(mountpoint: str) -> None:
    """Removes the state of a mount whose process has gone."""
    record = read_mount_state(mountpoint)
    if record is not None and not record.is_alive():
        _forget(mountpoint)


def _read(file: Path) -> MountRecord | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=MountRecord)
    except (OSError, msgspec.DecodeError):
        return None


def _name(mountpoint: str) -> str:
    return blake2b(os.fsencode(mountpoint), digest_size=8).hexdigest()


def _file(mountpoint: str) -> Path:
    return open_state_folder() / f"{_name(mountpoint)}.json"


def _line(sock: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n") and len(line) < _LINE_BYTES:
        part = sock.recv(_LINE_BYTES)
        if not part:
            break
        line += part
    return line


class _Near:
    """A short path of a folder, for its sockets: the path of a unix socket has at most 107 bytes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fd = -1

    def __enter__(self) -> str:
        self._fd = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._fd}"

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

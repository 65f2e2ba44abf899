"""A client without FUSE: files behind forwarders for a program that asks for them by name. The wire is a mount's.

One request at a time on one connection; threads that share a client wait for each other. A lost forwarder is replaced
by the next address, as in a mount.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import threading
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from fairlead.core.clock import monotonic_ns, monotonic_s, sleep_s
from fairlead.core.errors import RefusedError, UnreachableError
from fairlead.steer.fs.client.client_file import ClientFile
from fairlead.steer.fs.client.dial import Dial
from fairlead.steer.fs.client.file_status import FileStatus, build_file_status_change, parse_file_status
from fairlead.steer.fs.client.held_state import Holdings
from fairlead.steer.fs.client.job_identity import Jobs
from fairlead.steer.fs.client.link import Link, LinkLostError
from fairlead.steer.fs.client.node_names import Nodes
from fairlead.steer.fs.client.own_requests import (
    build_own_job_request,
    build_own_place_request,
    build_own_reopen_request,
    exchange_own_request,
    send_own_farewell,
)
from fairlead.steer.fs.client.reclaim import reclaim_open_files
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import Op, Valid
from fairlead.steer.fs.os_errors import build_os_error
from fairlead.steer.fs.wire.frames import HEAD_BYTES, MAX_FRAME, PREFIX_BYTES, REPLY, Flag, Refusal

if TYPE_CHECKING:
    from fairlead.steer.fs.trace.recorder import Trace

_RETRY, _SLOT = int(Flag.RETRY), int(Flag.SLOT)
_MOST_LINKS = 40
_FOLDER_NS = 1_000_000_000
_MODES = {
    "r": os.O_RDONLY,
    "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "a": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    "x": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
}
_LISTED_BYTES = 128 << 10


class Client:
    """A session at one of several forwarders of a tree. Paths are relative to the tree's root."""

    def __init__(self, dial: Dial, *, trace: Trace | None = None, jobs: Jobs | None = None, patience_s: float = 60.0):
        self._dial = dial
        self._jobs = Jobs(node=dial.node) if jobs is None else jobs
        self._trace = trace
        if trace is not None:
            trace.identities = self._jobs.identities
        self._patience_s = patience_s
        self._ids = count(1)
        self._numbers = count(1)
        self._nodes = Nodes()
        self._holdings = Holdings()
        self._folders: dict[tuple[int, bytes], tuple[int, int]] = {}
        self._lock = threading.RLock()
        self._who = (os.geteuid(), os.getegid())
        self._link: Link | None = Link(dial.connect_any())
        self._announced: set[int] = set()

    @classmethod
    def connect(
        cls,
        addresses: Sequence[str] | str,
        *,
        token: str = "",
        job: str = "",
        trace: Trace | None = None,
        patience_s: float = 60.0,
        checksum: bool = False,
    ) -> Client:
        """A client of the first of these forwarders that answers. UnreachableError or RefusedError."""
        wanted = addresses.split(",") if isinstance(addresses, str) else addresses
        dial = Dial(wanted, token=token, mount="library", slots=2, checksum=checksum)
        return cls(dial, trace=trace, jobs=Jobs(job=job, node=dial.node), patience_s=patience_s)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session: what is still open is closed by the forwarder."""
        with self._lock:
            if self._link is not None:
                with suppress(LinkLostError):
                    send_own_farewell(self._link, self._ids)
                self._link.close()
                self._link = None

    @property
    def address(self) -> str:
        """The forwarder that serves it now."""
        return "" if self._link is None else str(self._link.connection.address)

    # -- files -------------------------------------------------------------------------------------------------

    def open(self, path: str, mode: str = "rb", *, permissions: int = 0o644) -> ClientFile:
        """An unbuffered binary file: modes r, w, a and x, with `b` and `+` allowed."""
        letters = mode.replace("b", "")
        flags = _MODES.get(letters.replace("+", ""))
        if flags is None:
            raise ValueError(f"mode {mode!r}: r, w, a or x, with + or not")
        if "+" in letters:
            flags = flags & ~os.O_ACCMODE | os.O_RDWR
        return self.open_flags(path, flags, permissions)

    def open_flags(self, path: str, flags: int, permissions: int = 0o644) -> ClientFile:
        """As os.open."""
        handle = next(self._numbers)
        if flags & os.O_CREAT:
            parent, name = self._parent(path)
            node = None if flags & os.O_EXCL else self._existing(parent, name)
            if node is None:
                fixed = abi.CREATE_IN.pack(flags, stat.S_IFREG | permissions, 0, 0)
                body = self.request(Op.CREATE, parent, fixed + name + b"\0", chosen=handle)
                (node,) = abi.FORGET_IN.unpack_from(body)
                self._nodes.record_lookup(node, parent, name)
                self._holdings.record_open(handle, node, flags)
                return ClientFile(self, path, node, handle, flags)
        else:
            node = self._walk(path)
        self.request(Op.OPEN, node, abi.OPEN_IN.pack(flags & ~(os.O_CREAT | os.O_EXCL), 0), chosen=handle)
        self._holdings.record_open(handle, node, flags)
        return ClientFile(self, path, node, handle, flags)

    def close_handle(self, node: int, handle: int, flags: int) -> None:
        """A `ClientFile` was closed."""
        try:
            self.request(Op.FLUSH, node, abi.FLUSH_IN.pack(handle, 0, 0, 0), handle=handle)
        finally:
            self.request(Op.RELEASE, node, abi.RELEASE_IN.pack(handle, flags, 0, 0), handle=handle)
            self._holdings.record_release(handle)

    def stat(self, path: str, *, follow: bool = True) -> FileStatus:
        """As os.stat, or os.lstat."""
        return self.stat_node(self._walk(path, follow=follow))

    def stat_node(self, node: int) -> FileStatus:
        """Attributes of a node."""
        return parse_file_status(self.request(Op.GETATTR, node, abi.GETATTR_IN.pack(0, 0, 0)), abi.ATTR_OUT.size)

    def exists(self, path: str) -> bool:
        """Whether there is something of that name."""
        try:
            self._walk(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def truncate(self, path: str, size: int) -> None:
        """As os.truncate."""
        self.set_size(self._walk(path), size)

    def set_size(self, node: int, size: int) -> None:
        """Sets the size of a node."""
        self.request(Op.SETATTR, node, build_file_status_change(Valid.SIZE, size=size))

    def chmod(self, path: str, mode: int) -> None:
        """As os.chmod."""
        self.request(Op.SETATTR, self._walk(path), build_file_status_change(Valid.MODE, mode=mode))

    # -- names -------------------------------------------------------------------------------------------------

    def listdir(self, path: str = "") -> list[str]:
        """Names in a directory, without `.` and `..`."""
        node, handle = self._walk(path), next(self._numbers)
        self.request(Op.OPENDIR, node, abi.OPEN_IN.pack(os.O_DIRECTORY, 0), chosen=handle)
        self._holdings.record_open(handle, node, os.O_DIRECTORY, directory=True)
        names: list[str] = []
        offset = 0
        try:
            while True:
                fixed = abi.READ_IN.pack(handle, offset, _LISTED_BYTES, 0, 0, 0, 0)
                body = self.request(Op.READDIR, node, fixed, handle=handle)
                if not body:
                    return [name for name in names if name not in (".", "..")]
                at = 0
                while at + abi.DIRENT.size <= len(body):
                    _, offset, length, _ = abi.DIRENT.unpack_from(body, at)
                    begin = at + abi.DIRENT.size
                    names.append(os.fsdecode(body[begin : begin + length]))
                    at += (abi.DIRENT.size + length + 7) & ~7
        finally:
            self.request(Op.RELEASEDIR, node, abi.RELEASE_IN.pack(handle, 0, 0, 0), handle=handle)
            self._holdings.record_release(handle)

    def mkdir(self, path: str, mode: int = 0o755) -> None:
        """As os.mkdir."""
        parent, name = self._parent(path)
        self._made(self.request(Op.MKDIR, parent, abi.MKDIR_IN.pack(mode, 0) + name + b"\0"), parent, name)

    def makedirs(self, path: str) -> None:
        """As os.makedirs with exist_ok."""
        done = ""
        for part in _parts(path):
            done = f"{done}/{os.fsdecode(part)}"
            try:
                self.mkdir(done)
            except FileExistsError:
                continue

    def symlink(self, target: str, path: str) -> None:
        """As os.symlink."""
        parent, name = self._parent(path)
        body = self.request(Op.SYMLINK, parent, name + b"\0" + os.fsencode(target) + b"\0")
        self._made(body, parent, name)

    def readlink(self, path: str) -> str:
        """As os.readlink."""
        return os.fsdecode(self.request(Op.READLINK, self._walk(path, follow=False)))

    def link(self, path: str, new_path: str) -> None:
        """As os.link."""
        node = self._walk(path, follow=False)
        parent, name = self._parent(new_path)
        self._made(self.request(Op.LINK, parent, abi.LINK_IN.pack(node) + name + b"\0"), parent, name)

    def unlink(self, path: str) -> None:
        """As os.unlink."""
        parent, name = self._parent(path)
        self.request(Op.UNLINK, parent, name + b"\0")
        self._nodes.remove_name(parent, name)

    def rmdir(self, path: str) -> None:
        """As os.rmdir."""
        parent, name = self._parent(path)
        self.request(Op.RMDIR, parent, name + b"\0")
        self._folders.clear()
        self._nodes.remove_name(parent, name)

    def rename(self, path: str, new_path: str) -> None:
        """As os.rename."""
        parent, name = self._parent(path)
        new_parent, new_name = self._parent(new_path)
        fixed = abi.RENAME_IN.pack(new_parent)
        self.request(Op.RENAME, parent, fixed + name + b"\0" + new_name + b"\0")
        self._folders.clear()
        self._nodes.move_name(parent, name, new_parent, new_name)

    # -- paths -------------------------------------------------------------------------------------------------

    def _parent(self, path: str) -> tuple[int, bytes]:
        *folders, name = _parts(path) or [b""]
        if not name:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        return self._walk(os.fsdecode(b"/".join(folders))), name

    def _existing(self, parent: int, name: bytes) -> int | None:
        try:
            node, mode = self._look(parent, name)
        except FileNotFoundError:
            return None
        return self._followed(parent, node, 0) if stat.S_ISLNK(mode) else node

    def _walk(self, path: str, *, follow: bool = True, start: int = abi.ROOT, depth: int = 0) -> int:
        node = start
        parts = _parts(path)
        for place, name in enumerate(parts):
            last = place == len(parts) - 1
            known = self._folders.get((node, name))
            if known is not None and monotonic_ns() < known[1] and not last:
                node = known[0]
                continue
            found, mode = self._look(node, name)
            if stat.S_ISLNK(mode) and (follow or not last):
                found = self._followed(node, found, depth)
            elif stat.S_ISDIR(mode):
                self._folders[node, name] = (found, monotonic_ns() + _FOLDER_NS)
            node = found
        return node

    def _look(self, parent: int, name: bytes) -> tuple[int, int]:
        body = self.request(Op.LOOKUP, parent, name + b"\0")
        node = self._made(body, parent, name)
        return node, parse_file_status(body, abi.ENTRY.size).st_mode

    def _made(self, body: bytes, parent: int, name: bytes) -> int:
        (node,) = abi.FORGET_IN.unpack_from(body)
        if not node:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(name))
        self._nodes.record_lookup(node, parent, name)
        return int(node)

    def _followed(self, parent: int, node: int, depth: int) -> int:
        if depth >= _MOST_LINKS:
            raise build_os_error(errno.ELOOP)
        target = os.fsdecode(self.request(Op.READLINK, node))
        return self._walk(target, start=abi.ROOT if target.startswith("/") else parent, depth=depth + 1)

    # -- requests ----------------------------------------------------------------------------------------------

    def request(self, op: int, node: int, body: bytes = b"", *, chosen: int = 0, handle: int = 0) -> bytes:
        """Any request but READ and WRITE: the body of its answer, or OSError."""
        started = monotonic_ns()
        with self._lock:
            number = next(self._ids)
            message = self._message(op, number, node, body)
            error, answer, _ = self._settled(op, number, node, handle, chosen, message, None)
            if self._trace is not None:
                told = memoryview(answer if not error else b"")
                self._trace.record_message(
                    op, node, chosen or handle, message, told, started, monotonic_ns(), self._job(), -error
                )
        if error:
            raise build_os_error(-error)
        return answer

    def read_into(self, node: int, handle: int, buffer: memoryview, offset: int) -> int:
        """Fills the buffer (1 MiB at most); bytes read."""
        return self._moved(Op.READ, node, handle, buffer, offset)

    def write_from(self, node: int, handle: int, data: memoryview, offset: int) -> int:
        """Writes the data (1 MiB at most); bytes written."""
        return self._moved(Op.WRITE, node, handle, data, offset)

    def _moved(self, op: int, node: int, handle: int, data: memoryview, offset: int) -> int:
        started = monotonic_ns()
        with self._lock:
            number = next(self._ids)
            fixed = abi.READ_IN.pack(handle, offset, len(data), 0, 0, 0, 0)
            message = self._message(op, number, node, fixed, len(data) if op == Op.WRITE else 0)
            error, answer, moved = self._settled(op, number, node, handle, 0, message, data)
            if not error and op == Op.WRITE:
                moved = abi.WRITE_OUT.unpack_from(answer)[0]
            if self._trace is not None and self._trace.on:
                ended = monotonic_ns()
                self._trace.record_request(op, node, handle, offset, moved, started, ended, self._job(), -error)
        if error:
            raise build_os_error(-error)
        return moved

    def _message(self, op: int, number: int, node: int, body: bytes, more: int = 0) -> bytes:
        length = abi.IN_HEADER.size + len(body) + more
        return abi.IN_HEADER.pack(length, op, number, node, *self._who, os.getpid(), 0, 0) + body

    def _job(self) -> int:
        return self._jobs.find(os.getpid(), self._who[0], monotonic_ns())

    def _settled(
        self, op: int, number: int, node: int, handle: int, chosen: int, message: bytes, data: memoryview | None
    ) -> tuple[int, bytes, int]:
        """Sends it until a forwarder has carried it out: error, body, bytes read."""
        flags, refusals = 0, 0
        while True:
            try:
                link = self._linked()
                self._send(link, op, number, chosen, message, data, flags)
                error, body, moved = self._answer(link, number, data if op == Op.READ else None)
                if error <= 0:
                    return error, body, moved
                refusals += 1
                if refusals > (3000 if error == Refusal.BUSY else 12):
                    return -errno.ESTALE, b"", 0
                self._repair(link, error, op, node, handle, message)
            except LinkLostError:
                if self._link is not None:
                    self._link.close()
                    self._link = None
                flags = _RETRY

    def _send(
        self, link: Link, op: int, number: int, chosen: int, message: bytes, data: memoryview | None, flags: int
    ) -> None:
        job = self._job()
        if job and job not in self._announced:
            identity = msgspec.json.encode(self._jobs.identities[job])
            exchange_own_request(link, self._ids, build_own_job_request(job, identity))
            self._announced.add(job)
        if data is None:
            link.put(number, job, chosen, message, flags)
        elif link.slots is not None:
            slot = link.slots.views[0]
            slot[:HEAD_BYTES] = message
            written = len(data) if op == Op.WRITE else 0
            slot[HEAD_BYTES : HEAD_BYTES + written] = data[:written]
            link.put_slotted(number, job, 0, slot, written, flags)
        else:
            link.put(number, job, 0, message + bytes(data) if op == Op.WRITE else message, flags)
        while not link.flush():
            select.select([], [link.descriptor], [])

    def _answer(self, link: Link, number: int, into: memoryview | None) -> tuple[int, bytes, int]:
        while True:
            while link.end - link.begin >= PREFIX_BYTES:
                length, flags, _, found, error, _, in_slot, crc = REPLY.unpack_from(link.buffer, link.begin)
                if length > MAX_FRAME:
                    raise LinkLostError("a reply longer than allowed")
                begin = link.begin + PREFIX_BYTES
                stop = begin + length
                if stop > link.end:
                    break
                data = link.slots.data[0][:in_slot] if flags & _SLOT and link.slots is not None else None
                if link.checksum:
                    link.check(link.begin, length, flags, crc, data)
                link.begin = stop
                if found != number:
                    continue
                body = bytes(link.view[begin:stop])
                if into is None or error:
                    return error, body, 0
                source = data if data is not None else body
                if len(source) > len(into):
                    raise LinkLostError("a reply with more data than was asked for")
                into[: len(source)] = source
                return error, b"", len(source)
            if not (link.secure and link.sock.pending()):  # type: ignore[attr-defined]
                select.select([link.descriptor], [], [])
            link.receive()

    # -- the connection ----------------------------------------------------------------------------------------

    def _linked(self) -> Link:
        """The connection, made again when it was lost."""
        if self._link is not None:
            return self._link
        deadline = monotonic_s() + self._patience_s
        pause = 0.05
        while True:
            try:
                link = Link(self._dial.connect_any())
                if not link.connection.welcome.resumed:
                    reclaim_open_files(link, self._nodes, self._holdings, self._ids, _quiet)
            except (UnreachableError, RefusedError, LinkLostError):
                if monotonic_s() > deadline:
                    raise OSError(errno.EIO, "no forwarder answers") from None
                sleep_s(pause)
                pause = min(1.0, pause * 1.5)
                continue
            self._announced.clear()
            self._link = link
            return link

    def _repair(self, link: Link, refusal: int, op: int, node: int, handle: int, message: bytes) -> None:
        if refusal == Refusal.BUSY:
            sleep_s(0.01)
        elif refusal == Refusal.UNKNOWN_JOB:
            self._announced.clear()
        else:
            body = memoryview(message)[abi.IN_HEADER.size :]
            nodes = [node]
            if op in (Op.RENAME, Op.LINK):
                nodes.append(abi.FORGET_IN.unpack_from(body)[0])
            for known in nodes:
                steps = self._nodes.find_steps(known)
                if steps:
                    exchange_own_request(link, self._ids, build_own_place_request(known, steps))
            held = self._holdings.handles.get(handle)
            if held is not None:
                again = build_own_reopen_request(held.node, held.flags, directory=held.directory)
                exchange_own_request(link, self._ids, again, handle)


def _quiet(_: str) -> None:
    """A library says nothing: what could not be had again is an error of the request that needs it."""


def _parts(path: str) -> list[bytes]:
    parts = [part for part in os.fsencode(path).split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise OSError(errno.EINVAL, "no .. in paths", path)
    return parts

"""Requests about open files and directories: open, create, release, sync, locks, listings.

READ and WRITE are in `dispatch`, names and attributes in `names`.
"""

from __future__ import annotations

import fcntl
import os
from errno import EINVAL
from typing import TYPE_CHECKING

from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse import messages as bodies
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.operations.names import clear_set_id
from fairlead.steer.fs.os_errors import build_os_error
from fairlead.steer.fs.sessions import Folder, Handles, UnknownHandle
from fairlead.steer.fs.trees.base import Lock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairlead.steer.fs.operations.dispatch import Execution, Operations
    from fairlead.steer.fs.trees.base import Entry, FileTree

_open_in = abi.OPEN_IN.unpack_from
_create_in = abi.CREATE_IN.unpack_from
_read_in = abi.READ_IN.unpack_from
_flush_in = abi.FLUSH_IN.unpack_from
_release_in = abi.RELEASE_IN.unpack_from
_CREATE_BYTES = abi.CREATE_IN.size
_KILL = 1
"""`open_flags` of OPEN and CREATE: the truncation must clear set-id bits."""
_UNLOCKED = int(fcntl.F_UNLCK)
_KINDS = (int(fcntl.F_RDLCK), int(fcntl.F_WRLCK), _UNLOCKED)


def _open(ops: Operations, handles: Handles, node: int, handle: int, body: memoryview, _: memoryview) -> bytes:
    flags, open_flags = _open_in(body)
    file = ops.tree.open(node, flags)
    ops.replace(handles, handle, file)
    if open_flags & _KILL and not ops.tree.clears_set_id:
        clear_set_id(ops.tree, node, file.stat())
    return bodies.pack_open_message(handle, ops.open_flags)


def _create(ops: Operations, handles: Handles, node: int, handle: int, body: memoryview, _: memoryview) -> bytes:
    flags, mode, umask, _open_flags = _create_in(body)
    name, mode, new = bodies.read_message_name(body, _CREATE_BYTES), mode & 0o7777 & ~umask, True
    try:
        made, st, file = ops.tree.create(node, name, flags | os.O_EXCL, mode)
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
        # Made by another client since the kernel looked.
        made, st, file = ops.tree.create(node, name, flags, mode)
        new = False
    ops.replace(handles, handle, file)
    return ops.enter_node(handles, made, st, made=new) + bodies.pack_open_message(handle, ops.open_flags)


def _tmpfile(ops: Operations, handles: Handles, node: int, handle: int, body: memoryview, _: memoryview) -> bytes:
    flags, mode, umask, _open_flags = _create_in(body)
    made, st, file = ops.tree.create_temporary(node, flags, mode & 0o7777 & ~umask)
    ops.replace(handles, handle, file)
    return ops.enter_node(handles, made, st) + bodies.pack_open_message(handle, ops.open_flags)


def _release(_: Operations, handles: Handles, __: int, ___: int, body: memoryview, ____: memoryview) -> bytes:
    fh, _flags, _release_flags, _owner = _release_in(body)
    # A handle that is not here was opened at a forwarder that was lost: nothing is left to close.
    file = handles.files.pop(fh, None)
    if file is not None:
        if handles.locked:
            for held in [held for held in handles.locked if held[0] == fh]:
                file.unlock_owner(handles.map_owner(held[1]))
                handles.locked.discard(held)
        file.close()
    return b""


def _flush(_: Operations, handles: Handles, __: int, ___: int, body: memoryview, ____: memoryview) -> bytes:
    fh, _unused, _pad, owner = _flush_in(body)
    file = handles.find_file(fh)
    # A process that closes any descriptor of a file loses all its POSIX locks on it, whichever took them.
    file.unlock_owner(handles.map_owner(owner))
    handles.locked.discard((fh, owner))
    file.flush()
    return b""


def _fsync(_: Operations, handles: Handles, __: int, ___: int, body: memoryview, ____: memoryview) -> bytes:
    fh, flags, _pad = abi.FSYNC_IN.unpack_from(body)
    handles.find_file(fh).sync(bool(flags & abi.FSYNC_FDATASYNC))
    return b""


def _fallocate(_: Operations, handles: Handles, __: int, ___: int, body: memoryview, ____: memoryview) -> bytes:
    fh, offset, length, mode, _pad = abi.FALLOCATE_IN.unpack_from(body)
    handles.find_file(fh).allocate(mode, offset, length)
    return b""


def _lseek(_: Operations, handles: Handles, __: int, ___: int, body: memoryview, ____: memoryview) -> bytes:
    fh, offset, whence, _pad = abi.LSEEK_IN.unpack_from(body)
    return abi.LSEEK_OUT.pack(handles.find_file(fh).seek(offset, whence))


def _copy(_: Operations, handles: Handles, __: int, ___: int, body: memoryview, ____: memoryview) -> bytes:
    fh, offset, _node_out, fh_out, offset_out, length, flags = abi.COPY_IN.unpack_from(body)
    if flags:
        raise build_os_error(EINVAL)
    copied = handles.find_file(fh).copy_to(offset, handles.find_file(fh_out), offset_out, length)
    return abi.WRITE_OUT.pack(copied, 0)


def _getlk(_: Operations, handles: Handles, __: int, ___: int, body: memoryview, ____: memoryview) -> bytes:
    fh, owner, start, end, kind, pid, _flags, _pad = abi.LK_IN.unpack_from(body)
    file = handles.find_file(fh)
    if kind not in _KINDS or end < start:
        raise build_os_error(EINVAL)
    found = file.find_conflict(handles.map_owner(owner), Lock(start, end, kind, pid))
    return abi.LK_OUT.pack(*(found or (start, end, _UNLOCKED, 0)))


def _setlk(_: Operations, handles: Handles, __: int, ___: int, body: memoryview, ____: memoryview) -> bytes:
    fh, owner, start, end, kind, pid, flags, _pad = abi.LK_IN.unpack_from(body)
    file = handles.find_file(fh)
    if kind not in _KINDS or end < start:
        raise build_os_error(EINVAL)
    if flags & abi.LK_FLOCK:
        file.flock(kind)
        return b""
    file.lock(handles.map_owner(owner), Lock(start, end, kind, pid))
    if kind != _UNLOCKED:
        handles.locked.add((fh, owner))
    return b""


def list_open_directory(tree: FileTree, node: int) -> Folder:
    """An open directory with its entries of now."""
    return Folder(node, tree.list_entries(node))


def _opendir(ops: Operations, handles: Handles, node: int, handle: int, _: memoryview, __: memoryview) -> bytes:
    folder = list_open_directory(ops.tree, node)
    handles.hold(handle, folder, folder.entries or ())
    return bodies.pack_open_message(handle, 0)


def _entries(ops: Operations, handles: Handles, fh: int, offset: int) -> Sequence[Entry]:
    folder = handles.folders.get(fh)
    if folder is None:
        raise UnknownHandle(fh)
    entries = folder.entries
    if entries is None or (offset == 0 and not folder.fresh):
        entries = ops.tree.list_entries(folder.node)
        handles.hold(fh, folder, entries)
    folder.fresh = False
    return entries


def _readdir(ops: Operations, handles: Handles, _: int, __: int, body: memoryview, ___: memoryview) -> bytes:
    fh, offset, size, _flags, _owner, _file_flags, _pad = _read_in(body)
    return bodies.pack_listing_message(_entries(ops, handles, fh, offset), offset, size)


def _readdirplus(ops: Operations, handles: Handles, node: int, _: int, body: memoryview, __: memoryview) -> bytes:
    fh, offset, size, _flags, _owner, _file_flags, _pad = _read_in(body)
    entries = _entries(ops, handles, fh, offset)
    parts: list[bytes] = []
    lookup = ops.tree.lookup
    for number in range(offset, len(entries)):
        name, found, kind = entries[number]
        size -= bodies.ENTRY_BYTES + 24 + (len(name) + 7 & ~7)
        if size < 0:
            break
        told = bodies.NO_ENTRY
        if name != b"." and name != b"..":
            try:
                found, st = lookup(node, name)
            except OSError:
                # Gone since the snapshot, or not for this user: its name alone, as readdir has it.
                pass
            else:
                told = ops.enter_node(handles, found, st)
        parts += (told, bodies.pack_dirent_message(found - 1 or 1, number + 1, kind, name))
    return b"".join(parts)


def _releasedir(_: Operations, handles: Handles, __: int, ___: int, body: memoryview, ____: memoryview) -> bytes:
    fh, _flags, _release_flags, _owner = _release_in(body)
    handles.folders.pop(fh, None)
    return b""


def _fsyncdir(ops: Operations, _: Handles, node: int, __: int, ___: memoryview, ____: memoryview) -> bytes:
    ops.tree.sync_directory(node)
    return b""


TABLE: dict[int, Execution] = {
    int(Op.OPEN): _open,
    int(Op.CREATE): _create,
    int(Op.TMPFILE): _tmpfile,
    int(Op.RELEASE): _release,
    int(Op.FLUSH): _flush,
    int(Op.FSYNC): _fsync,
    int(Op.FALLOCATE): _fallocate,
    int(Op.LSEEK): _lseek,
    int(Op.COPY_FILE_RANGE): _copy,
    int(Op.GETLK): _getlk,
    int(Op.SETLK): _setlk,
    int(Op.SETLKW): _setlk,
    int(Op.OPENDIR): _opendir,
    int(Op.READDIR): _readdir,
    int(Op.READDIRPLUS): _readdirplus,
    int(Op.RELEASEDIR): _releasedir,
    int(Op.FSYNCDIR): _fsyncdir,
}
"""What each opcode does."""

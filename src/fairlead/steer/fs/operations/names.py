"""Requests about names and attributes: lookup, create, remove, rename, attributes, extended attributes.

Open files and directories are in `operations_open`.
"""

from __future__ import annotations

import stat
from errno import EINVAL, ERANGE
from typing import TYPE_CHECKING

from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse import messages as bodies
from fairlead.steer.fs.fuse.abi import Op, Valid
from fairlead.steer.fs.os_errors import build_os_error
from fairlead.steer.fs.trees.base import NOW, Change
from fairlead.steer.fs.trees.thread_identity import forwarder_identity

if TYPE_CHECKING:
    from fairlead.steer.fs.operations.dispatch import Execution, Operations
    from fairlead.steer.fs.sessions import Handles
    from fairlead.steer.fs.trees.base import FileTree, Stat

_RENAME_FLAGS = 1 | 2
_UID, _GID, _MODE, _SIZE = int(Valid.UID), int(Valid.GID), int(Valid.MODE), int(Valid.SIZE)
_ATIME, _MTIME = int(Valid.ATIME), int(Valid.MTIME)
_ATIME_NOW, _MTIME_NOW = int(Valid.ATIME_NOW), int(Valid.MTIME_NOW)
_FH, _KILL = int(Valid.FH), int(Valid.KILL_SUIDGID)
_getattr_in = abi.GETATTR_IN.unpack_from
_setattr_in = abi.SETATTR_IN.unpack_from


def _lookup(ops: Operations, handles: Handles, node: int, _: int, body: memoryview, __: memoryview) -> bytes:
    found, st = ops.tree.lookup(node, bodies.read_message_name(body, 0))
    return ops.enter_node(handles, found, st)


def _forget(ops: Operations, handles: Handles, node: int, _: int, body: memoryview, __: memoryview) -> bytes:
    (count,) = abi.FORGET_IN.unpack_from(body)
    ops.forget(handles, node, count)
    return b""


def _batch_forget(ops: Operations, handles: Handles, _: int, __: int, body: memoryview, ___: memoryview) -> bytes:
    count, _dummy = abi.BATCH_FORGET_IN.unpack_from(body)
    at = abi.BATCH_FORGET_IN.size
    for _each in range(count):
        ops.forget(handles, *abi.FORGET_ONE.unpack_from(body, at))
        at += abi.FORGET_ONE.size
    return b""


def _getattr(ops: Operations, handles: Handles, node: int, _: int, body: memoryview, __: memoryview) -> bytes:
    flags, _dummy, fh = _getattr_in(body)
    file = handles.files.get(fh) if flags & abi.GETATTR_FH else None
    st = ops.tree.stat(node) if file is None else file.stat()
    return bodies.pack_attributes_message(st, ops.valid_s, ops.valid_ns)


def _setattr(ops: Operations, handles: Handles, node: int, _: int, body: memoryview, __: memoryview) -> bytes:
    valid, _pad, fh, size, _owner, atime, mtime, _ctime, atime_ns, mtime_ns, _ctime_ns, mode, _, uid, gid, _ = (
        _setattr_in(body)
    )
    file = handles.find_file(fh) if valid & _FH else None
    st = ops.tree.change(
        node,
        Change(
            stat.S_IMODE(mode) if valid & _MODE else None,
            uid if valid & _UID else None,
            gid if valid & _GID else None,
            size if valid & _SIZE else None,
            NOW if valid & _ATIME_NOW else bodies.convert_message_time(atime, atime_ns) if valid & _ATIME else None,
            NOW if valid & _MTIME_NOW else bodies.convert_message_time(mtime, mtime_ns) if valid & _MTIME else None,
        ),
        file,
    )
    if valid & _KILL and not ops.tree.clears_set_id:
        st = clear_set_id(ops.tree, node, st)
    return bodies.pack_attributes_message(st, ops.valid_s, ops.valid_ns)


def clear_set_id(tree: FileTree, node: int, st: Stat) -> Stat:
    """Takes away set-user-id, and set-group-id of a file its group may execute, as a write by another user does."""
    drop = st.st_mode & stat.S_ISUID
    if st.st_mode & stat.S_IXGRP:
        drop |= st.st_mode & stat.S_ISGID
    if not drop or not stat.S_ISREG(st.st_mode):
        return st
    # Not for the caller to be allowed or refused: it writes to a file that may not be its own.
    with forwarder_identity:
        return tree.change(node, Change(mode=stat.S_IMODE(st.st_mode) & ~drop), None)


def _readlink(ops: Operations, _: Handles, node: int, __: int, ___: memoryview, ____: memoryview) -> bytes:
    return ops.tree.readlink(node)


def _symlink(ops: Operations, handles: Handles, node: int, _: int, body: memoryview, __: memoryview) -> bytes:
    name, target = bodies.read_message_names(body, 0)
    return ops.enter_node(handles, *ops.tree.symlink(node, name, target))


def _mknod(ops: Operations, handles: Handles, node: int, _: int, body: memoryview, __: memoryview) -> bytes:
    mode, device, umask, _pad = abi.MKNOD_IN.unpack_from(body)
    name = bodies.read_message_name(body, abi.MKNOD_IN.size)
    return ops.enter_node(handles, *ops.tree.mknod(node, name, mode & ~umask, device))


def _mkdir(ops: Operations, handles: Handles, node: int, _: int, body: memoryview, __: memoryview) -> bytes:
    mode, umask = abi.MKDIR_IN.unpack_from(body)
    name = bodies.read_message_name(body, abi.MKDIR_IN.size)
    return ops.enter_node(handles, *ops.tree.mkdir(node, name, stat.S_IMODE(mode) & ~umask))


def _unlink(ops: Operations, _: Handles, node: int, __: int, body: memoryview, ___: memoryview) -> bytes:
    ops.tree.unlink(node, bodies.read_message_name(body, 0))
    return b""


def _rmdir(ops: Operations, _: Handles, node: int, __: int, body: memoryview, ___: memoryview) -> bytes:
    ops.tree.rmdir(node, bodies.read_message_name(body, 0))
    return b""


def _rename(ops: Operations, _: Handles, node: int, __: int, body: memoryview, ___: memoryview) -> bytes:
    (folder,) = abi.RENAME_IN.unpack_from(body)
    old, new = bodies.read_message_names(body, abi.RENAME_IN.size)
    ops.tree.rename(node, old, folder, new, 0)
    return b""


def _rename2(ops: Operations, _: Handles, node: int, __: int, body: memoryview, ___: memoryview) -> bytes:
    folder, flags, _pad = abi.RENAME2_IN.unpack_from(body)
    if flags & ~_RENAME_FLAGS:
        raise build_os_error(EINVAL)
    old, new = bodies.read_message_names(body, abi.RENAME2_IN.size)
    ops.tree.rename(node, old, folder, new, flags)
    return b""


def _link(ops: Operations, handles: Handles, node: int, _: int, body: memoryview, __: memoryview) -> bytes:
    (old,) = abi.LINK_IN.unpack_from(body)
    return ops.enter_node(handles, *ops.tree.link(old, node, bodies.read_message_name(body, abi.LINK_IN.size)))


def _statfs(ops: Operations, _: Handles, __: int, ___: int, ____: memoryview, _____: memoryview) -> bytes:
    return bodies.pack_statfs_message(ops.tree.statfs())


def _access(ops: Operations, _: Handles, node: int, __: int, body: memoryview, ___: memoryview) -> bytes:
    mask, _pad = abi.ACCESS_IN.unpack_from(body)
    ops.tree.access(node, mask & 7)
    return b""


def _syncfs(ops: Operations, _: Handles, __: int, ___: int, ____: memoryview, _____: memoryview) -> bytes:
    ops.tree.sync()
    return b""


def _setxattr(ops: Operations, _: Handles, node: int, __: int, body: memoryview, ___: memoryview) -> bytes:
    size, flags = abi.SETXATTR_IN.unpack_from(body)
    name = bodies.read_message_name(body, abi.SETXATTR_IN.size)
    at = abi.SETXATTR_IN.size + len(name) + 1
    value = bytes(body[at : at + size])
    if len(value) != size:
        raise build_os_error(EINVAL)
    ops.tree.set_attribute(node, name, value, flags)
    return b""


def _sized(found: bytes, size: int) -> bytes:
    """The value, or only its length where the request asks for that (size 0)."""
    if size == 0:
        return abi.GETXATTR_OUT.pack(len(found), 0)
    if len(found) > size:
        raise build_os_error(ERANGE)
    return found


def _getxattr(ops: Operations, _: Handles, node: int, __: int, body: memoryview, ___: memoryview) -> bytes:
    size, _pad = abi.GETXATTR_IN.unpack_from(body)
    return _sized(ops.tree.get_attribute(node, bodies.read_message_name(body, abi.GETXATTR_IN.size)), size)


def _listxattr(ops: Operations, _: Handles, node: int, __: int, body: memoryview, ___: memoryview) -> bytes:
    size, _pad = abi.GETXATTR_IN.unpack_from(body)
    return _sized(b"".join(name + b"\0" for name in ops.tree.attribute_names(node)), size)


def _removexattr(ops: Operations, _: Handles, node: int, __: int, body: memoryview, ___: memoryview) -> bytes:
    ops.tree.remove_attribute(node, bodies.read_message_name(body, 0))
    return b""


TABLE: dict[int, Execution] = {
    int(Op.LOOKUP): _lookup,
    int(Op.FORGET): _forget,
    int(Op.BATCH_FORGET): _batch_forget,
    int(Op.GETATTR): _getattr,
    int(Op.SETATTR): _setattr,
    int(Op.READLINK): _readlink,
    int(Op.SYMLINK): _symlink,
    int(Op.MKNOD): _mknod,
    int(Op.MKDIR): _mkdir,
    int(Op.UNLINK): _unlink,
    int(Op.RMDIR): _rmdir,
    int(Op.RENAME): _rename,
    int(Op.RENAME2): _rename2,
    int(Op.LINK): _link,
    int(Op.STATFS): _statfs,
    int(Op.ACCESS): _access,
    int(Op.SYNCFS): _syncfs,
    int(Op.SETXATTR): _setxattr,
    int(Op.GETXATTR): _getxattr,
    int(Op.LISTXATTR): _listxattr,
    int(Op.REMOVEXATTR): _removexattr,
}
"""What each opcode does."""

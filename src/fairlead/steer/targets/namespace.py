"""Operations on names and attributes, each one transaction on `Records`. They run in the forwarder or, shared, in the
metadata service; arguments and results are plain values.

`who` is the caller to check for, None for no checks; `now` the time in ns.
"""

from __future__ import annotations

import errno
import os
import stat

import msgspec

from fairlead.steer.fs.os_errors import build_os_error
from fairlead.steer.targets.inode import ROOT_INODE, Inode, Who
from fairlead.steer.targets.permissions import (
    READ,
    SEARCH,
    WRITE,
    check_permission,
    check_removal_permission,
    has_group_permission,
    has_owner_permission,
)
from fairlead.steer.targets.records import CAPABILITY, Records

NOREPLACE, EXCHANGE = 1, 2


class New(msgspec.Struct, array_like=True, frozen=True):
    """What a new inode is: mode with its type, owner, device number, target of a symbolic link."""

    mode: int
    uid: int
    gid: int
    rdev: int = 0
    link: bytes = b""


class RenameResult(msgspec.Struct, array_like=True, frozen=True):
    """The inode that lost its last name by a rename, if one did."""

    gone: Inode | None = None


def get_namespace_inode(records: Records, ino: int) -> Inode:
    """The record of an inode."""
    return records.get_inode(ino)


def look_up_namespace(records: Records, parent: int, name: bytes, who: Who | None) -> Inode:
    """The inode of a name."""
    folder = records.get_directory(parent)
    check_permission(folder, SEARCH, who)
    if name == b".":
        return folder
    ino = folder.parent if name == b".." else records.find_child(parent, name)
    if ino is None:
        raise build_os_error(errno.ENOENT)
    return records.get_inode(ino)


def create_namespace_entry(records: Records, parent: int, name: bytes, new: New, now: int, who: Who | None) -> Inode:
    """A new inode under a name; EEXIST if the name is taken."""
    folder = records.get_directory(parent)
    check_permission(folder, SEARCH, who)
    if name in (b".", b"..") or records.find_child(parent, name) is not None:
        raise build_os_error(errno.EEXIST)
    check_permission(folder, WRITE, who)
    if folder.nlink == 0:
        raise build_os_error(errno.ENOENT)
    inode = _inode(records, folder, new, now)
    records.put(inode)
    records.add_name(parent, name, inode)
    if inode.is_directory:
        folder.nlink += 1
    _touch(records, folder, now)
    return inode


def create_outside_namespace(records: Records, parent: int, new: New, now: int, who: Who | None) -> Inode:
    """A new inode without a name, among the orphans."""
    folder = records.get_directory(parent)
    check_permission(folder, WRITE | SEARCH, who)
    inode = _inode(records, folder, new, now)
    inode.nlink = 0
    records.put(inode)
    records.add_orphan(inode.ino, now)
    return inode


def _inode(records: Records, folder: Inode, new: New, now: int) -> Inode:
    mode, gid = new.mode, new.gid
    if folder.mode & stat.S_ISGID:
        gid = folder.gid
        if stat.S_ISDIR(mode):
            mode |= stat.S_ISGID
    inode = Inode(
        ino=records.allocate(records.txn),
        mode=mode,
        nlink=1,
        uid=new.uid,
        gid=gid,
        size=0,
        atime=now,
        mtime=now,
        ctime=now,
        timed=now,
        rdev=new.rdev,
        link=new.link,
        layout=folder.layout,
    )
    if inode.is_directory:
        inode.nlink, inode.parent, inode.size = 2, folder.ino, 4096
    elif inode.link:
        inode.size = len(inode.link)
    return inode


def _touch(records: Records, inode: Inode, now: int) -> None:
    inode.mtime = inode.ctime = inode.timed = now
    records.put(inode)


def link_namespace_entry(
    records: Records, ino: int, parent: int, name: bytes, now: int, who: Who | None, nameless: bool = False
) -> Inode:
    """Another name of an inode. One without a name gets one only if `nameless`: somebody keeps it open meanwhile."""
    folder = records.get_directory(parent)
    inode = records.get_inode(ino)
    if inode.nlink == 0 and not nameless:
        raise build_os_error(errno.ENOENT)
    if inode.is_directory:
        raise build_os_error(errno.EPERM)
    if name in (b".", b"..") or records.find_child(parent, name) is not None:
        raise build_os_error(errno.EEXIST)
    check_permission(folder, WRITE | SEARCH, who)
    if folder.nlink == 0:
        raise build_os_error(errno.ENOENT)
    inode.nlink += 1
    inode.ctime = now
    records.adopt(ino)
    records.put(inode)
    records.add_name(parent, name, inode)
    _touch(records, folder, now)
    return inode


def unlink_namespace_entry(records: Records, parent: int, name: bytes, now: int, who: Who | None) -> Inode:
    """Removes a name of something that is no directory. Returns the inode as it is now."""
    folder = records.get_directory(parent)
    inode = _named(records, parent, name)
    check_removal_permission(folder, inode, who)
    if inode.is_directory:
        raise build_os_error(errno.EISDIR)
    records.remove_name(parent, name)
    _lose_name(records, inode, now)
    _touch(records, folder, now)
    return inode


def remove_namespace_directory(records: Records, parent: int, name: bytes, now: int, who: Who | None) -> None:
    """Removes an empty directory."""
    folder = records.get_directory(parent)
    if name == b".":
        raise build_os_error(errno.EINVAL)
    if name == b"..":
        raise build_os_error(errno.ENOTEMPTY)
    inode = _named(records, parent, name)
    check_removal_permission(folder, inode, who)
    _check_empty(records, inode)
    records.remove_name(parent, name)
    records.drop(inode.ino)
    folder.nlink -= 1
    _touch(records, folder, now)


def _named(records: Records, parent: int, name: bytes) -> Inode:
    ino = records.find_child(parent, name)
    if ino is None:
        raise build_os_error(errno.ENOENT)
    return records.get_inode(ino)


def _check_empty(records: Records, inode: Inode) -> None:
    if not inode.is_directory:
        raise build_os_error(errno.ENOTDIR)
    if next(records.list_names(inode.ino), None) is not None:
        raise build_os_error(errno.ENOTEMPTY)


def _lose_name(records: Records, inode: Inode, now: int) -> None:
    inode.nlink -= 1
    inode.ctime = now
    if inode.nlink == 0:
        if inode.is_file:
            records.add_orphan(inode.ino, now)
        else:
            records.drop(inode.ino)
            return
    records.put(inode)


def rename_namespace_entry(
    records: Records, parent: int, name: bytes, new_parent: int, new_name: bytes, flags: int, now: int, who: Who | None
) -> RenameResult:
    """As renameat2."""
    if flags & ~(NOREPLACE | EXCHANGE) or flags == NOREPLACE | EXCHANGE:
        raise build_os_error(errno.EINVAL)
    if {name, new_name} & {b".", b".."}:
        raise build_os_error(errno.EBUSY)
    source = records.get_directory(parent)
    into = source if new_parent == parent else records.get_directory(new_parent)
    moved = _named(records, parent, name)
    old_ino = records.find_child(new_parent, new_name)
    old = None if old_ino is None else records.get_inode(old_ino)
    check_removal_permission(source, moved, who)
    if old is not None:
        if flags & NOREPLACE:
            raise build_os_error(errno.EEXIST)
        if old.ino == moved.ino:
            return RenameResult()
        check_removal_permission(into, old, who)
    else:
        check_permission(into, WRITE | SEARCH, who)
        if flags & EXCHANGE:
            raise build_os_error(errno.ENOENT)
    if into.nlink == 0:
        raise build_os_error(errno.ENOENT)
    _check_no_loop(records, moved, new_parent)
    if flags & EXCHANGE:
        assert old is not None
        _check_no_loop(records, old, parent)
        _exchange(records, (source, name, moved), (into, new_name, old), now)
        return RenameResult()
    return RenameResult(_replace(records, (source, name, moved), (into, new_name, old), now))


def _replace(
    records: Records, of: tuple[Inode, bytes, Inode], to: tuple[Inode, bytes, Inode | None], now: int
) -> Inode | None:
    source, name, moved = of
    into, new_name, old = to
    gone = None
    if old is not None:
        if moved.is_directory:
            _check_empty(records, old)
            records.drop(old.ino)
            into.nlink -= 1
        elif old.is_directory:
            raise build_os_error(errno.EISDIR)
        else:
            _lose_name(records, old, now)
            gone = old if old.nlink == 0 and old.is_file else None
    records.add_name(into.ino, new_name, moved)
    records.remove_name(source.ino, name)
    _move(records, moved, source, into, now)
    _touch(records, source, now)
    _touch(records, into, now)
    return gone


def _exchange(records: Records, one: tuple[Inode, bytes, Inode], two: tuple[Inode, bytes, Inode], now: int) -> None:
    (source, name, moved), (into, new_name, old) = one, two
    records.add_name(into.ino, new_name, moved)
    records.add_name(source.ino, name, old)
    _move(records, moved, source, into, now)
    _move(records, old, into, source, now)
    _touch(records, source, now)
    _touch(records, into, now)


def _move(records: Records, moved: Inode, source: Inode, into: Inode, now: int) -> None:
    if moved.is_directory and source.ino != into.ino:
        moved.parent = into.ino
        source.nlink -= 1
        into.nlink += 1
    moved.ctime = now
    records.put(moved)


def _check_no_loop(records: Records, moved: Inode, into: int) -> None:
    if not moved.is_directory:
        return
    at = into
    while at != ROOT_INODE:
        if at == moved.ino:
            raise build_os_error(errno.EINVAL)
        at = records.get_inode(at).parent


def list_namespace_entries(records: Records, ino: int, who: Who | None) -> list[tuple[bytes, int, int]]:
    """Names in a directory with inode and kind; `.` and `..` first."""
    folder = records.get_directory(ino)
    check_permission(folder, READ, who)
    return [(b".", ino, 4), (b"..", folder.parent, 4), *records.list_names(ino)]


def get_namespace_attribute(records: Records, ino: int, name: bytes, who: Who | None) -> bytes:
    """An extended attribute."""
    inode = records.get_inode(ino)
    if name.startswith(b"user."):
        check_permission(inode, READ, who)
    value = records.attribute(ino, name)
    if value is None:
        raise build_os_error(errno.ENODATA)
    return value


def set_namespace_attribute(
    records: Records, ino: int, name: bytes, value: bytes, flags: int, now: int, who: Who | None
) -> None:
    """Sets one."""
    inode = _attribute_owner(records, ino, name, who)
    held = records.attribute(ino, name) is not None
    if held and flags & os.XATTR_CREATE:
        raise build_os_error(errno.EEXIST)
    if not held and flags & os.XATTR_REPLACE:
        raise build_os_error(errno.ENODATA)
    records.set_attribute(ino, name, value)
    inode.capable |= name == CAPABILITY
    inode.ctime = now
    records.put(inode)


def remove_namespace_attribute(records: Records, ino: int, name: bytes, now: int, who: Who | None) -> None:
    """Removes one."""
    inode = _attribute_owner(records, ino, name, who)
    if not records.remove_attribute(ino, name):
        raise build_os_error(errno.ENODATA)
    inode.capable &= name != CAPABILITY
    inode.ctime = now
    records.put(inode)


def list_namespace_attributes(records: Records, ino: int) -> list[bytes]:
    """Names of the extended attributes."""
    records.get_inode(ino)
    return list(records.attribute_names(ino))


def _attribute_owner(records: Records, ino: int, name: bytes, who: Who | None) -> Inode:
    inode = records.get_inode(ino)
    if len(name) > NAME_LIMIT:
        raise build_os_error(errno.ERANGE)
    if name.startswith(b"user."):
        if not (inode.is_file or inode.is_directory):
            raise build_os_error(errno.EPERM)
        check_permission(inode, WRITE, who)
    elif not name.startswith((b"trusted.", b"security.")):
        raise build_os_error(errno.EOPNOTSUPP)
    elif who is not None and who.uid != 0:
        raise build_os_error(errno.EPERM)
    return inode


NAME_LIMIT = 255


def set_namespace_layout(records: Records, ino: int, layout: str, now: int, who: Who | None) -> None:
    """The layout of new files in a directory, or of a file without data."""
    inode = records.get_inode(ino)
    if not has_owner_permission(inode, who):
        raise build_os_error(errno.EPERM)
    if not inode.is_directory and (not inode.is_file or inode.targets):
        raise build_os_error(errno.EEXIST)
    inode.layout = layout
    inode.ctime = now
    records.put(inode)


class Changes(msgspec.Struct, array_like=True, frozen=True):
    """Attributes to set, None to leave. `mtime_now`/`atime_now`: a time is the moment (anyone who may write may)."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    atime: int | None = None
    mtime: int | None = None
    now_only: bool = True


def change_namespace_inode(records: Records, ino: int, wanted: Changes, now: int, who: Who | None) -> Inode:
    """Sets attributes other than the size."""
    inode = records.get_inode(ino)
    if wanted.uid is not None or wanted.gid is not None:
        _change_owner(inode, wanted, who)
        records.drop_capability(inode)
    if wanted.mode is not None:
        if not has_owner_permission(inode, who):
            raise build_os_error(errno.EPERM)
        mode = wanted.mode & 0o7777
        if who is not None and who.uid != 0 and inode.is_file and not has_group_permission(inode.gid, who):
            mode &= ~stat.S_ISGID
        inode.mode = stat.S_IFMT(inode.mode) | mode
    if wanted.atime is not None or wanted.mtime is not None:
        if not has_owner_permission(inode, who):
            if not wanted.now_only:
                raise build_os_error(errno.EPERM)
            check_permission(inode, WRITE, who)
        inode.atime = inode.atime if wanted.atime is None else wanted.atime
        if wanted.mtime is not None:
            inode.mtime, inode.timed = wanted.mtime, now
    inode.ctime = now
    records.put(inode)
    return inode


def _change_owner(inode: Inode, wanted: Changes, who: Who | None) -> None:
    uid = inode.uid if wanted.uid is None else wanted.uid
    gid = inode.gid if wanted.gid is None else wanted.gid
    if (
        who is not None
        and who.uid != 0
        and (who.uid != inode.uid or uid != inode.uid or (gid != inode.gid and not has_group_permission(gid, who)))
    ):
        raise build_os_error(errno.EPERM)
    inode.uid, inode.gid = uid, gid
    if inode.is_file and inode.mode & 0o111:
        inode.mode &= ~stat.S_ISUID
        if inode.mode & stat.S_IXGRP:
            inode.mode &= ~stat.S_ISGID

"""Keys and values of the metadata store, inside one transaction.

inodes: inode (8 bytes, big-endian) → `Inode` as msgpack; names: directory, name → inode, kind; attributes: inode,
name → value; orphans: inode → time it lost its last name; facts: `reserved` → first number never given out.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from struct import Struct
from typing import Any

import msgspec

from fairlead.steer.fs.os_errors import build_os_error
from fairlead.steer.targets.inode import Inode

KEY = Struct(">Q")
ENTRY = Struct(">QB")
NAME_MAX = 255
CAPABILITY = b"security.capability"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Inode).decode


class Records:
    """One transaction on the store. `allocate` gives a new inode number."""

    __slots__ = ("_attributes", "_inodes", "_names", "_orphans", "allocate", "txn")

    def __init__(self, txn: Any, dbs: Mapping[bytes, Any], allocate: Callable[[Any], int]) -> None:
        self.txn = txn
        self.allocate = allocate
        self._inodes = dbs[b"inodes"]
        self._names = dbs[b"names"]
        self._attributes = dbs[b"attributes"]
        self._orphans = dbs[b"orphans"]

    def find(self, ino: int) -> Inode | None:
        """The record of an inode, or None."""
        raw = self.txn.get(KEY.pack(ino), db=self._inodes)
        return None if raw is None else _decode(raw)

    def get_inode(self, ino: int) -> Inode:
        """The record; ESTALE if there is none, or its objects are being removed."""
        found = self.find(ino)
        if found is None or found.nlink < 0:
            raise build_os_error(errno.ESTALE)
        return found

    def get_directory(self, ino: int) -> Inode:
        """The record of a directory; ENOTDIR if it is none."""
        found = self.get_inode(ino)
        if not found.is_directory:
            raise build_os_error(errno.ENOTDIR)
        return found

    def put(self, inode: Inode) -> None:
        """Writes a record."""
        self.txn.put(KEY.pack(inode.ino), _encode(inode), db=self._inodes)

    def drop(self, ino: int) -> None:
        """Removes a record, its extended attributes and its place among the orphans."""
        key = KEY.pack(ino)
        self.txn.delete(key, db=self._inodes)
        self.txn.delete(key, db=self._orphans)
        for name in list(self.attribute_names(ino)):
            self.txn.delete(key + name, db=self._attributes)

    def find_child(self, parent: int, name: bytes) -> int | None:
        """The inode of a name, or None."""
        if len(name) > NAME_MAX:
            raise build_os_error(errno.ENAMETOOLONG)
        raw = self.txn.get(KEY.pack(parent) + name, db=self._names)
        return None if raw is None else ENTRY.unpack(raw)[0]

    def add_name(self, parent: int, name: bytes, inode: Inode) -> None:
        """Writes a name (over an old one)."""
        if not name or len(name) > NAME_MAX:
            raise build_os_error(errno.ENAMETOOLONG if name else errno.ENOENT)
        self.txn.put(KEY.pack(parent) + name, ENTRY.pack(inode.ino, inode.kind), db=self._names)

    def remove_name(self, parent: int, name: bytes) -> None:
        """Removes a name."""
        self.txn.delete(KEY.pack(parent) + name, db=self._names)

    def list_names(self, parent: int) -> Iterator[tuple[bytes, int, int]]:
        """Names in a directory with inode and kind, in the order of their bytes."""
        yield from ((name, *ENTRY.unpack(value)) for name, value in self._range(self._names, parent))

    def attribute(self, ino: int, name: bytes) -> bytes | None:
        """The value of an extended attribute, or None."""
        value: bytes | None = self.txn.get(KEY.pack(ino) + name, db=self._attributes)
        return value

    def set_attribute(self, ino: int, name: bytes, value: bytes) -> None:
        """Sets an extended attribute."""
        self.txn.put(KEY.pack(ino) + name, value, db=self._attributes)

    def remove_attribute(self, ino: int, name: bytes) -> bool:
        """Removes one; False if there was none."""
        return bool(self.txn.delete(KEY.pack(ino) + name, db=self._attributes))

    def drop_capability(self, inode: Inode) -> None:
        """Takes a file's capabilities away, as writing to it does."""
        if inode.capable:
            self.remove_attribute(inode.ino, CAPABILITY)
            inode.capable = False

    def attribute_names(self, ino: int) -> Iterator[bytes]:
        """Names of the extended attributes."""
        yield from (name for name, _ in self._range(self._attributes, ino))

    def _range(self, db: Any, ino: int) -> Iterator[tuple[bytes, bytes]]:
        prefix = KEY.pack(ino)
        with self.txn.cursor(db=db) as cursor:
            if not cursor.set_range(prefix):
                return
            for key, value in cursor:
                if key[:8] != prefix:
                    return
                yield key[8:], value

    def add_orphan(self, ino: int, now: int) -> None:
        """Notes that an inode has no name."""
        self.txn.put(KEY.pack(ino), KEY.pack(now), db=self._orphans)

    def adopt(self, ino: int) -> None:
        """It has one again."""
        self.txn.delete(KEY.pack(ino), db=self._orphans)

    def list_orphans(self) -> list[tuple[int, int]]:
        """Inodes without a name and when they lost it."""
        with self.txn.cursor(db=self._orphans) as cursor:
            return [(KEY.unpack(key)[0], KEY.unpack(value)[0]) for key, value in cursor]

    def page(self, after: int, limit: int) -> list[Inode]:
        """Records with numbers above `after`, at most `limit`."""
        with self.txn.cursor(db=self._inodes) as cursor:
            if not cursor.set_range(KEY.pack(after + 1)):
                return []
            found = []
            for value in cursor.iternext(keys=False, values=True):
                found.append(_decode(value))
                if len(found) >= limit:
                    break
            return found

"""Where the directories and new files of a tree were last seen here, for people who read records.

Not for access: another forwarder may have given them other names since.
"""

from __future__ import annotations

from threading import Lock

from fairlead.steer.targets.inode import ROOT_INODE, Inode

_MOST = 65_536
_DEEPEST = 256


class SeenNames:
    """Parent and name by inode, the youngest of them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._names: dict[int, tuple[int, bytes]] = {}
        self._inodes: dict[tuple[int, bytes], int] = {}

    def record_name(self, parent: int, name: bytes, inode: Inode) -> None:
        """The inode has this name. Files that have their targets are not kept: nobody will ask for them."""
        if inode.is_directory or (inode.is_file and not inode.targets):
            with self._lock:
                self._put(inode.ino, parent, name)
                if len(self._names) > _MOST:
                    for old in list(self._names)[: _MOST // 8]:
                        self._drop(old)

    def record_rename(
        self, parent: int, name: bytes, new_parent: int, new_name: bytes, *, exchange: bool = False
    ) -> None:
        """What had one name has another now; with `exchange` also the other way round."""
        with self._lock:
            ino, other = self._inodes.get((parent, name)), self._inodes.get((new_parent, new_name))
            for left in (ino, other):
                if left is not None:
                    self._drop(left)
            if ino is not None:
                self._put(ino, new_parent, new_name)
            if exchange and other is not None:
                self._put(other, parent, name)

    def has_targets(self, ino: int) -> None:
        """A file got its targets."""
        with self._lock:
            self._drop(ino)

    def find_path(self, ino: int) -> str:
        """The path from the tree's root on, beginning with `/`; empty when a part of it was not seen."""
        parts: list[bytes] = []
        while ino != ROOT_INODE:
            found = self._names.get(ino)
            if found is None or len(parts) == _DEEPEST:
                return ""
            ino, name = found
            parts.append(name)
        return "/" + b"/".join(reversed(parts)).decode("utf-8", "backslashreplace")

    def _put(self, ino: int, parent: int, name: bytes) -> None:
        self._drop(ino)
        self._names[ino] = (parent, name)
        self._inodes[parent, name] = ino

    def _drop(self, ino: int) -> None:
        named = self._names.pop(ino, None)
        if named is not None and self._inodes.get(named) == ino:
            del self._inodes[named]

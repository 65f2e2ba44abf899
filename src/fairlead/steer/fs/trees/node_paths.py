"""Where the nodes of a directory tree are: parent and name of each, and descriptors of the directories in use.

Every step is one name under an open directory, never a path, and no link is followed: nothing outside the tree can
be reached, whatever a client sends or another program moves meanwhile.
"""

from __future__ import annotations

import os
import stat
import threading
from errno import EINVAL, ENOENT, ENOTDIR, EXDEV
from typing import TYPE_CHECKING

from fairlead.steer.fs.os_errors import build_os_error, build_stale_os_error
from fairlead.steer.fs.trees.base import OWN_FOLDER, ROOT, UnknownNode
from fairlead.steer.fs.trees.thread_identity import forwarder_identity

if TYPE_CHECKING:
    from collections.abc import Iterable

PIN = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DOTS = (b"", b".", b"..")
_KINDS = 0o170000
_OPENABLE = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
_DEPTH = 4096


class Folder:
    """A descriptor of a directory; closed when nobody uses the object any more, so never under a running call."""

    __slots__ = ("fd", "used")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.used = True

    def __del__(self) -> None:
        os.close(self.fd)


class Places:
    """Places of nodes, and a bounded number of open directories. Thread-safe."""

    def __init__(self, path: str | bytes, folders: int) -> None:
        self.root = Folder(os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        st = os.fstat(self.root.fd)
        self.device = st.st_dev
        self.root_inode = st.st_ino
        self._capacity = max(folders, 8)
        self._folders: dict[int, Folder] = {}
        self._places: dict[int, tuple[int, bytes]] = {}
        self._others: dict[int, list[tuple[int, bytes]]] = {}
        self.special: set[int] = set()
        """Nodes that are fifos, sockets or devices: never opened here, the client's kernel does that itself."""
        self._guard = threading.Lock()

    def check_name(self, parent: int, name: bytes) -> bytes:
        """The name, if it is one component; OSError otherwise. That of our own folder is refused as ENOENT."""
        if 47 in name or 0 in name or name in _DOTS:
            raise build_os_error(EINVAL)
        if name == OWN_FOLDER and parent == ROOT:
            raise build_os_error(ENOENT)
        return name

    def remember(self, parent: int, name: bytes, st: os.stat_result) -> int:
        """The node of what was found under a name, whose place is known from now on."""
        if st.st_dev != self.device:
            raise build_os_error(EXDEV)
        node = st.st_ino + 1
        place = (parent, name)
        before = self._places.get(node)
        if before != place:
            kind = st.st_mode & _KINDS
            if before is not None and st.st_nlink > 1 and kind != stat.S_IFDIR:
                with self._guard:
                    others = self._others.setdefault(node, [])
                    if before not in others:
                        others.append(before)
                    if place in others:
                        others.remove(place)
            self._places[node] = place
            if kind not in _OPENABLE:
                self.special.add(node)
            elif self.special:
                self.special.discard(node)
        return node

    def has_node(self, node: int) -> bool:
        """Whether the node was seen here under any name."""
        return node in self._places

    def list_places(self, node: int) -> list[tuple[int, bytes]]:
        """Places where the node may be, the latest first; raises UnknownNode if it was never seen here."""
        place = self._places.get(node)
        if place is None:
            raise UnknownNode(node)
        others = self._others.get(node)
        return [place] if others is None else [place, *others]

    def get_place(self, node: int) -> tuple[int, bytes]:
        """The latest place; raises UnknownNode."""
        place = self._places.get(node)
        if place is None:
            raise UnknownNode(node)
        return place

    def remove_place(self, node: int, place: tuple[int, bytes]) -> None:
        """The node is not at that place any more; what is known of its other places stays."""
        with self._guard:
            others = self._others.get(node)
            if others is not None:
                if place in others:
                    others.remove(place)
                elif others and self._places.get(node) == place:
                    self._places[node] = others.pop()
                if not others:
                    del self._others[node]

    def forget(self, nodes: Iterable[int]) -> None:
        """Drops what is known of nodes."""
        for node in nodes:
            if node != ROOT:
                self._places.pop(node, None)
                self._others.pop(node, None)
                self.special.discard(node)

    def open_folder(self, node: int) -> Folder:
        """The open directory of a node; keep the object while its descriptor is in use."""
        if node == ROOT:
            return self.root
        found = self._folders.get(node)
        if found is not None:
            found.used = True
            return found
        return self._opened(node)

    def _opened(self, node: int) -> Folder:
        """Opens directories from the nearest open one down to `node`."""
        way = []
        folder = self.root
        above = node
        while above != ROOT:
            found = self._folders.get(above)
            if found is not None:
                folder = found
                break
            parent, name = self.get_place(above)
            way.append((above, name))
            above = parent
            if len(way) > _DEPTH:
                # Directories moved into each other behind our back: their places contradict each other.
                raise build_stale_os_error()
        with forwarder_identity:
            for step, name in reversed(way):
                folder = self._step(folder, step, name)
        return folder

    def _step(self, folder: Folder, node: int, name: bytes) -> Folder:
        try:
            below = Folder(os.open(name, _FOLDER, dir_fd=folder.fd))
        except OSError as error:
            if error.errno in (ENOENT, ENOTDIR):
                raise build_stale_os_error() from error
            raise
        st = os.fstat(below.fd)
        if st.st_ino + 1 != node or st.st_dev != self.device:
            raise build_stale_os_error()
        with self._guard:
            if len(self._folders) >= self._capacity:
                self._make_room()
            self._folders[node] = below
        return below

    def _make_room(self) -> None:
        """Lets go the directory that was opened first and not used since the last time this came by it."""
        for node, folder in list(self._folders.items()):
            del self._folders[node]
            if not folder.used:
                return
            folder.used = False
            self._folders[node] = folder
        self._folders.pop(next(iter(self._folders)), None)

    def close_folder(self, node: int) -> None:
        """Lets go a directory that was removed."""
        self._folders.pop(node, None)

    def pin(self, node: int) -> tuple[int, os.stat_result]:
        """A descriptor (O_PATH, to be closed by the caller) of whatever the node is, and its attributes. ESTALE if it
        is at none of its places."""
        if node == ROOT:
            fd = os.open(".", PIN, dir_fd=self.root.fd)
            return fd, os.fstat(fd)
        for place in self.list_places(node):
            folder = self.open_folder(place[0])
            try:
                fd = os.open(place[1], PIN, dir_fd=folder.fd)
            except FileNotFoundError:
                self.remove_place(node, place)
                continue
            st = os.fstat(fd)
            if st.st_ino + 1 == node and st.st_dev == self.device:
                return fd, st
            os.close(fd)
            self.remove_place(node, place)
        raise build_stale_os_error()

    def stat(self, node: int) -> os.stat_result:
        """As lstat; ESTALE if the node is at none of its places."""
        if node == ROOT:
            return os.fstat(self.root.fd)
        for place in self.list_places(node):
            folder = self.open_folder(place[0])
            try:
                st = os.stat(place[1], dir_fd=folder.fd, follow_symlinks=False)
            except FileNotFoundError:
                self.remove_place(node, place)
                continue
            if st.st_ino + 1 == node and st.st_dev == self.device:
                return st
            self.remove_place(node, place)
        raise build_stale_os_error()

    def close(self) -> None:
        """Lets go everything."""
        self._folders.clear()
        self._places.clear()
        self._others.clear()

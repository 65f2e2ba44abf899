"""Which path a node had when a request ended: names are learnt in the order of the requests, so recycled nodes and
renamed directories are told apart. Used by the thread that drains a trace, never by the mount itself.
"""

from __future__ import annotations

from hashlib import blake2b

from fairlead.steer.fs.fuse.abi import ROOT

File = tuple[int, str]
"""A file's id and path."""
_DEEPEST = 4096


class PathNames:
    """Paths of nodes below a mount point. Ids are those of `fairlead.core.model.identity` over `fs` and the path."""

    def __init__(self, fs: str, mount_point: str) -> None:
        self._fs = fs
        self._root = mount_point.rstrip("/")
        self._place: dict[int, tuple[int, bytes]] = {}
        self._node: dict[tuple[int, bytes], int] = {}
        self._files: dict[int, File] = {}
        self._parents: set[int] = set()

    def __len__(self) -> int:
        return len(self._place)

    def bind(self, node: int, parent: int, name: bytes) -> None:
        """The node has this name now."""
        place = (parent, name)
        if self._place.get(node) == place:
            return
        self._place[node] = place
        self._node[place] = node
        self._parents.add(parent)
        self._stale(node)

    def unbind(self, parent: int, name: bytes) -> None:
        """The name is gone. What is still open keeps its path until the node is another file's."""
        self._node.pop((parent, name), None)

    def move(self, parent: int, name: bytes, new_parent: int, new_name: bytes, *, exchange: bool = False) -> None:
        """The name was renamed, or two names exchanged."""
        moved = self._node.pop((parent, name), None)
        there = self._node.pop((new_parent, new_name), None)
        if moved is not None:
            self.bind(moved, new_parent, new_name)
        if exchange and there is not None:
            self.bind(there, parent, name)

    def forget(self, node: int) -> None:
        """The kernel knows the node no longer."""
        place = self._place.pop(node, None)
        if place is not None and self._node.get(place) == node:
            del self._node[place]
        self._files.pop(node, None)
        self._parents.discard(node)

    def _stale(self, node: int) -> None:
        if node in self._parents:
            self._files.clear()  # every path below it has changed
        else:
            self._files.pop(node, None)

    def find_file(self, node: int) -> File | None:
        """Id and path of a node, None when its name was never seen."""
        found = self._files.get(node)
        if found is None:
            steps: list[bytes] = []
            at = node
            while at != ROOT:
                place = self._place.get(at)
                if place is None or len(steps) > _DEEPEST:
                    return None
                steps.append(place[1])
                at = place[0]
            found = self._files[node] = self._made(steps[::-1])
        return found

    def find_below(self, parent: int, name: bytes) -> File | None:
        """Id and path of a name in a directory, whether or not it exists."""
        known = self._node.get((parent, name))
        if known is not None:
            return self.find_file(known)
        folder = self.find_file(parent)
        return None if folder is None else self._file(f"{folder[1].rstrip('/')}/{_text(name)}")

    def _made(self, steps: list[bytes]) -> File:
        return self._file("/".join([self._root, *map(_text, steps)]) or "/")

    def _file(self, path: str) -> File:
        digest = blake2b(f"{self._fs}\0{path}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little", signed=True), path


def _text(name: bytes) -> str:
    """A name as text. Bytes that are no UTF-8 are shown as `\\xNN`, as records are UTF-8."""
    return name.decode("utf-8", "backslashreplace")

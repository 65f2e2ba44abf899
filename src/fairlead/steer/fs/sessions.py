"""What one client has open, by the numbers it chose: files and snapshots of directories. Not what it is allowed to do,
nor who it is.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairlead.steer.fs.trees.base import Entry, OpenFile

_numbers = itertools.count(1)
MOST_ENTRIES = 4 << 20
"""Entries of open directories that are kept in memory for one session, about 200 bytes each."""
_FEW = 64
"""A directory of so many entries is not worth looking for others to let go."""


class UnknownHandle(Exception):  # noqa: N818
    """The client has not opened that handle here (it did at another forwarder, which was lost)."""

    def __init__(self, handle: int) -> None:
        super().__init__(f"handle {handle}")
        self.handle = handle


class Folder:
    """An open directory: its entries when they were last read from the start."""

    __slots__ = ("entries", "fresh", "node")

    def __init__(self, node: int, entries: Sequence[Entry]) -> None:
        self.node = node
        self.entries: Sequence[Entry] | None = entries
        """None: let go, to be read again."""
        self.fresh = True
        """Read just now, and nothing taken from it yet."""


class Handles:
    """Open files and directories of one session."""

    __slots__ = ("ended", "files", "folders", "known", "locked", "number", "placed")

    def __init__(self) -> None:
        self.number = next(_numbers)
        """Tells the sessions of this process apart: lock owners are numbers each client chose for itself."""
        self.ended = False
        """Nobody closes any more what is entered from now on."""
        self.files: dict[int, OpenFile] = {}
        self.folders: dict[int, Folder] = {}
        self.known: dict[int, int] = {}
        """How often the client's kernel was told each node; it gives the same number back with FORGET."""
        self.placed: set[int] = set()
        """Nodes whose way from the root the client has shown to be open to it (sessions of one user)."""
        self.locked: set[tuple[int, int]] = set()
        """(handle, owner) that may hold POSIX locks."""

    def find_file(self, handle: int) -> OpenFile:
        """The open file; raises UnknownHandle."""
        try:
            return self.files[handle]
        except KeyError:
            raise UnknownHandle(handle) from None

    def hold(self, handle: int, folder: Folder, entries: Sequence[Entry]) -> None:
        """Enters an open directory with its entries. Those of directories opened before are let go where all would be
        too many: a listing of one of them goes on at the same position of what is there then."""
        folder.entries = entries
        self.folders[handle] = folder
        if len(entries) <= _FEW:
            return
        left = MOST_ENTRIES - len(entries)
        for other in reversed(list(self.folders.values())):
            if other is not folder and (kept := other.entries) is not None:
                left -= len(kept)
                if left < 0:
                    other.entries = None

    def map_owner(self, owner: int) -> int:
        """A lock owner of this client as a number no other session has."""
        return self.number << 64 | owner

    def close_all(self) -> None:
        """Gives back the locks and closes everything: the session is over."""
        self.ended = True
        for handle, owner in list(self.locked):
            file = self.files.get(handle)
            if file is not None:
                file.unlock_owner(self.map_owner(owner))
        self.locked.clear()
        self.folders.clear()
        while self.files:
            self.files.popitem()[1].close()

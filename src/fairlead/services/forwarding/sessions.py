"""What one client has open, by the numbers it chose: files and snapshots of directories. Not what it is allowed to do,
nor who it is.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairlead.services.forwarding.trees.base import Entry, OpenFile

_numbers = itertools.count(1)


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
        self.entries = entries
        self.fresh = True
        """Read just now, and nothing taken from it yet."""


class Handles:
    """Open files and directories of one session."""

    __slots__ = ("files", "folders", "known", "locked", "number")

    def __init__(self) -> None:
        self.number = next(_numbers)
        """Tells the sessions of this process apart: lock owners are numbers each client chose for itself."""
        self.files: dict[int, OpenFile] = {}
        self.folders: dict[int, Folder] = {}
        self.known: dict[int, int] = {}
        """How often the client's kernel was told each node; it gives the same number back with FORGET."""
        self.locked: set[tuple[int, int]] = set()
        """(handle, owner) that may hold POSIX locks."""

    def file(self, handle: int) -> OpenFile:
        """The open file; raises UnknownHandle."""
        try:
            return self.files[handle]
        except KeyError:
            raise UnknownHandle(handle) from None

    def owner(self, owner: int) -> int:
        """A lock owner of this client as a number no other session has."""
        return self.number << 64 | owner

    def close_all(self) -> None:
        """Gives back the locks and closes everything: the session is over."""
        for handle, owner in list(self.locked):
            file = self.files.get(handle)
            if file is not None:
                file.unlock_owner(self.owner(owner))
        self.locked.clear()
        self.folders.clear()
        while self.files:
            self.files.popitem()[1].close()

"""What one client session has open, by the numbers the client chose: files and snapshots of directories.

    open --> files[handle] --RELEASE, close_all--> closed
             folders[handle]: fresh --first READDIR--> in use --too many entries--> let go (read again when asked)

Not here: who the client is and what it may do.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairlead.steer.fs.trees.base import Entry, OpenFile

_numbers = itertools.count(1)
MOST_ENTRIES = 4 << 20
"""Most entries of open directories in memory for one session, about 200 bytes each."""
_FEW = 64
"""Directories of at most this many entries do not count."""


class UnknownHandle(Exception):  # noqa: N818
    """The handle is not open here; the client may have opened it at a forwarder that was lost."""

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
        """Read just now; no READDIR has used it yet."""


class Handles:
    """Open files and directories of one session."""

    __slots__ = ("ended", "files", "folders", "holders", "known", "locked", "number", "placed")

    def __init__(self) -> None:
        self.number = next(_numbers)
        """Unique in this process: clients choose their lock owners themselves, two may choose the same."""
        self.ended = False
        """The session is over: what is added from now on would never be closed."""
        self.files: dict[int, OpenFile] = {}
        self.folders: dict[int, Folder] = {}
        self.holders: dict[int, int] = {}
        """Who opened each handle, where that is counted."""
        self.known: dict[int, int] = {}
        """Look-up count of each node the client's kernel has; FORGET takes it back."""
        self.placed: set[int] = set()
        """Nodes whose way from the root the client has shown to be open to it (sessions of one user)."""
        self.locked: set[tuple[int, int]] = set()
        """(handle, owner) that may hold POSIX locks."""

    def find_file(self, handle: int) -> OpenFile:
        """The open file. Raises `UnknownHandle`."""
        try:
            return self.files[handle]
        except KeyError:
            raise UnknownHandle(handle) from None

    def hold(self, handle: int, folder: Folder, entries: Sequence[Entry]) -> None:
        """Adds an open directory with its entries. Beyond `MOST_ENTRIES` those of older directories are let go:
        a listing of one goes on at the same position of what is there then."""
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
        """A lock owner of this client as a number that is unique in this process."""
        return self.number << 64 | owner

    def close_all(self) -> None:
        """Ends the session: releases the locks, then closes everything."""
        self.ended = True
        for handle, owner in list(self.locked):
            file = self.files.get(handle)
            if file is not None:
                file.unlock_owner(self.map_owner(owner))
        self.locked.clear()
        self.folders.clear()
        while self.files:
            self.files.popitem()[1].close()

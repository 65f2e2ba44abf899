"""A bounded cache of what jobs read in order, read ahead of them; wraps a tree. Coherent: a block is served only while
the file has the times and the size it had when the block was read.

Off unless a job's settings ask for it: over a local file system the kernel does this already.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from threading import Lock, local
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from fairlead.core.clock import now_ns
from fairlead.steer.forwarding.forwarder.job_settings import JobSettings, ReadSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairlead.steer.fs.trees.base import FileTree, OpenFile, Stat

BLOCK = 128 << 10
"""Bytes of one block of the cache."""
SETTLED_NS = 50_000_000
"""Times of a file have the grain of the kernel's tick: a file changed less than this before a block was read may change
again without its times showing it, so the block is not kept."""
Stamp = tuple[int, int, int]
"""mtime, ctime, size."""


class Counters(NamedTuple):
    """What the cache has done: read requests answered from it or not, blocks dropped without ever being read, bytes
    clients asked for and bytes read from the tree for them."""

    hits: int
    misses: int
    discards: int
    asked_bytes: int
    tree_bytes: int

    @property
    def amplification(self) -> float:
        """Bytes read from the tree for every byte asked."""
        return self.tree_bytes / self.asked_bytes if self.asked_bytes else 0.0


class _Block:
    __slots__ = ("data", "used")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.used = False


class _NodeCache:
    """What the cache holds of one node."""

    __slots__ = ("blocks", "changes", "fetching", "handles", "stamp")

    def __init__(self) -> None:
        self.blocks: dict[int, _Block] = {}
        self.stamp: Stamp | None = None
        self.changes = 0
        self.handles = 0
        self.fetching = Lock()


class ReadCache:
    """Blocks of all files, the least recently used dropped first. Thread-safe."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._nodes: dict[int, _NodeCache] = {}
        self._order: OrderedDict[tuple[int, int], _NodeCache] = OrderedDict()
        self._lock = Lock()
        self._hits = self._misses = self._discards = self._asked = self._from_tree = 0

    def read_counters(self) -> Counters:
        """The counts till now."""
        with self._lock:
            return Counters(self._hits, self._misses, self._discards, self._asked, self._from_tree)

    def open_node(self, node: int) -> _NodeCache:
        """What is known of a node that has been opened once more."""
        with self._lock:
            known = self._nodes.get(node)
            if known is None:
                known = self._nodes[node] = _NodeCache()
            known.handles += 1
            return known

    def close_node(self, node: int, known: _NodeCache) -> None:
        """One handle less. Blocks stay for the next opening; a node without blocks is forgotten."""
        with self._lock:
            known.handles -= 1
            if not known.handles and not known.blocks:
                self._nodes.pop(node, None)

    def invalidate(self, node: int) -> None:
        """The file is being written or cut: what is kept of it does not hold."""
        known = self._nodes.get(node)
        if known is not None:
            with self._lock:
                known.changes += 1
                self._drop(node, known)

    def _drop(self, node: int, known: _NodeCache) -> None:
        for number, block in known.blocks.items():
            del self._order[node, number]
            self.bytes -= len(block.data)
            self._discards += not block.used
        known.blocks.clear()

    def copy(self, node: int, known: _NodeCache, stamp: Stamp, buffer: memoryview, offset: int) -> int | None:
        """Bytes copied from blocks; None when one is missing or does not hold any more."""
        with self._lock:
            if known.stamp != stamp:
                if known.blocks:
                    self._drop(node, known)
                return None
            end = min(offset + len(buffer), stamp[2])
            if end <= offset:
                return 0
            found = []
            for number in range(offset // BLOCK, (end + BLOCK - 1) // BLOCK):
                block = known.blocks.get(number)
                if block is None or len(block.data) < min(BLOCK, stamp[2] - number * BLOCK):
                    return None
                found.append((number, block))
            for number, block in found:
                block.used = True
                self._order.move_to_end((node, number))
        for number, block in found:
            begin = number * BLOCK
            low, high = max(offset, begin), min(end, begin + BLOCK)
            buffer[low - offset : high - offset] = memoryview(block.data)[low - begin : high - begin]
        return end - offset

    def keep(self, node: int, known: _NodeCache, stamp: Stamp, changes: int, first: int, data: memoryview) -> None:
        """Keeps what was read from block `first` on, unless the file changed meanwhile."""
        blocks = [bytes(data[place : place + BLOCK]) for place in range(0, len(data), BLOCK)]
        with self._lock:
            if known.changes != changes:
                return
            if known.stamp != stamp:
                self._drop(node, known)
                known.stamp = stamp
            self._nodes.setdefault(node, known)
            if self._nodes[node] is not known:
                return
            for number, block in enumerate(blocks, first):
                before = known.blocks.pop(number, None)
                if before is not None:
                    self.bytes -= len(before.data)
                    del self._order[node, number]
                known.blocks[number] = _Block(block)
                self._order[node, number] = known
                self.bytes += len(block)
            while self.bytes > self.most_bytes:
                (old_node, number), old = self._order.popitem(last=False)
                dropped = old.blocks.pop(number)
                self.bytes -= len(dropped.data)
                self._discards += not dropped.used
                if not old.blocks and not old.handles:
                    self._nodes.pop(old_node, None)

    def count(self, *, hit: bool, asked: int, from_tree: int) -> None:
        """One read request was answered."""
        with self._lock:
            if hit:
                self._hits += 1
            else:
                self._misses += 1
            self._asked += asked
            self._from_tree += from_tree


class CachedFile:
    """An open file whose reads in order go through the cache. What is not here is the file's own."""

    descriptor: int | None = None  # never passed on: a write past the cache would not be seen at once

    def __init__(self, file: OpenFile, cache: ReadCache, settings: ReadSettings, sole: bool) -> None:
        self.real = file
        self.node, self.flags = file.node, file.flags
        self._cache = cache
        self._settings = settings
        self._known = cache.open_node(file.node)
        self._expected = 0
        self._sole = sole

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """From the cache; else, when the reads are in order, with what follows; else as it was asked."""
        cache, known, real = self._cache, self._known, self.real
        asked = len(buffer)
        in_order = offset == self._expected
        self._expected = offset + asked
        if known.blocks:
            stamp = known.stamp if self._sole and known.stamp is not None else _stamp(real.stat())
            found = cache.copy(self.node, known, stamp, buffer, offset)
            if found is not None:
                cache.count(hit=True, asked=found, from_tree=0)
                return found
        if not in_order or not self._settings.cache:
            count = real.read_into(buffer, offset)
            cache.count(hit=False, asked=count, from_tree=count)
            return count
        with known.fetching:
            changes = known.changes
            stamp = _stamp(real.stat())
            # Another handle may have fetched it meanwhile.
            found = cache.copy(self.node, known, stamp, buffer, offset) if known.blocks else None
            if found is not None:
                cache.count(hit=True, asked=found, from_tree=0)
                return found
            return self._fetch(buffer, offset, stamp, changes)

    def _fetch(self, buffer: memoryview, offset: int, stamp: Stamp, changes: int) -> int:
        cache, asked = self._cache, len(buffer)
        first = offset // BLOCK
        begin = first * BLOCK
        end = min(-(-(offset + max(self._settings.read_ahead, asked)) // BLOCK) * BLOCK, stamp[2])
        # Reading begins after this moment: a write it does not see changes the stamp, or `changes`.
        if end <= offset or not (self._sole or now_ns() - max(stamp[0], stamp[1]) > SETTLED_NS):
            count = self.real.read_into(buffer, offset)
            cache.count(hit=False, asked=count, from_tree=count)
            return count
        room = memoryview(bytearray(end - begin))
        count = self.real.read_into(room, begin)
        answered = max(0, min(asked, begin + count - offset))
        buffer[:answered] = room[offset - begin : offset - begin + answered]
        cache.count(hit=False, asked=answered, from_tree=count)
        if count == len(room):
            cache.keep(self.node, self._known, stamp, changes, first, room)
        return answered

    def write_from(self, buffer: memoryview, offset: int) -> int:
        """Writes, and forgets what was kept of the file, before and after."""
        return cast("int", self._changing(self.real.write_from, buffer, offset))

    def truncate(self, size: int) -> None:
        """As `write_from`."""
        self._changing(self.real.truncate, size)

    def allocate(self, mode: int, offset: int, length: int) -> None:
        """As `write_from`."""
        self._changing(self.real.allocate, mode, offset, length)

    def copy_to(self, offset: int, other: OpenFile, other_offset: int, length: int) -> int:
        """Forgets what was kept of the other file."""
        if isinstance(other, CachedFile):
            return cast("int", other._changing(self.real.copy_to, offset, other.real, other_offset, length))
        return self.real.copy_to(offset, other, other_offset, length)

    def _changing(self, action: Callable[..., Any], *arguments: Any) -> Any:
        changed = self._cache.invalidate
        changed(self.node)
        try:
            return action(*arguments)
        finally:
            changed(self.node)

    def close(self) -> None:
        """Blocks stay for who opens it next."""
        self._cache.close_node(self.node, self._known)
        self.real.close()


def _stamp(st: Stat) -> Stamp:
    return st.st_mtime_ns, st.st_ctime_ns, st.st_size


class CachingTree:
    """A tree whose files are read through a cache, as the settings of the job that opens them say. `sole`: nobody else
    changes the tree, so what is kept holds until it is changed here."""

    def __init__(self, tree: FileTree, settings: JobSettings, *, sole: bool = False) -> None:
        self.real = tree
        self.cache = ReadCache(settings.cache_bytes)
        self._settings = settings
        self._opening = local()
        self._sole = sole

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def set_job(self, job: str) -> None:
        """Whatever this thread opens from now on, it opens for that job."""
        self._opening.job = job

    def _cached(self, file: OpenFile) -> OpenFile:
        settings = self._settings.get_read_settings(getattr(self._opening, "job", ""))
        return cast("OpenFile", CachedFile(file, self.cache, settings, self._sole))

    def create(self, parent: int, name: bytes, flags: int, mode: int) -> tuple[int, Stat, OpenFile]:
        """As the tree's."""
        node, st, file = self.real.create(parent, name, flags, mode)
        self.cache.invalidate(node)
        return node, st, self._cached(file)

    def create_temporary(self, parent: int, flags: int, mode: int) -> tuple[int, Stat, OpenFile]:
        """As the tree's."""
        node, st, file = self.real.create_temporary(parent, flags, mode)
        self.cache.invalidate(node)
        return node, st, self._cached(file)

    def mknod(self, parent: int, name: bytes, mode: int, device: int) -> tuple[int, Stat]:
        """As the tree's; its node may have been another file's."""
        node, st = self.real.mknod(parent, name, mode, device)
        self.cache.invalidate(node)
        return node, st

    def open(self, node: int, flags: int) -> OpenFile:
        """As the tree's. O_TRUNC changes the file."""
        if flags & os.O_TRUNC:
            self.cache.invalidate(node)
        return self._cached(self.real.open(node, flags))

    def reopen(self, node: int, flags: int) -> OpenFile:
        """As the tree's."""
        return self._cached(self.real.reopen(node, flags))

    def change(self, node: int, change: Any, file: OpenFile | None) -> Stat:
        """As the tree's; a new size changes the file."""
        self.cache.invalidate(node)
        try:
            return self.real.change(node, change, file.real if isinstance(file, CachedFile) else file)
        finally:
            self.cache.invalidate(node)


def with_read_cache(tree: FileTree, settings: JobSettings, *, sole: bool = False) -> FileTree:
    """The tree behind a read cache, or the tree itself where no job's settings ask for one."""
    return cast("FileTree", CachingTree(tree, settings, sole=sole)) if settings.caches else tree

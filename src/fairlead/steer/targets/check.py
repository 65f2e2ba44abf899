"""Checks a tree: names, inodes and objects against each other, and mends what can be mended.

A *fault* is something lost or left over; a *note* is what a killed forwarder leaves behind in normal service.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from fairlead.core.clock import now_ns
from fairlead.steer.targets import inode_data, namespace
from fairlead.steer.targets.inode import ROOT_INODE, Inode
from fairlead.steer.targets.objects import Target, TargetSet
from fairlead.steer.targets.store import Store
from fairlead.steer.targets.striping import compute_stripe_object_size, compute_striped_end

PAGE = 1000
NOTES = ("size", "unrecorded", "unlinked", "unfinished", "oversize")


@dataclass(frozen=True)
class Problem:
    """Something that does not fit. `kind`: missing, orphaned, name, links, target, or one of `NOTES`."""

    kind: str
    what: str
    inode: int = 0
    target: str | None = None
    mended: bool = False

    @property
    def fault(self) -> bool:
        """Whether it is more than a note."""
        return self.kind not in NOTES


@dataclass
class CheckResult:
    """What a check saw."""

    inodes: int = 0
    objects: int = 0
    problems: list[Problem] = field(default_factory=list)

    @property
    def faults(self) -> int:
        """Faults that were not mended."""
        return sum(problem.fault and not problem.mended for problem in self.problems)


def check_store(store: Store, targets: TargetSet, *, repair: bool = False) -> CheckResult:
    """Looks at everything once. With `repair` nobody else may have the tree open."""
    return _Check(store, targets, repair).run()


class _Check:
    def __init__(self, store: Store, targets: TargetSet, repair: bool) -> None:
        self._store = store
        self._targets = targets
        self._repair = repair
        self._found = CheckResult()

    def run(self) -> CheckResult:
        records = {inode.ino: inode for inode in self._records()}
        self._found.inodes = len(records)
        self._names(records)
        objects = self._objects(records)
        for inode in records.values():
            if inode.is_file and inode.nlink > 0:  # one without a name may be half removed
                self._file(inode, objects)
        return self._found

    def _records(self) -> Iterator[Inode]:
        after = 0
        while page := self._store.read(inode_data.list_inodes, after, PAGE):
            yield from page
            after = page[-1].ino

    def _note(self, kind: str, what: str, ino: int = 0, target: str | None = None, mended: bool = False) -> None:
        self._found.problems.append(Problem(kind, what, ino, target, mended))

    def _names(self, records: dict[int, Inode]) -> None:
        links: Counter[int] = Counter()
        for inode in records.values():
            if not inode.is_directory:
                continue
            links[inode.ino] += 2 if inode.ino == ROOT_INODE or inode.nlink else 0
            for name, ino, _ in self._store.read(namespace.list_namespace_entries, inode.ino, None):
                if name in (b".", b".."):
                    continue
                child = records.get(ino)
                if child is None:
                    if self._repair:
                        self._store.write(inode_data.drop_inode_name, inode.ino, name)
                    self._note("name", f"{os.fsdecode(name)!r} names no inode", ino, mended=self._repair)
                elif child.is_directory:
                    links[inode.ino] += 1
                else:
                    links[ino] += 1
        for inode in records.values():
            if max(inode.nlink, 0) != links[inode.ino]:
                what = f"counts {inode.nlink} links, has {links[inode.ino]}"
                if self._repair:
                    self._store.write(inode_data.set_inode_links, inode.ino, links[inode.ino], now_ns())
                self._note("links", what, inode.ino, mended=self._repair)
            elif inode.nlink <= 0 and inode.is_file:
                self._note("unlinked", "has no name; removed when a forwarder has run for its grace", inode.ino)

    def _objects(self, records: dict[int, Inode]) -> dict[tuple[int, int], os.stat_result]:
        """Objects that belong to a file; the others are set aside."""
        found = {}
        for target in self._targets.by_name.values():
            if not target.is_mounted():
                self._note("target", f"nothing at {target.path}", target=target.name)
                continue
            for path, name in _scan(target):
                ino, index = _parsed(name)
                inode = records.get(ino)
                if inode is None or index >= len(inode.targets) or inode.targets[index] != target.name:
                    if self._repair:
                        _set_aside(target, path, name)
                    self._note("orphaned", f"object {name} belongs to no file", max(ino, 0), target.name, self._repair)
                    continue
                self._found.objects += 1
                found[ino, index] = os.stat(path)
        return found

    def _file(self, inode: Inode, objects: dict[tuple[int, int], os.stat_result]) -> None:
        end = inode.size
        count = len(inode.targets)
        for index, name in enumerate(inode.targets):
            there = objects.get((inode.ino, index))
            target = self._targets.by_name.get(name)
            if target is None:
                self._note("target", "not in the targets file", inode.ino, name)
            elif there is None:
                if inode.made >> index & 1 and not target.missing:
                    if self._repair:
                        self._store.write(inode_data.drop_inode_objects, inode.ino, 1 << index)
                    self._note("missing", f"object {index} has gone: a hole", inode.ino, name, self._repair)
            else:
                self._object(inode, index, target, there)
                if inode.cut < 0:
                    end = max(end, compute_striped_end(index, there.st_size, inode.stripe, count))
        if inode.cut >= 0:
            if self._repair:
                self._store.write(inode_data.finish_inode_resize, inode.ino, inode.cuts, now_ns())
            self._note("unfinished", f"a truncation to {inode.cut} bytes was cut short", inode.ino, mended=self._repair)
        elif end > inode.size:
            if self._repair:
                self._store.write(inode_data.record_inode_objects, inode.ino, 0, end, inode.cuts)
            self._note("size", f"recorded as {inode.size} bytes, is {end}", inode.ino, mended=self._repair)

    def _object(self, inode: Inode, index: int, target: Target, there: os.stat_result) -> None:
        if not inode.made >> index & 1:
            if self._repair:
                self._store.write(inode_data.record_inode_objects, inode.ino, 1 << index, 0, inode.cuts)
            self._note("unrecorded", f"object {index} is not recorded yet", inode.ino, target.name, self._repair)
        if inode.cut >= 0:
            length = compute_stripe_object_size(index, inode.cut, inode.stripe, len(inode.targets))
            if there.st_size > length:
                if self._repair:
                    os.truncate(target.get_object_path(inode.ino, index), length)
                what = f"object {index} has {there.st_size} bytes, {length} belong to the file"
                self._note("oversize", what, inode.ino, target.name, self._repair)


def _scan(target: Target) -> Iterator[tuple[str, str]]:
    for low in range(256):
        folder = f"{target.path}/objects/{low:02x}"
        try:
            names = sorted(os.listdir(folder))
        except FileNotFoundError:
            continue
        yield from ((f"{folder}/{name}", name) for name in names)


def _parsed(name: str) -> tuple[int, int]:
    ino, _, index = name.partition(".")
    try:
        return int(ino, 16), int(index)
    except ValueError:
        return -1, 0


def _set_aside(target: Target, path: str, name: str) -> None:
    """Moved, not removed: somebody may miss it."""
    os.makedirs(os.path.join(target.path, "lost"), mode=0o700, exist_ok=True)
    os.rename(path, os.path.join(target.path, "lost", name))


def count_checked_objects(target: Target) -> int:
    """Objects on a target."""
    return sum(1 for _ in _scan(target))

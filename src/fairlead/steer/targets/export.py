"""Reads a tree back into a directory, with no forwarder: data, names, modes, times, links, extended attributes."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from fairlead.core.errors import InputError
from fairlead.steer.fs.trees.base import ROOT, Stat
from fairlead.steer.targets.layouts import NAME as LAYOUT
from fairlead.steer.targets.tree import TargetsTree

_PIECE = 4 << 20


@dataclass
class ExportResult:
    """What was read back. `failed` holds path and reason of what could not be."""

    files: int = 0
    directories: int = 0
    others: int = 0
    bytes: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)


def export_tree(tree: TargetsTree, destination: str, path: str = "/") -> ExportResult:
    """Writes the subtree at `path` into a new or empty directory (a file: into that directory, under its name)."""
    remedy = "give a new or empty directory"
    try:
        os.makedirs(destination, exist_ok=True)
        used = os.listdir(destination)
    except FileExistsError as error:
        raise InputError("is no directory", where=destination, remedy=remedy) from error
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=destination, remedy=remedy) from error
    if used:
        raise InputError("not empty", where=destination, remedy=remedy)
    node = ROOT
    names = [name for name in path.split("/") if name]
    try:
        for name in names:
            node = tree.lookup(node, os.fsencode(name))[0]
        attributes = tree.stat(node)
    except OSError as error:
        raise InputError(error.strerror or str(error), where=path, remedy="give a path of the tree") from error
    done = ExportResult()
    to = os.fsencode(destination)
    if not stat.S_ISDIR(attributes.st_mode):
        to = os.path.join(to, os.fsencode(names[-1]))
    _Export(tree, done).node(node, attributes, to)
    return done


class _Export:
    def __init__(self, tree: TargetsTree, done: ExportResult) -> None:
        self._tree = tree
        self._done = done
        self._linked: dict[int, bytes] = {}

    def node(self, node: int, attributes: Stat, to: bytes) -> None:
        """One node and what is below it."""
        try:
            if stat.S_ISDIR(attributes.st_mode):
                self._directory(node, to)
            elif node in self._linked:
                os.link(self._linked[node], to, follow_symlinks=False)
                return
            else:
                self._single(node, attributes, to)
                if attributes.st_nlink > 1:
                    self._linked[node] = to
            self._dress(node, attributes, to)
        except OSError as error:
            self._done.failed.append((os.fsdecode(to), error.strerror or str(error)))

    def _directory(self, node: int, to: bytes) -> None:
        os.makedirs(to, exist_ok=True)
        self._done.directories += 1
        for entry in self._tree.list_entries(node):
            if entry.name not in (b".", b".."):
                self.node(entry.node, self._tree.stat(entry.node), os.path.join(to, entry.name))

    def _single(self, node: int, attributes: Stat, to: bytes) -> None:
        kind = stat.S_IFMT(attributes.st_mode)
        if kind == stat.S_IFREG:
            self._file(node, attributes.st_size, to)
            self._done.files += 1
            return
        if kind == stat.S_IFLNK:
            os.symlink(self._tree.readlink(node), to)
        else:
            os.mknod(to, attributes.st_mode, attributes.st_rdev)
        self._done.others += 1

    def _file(self, node: int, size: int, to: bytes) -> None:
        file = self._tree.open(node, os.O_RDONLY)
        descriptor = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, size)
            buffer = memoryview(bytearray(_PIECE))
            for start, stop in _data(file.seek, size):
                at = start
                while at < stop:
                    got = file.read_into(buffer[: min(_PIECE, stop - at)], at)
                    if not got:
                        break
                    at += os.pwrite(descriptor, buffer[:got], at)
                self._done.bytes += at - start
        finally:
            os.close(descriptor)
            file.close()

    def _dress(self, node: int, attributes: Stat, to: bytes) -> None:
        for name in self._tree.attribute_names(node):
            if name != LAYOUT:
                with suppress(OSError):  # a file system without them, or not allowed
                    os.setxattr(to, name, self._tree.get_attribute(node, name), follow_symlinks=False)
        if os.geteuid() == 0:
            os.chown(to, attributes.st_uid, attributes.st_gid, follow_symlinks=False)
        if not stat.S_ISLNK(attributes.st_mode):
            os.chmod(to, stat.S_IMODE(attributes.st_mode))
        os.utime(to, ns=(attributes.st_atime_ns, attributes.st_mtime_ns), follow_symlinks=False)


def _data(seek: Callable[[int, int], int], size: int) -> Iterator[tuple[int, int]]:
    """Parts of a file that are no holes. A lost object makes everything one part: reading it then says what is lost."""
    at = 0
    while at < size:
        try:
            start = seek(at, os.SEEK_DATA)
            stop = seek(start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:
                yield at, size
            return
        yield start, stop
        at = stop

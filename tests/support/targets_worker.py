"""Random operations on a striped tree, each logged before and after, until the process is killed.

Called as: targets_worker.py FILE SEED. Stdout: `b ...` when an operation begins, `d` when it is done.
"""

from __future__ import annotations

import os
import random
import sys

from fairlead.steer.fs.trees.base import ROOT, Change
from fairlead.steer.targets.tree import TargetsTree, open_tree

NAMES = [b"f%d" % number for number in range(12)]
SIZE = 200_000


def data_of(seed: int) -> bytes:
    """Bytes of a write, the same for the same seed."""
    stream = random.Random(seed)
    return stream.randbytes(stream.randrange(1, 60_000))


def plan(stream: random.Random, files: set[bytes]) -> tuple[str, bytes, bytes, int, int]:
    """The next operation: kind, name, other name, offset or size, seed of its data."""
    name, other = stream.choice(NAMES), stream.choice(NAMES)
    at, seed = stream.randrange(SIZE), stream.randrange(1 << 30)
    if name not in files:
        return "create", name, other, at, seed
    kind = stream.choice(["write", "write", "append", "truncate", "rename", "unlink", "replace"])
    return kind, name, other, at, seed


def act(tree: TargetsTree, kind: str, name: bytes, other: bytes, at: int, seed: int) -> None:
    """Carries one out."""
    if kind == "create":
        _, _, file = tree.create(ROOT, name, os.O_RDWR | os.O_EXCL, 0o644)
        file.close()
        return
    if kind == "rename":
        tree.rename(ROOT, name, ROOT, other, 0)
        return
    if kind == "unlink":
        tree.unlink(ROOT, name)
        return
    node, _ = tree.lookup(ROOT, name)
    if kind == "truncate":
        tree.change(node, Change(size=at), None)
        return
    flags = {"append": os.O_APPEND, "replace": os.O_TRUNC}.get(kind, 0)
    file = tree.open(node, os.O_RDWR | flags)
    file.write_from(memoryview(data_of(seed)), 0 if kind == "replace" else at)
    file.close()


def apply(files: dict[bytes, bytes], kind: str, name: bytes, other: bytes, at: int, seed: int) -> None:
    """What it does to a model."""
    if kind == "create":
        files[name] = b""
    elif kind == "rename":
        files[other] = files.pop(name)
    elif kind == "unlink":
        del files[name]
    elif kind == "truncate":
        files[name] = files[name][:at].ljust(at, b"\0")
    elif kind == "append":
        files[name] += data_of(seed)
    elif kind == "replace":
        files[name] = data_of(seed)
    else:
        data, old = data_of(seed), files[name].ljust(at, b"\0")
        files[name] = old[:at] + data + old[at + len(data) :]


def main() -> None:
    """Until killed."""
    tree = open_tree(sys.argv[1])
    stream = random.Random(int(sys.argv[2]))
    files = {entry.name for entry in tree.list_entries(ROOT)} & set(NAMES)
    while True:
        kind, name, other, at, seed = step = plan(stream, files)
        os.write(1, f"b {kind} {name.decode()} {other.decode()} {at} {seed}\n".encode())
        act(tree, *step)
        os.write(1, b"d\n")
        if kind in ("unlink", "rename"):
            files.discard(name)
        if kind in ("create", "rename"):
            files.add(other if kind == "rename" else name)


if __name__ == "__main__":
    main()

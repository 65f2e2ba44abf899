"""Targets files and trees for tests."""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairlead.steer.fs.trees.base import ROOT, Change, UnknownNode
from fairlead.steer.targets.tree import TargetsTree, open_tree
from waiting import PATIENCE_S


def write_targets(
    folder: Path,
    layout: str = "stripe_count = 1",
    *,
    metadata: str = 'store = "metadata"',
    names: tuple[str, ...] = ("t0", "t1", "t2"),
    extra: dict[str, str] | None = None,
) -> Path:
    """Makes target directories and the file that names them."""
    lines = [f"[metadata]\n{metadata}"]
    for name in names:
        (folder / name).mkdir(parents=True, exist_ok=True)
        lines.append(f'[[targets]]\nname = "{name}"\npath = "{name}"\n{(extra or {}).get(name, "")}')
    path = folder / "targets.toml"
    path.write_text("\n".join([*lines, f"[layout]\n{layout}\n"]), encoding="utf-8")
    return path


@contextmanager
def opened(path: Path) -> Iterator[TargetsTree]:
    """The tree, closed afterwards."""
    tree = open_tree(str(path))
    try:
        yield tree
    finally:
        tree.close()


def write_file(tree: TargetsTree, name: bytes, data: bytes, parent: int = ROOT) -> int:
    """A closed file; its node."""
    node, _, file = tree.create(parent, name, os.O_RDWR | os.O_EXCL, 0o644)
    try:
        assert file.write_from(memoryview(data), 0) == len(data)
    finally:
        file.close()
    return node


def read_file(tree: TargetsTree, node: int) -> bytes:
    """Its content."""
    file = tree.open(node, os.O_RDONLY)
    try:
        buffer = memoryview(bytearray(tree.stat(node).st_size + 10))
        return bytes(buffer[: file.read_into(buffer, 0)])
    finally:
        file.close()


def disturb(trees: list[TargetsTree], times: int) -> list[BaseException]:
    """A thread for each tree that makes, changes and removes the same few files; errors that are not of names."""
    wrong: list[BaseException] = []

    def work(tree: TargetsTree, seed: int) -> None:
        stream = random.Random(seed)
        for _ in range(times):
            try:
                _disturb(tree, stream)
            except UnknownNode:
                continue
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.EEXIST, errno.ESTALE):
                    wrong.append(error)
            except BaseException as error:  # noqa: BLE001 - shown by the test
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(tree, seed)) for seed, tree in enumerate(trees)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    return wrong


def _disturb(tree: TargetsTree, stream: random.Random) -> None:
    name, other = (b"f%d" % stream.randrange(8) for _ in range(2))
    kind = stream.choice(["create", "unlink", "rename", "write", "truncate", "link", "read"])
    if kind == "create":
        _, _, file = tree.create(ROOT, name, os.O_RDWR, 0o644)
        file.write_from(memoryview(bytes(stream.randrange(1, 30_000))), stream.randrange(10_000))
        file.close()
        return
    if kind == "unlink":
        tree.unlink(ROOT, name)
        return
    if kind == "rename":
        tree.rename(ROOT, name, ROOT, other, stream.choice([0, 2]))
        return
    node, _ = tree.lookup(ROOT, name)
    if kind == "truncate":
        tree.change(node, Change(size=stream.randrange(20_000)), None)
    elif kind == "link":
        tree.link(node, ROOT, other)
    else:
        file = tree.open(node, os.O_RDWR | (stream.choice([0, os.O_APPEND, os.O_TRUNC]) if kind == "write" else 0))
        if kind == "write":
            file.write_from(memoryview(bytes(5000)), 0)
        file.read_into(memoryview(bytearray(9000)), 100)
        file.close()

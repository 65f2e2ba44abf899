"""Targets files and trees for tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairlead.services.forwarding.trees.base import ROOT
from fairlead.services.forwarding.trees.targets.tree import TargetsTree, open_tree


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
        buffer = memoryview(bytearray(tree.attributes(node).st_size + 10))
        return bytes(buffer[: file.read_into(buffer, 0)])
    finally:
        file.close()

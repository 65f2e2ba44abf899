"""The tree striped over targets passes the contract of trees, with one stripe and with several."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.services.forwarding.trees.base import FileTree
from fairlead.services.forwarding.trees.targets.tree import open_tree
from fairlead.testing.trees import TreeContract


def _targets_file(folder: Path, layout: str) -> Path:
    lines = ['[metadata]\nstore = "metadata"']
    for name in ("t0", "t1", "t2"):
        (folder / name).mkdir(parents=True)
        lines.append(f'[[targets]]\nname = "{name}"\npath = "{name}"')
    path = folder / "targets.toml"
    path.write_text("\n".join([*lines, f"[layout]\n{layout}\n"]), encoding="utf-8")
    return path


class TestTargetsTree(TreeContract):
    """One stripe a file."""

    @pytest.fixture
    def tree(self, tmp_path: Path) -> Iterator[FileTree]:
        made = open_tree(str(_targets_file(tmp_path, "stripe_count = 1")))
        yield made
        made.close()


class TestStripedTree(TreeContract):
    """Small stripes over all targets."""

    @pytest.fixture
    def tree(self, tmp_path: Path) -> Iterator[FileTree]:
        made = open_tree(str(_targets_file(tmp_path, 'stripe_count = 0\nstripe_size = "4K"')))
        yield made
        made.close()

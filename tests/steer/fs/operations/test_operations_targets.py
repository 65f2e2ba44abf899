"""Requests on a tree striped over storage targets: the same contract as on a directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.steer.fs.trees.base import FileTree
from fairlead.steer.targets.tree import open_tree
from request_contract import RequestContract

TARGETS = """
[metadata]
store = "metadata"
[[targets]]
name = "t0"
path = "t0"
[[targets]]
name = "t1"
path = "t1"
[layout]
stripe_count = 2
stripe_size = "4K"
"""


class TestRequestsOnTargets(RequestContract):
    @pytest.fixture
    def tree(self, tmp_path: Path) -> Iterator[FileTree]:
        for name in ("t0", "t1"):
            (tmp_path / name).mkdir()
        (tmp_path / "targets.toml").write_text(TARGETS, encoding="utf-8")
        made = open_tree(str(tmp_path / "targets.toml"))
        yield made
        made.close()

"""The tree striped over targets passes the contract of trees: one stripe, many small ones, shared metadata."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.kit.testing.tree_contract import TreeContract, put_contract_file, read_contract_file
from fairlead.steer.fs.trees.base import ROOT, FileTree
from fairlead.steer.fs.wire.address import Address
from fairlead.steer.targets.service import run_metadata_service
from fairlead.steer.targets.tree import open_tree
from file_contract import OpenFileContract


def _targets_file(folder: Path, layout: str, metadata: str = 'store = "metadata"') -> Path:
    lines = [f"[metadata]\n{metadata}"]
    for name in ("t0", "t1", "t2"):
        (folder / name).mkdir(parents=True)
        lines.append(f'[[targets]]\nname = "{name}"\npath = "{name}"')
    path = folder / "targets.toml"
    path.write_text("\n".join([*lines, f"[layout]\n{layout}\n"]), encoding="utf-8")
    return path


class TestOneStripe(TreeContract, OpenFileContract):
    """A file is one object."""

    @pytest.fixture
    def tree(self, tmp_path: Path) -> Iterator[FileTree]:
        made = open_tree(str(_targets_file(tmp_path, "stripe_count = 1")))
        yield made
        made.close()

    def again(self, tree: FileTree) -> FileTree:  # noqa: ARG002
        pytest.skip("a local store is of one forwarder")


class TestSmallStripes(TreeContract, OpenFileContract):
    """Small stripes over all targets."""

    @pytest.fixture
    def tree(self, tmp_path: Path) -> Iterator[FileTree]:
        made = open_tree(str(_targets_file(tmp_path, 'stripe_count = 0\nstripe_size = "4K"')))
        yield made
        made.close()

    def again(self, tree: FileTree) -> FileTree:  # noqa: ARG002
        pytest.skip("a local store is of one forwarder")


class TestSharedMetadata(TreeContract, OpenFileContract):
    """Two forwarders and a metadata service."""

    @pytest.fixture
    def tree(self, tmp_path: Path) -> Iterator[FileTree]:
        self.file = _targets_file(tmp_path, "stripe_count = 2", f'service = "unix:{tmp_path}/socket"')
        service = run_metadata_service(str(tmp_path / "metadata"), Address("unix", f"{tmp_path}/socket"), None)
        made = open_tree(str(self.file))
        yield made
        made.close()
        service.close()

    def again(self, tree: FileTree) -> FileTree:  # noqa: ARG002
        return open_tree(str(self.file))

    def test_another_forwarder_is_told_the_place(self, tree: FileTree, other: FileTree) -> None:
        """Here a number is enough, the place is only checked."""
        folder, _ = tree.mkdir(ROOT, b"d", 0o755)
        node = put_contract_file(tree, b"a", b"data", folder)
        assert read_contract_file(other, node) == b"data"
        other.place(node, [(ROOT, b"d"), (folder, b"a")])

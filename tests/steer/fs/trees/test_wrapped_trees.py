"""Trees in front of a tree (read cache, simulated device) keep the contract of trees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.kit.testing.devices import Timing, wrap_simulated_device
from fairlead.kit.testing.tree_contract import TreeContract
from fairlead.steer.forwarding.forwarder.job_settings import Cache, JobPart, JobSettings, SettingsFile
from fairlead.steer.forwarding.forwarder.read_cache import with_read_cache
from fairlead.steer.fs.trees.base import FileTree
from fairlead.steer.fs.trees.directory import DirectoryTree
from file_contract import OpenFileContract

SETTINGS = JobSettings(SettingsFile(default=JobPart(read_ahead="1M"), cache=Cache("2M")))


def cached(folder: str | Path, *, sole: bool) -> FileTree:
    return with_read_cache(DirectoryTree(folder), SETTINGS, sole=sole)


class TestReadCache(TreeContract, OpenFileContract):
    @pytest.fixture(params=[False, True], ids=["asked", "sole"])
    def tree(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[FileTree]:
        made = cached(tmp_path, sole=request.param)
        yield made
        made.close()

    def again(self, tree: FileTree) -> FileTree:
        return cached(tree.name, sole=False)


class TestSimulatedDevice(TreeContract, OpenFileContract):
    @pytest.fixture
    def tree(self, tmp_path: Path) -> Iterator[FileTree]:
        made = wrap_simulated_device(DirectoryTree(tmp_path), Timing(read_ns=1000))
        yield made
        made.close()

    def again(self, tree: FileTree) -> FileTree:
        return wrap_simulated_device(DirectoryTree(tree.name.partition(" (")[0]), Timing())

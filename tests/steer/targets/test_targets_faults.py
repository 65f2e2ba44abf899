"""Faults on purpose come when they are planned, and only then."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from fairlead.steer.fs.trees.base import ROOT
from faults import Faults, faulty
from targets_building import opened, write_targets


def test_a_planned_fault_comes_after_good_calls_and_ends(tmp_path: Path) -> None:
    faults = Faults()
    with opened(write_targets(tmp_path)) as inner:
        tree = faulty(inner, faults)
        assert tree.name == inner.name
        faults.fail("mkdir", errno.ENOSPC, after=1, times=2)
        tree.mkdir(ROOT, b"a", 0o755)
        for _ in range(2):
            with pytest.raises(OSError) as caught:
                tree.mkdir(ROOT, b"b", 0o755)
            assert caught.value.errno == errno.ENOSPC
        tree.mkdir(ROOT, b"b", 0o755)
        assert faults.calls["mkdir"] == 4
        faults.fail("*", errno.EIO)
        with pytest.raises(OSError):
            tree.statfs()
        faults.heal()
        tree.statfs()


def test_files_of_a_faulty_tree_are_faulty(tmp_path: Path) -> None:
    faults = Faults()
    with opened(write_targets(tmp_path)) as inner:
        tree = faulty(inner, faults)
        node, _, one = tree.create(ROOT, b"a", os.O_RDWR, 0o644)
        two = tree.open(node, os.O_RDWR)
        one.write_from(memoryview(b"data"), 0)
        assert one.copy_to(0, two, 10, 4) == 4
        faults.fail("write_from", errno.EIO)
        for file in (one, two):
            with pytest.raises(OSError):
                file.write_from(memoryview(b"x"), 0)
            file.close()


def test_slow_calls_take_longer(tmp_path: Path) -> None:
    faults = Faults()
    with opened(write_targets(tmp_path)) as inner:
        faults.slow("statfs", 0.05, times=1)
        began = time.monotonic()
        faulty(inner, faults).statfs()
        assert time.monotonic() - began >= 0.05

"""Data of striped files under random operations, beside a plain file that gets the same."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.steer.fs.trees import system_calls
from fairlead.steer.fs.trees.base import ROOT, Change
from fairlead.steer.targets.tree import TargetsTree, open_tree
from targets_building import write_targets

END = 60_000
PLACE = st.integers(0, END)
KINDS = ["write", "read", "truncate", "append", "punch", "zero", "allocate", "again"]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), PLACE, PLACE), min_size=1, max_size=12)
MODES = {"punch": 3, "zero": 16, "allocate": 0}


@pytest.fixture(scope="module", params=[1, 2, 3])
def tree(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TargetsTree]:
    folder = tmp_path_factory.mktemp("striped")
    made = open_tree(str(write_targets(folder, f'stripe_count = {request.param}\nstripe_size = "4K"')))
    yield made
    made.close()


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("beside") / "plain"


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(STEPS)
def test_beside_a_plain_file(tree: TargetsTree, beside: Path, steps: list[tuple[str, int, int]]) -> None:
    node, _, file = tree.create(ROOT, b"a", os.O_RDWR, 0o644)
    plain = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        for number, (kind, at, size) in enumerate(steps):
            data = bytes([number + 1]) * (size % 20_000 + 1)
            if kind == "write":
                assert file.write_from(memoryview(data), at) == os.pwrite(plain, data, at)
            elif kind == "truncate":
                os.ftruncate(plain, at)
                assert tree.change(node, Change(size=at), file if size % 2 else None).st_size == at
            elif kind == "append":
                os.pwrite(plain, data, os.fstat(plain).st_size)
                appending = tree.open(node, os.O_WRONLY | os.O_APPEND)
                appending.write_from(memoryview(data), at)
                appending.close()
            elif kind == "again":
                file.close()
                file = tree.open(node, os.O_RDWR)
            elif kind in MODES:
                try:
                    system_calls.call_fallocate(plain, MODES[kind], at, size + 1)
                except OSError:  # tmpfs has no ZERO_RANGE
                    continue
                file.allocate(MODES[kind], at, size + 1)
            buffer = memoryview(bytearray(b"\xee" * (size + 1)))
            assert bytes(buffer[: file.read_into(buffer, at)]) == os.pread(plain, size + 1, at)
            assert file.stat().st_size == tree.stat(node).st_size == os.fstat(plain).st_size
        _same_but_for_holes(file, os.pread(plain, 1 << 20, 0))
    finally:
        file.close()
        os.close(plain)
        tree.unlink(ROOT, b"a")


def _same_but_for_holes(file: object, expected: bytes) -> None:
    """What SEEK_DATA and SEEK_HOLE leave out is zero, and they end."""
    seek = file.seek  # type: ignore[attr-defined]
    at = 0
    while at < len(expected):
        try:
            start = seek(at, os.SEEK_DATA)
        except OSError:
            start = len(expected)
        assert start >= at
        assert not any(expected[at:start])
        if start >= len(expected):
            break
        at = seek(start, os.SEEK_HOLE)
        assert at > start


def test_a_write_takes_capabilities_away(tree: TargetsTree) -> None:
    node, st_, file = tree.create(ROOT, b"capable", os.O_RDWR, 0o755)
    assert stat.S_ISREG(st_.st_mode)
    for again in range(2):
        tree.set_attribute(node, b"security.capability", b"\1", 0)
        file.write_from(memoryview(b"x"), again)
        assert b"security.capability" not in tree.attribute_names(node)
    file.close()
    tree.unlink(ROOT, b"capable")

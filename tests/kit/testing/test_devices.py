"""Simulated devices take at least the time they state, share their bandwidth, and change nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from fairlead.core.clock import monotonic_ns
from fairlead.core.errors import ConfigError, ForwardingError
from fairlead.kit.testing.devices import SimulatedDeviceTree, Timing, parse_device_timing, wrap_simulated_device
from fairlead.steer.fs.trees.base import ROOT, Change
from fairlead.steer.fs.trees.directory import DirectoryTree
from fairlead.steer.fs.trees.open_tree import open_export
from waiting import PATIENCE_S

MS = 1_000_000


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[DirectoryTree]:
    tree = DirectoryTree(tmp_path)
    yield tree
    tree.close()


def test_each_operation_takes_its_time(directory: DirectoryTree) -> None:
    tree = wrap_simulated_device(directory, Timing(metadata_ns=3 * MS, read_ns=5 * MS, write_ns=4 * MS))
    began = monotonic_ns()
    node, _, file = tree.create(ROOT, b"a", os.O_RDWR, 0o644)
    created = monotonic_ns()
    assert file.write_from(memoryview(b"abc"), 0) == 3
    written = monotonic_ns()
    buffer = memoryview(bytearray(10))
    assert file.read_into(buffer, 0) == 3
    read = monotonic_ns()
    assert tree.lookup(ROOT, b"a")[0] == node
    looked = monotonic_ns()
    assert created - began >= 3 * MS
    assert written - created >= 4 * MS
    assert read - written >= 5 * MS
    assert looked - read >= 3 * MS
    assert bytes(buffer[:3]) == b"abc"


def test_an_operation_that_fails_takes_its_time_too(directory: DirectoryTree) -> None:
    tree = wrap_simulated_device(directory, Timing(metadata_ns=3 * MS))
    began = monotonic_ns()
    with pytest.raises(FileNotFoundError):
        tree.lookup(ROOT, b"none")
    assert monotonic_ns() - began >= 3 * MS


def test_bandwidth_is_shared(directory: DirectoryTree) -> None:
    tree = wrap_simulated_device(directory, Timing(bandwidth=50e6))
    files = [tree.create(ROOT, b"f%d" % number, os.O_RDWR, 0o644)[2] for number in range(4)]
    data = memoryview(bytes(1_000_000))
    began = monotonic_ns()
    threads = [Thread(target=file.write_from, args=(data, 0)) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert monotonic_ns() - began >= 80 * MS  # 4 MB at 50 MB/s
    assert isinstance(tree, SimulatedDeviceTree)
    assert tree.device.bytes == 4_000_000


def test_what_is_not_timed_is_the_real_thing(directory: DirectoryTree) -> None:
    tree = wrap_simulated_device(directory, Timing())
    node, _, file = tree.create(ROOT, b"a", os.O_RDWR, 0o644)
    other = tree.create(ROOT, b"b", os.O_RDWR, 0o644)[2]
    assert file.descriptor is None
    file.write_from(memoryview(bytes(100)), 0)
    assert file.copy_to(0, other, 0, 100) == 100
    assert tree.change(node, Change(size=7), file).st_size == 7
    assert file.stat().st_size == 7
    file.sync(True)
    assert {entry.name for entry in tree.list_entries(ROOT)} >= {b"a", b"b"}
    again = tree.open(node, os.O_RDONLY)
    assert again.read_into(memoryview(bytearray(9)), 0) == 7
    for one in (file, other, again):
        one.close()


def test_it_says_that_it_is_simulated(tmp_path: Path) -> None:
    tree = open_export(f"slow:metadata=2ms,read=8ms,bandwidth=100M:{tmp_path}")
    assert tree.name == f"{tmp_path} (simulated device: metadata 2 ms, read 8 ms, 100 MB/s)"
    assert Timing().describe() == "simulated device: takes no time"
    tree.close()


def test_timings_are_read() -> None:
    assert parse_device_timing("metadata=500us,read=1.5ms,write=1s,sync=3ms,bandwidth=5M") == Timing(
        500_000, 1_500_000, 1_000_000_000, 3_000_000, 5e6
    )
    assert parse_device_timing("") == Timing()
    for wrong in ("read", "read=5", "reads=5ms", "bandwidth=fast"):
        with pytest.raises(ConfigError):
            parse_device_timing(wrong)
    with pytest.raises(ForwardingError, match="no tree"):
        open_export("slow:read=5ms")

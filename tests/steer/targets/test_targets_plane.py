"""Striped trees behind forwarders and mounts that are killed: nothing acknowledged is lost, nothing is done twice."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from fairlead.steer.fs.wire.address import Address
from fairlead.steer.targets.check import check_store
from fairlead.steer.targets.service import run_metadata_service
from fairlead.steer.targets.tree import open_tree
from plane import Plane, Workers
from targets_building import write_targets

pytestmark = pytest.mark.fuse


def _kill_some(plane: Plane, point: Path, seed: int) -> None:
    """Five kills of the forwarder that serves, under the work of three processes."""
    chance = random.Random(seed)
    workers = Workers(plane.folder, point, 3)
    try:
        workers.advance(5)
        for _ in range(5):
            time.sleep(chance.uniform(0.0, 0.2))  # a random moment is the point of it
            name = plane.serving(point)
            plane.kill_forwarder(name)
            plane.forwarder(name)
            (point / "w0").stat()
            workers.advance(5)
        _, problems = workers.finish()
    finally:
        workers.kill()
    assert not problems, "\n".join([*problems, (plane.folder / "mnt.log").read_text()])


def _clean(file: Path) -> None:
    tree = open_tree(str(file))
    try:
        tree.sweep(0)
        assert not check_store(tree.store, tree.targets).faults
    finally:
        tree.close()


def test_a_forwarder_with_its_own_store(plane: Plane, tmp_path: Path) -> None:
    file = write_targets(tmp_path, 'stripe_count = 2\nstripe_size = "4K"')
    plane.tree = Path(f"targets:{file}")
    plane.forwarder("a")
    _kill_some(plane, plane.mount("mnt", plane.address("a")), 1)
    plane.close()
    _clean(file)


def test_two_forwarders_and_a_metadata_service(plane: Plane, tmp_path: Path) -> None:
    file = write_targets(tmp_path, "stripe_count = 2", metadata=f'service = "unix:{tmp_path}/meta.sock"')
    service = run_metadata_service(str(tmp_path / "metadata"), Address("unix", f"{tmp_path}/meta.sock"), None)
    try:
        plane.tree = Path(f"targets:{file}")
        for name in ("a", "b"):
            plane.forwarder(name)
        _kill_some(plane, plane.mount("mnt", plane.address("a"), plane.address("b")), 2)
        plane.close()
        _clean(file)
    finally:
        service.close()

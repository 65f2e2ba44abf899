"""`--cache` wants leases. A forwarder that grants none is refused, and nothing is mounted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from plane import Plane, names

from fairlead.errors import RefusedError
from fairlead.services.forwarding.mount.dial import Dial

pytestmark = pytest.mark.timeout(280)


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    made = Plane(tmp_path)
    try:
        made.forwarder("a")
        yield made
    finally:
        made.close()


def test_leases_are_refused_by_a_forwarder_without_them(plane: Plane) -> None:
    with pytest.raises(RefusedError, match="leases"):
        Dial([plane.address("a")], leases=True).any()


@pytest.mark.fuse
def test_a_mount_with_a_cache_is_refused_and_leaves_nothing(plane: Plane) -> None:
    point = plane.folder / "mnt"
    point.mkdir()
    done = plane.command("mount", "--cache", plane.address("a"), str(point))
    assert done.returncode == 8
    assert "leases" in done.stderr
    assert "mount without --cache" in done.stderr
    assert names(point) == []
    assert str(point) not in Path("/proc/self/mounts").read_text()

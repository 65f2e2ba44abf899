"""A real GlusterFS volume, watched: what was written and read on its mount is what its bricks count."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.see.probes.gluster import Clients, Volumes
from gluster_volume import Volume, volume

pytestmark = pytest.mark.gluster
MIB = 1 << 20


@pytest.fixture(scope="module")
def v0(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Volume]:
    """One volume for the tests of this file."""
    with volume(tmp_path_factory.mktemp("gluster")) as made:
        yield made


def _totals() -> dict[str, dict[str, int]]:
    """By brick, what the probe reads now."""
    targets, _ = Volumes("/", "here").read(0).readings
    names = targets.counters + targets.gauges
    return {str(key[1]): dict(zip(names, row, strict=True)) for key, row in targets.rows.items()}


def test_bytes_on_the_mount_are_bytes_of_the_bricks(v0: Volume) -> None:
    """Sixteen files of one MiB, synced, read back past the caches."""
    before = _totals()
    assert set(before) == set(v0.bricks)
    for number in range(16):
        path = v0.mount / f"f{number}"
        with path.open("wb") as out:
            out.write(os.urandom(MIB))
            out.flush()
            os.fsync(out.fileno())
    for number in range(16):
        descriptor = os.open(v0.mount / f"f{number}", os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        assert len(os.read(descriptor, MIB)) == MIB
        os.close(descriptor)
    after = _totals()
    written = {brick: after[brick]["write_bytes"] - before[brick]["write_bytes"] for brick in v0.bricks}
    assert sum(written.values()) == 16 * MIB
    assert sum(after[b]["metadata_ops"] - before[b]["metadata_ops"] for b in v0.bricks) >= 16
    assert all(after[brick]["capacity_bytes"] > after[brick]["used_bytes"] > 0 for brick in v0.bricks)
    held = {brick: sum(f.stat().st_size for f in Path(brick.partition(":")[2]).glob("f*")) for brick in v0.bricks}
    assert written == held, "and each brick counts what lies on it"


def test_two_mounts_of_the_volume_are_told_apart(v0: Volume, tmp_path: Path) -> None:
    """Each mount's bytes are those written through it, whichever was asked first; times of bricks are known."""
    other = tmp_path / "other"
    other.mkdir()
    subprocess.run(["mount", "-t", "glusterfs", f"{socket.gethostname()}:/v0", other], check=True, timeout=60)
    try:
        probe = Clients("/", "here")

        def read_bytes() -> dict[str, int]:
            (reading,) = probe.read(0).readings
            assert reading.unknown == 0, reading.unknown_example
            at = reading.counters.index("write_bytes")
            return {str(key[3]): row[at] for key, row in reading.rows.items() if key[1] == "v0"}

        before = read_bytes()
        assert set(before) == {str(v0.mount), str(other)}
        for place, size in ((v0.mount, 3 * MIB), (other, 5 * MIB)):
            with (place / f"by-{size}").open("wb") as out:
                out.write(os.urandom(size))
                out.flush()
                os.fsync(out.fileno())
        after = read_bytes()
        assert {place: after[place] - before[place] for place in after} == {
            str(v0.mount): 3 * MIB,
            str(other): 5 * MIB,
        }
    finally:
        subprocess.run(["umount", other], check=False, timeout=60)
    assert sum(row["write_busy_ns"] for row in _totals().values()) > 0

"""One job of a real Slurm on a real mount: what it moved is what every place says, to the byte. The short pass of what
`test_jobs_and_figures` does at length."""

from __future__ import annotations

import pytest

from real_site import Figures, Site

pytestmark = [pytest.mark.slurm, pytest.mark.fuse]
MIB = 1 << 20


@pytest.fixture(scope="module")
def job(centre: Site) -> str:
    """A job that wrote 16 MiB and read 8 MiB, and is summarised."""
    file = centre.mounted / "one"
    write, read = f"dd if=/dev/zero of={file} bs=1M count=16", f"dd if={file} of=/dev/null bs=1M count=8"
    number = centre.submit(f"{write} && {read}")
    assert centre.ended(number) == "COMPLETED"
    centre.settled(number)
    return number


def test_every_place_says_what_a_job_moved(centre: Site, job: str) -> None:
    (said,) = centre.said_everywhere(job)
    moved = {place: (one.read_bytes, one.write_bytes) for place, one in said.items() if isinstance(one, Figures)}
    assert moved == dict.fromkeys(("job list", "api list", "job show", "api job", "summary"), (8 * MIB, 16 * MIB)), said

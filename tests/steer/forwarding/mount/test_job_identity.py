"""The job of the process that asks reaches the forwarder, by environment, through fork and exec."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.core.batches.decoding import decode_stream_batches
from fairlead.core.batches.encoding import Words
from plane import Plane
from waiting import PATIENCE_S

pytestmark = pytest.mark.fuse

WRITE = "import sys; open(sys.argv[1], 'wb').write(b'x' * 70000)"


def recorded(spool: Path) -> set[str]:
    """Jobs named in the records of a spool."""
    jobs: set[str] = set()
    for file in spool.rglob("*.batch"):
        with file.open("rb") as stream:
            for batch in decode_stream_batches(stream, str(file)):
                column = batch.columns.get("job_id")
                if isinstance(column, Words):
                    jobs.update(column.words)
    return jobs


def test_job_and_rank_of_each_process_are_recorded(plane: Plane) -> None:
    spool = plane.folder / "spool"
    plane.forwarder("a", "--spool", str(plane.folder / "served"))
    point = plane.mount("mnt", plane.address("a"), options=("--spool", str(spool), "--job", "fallback"))
    for job in ("slurm-314", "slurm-271"):
        environment = {**os.environ, "SLURM_JOB_ID": job, "SLURM_PROCID": "3"}
        subprocess.run([sys.executable, "-c", WRITE, str(point / job)], env=environment, check=True, timeout=PATIENCE_S)
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "FAIRLEAD_JOB"))}
    subprocess.run([sys.executable, "-c", WRITE, str(point / "plain")], env=plain, check=True, timeout=PATIENCE_S)
    process = plane.mounts[point]
    process.terminate()
    assert process.wait(PATIENCE_S) == 0
    forwarder = plane.forwarders.pop("a")
    forwarder.send_signal(signal.SIGTERM)
    assert forwarder.wait(PATIENCE_S) == 0
    for place in (spool, plane.folder / "served"):
        assert recorded(place) >= {"slurm-314", "slurm-271", "fallback"}, place

"""Diagnosis on a real plane: forwarders, mounts, jobs and records are real, and so is what is done to them.

One neighbour here; forty runs of four scenes are `benchmarks/real_plane.py`, and a slow test.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import rated_plane
from fairlead.core.model.finding import Subject

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "real_plane.py"


@pytest.mark.fuse
def test_a_job_beside_a_shared_file_of_many_writers_is_told_who_it_was(tmp_path: Path) -> None:
    with rated_plane.plane(fuse=True, seed=7, keep=tmp_path, amount=24 << 20, disturbed_s=9.0) as made:
        quiet = made.quiet_run()
        run, guilty = made.scene("N-1 neighbour", None)
        made.clear()  # what mounts and forwarders still hold of their records is written as they end
        made.look()
        told = made.told(0)
        found = rated_plane.verdict("N-1 neighbour", None, guilty, run, told, None)
        jobs = made.lake.query("SELECT job_id, user, analysis_version FROM job_summary ORDER BY job_id").to_pylist()
    assert found.right, found
    [mine] = [one for one in told if one.job_id == run.job_id]
    assert mine.finding.culprits == [Subject("job", str(guilty))]
    assert mine.user == "alice"
    assert mine.finding.evidence
    assert [one for one in told if one.job_id == quiet.job_id] == []
    # Records make rows of `jobs` of their own: each run is one job all the same, its owner's.
    assert len(jobs) == len({one["job_id"] for one in jobs})
    assert {one["user"] for one in jobs} == {"alice", "bob", "carol", "dora"}


def test_a_verdict_is_right_when_it_names_the_guilty_and_nobody_else() -> None:
    run = rated_plane.Run(job_id="1", user="alice", program="solver", processes=4, start_ns=0, end_ns=10**10)
    silent = {scene: rated_plane.verdict(scene, "t1", "2", run, [], 6.0) for scene in rated_plane.SCENES}
    assert {scene: one.right for scene, one in silent.items()} == {
        "slow target": False,
        "N-1 neighbour": False,
        "metadata neighbour": False,
        "nothing": True,
    }


@pytest.mark.slow
@pytest.mark.fuse
@pytest.mark.timeout(2400)
def test_forty_runs_are_judged_right() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), "--first", "201", "--json"], capture_output=True, check=False, timeout=2300
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    figures = json.loads(done.stdout)
    assert figures["of"] == 40
    assert figures["right"] >= 38, done.stderr.decode()[-4000:]
    assert figures["false_alarms"] == 0, done.stderr.decode()[-4000:]

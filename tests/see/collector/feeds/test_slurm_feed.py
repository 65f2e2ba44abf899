"""The Slurm feed on a real cluster of several nodes here: jobs that end well, fail, are cancelled, run again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.see.collector.feeds.settings import Slurm
from fairlead.see.collector.feeds.slurm import SlurmFeed
from fairlead.store.lake import Lake
from feed_sinks import LakeSink, MemorySink
from slurm_cluster import SlurmCluster, lacking, slurm_cluster
from waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
NS = 1_000_000_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    reason = lacking()
    if reason is not None:
        pytest.skip(reason)
    with slurm_cluster() as made:
        yield made


def test_jobs_of_a_real_cluster(cluster: SlurmCluster, tmp_path: Path) -> None:
    settings = Slurm(
        hooks=str(cluster.hooks),
        sacct=cluster.command("sacct"),
        squeue=cluster.command("squeue"),
        squeue_s=30.0,
        sacct_s=5.0,
    )
    lake = Lake.open(tmp_path / "lake", create=True)
    stop = threading.Event()
    with lake.open_writer() as writer:
        sink = LakeSink(writer)
        feed = SlurmFeed(settings)
        thread = threading.Thread(target=feed.run, args=(sink, stop))
        thread.start()

        def jobs(job_id: str) -> list[dict[str, Any]]:
            found = lake.query("SELECT * FROM jobs WHERE job_id = ? ORDER BY start_ns", [job_id])
            rows: list[dict[str, Any]] = found.to_pylist()
            return rows

        try:
            good = cluster.submit("sleep 12", "-N2", "--job-name=good", user="nobody")
            cluster.until(lambda: cluster.state(good) == "RUNNING")
            wait_until(lambda: len(jobs(good)) == 1, "jobs")
            (running,) = jobs(good)
            assert (running["state"], running["end_ns"], running["nodes"]) == ("RUNNING", None, ["n1", "n2"])
            bad = cluster.submit("exit 3", "-N1")
            long = cluster.submit("sleep 100", "-N1", user="nobody")
            again = cluster.submit("sleep 100", "-N1", "--requeue", user="nobody")
            array = cluster.submit("true", "--array=1-2", "-N1", user="nobody")
            for job in (long, again):
                cluster.until(lambda job=job: cluster.state(job) == "RUNNING")  # type: ignore[misc]
            wait_until(lambda: len(jobs(again)) == 1, "the job table")
            time.sleep(1.1)  # Slurm counts in seconds: the second run begins in another one
            cluster.run("scontrol", "requeue", again)
            cluster.run("scancel", long)
            requeued = time.monotonic()
            cluster.until(lambda: _runs_again(cluster, again, requeued + 4))
            wait_until(lambda: len(jobs(again)) == 2, "the job table")
            cluster.run("scancel", again)
            for job in (good, bad, long, again):
                wait_until(lambda job=job: bool(jobs(job)) and all(row["end_ns"] for row in jobs(job)), "jobs")  # type: ignore[misc]
            members = [str(int(array)), str(int(array) + 1)]
            wait_until(
                lambda: all(len(jobs(member)) == 1 and jobs(member)[0]["end_ns"] for member in members), "the job table"
            )
            controller = cluster.run("scontrol", "show", "job", good)
        finally:
            stop.set()
            thread.join(PATIENCE_S)
        assert not thread.is_alive()
        (row,) = jobs(good)
        assert (row["state"], row["user"], row["name"], row["cluster"]) == ("COMPLETED", "nobody", "good", "mini")
        assert (row["nodes"], row["nodes_count"], row["partition"]) == (["n1", "n2"], 2, "main")
        stamps = {key: _epoch(controller, key) for key in ("StartTime", "EndTime", "SubmitTime")}
        assert (row["start_ns"], row["end_ns"]) == (stamps["StartTime"], stamps["EndTime"])
        assert row["submit_ns"] == stamps["SubmitTime"]
        (failed,) = jobs(bad)
        assert (failed["state"], failed["user"]) == ("FAILED", "root")
        assert jobs(long)[0]["state"] == "CANCELLED"
        runs = jobs(again)
        assert [run["state"] for run in runs] == ["REQUEUED", "CANCELLED"]
        assert runs[0]["end_ns"] <= runs[1]["start_ns"]
        assert [jobs(member)[0]["state"] for member in members] == ["COMPLETED", "COMPLETED"]
        assert not list(cluster.hooks.iterdir())
        assert {state for _, state, _ in sink.healths} == {"ok"}


def _runs_again(cluster: SlurmCluster, job_id: str, not_before: float) -> bool:
    """Slurm holds a requeued job back for two minutes, unless it is told to begin; told within the second in which it
    revoked the first run's credential, it kills the second run."""
    if cluster.state(job_id) == "PENDING" and time.monotonic() > not_before:
        cluster.run("scontrol", "update", f"JobId={job_id}", "StartTime=now", check=False)
    return cluster.state(job_id) == "RUNNING"


def _epoch(text: str, key: str) -> int:
    from datetime import UTC, datetime

    word = text.partition(f"{key}=")[2].split()[0]
    return int(datetime.fromisoformat(word).replace(tzinfo=UTC).timestamp()) * NS


def test_slurm_that_does_not_answer_is_said(tmp_path: Path) -> None:
    sink = MemorySink()
    settings = Slurm(sacct=["false"], squeue=["/nowhere/squeue"])
    feed = SlurmFeed(settings)
    feed.look(sink, threading.Event(), tmp_path)
    assert sink.healths[-1][1] == "missing"
    assert "/nowhere/squeue" in sink.healths[-1][2]

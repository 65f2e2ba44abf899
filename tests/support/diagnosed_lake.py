"""A small machine at work in a lake, with known faults: a job that runs alone and then beside one that holds its
forwarder. For tests of diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from fairlead.decide.sim.steps import Step
from fairlead.explain.diagnosing.ended_jobs import summarise_ended_jobs
from fairlead.kit.testing.machine import scenes
from fairlead.kit.testing.machine.play import Play
from fairlead.kit.testing.machine.population import DrawnJob
from fairlead.store.lake import Lake
from fairlead.store.rollups import derive_rollups

S = 1_000_000_000
LAG = 180 * S
VICTIM, CULPRIT, FIRST = "100001", "100000", "100010"
_EVERY_S = 45.0


def owned(drawn: DrawnJob, user: str, name: str) -> DrawnJob:
    """The same job as run by this user."""
    return replace(drawn, program=replace(drawn.program, user=user, name=name))


def co_run(runs: int = 4, *, seed: int = 7, disturbed: bool = True) -> Play:
    """Job 100001 writes through a forwarder, as it did `runs` times before alone; then, if `disturbed`, while job
    100000 of another user holds it with an N-1 file."""
    own = Step(op="write", volume=2 << 30, request=256 << 10, writers=1, files=1, label="own", compute_s=5.0)
    shared = Step(op="write", volume=8 << 30, request=128 << 10, writers=60, files=1, contested=True, label="shared")
    jobs = [
        (
            owned(scenes.build_scene_job(10 + k, [own], 1, name="oneone", mode="1-1"), "alice", "oneone"),
            _EVERY_S * k,
            15,
        )
        for k in range(runs)
    ]
    begin = _EVERY_S * runs
    jobs.append((owned(scenes.build_scene_job(1, [own], 1, name="oneone", mode="1-1"), "alice", "oneone"), begin, 15))
    if disturbed:
        jobs.append((owned(scenes.build_scene_job(0, [shared], 15, name="nto1", mode="N-1"), "bob", "nto1"), begin, 0))
    return scenes.build_scene_play(jobs, int(begin) + 100, seed=seed)


def fill(lake: Lake, tables: Mapping[str, pa.Table], stream: str = "play") -> None:
    """Takes tables in with what is derived of them."""
    with lake.open_writer("main", derive=derive_rollups) as writer:
        batch = writer.open_batch(stream)
        for table in tables.values():
            batch.add(table)
        batch.commit()


def lake_of(root: Path, tables: Mapping[str, pa.Table]) -> Lake:
    """A new lake that holds these tables."""
    lake = Lake.open(root, create=True)
    fill(lake, tables)
    return lake


def later(tables: Mapping[str, pa.Table]) -> int:
    """When all jobs have ended and their records had time to arrive."""
    return int(pc.max(tables["jobs"]["end_ns"]).as_py()) + LAG


def look(lake: Lake, now_ns: int, most: int = 200) -> int:
    """Steps of the analysis until there is nothing to do, each by a new writer; findings told."""
    told = 0
    while True:
        with lake.open_writer("analysis") as writer:
            made = summarise_ended_jobs(lake, writer, now_ns, most=most)
        told += made.findings
        if not made.more:
            return told


def kept(lake: Lake, table: str = "finding") -> list[dict[str, object]]:
    """Rows without what only the clock knows, in order."""
    order = {
        "finding": "id",
        "incident": "id",
        "phase": "start_ns, job_id, kind, number",
        "profile": 'cluster, "user", program, scale',
    }[table]
    return lake.query(f"SELECT * EXCLUDE (made_ns, day) FROM {table} ORDER BY {order}").to_pylist()  # noqa: S608

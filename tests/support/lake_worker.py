"""Programs the tests of the lake start, watch and kill: `python lake_worker.py ROLE LAKE ...`.

Every line a role prints is a promise it had made good before it printed it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from fairlead.core.compression.node_groups import merge_node_groups
from fairlead.store import (
    batch_writer,
    wal,
    writer,
)
from fairlead.store import (
    delta_table as delta,
)
from fairlead.store import (
    flush as carrying,
)
from fairlead.store import (
    lake_folder as place,
)
from fairlead.store import (
    part_files as parts,
)
from fairlead.store.compaction import compact_tables
from fairlead.store.lake import Lake
from fairlead.store.retention import expire_retained_days
from lake_rows import DAY_NS, DAY_ONE, fill, send, sums, wire

JOBS = 6


def say(*words: object) -> None:
    """One line, out at once."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def take_all(lake: Lake, jobs: int, told: Callable[..., None]) -> None:
    """Takes in `jobs` inputs on three days, some large enough to be written ahead, flushing and merging as it goes."""
    with lake.open_writer() as one:
        for job in range(jobs):
            batch = fill(one.open_batch(f"test:{job}", source="test"), job, day=job % 3, rows=30)
            if job % 4 == 3:
                fill(batch, job, day=job % 3, rows=0)
            batch.commit()
            told("taken", job)
            if job % 3 == 2:
                one.flush()
                told("flushed", job)
            if job == 4:
                compact_tables(lake, one, keep_hours=0)
                told("compacted", job)


def take_wire(lake: Lake, jobs: int, told: Callable[..., None]) -> None:
    """Takes in bodies of several nodes' batches, each sent twice; rollups and groups are made of them."""
    with writer.Writer(lake.place, "main", now_ns=lambda: DAY_ONE, derive=sums, regroup=always) as one:
        for job in range(jobs):
            body = [wire(job + 1, node=f"n{node}", rows=10, job=f"job-{job}") for node in range(6)]
            send(one, *body)
            told("taken", job)
            assert send(one, *body) == (0, 6)
            if job % 2:
                one.flush()
                told("flushed", job)
            if job == 4:
                compact_tables(lake, one, keep_hours=0)
                told("compacted", job)


def always(ops: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Groups wherever there can be any."""
    return merge_node_groups(ops, always=True)


def kills(lake: Lake, jobs: int) -> None:
    """Takes inputs in until killed or done."""
    batch_writer.SPILL_BYTES = 3_000
    take_all(lake, jobs, say)
    say("done")


def crash_steps(lake_folder: Path, first: int, stride: int, kind: str) -> None:
    """Dies at step `first`, `first + stride`, ... of the same work, each time in a lake of its own, and lets a
    second writer finish. A step is anything that changes the disk. Prints `step N ...` for each and `steps N`."""
    batch_writer.SPILL_BYTES = 3_000
    work, check_all = {"inputs": (take_all, _check), "wire": (take_wire, _check_wire)}[kind]
    step = first
    while True:
        folder = lake_folder / f"step{step}"
        child = os.fork()
        if child == 0:
            _die_at(step)
            with (lake_folder / f"acked{step}").open("w", encoding="utf-8", buffering=1) as acked:
                work(Lake.open(folder, create=True), JOBS, lambda *words, to=acked: print(words, file=to))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        check = os.fork()
        if check == 0:
            check_all(folder, lake_folder / f"acked{step}")
            os._exit(0)
        _, checked = os.waitpid(check, 0)
        if checked != 0:
            say("step", step, "failed")
        if os.WIFEXITED(status):
            say("steps", step if os.WEXITSTATUS(status) == 0 else "broken")
            return
        say("step", step, "survived")
        step += stride


def _acknowledged(acked: Path) -> set[int]:
    if not acked.exists():
        return set()
    return {int(line.split(",")[1].strip(" )")) for line in acked.read_text().splitlines() if "taken" in line}


def _check_wire(folder: Path, acked: Path) -> None:
    """Every body is there whole and once, for a reader now and after a second writer; rollups are the sum of rows."""
    taken = _acknowledged(acked)
    if (folder / "lake.toml").exists():
        seen = _whole_bodies(Lake.open(folder))
        assert taken <= seen <= taken | {max(taken, default=-1) + 1}, (taken, seen)
    lake = Lake.open(folder, create=True)
    take_wire(lake, JOBS, lambda *_: None)
    assert _whole_bodies(lake) == set(range(JOBS))
    assert lake.query("SELECT sum(batches)::BIGINT AS n FROM _batches").to_pylist() == [{"n": 6 * JOBS}]
    for interval in (10**9, 60 * 10**9):
        rolled = "SELECT id, sum(write_bytes)::BIGINT AS n FROM rollup WHERE interval_ns = $i GROUP BY 1 ORDER BY 1"
        raw = "SELECT node AS id, sum(size * count)::BIGINT AS n FROM ops GROUP BY 1 ORDER BY 1"
        assert lake.query(rolled, {"i": interval}).to_pylist() == lake.query(raw).to_pylist()
    assert lake.query("SELECT count(*) AS n FROM op_groups").to_pylist()[0]["n"] > 0


def _whole_bodies(lake: Lake) -> set[int]:
    rows = lake.query("SELECT file_id AS body, count(*) AS n, count(DISTINCT node) AS nodes FROM ops GROUP BY 1")
    assert all((row["n"], row["nodes"]) == (60, 6) for row in rows.to_pylist()), rows.to_pylist()
    return {row["body"] - 1 for row in rows.to_pylist()}


def _check(folder: Path, acked: Path) -> None:
    """What was acknowledged is there once for a reader now, and everything once after a second writer."""
    taken = _acknowledged(acked)
    if (folder / "lake.toml").exists():
        seen = _whole_jobs(Lake.open(folder))
        assert taken <= seen <= taken | {max(taken, default=-1) + 1}, (taken, seen)
    lake = Lake.open(folder, create=True)
    take_all(lake, JOBS, lambda *_: None)
    assert _whole_jobs(lake) == set(range(JOBS))
    assert lake.query("SELECT count(*) AS n FROM _batches").to_pylist() == [{"n": JOBS}]


def _whole_jobs(lake: Lake) -> set[int]:
    """Numbers of the jobs in the lake; each must be in every table with all its rows, once."""
    sql = """
        SELECT file_id AS job, o.n AS ops, o.times, f.n AS files, c.n AS counters, l.n AS layouts
        FROM (SELECT file_id, count(*) n, count(DISTINCT start_ns) times FROM ops GROUP BY 1) o
        FULL JOIN (SELECT file_id, count(*) n FROM files GROUP BY 1) f USING (file_id)
        FULL JOIN (SELECT file_id, count(*) n FROM file_counters GROUP BY 1) c USING (file_id)
        FULL JOIN (SELECT file_id, count(*) n FROM layouts GROUP BY 1) l USING (file_id)
    """
    jobs = set()
    for row in lake.query(sql).to_pylist():
        extra = 2 if row["job"] % 4 == 3 else 1
        assert (row["ops"], row["times"], row["files"], row["counters"], row["layouts"]) == (
            30,
            30,
            1,
            3 * extra,
            extra,
        ), row
        jobs.add(row["job"])
    return jobs


def _die_at(step: int) -> None:
    """Counts calls that change the disk and kills this process before call number `step`."""
    count = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return call

    os.fsync = counted(os.fsync)
    os.fdatasync = counted(os.fdatasync)
    os.write = counted(os.write)
    Path.unlink = counted(Path.unlink)  # type: ignore[method-assign]
    Path.replace = counted(Path.replace)  # type: ignore[method-assign]
    Path.mkdir = counted(Path.mkdir)  # type: ignore[method-assign]
    parts._write = counted(parts._write)
    place.sync_lake_folder = delta.sync_lake_folder = wal.sync_lake_folder = parts.sync_lake_folder = counted(
        place.sync_lake_folder
    )
    delta._transact = counted(delta._transact)
    delta._make_durable = counted(delta._make_durable)
    delta.vacuum_delta_files = counted(delta.vacuum_delta_files)
    carrying.write_lake_folder_file = counted(carrying.write_lake_folder_file)


def write_and_tidy(lake: Lake, rounds: int) -> None:
    """A busy writer: takes inputs in on many days, flushes, merges, forgets old days, until `rounds` are done."""
    with lake.open_writer() as one:
        for job in range(rounds):
            fill(one.open_batch(f"test:{job}"), job, day=job // 8, rows=40).commit()
            if job % 2:
                one.flush()
            if job % 7 == 6:
                compact_tables(lake, one, thorough=job % 2 == 0, keep_hours=168)
            if job % 11 == 10:
                expire_retained_days(one, before_ns=DAY_ONE + (job // 8 - 2) * DAY_NS)
    say("done")


def watch(lake: Lake) -> None:
    """Looks again and again until its input ends; every sight must be whole. Prints how many sights it had."""
    os.set_blocking(0, False)
    sights, highest = 0, -1
    while _open_input():
        row = lake.query(
            "SELECT count(*) AS rows, count(DISTINCT job_id) AS jobs, count(DISTINCT (job_id, start_ns)) AS times, "
            "max(file_id) AS highest, (SELECT max(file_id) FROM layouts) AS laid, "
            "(SELECT max(file_id) FROM files) AS named FROM ops"
        ).to_pylist()[0]
        assert row["rows"] == row["times"] == 40 * row["jobs"], row
        assert row["highest"] == row["laid"] == row["named"], row
        assert (row["highest"] or 0) >= highest, row
        highest = max(highest, row["highest"] or 0)
        sights += 1
        if sights == 1:
            say("looking")
    say("sights", sights, highest)


def _open_input() -> bool:
    try:
        return os.read(0, 1) != b""
    except BlockingIOError:
        return True


if __name__ == "__main__":
    role, folder, *numbers = sys.argv[1:]
    where = Path(folder)
    match role:
        case "kills":
            kills(Lake.open(where, create=True), *map(int, numbers))
        case "steps":
            crash_steps(where, int(numbers[0]), int(numbers[1]), numbers[2])
        case "tidy":
            write_and_tidy(Lake.open(where, create=True), *map(int, numbers))
        case "watch":
            watch(Lake.open(where))

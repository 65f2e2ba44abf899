"""Seconds from a job's end to its summary and its finding in the lake, on a whole server at 10,000 job ends an hour.

`python benchmarks/end_to_finding.py [--quick]`: a real `fairlead up` (collector and analysis), and simulated nodes that
speak the agents' protocol: servers send what jobs did every 2 s, a node sends its health and its job's end within a
second of it, the scheduler's feed a second after it. One job in twenty takes three times as long as it usually does
and gets a finding. Prints p50 and p99, the share of a core each process took, and adds a line to the history. Not
here: whether findings are right (`diagnosis.py`), the agent itself (`agent_cost.py`).
"""

from __future__ import annotations

import argparse
import heapq
import os
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from _endpoint import Server, server
from _history import append

from fairlead.core.clock import now_ns
from fairlead.core.model.tables import HEALTH, JOBS, MAPPING, TABLES, TARGET, build_table_batch
from fairlead.kit.testing.machine.live_play import connect_live_line
from fairlead.kit.testing.machine.wire_bodies import Cut
from fairlead.store.lake import Lake
from fairlead.store.rollups import derive_rollups

S = 10**9
AN_HOUR, PROGRAMS, NODES, TARGETS, SERVERS = 10_000, 50, 64, 32, 4
EARLIER = 12
"""Runs of each program that were over before."""
USUAL_S, SLOW, EVERY = 10, 3, 20
"""Seconds of I/O of a run; times as many of the disturbed ones; one in so many is."""
TARGET_P99_S = 15.0


class Job:
    """One run: 4 GiB written to one target in `io_s` seconds, then two seconds of nothing."""

    def __init__(self, number: int, start_ns: int, amount: int) -> None:
        self.number, self.start_ns = number, start_ns
        self.program = number % PROGRAMS
        self.io_s = USUAL_S * (SLOW if number >= PROGRAMS * EARLIER and number % EVERY == 0 else 1)
        self.end_ns = start_ns + (self.io_s + 2) * S
        self.each = amount // self.io_s
        self.name, self.node, self.target = str(500_000 + number), number % NODES, number % TARGETS

    def row(self, *, ended: bool) -> dict[str, Any]:
        return {
            "cluster": "c",
            "job_id": self.name,
            "user": f"u{self.program % 40}",
            "program": f"prog{self.program}",
            "start_ns": self.start_ns,
            "end_ns": self.end_ns if ended else None,
            "nodes": [f"n{self.node}"],
            "nodes_count": 1,
            "processes": 16,
            "state": "COMPLETED" if ended else "RUNNING",
        }

    def counted(self, ts_ns: int) -> list[dict[str, Any]]:
        """Its second that ends then, as its target counted it: by job, and in all."""
        shared = {"ts_ns": ts_ns, "interval_ns": S, "target": f"OST{self.target:04x}", "read_bytes": 0}
        shared |= {"write_bytes": self.each, "write_rpcs": self.each >> 20, "server": f"oss{self.target % SERVERS}"}
        return [
            {**shared, "source": "job_stats", "job_id": self.name},
            {**shared, "source": "obdfilter", "job_id": None},
        ]


def batch_of(name: str, rows: list[dict[str, Any]]) -> Any:
    """Rows as a record batch of a table."""
    spec = TABLES[name]
    return build_table_batch(spec, {n: [row.get(n) for row in rows] for n in spec.schema.names}, len(rows))


def fill(folder: Path, rng: np.random.Generator) -> None:
    """What the programs did in the hours before."""
    jobs = [
        Job(number, now_ns() // S * S - (8000 - number * 10) * S, draw_amount(rng))
        for number in range(PROGRAMS * EARLIER)
    ]
    rows = [row for job in jobs for k in range(job.io_s) for row in job.counted(job.start_ns + (k + 1) * S)]
    lake = Lake.open(folder / "lake", create=True)
    with lake.open_writer("main", derive=derive_rollups) as writer:
        batch = writer.open_batch("earlier")
        batch.add(batch_of(TARGET.name, rows))
        batch.add(batch_of(JOBS.name, [job.row(ended=True) for job in jobs]))
        batch.commit()


def draw_amount(rng: np.random.Generator) -> int:
    return int((4 << 30) * float(rng.lognormal(0.0, 0.05)))


class Sender:
    """All agents and the feed, over one connection."""

    def __init__(self, to: Server, folder: Path) -> None:
        self._line = connect_live_line(f"http://127.0.0.1:{to.port}", str(folder / "agent.token"), "", now_ns)
        self._seq = 0

    def send(self, *parts: tuple[str, str, list[dict[str, Any]]]) -> None:
        """(node, table, rows): posts them together."""
        self._seq += 1
        data = b"".join(
            Cut(table, batch_of(table, rows)).encode(0, len(rows), node, f"{number:032x}", self._seq)
            for number, (node, table, rows) in enumerate(parts)
            if rows
        )
        if data and self._line.post([BytesIO(data)], len(data)).status != 200:
            raise RuntimeError("the server refused")


def play(to: Server, folder: Path, seconds: int, rng: np.random.Generator) -> dict[str, Job]:
    """Sends for `seconds`, each second when it is over; the jobs that ended, by name."""
    sender = Sender(to, folder)
    first = now_ns() // S * S + S
    count = AN_HOUR * seconds // 3600
    spread = np.sort(rng.uniform(0, max(seconds - USUAL_S * SLOW - 2, 1), count))
    begins = [int(at) for at in spread]
    jobs = [Job(PROGRAMS * EARLIER + k, first + at * S, draw_amount(rng)) for k, at in enumerate(begins)]
    events: list[tuple[int, int, str, Job]] = []
    for job in jobs:
        noticed = int(rng.uniform(0.1, 1.1) * S)
        for at, what in ((job.start_ns, "begin"), (job.end_ns + noticed, "agent"), (job.end_ns + S, "feed")):
            heapq.heappush(events, (at, job.number, what, job))
    held: list[dict[str, Any]] = []
    for tick in range(seconds + 3):
        now = first + (tick + 1) * S
        while (early := now - now_ns()) > 0:
            due: list[tuple[str, str, list[dict[str, Any]]]] = []
            while events and events[0][0] <= now_ns():
                at, _, what, job = heapq.heappop(events)
                due += _tell(what, job, at)
            for one in due:
                sender.send(one)
            time.sleep(min(early / S, 0.1))
        for job in jobs:
            if job.start_ns < now <= job.start_ns + job.io_s * S:
                held += job.counted(now)
        if tick % 2:
            sender.send(("oss", TARGET.name, held))
            held = []
    return {job.name: job for job in jobs}


def _tell(what: str, job: Job, at: int) -> list[tuple[str, str, list[dict[str, Any]]]]:
    node = f"n{job.node}"
    mapped = {"from_ns": job.start_ns, "kind": "job_node", "a": job.name, "b": node}
    if what == "begin":
        return [(node, MAPPING.name, [mapped]), ("feed0", JOBS.name, [job.row(ended=False)])]
    if what == "feed":
        return [("feed0", JOBS.name, [job.row(ended=True)])]
    health = {"ts_ns": at, "node": node, "probe": "agent", "state": "ok", "interval_ns": 60 * S}
    return [(node, MAPPING.name, [{**mapped, "to_ns": job.end_ns}]), (node, HEALTH.name, [health])]


class Seen:
    """When what was written could be read first."""

    def __init__(self, lake: Lake) -> None:
        self.lake, self.summaries, self.findings = lake, dict[str, int](), dict[str, int]()

    def look(self) -> None:
        """Notes what is new."""
        at = now_ns()
        for known, sql in (
            (self.summaries, "SELECT job_id FROM job_summary WHERE end_ns IS NOT NULL"),
            (self.findings, "SELECT job_id FROM finding WHERE job_id IS NOT NULL AND NOT coalesce(withdrawn, false)"),
        ):
            for name in self.lake.query(sql)["job_id"].to_pylist():
                known.setdefault(name, at)


def main() -> int:
    """Runs it; 1 when p99 is beyond the target or a disturbed job has no finding."""
    import threading

    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="one and a half minutes instead of four")
    seconds = 90 if options.parse_args().quick else 240
    rng = np.random.default_rng(7)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder, rng)
        with server(folder, analysis=True) as to:
            seen, done = Seen(Lake.open(folder / "lake")), threading.Event()
            while len(seen.summaries) < PROGRAMS * EARLIER:
                time.sleep(1.0)
                seen.look()
            before = {one: to.cpu_s(one) for one in ("collector", "analysis")}
            watch = threading.Thread(target=lambda: _watch(seen, done), daemon=True)
            watch.start()
            began = time.monotonic()
            jobs = play(to, folder, seconds, rng)
            cpu = {one: (to.cpu_s(one) - before[one]) / (time.monotonic() - began) for one in before}
            until = time.monotonic() + 150
            while time.monotonic() < until and not jobs.keys() <= seen.summaries.keys():
                time.sleep(1.0)
            done.set()
            watch.join()
    slow = {job for job, one in jobs.items() if one.io_s > USUAL_S}
    waited = np.array([(seen.summaries[job] - one.end_ns) / S for job, one in jobs.items() if job in seen.summaries])
    told = np.array([(seen.findings[job] - jobs[job].end_ns) / S for job in slow if job in seen.findings])
    figures: dict[str, float] = {
        "jobs": len(jobs),
        "summaries": len(waited),
        "disturbed": len(slow),
        "findings": len(told),
        "summary_p50_s": float(np.median(waited)),
        "summary_p99_s": float(np.quantile(waited, 0.99)),
        "finding_p50_s": float(np.median(told)) if len(told) else float("nan"),
        "finding_p99_s": float(np.quantile(told, 0.99)) if len(told) else float("nan"),
        "longest_s": float(waited.max()),
        "collector_cores": cpu["collector"],
        "analysis_cores": cpu["analysis"],
        "processor_load": os.getloadavg()[0],
    }
    append("end_to_finding", {one: round(value, 3) for one, value in figures.items()})
    sys.stdout.write("\n".join(f"{one:>16}  {value:,.3f}" for one, value in figures.items()) + "\n")
    return int(figures["summary_p99_s"] > TARGET_P99_S or len(waited) < len(jobs) or len(told) < len(slow))


def _watch(seen: Seen, done: Any) -> None:
    while not done.wait(0.5):
        seen.look()


if __name__ == "__main__":
    sys.exit(main())

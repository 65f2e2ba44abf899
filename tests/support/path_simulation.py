"""A forwarding plane in miniature: closed-loop jobs, forwarders with few workers, targets; it writes the records.

Times are simulated, so that what is judged is known and the same on every machine.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random

import numpy as np
import pyarrow as pa

from fairlead.core.model.tables import FORWARDER, TARGET, build_table_batch

MIB = 1 << 20
EDGES_NS = np.concatenate([[0.0], 2.0 ** np.arange(10, 42, 0.5)])
START_NS = 1_700_000_000 * 10**9


@dataclass
class Process:
    """One process of a job: what it asks for at a moment, or how long it rests."""

    job: str
    forwarder: str
    ask: Callable[[float], tuple[str, int, str | None] | float]
    """→ (op class, bytes, target or None for metadata) or seconds to rest."""


@dataclass
class Plane:
    """Runs processes for some seconds. `rate(target, moment)` is bytes a second; a device serves one at a time."""

    workers: int = 4
    rate: Callable[[str, float], float] = lambda _target, _at: 40.0 * MIB
    metadata_s: float = 2e-3
    noise: float = 0.2
    seed: int = 1
    device_queue_is_service: bool = False
    """Whether the time in a device's queue is recorded as service, as by counters that cannot see the device."""
    rows: dict[tuple[str, str, str, int], list[tuple[float, float, int]]] = field(default_factory=dict)
    target_rows: dict[tuple[str, str, int], list[tuple[float, int]]] = field(default_factory=dict)

    def run(self, processes: list[Process], seconds: float) -> dict[str, pa.Table]:
        """The `forwarder` and `target` tables."""
        random = Random(self.seed)
        order = count()
        events: list[tuple[float, int, str, tuple]] = []
        queue: dict[str, list[tuple[float, Process, tuple]]] = {}
        free: dict[str, int] = {}
        device_free: dict[str, float] = {}
        for process in processes:
            free[process.forwarder] = self.workers
            queue.setdefault(process.forwarder, [])
            heapq.heappush(events, (random.random() * 0.01, next(order), "ask", (process,)))

        def start(name: str, now: float) -> None:
            while free[name] and queue[name]:
                arrived, process, asked = queue[name].pop(0)
                free[name] -= 1
                _, size, target = asked
                spread = random.lognormvariate(0, self.noise)
                if target is None:
                    ready, own = now + self.metadata_s * spread, self.metadata_s * spread
                else:
                    own = (size / self.rate(target, now) + 5e-4) * spread
                    ready = max(now, device_free.get(target, 0.0)) + own
                    device_free[target] = ready
                service = ready - now
                heapq.heappush(events, (ready, next(order), "end", (process, arrived, now, asked, service, own)))

        while events:
            now, _, what, body = heapq.heappop(events)
            if now > seconds:
                break
            if what == "ask":
                (process,) = body
                asked = process.ask(now)
                if isinstance(asked, float):
                    heapq.heappush(events, (now + asked, next(order), "ask", (process,)))
                else:
                    queue[process.forwarder].append((now, process, asked))
                    start(process.forwarder, now)
                continue
            process, arrived, began, (kind, size, target), service, own = body
            free[process.forwarder] += 1
            second = int(now)
            key = (process.forwarder, process.job, kind, second)
            self.rows.setdefault(key, []).append((began - arrived, service, size))
            if target is not None:
                device = service if self.device_queue_is_service else own
                self.target_rows.setdefault((target, process.job, second), []).append((device, size))
            start(process.forwarder, now)
            heapq.heappush(events, (now, next(order), "ask", (process,)))
        return self.tables()

    def tables(self) -> dict[str, pa.Table]:
        """What was recorded, a row an interval of one second."""
        forwarder = [
            {
                "ts_ns": START_NS + (second + 1) * 10**9,
                "interval_ns": 10**9,
                "node": node,
                "job_id": job,
                "op_class": kind,
                "requests": len(seen),
                "bytes": sum(size for _, _, size in seen),
                "wait_ns_histogram": _histogram([wait for wait, _, _ in seen]),
                "service_ns_histogram": _histogram([service for _, service, _ in seen]),
            }
            for (node, job, kind, second), seen in sorted(self.rows.items())
        ]
        target = [
            {
                "ts_ns": START_NS + (second + 1) * 10**9,
                "interval_ns": 10**9,
                "server": "s",
                "target": name,
                "job_id": job,
                "read_rpcs": 0,
                "write_rpcs": len(seen),
                "read_bytes": 0,
                "write_bytes": sum(size for _, size in seen),
                "service_ns_histogram": _histogram([service for service, _ in seen]),
            }
            for (name, job, second), seen in sorted(self.target_rows.items())
        ]
        return {"forwarder": _table(FORWARDER, forwarder), "target": _table(TARGET, target)}


def _histogram(seconds: list[float]) -> list[int]:
    return [int(n) for n in np.histogram(np.array(seconds) * 1e9, EDGES_NS)[0]]


def _table(spec: object, rows: list[dict[str, object]]) -> pa.Table:
    columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}
    return pa.Table.from_batches([build_table_batch(spec, columns, rows=0)])


def checkpoints(
    job: str,
    forwarder: str,
    processes: int,
    *,
    seed: int,
    every_s: float = 0.0,
    writes: int = 8,
    size: int = MIB,
    targets: int = 4,
) -> list[Process]:
    """Processes that write `writes` pieces round robin over targets, then rest `every_s` together."""
    made = []
    for rank in range(processes):
        random = Random(seed * 1000 + rank)
        state = {"n": 0, "at": random.randrange(targets)}

        def ask(now: float, state: dict = state, random: Random = random) -> tuple[str, int, str | None] | float:
            state["n"] += 1
            if every_s and state["n"] % (writes + 1) == 0:
                return every_s * (0.8 + 0.4 * random.random())
            state["at"] = (state["at"] + 1) % targets
            return ("write", size, f"t{state['at']}")

        made.append(Process(job, forwarder, ask))
    return made


def metadata(job: str, forwarder: str, processes: int, *, seed: int, rest_s: float = 0.02) -> list[Process]:
    """Processes that make small files one after the other."""
    made = []
    for rank in range(processes):
        random = Random(seed * 1000 + rank)
        state = {"n": 0}

        def ask(now: float, state: dict = state, random: Random = random) -> tuple[str, int, str | None] | float:
            state["n"] += 1
            return ("metadata", 0, None) if state["n"] % 2 else rest_s * 2 * random.random()

        made.append(Process(job, forwarder, ask))
    return made


def flood(
    job: str, forwarder: str, processes: int, *, seed: int, start: float, end: float, size: int = 1 << 18
) -> list[Process]:
    """Processes that write without rest between two moments and are quiet otherwise."""
    made = []
    for rank in range(processes):
        random = Random(seed * 1000 + rank)

        def ask(now: float, random: Random = random) -> tuple[str, int, str | None] | float:
            if now < start:
                return start - now
            return 1e9 if now > end else ("write", size, f"t{random.randrange(4)}")

        made.append(Process(job, forwarder, ask))
    return made

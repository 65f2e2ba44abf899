"""Loads of components made by hand, second by second, for tests of their health."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from fairlead.core.model.incident import Incident
from fairlead.core.model.tables import EVENTS, ROLLUP, build_table_batch
from fairlead.explain.analysis.health.assess import Health, HealthLimits, assess_health

NS = 1_000_000_000
START_NS = 1_717_200_000 * NS
PEAK = 1e9
LIMITS = HealthLimits(minimum_s=120)


def rows(kind: str, name: str, layer: str, seconds: np.ndarray, job: str | None = None, **columns: object) -> pa.Table:
    """Rows of ROLLUP of one component (or of a job's part of it), one a second. A scalar holds for all."""
    count = len(seconds)
    full = {key: np.full(count, value) if np.isscalar(value) else value for key, value in columns.items()}
    batch = build_table_batch(
        ROLLUP,
        {
            "ts_ns": START_NS + seconds * NS,
            "interval_ns": np.full(count, NS),
            "kind": [kind] * count,
            "id": [name] * count,
            "layer": [layer] * count,
            "job_id": [job] * count,
            **{key: pa.array(np.asarray(value, np.int64)) for key, value in full.items()},
        },
    )
    return pa.Table.from_batches([batch])


def target(name: str, seconds: np.ndarray, rate: object, busy: object, job: str = "1") -> list[pa.Table]:
    """A target that moves `rate` bytes/s for one job, its device busy for the share `busy` of each second."""
    moved = np.broadcast_to(np.asarray(rate, np.float64), seconds.shape).astype(np.int64)
    ops = np.maximum(moved >> 20, (moved > 0).astype(np.int64))
    held = (np.broadcast_to(np.asarray(busy, np.float64), seconds.shape) * NS).astype(np.int64)
    server = f"oss{int(name[-1]) // 2}"
    return [
        rows("target", name, "target", seconds, write_bytes=moved, write_ops=ops),
        rows("target", name, "target", seconds, job, write_bytes=moved, write_ops=ops),
        rows(
            "device",
            f"{server}/md{int(name[-1]) % 2}",
            "device",
            seconds,
            write_bytes=moved,
            write_ops=ops,
            busy_ns=held,
        ),
    ]


def forwarder(
    name: str, seconds: np.ndarray, rate: object, waiting: object, serving: object = 4.0, job: str = "1"
) -> list[pa.Table]:
    """A forwarder that moves `rate` bytes/s for a job; `waiting` and `serving` requests are under way on average."""
    moved = np.broadcast_to(np.asarray(rate, np.float64), seconds.shape).astype(np.int64)
    wait, busy = (
        (np.broadcast_to(np.asarray(value, np.float64), seconds.shape) * NS).astype(np.int64)
        for value in (waiting, serving)
    )
    columns = {"write_bytes": moved, "write_ops": moved >> 20, "wait_ns": wait, "busy_ns": busy}
    return [
        rows("forwarder", name, "forwarder", seconds, queue_len_max=(wait // NS), **columns),
        rows("forwarder", name, "forwarder", seconds, job, **columns),
    ]


def events(*told: tuple[str, str, float, float]) -> pa.Table:
    """Rows of EVENTS: component, kind, from and to in seconds of the play."""
    batch = build_table_batch(
        EVENTS,
        {
            "ts_ns": [START_NS + int(a * NS) for _, _, a, _ in told],
            "end_ns": [START_NS + int(b * NS) for *_, b in told],
            "component": [name for name, *_ in told],
            "kind": [kind for _, kind, *_ in told],
            "text": [kind for _, kind, *_ in told],
        },
        len(told),
    )
    return pa.Table.from_batches([batch])


def look(
    tables: list[pa.Table],
    until_s: float,
    known: list[Incident] | None = None,
    peaks: Mapping[tuple[str, str], float] | None = None,
    told: pa.Table | None = None,
    limits: HealthLimits = LIMITS,
    **more: object,
) -> Health:
    """A look at the loads up to a second."""
    given = {("target", ""): PEAK, ("forwarder", ""): 2.5 * PEAK, ("mds", ""): 8000.0} if peaks is None else peaks
    return assess_health(
        pa.concat_tables(tables),
        NS,
        given,
        told,
        now_ns=START_NS + int(until_s * NS),
        open_incidents=known or [],
        limits=limits,
        **more,  # type: ignore[arg-type]
    )


def states_of(health: Health, component: str) -> list[str]:
    """The states of one component in order of time."""
    chosen = [row for row in health.states.to_pylist() if row["component"] == component]
    return [row["state"] for row in sorted(chosen, key=lambda row: row["ts_ns"])]

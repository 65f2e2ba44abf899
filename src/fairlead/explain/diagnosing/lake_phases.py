"""The phases of jobs from the lake: what only operations and servers tell of many jobs, in one query each.

Not here: what a phase is (`analysis.history.phase_rows`), what it is compared with (`history`).
"""
# ruff: noqa: S608  (names of columns are ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.tables import PHASE, build_empty_table
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.history.phase_rows import build_phase_rows
from fairlead.explain.analysis.job_summary import JobData
from fairlead.explain.diagnosing.recorded_io import ASKED, build_recorded_io_parameters, split_recorded_io_rows
from fairlead.explain.diagnosing.serving_components import Tables, build_day_condition
from fairlead.store.rollups import CLIENT, MOUNT, MOUNT_INTERFACES, NO_METADATA, UPPER_INTERFACES

FINEST_NS = 1_000_000
"""Operations that begin within so long of each other count as one stretch."""
_HOUR_NS = 3600 * NS_PER_S


def detect_lake_phases(lake: Tables, looked: Sequence[JobData], now_ns: int) -> pa.Table:
    """Rows of PHASE of these jobs, job by job in their order. Raises LakeError."""
    known = [data for data in looked if data.series.num_rows or data.nodes_traffic is not None]
    if not known:
        return build_empty_table(PHASE)
    edges, servers = _edges(lake, known), _servers(lake, known)
    made = [
        build_phase_rows(data, now_ns, edges=edges.get(number), mds=servers.get(number), fs=None)
        for number, data in enumerate(known)
    ]
    return pa.concat_tables(made).unify_dictionaries()


def _words(known: Sequence[JobData], around_ns: int) -> tuple[dict[str, object], int, int]:
    """Parameters that name these jobs and their times, and the first and last of these."""
    spans = [
        (str(data.job["job_id"]), _ns(data.job, "start_ns") - around_ns, _ns(data.job, "end_ns") + around_ns)
        for data in known
    ]
    return build_recorded_io_parameters(spans), min(begin for _, begin, _ in spans), max(end for _, _, end in spans)


def _ns(job: Mapping[str, Any], name: str) -> int:
    return int(job[name])


def _edges(lake: Tables, known: Sequence[JobData]) -> dict[int, pa.Table]:
    """Stretches of operations by kind of those jobs whose operations were recorded, by place in the list."""
    traced = [
        (number, MOUNT in layers)
        for number, data in enumerate(known)
        if (layers := set(pc.unique(data.series["layer"]).to_pylist())) & {CLIENT, MOUNT}
    ]
    found: dict[int, pa.Table] = {}
    mounts = ", ".join(f"'{name}'" for name in MOUNT_INTERFACES)
    upper = ", ".join(f"'{name}'" for name in (*UPPER_INTERFACES, *MOUNT_INTERFACES))
    other = ", ".join(f"'{name}'" for name in NO_METADATA)
    for mount, interface in ((True, f"interface IN ({mounts})"), (False, f"interface NOT IN ({upper})")):
        mine = [number for number, mounted in traced if mounted is mount]
        if not mine:
            continue
        words, first, last = _words([known[number] for number in mine], 0)
        rows = lake.query(
            "SELECT number, CASE WHEN op IN ('read', 'write') THEN op ELSE $other END AS kind,"
            f" min(start_ns) AS start_ns, max(ops.end_ns) AS end_ns FROM ops JOIN {ASKED} asked"
            " ON asked.id = ops.job_id AND ops.start_ns >= asked.begin_ns AND ops.start_ns < asked.end_ns"
            f" WHERE ops.job_id IN (SELECT unnest($ids)) AND ops.start_ns >= {first} AND ops.start_ns < {last}"
            f" AND {build_day_condition(first, last)} AND {interface} AND (op IN ('read', 'write') OR op NOT"
            f" IN ({other}))"
            f" GROUP BY number, kind, ops.start_ns // {FINEST_NS} ORDER BY number, start_ns, kind",
            {**words, "numbers": mine, "other": "metadata"},
        )
        found |= split_recorded_io_rows(rows)
    return found


def _servers(lake: Tables, known: Sequence[JobData]) -> dict[int, list[str]]:
    """Metadata servers that counted each job; where the only one there is tells no jobs, that one."""
    words, first, last = _words(known, 0)
    rows = lake.query(
        f"SELECT DISTINCT number, rollup.id AS id FROM rollup JOIN {ASKED} asked ON rollup.job_id = asked.id"
        f" AND ts_ns > asked.begin_ns - {_HOUR_NS} AND ts_ns < asked.end_ns"
        f" WHERE kind = $kind AND interval_ns = {_HOUR_NS} AND ts_ns > {first - _HOUR_NS} AND ts_ns < {last}"
        f" AND {build_day_condition(first, last)} ORDER BY number, id",
        {**words, "kind": "mds"},
    )
    found: dict[int, list[str]] = {}
    for row in rows.to_pylist():
        found.setdefault(row["number"], []).append(row["id"])
    if len(found) < len(known):
        there = lake.query(
            f"SELECT DISTINCT id FROM rollup WHERE kind = $kind AND interval_ns = {_HOUR_NS}"
            f" AND ts_ns > {first - _HOUR_NS} AND ts_ns < {last} AND {build_day_condition(first, last)} LIMIT 2",
            {"kind": "mds"},
        )["id"].to_pylist()
        if len(there) == 1:
            for number in range(len(known)):
                found.setdefault(number, there)
    return found

"""Scenes of abnormal phases from the lake: loads at the victim's components, who else was there, what was wrong there.

Phases that lie close together share their queries. Not here: the verdict (`analysis.interference`).
"""
# ruff: noqa: S608  (names of columns are ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.finding_incident_rows import parse_incident_rows
from fairlead.core.model.incident import Incident
from fairlead.core.model.tables import JOB_SUMMARY, JOBS, PHASE, ROLLUP, TableSpec, build_empty_table
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.history.usual_figures import UsualFigures
from fairlead.explain.analysis.interference.scene import Scene, Victim
from fairlead.explain.diagnosing.component_peaks import Peaks, compute_usual_component_waits, find_known_peaks
from fairlead.explain.diagnosing.serving_components import DAY_NS, Tables, build_day_condition
from fairlead.explain.questions.component_loads import read_component_load_rows
from fairlead.explain.questions.past_phases import LATEST
from fairlead.explain.questions.span import Span
from fairlead.store.stored_tables import conform_stored_table

KINDS = ("forwarder", "target", "mds")
LONGEST_FINE_NS = 1800 * NS_PER_S
"""A longer phase is looked at by the minute."""
LEAST_AROUND_NS, MOST_AROUND_NS = 60 * NS_PER_S, 600 * NS_PER_S
"""So much before and after a phase is looked at, too: as long as the phase, within these."""
MOST_NEIGHBOURS = 200
"""Jobs looked at besides the victim: those that asked most at shared components."""
_MINUTE_NS = 60 * NS_PER_S


@dataclass(frozen=True)
class Window:
    """Victims (by their place in the list asked for) looked at together: [from_ns, to_ns) at `interval_ns`."""

    from_ns: int
    to_ns: int
    interval_ns: int
    victims: Sequence[int]


@dataclass(frozen=True)
class Around:
    """What one window's queries found, for all its victims."""

    loads: pa.Table
    phases: pa.Table
    summaries: pa.Table
    jobs: pa.Table
    incidents: Sequence[Incident]
    peaks: Peaks = field(default_factory=dict)
    waits: Peaks = field(default_factory=dict)


def build_scene_victims(
    phases: pa.Table, rows: Sequence[int], usual: Sequence[UsualFigures] | None = None
) -> list[Victim]:
    """The judged rows of PHASE at these places as victims; `usual`: what runs like each ask for, where it is known."""
    wanted = phases.take(pa.array(rows, pa.int64()))
    usual = [UsualFigures()] * len(rows) if usual is None else usual
    return [
        Victim(
            cluster=row["cluster"],
            job_id=row["job_id"],
            kind=row["kind"],
            start_ns=row["start_ns"],
            end_ns=row["end_ns"],
            expected_s=row["expected_s"],
            lost_s=row["lost_s"],
            confidence=row["abnormal"],
            rate_per_s=row["rate_per_s"],
            mode=row["mode"],
            forwarders=tuple(row["forwarders"] or ()),
            targets=tuple(row["targets"] or ()),
            mds=tuple(row["mds"] or ()),
            request_bytes=row["request_bytes"],
            metadata_ops=row["metadata_ops"],
            usual_request_bytes=like.request_bytes,
            usual_metadata_ops=like.metadata_ops,
            usual_mode=like.mode,
        )
        for row, like in zip(wanted.to_pylist(), usual, strict=True)
    ]


def build_phase_scenes(
    lake: Tables, victims: Sequence[Victim], *, own: pa.Table | None = None, peaks: Mapping[str, float] | None = None
) -> Iterator[tuple[int, Scene]]:
    """The place of each victim in the list, and its scene, window after window. `own`: rows of PHASE that are not in
    the lake yet. `peaks`: known peak of a kind of component. Raises LakeError."""
    for window in build_scene_windows(victims):
        mine = [victims[at] for at in window.victims]
        around = _around(lake, window, mine, own, peaks or {})
        for at in window.victims:
            yield at, build_phase_scene(victims[at], window, around)


def build_scene_windows(victims: Sequence[Victim]) -> list[Window]:
    """Victims whose surroundings overlap, together; in the order of time."""
    spans = []
    for at, victim in enumerate(victims):
        length = victim.end_ns - victim.start_ns
        around = min(max(length, LEAST_AROUND_NS), MOST_AROUND_NS)
        interval = NS_PER_S if length <= LONGEST_FINE_NS else _MINUTE_NS
        begin, end = victim.start_ns - around, victim.end_ns + around
        spans.append((interval, begin // _MINUTE_NS * _MINUTE_NS, -(-end // _MINUTE_NS) * _MINUTE_NS, at))
    windows: list[Window] = []
    for interval, begin, end, at in sorted(spans):
        last = windows[-1] if windows else None
        if (
            last is not None
            and last.interval_ns == interval
            and begin <= last.to_ns
            and (end - last.from_ns <= 2 * LONGEST_FINE_NS + 4 * MOST_AROUND_NS)
        ):
            windows[-1] = Window(last.from_ns, max(last.to_ns, end), interval, (*last.victims, at))
        else:
            windows.append(Window(begin, end, interval, (at,)))
    return windows


def _collect_component_names(victims: Sequence[Victim]) -> dict[str, list[str]]:
    """Names of the components of these victims by kind."""
    names = {"forwarder": "forwarders", "target": "targets", "mds": "mds"}
    return {kind: sorted({name for v in victims for name in getattr(v, names[kind])}) for kind in KINDS}


def _around(
    lake: Tables, window: Window, victims: Sequence[Victim], own: pa.Table | None, peaks: Mapping[str, float]
) -> Around:
    served = _collect_component_names(victims)
    at_components = _read_component_loads(lake, window.from_ns, window.to_ns, window.interval_ns, served)
    mine = {victim.job_id for victim in victims}
    neighbours = _neighbours(at_components, mine)
    names = sorted(mine | set(neighbours))
    loads = pa.concat_tables(
        [at_components, _read_job_loads(lake, window.from_ns, window.to_ns, window.interval_ns, names)]
    )
    phases = _phases(lake, window, names)
    if own is not None:
        phases = pa.concat_tables([_without(phases, own), _overlapping(own, window, names)])
    told = set(phases["job_id"].to_pylist())
    return Around(
        loads=loads,
        phases=phases,
        summaries=_summaries(lake, window, [n for n in names if n not in told]),
        jobs=_jobs(lake, window, names),
        incidents=_incidents(lake, window, served),
        peaks=find_known_peaks(lake, window.from_ns, served, peaks),
        waits=compute_usual_component_waits(lake, window.from_ns, served),
    )


def build_phase_scene(victim: Victim, window: Window, around: Around) -> Scene:
    """What of a window's surroundings belongs to one victim: its own components, and the jobs that were at them."""
    length = min(max(victim.end_ns - victim.start_ns, LEAST_AROUND_NS), MOST_AROUND_NS)
    begin = (victim.start_ns - length) // window.interval_ns * window.interval_ns
    served = {(kind, name) for kind, names in _collect_component_names([victim]).items() for name in names}
    loads = around.loads
    when = pc.and_(pc.greater_equal(loads["ts_ns"], begin), pc.less(loads["ts_ns"], victim.end_ns + length))
    loads = loads.filter(when)
    kinds, ids = loads["kind"].to_pylist(), loads["id"].to_pylist()
    here = np.array([(kind, name) in served for kind, name in zip(kinds, ids, strict=True)], np.bool_)
    parts = loads["job_id"].to_pylist()
    beside = {job for job, mine in zip(parts, here, strict=True) if mine and job is not None} | {victim.job_id}
    of_job = np.array([kind == "job" and name in beside for kind, name in zip(kinds, ids, strict=True)], np.bool_)
    chosen = pa.array(sorted(beside - {victim.job_id}), pa.string())
    phases = around.phases.filter(pc.is_in(around.phases["job_id"], chosen))
    summaries = around.summaries.filter(pc.is_in(around.summaries["job_id"], chosen))
    return Scene(
        victim=victim,
        loads=loads.filter(pa.array(here | of_job)),
        interval_ns=window.interval_ns,
        neighbours=_build_neighbour_phases(phases, summaries),
        jobs=around.jobs.filter(pc.is_in(around.jobs["job_id"], pa.array(sorted(beside), pa.string()))),
        incidents=[
            one
            for one in around.incidents
            if (one.layer, one.component) in served
            and one.from_ns < victim.end_ns
            and (one.to_ns is None or one.to_ns > victim.start_ns)
        ],
        peaks={key: value for key, value in around.peaks.items() if key in served},
        usual_wait_s={key: value for key, value in around.waits.items() if key in served},
        missing=_list_missing_sources(victim, here, kinds, parts),
    )


_ALIKE = (
    "cluster",
    "job_id",
    "user",
    "project",
    "program",
    "nodes_count",
    "processes",
    "forwarders",
    "targets",
    "made_ns",
    "analysis_version",
)


def _build_neighbour_phases(phases: pa.Table, summaries: pa.Table) -> pa.Table:
    """Phases of neighbours, and of those that have none a row of what their summary says, in the schema of phases: one
    for reading, one for writing, one for metadata, as long as the job."""
    rows = []
    for one in summaries.to_pylist():
        if one["start_ns"] is None:
            continue
        end = one["end_ns"] if one["end_ns"] is not None else one["made_ns"]
        shared = {name: one[name] for name in _ALIKE}
        shared |= {
            "job_start_ns": one["start_ns"],
            "number": 0,
            "start_ns": one["start_ns"],
            "end_ns": end,
            "active_ns": end - one["start_ns"],
            "io_processes": one["io_processes"],
        }
        for kind, amount, mode in (("read", "read_bytes", "read_mode"), ("write", "write_bytes", "write_mode")):
            if one[amount]:
                rows.append(
                    {**shared, "kind": kind, "bytes": one[amount], "ops": one[f"{kind}_ops"], "mode": one[mode]}
                )
        if one["metadata_ops"]:
            rows.append({**shared, "kind": "metadata", "metadata_ops": one["metadata_ops"]})
    if not rows:
        return phases
    return pa.concat_tables(
        [phases, conform_stored_table(pa.Table.from_pylist(rows, _plain(PHASE)), PHASE, strict=True)]
    )


def _list_missing_sources(victim: Victim, here: Any, kinds: Sequence[str], parts: Sequence[str | None]) -> list[str]:
    """What of the victim's surroundings nothing was recorded of."""
    missing = []
    if not victim.forwarders:
        missing.append("forwarders: none is known to have served this job")
    if victim.kind != "metadata" and not victim.targets:
        missing.append("targets: none is known to have served this job")
    if victim.kind == "metadata" and not victim.mds:
        missing.append("mds: none is known to have served this job")
    present = {kind for kind, mine in zip(kinds, here, strict=True) if mine}
    for kind, names in _collect_component_names([victim]).items():
        if names and kind not in present:
            missing.append(f"{kind}: no counters of {', '.join(names[:3])} at that time")
    by_job = {kind for kind, mine, job in zip(kinds, here, parts, strict=True) if mine and job is not None}
    missing += [f"{kind}: its counters are not split by job" for kind in sorted(present - by_job)]
    return missing


def _read_component_loads(
    lake: Tables, from_ns: int, to_ns: int, interval_ns: int, served: Mapping[str, Sequence[str]]
) -> pa.Table:
    """Rows of ROLLUP of these components, whole and by job, one a key, in a fixed order."""
    if not any(served.values()):
        return build_empty_table(ROLLUP)
    where = " OR ".join(f"(kind = $k_{kind} AND id IN (SELECT unnest(${kind}_ids)))" for kind in KINDS)
    words = {**{f"k_{kind}": kind for kind in KINDS}, **{f"{kind}_ids": list(served[kind]) for kind in KINDS}}
    return read_component_load_rows(lake, Span(from_ns, to_ns), interval_ns, where, words)


def _read_job_loads(lake: Tables, from_ns: int, to_ns: int, interval_ns: int, names: Sequence[str]) -> pa.Table:
    """Rows of ROLLUP of these jobs, by layer."""
    return read_component_load_rows(
        lake,
        Span(from_ns, to_ns),
        interval_ns,
        "kind = $k_job AND id IN (SELECT unnest($names))",
        {"k_job": "job", "names": list(names)},
    )


def _neighbours(loads: pa.Table, mine: set[str]) -> list[str]:
    """Jobs at these components besides `mine`, those that asked most first, at most `MOST_NEIGHBOURS`."""
    asked: dict[str, int] = {}
    parts = loads.filter(pc.is_valid(loads["job_id"]))
    columns = [parts[name].to_pylist() for name in ("job_id", "read_bytes", "write_bytes", "metadata_ops")]
    for job, read, written, metadata in zip(*columns, strict=True):
        if job not in mine:
            asked[job] = asked.get(job, 0) + (read or 0) + (written or 0) + 1_000_000 * (metadata or 0)
    return sorted(asked, key=lambda job: (-asked[job], job))[:MOST_NEIGHBOURS]


def _phases(lake: Tables, window: Window, names: Sequence[str]) -> pa.Table:
    found = lake.query(
        "SELECT * EXCLUDE (day) FROM phase WHERE job_id IN (SELECT unnest($names)) AND start_ns < $to"
        " AND end_ns > $from"
        f" AND {build_day_condition(window.from_ns - 32 * DAY_NS, window.to_ns)} QUALIFY {LATEST}"
        " ORDER BY start_ns, cluster, job_id, kind, number",
        {"names": list(names), "from": window.from_ns, "to": window.to_ns},
    )
    return _as(found, PHASE)


def _overlapping(own: pa.Table, window: Window, names: Sequence[str]) -> pa.Table:
    when = pc.and_(pc.less(own["start_ns"], window.to_ns), pc.greater(own["end_ns"], window.from_ns))
    return own.filter(pc.and_(when, pc.is_in(own["job_id"], pa.array(names, pa.string()))))


def _without(phases: pa.Table, own: pa.Table) -> pa.Table:
    """Phases of jobs that are not being made again."""
    return phases.filter(pc.invert(pc.is_in(phases["job_id"], pc.unique(own["job_id"]))))


def _summaries(lake: Tables, window: Window, names: Sequence[str]) -> pa.Table:
    if not names:
        return build_empty_table(JOB_SUMMARY)
    found = lake.query(
        "SELECT * EXCLUDE (day) FROM job_summary WHERE job_id IN (SELECT unnest($names)) AND start_ns < $to"
        f" AND (end_ns IS NULL OR end_ns > $from) AND {build_day_condition(window.from_ns - 32 * DAY_NS, window.to_ns)}"
        " ORDER BY start_ns, cluster, job_id",
        {"names": list(names), "from": window.from_ns, "to": window.to_ns},
    )
    return _as(found, JOB_SUMMARY)


def _jobs(lake: Tables, window: Window, names: Sequence[str]) -> pa.Table:
    found = lake.query(
        "SELECT * EXCLUDE (day) FROM jobs WHERE job_id IN (SELECT unnest($names)) AND start_ns < $to"
        f" AND (end_ns IS NULL OR end_ns > $from) AND {build_day_condition(window.from_ns - 32 * DAY_NS, window.to_ns)}"
        " ORDER BY start_ns, cluster, job_id",
        {"names": list(names), "from": window.from_ns, "to": window.to_ns},
    )
    return _as(found, JOBS)


def _incidents(lake: Tables, window: Window, served: Mapping[str, Sequence[str]]) -> list[Incident]:
    names = [name for kind in KINDS for name in served[kind]]
    found = lake.query(
        "SELECT detail FROM incident WHERE component IN (SELECT unnest($names)) AND from_ns < $to"
        " AND (to_ns IS NULL OR to_ns > $from) AND NOT coalesce(withdrawn, false) ORDER BY from_ns, id",
        {"names": names, "from": window.from_ns, "to": window.to_ns},
    )
    return parse_incident_rows(found)


def _as(found: pa.Table, spec: TableSpec) -> pa.Table:
    return conform_stored_table(found, spec, strict=True)


def _plain(spec: TableSpec) -> pa.Schema:
    return pa.schema(
        [pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in spec.schema]
    )

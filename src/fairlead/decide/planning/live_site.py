"""The live machine as path policies see it: load of the last minutes, sick components, who runs where, what is kept.

Of the lake and the site file; what nobody tells is NaN or false, and said. Not here: which components there are
(`describe_site_components`), what jobs are expected to do (`expectations`).
"""
# ruff: noqa: S608  (conditions are numbers of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairlead.core.model.plan import Plan
from fairlead.core.model.site import F64, Layer, Site
from fairlead.core.model.site_file import SiteFile
from fairlead.decide.planning.site_components import (
    NO_FILE,
    describe_site_components,
    expand_barred_components,
    list_site_mounts,
)
from fairlead.decide.policies.paths.checker import Reservation
from fairlead.explain.diagnosing.component_peaks import read_past_peaks
from fairlead.explain.questions.component_health import describe_component_health
from fairlead.explain.questions.job_accounts import LONGEST_RUN_NS, is_account_running
from fairlead.explain.questions.lake_queries import Sight, Tables, build_day_filter, query_lake
from fairlead.explain.questions.rollup_end import shift_to_rollup_end
from fairlead.explain.questions.span import HOUR_NS, MINUTE_NS, Span, choose_long_span_interval

LOOK_NS = 5 * MINUTE_NS
"""Load is that of the last so many minutes."""
SERVED_NS = 2 * HOUR_NS
"""A running job uses what counted it in so long before."""
_LAYERS = ("component", "forwarder", "target")
_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class RunningJob:
    """A job that runs: its account, its forwarders and targets by place."""

    job_id: str
    user: str
    program: str
    node_count: int
    cores: float
    processes: int | None
    forwarders: tuple[int, ...]
    targets: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Live:
    """What is known now. `site` without what is kept for one job only in its policy's eyes; `nodes`: place of a node in
    `site.default_forwarder`; `reserved_for`: component → job; `barred`: what some jobs may not use; `mounts` of file
    systems by name. `state_ns`: loads are those up to then. `missing`: what nobody told."""

    site: Site
    file_system: str | None
    nodes: Mapping[str, int]
    running: tuple[RunningJob, ...]
    state_ns: int
    missing: tuple[str, ...]
    barred: tuple[Reservation, ...] = ()
    reserved_for: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, str] = field(default_factory=dict)


def find_live_site(lake: Tables, file: SiteFile | None, at_ns: int, now_ns: int, *, file_system: str = "") -> Live:
    """The machine at `at_ns`. Raises LakeError, ConfigError, UsageError for a file system that is not there."""
    told, missing = file or NO_FILE, list[str]()
    site, nodes, reserved = describe_site_components(lake, told, at_ns, file_system, missing)
    span = shift_to_rollup_end(lake, Span(at_ns - LOOK_NS, at_ns, live=at_ns >= now_ns), now_ns)
    moved = _moved(lake, span)
    forwarders, targets = _peaks(lake, at_ns, (site.forwarders, site.targets), missing)
    sick = _sick(lake, at_ns, missing)
    forwarders, targets = (_state(layer, moved, sick, missing) for layer in (forwarders, targets))
    site = replace(site, forwarders=forwarders, targets=targets)
    running = _running(lake, site, nodes, at_ns, missing)
    for job in running:
        forwarders.jobs[list(job.forwarders)] += 1
        targets.jobs[list(job.targets)] += 1
    return Live(
        site=replace(site, servers=_servers(site)),
        file_system=site.file_system if len(targets) else None,
        nodes=nodes,
        running=running,
        state_ns=min(span.to_ns, at_ns),
        missing=tuple(missing),
        barred=expand_barred_components(told.planning.barred) if told.planning else (),
        reserved_for=reserved,
        mounts=list_site_mounts(told),
    )


def select_live_site_plans(lake: Tables, plans: Sequence[Plan], at_ns: int) -> list[Plan]:
    """Those of plans made before whose jobs have not ended since. Raises LakeError."""
    if not plans:
        return []
    found = query_lake(
        lake,
        f"SELECT job_id, max(end_ns) AS end_ns FROM jobs WHERE job_id IN (SELECT unnest($names)) AND end_ns <= {at_ns}"
        " GROUP BY job_id",
        {"names": [plan.job.job_id for plan in plans]},
    )
    ended = {row["job_id"]: row["end_ns"] for row in found.to_pylist()}
    return [plan for plan in plans if ended.get(plan.job.job_id, -1) < plan.state_ns]


def _moved(lake: Tables, span: Span) -> dict[tuple[str, str], Mapping[str, float]]:
    """Bytes, operations and metadata operations a second of each forwarder and target in the span; without a row:
    nothing was heard of it."""
    step = choose_long_span_interval(span)
    wide = span.align_to(step)
    found = query_lake(
        lake,
        "SELECT kind, id, sum(coalesce(read_bytes, 0) + coalesce(write_bytes, 0)) AS moved,"
        " sum(coalesce(read_ops, 0) + coalesce(write_ops, 0)) AS ops, sum(metadata_ops) AS metadata_ops FROM rollup"
        f" WHERE interval_ns = {step} AND kind IN (SELECT unnest($kinds)) AND layer = kind AND job_id IS NULL"
        f" AND ts_ns >= {wide.from_ns} AND ts_ns < {wide.to_ns} AND {build_day_filter(wide)} GROUP BY kind, id",
        {"kinds": ["forwarder", "target"]},
        within=wide,
    )
    seconds = max(wide.seconds, 1e-9)
    return {
        (row["kind"], row["id"]): {
            name: float(row[name]) / seconds for name in ("moved", "ops", "metadata_ops") if row[name] is not None
        }
        for row in found.to_pylist()
    }


def _peaks(lake: Tables, at_ns: int, layers: Sequence[Layer], missing: list[str]) -> list[Layer]:
    """The layers with what each can do: as the site file says, else the best of the week before; what is not known is
    said."""
    lacking = any(np.isnan(layer.bandwidth).any() for layer in layers)
    learnt = read_past_peaks(lake, at_ns) if lacking else {}
    known = []
    for layer in layers:
        bandwidth = layer.bandwidth.copy()
        unknown = []
        for at in np.flatnonzero(np.isnan(bandwidth)).tolist():
            seen = learnt.get((layer.kind, layer.names[at]))
            if seen is None:
                unknown.append(layer.names[at])
            else:
                bandwidth[at] = seen.bytes_per_s or np.nan
        if unknown:
            missing.append(f"peak bandwidth: not known of {_some(unknown, layer.kind)}")
        elif np.isnan(layer.bandwidth).any():
            missing.append(
                f"peak bandwidth of {layer.kind}s: not in the site file; the best of the week before is used"
            )
        known.append(replace(layer, bandwidth=bandwidth))
    return known


def _sick(lake: Tables, at_ns: int, missing: list[str]) -> set[tuple[str, str]]:
    """Layer and name of what is sick or dead now: by open incidents and by a look at the last minutes."""
    answer = describe_component_health(lake, Span(at_ns - MINUTE_NS, at_ns), Sight(), at_ns, everything=True)
    known = {one.layer for one in answer.layers}
    silent = [layer for layer in ("forwarder", "target") if known and layer not in known]
    missing.extend(f"health of {layer}s: no reports in the last minutes" for layer in silent)
    missing.extend(f"health: {text}" for text in answer.missing if any(one in text for one in _LAYERS))
    return {(one.layer, one.component) for one in answer.components if one.state in ("sick", "dead")}


def _state(
    layer: Layer,
    moved: Mapping[tuple[str, str], Mapping[str, float]],
    sick: set[tuple[str, str]],
    missing: list[str],
) -> Layer:
    """The layer with its load and what is sick."""
    kind, names = layer.kind, layer.names
    shares = np.full((3, len(names)), np.nan)
    for row, (done, peak) in enumerate(
        (("moved", layer.bandwidth), ("ops", layer.iops), ("metadata_ops", layer.mdops))
    ):
        rate = np.array([moved.get((kind, name), {}).get(done, np.nan) for name in names], np.float64)
        shares[row] = rate / peak
    # A share nobody can tell counts as nothing beside one that is known; where none is known, neither is the load.
    known = ~np.isnan(shares).all(axis=0)
    load = np.where(known, np.nan_to_num(shares, nan=0.0).max(axis=0, initial=0.0), np.nan)
    silent = [name for name in names if (kind, name) not in moved]
    if silent:
        missing.append(f"load: no reports in the last {LOOK_NS // MINUTE_NS} minutes of {_some(silent, kind)}")
    ill = np.array([(kind, name) in sick for name in names], np.bool_)
    return replace(layer, load=np.minimum(load, 1.0), sick=ill)


def _running(
    lake: Tables, site: Site, nodes: Mapping[str, int], at_ns: int, missing: list[str]
) -> tuple[RunningJob, ...]:
    begun = Span(at_ns - LONGEST_RUN_NS, at_ns + 1)
    found = query_lake(
        lake,
        'SELECT job_id, "user", program, nodes, nodes_count, cores, processes, start_ns, end_ns, state FROM jobs'
        f" WHERE start_ns <= {at_ns} AND start_ns > {begun.from_ns} AND (end_ns IS NULL OR end_ns > {at_ns})"
        f" AND {build_day_filter(begun)} ORDER BY start_ns, job_id",
        within=begun,
    )
    accounts = [row for row in found.to_pylist() if is_account_running(row, at_ns)]
    if not accounts:
        told = query_lake(lake, f"SELECT count(*) AS n FROM jobs WHERE {build_day_filter(begun)}", within=begun)["n"][
            0
        ].as_py()
        if not told:
            missing.append("running jobs: no job of the last month is known")
        return ()
    served = _served(lake, [str(row["job_id"]) for row in accounts], at_ns)
    return tuple(_job(row, served, site, nodes) for row in accounts)


def _job(
    row: Mapping[str, Any],
    served: Mapping[tuple[str, str], list[str]],
    site: Site,
    places: Mapping[str, int],
) -> RunningJob:
    job = str(row["job_id"])
    nodes = row["nodes"] or []
    forwarders, targets = (
        {layer.places[name] for name in served.get((job, layer.kind), ()) if name in layer.places}
        for layer in (site.forwarders, site.targets)
    )
    if not served.get((job, "forwarder")):
        own = site.default_forwarder[[places[name] for name in nodes if name in places]]
        forwarders = set(own[own >= 0].tolist())
    return RunningJob(
        job_id=job,
        user=row["user"] or "",
        program=row["program"] or "",
        node_count=int(row["nodes_count"] or len(nodes) or 1),
        cores=float(row["cores"] or 0),
        processes=row["processes"],
        forwarders=tuple(sorted(forwarders)),
        targets=tuple(sorted(targets)),
    )


def _served(lake: Tables, jobs: Sequence[str], at_ns: int) -> dict[tuple[str, str], list[str]]:
    """Forwarders and targets that counted running jobs in the last hours."""
    wide = Span(at_ns - SERVED_NS, at_ns + 1).align_to(HOUR_NS)
    found = query_lake(
        lake,
        f"SELECT DISTINCT job_id, kind, id FROM rollup WHERE interval_ns = {HOUR_NS} AND kind IN"
        " (SELECT unnest($kinds)) AND layer = kind AND job_id IN (SELECT unnest($names))"
        f" AND ts_ns >= {wide.from_ns} AND ts_ns < {wide.to_ns} AND {build_day_filter(wide)}",
        {"kinds": ["forwarder", "target"], "names": list(jobs)},
        within=wide,
    )
    served: dict[tuple[str, str], list[str]] = {}
    for row in found.to_pylist():
        served.setdefault((row["job_id"], row["kind"]), []).append(row["id"])
    return served


def _servers(site: Site) -> Layer:
    """Storage servers, where those of all targets are known: sums of peaks, means of loads."""
    targets, at, n = site.targets, site.server_of, len(site.servers)
    each = np.bincount(at, minlength=n)

    def added(values: F64) -> F64:
        return np.asarray(np.bincount(at, weights=values, minlength=n), np.float64)

    if not n:
        return site.servers
    known = ~np.isnan(targets.load)
    heard = np.bincount(at, weights=known, minlength=n)
    with np.errstate(invalid="ignore", divide="ignore"):
        load = added(np.where(known, targets.load, 0.0)) / np.where(heard > 0, heard, np.nan)
    return replace(
        site.servers,
        bandwidth=added(targets.bandwidth),
        iops=added(targets.iops),
        mdops=added(targets.mdops),
        load=load,
        sick=np.asarray(added(targets.sick.astype(float)) >= each),
        jobs=np.asarray(added(targets.jobs.astype(float)), np.int64),
        occupancy=added(targets.occupancy) / each,
    )


def _some(names: Sequence[str], kind: str) -> str:
    shown = ", ".join(names[:_SHOWN])
    more = len(names) - _SHOWN
    return f"{len(names)} {kind}{'' if len(names) == 1 else 's'}: {shown}" + (f" and {more} more" if more > 0 else "")

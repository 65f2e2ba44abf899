"""The population of months: volumes by core-hours, I/O modes, volumes a day and layer, how busy targets are.

The figures of Beacon (TOS 2023, section 7). Each day is summed up where a worker is and the sums are combined here:
exactly, as they are integers, maxima and counts by bins. Not here: the same of days, on a page (`questions`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.explain.analysis.overview.class_limits import CORE_HOURS, LARGEST, NONTRIVIAL_BYTES
from fairlead.explain.analysis.table_columns import read_integer_column
from fairlead.explain.batch.span_pieces import open_piece_lake, split_span_into_pieces
from fairlead.explain.batch.workers import Workers
from fairlead.explain.questions.answers import Answer, Cdf, LayerDay, Sums
from fairlead.explain.questions.components import SERVED_BY
from fairlead.explain.questions.lake_queries import Tables, build_day_filter, list_query_rows, query_lake
from fairlead.explain.questions.load_distributions import BINS
from fairlead.explain.questions.rollup_sums import VALUES, WHOLE_LAYERS, WHOLE_WORDS
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, MINUTE_NS, Span
from fairlead.explain.questions.timelines import LAYERS

STEPS = 8
"""Steps to a doubling that bandwidths of jobs are counted in: a quantile is told to 9 %."""
LONG_NS = 32 * DAY_NS
"""A longer span is cut into pieces of four days: fewer and larger queries."""
QUANTILES = (0.5, 0.9, 0.99)
_SUMS = ("jobs", "nontrivial", "core_s", "read_known", "write_known", "read_bytes", "write_bytes")
_KEYS = ("class", "read_mode", "write_mode")


class ClassVolume(Answer, frozen=True, kw_only=True):
    """Jobs of one class of core-hours. Averages are over jobs whose volume is known; bandwidths over those that have
    one, the edge (bytes/s) that a share of them is below, by share."""

    core_hours: str | None
    jobs: int
    nontrivial: int
    core_seconds: int | None
    read_bytes: int | None
    write_bytes: int | None
    read_bytes_per_job: float | None
    write_bytes_per_job: float | None
    read_bytes_max: int | None
    write_bytes_max: int | None
    read_bandwidth: dict[str, float]
    write_bandwidth: dict[str, float]


class ModeVolume(Answer, frozen=True, kw_only=True):
    """Jobs of one I/O mode in one direction; `mode` null is unknown."""

    direction: str
    mode: str | None
    jobs: int
    bytes: int | None


class Population(Answer, frozen=True, kw_only=True):
    """What the jobs of a span did, and the machine with them. `jobs` counts those with a summary that
    began in it and have ended."""

    schema: str = "fairlead.population/1"
    from_ns: int
    to_ns: int
    jobs: int
    nontrivial: int
    classes: list[ClassVolume]
    modes: list[ModeVolume]
    layers: list[LayerDay]
    targets: Cdf
    target_quantiles: dict[str, float]
    """Utilisation that targets are at or below in a share of their minutes, by share."""


@dataclass(frozen=True)
class DayJobs:
    """What one day says before it is known how busy the busiest target ever was. Tables are of sums already."""

    jobs: pa.Table
    bandwidths: pa.Table
    layers: pa.Table
    peak: float | None
    targets: frozenset[str]


@dataclass(frozen=True)
class DayTargets:
    """Minutes of targets by half per cent of the peak, and minutes in which agents of servers were well, by server."""

    counts: NDArray[np.int64]
    told: int
    watched: Mapping[str, int]


def compute_population(
    workers: Workers,
    root: str,
    span: Span,
    *,
    memory: str | None = None,
    peak_bytes_per_s: float | None = None,
    done: Callable[[int, int], None] | None = None,
) -> Population:
    """The population of `span`, widened to whole hours. `peak_bytes_per_s`: what a target can do; default: the busiest
    minute of the span. `done` is told pieces done and pieces in all.

    Each day is as of the moment a worker looks at it. Raises LakeError and what workers raise.
    """
    wide = span.align_to(HOUR_NS)
    cut = split_span_into_pieces(wide, DAY_NS if wide.length_ns <= LONG_NS else 4 * DAY_NS)
    count = 0

    def tell(_: object) -> None:
        nonlocal count
        count += 1
        if done is not None:
            done(count, 2 * len(cut))

    firsts: list[DayJobs] = []
    for _, one in workers.run_each(_scan_jobs_of_day, cut, root=root, memory=memory):
        firsts.append(one)
        tell(one)
    peaks = [one.peak for one in firsts if one.peak is not None]
    peak = peak_bytes_per_s if peak_bytes_per_s is not None else max(peaks, default=None)
    names = sorted(frozenset().union(*(one.targets for one in firsts)))
    servers = _list_watching_nodes(open_piece_lake(root, memory), names)
    seconds: list[DayTargets] = []
    for _, two in workers.run_each(_scan_targets_of_day, cut, root=root, memory=memory, peak=peak, servers=servers):
        seconds.append(two)
        tell(two)
    basis = "given" if peak_bytes_per_s is not None else "highest of the span"
    targets, counts = _compute_utilisation_cdf(wide, seconds, len(names), peak, basis)
    jobs = _added([one.jobs for one in firsts], _KEYS, sums=_SUMS, largest=("read_max", "write_max"))
    speeds = _added([one.bandwidths for one in firsts], ("class", "direction", "bin"), sums=("jobs",))
    classes = _compute_volumes_by_core_hours(jobs, speeds)
    return Population(
        from_ns=wide.from_ns,
        to_ns=wide.to_ns,
        jobs=sum(one.jobs for one in classes),
        nontrivial=sum(one.nontrivial for one in classes),
        classes=classes,
        modes=_count_jobs_by_mode(jobs),
        layers=_layers(_added([one.layers for one in firsts], ("date", "layer"), sums=VALUES)),
        targets=targets,
        target_quantiles=_quantiles(counts, [k / BINS for k in range(BINS + 1)]),
    )


def _scan_jobs_of_day(span: Span, *, root: str, memory: str | None) -> DayJobs:
    """One day: jobs, layers, the busiest target and its names. Runs where a worker is."""
    lake = open_piece_lake(root, memory)
    named = query_lake(
        lake,
        f"SELECT DISTINCT id FROM rollup WHERE interval_ns = {HOUR_NS} AND kind = $kind AND layer = $kind"
        f" AND job_id IS NULL AND ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns} AND {build_day_filter(span)}",
        {"kind": "target"},
        within=span,
    )
    highest = query_lake(lake, f"SELECT max(rate) AS peak FROM ({_minutes(span)})", {"kind": "target"}, within=span)
    summed = ", ".join(f"sum({name})::BIGINT AS {name}" for name in VALUES)
    layers = query_lake(
        lake,
        f"SELECT ts_ns // {DAY_NS} AS date, layer, {summed} FROM rollup WHERE interval_ns = {HOUR_NS} AND {_WHOLE}"
        f" AND ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns} AND {build_day_filter(span)} GROUP BY date, layer",
        WHOLE_WORDS,
        within=span,
    )
    return DayJobs(
        jobs=lake.query(_jobs_sql(span)),
        bandwidths=lake.query(_bandwidths_sql(span)),
        layers=layers,
        peak=highest.column("peak")[0].as_py(),
        targets=frozenset(named.column("id").to_pylist()),
    )


_WHOLE = f"job_id IS NULL AND ({WHOLE_LAYERS})"


def _minutes(span: Span) -> str:
    return (
        "SELECT id, ts_ns, sum(coalesce(read_bytes, 0) + coalesce(write_bytes, 0)) / 60.0 AS rate FROM rollup"
        f" WHERE interval_ns = {MINUTE_NS} AND kind = $kind AND layer = $kind AND job_id IS NULL"
        f" AND ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns} AND {build_day_filter(span)} GROUP BY id, ts_ns"
    )


def _class() -> str:
    """SQL of a job's class. Whole core-seconds: sums of them are exact."""
    core_s = "cores * ((end_ns - start_ns) // 1000000000)"
    cases = " ".join(f"WHEN {core_s} <= {edge * 3600} THEN '{name}'" for edge, name in CORE_HOURS)
    return f"CASE WHEN cores IS NULL THEN NULL {cases} ELSE '{LARGEST}' END"


def _begun(span: Span) -> str:
    """Jobs that have ended: of one that runs there is a summary of its part so far."""
    return (
        f"FROM job_summary WHERE start_ns >= {span.from_ns} AND start_ns < {span.to_ns} AND {build_day_filter(span)}"
        " AND end_ns >= start_ns"
    )


def _jobs_sql(span: Span) -> str:
    return (
        f"SELECT {_class()} AS class, read_mode, write_mode, count(*) AS jobs,"
        f" count(*) FILTER (coalesce(read_bytes, 0) + coalesce(write_bytes, 0) > {NONTRIVIAL_BYTES}) AS nontrivial,"
        " sum(cores * ((end_ns - start_ns) // 1000000000))::BIGINT AS core_s,"
        " count(read_bytes) AS read_known, count(write_bytes) AS write_known,"
        " sum(read_bytes)::BIGINT AS read_bytes, sum(write_bytes)::BIGINT AS write_bytes,"
        f" max(read_bytes) AS read_max, max(write_bytes) AS write_max {_begun(span)} GROUP BY ALL"
    )


def _bandwidths_sql(span: Span) -> str:
    parts = [
        f"SELECT {_class()} AS class, '{way}' AS direction,"
        f" floor({STEPS} * log2({way}_bandwidth_bytes_per_s))::INTEGER AS bin, count(*) AS jobs"
        f" {_begun(span)} AND {way}_bandwidth_bytes_per_s > 0 GROUP BY ALL"
        for way in ("read", "write")
    ]
    return " UNION ALL ".join(parts)


def _scan_targets_of_day(
    span: Span, *, root: str, memory: str | None, peak: float | None, servers: Sequence[str]
) -> DayTargets:
    """One day: its minutes of targets by utilisation, and who was watched. Runs where a worker is."""
    lake = open_piece_lake(root, memory)
    scale = BINS / peak if peak else 0.0
    found = query_lake(
        lake,
        f"SELECT least(ceil(rate::FLOAT * $scale::FLOAT), {BINS})::INTEGER AS bin, count(*) AS minutes"
        f" FROM ({_minutes(span)}) GROUP BY bin",
        {"kind": "target", "scale": scale},
        within=span,
    )
    counts = np.zeros(BINS + 1, np.int64)
    counts[read_integer_column(found, "bin")] = read_integer_column(found, "minutes")
    watched = query_lake(
        lake,
        f"SELECT node, count(DISTINCT ts_ns // {MINUTE_NS}) AS minutes FROM health WHERE probe = 'agent'"
        f" AND state = 'ok' AND ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns} AND {build_day_filter(span)}"
        " AND node IN (SELECT unnest($servers)) GROUP BY node",
        {"servers": list(servers)},
        within=span,
    )
    by_node = {row["node"]: int(row["minutes"]) for row in list_query_rows(watched)}
    return DayTargets(counts, int(counts.sum()), by_node)


def _list_watching_nodes(lake: Tables, targets: Sequence[str]) -> list[str]:
    """Nodes whose agents count for targets: their servers, and targets that are named as nodes."""
    found = lake.query(
        "SELECT DISTINCT b FROM mapping WHERE kind IN (SELECT unnest($kinds))", {"kinds": list(SERVED_BY)}
    )
    return sorted({*found.column("b").to_pylist(), *targets})


def _compute_utilisation_cdf(
    span: Span, seconds: Iterable[DayTargets], components: int, peak: float | None, basis: str
) -> tuple[Cdf, NDArray[np.int64]]:
    """How busy targets were (the answer of `questions.load_distributions.build_load_cdf`), and the counts it is made
    of. Minutes without rows count as idle as far as servers were watched."""
    counts = np.zeros(BINS + 1, np.int64)
    told, watched, nodes = 0, 0, set[str]()
    for one in seconds:
        counts += one.counts
        told += one.told
        watched += sum(one.watched.values())
        nodes |= one.watched.keys()
    minutes = span.length_ns // MINUTE_NS
    every = components * minutes
    well = int(every * min(1.0, watched / (len(nodes) * minutes))) if nodes else 0
    idle = max(0, well - told)
    counts[0] += idle
    known = told + idle
    share = np.cumsum(counts) / known if known else np.zeros(BINS + 1)
    answer = Cdf(
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        kind="target",
        peak_bytes_per_s=peak,
        peak_basis=basis,
        components=components,
        minutes=known,
        minutes_unknown=every - known,
        utilisation=np.round(np.arange(BINS + 1) / BINS, 4).tolist(),
        share=np.round(share, 6).tolist(),
        below_1_percent=float(share[round(0.01 * BINS)]) if known else None,
        below_5_percent=float(share[round(0.05 * BINS)]) if known else None,
    )
    return answer, counts


def _added(
    tables: Sequence[pa.Table], keys: Sequence[str], *, sums: Sequence[str], largest: Sequence[str] = ()
) -> pa.Table:
    """Partial sums by `keys` as one row a key. A sum is null where every part is."""
    whole = pa.concat_tables(tables, promote_options="permissive")
    wanted = [*((name, "sum") for name in sums), *((name, "max") for name in largest)]
    found = whole.group_by(list(keys)).aggregate(wanted)
    return found.rename_columns([*keys, *(name for name, _ in wanted)])


def _compute_volumes_by_core_hours(jobs: pa.Table, bandwidths: pa.Table) -> list[ClassVolume]:
    """Volumes by class of core-hours, smallest first; those of unknown class last."""
    by_class = _added([jobs], ("class",), sums=_SUMS, largest=("read_max", "write_max"))
    order = [name for _, name in CORE_HOURS] + [LARGEST, None]
    speeds: dict[tuple[str | None, str], dict[int, int]] = {}
    for row in list_query_rows(bandwidths):
        speeds.setdefault((row["class"], row["direction"]), {})[row["bin"]] = row["jobs"]
    rows = sorted(list_query_rows(by_class), key=lambda row: order.index(row["class"]))
    return [
        ClassVolume(
            core_hours=row["class"],
            jobs=row["jobs"],
            nontrivial=row["nontrivial"],
            core_seconds=row["core_s"],
            read_bytes=row["read_bytes"],
            write_bytes=row["write_bytes"],
            read_bytes_per_job=_mean(row, "read"),
            write_bytes_per_job=_mean(row, "write"),
            read_bytes_max=row["read_max"],
            write_bytes_max=row["write_max"],
            read_bandwidth=_speeds(speeds.get((row["class"], "read"), {})),
            write_bandwidth=_speeds(speeds.get((row["class"], "write"), {})),
        )
        for row in rows
    ]


def _mean(row: Mapping[str, Any], way: str) -> float | None:
    return row[f"{way}_bytes"] / row[f"{way}_known"] if row[f"{way}_known"] else None


def _speeds(bins: Mapping[int, int]) -> dict[str, float]:
    names = sorted(bins)
    return _quantiles(np.array([bins[k] for k in names], np.int64), [2.0 ** ((k + 1) / STEPS) for k in names])


def _quantiles(counts: NDArray[np.int64], edges: Sequence[float]) -> dict[str, float]:
    """Of values counted in bins with these upper edges: the edge below which each share of them lies."""
    total = int(counts.sum())
    if not total:
        return {}
    upto = np.cumsum(counts)
    return {f"{share:g}": edges[int(np.searchsorted(upto, share * total, side="left"))] for share in QUANTILES}


def _count_jobs_by_mode(jobs: pa.Table) -> list[ModeVolume]:
    """Jobs and bytes by I/O mode, most jobs first."""
    found = []
    for way in ("read", "write"):
        for row in list_query_rows(_added([jobs], (f"{way}_mode",), sums=("jobs", f"{way}_bytes"))):
            moved = row[f"{way}_bytes"]
            found.append(ModeVolume(direction=way, mode=row[f"{way}_mode"], jobs=row["jobs"], bytes=moved))
    return sorted(found, key=lambda one: (one.direction, -one.jobs, one.mode or ""))


def _layers(found: pa.Table) -> list[LayerDay]:
    order = {name: k for k, name in enumerate(LAYERS)}
    rows = sorted(list_query_rows(found), key=lambda row: (row["date"], order.get(row["layer"], 99)))
    return [
        LayerDay(
            day=str(np.datetime64(row["date"], "D")),
            layer=row["layer"],
            sums=Sums(**{name: row[name] for name in VALUES}),
        )
        for row in rows
    ]

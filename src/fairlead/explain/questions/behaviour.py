"""How jobs behave: a population in figures, or one user's or program's jobs; what they ask of the machine together.

Figures are made by `fairlead.explain.analysis.overview`. Not here: months at once (`fairlead.explain.batch`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec
import pyarrow as pa

from fairlead.core.model.tables import FINDING
from fairlead.explain.analysis.overview.abnormal_jobs import OF_JOBS, count_abnormal_jobs
from fairlead.explain.analysis.overview.job_population import (
    count_population_by_core_hours,
    count_population_modes,
    get_main_population_mode,
    rank_population_by_volume,
    select_latest_population_jobs,
    summarise_job_population,
    summarise_n_to_one_population,
)
from fairlead.explain.analysis.overview.metadata_load import compute_metadata_load
from fairlead.explain.analysis.overview.request_statistics import compute_request_scatter, compute_request_size_shares
from fairlead.explain.questions import answers_behaviour as lines
from fairlead.explain.questions.answers import Answer
from fairlead.explain.questions.lake_queries import (
    Sight,
    Tables,
    UnknownNameError,
    build_day_filter,
    find_similar_names,
    list_query_rows,
    query_lake,
)
from fairlead.explain.questions.load_distributions import DistributionCache, build_load_cdf, build_load_heat_map
from fairlead.explain.questions.machine import describe_machine
from fairlead.explain.questions.span import DAY_NS, MINUTE_NS, Span

MOST_POINTS = 2000
_HEATED_NS = 2 * DAY_NS
"""The heat map and the distribution of a longer span are of its end: hours of weeks are unreadable."""
_COLUMNS = (
    "cluster",
    "job_id",
    "start_ns",
    "end_ns",
    "user",
    "project",
    "program",
    "cores",
    "processes",
    "nodes_count",
    "read_bytes",
    "write_bytes",
    "read_ops",
    "write_ops",
    "metadata_ops",
    "read_bandwidth_bytes_per_s",
    "write_bandwidth_bytes_per_s",
    "iops",
    "read_mode",
    "write_mode",
    "made_ns",
)
_FINDING = ("id", "rule", "job_id", "category", "cost_s", "made_ns", "analysis_version", "withdrawn")
_L = TypeVar("_L", bound=Answer)


def describe_behaviour(
    lake: Tables,
    span: Span,
    sight: Sight,
    now_ns: int,
    *,
    user: str = "",
    program: str = "",
    project: str = "",
    limit: int = 20,
    kept: DistributionCache | None = None,
    peaks: Mapping[str, float] | None = None,
) -> lines.Behaviour:
    """Jobs that began in the span. Raises UnknownNameError for a user,
    program or project nobody (this reader may see) has run as."""
    chosen = {key: value for key, value in (("user", user), ("program", program), ("project", project)) if value}
    every = _summaries(lake, span, chosen)
    start = every["start_ns"].to_numpy()
    jobs = every.filter(pa.array(start >= span.from_ns))
    if chosen and not jobs.num_rows:
        _unknown(lake, span, chosen)
    points = compute_request_scatter(jobs)
    causes, missing = _causes(lake, span, jobs)
    if not jobs.num_rows:
        missing.insert(0, "summaries: none for jobs that began in this time")
    answer = lines.Behaviour(
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        user=user or None,
        program=program or None,
        project=project or None,
        **list_query_rows(summarise_job_population(jobs))[0],
        modes=_lines(count_population_modes(jobs), lines.ModeLine),
        core_hours=_lines(count_population_by_core_hours(jobs), lines.ClassLine),
        requests=_lines(compute_request_size_shares(jobs), lines.RequestLine),
        n_to_one=_lines(summarise_n_to_one_population(jobs), lines.SharedLine),
        users=_lines(rank_population_by_volume(every, "user", span.from_ns, span.to_ns, limit), lines.RankLine),
        programs=_lines(rank_population_by_volume(every, "program", span.from_ns, span.to_ns, limit), lines.RankLine),
        points=_lines(_thinned(points), lines.RatePoint),
        points_of=points.num_rows,
        causes=_lines(causes, lines.CauseLine),
        runs=_runs(jobs, limit),
        missing=missing,
        hidden=not sight.everything,
    )
    # What the machine did as a whole is not told to who sees only some jobs of it.
    return (
        answer
        if chosen or not sight.everything
        else _machine(lake, span, sight, now_ns, kept or DistributionCache(), peaks or {}, answer)
    )


def _lines(table: pa.Table, kind: type[_L]) -> list[_L]:
    return msgspec.convert(list_query_rows(table), list[kind])  # type: ignore[valid-type]


def _summaries(lake: Tables, span: Span, chosen: Mapping[str, str]) -> pa.Table:
    """The last summary of each job that began in the span or in the equally long time before."""
    wide = Span(2 * span.from_ns - span.to_ns, span.to_ns)
    where, words = _whose(chosen)
    found = query_lake(
        lake,
        f"SELECT {_names(_COLUMNS)} FROM job_summary WHERE start_ns >= {wide.from_ns} AND start_ns < {wide.to_ns}"
        f" AND {build_day_filter(wide)}{where}",
        words,
        within=wide,
        began=wide,
    )
    return select_latest_population_jobs(found)


def _names(columns: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _whose(chosen: Mapping[str, str]) -> tuple[str, dict[str, object]]:
    where = "".join(f' AND "{key}" = $c_{key}' for key in chosen)
    words: dict[str, object] = {f"c_{key}": value for key, value in chosen.items()}
    return where, words


def _unknown(lake: Tables, span: Span, chosen: Mapping[str, str]) -> None:
    """Raises UnknownNameError when a name is nobody's in the span; names that never met are no error."""
    where, words = "", dict[str, object]()
    for key, value in chosen.items():
        found = query_lake(
            lake,
            f'SELECT DISTINCT "{key}" AS name FROM job_summary WHERE start_ns >= {span.from_ns}'
            f' AND start_ns < {span.to_ns} AND {build_day_filter(span)} AND "{key}" IS NOT NULL{where}',
            words,
            within=span,
            began=span,
        )
        known = sorted(found["name"].to_pylist())
        if value not in known:
            raise UnknownNameError(key, value, find_similar_names(value, known))


def _thinned(points: pa.Table) -> pa.Table:
    """At most `MOST_POINTS` rows, evenly chosen."""
    step = -(-points.num_rows // MOST_POINTS)
    return points.take(pa.array(range(0, points.num_rows, step), pa.int64())) if step > 1 else points


def _runs(jobs: pa.Table, limit: int) -> list[lines.RunLine]:
    """The last runs, in the order they began."""
    last = jobs.sort_by([("start_ns", "ascending"), ("job_id", "ascending")])
    last = last.slice(max(0, last.num_rows - limit))
    names = [name for name in lines.RunLine.__struct_fields__ if name not in ("seconds", "mode")]
    found = []
    for row, mode in zip(list_query_rows(last), get_main_population_mode(last).to_pylist(), strict=True):
        seconds = None if row["end_ns"] is None else (row["end_ns"] - row["start_ns"]) / 1e9
        found.append(lines.RunLine(**{name: row[name] for name in names}, seconds=seconds, mode=mode))
    return found


def _causes(lake: Tables, span: Span, jobs: pa.Table) -> tuple[pa.Table, list[str]]:
    """Abnormal jobs by cause; nothing, and why, where no phase of these jobs was judged."""
    nothing = count_abnormal_jobs(FINDING.schema.empty_table(), jobs).slice(0, 0)
    judged = query_lake(
        lake,
        f"SELECT DISTINCT job_id FROM phase WHERE start_ns >= {span.from_ns} AND start_ns < {span.to_ns}"
        f" AND {build_day_filter(span)} AND expected_s IS NOT NULL",
        within=span,
        began=span,
    )["job_id"].to_pylist()
    if not set(judged) & set(jobs["job_id"].to_pylist()):
        return nothing, ["abnormal jobs: no phase was assessed in this time"]
    found = query_lake(
        lake,
        f"SELECT {_names(_FINDING)} FROM (SELECT *, max(analysis_version) OVER (PARTITION BY from_ns // {DAY_NS})"
        f" AS newest FROM finding WHERE from_ns >= {span.from_ns} AND from_ns < {span.to_ns} AND"
        f" {build_day_filter(span)})"
        " WHERE analysis_version = newest AND rule IN (SELECT unnest($rules)) AND job_id IS NOT NULL",
        {"rules": list(OF_JOBS)},
        within=span,
        began=span,
    )
    return count_abnormal_jobs(found, jobs), []


def _machine(
    lake: Tables,
    span: Span,
    sight: Sight,
    now_ns: int,
    kept: DistributionCache,
    peaks: Mapping[str, float],
    answer: lines.Behaviour,
) -> lines.Behaviour:
    """The same with how busy the machine was."""
    end = Span(max(span.from_ns, span.to_ns - _HEATED_NS), span.to_ns)
    busy = build_load_cdf(lake, end, kept, now_ns, peak_bytes_per_s=peaks.get("target"))
    heat = build_load_heat_map(lake, end, kept, now_ns, peak_bytes_per_s=peaks.get("forwarder"))
    above, missing = None, list(answer.missing)
    if "mds" in peaks:
        above = _metadata(lake, end, peaks["mds"])
    else:
        missing.append("metadata load: the peak of a metadata server (site file: mdops)")
    return msgspec.structs.replace(
        answer,
        layers=describe_machine(lake, span, sight, now_ns, points=10).layers,
        targets=busy if busy.components else None,
        forwarders=heat if heat.rows else None,
        metadata_above_75_percent=above,
        missing=missing,
    )


def _metadata(lake: Tables, span: Span, peak: float) -> float | None:
    rows = query_lake(
        lake,
        "SELECT kind, id, layer, job_id, ts_ns, interval_ns, read_bytes, write_bytes, metadata_ops FROM rollup"
        f" WHERE interval_ns = {MINUTE_NS} AND kind = $kind AND layer = $layer AND job_id IS NULL"
        f" AND ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns} AND {build_day_filter(span)}",
        {"kind": "mds", "layer": "metadata"},
        within=span,
    )
    share: float | None = compute_metadata_load(rows, peak, edges=(0.75,))["share_above"][0].as_py()
    return share

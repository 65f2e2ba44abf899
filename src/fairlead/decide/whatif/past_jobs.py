"""A site's past as the lake has it, in the columns `sim.workloads.history` takes: jobs, their phases, who served them.

Not here: cleaning it (`sim.workloads.history.drop_unsound_history`), what the machine is (`site`).
"""
# ruff: noqa: S608  (names of columns are ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.errors import UsageError
from fairlead.core.model.tables import MAPPING
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.decide.sim.workloads.history import MODES, Bursts, Runs
from fairlead.explain.analysis.node_intervals import FORWARDED, Intervals, build_node_intervals
from fairlead.explain.analysis.overview.job_population import get_main_population_mode, select_latest_population_jobs
from fairlead.explain.analysis.table_columns import (
    combine_column_codes,
    read_code_column,
    read_float_column,
    read_integer_column,
    read_job_code_columns,
)
from fairlead.explain.questions.lake_queries import Tables, build_day_filter, query_lake
from fairlead.explain.questions.past_phases import LATEST
from fairlead.explain.questions.span import Span
from fairlead.store.stored_tables import conform_stored_table

_SUMMARY = (
    "cluster",
    "job_id",
    "start_ns",
    "end_ns",
    "user",
    "project",
    "program",
    "nodes_count",
    "cores",
    "processes",
    "io_processes",
    "io_nodes",
    "read_bytes",
    "write_bytes",
    "read_mode",
    "write_mode",
    "forwarders",
    "targets",
    "basis",
    "made_ns",
)
_PHASE = (
    "cluster",
    "job_id",
    "job_start_ns",
    "number",
    "kind",
    "start_ns",
    "end_ns",
    "active_ns",
    "bytes",
    "metadata_ops",
    "request_bytes",
    "made_ns",
)
KINDS = ("read", "write", "metadata")
Names = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Past:
    """J jobs that began and ended in a span, with what was recorded of them. Seconds count from `origin_ns`.

    By job: `job_id`, `user`, `program` as written (None: not known), `forwarders` and `targets` that served it (empty:
    not known), `nodes` by name (empty: not known). `routes`: which forwarder served a node when.
    """

    origin_ns: int
    runs: Runs
    bursts: Bursts
    job_id: list[str]
    user: list[str | None]
    program: list[str | None]
    forwarders: list[Names]
    targets: list[Names]
    nodes: list[Names]
    node_names: Names
    routes: Intervals
    running: int

    def find_mapped(self, rows: Sequence[int], at_ns: int | None = None) -> list[Names]:
        """Forwarders that the site's map gives the nodes of these jobs, as it is `at_ns` (None: when each began)."""
        counts = np.array([len(self.nodes[row]) for row in rows], np.int64)
        if not counts.sum() or not len(self.routes.a):
            return [()] * len(rows)
        begun = np.round(self.runs.start_s[np.asarray(rows, np.int64)] * NS_PER_S).astype(np.int64) + self.origin_ns
        when = np.repeat(begun, counts) if at_ns is None else np.full(int(counts.sum()), at_ns, np.int64)
        every = self.routes.look_up(pa.array([name for row in rows for name in self.nodes[row]]), when).to_pylist()
        ends = np.cumsum(counts)
        parts = (every[end - count : end] for end, count in zip(ends.tolist(), counts.tolist(), strict=True))
        return [tuple(dict.fromkeys(name for name in part if name is not None)) for part in parts]


def read_past_jobs(lake: Tables, span: Span) -> Past:
    """What the lake knows of jobs that began in the span and have ended. Raises UsageError where there is none, naming
    what is missing; LakeError."""
    every = _summaries(lake, span)
    ended = every.filter(every["end_ns"].is_valid())
    if not ended.num_rows:
        raise _nothing(lake, span, every.num_rows)
    phases = _phases(lake, span)
    nodes = _nodes(lake, span, ended)
    routes = _routes(lake, span)
    node_names = tuple(sorted({*(name for some in nodes for name in some), *routes.a.unique().to_pylist()}))
    place = {name: i for i, name in enumerate(node_names)}
    forwarders, targets = (_lists(ended[name]) for name in ("forwarders", "targets"))
    origin = int(pc.min(ended["start_ns"]).as_py())
    return Past(
        origin_ns=origin,
        runs=_runs(ended, origin, forwarders, targets, nodes, place),
        bursts=_bursts(ended, phases, origin),
        job_id=ended["job_id"].to_pylist(),
        user=ended["user"].to_pylist(),
        program=ended["program"].to_pylist(),
        forwarders=forwarders,
        targets=targets,
        nodes=nodes,
        node_names=node_names,
        routes=routes,
        running=every.num_rows - ended.num_rows,
    )


def _summaries(lake: Tables, span: Span) -> pa.Table:
    chosen = ", ".join(f'"{name}"' for name in _SUMMARY)
    return select_latest_population_jobs(
        query_lake(
            lake,
            f"SELECT {chosen} FROM job_summary WHERE start_ns >= {span.from_ns} AND start_ns < {span.to_ns}"
            f" AND {build_day_filter(span)}",
            within=span,
        )
    )


def _phases(lake: Tables, span: Span) -> pa.Table:
    """Phases of jobs that began in the span; they themselves may lie behind it."""
    chosen = ", ".join(f'"{name}"' for name in _PHASE)
    return query_lake(
        lake,
        f"SELECT {chosen} FROM phase WHERE job_start_ns >= {span.from_ns} AND job_start_ns < {span.to_ns}"
        f" QUALIFY {LATEST} ORDER BY cluster, job_id, job_start_ns, start_ns, kind, number",
    )


def _nodes(lake: Tables, span: Span, ended: pa.Table) -> list[Names]:
    found = query_lake(
        lake,
        f"SELECT cluster, job_id, start_ns, nodes FROM jobs WHERE start_ns >= {span.from_ns}"
        f" AND start_ns < {span.to_ns} AND {build_day_filter(span)} AND nodes IS NOT NULL",
        within=span,
    )
    keys = zip(found["cluster"].to_pylist(), found["job_id"].to_pylist(), found["start_ns"].to_pylist(), strict=True)
    by = dict(zip(keys, found["nodes"].to_pylist(), strict=True))
    mine = zip(ended["cluster"].to_pylist(), ended["job_id"].to_pylist(), ended["start_ns"].to_pylist(), strict=True)
    return [tuple(name for name in by.get(key) or () if name) for key in mine]


def _routes(lake: Tables, span: Span) -> Intervals:
    found = query_lake(
        lake,
        "SELECT * EXCLUDE (day) FROM mapping WHERE kind IN (SELECT unnest($kinds))"
        f" AND from_ns < {span.to_ns} AND (to_ns IS NULL OR to_ns > {span.from_ns})",
        {"kinds": list(FORWARDED)},
    )
    return build_node_intervals(conform_stored_table(found, MAPPING, strict=True))


def _runs(
    ended: pa.Table,
    origin: int,
    forwarders: Sequence[Names],
    targets: Sequence[Names],
    nodes: Sequence[Names],
    place: dict[str, int],
) -> Runs:
    user, program = read_code_column(ended, "user"), read_code_column(ended, "program")
    own = np.where((user >= 0) & (program >= 0), combine_column_codes([user, program]), -1)
    mode = get_main_population_mode(ended).to_pylist()
    processes = read_float_column(ended, "io_processes")
    return Runs(
        start_s=_seconds(ended, "start_ns", origin),
        end_s=_seconds(ended, "end_ns", origin),
        nodes=read_float_column(ended, "nodes_count"),
        cores=read_float_column(ended, "cores"),
        io_nodes=read_float_column(ended, "io_nodes"),
        io_processes=np.where(np.isnan(processes), read_float_column(ended, "processes"), processes),
        first_node=np.array([_first(some, place) for some in nodes], np.int64),
        program=own,
        mode=np.array([MODES.index(word) if word in MODES else -1 for word in mode], np.int64),
        forwarders=_counts(forwarders),
        targets=_counts(targets),
        recorded=np.asarray(ended["basis"].is_valid().to_numpy(zero_copy_only=False), np.bool_),
    )


def _bursts(ended: pa.Table, phases: pa.Table, origin: int) -> Bursts:
    who = pa.concat_tables([_who(ended, "start_ns"), _who(phases, "job_start_ns")])
    job = read_job_code_columns(who)
    row = np.full(int(job.max()) + 1, -1, np.int64)
    row[job[: ended.num_rows]] = np.arange(ended.num_rows)
    kind = phases["kind"].cast(pa.string()).to_pylist()
    metadata = np.array([word == "metadata" for word in kind], np.bool_)
    return Bursts(
        job=row[job[ended.num_rows :]],
        kind=np.array([_kind(word) for word in kind], np.int64),
        start_s=_seconds(phases, "start_ns", origin),
        end_s=_seconds(phases, "end_ns", origin),
        active_s=read_float_column(phases, "active_ns") / NS_PER_S,
        amount=np.where(metadata, read_float_column(phases, "metadata_ops"), read_float_column(phases, "bytes")),
        request_bytes=read_float_column(phases, "request_bytes"),
    )


def _kind(word: str) -> int:
    return KINDS.index(word) if word in KINDS else 0


def _who(table: pa.Table, began: str) -> pa.Table:
    columns = {name: table[name].cast(pa.string()) for name in ("cluster", "job_id")}
    return pa.table(columns | {"job_start_ns": table[began]})


def _seconds(table: pa.Table, name: str, origin: int) -> np.ndarray:
    known = np.asarray(table[name].is_valid().to_numpy(zero_copy_only=False))
    return np.where(known, (read_integer_column(table, name, origin) - origin) / NS_PER_S, np.nan)


def _lists(column: pa.ChunkedArray) -> list[Names]:
    return [tuple(name for name in some or () if name) for some in column.to_pylist()]


def _counts(lists: Sequence[Names]) -> np.ndarray:
    return np.array([len(some) if some else np.nan for some in lists], np.float64)


def _first(nodes: Names, place: dict[str, int]) -> int:
    """The first of nodes that are in a row; -1 where they are not, or not known."""
    if not nodes:
        return -1
    at = sorted(place[name] for name in nodes)
    return at[0] if at[-1] - at[0] == len(at) - 1 else -1


def _nothing(lake: Tables, span: Span, running: int) -> UsageError:
    """Why there is nothing to replay: what lies in the lake, and what does not."""
    [known] = query_lake(
        lake,
        "SELECT (SELECT count(*) FROM jobs) AS jobs, (SELECT count(*) FROM job_summary) AS summaries,"
        " (SELECT count(*) FROM phase) AS phases, (SELECT count(*) FROM jobs WHERE start_ns >= $a AND start_ns < $b)"
        " AS here",
        {"a": span.from_ns, "b": span.to_ns},
    ).to_pylist()
    time, ask = "no job began in this time", "ask for another time: --since, --until (fairlead lake info shows which)"
    feed = "feed the scheduler's accounting: fairlead ingest, or [feeds] of fairlead up"
    if not known["jobs"]:
        return UsageError("the history is empty: the lake has no jobs", where="jobs", remedy=feed)
    if not known["here"]:
        return UsageError(f"{time}; the lake has {known['jobs']:,} of other times", where="jobs", remedy=ask)
    if running:
        what = f"none of the {running:,} jobs of this time has ended"
        return UsageError(what, where="jobs", remedy="ask for an earlier time, or feed the ends of jobs")
    return UsageError(
        f"{known['here']:,} jobs began in this time, but none has a summary of its I/O",
        where="job_summary",
        remedy="let the analysis run: fairlead up does, or fairlead history summarise",
    )

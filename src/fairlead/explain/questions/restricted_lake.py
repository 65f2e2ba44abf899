"""The lake as one reader may see it: a table's name in a query stands for the rows that are his, or of what his jobs
used while they did. A table nothing is said of here is empty. Not here: where that was (`look_up_visible_reach`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Mapping
from copy import copy
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.errors import UsageError
from fairlead.explain.questions.lake_queries import Sight, Tables, build_day_filter, query_lake
from fairlead.explain.questions.load_distributions import DistributionCache
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, INTERVALS, MINUTE_NS, SECOND_NS, Span
from fairlead.explain.questions.visible_lake import NarrowLake, Reach, build_visible_jobs_condition
from fairlead.explain.questions.visible_reach import look_up_visible_reach
from fairlead.store.query import find_query_tables
from fairlead.store.stored_tables import OPS_STORED

FRESH_NS = 20 * SECOND_NS
"""So long a reach is kept: a job that just began is seen on its nodes by then."""
_SLACK_NS = MINUTE_NS
_ALL = Span(0, 2**62)
_AROUND_NS = DAY_NS
"""A reach is looked for with so much around the span: what a question asks next lies in it, mostly."""
_STEP = re.compile(r"\binterval_ns = (\d+)\b")
_NAMED = re.compile(r"\$(\w+)")


class RestrictedLake(NarrowLake):
    """The lake for one reader, while one question is answered. As a `Lake` it is asked with `query`."""

    def __init__(self, lake: Tables, sight: Sight, kept: DistributionCache, now_ns: int) -> None:
        self.whole = lake
        self.sight = sight
        self._kept = kept
        self._now_ns = now_ns
        self._reached: list[tuple[Span, Reach]] = []
        self._about: Span | None = None

    def narrow_to_span(self, span: Span) -> RestrictedLake:
        """The same, for queries that do not say which time they are about."""
        made = copy(self)
        made._about = span
        return made

    def reach(self, span: Span | None = None) -> Reach:
        """What is seen, of jobs that ran in the span (of all)."""
        wide = _ALL if span is None else Span(span.from_ns - _AROUND_NS, span.to_ns + _AROUND_NS).align_to(HOUR_NS)
        asked = wide if span is None else Span(span.from_ns - HOUR_NS, span.to_ns + HOUR_NS)
        for known, reach in self._reached:
            if known.from_ns <= asked.from_ns and known.to_ns >= asked.to_ns:
                return reach
        key = ("reach", wide.from_ns, wide.to_ns)
        held = self._kept.get(key, self._now_ns)
        if held is None or not 0 <= self._now_ns - held[0] <= FRESH_NS:
            held = (self._now_ns, look_up_visible_reach(self.whole, self.sight, None if span is None else wide))
            self._kept.put(key, held, self._now_ns)
        self._reached.append((wide, held[1]))
        return held[1]  # type: ignore[no-any-return]

    def query(
        self,
        sql: str,
        parameters: Mapping[str, object] | None = None,
        *,
        between: tuple[int, int] | None = None,
        began: tuple[int, int] | None = None,
        numbers: Collection[str] | None = None,
        tables: Mapping[str, pa.Table] | None = None,
    ) -> pa.Table:
        """The rows of one SELECT, of what may be seen. Raises UsageError, LakeError."""
        if OPS_STORED in sql:
            raise UsageError(
                "this table is not available to users who see only their own jobs", remedy="use the table `ops`"
            )
        shown = _VisibleRows(self, self._about or (None if between is None else Span(*between)), _steps_of(sql))
        ahead = shown.tables(find_query_tables(sql))
        if ahead:
            begun = sql.lstrip()
            with_own = begun[:5].upper() == "WITH "
            sql = f"WITH {', '.join(ahead)}{', ' + begun[5:] if with_own else ' ' + begun}"
        named = set(_NAMED.findall(sql))
        words = {**(parameters or {}), **{name: value for name, value in shown.words.items() if name in named}}
        return query_lake(
            self.whole,
            sql,
            words,
            within=None if between is None else Span(*between),
            began=None if began is None else Span(*began),
            numbers=numbers,
            tables={**(tables or {}), **shown.given},
        )


class KeptFor(DistributionCache):
    """What one reader's questions keep, beside that of others."""

    def __init__(self, kept: DistributionCache, sight: Sight) -> None:
        super().__init__()
        self._shared, self._sight = kept, sight

    def get(self, key: Hashable, now_ns: int) -> Any:
        """The value, None when there is none or it is too old."""
        return self._shared.get((self._sight, key), now_ns)

    def put(self, key: Hashable, value: Any, now_ns: int) -> None:
        """Keeps a value."""
        self._shared.put((self._sight, key), value, now_ns)


class _VisibleRows:
    """The common table expressions that stand before one query, and their parameters."""

    def __init__(self, lake: RestrictedLake, span: Span | None, steps: set[int]) -> None:
        self._lake, self._span = lake, span
        self.steps = steps
        """Intervals of the rollup the query may read."""
        self.words: dict[str, object] = {}
        self.given: dict[str, pa.Table] = {}
        """Tables of what is reached."""

    def tables(self, names: list[str]) -> list[str]:
        """One for each table, in an order in which each finds what it is made of."""
        wanted = set(names) | ({"ops", "file_counters"} if "files" in names else set())
        return [
            f"{name} AS NOT MATERIALIZED ({_TABLES.get(name, _nothing)(self, name)})"
            for name in sorted(wanted, key=lambda one: one == "files")
        ]

    def jobs(self, start: str = "start_ns") -> str:
        """The condition that a row with user and project (cluster, number, start) is of a job that may be seen."""
        condition, words = build_visible_jobs_condition(self._lake.sight, start=start)
        self.words |= words
        return f"coalesce({condition}, false)"

    def word(self, value: object, name: str) -> str:
        """A parameter of ours."""
        self.words[f"r_{name}"] = value
        return f"$r_{name}"

    def runs(self) -> str:
        """A table of the jobs: c, j, a, z."""
        if "r_runs" not in self.given:
            runs = self._lake.reach(self._span).runs
            self.given["r_runs"] = _table({name: [run[k] for run in runs] for k, name in enumerate("cjaz")})
        return "r_runs"

    def reached(self) -> str:
        """A table of the reach: k, i, a, z."""
        if "r_seen" not in self.given:
            self.given["r_seen"] = _reach_table(*self._within())
        return "r_seen"

    def edges(self, step_ns: int) -> str:
        """The same of the stretches at ends of the reach that fill no whole step."""
        name = f"r_edge_{step_ns // SECOND_NS}"
        if name not in self.given:
            kinds, ids, begins, ends = self._within()
            if step_ns == HOUR_NS:
                begins, ends = -(-begins // MINUTE_NS) * MINUTE_NS, ends // MINUTE_NS * MINUTE_NS
                some = ends > begins
                kinds, ids, begins, ends = kinds[some], ids[some], begins[some], ends[some]
            at, begins, ends = find_restricted_steps(begins, ends, step_ns)
            self.given[name] = _reach_table(kinds[at], ids[at], begins, ends)
        return name

    def _within(self) -> tuple[NDArray[np.object_], NDArray[np.object_], NDArray[np.int64], NDArray[np.int64]]:
        found = self._lake.reach(self._span)
        if self._span is None:
            return found.kinds, found.ids, found.from_ns, found.to_ns
        near = (found.from_ns < self._span.to_ns + HOUR_NS) & (found.to_ns > self._span.from_ns - HOUR_NS)
        return found.kinds[near], found.ids[near], found.from_ns[near], found.to_ns[near]

    def hull(self, time: str, margin_ns: int = HOUR_NS) -> str:
        """The condition that a row lies in the span that is asked about, or close to it."""
        if self._span is None:
            return "true"
        wide = Span(self._span.from_ns - margin_ns, self._span.to_ns + margin_ns)
        return (
            f"{time} >= {wide.from_ns} AND {time} < {wide.to_ns} AND"
            f" {build_day_filter(Span(max(0, wide.from_ns), wide.to_ns))}"
        )


def _reach_table(kinds: Any, ids: Any, begins: Any, ends: Any) -> pa.Table:
    return _table({"k": kinds, "i": ids, "a": begins, "z": ends})


def _table(columns: Mapping[str, Any]) -> pa.Table:
    """Words, but for times (`a`, `z`)."""
    return pa.table(
        {name: pa.array(values, pa.int64() if name in "az" else pa.string()) for name, values in columns.items()}
    )


def _steps_of(sql: str) -> set[int]:
    told = {int(step) for step in _STEP.findall(sql)}
    return told if told and len(_STEP.findall(sql)) == sql.count("interval_ns =") else set(INTERVALS)


def find_restricted_steps(
    begins: NDArray[np.int64], ends: NDArray[np.int64], step_ns: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of each stretch what fills no whole step: at most one piece at either end. Which stretch, from, to."""
    first, last = -(-begins // step_ns) * step_ns, ends // step_ns * step_ns
    within = first > last  # begins and ends in the same step
    heads = np.flatnonzero(begins < np.where(within, ends, first))
    tails = np.flatnonzero(~within & (last < ends))
    at = np.concatenate([heads, tails])
    return (
        at,
        np.concatenate([begins[heads], last[tails]]),
        np.concatenate([np.where(within, ends, first)[heads], ends[tails]]),
    )


def _nothing(shown: _VisibleRows, name: str) -> str:  # noqa: ARG001
    return f"SELECT * FROM {name} WHERE false"


def _of_jobs(start: str = "start_ns") -> Callable[[_VisibleRows, str], str]:
    return lambda shown, name: f"SELECT * FROM {name} WHERE {shown.jobs(start)}"


def _profile(shown: _VisibleRows, name: str) -> str:
    user = shown.word(shown._lake.sight.user, "owner")
    return f"SELECT * FROM {name} WHERE \"user\" = {user} AND {user} <> ''"


def _rollup(shown: _VisibleRows, name: str) -> str:
    job, node = shown.word("job", "w_job"), shown.word("node", "w_node")
    device = shown.word("device", "w_device")
    key = (
        f"CASE WHEN t.kind = {job} OR t.job_id IS NOT NULL THEN {job} WHEN t.kind = {device} THEN {node}"
        " ELSE t.kind END"
    )
    which = (
        f"CASE WHEN t.kind = {job} THEN t.id WHEN t.job_id IS NOT NULL THEN t.job_id WHEN t.kind = {device}"
        " THEN split_part(split_part(t.id, '/', 1), ':', 1) ELSE t.id END"
    )
    inside = "t.ts_ns >= r.a AND t.ts_ns + t.interval_ns <= r.z"
    parts = [f"SELECT t.* FROM {name} t JOIN {shown.reached()} r ON r.k = {key} AND r.i = {which} AND {inside}"]
    # Rows that lie only partly in such a time are made again of finer ones.
    for fine, coarse, edge in (
        (MINUTE_NS, HOUR_NS, HOUR_NS),
        (SECOND_NS, MINUTE_NS, MINUTE_NS),
        (SECOND_NS, HOUR_NS, MINUTE_NS),
    ):
        if coarse not in shown.steps:
            continue
        parts.append(
            f"SELECT t.* REPLACE (t.ts_ns // {coarse} * {coarse} AS ts_ns, {coarse}::BIGINT AS interval_ns)"
            f" FROM {name} t JOIN {shown.edges(edge)} r ON r.k = {key} AND r.i = {which} AND t.ts_ns >= r.a"
            f" AND t.ts_ns < r.z WHERE t.interval_ns = {fine} AND {shown.hull('t.ts_ns')}"
        )
    return " UNION ALL ".join(parts)


def _counted_by_job(time: str) -> Callable[[_VisibleRows, str], str]:
    """Rows that name a job; those without a time where no other job ever had its number."""

    def rows(shown: _VisibleRows, name: str) -> str:
        common = shown.word(sorted(shown._lake.reach(shown._span).common), "common")
        job = shown.word("job", "w_job")
        untimed = (
            f"{time} IS NULL AND t.job_id NOT IN (SELECT unnest({common}::VARCHAR[]))"
            if time
            else (f"t.job_id NOT IN (SELECT unnest({common}::VARCHAR[]))")
        )
        timed = f" OR {time} >= r.a AND {time} < r.z" if time else ""
        return (
            f"SELECT t.* FROM {name} t WHERE EXISTS (SELECT 1 FROM {shown.reached()} r WHERE r.k = {job}"
            f" AND r.i = t.job_id AND ({untimed}{timed}))"
        )

    return rows


def _files(shown: _VisibleRows, name: str) -> str:  # noqa: ARG001
    return (
        f"SELECT t.* FROM {name} t WHERE t.file_id IN (SELECT file_id FROM file_counters"
        " UNION SELECT file_id FROM ops WHERE file_id IS NOT NULL)"
    )


def _samples(kind: str, column: str, *, more: str = "true") -> Callable[[_VisibleRows, str], str]:
    """Rows of a component's counters: whole ones while it is seen, parts by job of jobs that are seen. A row is of the
    interval that ends at its time."""

    def rows(shown: _VisibleRows, name: str) -> str:
        job, of = shown.word("job", "w_job"), shown.word(kind, f"w_{kind}")
        has_job = name not in ("port", "device")
        of_job = f"CASE WHEN t.job_id IS NOT NULL THEN {job} ELSE {of} END" if has_job else of
        which = f"CASE WHEN t.job_id IS NOT NULL THEN t.job_id ELSE {column} END" if has_job else column
        whole = f"(t.job_id IS NOT NULL OR {more})" if has_job else more
        return (
            f"SELECT t.* FROM {name} t WHERE {whole} AND EXISTS (SELECT 1 FROM {shown.reached()} r WHERE r.k = {of_job}"
            f" AND r.i = {which} AND t.ts_ns - coalesce(t.interval_ns, 0) >= r.a AND t.ts_ns <= r.z)"
        )

    return rows


def _health(shown: _VisibleRows, name: str) -> str:
    source = shown.word("source", "w_source")
    return (
        f"SELECT t.* FROM {name} t WHERE EXISTS (SELECT 1 FROM {shown.reached()} r WHERE r.k = {source}"
        " AND r.i = t.node AND t.ts_ns >= r.a AND t.ts_ns <= r.z)"
    )


def _lasting(column: str, begin: str, end: str, texts: str = "") -> Callable[[_VisibleRows, str], str]:
    """Rows about a component that were true at some time at which it is seen."""

    def rows(shown: _VisibleRows, name: str) -> str:
        known = shown.word("any", "w_any")
        of = f"r.i IN ({column}, split_part(split_part({column}, '/', 1), ':', 1))"
        return (
            f"SELECT t.*{texts} FROM {name} t WHERE EXISTS (SELECT 1 FROM {shown.reached()} r WHERE r.k = {known}"
            f" AND {of} AND {begin} < r.z AND coalesce({end}, {2**62}) >= r.a)"
        )

    return rows


def _events(shown: _VisibleRows, name: str) -> str:
    """Without what logs wrote: it may name others."""
    gap = shown.word("gap", "w_gap")
    texts = f" REPLACE (CASE WHEN t.kind = {gap} THEN t.text ELSE '' END AS text)"
    return _lasting("t.component", "t.ts_ns", "coalesce(t.end_ns, t.ts_ns)", texts)(shown, name)


def _usage(shown: _VisibleRows, name: str) -> str:
    """When was told of a target is true for everybody; of whom, and how much, only of the reader and the projects."""
    sight = shown._lake.sight
    user, projects = shown.word(sight.user, "owner"), shown.word(list(sight.projects), "owned")
    kinds = {kind: shown.word(kind, f"w_{kind}") for kind in ("user", "project")}
    own = (
        f"(t.owner_kind = {kinds['user']} AND t.owner = {user} AND {user} <> '' OR t.owner_kind = {kinds['project']}"
        f" AND t.owner IN (SELECT unnest({projects}::VARCHAR[])))"
    )
    hidden = ", ".join(f"CASE WHEN {own} THEN t.{column} END AS {column}" for column in ("limit_bytes", "inodes_limit"))
    held = f"CASE WHEN {own} THEN t.{{0}} WHEN t.{{0}} IS NOT NULL THEN 0 END AS {{0}}"
    return (
        f"SELECT DISTINCT t.* REPLACE (CASE WHEN {own} THEN t.owner ELSE '' END AS owner,"
        f" CASE WHEN {own} THEN t.owner_kind ELSE '' END AS owner_kind, {held.format('used_bytes')},"
        f" {held.format('inodes_used')}, {hidden}) FROM {name} t"
    )


def _finding(shown: _VisibleRows, name: str) -> str:
    sight = shown._lake.sight
    user, job = shown.word(sight.user, "owner"), shown.word("job", "w_job")
    known = shown.word("any", "w_any")
    own = (
        f"(t.\"user\" = {user} AND {user} <> '') OR EXISTS (SELECT 1 FROM {shown.runs()} o WHERE o.j = t.job_id"
        f" AND o.c IS NOT DISTINCT FROM t.cluster AND t.from_ns >= o.a - {_SLACK_NS}"
        f" AND t.from_ns <= o.z + {_SLACK_NS})"
    )
    place = "r.i IN (t.subject_id, split_part(split_part(t.subject_id, '/', 1), ':', 1))"
    of_place = (
        f"EXISTS (SELECT 1 FROM {shown.reached()} r WHERE r.k = {known} AND {place} AND t.from_ns < r.z"
        f" AND coalesce(t.to_ns, {2**62}) >= r.a)"
    )
    if sight.only is not None:
        of_place = "false"
    return (
        f"SELECT t.* FROM {name} t WHERE (t.job_id IS NOT NULL AND ({own}))"
        f" OR (t.job_id IS NULL AND t.subject_kind <> {job} AND {of_place})"
    )


_EXPORTS = "t.client IS NULL"
_TABLES: Mapping[str, Callable[[_VisibleRows, str], str]] = {
    "jobs": _of_jobs(),
    "job_summary": _of_jobs(),
    "phase": _of_jobs("job_start_ns"),
    "profile": _profile,
    "rollup": _rollup,
    "finding": _finding,
    "incident": _lasting("t.component", "t.from_ns", "t.to_ns"),
    "events": _events,
    "health": _health,
    "usage": _usage,
    "files": _files,
    "mapping": _lasting("t.a", "t.from_ns", "t.to_ns"),
    "ops": _counted_by_job("t.start_ns"),
    "op_groups": _counted_by_job("t.start_ns"),
    "heatmap": _counted_by_job("t.bin_start_ns"),
    "file_counters": _counted_by_job("t.open_start_ns"),
    "layouts": _counted_by_job(""),
    "forwarder": _samples("forwarder", "t.node"),
    "pfs_client": _samples("node", "t.node"),
    "device": _samples("node", "t.node"),
    "target": _samples("target", "t.target", more=_EXPORTS),
    "port": _samples("port", "concat(t.switch, '/', t.port)"),
    "metadata": _samples("mds", "coalesce(t.target, t.server)", more=_EXPORTS),
}
"""What each table holds for a reader who does not see everything. One that is not named holds nothing."""

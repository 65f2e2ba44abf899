"""Where something is known: whether a source was there and idle, or nothing was heard of it. No data is not zero.

A step without rows is idle (0) when the agent of the source says it was well and none of its probes failed; it is a gap
(null) when the agent was silent, or nobody ever watched.
"""

# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.explain.analysis.table_columns import read_integer_column
from fairlead.explain.questions.answers import Gap
from fairlead.explain.questions.lake_queries import Tables, build_day_filter, list_query_rows, query_lake
from fairlead.explain.questions.rollup_sums import Steps
from fairlead.explain.questions.span import MINUTE_NS, SECOND_NS, Span
from fairlead.explain.questions.visible_lake import narrow_visible_lake

PERIODS = 3
"""A source that reported is silent once this many of its periods have passed without a word."""
LAG_NS = 90 * SECOND_NS
"""What has happened this long ago is usually in the rollup (a server carries rows there every 30 s); later steps
without rows are not known yet."""
_PERIOD_NS = MINUTE_NS
"""Of an agent's word on its health, where a row does not tell."""
_TROUBLE = ("failing", "lost", "late")
_MAX_GAPS = 200


@dataclass(frozen=True)
class Coverage:
    """bool[steps] `known`: at least one source was there and well; `share`: of how many of the sources."""

    known: NDArray[np.bool_]
    share: NDArray[np.float64]
    gaps: list[Gap]

    @classmethod
    def create_empty(cls, steps: Steps) -> Coverage:
        """Nobody ever watched."""
        return cls(np.zeros(steps.count, np.bool_), np.zeros(steps.count), [])


def find_coverage(lake: Tables, sources: Sequence[str], steps: Steps) -> Coverage:
    """What is known of `sources` (names of nodes and servers whose agents report) in each step."""
    names = list(dict.fromkeys(sources))
    if not names:
        return Coverage.create_empty(steps)
    span = steps.span
    wide = Span(span.from_ns - PERIODS * _PERIOD_NS, span.to_ns + PERIODS * _PERIOD_NS)
    rows = query_lake(
        lake,
        "SELECT node, ts_ns // $minute AS minute, max(coalesce(interval_ns, $minute)) AS period, "
        "bool_or(probe = 'agent' AND state = 'ok') AND NOT bool_or(state IN (SELECT unnest($trouble))) AS well "
        "FROM health WHERE node IN (SELECT unnest($nodes)) AND ts_ns >= $from_ns AND ts_ns < $to_ns "
        f"AND {build_day_filter(wide)} GROUP BY ALL",
        {"minute": MINUTE_NS, "nodes": names, "from_ns": wide.from_ns, "to_ns": wide.to_ns, "trouble": list(_TROUBLE)},
        within=wide,
    )
    gaps = find_coverage_gaps(lake, names, span)
    counts = np.zeros(steps.count)
    if rows.num_rows:
        nodes = rows.column("node").to_pylist()
        minutes, periods = read_integer_column(rows, "minute"), read_integer_column(rows, "period")
        well = np.asarray(rows.column("well").to_numpy(zero_copy_only=False), np.bool_)
        place = {name: k for k, name in enumerate(names)}
        counts = _counted(steps, np.array([place[n] for n in nodes]), minutes, periods, well, gaps, names)
    return Coverage(counts > 0, counts / len(names), gaps)


def _counted(
    steps: Steps,
    node: NDArray[np.int64],
    minute: NDArray[np.int64],
    period: NDArray[np.int64],
    well: NDArray[np.bool_],
    gaps: Sequence[Gap],
    names: Sequence[str],
) -> NDArray[np.float64]:
    """Sources that were well, by step. A word of health holds for its period before and half of one after."""
    counts = np.zeros(steps.count)
    starts = steps.list_starts()
    for k in np.unique(node):
        mine = node == k
        moment, reach = minute[mine] * MINUTE_NS, np.maximum(period[mine], MINUTE_NS)
        delta = np.zeros(steps.count + 1, np.int64)
        ill = np.zeros(steps.count + 1, np.int64)
        first = np.searchsorted(starts, moment - reach, side="left")
        last = np.searchsorted(starts, moment + MINUTE_NS + reach // 2, side="left")
        for marks, chosen in ((delta, well[mine]), (ill, ~well[mine])):
            np.add.at(marks, first[chosen], 1)
            np.add.at(marks, last[chosen], -1)
        there = (np.cumsum(delta[:-1]) > 0) & (np.cumsum(ill[:-1]) == 0)
        for gap in gaps:
            if gap.source == names[k]:
                end = np.iinfo(np.int64).max if gap.to_ns is None else gap.to_ns
                there &= ~((starts + steps.step_ns > gap.from_ns) & (starts < end))
        counts += there
    return np.where(starts + steps.step_ns <= steps.now_ns - LAG_NS, counts, 0.0)


def find_coverage_gaps(lake: Tables, sources: Sequence[str] | None, span: Span) -> list[Gap]:
    """Times in the span when sources that had reported were silent (events of kind `gap`); None: any source."""
    chosen = "AND component IN (SELECT unnest($sources))" if sources is not None else ""
    wide = Span(span.from_ns - 30 * 86400 * SECOND_NS, span.to_ns)
    found = query_lake(
        narrow_visible_lake(lake, span),
        "SELECT component, ts_ns, max(end_ns) AS end_ns, max(text) AS text FROM events "
        f"WHERE kind = 'gap' AND ts_ns >= {wide.from_ns} AND ts_ns < {span.to_ns} AND"
        f" {build_day_filter(wide)} {chosen} "
        f"GROUP BY component, ts_ns HAVING coalesce(max(end_ns), {span.to_ns}) > {span.from_ns} "
        f"ORDER BY ts_ns DESC, component LIMIT {_MAX_GAPS}",
        {"sources": list(sources)} if sources is not None else None,
        within=wide,
    )
    return [
        Gap(source=r["component"], from_ns=r["ts_ns"], to_ns=r["end_ns"], why=r["text"]) for r in list_query_rows(found)
    ]


def fill_coverage_gaps(
    steps: Steps, line: NDArray[np.float64], rows_at: NDArray[np.bool_], cover: Coverage, *, told: bool
) -> NDArray[np.float64]:
    """`line` with 0 in steps without rows that are known to be idle. Steps with rows stay as they are; `told` says
    whether this value is ever told by this source (else it stays unknown)."""
    if not told:
        return line
    idle = ~rows_at & cover.known & steps.mark_begun()
    return np.where(idle, 0.0, line)


def compute_coverage_share(steps: Steps, rows_at: NDArray[np.bool_], cover: Coverage) -> float | None:
    """Share of the steps begun of which something is known; None before the first."""
    begun = steps.mark_begun()
    return float(((rows_at | cover.known) & begun).sum() / begun.sum()) if begun.any() else None

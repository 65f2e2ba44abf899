"""What runs moved by the counters of the nodes they were on, which know no jobs: figures with bounds, and marked so.

All that a node moved while one run was there is that run's, to the second, and what follows its end for a minute while
nobody else is there (caches are written back). While several were there, each has an equal part of it, and the bounds
are nothing and all of it. The seconds around a change of runs lie within the bounds, too: a probe's row covers up to
HEAD_NS, and does not say at which side of the change it was. Not here: what counters tell by job (`job_volumes`),
shared servers (`layer_estimates`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.explain.questions.job_counters import HEAD_NS, TAIL_NS, read_run_times, split_ranges
from fairlead.explain.questions.lake_queries import Tables, build_day_filter, query_lake
from fairlead.explain.questions.rollup_sums import VALUES
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS, Span, choose_long_span_interval
from fairlead.explain.questions.visible_lake import get_visible_reach, widen_visible_lake

ESTIMATE = "estimate"
"""Stands for the layer of such figures."""
LOW, HIGH = "_low", "_high"
"""Ends of the columns of bounds."""
SECONDS_KEPT_NS = 13 * DAY_NS
"""Older runs are bounded by the minute: seconds are kept for 14 days."""
MOST_BY_SECOND = 5_000
"""Nodes of runs, counted for each run, up to which the seconds at the ends of runs are read; minutes beyond, and wider
bounds."""
_LONGEST_RUN_NS = 32 * DAY_NS
_COUNTED = "pfs_client"
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class NodeShares:
    """Row k: of what node `node[k]` moved in [from_ns[k], to_ns[k]), run `run[k]` has the part `share[k]`. `sure`: all
    of it and nobody else any. `beside`: other runs were there."""

    run: I64
    node: I64
    from_ns: I64
    to_ns: I64
    share: NDArray[np.float64]
    sure: Flags
    beside: Flags


def estimate_runs_by_node(lake: Tables, runs: pa.Table, now_ns: int, span: Span | None = None) -> pa.Table:
    """`place` (row of `runs`), `layer` (ESTIMATE), VALUES, LOW and HIGH of each and `shared` (whether other runs were
    on the nodes meanwhile) of `runs` (`cluster`, `job_id`, `start_ns`, `end_ns`) on whose nodes something was counted;
    in the span: in whole steps of it.
    For a reader who does not see everything, of those alone on their nodes: bounds would tell of others."""
    whole = widen_visible_lake(lake)
    start, end = read_run_times(runs, now_ns)
    hull = Span(int(start.min()) - HEAD_NS, int(end.max()) + TAIL_NS)
    placed = _read_placements(whole, runs, hull)
    if not placed.num_rows:
        return _none()
    names = placed["node"].combine_chunks().dictionary_encode()
    asked = placed.num_rows - placed["place"].null_count
    grain = MINUTE_NS if int(start.min()) < now_ns - SECONDS_KEPT_NS or asked > MOST_BY_SECOND else SECOND_NS
    if span is not None:
        grain = choose_long_span_interval(span)
    shares = share_nodes(
        pc.fill_null(placed["place"], -1).to_numpy(),
        names.indices.to_numpy().astype(np.int64),
        *read_run_times(placed, now_ns),
        grain,
    )
    if span is None:
        row, step, begin, until = split_ranges(shares.from_ns, shares.to_ns)
    else:
        whole_steps = span.align_to(grain)
        begin = np.maximum(shares.from_ns, whole_steps.from_ns)
        until = np.minimum(shares.to_ns, whole_steps.to_ns)
        row = np.flatnonzero(until > begin)
        step, begin, until = np.full(len(row), grain), begin[row], until[row]
    if not len(row):
        return _none()
    at = pa.array(row)
    pieces = pa.table(
        {
            "place": pa.array(shares.run).take(at),
            "node": names.dictionary.take(pa.array(shares.node[row])),
            "step": pa.array(step),
            "from_ns": pa.array(begin),
            "to_ns": pa.array(until),
            "share": pa.array(shares.share).take(at),
            "sure": pa.array(shares.sure).take(at),
            "beside": pa.array(shares.beside).take(at),
        }
    )
    found = _sum_pieces(whole, pieces)
    if get_visible_reach(lake, hull) is not None:
        alone = pc.invert(found["shared"])
        for name in VALUES:
            alone = pc.and_(alone, pc.fill_null(pc.equal(found[name + LOW], found[name + HIGH]), True))
        found = found.filter(alone)
    return found


def share_nodes(run: I64, node: I64, start: I64, end: I64, grain: int) -> NodeShares:
    """Who has what of which node. Row k: run `run[k]` (-1: nobody who is asked about) was on node `node[k]` in
    [start[k], end[k]); times are rounded outwards to `grain`."""
    start = start // grain
    end = np.maximum(-(-end // grain), start + 1)
    head, tail = -(-HEAD_NS // grain), -(-TAIL_NS // grain)
    zero = int(start.min()) - head
    width = int(end.max()) + tail - zero + 1
    base = node * width - zero
    marks = [base + time for time in (start - head, start, end, end + head, end + tail)]
    points = np.unique(np.concatenate(marks))
    before, begins, ends, after, last = (np.searchsorted(points, one) for one in marks)

    def count(first: I64, behind: I64) -> I64:
        steps = np.zeros(len(points) + 1, np.int64)
        np.add.at(steps, first, 1)
        np.add.at(steps, behind, -1)
        return np.cumsum(steps)[:-1]

    there, near = count(begins, ends), count(before, after)
    ending, beginning = (np.bincount(one, minlength=len(points)) for one in (ends, begins))
    places = np.arange(len(points))
    # In time that nobody is there: who ended last before it, who begins first after it.
    ended = np.maximum.accumulate(np.where(ending > 0, places, -1))
    coming = np.minimum.accumulate(np.where(beginning > 0, places, len(points) - 1)[::-1])[::-1]
    asked = np.flatnonzero(run >= 0)
    many = last[asked] - before[asked]
    who = np.repeat(asked, many)
    segment = np.arange(len(who)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(before[asked], many)
    inside = (segment >= begins[who]) & (segment < ends[who])
    idle = there[segment] == 0
    tailing = idle & (segment >= ends[who]) & (ended[segment] == ends[who])
    lasts = ended[segment]
    taken = (lasts >= 0) & (points[segment] - points[np.maximum(lasts, 0)] < tail)
    heading = idle & (segment < begins[who]) & (coming[segment] == begins[who]) & ~taken
    divided = np.where(inside, there[segment], np.where(tailing, ending[ends[who]], beginning[begins[who]]))
    own = inside | tailing | heading
    share = np.where(own, 1.0 / np.maximum(divided, 1), 0.0)
    close = (segment < after[who]) & ~own
    sure = own & (divided == 1) & (near[segment] <= 1)
    beside = inside & (there[segment] > 1)
    kept = own | close
    who, segment, share, sure, beside = who[kept], segment[kept], share[kept], sure[kept], beside[kept]
    if not len(who):
        none = np.zeros(0, np.int64)
        return NodeShares(none, none, none, none, np.zeros(0), np.zeros(0, np.bool_), np.zeros(0, np.bool_))
    new = np.ones(len(who), np.bool_)
    new[1:] = (who[1:] != who[:-1]) | (segment[1:] != segment[:-1] + 1) | (share[1:] != share[:-1])
    new[1:] |= (sure[1:] != sure[:-1]) | (beside[1:] != beside[:-1])
    first = np.flatnonzero(new)
    behind = np.append(first[1:], len(who)) - 1
    mine = who[first]
    low, high = points[segment[first]] - base[mine], points[segment[behind] + 1] - base[mine]
    return NodeShares(run[mine], node[mine], low * grain, high * grain, share[first], sure[first], beside[first])


def _read_placements(lake: Tables, runs: pa.Table, hull: Span) -> pa.Table:
    """`place` (of `runs`; null: another run), `node`, `start_ns`, `end_ns` of all runs on the nodes of `runs`."""
    began = Span(hull.from_ns - _LONGEST_RUN_NS, hull.to_ns)
    asked = runs.select(["cluster", "job_id", "start_ns"]).append_column("place", pa.array(np.arange(runs.num_rows)))
    ran = (
        f"start_ns < {hull.to_ns} AND start_ns >= {began.from_ns}"
        f" AND coalesce(end_ns, start_ns::HUGEINT + {_LONGEST_RUN_NS}) > {hull.from_ns}"
    )
    return query_lake(
        lake,
        f"WITH runs AS (SELECT cluster, job_id, start_ns, end_ns, nodes FROM jobs WHERE {ran}),"
        " mine AS (SELECT r_runs.place, runs.start_ns, runs.end_ns, runs.nodes FROM runs JOIN r_runs"
        " ON runs.job_id = r_runs.job_id AND runs.start_ns = r_runs.start_ns"
        " AND runs.cluster IS NOT DISTINCT FROM r_runs.cluster),"
        " wanted AS (SELECT DISTINCT unnest(nodes) AS node FROM mine),"
        " others AS (SELECT start_ns, end_ns, nodes FROM runs ANTI JOIN r_runs ON runs.job_id = r_runs.job_id"
        " AND runs.start_ns = r_runs.start_ns AND runs.cluster IS NOT DISTINCT FROM r_runs.cluster)"
        " SELECT DISTINCT place, unnest(nodes) AS node, start_ns, end_ns FROM mine UNION ALL"
        " SELECT NULL, node, start_ns, end_ns FROM (SELECT start_ns, end_ns, unnest(nodes) AS node FROM others)"
        " SEMI JOIN wanted USING (node)",
        began=began,
        tables={"r_runs": asked},
    )


def _sum_pieces(lake: Tables, pieces: pa.Table) -> pa.Table:
    """Sums of what counters of nodes say. What they say of a job by name is another's: it is taken off the whole."""
    columns = ", ".join(f"CASE WHEN r.job_id IS NULL THEN r.{name} ELSE -r.{name} END AS {name}" for name in VALUES)
    parts, spans = [], []
    for step in sorted(set(pieces["step"].to_pylist())):
        of_step = pieces.filter(pc.equal(pieces["step"], step))
        span = Span(int(pc.min(of_step["from_ns"]).as_py()), int(pc.max(of_step["to_ns"]).as_py()))
        spans.append(span)
        parts.append(
            f"SELECT p.place, p.share, p.sure, p.beside, {columns} FROM rollup r JOIN r_pieces p ON r.id = p.node"
            f" AND p.step = {step} AND r.ts_ns >= p.from_ns AND r.ts_ns < p.to_ns WHERE r.interval_ns = {step}"
            f" AND r.kind = $kind AND r.layer = $layer AND r.ts_ns >= {span.from_ns} AND r.ts_ns < {span.to_ns}"
            f" AND {build_day_filter(span, 'r.day')} AND r.id IN (SELECT node FROM r_pieces)"
        )
    sums = ", ".join(
        f"round(sum({name} * share))::BIGINT AS {name}, CASE WHEN count({name}) > 0 THEN"
        f" greatest(0, coalesce(sum({name}) FILTER (sure), 0)) END::BIGINT AS {name}{LOW},"
        f" sum({name})::BIGINT AS {name}{HIGH}"
        for name in VALUES
    )
    within = Span(min(one.from_ns for one in spans), max(one.to_ns for one in spans)).align_to(HOUR_NS)
    return query_lake(
        lake,
        f"SELECT place, '{ESTIMATE}' AS layer, {sums}, bool_or(beside) AS shared FROM ({' UNION ALL '.join(parts)})"
        " GROUP BY place ORDER BY place",
        {"kind": "node", "layer": _COUNTED},
        within=within,
        tables={"r_pieces": pieces},
    )


def _none() -> pa.Table:
    columns = {"place": pa.int64(), "layer": pa.string(), **dict.fromkeys(VALUES, pa.int64())}
    columns |= {f"{name}{end}": pa.int64() for name in VALUES for end in (LOW, HIGH)} | {"shared": pa.bool_()}
    return pa.schema(list(columns.items())).empty_table()

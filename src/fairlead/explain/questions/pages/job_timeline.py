"""One job through every layer on one axis, with its phases, its neighbours on shared components, and its gaps.

Where a few seconds are looked at and operations were recorded, the client's lane is finer than a second. Not here: the
axis (`page_axis`), neighbours (`neighbours`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from fairlead.explain.analysis.table_columns import read_float_column, read_integer_column
from fairlead.explain.questions.answers import Series
from fairlead.explain.questions.answers_pages import JobTimeline, Lane, Line, PhaseBand
from fairlead.explain.questions.clock_offsets import correct_clock_offsets, find_clock_offsets
from fairlead.explain.questions.coverage import Coverage, compute_coverage_share, find_coverage
from fairlead.explain.questions.lake_queries import Sight, Tables, list_query_rows
from fairlead.explain.questions.layer_estimates import estimate_layers
from fairlead.explain.questions.pages import node_lanes as of_nodes
from fairlead.explain.questions.pages.neighbours import list_neighbour_parts, rank_neighbours
from fairlead.explain.questions.pages.operations import MOUNTED, read_operation_runs
from fairlead.explain.questions.pages.page_axis import (
    Axis,
    build_axis_line,
    build_page_axis,
    refine_page_axis,
    spread_over_axis,
)
from fairlead.explain.questions.pages.run_window import RunSeen, find_run_window
from fairlead.explain.questions.past_phases import read_job_phases
from fairlead.explain.questions.question import Asking
from fairlead.explain.questions.rollup_sums import Steps, round_rollup_line, sum_rollup_by_step
from fairlead.explain.questions.span import INTERVALS, MINUTE_NS
from fairlead.explain.questions.timelines import LAYERS
from fairlead.explain.questions.visible_lake import widen_visible_lake

_JOB = "kind = $kind AND id = $id"
_MOST_NODES = 4096
FINE_NS = 2 * MINUTE_NS
"""So short a stretch is drawn finer than by the second."""
_RATES = ("read_bytes", "write_bytes", "metadata_ops")
_MOST_RUNS = 2_000_000
"""Runs of operations that are spread over a fine axis; where there are more, seconds have to do."""


def build_job_timeline(asking: Asking, name: str, asked: Any, sight: Sight, now_ns: int) -> JobTimeline:
    """One job through every layer on one axis,
    phases and neighbours. Raises UnknownNameError, UsageError, LakeError."""
    run = find_run_window(asking, name, asked, sight, now_ns)
    axis, found = _cells(asking.lake, run, asked.points, now_ns)
    cover = find_coverage(asking.lake, run.nodes[:_MOST_NODES], axis.points)
    missing = list(run.missing)
    lanes: list[Lane] = []
    if run.alone:
        lanes = _counted(axis, found, cover)
        lanes += _of_nodes(asking.lake, run, axis, found, cover, missing)
        extra, _, unknown = estimate_layers(
            widen_visible_lake(asking.lake), run.job_id, run.nodes, axis.points, found, cover
        )
        lanes += [_estimated(one) for one in extra]
        missing += unknown
        axis, lanes = _finer(asking.lake, run, axis, lanes, asked.points)
    parts = list_neighbour_parts(widen_visible_lake(asking.lake), run) if run.alone else []
    others = rank_neighbours(asking.lake, run, axis, parts, sight, asked.neighbours) if run.alone else []
    if run.alone and not parts:
        missing.append("neighbours: no counter of a shared component names this job in this time")
    drawn = axis.drawn
    order = {layer: place for place, layer in enumerate(LAYERS)}
    return JobTimeline(
        job_id=run.job_id,
        cluster=run.cluster,
        job_from_ns=run.life.from_ns,
        job_to_ns=run.life.to_ns,
        from_ns=drawn.from_ns,
        step_ns=drawn.step_ns,
        points=drawn.count,
        finest_ns=min(drawn.step_ns, axis.cells.step_ns),
        running=run.running,
        lanes=sorted(lanes, key=lambda lane: order.get(lane.layer, len(order))),
        phases=_phases(asking.lake, run),
        neighbours=others,
        gaps=cover.gaps,
        missing=missing,
    )


def _cells(lake: Tables, run: RunSeen, points: int, now_ns: int) -> tuple[Axis, pa.Table]:
    """The axis, and the job's sums by cell (`step`) and layer; of the next coarser interval where seconds are gone."""
    words = {"kind": "job", "id": run.job_id}
    interval = INTERVALS[0]
    first: tuple[Axis, pa.Table] | None = None
    sources = run.nodes[:_MOST_NODES]
    off: dict[str, int] | None = None
    while True:
        axis = build_page_axis(run.span, now_ns, points, interval)
        found = sum_rollup_by_step(lake, axis.cells, axis.cells.step_ns, "layer", _JOB, words)
        if off is None:
            off = find_clock_offsets(lake, sources, axis.cells.span)
        if off:
            found = correct_clock_offsets(lake, run.job_id, axis.cells, found, run.nodes, off)
        first = first or (axis, found)
        coarser = [one for one in INTERVALS if one > axis.cells.step_ns]
        if found.num_rows or not coarser:
            return (axis, found) if found.num_rows else first
        interval = coarser[0]


def _counted(axis: Axis, found: pa.Table, cover: Coverage) -> list[Lane]:
    """A lane for every layer that has rows."""
    layer = np.array(found.column("layer").to_pylist(), object)
    return [_lane(axis, found.filter(pa.array(layer == name)), name, cover) for name in sorted(set(layer.tolist()))]


def _lane(axis: Axis, rows: pa.Table, layer: str, cover: Coverage) -> Lane:
    at = read_integer_column(rows, "step")
    read, write, metadata = (build_axis_line(axis, at, read_float_column(rows, name), cover) for name in _RATES)
    return Lane(
        layer=layer,
        read_bytes_per_s=read[0],
        write_bytes_per_s=write[0],
        metadata_ops_per_s=metadata[0],
        known_share=compute_coverage_share(axis.points, read[1], cover),
    )


def _of_nodes(
    lake: Tables, run: RunSeen, axis: Axis, found: pa.Table, cover: Coverage, missing: list[str]
) -> list[Lane]:
    """Lanes of what the job's nodes did, where nothing tells more; `missing` is told of them."""
    told = set(found.column("layer").to_pylist())
    lanes = []
    rows = None if told & set(of_nodes.BY_JOB) else of_nodes.sum_node_lane_traffic(lake, axis, run.nodes)
    if rows is not None:
        lanes.append(replace(_lane(axis, rows, str(rows.column("layer")[0].as_py()), cover), estimated=True))
        missing.append(of_nodes.CLIENT)
    rows = of_nodes.sum_port_lane_traffic(lake, axis, run.nodes)
    if rows is not None:
        lanes.append(replace(_lane(axis, rows, "port", Coverage.create_empty(axis.points)), estimated=True))
        missing.append(of_nodes.PORTS)
    return lanes


def _estimated(one: Series) -> Lane:
    return Lane(
        layer=one.layer,
        read_bytes_per_s=Line(mean=one.read_bytes_per_s),
        write_bytes_per_s=Line(mean=one.write_bytes_per_s),
        metadata_ops_per_s=Line(mean=one.metadata_ops_per_s),
        estimated=True,
        known_share=one.known_share,
    )


def _finer(lake: Tables, run: RunSeen, axis: Axis, lanes: list[Lane], points: int) -> tuple[Axis, list[Lane]]:
    """The axis below a second and the lanes on it, where operations of the job were recorded then."""
    fine = refine_page_axis(axis, points) if axis.cells.span.length_ns <= FINE_NS else None
    layers = [lane.layer for lane in lanes if lane.layer in MOUNTED]
    if fine is None or not layers:
        return axis, lanes
    drawn: dict[str, Lane] = {}
    for layer in layers:
        runs = read_operation_runs(lake, run.job_id, axis.points.span, MOUNTED[layer], most=_MOST_RUNS)
        if runs is None or not runs.num_rows:
            continue
        drawn[layer] = _spread(fine.drawn, runs, layer)
    if not drawn:
        return axis, lanes
    return fine, [drawn.get(lane.layer) or _repeated(lane, fine.parts) for lane in lanes]


def _spread(steps: Steps, runs: pa.Table, layer: str) -> Lane:
    start, end = read_integer_column(runs, "start_ns"), read_integer_column(runs, "end_ns")
    word = np.array(runs.column("class").to_pylist(), object)
    amount = read_float_column(runs, "amount")
    passed = np.clip(steps.now_ns - steps.list_starts(), 1, steps.step_ns) / 1e9
    lines = {}
    for name in _RATES:
        mine = word == name
        known = mine & np.isfinite(amount)
        if mine.any() and not known.any():
            lines[name] = Line(mean=[None] * steps.count)
            continue
        made = spread_over_axis(steps, start[known], end[known], amount[known]) / passed
        lines[name] = Line(mean=round_rollup_line(np.where(steps.mark_begun(), made, np.nan)))
    return Lane(
        layer=layer,
        read_bytes_per_s=lines["read_bytes"],
        write_bytes_per_s=lines["write_bytes"],
        metadata_ops_per_s=lines["metadata_ops"],
        known_share=1.0,
    )


def _repeated(lane: Lane, parts: int) -> Lane:
    """A lane of seconds on an axis of parts of them."""

    def each(line: Line) -> Line:
        return Line(mean=[value for value in line.mean for _ in range(parts)])

    return replace(
        lane,
        read_bytes_per_s=each(lane.read_bytes_per_s),
        write_bytes_per_s=each(lane.write_bytes_per_s),
        metadata_ops_per_s=each(lane.metadata_ops_per_s),
    )


def _phases(lake: Tables, run: RunSeen) -> list[PhaseBand]:
    start, end = run.account["start_ns"], run.account["end_ns"]
    if start is None:
        return []
    rows = list_query_rows(read_job_phases(lake, run.cluster, run.job_id, start, end))
    return [
        PhaseBand(
            kind=row["kind"],
            number=row["number"],
            start_ns=row["start_ns"],
            end_ns=row["end_ns"],
            bytes=row["bytes"],
            mode=row["mode"],
            lost_s=row["lost_s"],
            abnormal=row["abnormal"],
        )
        for row in rows
        if row["end_ns"] > run.span.from_ns and row["start_ns"] < run.span.to_ns
    ]

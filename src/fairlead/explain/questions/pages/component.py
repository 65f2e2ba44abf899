"""One component of any layer: its load over time with the lowest and highest, queue, waits, hours, who makes it up.

Not here: all components of a layer (`layer`), how it is (`questions.component_health`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.errors import UsageError
from fairlead.explain.analysis.table_columns import read_float_column, read_integer_column
from fairlead.explain.questions import components
from fairlead.explain.questions.answers_pages import ComponentLook, Lane
from fairlead.explain.questions.coverage import Coverage, compute_coverage_share, find_coverage
from fairlead.explain.questions.lake_queries import Sight, Tables, build_day_filter, query_lake
from fairlead.explain.questions.pages.page_axis import Axis, build_axis_line, build_page_axis
from fairlead.explain.questions.question import Asking
from fairlead.explain.questions.rollup_sums import fill_rollup_steps, round_rollup_line, sum_rollup_by_step
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, INTERVALS, MINUTE_NS, Span
from fairlead.explain.questions.timelines import LAYERS

KINDS = {
    "forwarder": ("forwarder", "forwarder"),
    "target": ("target", "target"),
    "mds": ("mds", "metadata"),
    "network": ("port", "port"),
    "device": ("device", "device"),
}
"""Layer of the pages → kind and layer of `rollup`."""
_MORE = ", sum(wait_ns)::DOUBLE AS wait_ns, sum(waits)::DOUBLE AS waits, max(queue_len_max)::DOUBLE AS queue"
_MOST_HOURS_NS = 32 * DAY_NS
_WHOLE = "kind = $kind AND id = $id AND job_id IS NULL"


def describe_component_page(asking: Asking, name: str, asked: Any, sight: Sight, now_ns: int) -> ComponentLook:
    """One component. Raises UnknownNameError, UsageError, LakeError."""
    if name not in KINDS:
        raise UsageError(f"there is no layer {name!r}", remedy=f"one of {', '.join(KINDS)}")
    if not asked.id:
        raise UsageError("no component named", remedy="give id=NAME")
    kind, main = KINDS[name]
    span = asked.span(now_ns, "1h", asking.longest_ns)
    page = components.describe_component(asking.lake, kind, asked.id, span, sight, now_ns, limit=asked.limit)
    axis, rows = _cells(asking.lake, kind, asked.id, span, now_ns, asked.points)
    steps = axis.points
    sources = [asked.id, _node_of(asked.id), *components.find_component_servers(asking.lake, kind, asked.id, span)]
    cover = find_coverage(asking.lake, sources, steps)
    seen = [str(one) for one in pc.unique(rows.column("layer")).to_pylist()]
    order = sorted(seen, key=lambda one: (one != main, LAYERS.index(one) if one in LAYERS else len(LAYERS), one))
    hours_span, hours = _hours(asking.lake, kind, main, asked.id, span, now_ns)
    own = _of(rows, main)
    waits, queue = _by_point(axis, own)
    return ComponentLook(
        layer=name,
        id=asked.id,
        from_ns=steps.from_ns,
        to_ns=steps.span.to_ns,
        step_ns=steps.step_ns,
        points=steps.count,
        finest_ns=axis.cells.step_ns,
        row=page.row,
        lanes=[_lane(axis, _of(rows, one), one, cover) for one in order],
        queue_max=round_rollup_line(queue),
        wait_mean_ns=round_rollup_line(waits),
        hours_from_ns=hours_span.from_ns,
        hours=hours,
        peak=asking.peaks.get(kind),
        peak_unit="operations/s" if kind == "mds" else "bytes/s",
        who=page.who,
        hidden=page.hidden,
        gaps=page.gaps,
    )


def _node_of(name: str) -> str:
    """The node of a device or of an adapter's port: what stands before the first slash or colon."""
    return re.split(r"[:/]", name, maxsplit=1)[0]


def _of(rows: pa.Table, layer: str) -> pa.Table:
    return rows.filter(pc.equal(rows.column("layer"), layer))


def _cells(lake: Tables, kind: str, name: str, span: Span, now_ns: int, points: int) -> tuple[Axis, pa.Table]:
    """Sums by cell and layer, of the finest interval that is there (seconds are forgotten first)."""
    tried: list[tuple[Axis, pa.Table]] = []
    for interval in INTERVALS:
        axis = build_page_axis(span, now_ns, points, interval)
        if axis.cells.step_ns != interval and interval != INTERVALS[-1]:
            continue
        tried.append(
            (
                axis,
                sum_rollup_by_step(lake, axis.cells, interval, "layer", _WHOLE, {"kind": kind, "id": name}, more=_MORE),
            )
        )
        if tried[-1][1].num_rows:
            return tried[-1]
    return tried[0]


def _lane(axis: Axis, rows: pa.Table, layer: str, cover: Coverage) -> Lane:
    at = read_integer_column(rows, "step")
    read, there = build_axis_line(axis, at, read_float_column(rows, "read_bytes"), cover)
    write, _ = build_axis_line(axis, at, read_float_column(rows, "write_bytes"), cover)
    metadata, _ = build_axis_line(axis, at, read_float_column(rows, "metadata_ops"), cover)
    return Lane(
        layer=layer,
        read_bytes_per_s=read,
        write_bytes_per_s=write,
        metadata_ops_per_s=metadata,
        known_share=compute_coverage_share(axis.points, there, cover),
    )


def _by_point(axis: Axis, rows: pa.Table) -> tuple[np.ndarray[Any, np.dtype[np.float64]], ...]:
    """Mean wait and longest queue of each point; NaN where no row tells."""
    at = read_integer_column(rows, "step")
    room = axis.points.count * axis.per
    cells = np.full((3, room), np.nan)
    for k, column in enumerate(("wait_ns", "waits", "queue")):
        cells[k, at] = read_float_column(rows, column)
    by_point = cells.reshape(3, axis.points.count, axis.per)
    known = np.isfinite(by_point).any(axis=2)
    wait, waits = np.nansum(by_point[0], axis=1), np.nansum(by_point[1], axis=1)
    longest = np.where(np.isfinite(by_point[2]), by_point[2], -np.inf).max(axis=1)
    mean = np.divide(wait, waits, out=np.full(axis.points.count, np.nan), where=known[0] & (waits > 0))
    return mean, np.where(known[2], longest, np.nan)


def _hours(lake: Tables, kind: str, layer: str, name: str, span: Span, now_ns: int) -> tuple[Span, list[float | None]]:
    """The busiest minute of each hour of the span, of at least its last day and at most 32: bytes or operations/s."""
    length = min(max(span.length_ns, DAY_NS), _MOST_HOURS_NS)
    wide = Span(span.to_ns - length, min(span.to_ns, now_ns)).align_to(HOUR_NS)
    value = "metadata_ops" if kind == "mds" else "coalesce(read_bytes + write_bytes, read_bytes, write_bytes)"
    found = query_lake(
        lake,
        f"SELECT (ts_ns - {wide.from_ns}) // {HOUR_NS} AS hour, max(rate) AS peak FROM (SELECT ts_ns,"
        f" sum({value})::DOUBLE / 60 AS rate FROM rollup WHERE interval_ns = {MINUTE_NS} AND {_WHOLE} AND"
        f" layer = $layer AND ts_ns >= {wide.from_ns} AND ts_ns < {wide.to_ns} AND {build_day_filter(wide)}"
        f" GROUP BY ts_ns)"
        " GROUP BY hour",
        {"kind": kind, "id": name, "layer": layer},
        within=wide,
    )
    hourly = build_page_axis(wide, now_ns, wide.length_ns // HOUR_NS, HOUR_NS).points
    return wide, round_rollup_line(
        fill_rollup_steps(hourly, read_integer_column(found, "hour"), read_float_column(found, "peak"))
    )

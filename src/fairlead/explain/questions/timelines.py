"""Timelines: bandwidth and metadata rate of each layer of one component or job, with gaps where nothing is known.

Not here: what a gap is (`coverage`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.explain.analysis.table_columns import read_float_column, read_integer_column
from fairlead.explain.questions.answers import Series, Timeline
from fairlead.explain.questions.coverage import Coverage, compute_coverage_share, fill_coverage_gaps
from fairlead.explain.questions.lake_queries import Tables
from fairlead.explain.questions.rollup_sums import (
    Steps,
    choose_rollup_steps,
    fill_rollup_steps,
    round_rollup_line,
    sum_rollup_by_step,
)
from fairlead.explain.questions.span import INTERVALS, Span, choose_long_span_interval

LAYERS = ("client", "mount", "forwarder", "pfs_client", "osc", "target", "metadata", "device", "port")
"""From the application down."""
_RATES = ("read_bytes", "write_bytes", "metadata_ops")
Line = NDArray[np.float64]


def sum_timeline_by_layer(
    lake: Tables,
    span: Span,
    where: str,
    parameters: Mapping[str, object],
    now_ns: int,
    points: int,
    *,
    many: bool = False,
) -> tuple[Steps, pa.Table]:
    """Sums by step and layer (columns `step`, `layer` and values). When the interval that suits the span holds nothing
    (seconds are forgotten first), the next coarser one is read. `many` components: as
    `span.choose_long_span_interval`."""
    steps, interval = choose_rollup_steps(span, now_ns, points, choose_long_span_interval(span) if many else None)
    found = sum_rollup_by_step(lake, steps, interval, "layer", where, parameters)
    for coarser in INTERVALS[INTERVALS.index(interval) + 1 :]:
        if found.num_rows:
            break
        wide, _ = choose_rollup_steps(span, now_ns, points, coarser)
        other = sum_rollup_by_step(lake, wide, coarser, "layer", where, parameters)
        if other.num_rows:
            return wide, other
    return steps, found


def build_timeline(steps: Steps, found: pa.Table, cover: Coverage | Mapping[str, Coverage]) -> Timeline:
    """The answer: a series for each layer that has rows. `cover`: what is known where there are none, of all layers
    or by layer."""
    layer = np.array(found.column("layer").to_pylist(), object)
    order = [name for name in LAYERS if (layer == name).any()]
    order += sorted({name for name in layer.tolist() if name not in LAYERS})
    nothing = Coverage.create_empty(steps)
    covers = cover if isinstance(cover, Mapping) else dict.fromkeys(order, cover)
    series = [_series(steps, found.filter(pa.array(layer == name)), name, covers.get(name, nothing)) for name in order]
    return Timeline(from_ns=steps.from_ns, step_ns=steps.step_ns, points=steps.count, series=series)


def _series(steps: Steps, rows: pa.Table, layer: str, cover: Coverage) -> Series:
    at = read_integer_column(rows, "step")
    there = np.zeros(steps.count, np.bool_)
    there[at] = True
    lines = {}
    for name in _RATES:
        values = read_float_column(rows, name)
        rate = fill_rollup_steps(steps, at, values / steps.compute_elapsed_s()[at])
        lines[name] = round_rollup_line(
            fill_coverage_gaps(steps, rate, there, cover, told=bool(np.isfinite(values).any()))
        )
    return Series(
        layer=layer,
        read_bytes_per_s=lines["read_bytes"],
        write_bytes_per_s=lines["write_bytes"],
        metadata_ops_per_s=lines["metadata_ops"],
        known_share=compute_coverage_share(steps, there, cover),
    )


def build_estimated_timeline(steps: Steps, layer: str, read: Line, write: Line) -> Series:
    """A series that was split off a shared component (bytes a second, NaN: not known)."""
    nothing = np.full(steps.count, np.nan)
    known = (np.isfinite(read) | np.isfinite(write)) & steps.mark_begun()
    share = float(known.sum() / steps.mark_begun().sum()) if steps.mark_begun().any() else None
    return Series(
        layer=layer,
        read_bytes_per_s=round_rollup_line(read),
        write_bytes_per_s=round_rollup_line(write),
        metadata_ops_per_s=round_rollup_line(nothing),
        estimated=True,
        known_share=share,
    )

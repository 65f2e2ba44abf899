"""What explains slow phases in a site's own history: each phase with what the whole file system was asked meanwhile.

Not here: the ranking (`analysis.factors`).
"""
# ruff: noqa: S608  (conditions are numbers of ours)

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.core.model.repeated_runs import Runs
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.table_columns import read_float_column, read_integer_column
from fairlead.explain.questions.lake_queries import build_day_filter
from fairlead.explain.questions.span import MINUTE_NS, Span
from fairlead.store.lake import Lake

F64 = NDArray[np.float64]
FAMILIES = {
    "bandwidth contention": ("coverage_bandwidth", "others_read", "others_write"),
    "metadata load": ("metadata_rate",),
    "space": ("fullest_target",),
}
"""Factors by what they tell of; `coverage_bandwidth` is a phase's share of what all targets moved meanwhile (coverage
factor; Lockwood et al., SC18)."""
_LEAST_S = 5.0
"""Shorter phases say little about a minute's load."""


def read_phase_runs(lake: Lake, span: Span, *, user: str = "", program: str = "") -> Runs | None:
    """Phases of reading and writing that began in `span`, as runs; None when there are none. Phases are alike that are
    of one user, program, size and direction. Raises LakeError."""
    chosen = "".join(f" AND {name} = ${name}" for name, value in (("user", user), ("program", program)) if value)
    asked = {name: value for name, value in (("user", user), ("program", program)) if value}
    phases = lake.query(
        "SELECT start_ns, end_ns, bytes, rate_per_s, kind, user, program, nodes_count FROM phase"
        f" WHERE kind IN ($reading, $writing) AND rate_per_s > 0 AND end_ns - start_ns >= {int(_LEAST_S * NS_PER_S)}"
        f" AND start_ns >= {span.from_ns} AND start_ns < {span.to_ns} AND {build_day_filter(span)}{chosen}"
        " ORDER BY start_ns, job_id, kind, number",
        {"reading": "read", "writing": "write", **asked},
    )
    if not phases.num_rows:
        return None
    begin, end = read_integer_column(phases, "start_ns"), read_integer_column(phases, "end_ns")
    load = _minutes(lake, Span(int(begin.min()) - MINUTE_NS, int(end.max()) + MINUTE_NS))
    seconds, own = (end - begin) / NS_PER_S, read_float_column(phases, "bytes")
    reads = np.asarray(pc.equal(phases["kind"], "read").to_numpy(zero_copy_only=False), np.bool_)
    read, written, names = (_during(load, name, begin, end) for name in ("read_bytes", "write_bytes", "operations"))
    factors = {
        "coverage_bandwidth": np.divide(own, read + written, out=np.full(len(own), np.nan), where=read + written > 0),
        "others_read": np.maximum(read - np.where(reads, own, 0), 0) / seconds,
        "others_write": np.maximum(written - np.where(reads, 0, own), 0) / seconds,
        "metadata_rate": names / seconds,
        "fullest_target": _during(load, "fullness", begin, end, mean=True),
    }
    return Runs(
        performance=read_float_column(phases, "rate_per_s"),
        group=_alike(phases),
        time=begin.astype(np.float64),
        factors=factors,
        families=FAMILIES,
    )


def _minutes(lake: Lake, span: Span) -> dict[str, F64]:
    """What all targets and metadata servers were asked, minute by minute, as arrays that share `ts_ns`."""
    found = lake.query(
        "SELECT ts_ns, sum(read_bytes) FILTER (kind = $ost) AS read_bytes,"
        " sum(write_bytes) FILTER (kind = $ost) AS write_bytes, sum(metadata_ops) FILTER (kind = $mds) AS operations,"
        " max(used_bytes_max / nullif(capacity_bytes, 0)::DOUBLE) FILTER (kind = $ost) AS fullness FROM rollup"
        f" WHERE kind IN ($ost, $mds) AND job_id IS NULL AND interval_ns = {MINUTE_NS} AND ts_ns >= {span.from_ns}"
        f" AND ts_ns < {span.to_ns} AND {build_day_filter(span)} GROUP BY ts_ns ORDER BY ts_ns",
        {"ost": "target", "mds": "mds"},
    )
    names = ("read_bytes", "write_bytes", "operations", "fullness")
    return {
        "ts_ns": read_integer_column(found, "ts_ns").astype(np.float64),
        **{name: read_float_column(found, name) for name in names},
    }


def _during(
    load: dict[str, F64], name: str, begin: NDArray[np.int64], end: NDArray[np.int64], *, mean: bool = False
) -> F64:
    """The sum of a column over [begin, end), minutes split in proportion (`mean`: its mean); NaN where no minute of it
    was counted."""
    ts, values = load["ts_ns"], load[name]
    known = np.isfinite(values)
    if not known.any():
        return np.full(len(begin), np.nan)
    ts, values = ts[known], values[known]
    edges = np.column_stack([ts, ts + MINUTE_NS]).ravel()
    whole = np.cumsum(np.column_stack([np.zeros(len(ts)), values]).ravel())
    there = np.cumsum(np.column_stack([np.zeros(len(ts)), np.full(len(ts), MINUTE_NS / NS_PER_S)]).ravel())
    summed = np.interp(end, edges, whole) - np.interp(begin, edges, whole)
    covered = np.interp(end, edges, there) - np.interp(begin, edges, there)
    minutes = covered / (MINUTE_NS / NS_PER_S)
    out = summed / np.maximum(minutes, 1e-9) if mean else summed
    # Less than half of it counted: not known.
    return np.where(covered >= 0.5 * (end - begin) / NS_PER_S, out, np.nan)


def _alike(phases: pa.Table) -> NDArray[np.int64]:
    nodes = np.nan_to_num(read_float_column(phases, "nodes_count"), nan=0.0)
    scale = pa.array(np.round(np.log2(np.maximum(nodes, 1))).astype(np.int64)).cast(pa.string())
    words = [pc.fill_null(phases[name].cast(pa.string()), "") for name in ("user", "program", "kind")]
    key = pc.binary_join_element_wise(*words, pa.chunked_array([scale]), "\n")
    return np.asarray(np.unique(key.to_numpy(zero_copy_only=False).astype(str), return_inverse=True)[1], np.int64)

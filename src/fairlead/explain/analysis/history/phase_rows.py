"""The phases of I/O of one job as rows of PHASE, from its rollup and, where they were recorded, its operations.

Pure. Seconds of a rollup are coarse for a phase of few: how long it was active is told from its operations, else from
how full its first and last second are against those between. Not here: where a phase begins and ends in a series
(`analysis.phases`), finding a job's rows (`run`), whether a phase was slow (`analysis.anomalies`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.core.model.finding_incident_rows import DIAGNOSIS_VERSION
from fairlead.core.model.tables import PHASE
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.haar_bursts import find_burst_runs
from fairlead.explain.analysis.history.rate_bins import SILENT, find_rate_bins
from fairlead.explain.analysis.job_summary import (
    ESTIMATE,
    MOST_BINS,
    SERIES,
    JobData,
    build_operation_summary,
    build_summary_series,
    select_summary_layer,
)
from fairlead.explain.analysis.phases import split_phases

F64 = NDArray[np.float64]
Kind = Literal["read", "write", "metadata"]
KINDS: tuple[Kind, ...] = ("read", "write", "metadata")
LEAST_METADATA_OPS_PER_S = 100.0
"""Metadata operations are a phase of their own from this rate on (Beacon calls a job of more than 300 a second one of
high MDOPS) ..."""
LEAST_METADATA_OPS = 500
"""... and this number."""
OPERATIONS_PER_DATA = 4.0
"""Opening, asking for, closing: up to so many metadata operations for one of data belong to the data."""
LEAST_COVER = 0.9
"""Operations tell the edges of a phase if they lie in intervals with this share of its amount, or more."""
TAIL = 0.01
"""What touches a phase without a pause at this share of its rate, or more, belongs to it."""
INTERIOR = 3
"""From so many intervals on, the first and last are held against those between."""


def build_phase_rows(
    data: JobData,
    made_ns: int,
    *,
    edges: pa.Table | None = None,
    modes: Mapping[str, str | None] | None = None,
    mds: Sequence[str] | None = None,
    fs: str | None = None,
) -> pa.Table:
    """Rows of PHASE of one job in the order of their time; none where nothing is known of its I/O.

    `edges`: its operations, columns `kind` (read, write, metadata), `start_ns`, `end_ns`; None where none were
    recorded. `modes`: the I/O mode by kind where something besides `data.io` tells it. `mds`, `fs`: its metadata
    servers and file system, where known. Null in a row means not known, and `missing` names what would have told:
    `edges` (the phase is shorter than the intervals can tell: its rate is a lower bound), `mode`, `forwarders`,
    `targets`, `mds`, `traffic` (split by share, not counted), `operations`.
    """
    basis, series = select_summary_layer(data)
    if basis is None or not series.num_rows:
        return PHASE.schema.empty_table()
    job = _job(data, made_ns, mds, fs)
    known = dict(build_operation_summary(data)) | {
        f"{kind}_mode": mode for kind, mode in (modes or {}).items() if mode is not None
    }
    rows: list[dict[str, object]] = []
    for counted, kinds, rows_of in _sources(data, basis, series):
        rows += _rows_of(rows_of, data.interval_ns, kinds, job | {"basis": counted}, known, edges)
    rows.sort(key=lambda row: (row["start_ns"], row["kind"]))
    return pa.Table.from_pylist(rows, PHASE.schema)


def _sources(data: JobData, basis: str, series: pa.Table) -> list[tuple[str, tuple[Kind, ...], pa.Table]]:
    """What is read from which rows: all from the best layer; metadata operations from the servers that counted them
    where that layer does not tell them."""
    if series["metadata_ops"].null_count < series.num_rows:
        return [(basis, KINDS, series)]
    servers = data.series.filter(pc.equal(data.series["layer"].cast(pa.string()), "metadata"))
    found: list[tuple[str, tuple[Kind, ...], pa.Table]] = [(basis, ("read", "write"), series)]
    if servers.num_rows and servers["metadata_ops"].null_count < servers.num_rows:
        found.append(("job_stats", ("metadata",), servers))
    return found


def _job(data: JobData, made_ns: int, mds: Sequence[str] | None, fs: str | None) -> dict[str, object]:
    """What all rows of the job share."""
    row: dict[str, object] = dict.fromkeys(PHASE.schema.names)
    for name in ("cluster", "job_id", "user", "project", "program", "nodes_count", "processes"):
        row[name] = data.job.get(name)
    row |= {"job_start_ns": data.job.get("start_ns"), "made_ns": made_ns, "analysis_version": DIAGNOSIS_VERSION}
    for name, who in (("forwarders", data.forwarders), ("targets", data.targets), ("mds", mds)):
        row[name] = None if who is None else sorted(set(who))
    return row | {"fs": fs}


@dataclass(frozen=True)
class _Columns:
    """A job's series: arrays of one interval each, the first beginning at `first_ns`, and which are known at all."""

    first_ns: int
    interval_ns: int
    by: Mapping[str, F64]
    known: Mapping[str, bool]


def _rows_of(
    series: pa.Table,
    interval_ns: int,
    kinds: Sequence[Kind],
    job: Mapping[str, object],
    known: Mapping[str, object],
    edges: pa.Table | None,
) -> list[dict[str, object]]:
    first, bins, by = build_summary_series(series, interval_ns)
    if bins > MOST_BINS:
        return []
    told = {name: series[name].null_count < series.num_rows for name in SERIES}
    columns = _Columns(first, interval_ns, {name: np.maximum(values, 0.0) for name, values in by.items()}, told)
    rows: list[dict[str, object]] = []
    data_bins = np.zeros(bins, np.bool_)
    for kind in kinds:
        values = columns.by["metadata_ops" if kind == "metadata" else f"{kind}_bytes"]
        if not (values > 0).any():
            continue
        number, stretches = 0, _spans_of(edges, kind)
        for low, high in _spans(values, columns, kind):
            if kind == "metadata" and not _of_its_own(columns, data_bins, low, high):
                continue
            if kind != "metadata":
                data_bins[max(low - 1, 0) : high + 1] = True
            rows.append(_row(columns, kind, number, (low, high), job, known, stretches))
            number += 1
    return rows


def _spans(values: F64, columns: _Columns, kind: Kind) -> list[tuple[int, int]]:
    """Phases of a series as bins [low, high)."""
    whole = np.rint(values).astype(np.int64)
    way: Literal["read", "write"] = "read" if kind == "read" else "write"
    found = split_phases(whole, columns.first_ns, columns.interval_ns, kind=way).phases
    first, width = columns.first_ns, columns.interval_ns
    return _with_tails([((p.start_ns - first) // width, -(-(p.end_ns - first) // width)) for p in found], values)


def _with_tails(spans: list[tuple[int, int]], values: F64) -> list[tuple[int, int]]:
    """Phases with what goes before and after without a pause at TAIL of their rate or more: a file system in which one
    of many targets is slow ends a phase with a long tail of few bytes, and that is the time that was lost."""
    grown: list[tuple[int, int]] = []
    for at, (low, high) in enumerate(spans):
        least = max(TAIL * float(values[low:high].mean()), 1.0)
        first = grown[-1][1] if grown else 0
        last = spans[at + 1][0] if at + 1 < len(spans) else len(values)
        before, after = (np.flatnonzero(part < least) for part in (values[first:low], values[high:last]))
        begin = first + int(before[-1]) + 1 if len(before) else min(first, low)
        end = high + int(after[0]) if len(after) else max(high, last)
        grown.append((begin, end))
    return grown


def _of_its_own(columns: _Columns, data_bins: NDArray[np.bool_], low: int, high: int) -> bool:
    """Whether metadata operations are more than what goes with reading and writing."""
    values = columns.by["metadata_ops"][low:high]
    active = values > 0
    count = float(values.sum())
    if count < LEAST_METADATA_OPS:
        return False
    if count * NS_PER_S < LEAST_METADATA_OPS_PER_S * int(active.sum()) * columns.interval_ns:
        return False
    beside = data_bins[low:high]
    if float(values[~beside].sum()) >= 0.5 * count:
        return True
    if not (columns.known["read_ops"] or columns.known["write_ops"]):
        return False
    data = float((columns.by["read_ops"][low:high] + columns.by["write_ops"][low:high]).sum())
    return count > OPERATIONS_PER_DATA * data


def _spans_of(edges: pa.Table | None, kind: Kind) -> NDArray[np.int64] | None:
    """Stretches in which operations of this kind went on, joined: shape (n, 2), ns, in order; None without any."""
    if edges is None or not edges.num_rows:
        return None
    mine = edges.filter(pc.equal(edges["kind"].cast(pa.string()), kind))
    mine = mine.filter(pc.and_(mine["start_ns"].is_valid(), mine["end_ns"].is_valid()))
    if not mine.num_rows:
        return None
    start, end = (mine[name].to_numpy().astype(np.int64) for name in ("start_ns", "end_ns"))
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum(np.maximum.accumulate(end[order]), start[order])
    fresh = np.flatnonzero(np.concatenate([[True], start[1:] > end[:-1]]))
    return np.stack([start[fresh], end[np.append(fresh[1:] - 1, len(end) - 1)]], axis=1)


def _row(
    columns: _Columns,
    kind: Kind,
    number: int,
    span: tuple[int, int],
    job: Mapping[str, object],
    known: Mapping[str, object],
    stretches: NDArray[np.int64] | None,
) -> dict[str, object]:
    low, high = span
    width = columns.interval_ns
    values = columns.by["metadata_ops" if kind == "metadata" else f"{kind}_bytes"][low:high]
    start, end = columns.first_ns + low * width, columns.first_ns + high * width
    missing = [name for name in ("forwarders", "targets", "mds") if job[name] is None]
    told = None if stretches is None else _filled(stretches, values, start, width)
    if told is not None:
        full, start, end = told
    else:
        full = _guessed(values)
        if int((values > 0).sum()) < INTERIOR:
            missing.append("edges")
    active_s = float(full.sum()) * width / NS_PER_S
    amount = float(values.sum())
    operations, metadata = _sums(columns, kind, low, high)
    mode = None if kind == "metadata" else known.get(f"{kind}_mode")
    missing += ["mode"] if mode is None and kind != "metadata" else []
    missing += ["operations"] if operations is None and kind != "metadata" else []
    missing += ["traffic"] if job["basis"] == ESTIMATE else []
    bins, times = _distribution(values, full, width)
    return dict(job) | {
        "number": number,
        "kind": kind,
        "start_ns": start,
        "end_ns": end,
        "active_ns": round(active_s * NS_PER_S),
        "bytes": None if kind == "metadata" else round(amount),
        "ops": operations,
        "metadata_ops": metadata,
        "rate_per_s": amount / active_s if active_s > 0 else None,
        "request_bytes": amount / operations if operations and kind != "metadata" else None,
        "rate_bins": bins,
        "rate_ns": times,
        "mode": mode,
        "io_processes": known.get("io_processes"),
        "missing": sorted(missing) or None,
    }


def _sums(columns: _Columns, kind: Kind, low: int, high: int) -> tuple[int | None, int | None]:
    """Operations of data and of metadata while the phase lasted."""

    def total(*names: str) -> int | None:
        known = [name for name in names if columns.known[name]]
        return round(sum(float(columns.by[name][low:high].sum()) for name in known)) if known else None

    ways = ("read_ops", "write_ops") if kind == "metadata" else (f"{kind}_ops",)
    return total(*ways), total("metadata_ops")


def _guessed(values: F64) -> F64:
    """How full each interval is, in [0, 1]: where a stretch without a pause has enough of them, its first and last are
    held against the nearest between; in a shorter one they are full at the highest rate seen."""
    full = (values > 0).astype(np.float64)
    for first, last in zip(*(edge.tolist() for edge in find_burst_runs(values > 0)), strict=True):
        if last - first >= INTERIOR:
            inside = values[first + 1 : last - 1]
            # The nearest few: a rate may change in the course of a phase.
            full[first] = min(1.0, values[first] / float(np.median(inside[:INTERIOR])))
            full[last - 1] = min(1.0, values[last - 1] / float(np.median(inside[-INTERIOR:])))
        elif last - first == 2:
            pair = values[first:last]
            full[first:last] = pair / pair.max()
    return full


def _filled(stretches: NDArray[np.int64], values: F64, start: int, width: int) -> tuple[F64, int, int] | None:
    """How full each interval is by recorded operations, and where the first began and the last ended; None where these
    are not the operations the values were counted from."""
    stop = start + len(values) * width
    begin, end = np.clip(stretches[:, 0], start, stop), np.clip(stretches[:, 1], start, stop)
    inside = (stretches[:, 1] > start) & (stretches[:, 0] < stop) & (end > begin)
    if not inside.any():
        return None
    begin, end = begin[inside], end[inside]
    marks = start + np.arange(len(values) + 1, dtype=np.int64) * width
    # Time covered up to each mark: whole stretches before it, and the part of the one it lies in.
    before = np.concatenate([[0], np.cumsum(end - begin)])
    index = np.searchsorted(begin, marks, side="right") - 1
    part = np.where(index >= 0, np.minimum(marks, end[index]) - begin[index], 0)
    covered = before[np.maximum(index, 0)] + part
    full = np.where(values > 0, np.diff(covered) / width, 0.0)
    if float(values[full > 0].sum()) < LEAST_COVER * float(values.sum()):
        return None
    return full, int(begin[0]), int(end[-1])


def _distribution(values: F64, full: F64, width: int) -> tuple[list[int], list[int]]:
    """Time at each rate, see PHASE: bins and nanoseconds."""
    active = (values > 0) & (full > 0)
    rates = values[active] / full[active] * NS_PER_S / width
    bins = np.concatenate([find_rate_bins(rates), [SILENT]])
    times = np.concatenate([full[active] * width, [float(((values <= 0) | (full <= 0)).sum()) * width]])
    found, at = np.unique(bins, return_inverse=True)
    sums = np.rint(np.bincount(at, times, len(found))).astype(np.int64)
    return found[sums > 0].tolist(), sums[sums > 0].tolist()

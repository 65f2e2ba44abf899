"""ROLLUP rows as dense arrays: what each component did second by second, in whole and by job. Pure.

A figure nobody recorded is NaN; a second without rows of a component that has others is zero. Not here: what it means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.store.rollup_cells import Names, read_cell_amounts, read_cell_names

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
SHARED = ("forwarder", "target", "mds")
"""Kinds of components jobs meet at, in the order of a request's path."""
OF_A_JOB = ("mount", "client", "pfs_client", "forwarder", "target", "metadata")
"""Layers a job's own traffic is taken from: the first that has rows of it; they tell of the same bytes, and are never
added."""
_SUMS = ("read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops", "busy_ns", "wait_ns", "waits")
_COLUMNS = (*_SUMS, "queue_len_max")
_SCALE = {"busy_ns": 1e-9, "wait_ns": 1e-9}
_NEEDED = ["ts_ns", "interval_ns", "kind", "id", "layer", "job_id", *_COLUMNS]
_KINDS = (*SHARED, "job")
MOST_INTERVALS = 1 << 17


@dataclass(frozen=True)
class Axis:
    """Equal intervals: number k covers [start_ns + k * interval_ns, ...)."""

    start_ns: int
    interval_ns: int
    count: int

    @property
    def interval_s(self) -> float:
        """Length of one, seconds."""
        return self.interval_ns / NS_PER_S

    def measure_overlap_s(self, from_ns: int, to_ns: int) -> F64:
        """Seconds of each interval that lie in [from_ns, to_ns)."""
        low = self.start_ns + np.arange(self.count, dtype=np.int64) * self.interval_ns
        cover = np.minimum(low + self.interval_ns, to_ns) - np.maximum(low, from_ns)
        seconds: F64 = np.maximum(cover, 0) / NS_PER_S
        return seconds


@dataclass(frozen=True)
class Measures:
    """Sums by interval (T,) or by job and interval (J, T); NaN: not recorded. `busy_s` and `wait_s` are summed over
    requests; `waits` are the requests that waited; `queue` is the longest."""

    read_bytes: F64
    write_bytes: F64
    read_ops: F64
    write_ops: F64
    metadata_ops: F64
    busy_s: F64
    wait_s: F64
    waits: F64
    queue: F64

    @property
    def moved(self) -> F64:
        """Bytes read and written; NaN only where neither is known."""
        return _both(self.read_bytes, self.write_bytes)

    @property
    def data_ops(self) -> F64:
        """Reads and writes."""
        return _both(self.read_ops, self.write_ops)

    def select_job(self, job: int) -> Measures:
        """Of one job."""
        return Measures(*(getattr(self, name)[job] for name in Measures.__dataclass_fields__))


@dataclass(frozen=True)
class Component:
    """A shared component: the whole, its parts by job in order of `Loads.jobs`, and whether the parts were recorded by
    it (`counted`) or split up by what the jobs did elsewhere."""

    kind: str
    id: str
    whole: Measures
    parts: Measures
    counted: bool


@dataclass(frozen=True)
class Loads:
    """All of a scene. `jobs` begins with the victim; `own`: each job's traffic (J, T) at the layer `layer`."""

    axis: Axis
    jobs: tuple[str, ...]
    components: tuple[Component, ...]
    own: Measures
    layer: tuple[str | None, ...]


def build_load_arrays(
    rows: pa.Table, interval_ns: int, victim: str, others: Sequence[str] = (), *, span_ns: tuple[int, int]
) -> Loads:
    """The rows of `interval_ns` (schema ROLLUP; other intervals tell the same again) that lie near `span_ns`.

    `others`: jobs known besides those that have rows. Rows of one key add up (`queue_len_max`: the largest). Where the
    parts of a component add up to more than its whole, two sources counted the same, and they are scaled down.
    """
    rows = rows.select(_NEEDED)
    kind = read_cell_names(rows["kind"])
    wanted = (rows["interval_ns"].to_numpy() == interval_ns) & np.append(_is(kind.words.to_pylist(), _KINDS), False)[
        kind.codes
    ]
    if not wanted.all():
        rows = rows.filter(pa.array(wanted))
    axis, at = _axis(rows["ts_ns"].to_numpy(), interval_ns, span_ns)
    keep = at >= 0
    if not keep.all():
        rows, at = rows.filter(pa.array(keep)), at[keep]
    kind, ident, layer, job = (read_cell_names(rows[name]) for name in ("kind", "id", "layer", "job_id"))
    words = [str(word) for word in ident.words.to_pylist()]
    kinds, layers = kind.words.to_pylist(), layer.words.to_pylist()
    job_words = [str(word) for word in job.words.to_pylist()]
    is_job = _is(kinds, ("job",))[kind.codes] if len(at) else np.zeros(0, np.bool_)
    named = {words[code] for code in np.unique(ident.codes[is_job])} | {
        job_words[code] for code in np.unique(job.codes) if code >= 0
    }
    jobs = (victim, *sorted((named | set(others)) - {victim}))
    place = {name: number for number, name in enumerate(jobs)}
    part_of = np.append(np.array([place.get(word, -1) for word in job_words], np.int64), -1)[job.codes]
    values = {name: _amounts(rows[name]) for name in _COLUMNS}
    count = axis.count
    components: list[Component] = []
    for sort in SHARED:
        here = np.flatnonzero(_is(kinds, (sort,))[kind.codes]) if len(at) else np.zeros(0, np.int64)
        codes = ident.codes[here]
        for code in sorted(np.unique(codes).tolist(), key=lambda c: words[c]):
            mine = here[codes == code]
            part = part_of[mine]
            whole = _dense(values, mine[part < 0], at, np.zeros(int((part < 0).sum()), np.int64), 1, count).select_job(
                0
            )
            parts = _dense(values, mine[part >= 0], at, part[part >= 0], len(jobs), count)
            components.append(
                Component(sort, words[code], whole, cap_load_parts(parts, whole), bool((part >= 0).any()))
            )
    own, chosen = _own(values, at, is_job, ident, layer, layers, words, place, count)
    return Loads(axis, jobs, tuple(components), own, chosen)


def _axis(ts: I64, interval_ns: int, span_ns: tuple[int, int]) -> tuple[Axis, I64]:
    low = min(int(ts.min()), span_ns[0]) if len(ts) else span_ns[0]
    high = max(int(ts.max()) + 1, span_ns[1]) if len(ts) else span_ns[1]
    room = MOST_INTERVALS // 4 * interval_ns
    # A row with a wrong clock must not make the axis longer than memory.
    low, high = max(low, span_ns[0] - room), min(high, span_ns[1] + room)
    start = low // interval_ns * interval_ns
    count = int(min(max(-(-(high - start) // interval_ns), 1), MOST_INTERVALS))
    at = (ts - start) // interval_ns
    return Axis(start, interval_ns, count), np.where((at >= 0) & (at < count), at, -1)


def _is(words: Sequence[str], wanted: Sequence[str]) -> NDArray[np.bool_]:
    return np.array([word in wanted for word in words], np.bool_) if words else np.zeros(1, np.bool_)


def _amounts(column: pa.ChunkedArray) -> tuple[F64, NDArray[np.bool_] | None]:
    found = read_cell_amounts(column)
    return found.values.astype(np.float64), found.known


def _dense(
    values: dict[str, tuple[F64, NDArray[np.bool_] | None]], rows: I64, at: I64, row_of: I64, height: int, count: int
) -> Measures:
    """Rows laid down by (`row_of`, `at`). A column none of them knows is NaN, so are cells none of whose rows does; of
    a row of the result without any rows nothing is known."""
    cell = row_of * count + at[rows]
    some = np.bincount(row_of, minlength=height) > 0
    arrays = []
    for name in _COLUMNS:
        amounts, known = values[name]
        told = rows if known is None else rows[known[rows]]
        where = cell if known is None else cell[known[rows]]
        if not len(told):
            arrays.append(np.full((height, count), np.nan))
            continue
        if name in _SUMS:
            dense = np.bincount(where, amounts[told], height * count) * _SCALE.get(name, 1.0)
        else:
            dense = np.zeros(height * count)
            np.maximum.at(dense, where, amounts[told])
        if len(told) < len(rows):
            untold = np.bincount(cell, minlength=height * count) > 0
            untold &= np.bincount(where, minlength=height * count) == 0
            dense[untold] = np.nan
        dense = dense.reshape(height, count)
        dense[~some] = 0.0 if height > 1 else np.nan
        arrays.append(dense)
    return Measures(*arrays)


def cap_load_parts(parts: Measures, whole: Measures) -> Measures:
    """Parts that add up to more than the whole, scaled down to it."""
    made = []
    for name in Measures.__dataclass_fields__:
        part, total = getattr(parts, name), getattr(whole, name)
        if name != "queue" and np.isfinite(total).any() and np.isfinite(part).any():
            sums = np.nansum(part, axis=0)
            over = (sums > total * 1.01) & (total >= 0)
            if over.any():
                part = part.copy()
                part[:, over] *= total[over] / sums[over]
        made.append(part)
    return Measures(*made)


def _own(
    values: dict[str, tuple[F64, NDArray[np.bool_] | None]],
    at: I64,
    is_job: NDArray[np.bool_],
    ident: Names,
    layer: Names,
    layers: Sequence[str],
    words: Sequence[str],
    place: dict[str, int],
    count: int,
) -> tuple[Measures, tuple[str | None, ...]]:
    """Each job's traffic, of the first layer of `OF_A_JOB` that has rows of it. Data layers know nothing of metadata
    operations and the other way round: what the chosen layer leaves open is taken from the next."""
    height = len(place)
    blank = np.full((height, count), np.nan)
    merged = {name: blank.copy() for name in Measures.__dataclass_fields__}
    chosen: list[str | None] = [None] * height
    job_of = np.array([place.get(word, -1) for word in words], np.int64) if words else np.zeros(1, np.int64)
    for name in OF_A_JOB:
        if name not in layers:
            continue
        mine = np.flatnonzero(is_job & (layer.codes == layers.index(name)))
        mine = mine[job_of[ident.codes[mine]] >= 0]
        if not len(mine):
            continue
        rows_of = job_of[ident.codes[mine]]
        found = _dense(values, mine, at, rows_of, height, count)
        there = np.bincount(rows_of, minlength=height) > 0
        for column, array in merged.items():
            new = getattr(found, column)
            # A server sees its own share only: zero metadata of a data server says nothing.
            fill = there & np.isnan(array).all(axis=1) & np.isfinite(new).any(axis=1)
            array[fill] = new[fill]
        chosen = [name if c is None and t else c for c, t in zip(chosen, there, strict=True)]
    return Measures(**merged), tuple(chosen)


def _both(one: F64, other: F64) -> F64:
    total: F64 = one + other
    unknown = np.isnan(total)
    if unknown.any():
        known = np.where(np.isnan(one), 0.0, one) + np.where(np.isnan(other), 0.0, other)
        total = np.where(np.isnan(one) & np.isnan(other), np.nan, known)
    return total

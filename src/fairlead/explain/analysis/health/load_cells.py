"""Loads of components as arrays: one cell a component and interval, and the parts of jobs in them.

Pure: rows of ROLLUP in, arrays out; partial sums of one key are added up. What is not known is NaN, and an interval
without a row is no cell: nobody counted there, which is neither idle nor sick. Not here: what is normal (`class_peaks`,
`peers`), who is sick (`watch`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.component_flows import Axis, Bools, Floats, Ints
from fairlead.store.rollup_cells import read_cell_names

LAYERS = {
    "forwarder": "forwarder",
    "target": "target",
    "mds": "mds",
    "port": "port",
    "device": "device",
    "node": "client",
}
"""Kind of a rollup → layer of an incident."""
_COUNTED_BY = {
    "forwarder": ("forwarder",),
    "target": ("target",),
    "mds": ("metadata",),
    "port": ("port",),
    "device": ("device",),
    "node": ("mount", "client"),
}
"""Layers that count a kind, the best first: layers tell of the same bytes and are never added."""
_SUMS = ("busy_ns", "wait_ns", "waits", "cache_hit", "cache_miss")
_TOPS = ("queue_len_max", "used_bytes_max", "capacity_bytes")


@dataclass(frozen=True)
class Cells:
    """What was counted of components, one entry a (component, interval), in order of component, then interval.

    All arrays have the same length. `at`: the interval's number on the axis; `job` -1: the whole. Amounts of the
    interval, not rates: `bytes`, `ops` (all operations), `metadata` of them, `busy_s` and `wait_s` (seconds, summed
    over requests; of a device: with I/O under way), `queue` (the longest), `used` (share of the room).
    """

    kind: str
    axis: Axis
    names: tuple[str, ...]
    jobs: tuple[str, ...]
    component: Ints
    at: Ints
    job: Ints
    bytes: Floats
    ops: Floats
    metadata: Floats
    busy_s: Floats
    wait_s: Floats
    queue: Floats
    used: Floats
    missed: Floats
    """Share of what was asked that the cache did not have."""
    waits: Floats

    def __len__(self) -> int:
        return len(self.at)

    def select(self, rows: Bools) -> Cells:
        """These cells only, of the same components and jobs."""
        arrays = {name: getattr(self, name)[rows] for name in _ARRAYS}
        return replace(self, **arrays)

    def renumber(self, everyone: tuple[str, ...]) -> Cells:
        """The same cells, components numbered as in `everyone`; those not in it are dropped."""
        place = {name: number for number, name in enumerate(everyone)}
        to = np.array([place.get(name, -1) for name in self.names], np.int64)
        return replace(self, names=everyone, component=to[self.component]).select(to[self.component] >= 0)


_ARRAYS = ("component", "at", "job", "bytes", "ops", "metadata", "busy_s", "wait_s", "queue", "used", "missed", "waits")


def build_load_cell_axis(loads: pa.Table, interval_ns: int, window_ns: int, now_ns: int) -> Axis | None:
    """Intervals of the whole windows from the first row to the last row or to `now_ns`, whichever is earlier; None
    without rows of this interval. Windows begin at multiples of their length, so that a later look has the same."""
    times = loads["ts_ns"].filter(pc.equal(loads["interval_ns"], interval_ns))
    if not len(times):
        return None
    span = pc.min_max(times).as_py()
    first = span["min"] // window_ns * window_ns
    last = min(-(-(span["max"] + interval_ns) // window_ns), now_ns // window_ns) * window_ns
    return Axis(first, interval_ns, max(last - first, 0) // interval_ns) if last > first else None


def build_load_cells(loads: pa.Table, kind: str, axis: Axis, *, parts: bool = False) -> Cells | None:
    """Cells of one kind: the whole of each component, or with `parts` what each job had of it. None without rows."""
    rows = pc.and_(pc.equal(loads["interval_ns"], axis.window_ns), pc.equal(loads["kind"].cast(pa.string()), kind))
    told = pc.is_valid(loads["job_id"]) if parts else pc.is_null(loads["job_id"])
    table = _within(loads.filter(pc.and_(rows, told)), axis)
    layer = table["layer"].cast(pa.string())
    for wanted in _COUNTED_BY[kind]:
        mine = table.filter(pc.equal(layer, wanted))
        if mine.num_rows:
            return _cells(mine, kind, axis, parts=parts)
    return None


def build_job_load_cells(loads: pa.Table, layers: Sequence[str], axis: Axis) -> Cells | None:
    """What jobs asked as the first of these layers that has rows counts it, all components together (component 0)."""
    rows = pc.and_(pc.equal(loads["interval_ns"], axis.window_ns), pc.equal(loads["kind"].cast(pa.string()), "job"))
    table = _within(loads.filter(rows), axis)
    layer = table["layer"].cast(pa.string())
    for wanted in layers:
        mine = table.filter(pc.equal(layer, wanted))
        if mine.num_rows:
            place = mine.schema.get_field_index("job_id")
            mine = mine.set_column(place, mine.schema.field(place), mine["id"].cast(mine.schema.field(place).type))
            alike = pa.array(["all"] * mine.num_rows).dictionary_encode()
            place = mine.schema.get_field_index("id")
            mine = mine.set_column(place, pa.field("id", alike.type), alike)
            return _cells(mine, "job", axis, parts=True)
    return None


def _within(table: pa.Table, axis: Axis) -> pa.Table:
    """Rows that begin in the time of the axis."""
    end_ns = axis.start_ns + axis.count * axis.window_ns
    inside = pc.and_(pc.greater_equal(table["ts_ns"], axis.start_ns), pc.less(table["ts_ns"], end_ns))
    return table.filter(inside)


def _cells(table: pa.Table, kind: str, axis: Axis, *, parts: bool) -> Cells:
    who = read_cell_names(table["id"])
    words, code = _sorted(who.words.to_pylist(), who.codes)
    jobs: list[str] = []
    job = np.full(table.num_rows, -1, np.int64)
    if parts:
        held = read_cell_names(table["job_id"])
        jobs, job = _sorted(held.words.to_pylist(), held.codes)
    at = (table["ts_ns"].to_numpy() - axis.start_ns) // axis.window_ns
    order = np.lexsort((at, job, code))
    changes = np.ones(len(order), np.bool_)
    changes[1:] = np.diff(code[order]) != 0
    for key in (job, at):
        changes[1:] |= np.diff(key[order]) != 0
    begins = np.flatnonzero(changes)
    first = order[begins]
    sums = {name: _added(table[name], order, begins) for name in _SUMS}
    tops = {name: _largest(table[name], order, begins) for name in _TOPS}
    reads, writes = (_added(table[f"{way}_bytes"], order, begins) for way in ("read", "write"))
    ops = [_added(table[f"{way}_ops"], order, begins) for way in ("read", "write", "metadata")]
    asked = _either(sums["cache_hit"], sums["cache_miss"])
    with np.errstate(invalid="ignore", divide="ignore"):
        used = tops["used_bytes_max"] / tops["capacity_bytes"]
        missed = np.where(asked > 0, sums["cache_miss"] / asked, np.nan)
    return Cells(
        kind,
        axis,
        tuple(words),
        tuple(jobs),
        code[first],
        at[first],
        job[first],
        _either(reads, writes),
        _either(_either(ops[0], ops[1]), ops[2]),
        ops[2],
        sums["busy_ns"] / NS_PER_S,
        sums["wait_ns"] / NS_PER_S,
        tops["queue_len_max"],
        used,
        missed,
        sums["waits"],
    )


def _sorted(words: list[str], codes: Ints) -> tuple[list[str], Ints]:
    """Names in order, so that nothing depends on the order of rows."""
    here = sorted({words[code] for code in np.unique(codes).tolist() if code >= 0})
    place = {word: number for number, word in enumerate(here)}
    to = np.array([place.get(word, -1) for word in words] + [-1], np.int64)
    return here, to[codes]


def _numbers(column: pa.ChunkedArray) -> tuple[Floats, Bools]:
    known = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return pc.fill_null(column, 0).to_numpy().astype(np.float64), np.asarray(known, np.bool_)


def _added(column: pa.ChunkedArray, order: Ints, begins: Ints) -> Floats:
    """Sums of runs of rows that begin at these places of `order`; NaN where nothing in a run is known."""
    values, known = _numbers(column)
    if not known.any():
        return np.full(len(begins), np.nan)
    total = np.add.reduceat(np.where(known, values, 0.0)[order], begins)
    return np.where(np.logical_or.reduceat(known[order], begins), total, np.nan)


def _largest(column: pa.ChunkedArray, order: Ints, begins: Ints) -> Floats:
    values, known = _numbers(column)
    if not known.any():
        return np.full(len(begins), np.nan)
    out = np.maximum.reduceat(np.where(known, values, -np.inf)[order], begins)
    return np.where(np.isfinite(out), out, np.nan)


def _either(left: Floats, right: Floats) -> Floats:
    """The sum of what is known of two; NaN where neither is."""
    return np.where(np.isnan(left), right, left + np.nan_to_num(right))

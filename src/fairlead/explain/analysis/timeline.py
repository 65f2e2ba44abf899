"""Bytes over time per rank, from the best source in the trace: operations, else the recorded heat map.

A source with less than 99.9 % of the counted bytes is not used; what is missing is reported.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from fairlead.core.model.missing import Missing
from fairlead.explain.analysis.byte_series import spread_bytes
from fairlead.explain.analysis.counters import LOWEST, FloatArray, IntArray
from fairlead.explain.analysis.job_view import JobView
from fairlead.explain.analysis.operations import OperationTotals

COMPLETE = 0.999
MAX_BINS = 4096
MAX_ROWS = 1024
"""Ranks are drawn together beyond this: a million ranks × 4,096 bins would not fit into memory."""


@dataclass(frozen=True)
class Timeline:
    """Bytes per row of `ranks_per_row` ranks and bin, shape (rows, bins), from `origin_ns` in bins of `bin_ns`.

    `fine_read`/`fine_write` (fine bins,) are the whole job from `fine_origin_ns` in bins of `fine_bin_ns`, which stay
    fine however many ranks there are. `source` is `operations` or `heatmap`; `coverage` the share of the counted bytes
    that it holds.
    """

    source: Literal["operations", "heatmap"]
    origin_ns: int
    bin_ns: int
    read: FloatArray
    write: FloatArray
    fine_origin_ns: int
    fine_bin_ns: int
    fine_read: FloatArray
    fine_write: FloatArray
    coverage: float
    ranks_per_row: int = 1

    @property
    def total(self) -> tuple[FloatArray, FloatArray]:
        """Read and write bytes of the whole job per fine bin, each (fine bins,)."""
        return self.fine_read, self.fine_write


def count_timeline_bytes(view: JobView, interfaces: tuple[str, ...], *, streams: bool = False) -> int:
    """Sum the bytes in the counters of these interfaces. With `streams`, standard streams are included: heat maps hold
    them, operation traces do not."""
    rows = view.counters.select_rows_with_streams(*interfaces) if streams else view.counters.select_rows(*interfaces)
    return int((view.counters.read_ints("bytes_read") + view.counters.read_ints("bytes_written"))[rows].sum())


def _coverage(held: float, counted: int) -> float:
    return 1.0 if counted == 0 else held / counted


def sum_timeline_by_rank(view: JobView, interfaces: tuple[str, ...] = LOWEST) -> FloatArray | None:
    """Return read and write bytes per rank, shape (2, ranks), or None when no complete source knows the ranks."""
    total = np.zeros((2, view.processes))
    for interface in interfaces:
        counted = count_timeline_bytes(view, (interface,))
        if counted == 0:
            continue
        held = _rank_bytes(view, interface, counted)
        if held is None:
            return None
        total[:, : held.shape[1]] += held[:, : view.processes]
    return total


def _rank_bytes(view: JobView, interface: str, counted: int) -> FloatArray | None:
    counters = view.counters
    rows = counters.select_rows(interface)
    if not (
        rows & counters.shared & ((counters.read_ints("bytes_read") + counters.read_ints("bytes_written")) > 0)
    ).any():
        out = np.zeros((2, view.processes))
        own = rows & ~counters.shared
        for place, name in enumerate(("bytes_read", "bytes_written")):
            out[place] = np.bincount(counters.rank[own], counters.read_ints(name)[own], view.processes)[
                : view.processes
            ]
        return out
    traced = view.operations.get(interface)
    if traced is not None and _coverage(float(traced.rank_bytes.sum()), counted) >= COMPLETE:
        return traced.rank_bytes.astype(float)
    heat = _heatmap_of(view.heatmap, interface)
    if heat.num_rows:
        ranks = heat.column("rank").to_numpy()
        keep = (ranks >= 0) & (ranks < view.processes)
        out = np.stack(
            [
                np.bincount(ranks[keep], heat.column(name).to_numpy()[keep], view.processes)
                for name in ("read_bytes", "write_bytes")
            ]
        )
        if _coverage(float(out.sum()), count_timeline_bytes(view, (interface,), streams=True)) >= COMPLETE:
            return out
    return None


def _heatmap_of(heatmap: pa.Table, *interfaces: str) -> pa.Table:
    if not heatmap.num_rows:
        return heatmap
    words = heatmap.column("interface").cast(pa.string()).to_numpy(zero_copy_only=False)
    return heatmap.filter(pa.array(np.isin(words.astype(str), interfaces)))


def build_timeline(view: JobView) -> tuple[Timeline | None, list[Missing]]:
    """Build the timeline of the lowest interface; also return what is missing from it.

    Each interface is taken from its operations if they are complete, else from its heat map; both may be needed (DXT
    knows no STDIO). Without a complete source for nearly all bytes there is no timeline.
    """
    counted = count_timeline_bytes(view, LOWEST)
    if counted == 0:
        return None, []
    cells: list[_Cells] = []
    missing: list[Missing] = []
    held = 0
    for interface in LOWEST:
        nbytes = count_timeline_bytes(view, (interface,))
        part = _best(view, interface, nbytes, missing) if nbytes else None
        if part is not None:
            cells.append(part)
            held += nbytes
    if _coverage(held, counted) < COMPLETE:
        missing.append(
            Missing(
                kind="no_timeline",
                what="when the bytes moved: phases, period, peak bandwidth",
                why="the trace holds no complete record of operations and no heat map"
                if not held
                else f"only {held / counted:.0%} of the bytes have times",
                remedy="run with DXT_ENABLE_IO_TRACE=1, or with Darshan 3.4 or newer for its heat map",
            )
        )
        return None, missing
    return _combined(view, cells, held / counted), missing


@dataclass(frozen=True)
class _Cells:
    """Bytes of one interface as cells of rank × time, (n,) each, and the same summed over ranks in finer cells."""

    source: Literal["operations", "heatmap"]
    bin_ns: int
    fine_bin_ns: int
    ranks: list[tuple[IntArray, IntArray, FloatArray]]
    fine: list[tuple[IntArray, FloatArray]]


def _best(view: JobView, interface: str, counted: int, missing: list[Missing]) -> _Cells | None:
    traced = view.operations.get(interface)
    if traced is not None:
        held = _coverage(float(traced.rank_bytes.sum()), counted)
        if held >= COMPLETE:
            return _of_operations(traced)
        missing.append(
            Missing(
                kind="operations_incomplete",
                what=f"{interface} operations",
                why=f"the trace holds {held:.1%} of the bytes counted; nothing is concluded from the missing part",
                remedy="raise the trace's memory (Darshan: MAX_RECORDS and MODMEM of the DXT modules) and run again",
            )
        )
    heat = _heatmap_of(view.heatmap, interface)
    if not heat.num_rows:
        return None
    part = _of_heatmap(heat)
    held = sum(float(c[2].sum()) for c in part.ranks)
    # Bytes of standard streams stand in the heat map beside the files': what is too much is as wrong as too little.
    coverage = _coverage(held, count_timeline_bytes(view, (interface,), streams=True))
    if coverage >= COMPLETE:
        return _without_streams(view, interface, part)
    missing.append(
        Missing(
            kind="heatmap_incomplete",
            what=f"{interface} heat map",
            why=f"it holds {coverage:.1%} of the bytes counted",
            remedy="raise the HEATMAP module's memory (MODMEM) and run again",
        )
    )
    return None


def _without_streams(view: JobView, interface: str, part: _Cells) -> _Cells:
    """A direction in which only standard streams moved bytes is no file I/O. (Where files did, too, the heat map cannot
    tell them apart and the streams' bytes stay in.)"""
    rows = view.counters.select_rows(interface)
    ranks, fine = list(part.ranks), list(part.fine)
    for kind, name in enumerate(("bytes_read", "bytes_written")):
        if not view.counters.read_ints(name)[rows].any():
            nothing = np.zeros(0, np.int64)
            ranks[kind], fine[kind] = (nothing, nothing, np.zeros(0)), (nothing, np.zeros(0))
    return replace(part, ranks=ranks, fine=fine)


def _of_operations(traced: OperationTotals) -> _Cells:
    ranks, fine = [], []
    for kind in (0, 1):
        rank, at = np.nonzero(traced.series[kind])
        ranks.append((rank, traced.origin_ns + at * traced.bin_ns, traced.series[kind][rank, at]))
        at = np.flatnonzero(traced.total.series[kind])
        fine.append((traced.total.origin_ns + at * traced.total.bin_ns, traced.total.series[kind][at]))
    return _Cells("operations", traced.bin_ns, traced.total.bin_ns, ranks, fine)


def _of_heatmap(heat: pa.Table) -> _Cells:
    start = heat.column("bin_start_ns").to_numpy()
    rank = np.maximum(heat.column("rank").to_numpy(), 0).astype(np.int64)
    ranks = []
    for name in ("read_bytes", "write_bytes"):
        nbytes = heat.column(name).to_numpy().astype(float)
        keep = nbytes > 0
        ranks.append((rank[keep], start[keep], nbytes[keep]))
    bin_ns = int(heat.column("bin_ns").to_numpy().max())
    return _Cells("heatmap", bin_ns, bin_ns, ranks, [(at, nbytes) for _, at, nbytes in ranks])


def _combined(view: JobView, parts: list[_Cells], coverage: float) -> Timeline | None:
    """All parts on one grid: cells of other widths are spread over the bins they cover."""
    if not any(len(c[1]) for p in parts for c in p.ranks):
        return None
    first = min(int(c[1].min()) for p in parts for c in p.ranks if len(c[1]))
    last = max(int(c[1].max()) + p.bin_ns for p in parts for c in p.ranks if len(c[1]))
    ranks = max(view.processes, *(int(c[0].max(initial=0)) + 1 for p in parts for c in p.ranks))
    bin_ns = max(max(p.bin_ns for p in parts), -(-(last - first) // MAX_BINS))
    fine_ns = max(min(p.fine_bin_ns for p in parts), -(-(last - first) // MAX_BINS))
    bins, fine_bins = -(-(last - first) // bin_ns), -(-(last - first) // fine_ns)
    together = -(-ranks // MAX_ROWS)
    rows = -(-ranks // together)
    both, fine = np.zeros((2, rows, bins)), np.zeros((2, fine_bins))
    for part in parts:
        for kind in (0, 1):
            rank, at, nbytes = part.ranks[kind]
            both[kind] += spread_bytes(
                at, at + part.bin_ns, _whole(nbytes), first, bin_ns, bins, rank // together, rows
            )
            at, nbytes = part.fine[kind]
            fine[kind] += spread_bytes(at, at + part.fine_bin_ns, _whole(nbytes), first, fine_ns, fine_bins)[0]
    source: Literal["operations", "heatmap"] = (
        "operations" if any(p.source == "operations" for p in parts) else "heatmap"
    )
    return Timeline(source, first, bin_ns, both[0], both[1], first, fine_ns, fine[0], fine[1], coverage, together)


def _whole(nbytes: FloatArray) -> FloatArray:
    """Whole bytes per cell with the same sum: the fraction left over by one cell goes to the next."""
    return np.diff(np.rint(np.cumsum(nbytes)), prepend=0.0)


def group_timeline_bins(series: FloatArray, factor: int) -> FloatArray:
    """Sum groups of `factor` bins along the last axis (the last group may be short)."""
    pad = -series.shape[-1] % factor
    padded = np.pad(series, [(0, 0)] * (series.ndim - 1) + [(0, pad)])
    summed: FloatArray = padded.reshape(*series.shape[:-1], -1, factor).sum(axis=-1)
    return summed

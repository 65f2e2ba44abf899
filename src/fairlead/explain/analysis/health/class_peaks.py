"""What components of a class can do, and what their requests usually take: learnt from their own past, robustly.

Pure. A peak that a site file or a canary gives counts before one that is learnt; a learnt one is only as high as what
was ever asked, so it errs to the side of calling nobody sick. Not here: peers that serve one job (`peers`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairlead.explain.analysis.component_flows import Bools, Floats, Ints
from fairlead.explain.analysis.health.load_cells import Cells

GIVEN, CANARY, LEARNT, CLASS = "given", "canary", "learnt", "learnt from its class"
PEAK_QUANTILE = 0.99
SMALL = 256 << 10
"""Bytes of a request below which a component may be at the end of its operations, not of its bandwidth."""
LEAST_CELLS = 30
"""Active intervals from which a peak is learnt."""
_BINS = 64
_LEAST_IN_BIN = 20
_PER_REQUEST_S = 0.5e-3
"""What a request costs besides its bytes, at most, where smaller ones are judged by larger ones."""


@dataclass(frozen=True, kw_only=True)
class Peak:
    """The best a component is known to do, a second. `basis` says how it is known; None: not known. One that is given
    counts; others are what was seen at least, and are raised by what is seen later."""

    bytes_per_s: float | None = None
    ops_per_s: float | None = None
    basis: str = GIVEN


Peaks = Mapping[tuple[str, str], "Peak | float"]
"""By (kind, component), or (kind, "") for all of a kind. A plain number is bytes/s, of an MDS operations/s."""


def find_class_peak(peaks: Peaks, kind: str, name: str) -> Peak | None:
    """What is given for a component: its own, else that of its kind."""
    found = peaks.get((kind, name), peaks.get((kind, "")))
    if found is None or isinstance(found, Peak):
        return found
    return Peak(ops_per_s=found) if kind == "mds" else Peak(bytes_per_s=found)


def complete_class_peaks(cells: Cells, given: Peaks, busy_s: Floats | None = None) -> list[Peak]:
    """A peak for each of the components of `cells`: what is given, completed by what is learnt.

    Learnt is the 99th percentile of a component's active intervals, or what the best but one of its class reached,
    whichever is more. `busy_s`: by cell, seconds the device was busy: what it moved while busy is what it can do.
    """
    seconds = cells.axis.window_s
    rates = {"bytes_per_s": cells.bytes / seconds, "ops_per_s": cells.ops / seconds}
    if busy_s is not None:
        with np.errstate(invalid="ignore", divide="ignore"):
            while_busy = cells.bytes / busy_s
        rates["bytes_per_s"] = np.where(busy_s >= 0.02 * seconds, while_busy, rates["bytes_per_s"])
    if cells.kind != "mds":
        # Large requests say nothing of how many small ones there can be.
        rates["ops_per_s"] = np.where(_small(cells), rates["ops_per_s"], np.nan)
    own = {name: _quantiles(cells, values) for name, values in rates.items()}
    best = {name: _best_but_one(values) for name, values in own.items()}
    return [
        _peak(find_class_peak(given, cells.kind, who), {n: (own[n][i], best[n]) for n in own}, cells.kind)
        for i, who in enumerate(cells.names)
    ]


def _peak(told: Peak | None, learnt: dict[str, tuple[float, float]], kind: str) -> Peak:
    values: dict[str, float | None] = {}
    basis = LEARNT
    for name, (own, best) in learnt.items():
        known = [value for value in (own, best) if np.isfinite(value) and value > 0]
        values[name] = max(known) if known else None
        if known and not (np.isfinite(own) and own >= best):
            basis = CLASS
    if told is None:
        return Peak(**values, basis=basis)
    main = "ops_per_s" if kind == "mds" else "bytes_per_s"
    for name, learnt_value in values.items():
        value = getattr(told, name)
        if value is None or (told.basis != GIVEN and learnt_value is not None and learnt_value >= value):
            continue
        values[name] = value
        basis = told.basis if name == main else basis
    return Peak(**values, basis=basis)


def _quantiles(cells: Cells, values: Floats) -> Floats:
    """The high quantile of each component's active intervals; NaN with too few."""
    out = np.full(len(cells.names), np.nan)
    rows = np.flatnonzero(np.isfinite(values) & (values > 0))
    # Cells are in order of component.
    bounds = np.searchsorted(cells.component[rows], np.arange(len(out) + 1))
    for place in range(len(out)):
        mine = values[rows[bounds[place] : bounds[place + 1]]]
        if len(mine) >= LEAST_CELLS:
            out[place] = float(np.quantile(mine, PEAK_QUANTILE))
    return out


def _best_but_one(values: Floats) -> float:
    """The second largest of three and more, so that one wrong value sets no peak; the largest of fewer."""
    known = np.sort(values[np.isfinite(values)])
    if not len(known):
        return float("nan")
    return float(known[-2] if len(known) >= 3 else known[-1])


@dataclass(frozen=True)
class UsualTimes:
    """What a request usually takes, seconds, by the octave of its size; operations on metadata apart."""

    by_octave: Floats
    metadata_s: float

    def predict_s(self, cells: Cells) -> Floats:
        """What the requests of each cell would usually take, summed; NaN where that is not known."""
        data = cells.ops - np.nan_to_num(cells.metadata)
        each = self.by_octave[_octaves(cells.bytes, data)]
        took = np.where(data > 0, data * each, 0.0)
        return took + np.where(np.nan_to_num(cells.metadata) > 0, cells.metadata * self.metadata_s, 0.0)


def learn_class_times(parts: Cells) -> UsualTimes:
    """Learnt from what jobs' requests took at all components of a class: the lower quartile, so that a component or a
    job that is slow for long does not become what is usual; and never longer than larger requests take in proportion,
    so that a size which only one slow job uses does not either."""
    metadata = np.nan_to_num(parts.metadata)
    data = parts.ops - metadata
    known = np.isfinite(parts.busy_s) & (parts.busy_s > 0)
    octave = _octaves(parts.bytes, data)
    pure = known & (data > 0) & (metadata < 0.1 * data)
    out = np.full(_BINS, np.nan)
    for size in np.unique(octave[pure]).tolist():
        mine = pure & (octave == size)
        if int(mine.sum()) >= _LEAST_IN_BIN:
            out[size] = float(np.quantile(parts.busy_s[mine] / data[mine], 0.25))
    for size in range(_BINS - 2, -1, -1):
        out[size] = np.fmin(out[size], out[size + 1] / 2 + _PER_REQUEST_S)
    only = known & (data <= 0) & (metadata > 0)
    each = float(np.quantile(parts.busy_s[only] / metadata[only], 0.05)) if int(only.sum()) >= 3 else float("nan")
    return UsualTimes(out, each)


def _octaves(moved: Floats, ops: Floats) -> Ints:
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.where(ops > 0, np.nan_to_num(moved) / ops, 0.0)
    return np.clip(np.log2(np.maximum(size, 1.0)), 0, _BINS - 1).astype(np.int64)


def compute_class_peak_shares(cells: Cells, peaks: list[Peak]) -> Floats:
    """What each cell moved as a share of its component's peak: bytes, or of small requests operations where these are
    nearer to theirs. NaN where the peak that matters is not known: few bytes in small requests may be all it can."""
    seconds = cells.axis.window_s
    best = {
        name: np.array([getattr(peak, name) or np.nan for peak in peaks])[cells.component]
        for name in ("bytes_per_s", "ops_per_s")
    }
    by_bytes, by_ops = cells.bytes / seconds / best["bytes_per_s"], cells.ops / seconds / best["ops_per_s"]
    if cells.kind == "mds":
        return np.asarray(by_ops, np.float64)
    small = _small(cells)
    untold = small & np.isnan(by_ops) & (np.nan_to_num(by_bytes) < 0.5)
    return np.where(untold, np.nan, np.where(small, np.fmax(by_bytes, by_ops), by_bytes))


def _small(cells: Cells) -> Bools:
    """Cells of small requests. Where bytes are not counted, or nothing was done, they are not."""
    data = cells.ops - np.nan_to_num(cells.metadata)
    with np.errstate(invalid="ignore"):
        return np.asarray((cells.ops > 0) & ((cells.bytes < SMALL * data) | (data <= 0)), np.bool_)


def mark_steady_class_peaks(cells: Cells, active: Bools, steady: int) -> Bools:
    """Cells whose neighbours in time, `steady` to either side, are active, too."""
    if not active.any():
        return active
    count = cells.axis.count
    grid = np.zeros((max(len(cells.names), 1), count), np.bool_)
    grid[cells.component, cells.at] = active
    whole = grid.copy()
    for step in range(1, steady + 1):
        whole[:, step:] &= grid[:, :-step]
        whole[:, :step] = False
        whole[:, :-step] &= grid[:, step:]
        whole[:, -step:] = False
    return np.asarray(whole[cells.component, cells.at])


def find_nearby_peak_shares(cells: Cells, share: Floats, steady: int) -> Floats:
    """The largest share within `steady` intervals of each cell: what a component showed a moment before or after it
    could do, it can do. NaN stays."""
    grid = np.full((max(len(cells.names), 1), cells.axis.count), np.nan)
    grid[cells.component, cells.at] = share
    best = grid.copy()
    for step in range(1, steady + 1):
        best[:, step:] = np.fmax(best[:, step:], grid[:, :-step])
        best[:, :-step] = np.fmax(best[:, :-step], grid[:, step:])
    return np.where(np.isnan(share), np.nan, best[cells.component, cells.at])

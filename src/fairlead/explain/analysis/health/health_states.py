"""The state of every component in every window: ok, sick, idle or unknown, and why.

Pure. Below the known peak counts only while more is asked: otherwise the state is unknown, never sick. Not here: when
a component counts as asked (`demand`), what a run of windows amounts to (`watch`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fairlead.explain.analysis.component_flows import Axis, Bools, Floats, Ints
from fairlead.explain.analysis.health.demand import JudgedCells
from fairlead.explain.analysis.health.limits import HealthLimits
from fairlead.explain.analysis.health.peers import PeerComparison

OK, SICK, FLAPS, IDLE, UNKNOWN = range(5)
WORDS = ("ok", "sick", "sick", "idle", "unknown")
REASONS = (
    "",
    "below the limit while demand was higher",
    "no requests",
    "no data",
    "no requests were queued",
    "no peak is known",
    "its server is full",
    "this layer has no queue counter, and no job allows a comparison with peers",
    "all peers with requests are equally slow",
    "its canary is as fast as usual",
    "its canary is slow",
    "slower than its peers for the same job",
)
(_, LOW, NOTHING, UNCOUNTED, UNQUEUED, PEAKLESS, FULL, SILENT, ALIKE, CANARY_OK, CANARY_SLOW, PEERS) = range(12)

STATES = pa.schema(
    [
        ("ts_ns", pa.int64()),
        ("interval_ns", pa.int64()),
        ("layer", pa.string()),
        ("component", pa.string()),
        ("state", pa.string()),
        ("why", pa.string()),
        ("share_of_peak", pa.float64()),
        ("measured", pa.float64()),
    ]
)
"""States as a table: one row a component and window. `share_of_peak` and `measured` (bytes/s; MDS: operations/s) are
of the time in which more was asked; null: it was not."""


@dataclass(frozen=True)
class Windows:
    """Arrays of (components, windows) of one kind. `share` and `measured` while more was asked, `first` and `last`:
    intervals of the axis in which it was below the limit first and last (-1: never), `top` the largest share shown."""

    asked: JudgedCells
    compared: PeerComparison | None
    state: Ints
    why: Ints
    share: Floats
    measured: Floats
    first: Ints
    last: Ints
    top: Floats
    low: Ints
    """Intervals below the limit."""
    considered: Ints
    """Intervals in which more was asked and a share is known."""
    hidden: frozenset[int] = frozenset()
    """Components told of by another name: the devices of targets."""

    @property
    def sick(self) -> Bools:
        """Windows in which a component was sick, throughout or on and off."""
        return np.asarray((self.state == SICK) | (self.state == FLAPS), np.bool_)


def judge_health_states(
    found: JudgedCells, compared: PeerComparison | None, limits: HealthLimits, canary: Floats | None = None
) -> Windows:
    """States of one kind. `canary`: (components, windows) rate of canaries over what is usual for them, NaN without."""
    cells, axis = found.cells, found.cells.axis
    per = max(round(limits.window_s / axis.window_s), 1)
    shape = (len(cells.names), axis.count // per)
    place = cells.component * shape[1] + cells.at // per

    def many(rows: Bools) -> Ints:
        return np.bincount(place[rows], minlength=shape[0] * shape[1]).reshape(shape).astype(np.int64)

    known = np.isfinite(found.share)
    considered_cells = found.asked & known & ~found.full
    with np.errstate(invalid="ignore"):
        low_cells = considered_cells & (found.share < limits.share)
    seen, active, asked = many(np.ones(len(cells), np.bool_)), many(found.active), many(found.asked)
    considered, low, fair = many(considered_cells), many(low_cells), many(np.isfinite(found.fair))
    fewest = max(int(np.ceil(min(limits.asked_s, limits.window_s) / axis.window_s)), 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        part = low / considered
    enough = considered >= fewest
    sick = enough & (part >= limits.low_time)
    flaps = enough & ~sick & (part >= limits.flap_time) & (low >= fewest)
    ok = ~sick & ~flaps & ((enough & (part < limits.flap_time)) | (fair >= fewest))
    state = np.full(shape, UNKNOWN, np.int64)
    why = np.full(shape, UNQUEUED if found.queues_known else SILENT, np.int64)
    for rows, reason in (
        ((asked > 0) & (many(found.asked & ~known) > 0), PEAKLESS),
        (many(found.asked & found.full) > 0, FULL),
        ((seen > 0) & (active == 0), NOTHING),
        (seen == 0, UNCOUNTED),
    ):
        why[rows] = reason
    state[(seen > 0) & (active == 0)] = IDLE
    for rows, code, reason in ((ok, OK, 0), (sick, SICK, LOW), (flaps, FLAPS, LOW)):
        state[rows], why[rows] = code, reason
    share, measured = _means(found, considered_cells, place, shape)
    top = np.full(shape[0] * shape[1], -np.inf)
    np.maximum.at(top, place, np.nan_to_num(found.share, nan=-np.inf))
    if compared is not None:
        share = _by_peers(compared, found, (state, why, share), limits, np.asarray(top).reshape(shape))
    if canary is not None:
        _by_canary(canary, state, why, share, limits)
    _alike(state, why, limits)
    first, last = _edges(low_cells, cells.at, place, shape)
    return Windows(
        found, compared, state, why, share, measured, first, last, np.asarray(top).reshape(shape), low, considered
    )


def _means(found: JudgedCells, rows: Bools, place: Ints, shape: tuple[int, int]) -> tuple[Floats, Floats]:
    """Mean share of the peak, and mean bytes (or, where bytes are not counted, operations) a second."""
    cells = found.cells
    work = cells.ops if cells.kind == "mds" else cells.bytes
    count = np.bincount(place[rows], minlength=shape[0] * shape[1])
    out = []
    for values in (np.minimum(found.share, 1.0), np.nan_to_num(work) / cells.axis.window_s):
        total = np.bincount(place[rows], values[rows], shape[0] * shape[1])
        with np.errstate(invalid="ignore", divide="ignore"):
            out.append((total / count).reshape(shape))
    return out[0], out[1]


def _by_peers(
    compared: PeerComparison, found: JudgedCells, to: tuple[Ints, Ints, Floats], limits: HealthLimits, top: Floats
) -> Floats:
    """Where a layer tells no queue, jobs that found it slow and none that found it fine are the demand."""
    state, why, share = to
    if found.queues_known:
        return share
    silent = (state == UNKNOWN) | (state == IDLE)
    with np.errstate(invalid="ignore"):
        below = ~np.isfinite(top) | (top < limits.share)
        slow = silent & (compared.slow > 0) & (compared.fine == 0) & (compared.ratio < 1 / limits.peer_ratio) & below
        fine = silent & (compared.fine > 0) & (compared.slow == 0)
    state[slow], why[slow] = SICK, PEERS
    state[fine], why[fine] = OK, 0
    return np.where(slow & ~np.isfinite(share), compared.ratio, share)


def _by_canary(canary: Floats, state: Ints, why: Ints, share: Floats, limits: HealthLimits) -> None:
    """Where nothing else tells, the canary does."""
    silent = (state == UNKNOWN) | (state == IDLE)
    with np.errstate(invalid="ignore"):
        slow, fine = silent & (canary < limits.share), silent & (canary >= limits.share)
    state[slow], why[slow] = SICK, CANARY_SLOW
    state[fine], why[fine] = OK, CANARY_OK
    share[slow] = canary[slow]


def _alike(state: Ints, why: Ints, limits: HealthLimits) -> None:
    """A window in which nearly all that were asked are below the limit accuses none of them."""
    sick = (state == SICK) | (state == FLAPS)
    told = sick | (state == OK)
    many, of = sick.sum(axis=0), told.sum(axis=0)
    common = (of >= limits.alike_least) & (many > limits.alike * of)
    rows = sick & common[None, :]
    state[rows], why[rows] = UNKNOWN, ALIKE


def _edges(rows: Bools, at: Ints, place: Ints, shape: tuple[int, int]) -> tuple[Ints, Ints]:
    """First and last interval with a mark in each window."""
    many = shape[0] * shape[1]
    first, last = np.full(many, np.iinfo(np.int64).max), np.full(many, -1, np.int64)
    np.minimum.at(first, place[rows], at[rows])
    np.maximum.at(last, place[rows], at[rows])
    return np.where(last >= 0, first, -1).reshape(shape), last.reshape(shape)


def build_health_states_table(
    found: Mapping[str, Windows], axis: Axis, window_ns: int, layers: Mapping[str, str]
) -> pa.Table:
    """All windows as rows of STATES, in order of layer, component, time."""
    tables = []
    for kind, windows in sorted(found.items()):
        shown = [place for place in range(len(windows.state)) if place not in windows.hidden]
        names = [windows.asked.cells.names[place] for place in shown]
        many = windows.state.shape[1]
        rows = len(names) * many
        code, why, share, measured = (
            values[shown].ravel() for values in (windows.state, windows.why, windows.share, windows.measured)
        )
        tables.append(
            pa.table(
                [
                    pa.array(np.tile(axis.start_ns + np.arange(many) * window_ns, len(names))),
                    pa.array(np.full(rows, window_ns)),
                    pa.array([layers[kind]] * rows, pa.string()),
                    pa.array(np.repeat(np.array(names, object), many), pa.string()),
                    pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int32)), pa.array(WORDS)).cast(pa.string()),
                    pa.DictionaryArray.from_arrays(pa.array(why.astype(np.int32)), pa.array(REASONS)).cast(pa.string()),
                    pa.array(share, from_pandas=True),
                    pa.array(measured, from_pandas=True),
                ],
                schema=STATES,
            )
        )
    return pa.concat_tables(tables) if tables else STATES.empty_table()

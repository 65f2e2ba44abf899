"""Why a phase is called slow: the runs it is held against, in words. Not here: the judgement (`expected`)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.model.finding import Evidence
from fairlead.core.model.units import NS_PER_S, format_bandwidth, format_count, format_duration
from fairlead.core.safe_text import inert
from fairlead.explain.analysis.anomalies.expectation import JUDGING, Compared, compare
from fairlead.explain.analysis.anomalies.phase_arrays import rate_cells
from fairlead.explain.analysis.history.category import LADDER, NONE
from fairlead.explain.analysis.history.rate_bins import SILENT

MOST = 64
ENOUGH = 3
"""A rung with so many others is shown, else the first with any."""
_DONE = {"read": "read", "write": "wrote", "metadata": "made metadata operations"}
LEAST_STILL = 0.2
"""Silence is told of when it fills this share of a phase and far less of others."""
TWO_SPEEDS_BINS = 12
"""Fast and slow parts of a phase, so many bins (1.5 doublings) or more apart, are told of."""


def explained(phases: pa.Table, history: pa.Table, row: int, *, batch: bool = False) -> list[Evidence]:
    """Evidence of what `phases[row]` got against the rows of `history` it may be compared with (those earlier than it
    or, with `batch`, any); empty where there are none."""
    one = phases.slice(row, 1)
    compared = compare(one, history)
    if compared is None or not compared.mine.known[0]:
        return []
    chosen, rung = _others(compared, batch)
    if rung < 0:
        return []
    rates = np.exp2(compared.others.rate[chosen])
    low, middle, high = np.quantile(rates, (0.1, 0.5, 0.9)).tolist()
    mine = float(compared.mine.amount[0] / compared.mine.active_s[0])
    kind = str(one["kind"][0].as_py())
    runs = len(np.unique(compared.others.job[chosen]))
    span = _rate(kind, low) if _rate(kind, low) == _rate(kind, high) else f"{_rate(kind, low)} to {_rate(kind, high)}"
    found = [
        Evidence(
            text=f"{runs} {'earlier ' if not batch else ''}run{'s' if runs != 1 else ''} of {_whom(one, rung)} "
            f"{_DONE.get(kind, kind)} at {span}; this one at {_rate(kind, mine)}",
            metric="rate_per_s",
            value=mine,
            unit="operations/s" if kind == "metadata" else "B/s",
        ),
        Evidence(
            text=f"usual rate {_rate(kind, middle)}",
            metric="usual_rate_per_s",
            value=middle,
            unit="operations/s" if kind == "metadata" else "B/s",
        ),
        Evidence(text=f"compared by: {LADDER[rung].name}", metric="rung", value=rung),
    ]
    return found + _request(compared, chosen) + _still(compared, chosen) + _two_speeds(one)


def _others(compared: Compared, batch: bool) -> tuple[NDArray[np.int64], int]:
    """Rows of the history nearest in time on the first rung that has enough, and that rung; -1 for none."""
    others, mine = compared.others, compared.mine
    allowed = others.job != mine.job[0]
    if not batch:
        allowed &= others.start_ns < mine.start_ns[0]
    best, rung = np.zeros(0, np.int64), -1
    for k in range(JUDGING + 1):
        code = compared.my[k, 0]
        if code == NONE:
            continue
        found = np.flatnonzero(allowed & (compared.theirs[k] == code))
        if len(found) and (rung < 0 or len(found) >= ENOUGH):
            best, rung = found, k
        if len(found) >= ENOUGH:
            break
    near = np.argsort(np.abs(others.start_ns[best] - mine.start_ns[0]), kind="stable")[:MOST]
    return best[near], rung


def _rate(kind: str, value: float) -> str:
    return f"{format_count(value)}/s" if kind == "metadata" else format_bandwidth(value)


def _whom(one: pa.Table, rung: int) -> str:
    fields = LADDER[rung].fields
    program = one["program"][0].as_py()
    if "program" not in fields:
        return "alike I/O of this user"
    text = f"{inert(str(program))}" if "user" not in fields else f"this user's {inert(str(program))}"
    nodes = one["nodes_count"][0].as_py()
    if "scale" in fields and nodes is not None:
        text += f" on about {nodes} node{'s' if nodes != 1 else ''}"
    return text


def _request(compared: Compared, chosen: NDArray[np.int64]) -> list[Evidence]:
    """Whether it asked in another size than usual: that is its own doing."""
    mine, usual = float(compared.mine.request[0]), compared.others.request[chosen]
    usual = usual[np.isfinite(usual)]
    if not np.isfinite(mine) or not len(usual):
        return []
    middle = float(np.median(usual))
    if 0.5 < mine / middle < 2.0:
        return []
    text = f"its requests were {format_count(mine)} B in the mean, usually they are {format_count(middle)} B"
    return [Evidence(text=text, metric="request_bytes", value=mine, unit="B")]


def _still(compared: Compared, chosen: NDArray[np.int64]) -> list[Evidence]:
    """Whether it stood still for much of its time, as others did not."""

    def share(silent: float, active: float) -> float:
        return silent / (silent + active)

    mine = share(float(compared.mine.silent_s[0]), float(compared.mine.active_s[0]))
    silent, active = compared.others.silent_s[chosen], compared.others.active_s[chosen]
    usual = float(np.median(silent / (silent + active)))
    if not mine >= LEAST_STILL or mine < 2.0 * usual:
        return []
    seconds = format_duration(float(compared.mine.silent_s[0]))
    return [Evidence(text=f"nothing moved for {seconds} of it", metric="silent_share", value=mine)]


def _two_speeds(one: pa.Table) -> list[Evidence]:
    """Whether its rate changed in between: part of the time far slower than the rest."""
    bins, times, _ = rate_cells(one)
    moving = bins != SILENT
    bins, times = bins[moving], times[moving]
    if len(bins) < 2:
        return []
    order = np.argsort(bins)
    bins, times = bins[order], times[order]
    gap = int(np.argmax(np.diff(bins)))
    slow, whole = float(times[: gap + 1].sum()), float(times.sum())
    if bins[gap + 1] - bins[gap] < TWO_SPEEDS_BINS or not 0.1 <= slow / whole <= 0.9:
        return []
    factor = 2.0 ** (
        float(np.average(bins[gap + 1 :], weights=times[gap + 1 :])) / 8
        - float(np.average(bins[: gap + 1], weights=times[: gap + 1])) / 8
    )
    text = f"for {format_duration(slow / NS_PER_S)} of {format_duration(whole / NS_PER_S)} it was {factor:.1f}x slower"
    return [Evidence(text=f"{text} than in the rest", metric="slow_part_s", value=slow / NS_PER_S, unit="s")]

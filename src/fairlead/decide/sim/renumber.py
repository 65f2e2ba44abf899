"""A running engine's state without what has ended: flows and phases are renumbered in their order, no more.

Not here: when that is worth while (`engine`, `replay`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.decide.sim.state import WIDTH, State

I64 = NDArray[np.int64]


def renumber_state(s: State, blank: State, flows: int, phases: int) -> tuple[State, int, I64]:
    """`s` of so many flows and phases moved into `blank`, which has room. The new state, the flows it has, and the new
    number of each phase (phases,), -1 of those that ended. Order is kept, so what follows is the same to the bit."""
    phase_stays = np.isnan(s.phase_ended[:phases])
    flow_stays = phase_stays[s.phase[:flows]]
    phase_at = _numbers(phase_stays)
    flow_at = _numbers(flow_stays)
    kept_p, kept_f = np.flatnonzero(phase_stays), np.flatnonzero(flow_stays)
    p, f = len(kept_p), len(kept_f)
    for name in (
        "crosses",
        "cost",
        "weight",
        "cap",
        "left",
        "rate",
        "since",
        "bottleneck",
        "begun",
        "ended",
        "due_key",
        "due_at",
    ):
        getattr(blank, name)[:f] = getattr(s, name)[kept_f]
    for name in ("open_flows", "phase_begun", "phase_ended", "delay", "wake_key", "wake_at"):
        getattr(blank, name)[:p] = getattr(s, name)[kept_p]
    blank.phase[:f] = phase_at[s.phase[kept_f]]
    first_at = np.concatenate([[0], np.cumsum(flow_stays)])
    blank.first_flow[:p], blank.past_flow[:p] = first_at[s.first_flow[kept_p]], first_at[s.past_flow[kept_p]]
    for name in ("first_after", "next_after"):
        column = getattr(s, name)[kept_p]
        getattr(blank, name)[:p] = np.where(column >= 0, phase_at[column], -1)
    crossing = (kept_f[:, None] * WIDTH + np.arange(WIDTH)).ravel()
    for name in ("following", "preceding"):
        getattr(blank, name)[: f * WIDTH] = _moved(getattr(s, name)[crossing], flow_at)
    due, wake = int(s.counts[0]), int(s.counts[1])
    blank.due_heap[:due] = flow_at[s.due_heap[:due]]
    blank.wake_heap[:wake] = phase_at[s.wake_heap[:wake]]
    own: dict[str, Any] = {"head": _moved(s.head, flow_at)}
    for name in (
        "capacity",
        "used",
        "full",
        "members",
        "touched",
        "region_resources",
        "region_members",
        "residual",
        "weights",
        "change_time",
        "change_resource",
        "change_capacity",
        "now",
        "counts",
    ):
        own[name] = getattr(s, name)
    return blank._replace(**own), f, phase_at


def _numbers(stays: NDArray[np.bool_]) -> I64:
    return np.where(stays, np.cumsum(stays) - 1, -1).astype(np.int64)


def _moved(crossing: I64, flow_at: I64) -> I64:
    """Crossings (flow x WIDTH + place) by the flows' new numbers. What is linked has not ended; the rest is unread."""
    if not len(flow_at):
        return crossing
    moved = flow_at[np.maximum(crossing, 0) // WIDTH] * WIDTH + crossing % WIDTH
    return np.where(crossing >= 0, moved, -1).astype(np.int64)

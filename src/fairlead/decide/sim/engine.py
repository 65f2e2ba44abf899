"""The fluid engine: flows that cross several resources share them max-min fairly; events are exact in time.

The one contention model of the house. It knows resources and flows, no machine, no job and no policy: those describe
themselves to it (`platform`, `steps`). Times are seconds (float64) from an origin the caller chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairlead.core.errors import UsageError
from fairlead.decide.sim import state

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

WIDTH = 8
"""Resources one flow can cross."""
BY_CAP = -1
"""`bottleneck` of a flow that nothing held back but its own cap."""
_ROOM = 1 << 16


@dataclass(frozen=True)
class Changes:
    """Capacities over time: at `time_s[i]` the capacity of `resource[i]` becomes `capacity[i]`. Sorted by time."""

    time_s: F64 = field(default_factory=lambda: np.zeros(0))
    resource: I32 = field(default_factory=lambda: np.zeros(0, np.int32))
    capacity: F64 = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class Phases:
    """What is to run: phases, each a set of flows that start together; it ends with the last of them.

    Phases, P: `after` is the phase it follows (-1: none; see `Engine.add`), `delay_s`
    the seconds from that one's end (or from time 0) to its start. Flows, F, in order of `phase`: `amount` (bytes,
    operations), `weight` (share of what is contended), `cap` (amount/s it can reach by itself, inf: no limit),
    `crosses` (F, k ≤ 8) resources, -1 for none, each at most once, and `cost` (F, k): units of the resource for one of
    amount.
    """

    after: I32
    delay_s: F64
    phase: I32
    amount: F64
    weight: F64
    cap: F64
    crosses: I32
    cost: F64


def join_engine_phases(parts: Sequence[Phases]) -> Phases:
    """Phases that were given in several calls with `after_within`, with the numbers one engine gave them in turn."""
    counts = np.array([len(part.after) for part in parts], np.int64)
    first = np.cumsum(counts) - counts
    width = max((part.crosses.shape[1] for part in parts), default=1)
    none = np.zeros(0)

    def joined_of(name: str) -> F64:
        return np.concatenate([getattr(part, name) for part in parts]) if parts else none.copy()

    def wide(name: str, blank: float) -> list[NDArray[Any]]:
        columns = [getattr(part, name) for part in parts]
        return [np.pad(c, ((0, 0), (0, width - c.shape[1])), constant_values=blank) for c in columns]

    after = [np.where(part.after >= 0, part.after + at, -1) for part, at in zip(parts, first, strict=True)]
    phase = [part.phase + at for part, at in zip(parts, first, strict=True)]
    return Phases(
        after=np.concatenate([none, *after]).astype(np.int32),
        delay_s=joined_of("delay_s"),
        phase=np.concatenate([none, *phase]).astype(np.int32),
        amount=joined_of("amount"),
        weight=joined_of("weight"),
        cap=joined_of("cap"),
        crosses=np.concatenate([np.zeros((0, width)), *wide("crosses", -1)]).astype(np.int32),
        cost=np.concatenate([np.zeros((0, width)), *wide("cost", 0.0)]),
    )


@dataclass(frozen=True)
class Segments:
    """Rates over time: `flow` went at `rate` from `begin_s` to `end_s`, held back by the resource `bottleneck` (-1: by
    its own cap)."""

    flow: I32
    begin_s: F64
    end_s: F64
    rate: F64
    bottleneck: I32


class Engine:
    """Runs phases over resources.

    `capacity`: units/s of each resource (0: dead). Phases may be added while it runs, for times that have not passed.
    Deterministic: the same calls give the same bits.
    """

    def __init__(self, capacity: ArrayLike, changes: Changes | None = None) -> None:
        from fairlead.decide.sim import engine_kernel

        self._kernel = engine_kernel
        resources = np.array(capacity, np.float64)
        if not (resources >= 0).all():
            raise UsageError(
                "a capacity is negative or not a number", where="capacity", remedy="units a second, 0 or more"
            )
        changes = changes or Changes()
        _check_changes(changes, len(resources))
        self._resources = len(resources)
        self._flows = self._phases = 0
        blank: dict[str, Any] = {
            name: np.zeros((0, WIDTH) if name in ("crosses", "cost") else 0, kind) for name, kind in _KINDS.items()
        }
        blank |= {
            "capacity": resources,
            "change_time": changes.time_s.astype(np.float64),
            "change_resource": changes.resource.astype(np.int32),
            "change_capacity": changes.capacity.astype(np.float64),
            "now": np.zeros(1),
            "counts": np.zeros(6, np.int64),
        }
        for name, (kind, value) in _PER_RESOURCE.items():
            blank[name] = np.full(len(resources), value, kind)
        self._state = state.State(**blank)
        self._unwritten = state.Segments(
            np.zeros(0, np.int32), np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0, np.int32)
        )
        self._grow(64, 64)

    @property
    def now_s(self) -> float:
        """How far it has run."""
        return float(self._state.now[0])

    @property
    def events(self) -> int:
        """Arrivals and ends of flows and phases, and capacity changes, so far."""
        return int(self._state.counts[state.EVENTS])

    def read_rates(self) -> F64:
        """Rate of each flow now (0: not begun or ended)."""
        return np.maximum(self._state.rate[: self._flows], 0.0)

    def read_times(self) -> tuple[F64, F64]:
        """Start and end of each flow, seconds; NaN where it has not come to that."""
        return self._state.begun[: self._flows].copy(), self._state.ended[: self._flows].copy()

    def list_phase_times(self) -> tuple[F64, F64]:
        """Start and end of each phase, seconds; NaN where it has not come to that."""
        return self._state.phase_begun[: self._phases].copy(), self._state.phase_ended[: self._phases].copy()

    def add(self, phases: Phases, *, after_within: bool = False) -> tuple[int, int]:
        """Take phases in; the numbers its first phase and its first flow were given. Raises UsageError.

        `after` means phases by the engine's numbers or, with `after_within`, by their places in this call.
        """
        self._check(phases, 0 if after_within else self._phases)
        first_phase, first_flow = self._phases, self._flows
        p, f = len(phases.after), len(phases.phase)
        self._grow(first_phase + p, first_flow + f)
        self._phases += p
        self._flows += f
        s = self._state
        flows, own = slice(first_flow, first_flow + f), slice(first_phase, first_phase + p)
        width = phases.crosses.shape[1] if f else 0
        s.crosses[flows, :width] = phases.crosses
        s.cost[flows, :width] = phases.cost
        s.weight[flows], s.cap[flows], s.left[flows] = phases.weight, phases.cap, phases.amount
        s.phase[flows] = phases.phase + first_phase
        bounds = np.searchsorted(phases.phase, np.arange(p + 1))
        s.first_flow[own], s.past_flow[own] = bounds[:-1] + first_flow, bounds[1:] + first_flow
        s.open_flows[own] = np.diff(bounds)
        s.delay[own] = phases.delay_s
        after = np.asarray(phases.after, np.int64)
        self._kernel.append_engine_phases(
            s, first_phase, np.where(after >= 0, after + first_phase, -1) if after_within else after
        )
        return first_phase, first_flow

    def open(self, phases: int, flows: int) -> tuple[int, int]:
        """Counts in so many phases and flows that a compiled loop beside lays out in `state` itself, and makes room for
        them. The number of the first phase and of the first flow."""
        first = self._phases, self._flows
        self._grow(first[0] + phases, first[1] + flows)
        self._phases += phases
        self._flows += flows
        return first

    @property
    def state(self) -> state.State:
        """The columns as they are now; others after `add`, `open` or `forget_ended`."""
        return self._state

    @property
    def room(self) -> tuple[int, int]:
        """Phases and flows that can be opened before columns grow."""
        return len(self._state.delay) - self._phases, len(self._state.weight) - self._flows

    @property
    def size(self) -> tuple[int, int]:
        """Phases and flows it has."""
        return self._phases, self._flows

    def grow(self, phases: int, flows: int) -> None:
        """Room for at least so many in all."""
        self._grow(phases, flows)

    def forget_ended(self) -> I64:
        """Drops phases that ended, with their flows, and renumbers the rest in order: what follows is the same to the
        bit. The new number of each phase, -1 of those dropped. Nothing may be added after one of those."""
        from fairlead.decide.sim.renumber import renumber_state

        old, flows, phases = self._state, self._flows, self._phases
        self._state = old._replace(**{name: getattr(old, name)[:0] for name in _SIZED})
        self._grow(len(old.delay), len(old.weight))
        self._state, self._flows, phase_at = renumber_state(old, self._state, flows, phases)
        self._phases = int((phase_at >= 0).sum())
        return phase_at

    def advance(self, until_s: float) -> None:
        """`run` to a time that is finite, with nothing written down: cheap enough to be called at every arrival."""
        self._kernel.advance_engine(self._state, until_s, self._unwritten, False)

    def run(self, until_s: float = np.inf, *, record: bool = False) -> Segments:
        """Run to `until_s`, or to the end. With `record`, the rates on the way (of flows still running: up to the last
        change of their rate; `pending` has the rest).

        Without an end, flows that a dead resource holds back never end: the run stops where nothing else happens.
        """
        kernel, s = self._kernel, self._state
        kept: list[Segments] = []
        room = max(_ROOM, 4 * int(s.counts[state.DUE]) + 4 * self._flows + 16) if record else 1
        while True:
            stop = min(until_s, self._last_event()) if np.isinf(until_s) else until_s
            out = state.Segments(
                np.empty(room, np.int32), np.empty(room), np.empty(room), np.empty(room), np.empty(room, np.int32)
            )
            before = self.events
            written = int(kernel.advance_engine(s, stop, out, record))
            if written:
                kept.append(Segments(*(column[:written].copy() for column in out)))  # type: ignore[arg-type]
            if record and s.now[0] < stop:
                continue
            if not np.isinf(until_s) or (self.events == before and np.isinf(self._next_event())):
                return join_engine_segments(kept)

    def _next_event(self) -> float:
        s = self._state
        due = s.due_key[s.due_heap[0]] if s.counts[state.DUE] else np.inf
        wake = s.wake_key[s.wake_heap[0]] if s.counts[state.WAKE] else np.inf
        done = s.counts[state.CHANGE]
        change = s.change_time[done] if done < len(s.change_time) else np.inf
        return float(min(due, wake, change))

    def _last_event(self) -> float:
        """A time that is finite: how far to run when there is no end."""
        upcoming = self._next_event()
        return self.now_s if np.isinf(upcoming) else max(upcoming, self.now_s) * 2.0 + 1.0

    def list_pending(self) -> Segments:
        """The segments that flows running now are in the middle of."""
        s = self._state
        going = np.flatnonzero((s.due_at[: self._flows] >= 0) & (s.since[: self._flows] < self.now_s))
        return Segments(
            going.astype(np.int32),
            s.since[going],
            np.full(len(going), self.now_s),
            np.maximum(s.rate[going], 0.0),
            s.bottleneck[going],
        )

    def _check(self, phases: Phases, before: int) -> None:
        f = len(phases.phase)
        sound = (
            (phases.crosses.ndim == 2 and phases.crosses.shape == phases.cost.shape and len(phases.crosses) == f)
            and (f == 0 or phases.crosses.shape[1] <= WIDTH)
            and all(len(column) == f for column in (phases.amount, phases.weight, phases.cap))
            and len(phases.after) == len(phases.delay_s)
        )
        if not sound:
            raise UsageError(
                "columns of flows or phases differ in length", remedy="see fairlead.decide.sim.engine.Phases"
            )
        if len(phases.after) and int(phases.after.max()) >= before + len(phases.after):
            raise UsageError(
                "a phase follows one that does not exist", where="after", remedy="-1, or the number of a phase"
            )
        if not (phases.delay_s > -np.inf).all() or np.isinf(phases.delay_s).any():
            raise UsageError("the delay of a phase is not a number of seconds", where="delay_s", remedy="seconds")
        if not f:
            return
        crossed = phases.crosses >= 0
        holes = (crossed[:, 1:] & ~crossed[:, :-1]).any() if crossed.shape[1] > 1 else False
        bad = (
            holes
            or (np.diff(phases.phase) < 0).any()
            or int(phases.phase[0]) < 0
            or int(phases.phase[-1]) >= len(phases.after)
            or int(phases.crosses.max(initial=-1)) >= self._resources
            or not (phases.cost[crossed] > 0).all()
            or not (phases.weight > 0).all()
            or not (phases.amount >= 0).all()
            or not (phases.cap > 0).all()
            or (np.isinf(phases.cap) & ~crossed.any(axis=1)).any()
            or _twice(phases.crosses)
        )
        if bad:
            raise UsageError(
                "a flow without order, weight or limit, or over a resource that does not exist or is named twice",
                remedy="see fairlead.decide.sim.engine.Phases",
            )

    def _grow(self, phases: int, flows: int) -> None:
        """Room for that many, doubled so that adding one by one costs little."""
        s = self._state
        grown: dict[str, Any] = {}
        have_f, have_p = len(s.weight), len(s.delay)
        want_f = have_f if flows <= have_f else max(flows, 2 * have_f)
        want_p = have_p if phases <= have_p else max(phases, 2 * have_p)
        if (want_f, want_p) == (have_f, have_p):
            return
        for name, (kind, value, per) in _SIZED.items():
            old = getattr(s, name)
            length = {"f": want_f, "p": want_p, "fk": want_f * WIDTH, "fr": want_f + self._resources}[per]
            shape = (length, WIDTH) if name in ("crosses", "cost") else length
            new: Any = np.full(shape, value, kind)
            new[: len(old)] = old
            grown[name] = new
        self._state = s._replace(**grown)


_PER_RESOURCE: dict[str, tuple[type, Any]] = {
    "used": (np.float64, 0.0),
    "full": (np.bool_, False),
    "head": (np.int64, -1),
    "members": (np.int32, 0),
    "touched": (np.int64, -1),
    "region_resources": (np.int32, 0),
    "region_members": (np.int32, 0),
    "residual": (np.float64, 0.0),
    "weights": (np.float64, 0.0),
}
_SIZED: dict[str, tuple[type, Any, str]] = {
    "crosses": (np.int32, -1, "f"),
    "cost": (np.float64, 0.0, "f"),
    "weight": (np.float64, 1.0, "f"),
    "cap": (np.float64, np.inf, "f"),
    "left": (np.float64, 0.0, "f"),
    "rate": (np.float64, 0.0, "f"),
    "since": (np.float64, np.inf, "f"),
    "bottleneck": (np.int32, -2, "f"),
    "phase": (np.int32, -1, "f"),
    "following": (np.int64, -1, "fk"),
    "preceding": (np.int64, -1, "fk"),
    "begun": (np.float64, np.nan, "f"),
    "ended": (np.float64, np.nan, "f"),
    "due_key": (np.float64, np.inf, "f"),
    "due_heap": (np.int32, -1, "f"),
    "due_at": (np.int32, -1, "f"),
    "first_flow": (np.int64, 0, "p"),
    "past_flow": (np.int64, 0, "p"),
    "open_flows": (np.int64, 0, "p"),
    "phase_begun": (np.float64, np.nan, "p"),
    "phase_ended": (np.float64, np.nan, "p"),
    "delay": (np.float64, 0.0, "p"),
    "first_after": (np.int32, -1, "p"),
    "next_after": (np.int32, -1, "p"),
    "wake_key": (np.float64, np.inf, "p"),
    "wake_heap": (np.int32, -1, "p"),
    "wake_at": (np.int32, -1, "p"),
    "in_region": (np.int64, -1, "f"),
    "region": (np.int32, 0, "f"),
    "new_rate": (np.float64, 0.0, "f"),
    "new_bottleneck": (np.int32, -2, "f"),
    "fill_key": (np.float64, 0.0, "fr"),
    "fill_heap": (np.int32, 0, "fr"),
    "fill_at": (np.int32, 0, "fr"),
}
"""Columns of flows (f), phases (p), crossings (fk), flows and resources (fr): kind and what a new entry holds."""
_KINDS: dict[str, type] = {name: kind for name, (kind, _, _) in _SIZED.items()}


def _twice(crosses: I32) -> bool:
    """Whether a flow crosses a resource twice."""
    width = crosses.shape[1]
    return any(
        bool(((crosses[:, k] == crosses[:, j]) & (crosses[:, j] >= 0)).any()) for k in range(width) for j in range(k)
    )


def _check_changes(changes: Changes, resources: int) -> None:
    sound = (
        len(changes.time_s) == len(changes.resource) == len(changes.capacity)
        and not bool(np.isnan(changes.time_s).any())
        and bool((np.diff(changes.time_s) >= 0).all())
        and bool((changes.capacity >= 0).all())
        and int(changes.resource.max(initial=-1)) < resources
        and int(changes.resource.min(initial=0)) >= 0
    )
    if not sound:
        raise UsageError("capacity changes out of order or of an unknown resource", remedy="sort them by time")


def join_engine_segments(parts: Sequence[Segments]) -> Segments:
    """Segments of several runs as one."""
    if len(parts) == 1:
        return parts[0]
    none = np.zeros(0)
    if not parts:
        return Segments(none.astype(np.int32), none, none.copy(), none.copy(), none.astype(np.int32))
    return Segments(
        *(
            np.concatenate([getattr(p, name) for p in parts])
            for name in ("flow", "begin_s", "end_s", "rate", "bottleneck")
        )
    )


def compute_max_min_rates(
    capacity: ArrayLike,
    crosses: ArrayLike,
    *,
    cost: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    cap: ArrayLike | None = None,
) -> F64:
    """The max-min fair rate of flows that all run now. Arguments as of `Phases`; cost and weight default to 1."""
    over = np.asarray(crosses, np.int32)
    n = len(over)
    engine = Engine(capacity)
    engine.add(
        Phases(
            after=np.full(1, -1, np.int32),
            delay_s=np.zeros(1),
            phase=np.zeros(n, np.int32),
            amount=np.full(n, 1.0),
            weight=np.ones(n) if weight is None else np.asarray(weight, np.float64),
            cap=np.full(n, np.inf) if cap is None else np.asarray(cap, np.float64),
            crosses=over,
            cost=np.ones(over.shape) if cost is None else np.asarray(cost, np.float64),
        )
    )
    engine.run(0.0)
    return engine.read_rates()

"""Applications in cycles of computing and I/O, what they are granted, and what came of it.

Not here: how grants are made. A grant comes in as resources and work.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Cycles:
    """K applications. Of the P phases those of application i are `first_phase[i]` to `first_phase[i + 1]` (K + 1);
    `compute_s` (P,) goes before `share` (P,), the part of the application's I/O that the phase moves. `start_s` (K,):
    when the first phase begins. `repeat`: after the last phase the first comes again; else the application ends.
    `skip_s` (K,): seconds of the first computing that are already over.
    """

    first_phase: I64
    compute_s: F64
    share: F64
    start_s: F64
    skip_s: F64
    repeat: bool = True

    @staticmethod
    def build_equal(phases: object, compute_s: object, *, skip_s: object = None, repeat: bool = True) -> Cycles:
        """Applications of `phases` (K,) equal phases each, which compute `compute_s` (K,) seconds in all."""
        number = np.asarray(phases, np.int64)
        total = np.asarray(compute_s, np.float64)
        k = len(number)
        return Cycles(
            first_phase=np.concatenate([[0], np.cumsum(number)]),
            compute_s=np.repeat(total / number, number),
            share=np.repeat(1.0 / number, number),
            start_s=np.zeros(k),
            skip_s=np.zeros(k) if skip_s is None else np.asarray(skip_s, np.float64),
            repeat=repeat,
        )


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """How a resource is shared among transfers on it. Applications of the same `queue` (K,) are served one after the
    other, in order of arrival; queues that have work share the resource by the `weight` (Q,) of each.

    Each application its own queue with weight 1: equal shares. One queue: exclusive, first come first served. Queues
    by length of iteration with weights 10^-set: IO-SETS (Boito et al., TPDS 2023).
    """

    queue: I64
    weight: F64

    @staticmethod
    def share_equally(applications: int) -> Sharing:
        """Everyone the same share (the study's model)."""
        return Sharing(queue=np.arange(applications), weight=np.ones(applications))


@dataclass(frozen=True, kw_only=True)
class Speeds:
    """Speeds of resources over time: `initial` (N,), and from `time_s[i]` on (rising) `speed[i]` of `resource[i]`. 1 is
    sound, 0 serves nothing; background noise and failures come in this way."""

    initial: F64
    time_s: F64 = field(default_factory=lambda: np.zeros(0))
    resource: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    speed: F64 = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, kw_only=True)
class Window:
    """What is measured: from `from_s` to `until_s` (inf: until nothing happens any more, without `repeat`). `settled`:
    not before every application has completed a phase; `undisturbed`: only until the first application ends (without
    `repeat`): with both the study's own window. Where that is empty, `Outcome.window_s` is 0."""

    until_s: float
    from_s: float = 0.0
    settled: bool = False
    undisturbed: bool = False


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a run, in the window [from_s, until_s].

    By application (K,): `phases` that began and ended in it, `io_s` their seconds of I/O, `io_share` the parts of the
    application's I/O they moved, `waiting_s` seconds in which it did not compute, `end_s` when it ended (NaN: not). By
    resource (N,): `busy_s` with a transfer on it, whether it serves or is dead. `events` of the whole run. `log` (with
    `logged`): rows application, phase, begin, end of each I/O of the whole run.
    """

    from_s: float
    until_s: float
    phases: I64
    io_s: F64
    io_share: F64
    waiting_s: F64
    end_s: F64
    busy_s: F64
    events: int
    log: F64

    @property
    def window_s(self) -> float:
        """Seconds measured; 0 where nothing could be."""
        return max(self.until_s - self.from_s, 0.0)


def simulate_cycles(
    cycles: Cycles,
    resources: I64,
    work_s: F64,
    count: int,
    window: Window,
    *,
    sharing: Sharing | None = None,
    speeds: Speeds | None = None,
    logged: bool = False,
) -> Outcome:
    """Runs applications over `count` resources. `resources` (K, W): those of each, then -1 (none at all: its I/O takes
    `work_s` and meets nobody). `work_s` (K,): seconds all of its I/O takes alone on these, V / b(n). Raises UsageError.

    Exact: between two events shares are constant. O(log K) an event. Deterministic; of events at one time first the
    ends on resources by number, then the applications by number, then changes of speed.
    """
    from fairlead.decide.sim.cycles import cycle_kernel
    from fairlead.decide.sim.cycles.cycle_checks import check_cycles

    sharing = sharing or Sharing.share_equally(len(cycles.start_s))
    speeds = speeds or Speeds(initial=np.ones(count))
    check_cycles(cycles, resources, work_s, count, window, sharing, speeds)
    k = len(cycles.start_s)
    phases, io_s, io_share = np.zeros(k, np.int64), np.zeros(k), np.zeros(k)
    waiting_s, end_s, busy_s, span = np.zeros(k), np.full(k, np.nan), np.zeros(count), np.zeros(2)
    room = 1024 if logged else 0
    while True:
        for column in (phases, io_s, io_share, waiting_s, busy_s):
            column[:] = 0
        end_s[:] = np.nan
        log = np.empty((room, 4))
        events, written = cycle_kernel.run_cycle_kernel(
            _whole(cycles.first_phase),
            _real(cycles.compute_s),
            _real(cycles.share),
            _real(cycles.start_s),
            _real(cycles.skip_s),
            bool(cycles.repeat),
            _whole(resources),
            _real(work_s),
            _whole(sharing.queue),
            _real(sharing.weight),
            _real(speeds.initial),
            _real(speeds.time_s),
            _whole(speeds.resource),
            _real(speeds.speed),
            float(window.from_s),
            float(window.until_s),
            bool(window.settled),
            bool(window.undisturbed),
            phases,
            io_s,
            io_share,
            waiting_s,
            end_s,
            busy_s,
            span,
            log,
            bool(logged),
        )
        if written <= room:
            break
        room = written
    return Outcome(
        from_s=float(span[0]),
        until_s=float(span[1]),
        phases=phases,
        io_s=io_s,
        io_share=io_share,
        waiting_s=waiting_s,
        end_s=end_s,
        busy_s=busy_s,
        events=int(events),
        log=log[:written],
    )


def _real(column: object) -> F64:
    return np.ascontiguousarray(column, np.float64)


def _whole(column: object) -> I64:
    return np.ascontiguousarray(column, np.int64)

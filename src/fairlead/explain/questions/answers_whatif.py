"""What `fairlead whatif` answers. Everything under `scenarios` is simulated; `checks` says how far that can be trusted.

Null is *not known*, never zero.
"""

from __future__ import annotations

import msgspec

from fairlead.explain.questions.answers import Answer

SCHEMA = "fairlead.whatif/1"


class ChangedCost(Answer, frozen=True, kw_only=True):
    """A job, user or program that wins or loses: core-hours its cores wait for I/O, `before` as it was and `after`;
    `saved` is positive for who wins."""

    name: str
    user: str | None = None
    jobs: int = 1
    before_core_hours: float
    after_core_hours: float
    saved_core_hours: float
    before_s: float
    after_s: float


class Sides(Answer, frozen=True, kw_only=True):
    """Who wins and who loses, most first. `kind`: job, user or program; `won`, `lost`, `same` count all of them
    that the reader may see."""

    kind: str
    winners: list[ChangedCost] = msgspec.field(default_factory=list)
    losers: list[ChangedCost] = msgspec.field(default_factory=list)
    won: int | None = None
    lost: int | None = None
    same: int | None = None


class Scenario(Answer, frozen=True, kw_only=True):
    """One replay, simulated. `io_core_hours`: cores that wait while I/O goes on; `avoidable_core_hours`: those of it
    that no job would need alone with the best grant. `saved_*` against the replay of what was really active (null for
    that itself). Slowdowns: seconds in I/O over those alone. `busy_*`: share of time, mean and busiest component."""

    name: str
    policy: str
    forwarders: int
    targets: int
    io_core_hours: float
    avoidable_core_hours: float
    mean_slowdown: float | None
    p90_slowdown: float | None
    saved_core_hours: float | None = None
    saved_share: float | None = None
    saved_money: float | None = None
    busy_forwarders: float | None = None
    busiest_forwarder: float | None = None
    busy_targets: float | None = None
    busiest_target: float | None = None
    sides: list[Sides] = msgspec.field(default_factory=list)


class BasisLine(Answer, frozen=True, kw_only=True):
    """How well curves are known: `own` runs, runs of the same `class`, or the `machine`'s defaults."""

    basis: str
    jobs: int
    job_share: float
    volume_share: float


class Check(Answer, frozen=True, kw_only=True):
    """A replay held against what was measured. Errors of a job's seconds in I/O are relative, of `compared` jobs that
    were at least a second in I/O; `bias`: the median of replayed over measured. `run_time_*`: of the whole run."""

    name: str
    jobs: int
    compared: int
    measured_core_hours: float
    replayed_core_hours: float
    total_error: float | None
    bias: float | None
    error_p50: float | None
    error_p90: float | None
    run_time_error_p50: float | None
    run_time_error_p90: float | None


class HeldOut(Answer, frozen=True, kw_only=True):
    """A change of the map that the replay had to foresee: curves from the `learnt` jobs before `at_ns` only, then the
    jobs after it under the new map (`check`). `as_before_core_hours`: the same jobs as if nothing had changed."""

    at_ns: int
    nodes_changed: int
    nodes: int
    learnt: int
    check: Check
    as_before_core_hours: float


class DroppedLine(Answer, frozen=True, kw_only=True):
    """What was left out, and why."""

    why: str
    count: int
    of: str


class LayerLine(Answer, frozen=True, kw_only=True):
    """Components of a layer of the machine replayed. `basis` of `peak`: told (site file), seen (highest rates),
    assumed. `unit`: bytes/s or operations/s."""

    kind: str
    count: int
    peak: float | None
    basis: str
    unit: str


class WhatIf(Answer, frozen=True, kw_only=True):
    """The answer. `scenarios[0]` is what was really active; `best` the place of the one that saves most."""

    schema: str = SCHEMA
    from_ns: int
    to_ns: int
    headline: str
    simulated: bool = True
    jobs: int
    quiet_jobs: int
    running_jobs: int
    core_hours: float
    price_per_core_hour: float | None
    best: int | None
    scenarios: list[Scenario]
    confidence: list[BasisLine]
    checks: list[Check]
    held_out: HeldOut | None = None
    dropped: list[DroppedLine] = msgspec.field(default_factory=list)
    layers: list[LayerLine] = msgspec.field(default_factory=list)
    missing: list[str] = msgspec.field(default_factory=list)
    hidden: bool = False

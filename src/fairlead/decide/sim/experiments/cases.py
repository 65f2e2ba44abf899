"""Sets of applications of an experiment, run under its policies: a set in, one row of measures a policy out.

Every set has its own seed, and every policy its own stream: results depend on nothing else that is run. Not here: which
sets, in which process (`pieces`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fairlead.core.errors import UsageError
from fairlead.core.model.site import Layer
from fairlead.decide.policies.allocation.contract import Applications, Decision, Policy, build_allocation_pool
from fairlead.decide.policies.requests.fluid_limits import Streams
from fairlead.decide.policies.requests.fluid_limits import build_fluid_sharing as fluid_limit
from fairlead.decide.sim.cycles.cycle_measures import Measures, compute_cycle_measures
from fairlead.decide.sim.cycles.cycle_model import Cycles, Outcome, simulate_cycles
from fairlead.decide.sim.cycles.cycle_model import Sharing as Shares
from fairlead.decide.sim.cycles.cycle_model import Window as Measured
from fairlead.decide.sim.experiments.disturbances import compute_disturbance_speeds
from fairlead.decide.sim.experiments.experiment_spec import (
    Degradation,
    Experiment,
    Faults,
    ListedWorkload,
    Machine,
    Noise,
    PublishedWorkload,
    Sharing,
    Window,
)
from fairlead.decide.sim.experiments.replay_spec import OwnPast, Replay, Swf, Table
from fairlead.decide.sim.workloads.profiles import BEHAVIOURS, Profiles, read_forge_profiles
from fairlead.decide.sim.workloads.published_sets import DrawnSet, draw_published_set

F64 = NDArray[np.float64]
MODEL = 1
"""Raised when the same spec would give other results: what was simulated before is then not taken for the same."""
MEASURES: dict[str, str] = {
    "slowdown_mean": "mean I/O slowdown",
    "slowdown_max": "largest I/O slowdown",
    "slowdown_p10": "slowdown, 10th percentile",
    "slowdown_p50": "slowdown, median",
    "slowdown_p90": "slowdown, 90th percentile",
    "granted_mean": "slowdown by what is granted",
    "contention_mean": "slowdown by contention",
    "idle": "machine idle time",
    "core_hours_lost": "core-hours idle in I/O",
    "occupancy_mean": "mean occupancy of resources",
    "spread": "spread of occupancy",
    "stretch_mean": "mean stretch of a cycle",
    "fairness": "Jain's index of 1 / slowdown",
    "resources_mean": "resources an application is granted",
}
"""What can be drawn, and what it is called on an axis."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """All that decides results besides the point, the set and the policy: experiments of one case share their runs."""

    workload: PublishedWorkload | ListedWorkload | Replay
    machine: Machine
    window: Window
    sharing: Sharing
    noise: Noise
    faults: Faults
    degraded: list[Degradation]
    seed: int
    model: int = MODEL

    @property
    def digest(self) -> str:
        """Its name in results. Where the jobs of a replay lie is no part of it: what is in them is."""
        told = self
        if isinstance(self.workload, OwnPast):
            told = msgspec.structs.replace(self, workload=msgspec.structs.replace(self.workload, lake="", site=""))
        elif isinstance(self.workload, Swf | Table):
            told = msgspec.structs.replace(self, workload=msgspec.structs.replace(self.workload, path=""))
        return blake2b(msgspec.json.encode(told, order="deterministic"), digest_size=8).hexdigest()


def build_case(experiment: Experiment) -> Case:
    """The case of an experiment. Which loads and how many applications are wanted is no part of it."""
    workload = experiment.workload
    if isinstance(workload, PublishedWorkload):
        workload = msgspec.structs.replace(workload, applications=(), loads=())
    return Case(
        workload=workload,
        machine=experiment.machine,
        window=experiment.window,
        sharing=experiment.sharing,
        noise=experiment.noise,
        faults=experiment.faults,
        degraded=experiment.degraded,
        seed=experiment.seed,
    )


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one set under one policy. `load`: theta (None where the workload is written down), `load_sys`:
    load(pi_sys), None of a replay. Measures as `MEASURES`, None where nothing could be measured; `class_slowdown` by
    BEHAVIOURS."""

    case_id: str
    seed: int
    window: str
    applications: int
    load: float | None
    set_number: int
    policy: str
    information: str
    load_sys: float | None
    slowdown_mean: float | None
    slowdown_max: float | None
    slowdown_p10: float | None
    slowdown_p50: float | None
    slowdown_p90: float | None
    granted_mean: float | None
    contention_mean: float | None
    idle: float | None
    core_hours_lost: float | None
    occupancy_mean: float | None
    spread: float | None
    stretch_mean: float | None
    fairness: float | None
    resources_mean: float | None
    class_slowdown: list[float | None]
    unfinished: int
    window_s: float
    events: int


@dataclass(frozen=True, kw_only=True)
class PreparedSet:
    """One set, ready to be run: what policies may be told, what runs, on what."""

    known: dict[str, Applications]
    true: Applications
    cycles: Cycles
    pool: Layer
    load: float


def read_case_curves(workload: PublishedWorkload) -> Profiles:
    """The curves a published workload draws from."""
    if workload.profiles == "osts":
        from fairlead.decide.sim.workloads.profiles import draw_ost_profiles

        return draw_ost_profiles()
    return read_forge_profiles(workload.statistic)


def prepare_case_set(case: Case, applications: int, load: float | None, number: int) -> PreparedSet:
    """Set `number` (from 0) of a point. The same numbers give the same set."""
    machine = case.machine
    if isinstance(case.workload, ListedWorkload):
        return _listed(case, case.workload, number)
    if load is None:
        raise ValueError("a drawn workload needs a load")
    if not isinstance(case.workload, PublishedWorkload):
        raise TypeError("a replay has no sets of applications")
    profiles = read_case_curves(case.workload)
    seed = (case.seed, applications, round(load * 1_000_000), number)
    drawn: DrawnSet = draw_published_set(
        profiles, load, applications, seed, resources=machine.resources, cores=machine.cores
    )
    means = replace(drawn.applications, bandwidth=profiles.compute_class_means()[drawn.scenario])
    cycles = drawn.cycles if case.window.kind == "steady" else replace(drawn.cycles, repeat=False)
    return PreparedSet(
        known={"exact": drawn.applications, "class-mean": means},
        true=drawn.applications,
        cycles=cycles,
        pool=build_allocation_pool(machine.resources, machine.cores),
        load=drawn.load,
    )


def _listed(case: Case, workload: ListedWorkload, number: int) -> PreparedSet:
    rows = workload.rows
    rng = np.random.default_rng((case.seed, number))
    applications = Applications.from_columns(
        workload.counts,
        [one.bandwidth_bytes_per_s for one in rows],
        [one.volume_bytes for one in rows],
        [one.compute_s for one in rows],
        [one.cores for one in rows],
    )
    phases = np.array([one.phases for one in rows], np.int64)
    skip_s = rng.uniform(0.0, 1.0, len(rows)) * applications.compute_s / phases
    if number == 0:
        skip_s[:] = 0.0  # the first set begins as one: nothing of it is drawn
    cycles = Cycles.build_equal(phases, applications.compute_s, skip_s=skip_s, repeat=case.window.kind == "steady")
    least = applications.stress[np.arange(len(rows)), applications.least]
    return PreparedSet(
        known={"exact": applications},
        true=applications,
        cycles=cycles,
        pool=build_allocation_pool(case.machine.resources, case.machine.cores),
        load=float(least.sum() / case.machine.resources),
    )


def build_case_rows(
    case: Case, applications: int, load: float | None, number: int, wanted: Iterable[tuple[str, str, Policy]]
) -> Iterator[Row]:
    """A row of each (name, information, policy) wanted, of one set. Policies that decide alike are run once."""
    one = prepare_case_set(case, applications, load, number)
    digest = case.digest
    known: dict[bytes, tuple[Outcome, Measures, F64]] = {}
    for name, information, policy in wanted:
        decision = policy.decide(
            one.known[information], one.pool, build_case_stream(case.seed, applications, load, number, name)
        )
        mark = decision.choice.tobytes() + decision.resources.tobytes()
        if mark not in known:
            known[mark] = simulate_case_decision(
                case, one, decision, (case.seed, applications, round((load or 0) * 1e6), number)
            )
        outcome, measures, counts = known[mark]
        yield Row(
            case_id=digest,
            seed=case.seed,
            window=case.window.kind,
            applications=applications,
            load=load,
            set_number=number,
            policy=name,
            information=information,
            load_sys=one.load,
            **_told(outcome, measures, counts, one.true, case),
        )


def build_case_stream(
    seed: int, applications: int, load: float | None, number: int, policy: str
) -> np.random.Generator:
    """The random stream of a policy on a set: no policy moves another's."""
    word = int.from_bytes(blake2b(policy.encode(), digest_size=4).digest(), "big")
    return np.random.default_rng((seed, applications, round((load or 0.0) * 1_000_000), number, word))


def simulate_case_decision(
    case: Case, one: PreparedSet, decision: Decision, seed: tuple[int, ...], *, logged: bool = False
) -> tuple[Outcome, Measures, F64]:
    """A decision as it works out: the run, its measures, and how many resources each was granted (K,)."""
    true = one.true
    every = np.arange(len(true))
    counts = decision.count_granted(true).astype(np.float64)
    lost = (decision.choice < 0) & np.isnan(true.direct) & (true.volume > 0)
    if lost.any():
        raise UsageError(
            f"application {int(np.argmax(lost))} is granted nothing, and what it reaches straight is not known",
            where="policy",
            remedy="grant it a resource, or set `direct`",
        )
    granted = np.where(decision.choice < 0, true.volume / true.direct, true.time_s[every, decision.choice])
    work_s = np.where(true.volume > 0, granted, 0.0)
    window = case.window
    study = window.kind == "study"
    measured = Measured(
        until_s=window.until_s, from_s=0.0 if study else window.from_s, settled=study, undisturbed=study
    )
    disturbed = compute_disturbance_speeds(
        case.machine.resources, window.until_s, case.noise, case.faults, case.degraded, seed
    )
    outcome = simulate_cycles(
        one.cycles,
        decision.resources,
        work_s,
        case.machine.resources,
        measured,
        sharing=_build_sharing(case.sharing, one.cycles, work_s, true.compute_s),
        speeds=disturbed,
        logged=logged,
    )
    measures = compute_cycle_measures(
        outcome, true.time_s.min(axis=1), work_s, true.compute_s, true.cores, case.machine.cores
    )
    return outcome, measures, counts


def _build_sharing(sharing: Sharing, cycles: Cycles, work_s: F64, compute_s: F64) -> Shares | None:
    """How a resource is shared; None: equally. Else as the order of requests of that name in its fluid limit."""
    if sharing.kind == "equal":
        return None
    return fluid_limit(sharing.kind, Streams.build_alike((work_s + compute_s) / np.diff(cycles.first_phase)))


def _told(outcome: Outcome, measures: Measures, counts: F64, true: Applications, case: Case) -> dict[str, Any]:
    slow, behaviour = measures.slowdown, true.behaviour
    known = ~np.isnan(slow)
    some = bool(known.any())
    by_class = [
        drop_case_nan(float(slow[known & (behaviour == b)].mean())) if (known & (behaviour == b)).any() else None
        for b in range(len(BEHAVIOURS))
    ]
    at = np.percentile(slow[known], (10, 50, 90)) if some else np.full(3, np.nan)
    measured = outcome.window_s > 0
    lost = measures.idle * case.machine.cores * outcome.window_s / 3600.0
    return {
        "slowdown_mean": drop_case_nan(measures.mean),
        "slowdown_max": drop_case_nan(measures.longest),
        "slowdown_p10": drop_case_nan(float(at[0])),
        "slowdown_p50": drop_case_nan(float(at[1])),
        "slowdown_p90": drop_case_nan(float(at[2])),
        "granted_mean": drop_case_nan(float(measures.granted[known].mean())) if some else None,
        "contention_mean": drop_case_nan(float(measures.contention[known].mean())) if some else None,
        "idle": drop_case_nan(measures.idle),
        "core_hours_lost": drop_case_nan(lost),
        "occupancy_mean": drop_case_nan(float(measures.occupancy.mean())) if measured else None,
        "spread": drop_case_nan(measures.spread) if measured else None,
        "stretch_mean": drop_case_nan(float(measures.stretch[known].mean())) if some else None,
        "fairness": drop_case_nan(measures.fairness),
        "resources_mean": drop_case_nan(float(counts.mean())),
        "class_slowdown": by_class,
        "unfinished": measures.unfinished,
        "window_s": outcome.window_s,
        "events": outcome.events,
    }


def drop_case_nan(number: float) -> float | None:
    """A measure, None where there was nothing to measure."""
    return number if math.isfinite(number) else None

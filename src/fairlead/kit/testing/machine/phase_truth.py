"""What every phase of I/O of a play lost, and to whom: each phase against itself alone, and against the play without
each neighbour or fault that may have held it back.

In a counterfactual run every phase begins when it did, so that the difference is of this cause at this time, and not of
whom the victim met later for it. Not here: what a lake would know of it (`observed`), many plays (`season`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairlead.core.model.site import F64
from fairlead.decide.sim.engine import Engine, Phases
from fairlead.decide.sim.faults import Fault, build_fault_changes
from fairlead.decide.sim.steps import I64
from fairlead.kit.testing.machine.cause_words import choose_cause_word, list_cause_features
from fairlead.kit.testing.machine.course import DATA, LOCKS, OPS, Course, PlacedJob
from fairlead.kit.testing.machine.files import format_machine_job_id
from fairlead.kit.testing.machine.play import Play
from fairlead.kit.testing.machine.truth_labels import name_truth_component

LEAST_LOST_SHARE = 0.1
"""Causes are looked for when a phase lost more than this share of its ideal time ..."""
LEAST_LOST_S = 0.2
"""... and more than these seconds."""
MOST_SUSPECTS = 8
"""Jobs taken out one by one for one phase: those that used most of what held it back."""
ALONE_ENOUGH = 0.5
"""A cause that gives back less than this share of what was lost is not the cause: then it was many."""
TIED = 0.95
"""Causes that give back this share of what the best one gives back are as right an answer as it is."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A job or a faulty component, and the seconds a phase would not have lost without it. `features`: of a job as good
    an answer as the best, what of it held the phase back, the heaviest first (`cause_words`)."""

    kind: str
    name: str
    recovered_s: float
    features: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TruePhase:
    """One phase of I/O that ended, in seconds of the play. `ideal_s`: the same phase with the same noise, alone on the
    whole machine without faults; `usual_s`: and without noise. `lost_s` beyond the ideal; `verdict` is a word of
    `analysis.interference.scene.VERDICTS`, None where nothing was lost. `causes`: what was taken out, the largest
    recovery first. `neighbours`: all jobs that used a resource of it meanwhile."""

    job_id: str
    number: int
    kind: str
    begin_s: float
    end_s: float
    ideal_s: float
    usual_s: float
    lost_s: float
    verdict: str | None
    causes: tuple[Cause, ...]
    neighbours: tuple[str, ...]

    @property
    def lost_share(self) -> float:
        """Seconds lost for each second it takes alone."""
        return self.lost_s / self.ideal_s


def build_phase_truth(play: Play) -> list[TruePhase]:
    """The truth of every phase of I/O that ended, of jobs in order, then as they came."""
    return _Truth(play).phases()


class _Truth:
    def __init__(self, play: Play) -> None:
        self.play, self.course = play, play.course
        course = self.course
        self.took: F64 = course.phase_ended - course.phase_begun
        self.owner = np.full(len(self.took), -1, np.int64)
        first = 0
        for place, job in enumerate(course.jobs):
            self.owner[first : job.last_phase + 1] = place
            first = job.last_phase + 1

    def phases(self) -> list[TruePhase]:
        course = self.course
        mine = np.array([p for job in course.jobs for p in job.io_phases], np.int64)
        mine = mine[np.isfinite(self.took[mine])]
        ideal = _time_alone(course, mine)
        lost = np.maximum(self.took[mine] - ideal, 0.0)
        hurt = np.flatnonzero((lost > LEAST_LOST_S) & (lost > LEAST_LOST_SHARE * ideal))
        recovered = self._recovered(mine[hurt])
        of_phase = {int(mine[i]): causes for i, causes in zip(hurt, recovered, strict=True)}
        return [self._phase(int(p), float(ideal[i]), float(lost[i]), of_phase.get(int(p))) for i, p in enumerate(mine)]

    def _phase(self, phase: int, ideal: float, lost: float, causes: Sequence[tuple[int, float]] | None) -> TruePhase:
        course = self.course
        job = course.jobs[self.owner[phase]]
        flows = self.flows[phase]
        op = int(course.op[flows.start])
        found = sorted(causes or (), key=lambda cause: -cause[1])
        told = [self._cause(phase, number, seconds, found[0][1]) for number, seconds in found]
        return TruePhase(
            job_id=format_machine_job_id(job.drawn),
            number=job.io_phases.index(phase),
            kind=OPS[op] if op < DATA else "metadata",
            begin_s=float(course.phase_begun[phase]),
            end_s=float(course.phase_ended[phase]),
            ideal_s=ideal,
            usual_s=ideal * self._share(job, phase),
            lost_s=lost,
            verdict=None if causes is None else self._verdict(lost, told),
            causes=tuple(told),
            neighbours=tuple(format_machine_job_id(course.jobs[n].drawn) for n in self.beside(phase)),
        )

    def _share(self, job: PlacedJob, phase: int) -> float:
        """The share of its usual rate the phase reached by itself."""
        if self.play.noise is None:
            return 1.0
        steps = [(number, step) for number, step in enumerate(job.drawn.steps) if step.moves_data or step.each > 1]
        return self.play.noise(job.drawn.number, *steps[job.io_phases.index(phase)])

    def _verdict(self, lost: float, causes: Sequence[Cause]) -> str:
        if not causes or causes[0].recovered_s < ALONE_ENOUGH * lost:
            return "many_neighbours"
        return "component" if causes[0].kind == "component" else choose_cause_word(causes[0].features)

    def _cause(self, phase: int, place: int, seconds: float, best: float) -> Cause:
        if place < 0:
            name = name_truth_component(self.play, self.play.faults[-1 - place])
            return Cause(kind="component", name=name, recovered_s=seconds)
        features = list_cause_features(self.course, self.flows[phase], place) if seconds >= TIED * best > 0 else ()
        name = format_machine_job_id(self.course.jobs[place].drawn)
        return Cause(kind="job", name=name, recovered_s=seconds, features=features)

    @cached_property
    def flows(self) -> dict[int, slice]:
        """The flows of each phase."""
        bounds = np.searchsorted(self.course.phases.phase, np.arange(len(self.took) + 1))
        return {p: slice(int(bounds[p]), int(bounds[p + 1])) for p in range(len(self.took))}

    @cached_property
    def _used(self) -> NDArray[np.bool_]:
        """Which resources (columns) each phase (rows) crosses, locks aside."""
        over = self.course.phases
        limit = self.course.machine.at.lock
        used = np.zeros((len(self.took), limit), np.bool_)
        for column in over.crosses.T:
            there = (column >= 0) & (column < limit)
            used[over.phase[there], column[there]] = True
        return used

    def _meanwhile(self, phase: int) -> I64:
        """Phases of other jobs that were under way during some of it."""
        course = self.course
        ended = np.where(np.isnan(course.phase_ended), course.to_s, course.phase_ended)
        under = (course.phase_begun < course.phase_ended[phase]) & (ended > course.phase_begun[phase])
        return np.flatnonzero(under & (self.owner != self.owner[phase]))

    def beside(self, phase: int) -> list[int]:
        """Jobs (places) that used a resource of it meanwhile."""
        others = self._meanwhile(phase)
        shared = (self._used[others] & self._used[phase]).any(axis=1)
        return sorted({int(place) for place in self.owner[others[shared]]})

    def _suspects(self, phase: int) -> list[int]:
        """Of these, those that used most of what held the phase back, by share of its capacity and time."""
        course, over = self.course, self.course.phases
        limit = course.machine.at.lock
        held = np.zeros(limit)
        rows = self._segments_of(self.flows[phase])
        by = course.segments.bottleneck[rows]
        there = (by >= 0) & (by < limit)
        held[by[there]] = 1.0
        if not held.any():
            return []
        capacity = course.machine.compute_capacity()
        weight: dict[int, float] = {}
        begin, end = course.phase_begun[phase], course.phase_ended[phase]
        for other in self._meanwhile(phase):
            if not (self._used[other] & (held > 0)).any():
                continue
            rows = self._segments_of(self.flows[int(other)])
            s = course.segments
            time = np.maximum(np.minimum(s.end_s[rows], end) - np.maximum(s.begin_s[rows], begin), 0.0)
            flow = s.flow[rows]
            crosses, cost = over.crosses[flow], over.cost[flow]
            known = (crosses >= 0) & (crosses < limit)
            at = np.where(known, crosses, 0)
            share = np.where(known, held[at] * cost / capacity[at], 0.0).sum(axis=1)
            place = int(self.owner[other])
            weight[place] = weight.get(place, 0.0) + float((s.rate[rows] * time * share).sum())
        ranked = sorted(weight, key=lambda place: (-weight[place], place))
        return [place for place in ranked if weight[place] > 0][:MOST_SUSPECTS]

    @cached_property
    def _by_flow(self) -> tuple[I64, I64]:
        """Segments in order of flow, and where those of each flow begin."""
        order = np.argsort(self.course.segments.flow, kind="stable")
        bounds = np.searchsorted(self.course.segments.flow[order], np.arange(len(self.course.begun) + 1))
        return order, bounds

    def _segments_of(self, flows: slice) -> I64:
        order, bounds = self._by_flow
        return order[bounds[flows.start] : bounds[flows.stop]]

    def _recovered(self, hurt: I64) -> list[list[tuple[int, float]]]:
        """For each hurt phase: (place of the job, or -1 - number of the fault; seconds) of all it was tried without."""
        suspects = [self._suspects(int(p)) for p in hurt]
        by_job: dict[int, list[int]] = {}
        for i, places in enumerate(suspects):
            for place in places:
                by_job.setdefault(place, []).append(i)
        found: list[list[tuple[int, float]]] = [[] for _ in hurt]
        for place, victims in sorted(by_job.items()):
            own = np.flatnonzero(self.owner == place)
            from_s = float(np.nanmin(self.course.phase_begun[own]))
            to_s = float(self.course.phase_ended[hurt[victims]].max())
            would = simulate_phase_ends(self.course, self.owner != place, self.play.faults, from_s, to_s)
            for i in victims:
                found[i].append((place, float(self.course.phase_ended[hurt[i]] - would[hurt[i]])))
        for number, fault in enumerate(self.play.faults):
            others = [other for i, other in enumerate(self.play.faults) if i != number]
            begun, ended = self.course.phase_begun[hurt], self.course.phase_ended[hurt]
            meeting = np.flatnonzero((begun < fault.to_s) & (ended > fault.from_s))
            if len(meeting):
                to_s = float(ended[meeting].max())
                would = simulate_phase_ends(self.course, self.owner >= 0, others, fault.from_s, to_s)
                for i in meeting.tolist():
                    found[i].append((-1 - number, float(ended[i] - would[hurt[i]])))
        return found


def _time_alone(course: Course, phases: I64) -> F64:
    """Seconds each of `phases` takes with the machine to itself and no fault: all of them one after the other."""
    flows, numbers = _flows_of(course, phases)
    engine = Engine(course.machine.compute_capacity(LOCKS))
    engine.add(_chosen(course, flows, numbers, np.arange(-1, len(phases) - 1), np.zeros(len(phases))))
    engine.run()
    begun, ended = engine.list_phase_times()
    return np.asarray(ended - begun)


def simulate_phase_ends(
    course: Course, kept: NDArray[np.bool_], faults: Sequence[Fault], from_s: float = 0.0, to_s: float = np.inf
) -> F64:
    """When each phase ends if only those `kept` are there, each begun when it did, and these faults; NaN for others.

    Until `from_s` all goes as it went; phases that begin from `to_s` on are left out."""
    over = course.phases
    under = course.phase_begun < to_s
    under &= np.isnan(course.phase_ended) | (course.phase_ended > from_s)
    some = np.bincount(over.phase, minlength=len(kept)) > 0
    phases = np.flatnonzero(kept & some & under)
    flows, numbers = _flows_of(course, phases)
    begin = np.maximum(course.phase_begun[phases], from_s)
    given = _chosen(course, flows, numbers, np.full(len(phases), -1), begin - from_s)
    given.amount[:] = np.maximum(given.amount - _done(course, flows, from_s), 0.0)
    capacity = course.machine.compute_capacity(LOCKS)
    shifted = [replace(fault, from_s=fault.from_s - from_s, to_s=fault.to_s - from_s) for fault in faults]
    engine = Engine(capacity, build_fault_changes(course.machine, shifted, capacity))
    engine.add(given)
    engine.run()
    _, ended = engine.list_phase_times()
    when = np.full(len(kept), np.nan)
    when[phases] = ended + from_s
    return when


def _done(course: Course, flows: I64, until_s: float) -> F64:
    """What each of `flows` had carried by then."""
    place = np.full(len(course.begun), -1, np.int64)
    place[flows] = np.arange(len(flows))
    s = course.segments
    rows = np.flatnonzero((place[s.flow] >= 0) & (s.begin_s < until_s))
    carried = s.rate[rows] * (np.minimum(s.end_s[rows], until_s) - s.begin_s[rows])
    return np.bincount(place[s.flow[rows]], carried, len(flows)).astype(np.float64)


def _flows_of(course: Course, phases: I64) -> tuple[I64, I64]:
    """The flows of some phases, and the place of each flow's phase among them."""
    place = np.full(len(course.phase_begun), -1, np.int64)
    place[phases] = np.arange(len(phases))
    numbers = place[course.phases.phase]
    flows = np.flatnonzero(numbers >= 0)
    order = np.argsort(numbers[flows], kind="stable")
    return flows[order], numbers[flows][order]


def _chosen(course: Course, flows: I64, numbers: I64, after: I64, delay_s: F64) -> Phases:
    over = course.phases
    return Phases(
        after=after.astype(np.int32),
        delay_s=delay_s,
        phase=numbers.astype(np.int32),
        amount=over.amount[flows],
        weight=over.weight[flows],
        cap=over.cap[flows],
        crosses=over.crosses[flows],
        cost=over.cost[flows],
    )

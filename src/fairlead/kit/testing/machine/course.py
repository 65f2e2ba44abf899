"""A made machine at work: jobs are handed in, given nodes, and run on the engine; everything that happened, as columns.

Simulated throughout. Not here: what the machine's counters make of it (`traffic` and on).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.core.model.site import F64, I32, Site
from fairlead.decide.sim.engine import Engine, Phases, Segments, join_engine_phases, join_engine_segments
from fairlead.decide.sim.faults import Fault, build_fault_changes
from fairlead.decide.sim.steps import I64, Laid, Step, lay_out_step, stretch_step
from fairlead.kit.testing.machine.files import Files
from fairlead.kit.testing.machine.population import DrawnJob

LOCKS = 1024
TICK_S = 1.0
OPS = ("read", "write", "open", "close", "create", "getattr", "unlink")
DATA = 2
"""Operations of a number below this move data."""
INTERFACES = ("POSIX", "MPIIO")


@dataclass(frozen=True)
class PlacedJob:
    """A job that began: its nodes by number, when (seconds; `end_s` NaN while it runs), and its phases of I/O."""

    drawn: DrawnJob
    nodes: I32
    start_s: float
    end_s: float
    last_phase: int
    io_phases: tuple[int, ...]


Choose = Callable[[DrawnJob, I32, Site], I32]
"""The forwarder of every node of the machine, as a job on some nodes finds it: what a policy decides."""
Noise = Callable[[int, int, Step], float]
"""The share of its usual rate that a step reaches in this run, of the job's number, the step's place in it and the
step: what no cause in the machine explains."""


@dataclass(frozen=True)
class Course:
    """What happened until `to_s`. Columns of flows (F) and lanes (L) as in `steps.Laid`; `job`: place in `jobs`.

    `op` and `interface` are places in `OPS` and `INTERFACES`; flow f has the lanes from `first_lane[f]` on, `lanes[f]`
    of them, each of `requests[f]` requests of `size[f]` bytes. `phases`: what the engine was given, by its numbers.
    """

    machine: Site
    jobs: list[PlacedJob]
    files: Files
    to_s: float
    segments: Segments
    begun: F64
    ended: F64
    phase_begun: F64
    phase_ended: F64
    job: I32
    op: I32
    interface: I32
    random: NDArray[np.bool_]
    pauses: I32
    forwarder: I32
    target: I32
    size: I64
    requests: I64
    streams: F64
    alone: F64
    first_lane: I64
    lanes: I64
    rank: I32
    node: I32
    file: I32
    offset: I64
    stride: I64
    phases: Phases


class MachineRun:
    """The machine while it works: a queue, free nodes, the engine. First come first served; who does not fit waits."""

    def __init__(
        self,
        machine: Site,
        jobs: Sequence[DrawnJob],
        seed: int,
        *,
        faults: Sequence[Fault] = (),
        choose: Choose | None = None,
        placed: Mapping[int, tuple[float, I32]] | None = None,
        noise: Noise | None = None,
    ) -> None:
        """`placed`: where and when jobs (by number) begin, taken from another run, instead of the queue's choice.
        `noise`: None for a machine on which the same takes the same time."""
        capacity = machine.compute_capacity(LOCKS)
        self.machine = machine
        self._engine = Engine(capacity, build_fault_changes(machine, faults, capacity))
        self._choose = choose
        self._noise = noise
        self._given: list[Phases] = []
        self._placed_before = placed
        begins = {job.number: job.submit_s if placed is None else placed[job.number][0] for job in jobs}
        self._coming = sorted(jobs, key=lambda job: (begins[job.number], job.number))
        self._begins = begins
        self._queue: list[DrawnJob] = []
        self._free = np.ones(machine.nodes, np.bool_)
        self._seed = seed
        self._jobs: list[PlacedJob] = []
        self._running: set[int] = set()
        self._laid: list[tuple[int, Step, Laid, I32]] = []
        self._files = Files(machine)
        self._static = machine.default_forwarder.astype(np.int32)

    def run(self, until_s: float) -> Course:
        """Everything that happens before `until_s`."""
        parts: list[Segments] = []
        now = 0.0
        while now < until_s:
            self._retire()
            while self._coming and self._begins[self._coming[0].number] <= now:
                self._queue.append(self._coming.pop(0))
            self._queue = [job for job in self._queue if not self._begin(job, now)]
            later = self._begins[self._coming[0].number] if self._coming and not self._queue else until_s
            step = TICK_S if self._queue else max(TICK_S, float(np.ceil(later - now)))
            if not (self._coming or self._queue or self._running):
                break
            now = min(now + step, until_s)
            parts.append(self._engine.run(now, record=True))
        self._retire()
        parts.append(self._engine.list_pending())
        return self._course(join_engine_segments(parts), until_s)

    def _retire(self) -> None:
        if not self._running:
            return
        _, ended = self._engine.list_phase_times()
        for place in sorted(self._running):
            job = self._jobs[place]
            end = float(ended[job.last_phase])
            if not np.isnan(end):
                self._jobs[place] = replace(job, end_s=end)
                self._free[job.nodes] = True
                self._running.remove(place)

    def _begin(self, job: DrawnJob, now: float) -> bool:
        if self._placed_before is None:
            nodes = self._fitting(job.program.nodes)
            if nodes is None:
                return False
            self._free[nodes] = False
        else:
            nodes = self._placed_before[job.number][1]
        place = len(self._jobs)
        forwarder_of = self._static if self._choose is None else self._choose(job, nodes, self.machine)
        alike: dict[tuple[object, ...], Laid] = {}
        parts = [
            part
            for number, step in enumerate(job.steps)
            for part in self._parts(place, job, number, step, nodes, forwarder_of, now, alike)
        ]
        first = self._add_chain(parts, now, job.tail_s)
        io = tuple(first + i for i, (step, _) in enumerate(parts) if step.moves_data or step.each > 1)
        self._jobs.append(PlacedJob(job, nodes, now, np.nan, first + len(parts), io))
        self._running.add(place)
        return True

    def _fitting(self, count: int) -> I32 | None:
        """Free nodes: the first gap that is wide enough, else the first that are free."""
        free = np.flatnonzero(self._free)
        if len(free) < count:
            return None
        whole = np.flatnonzero(free[count - 1 :] - free[: len(free) - count + 1] == count - 1)
        first = int(whole[0]) if len(whole) else 0
        return free[first : first + count].astype(np.int32)

    def _parts(
        self,
        place: int,
        job: DrawnJob,
        number: int,
        step: Step,
        nodes: I32,
        forwarder_of: I32,
        now: float,
        alike: dict[tuple[object, ...], Laid],
    ) -> list[tuple[Step, Laid]]:
        """A step of a job, with the opens and closes around its data. `alike`: metadata of the job laid out already."""
        machine = self.machine
        rng = np.random.default_rng([self._seed, 3, job.number, number])
        files = self._files.place_step(place, job, step, number, rng, now)
        server = int(rng.integers(len(machine.mds)))
        mds = np.full((1, 1), server, np.int32)
        parts = [step]
        if step.moves_data:
            around = Step(
                op="open",
                writers=step.writers,
                files=step.files,
                each=1,
                compute_s=step.compute_s,
                interface=step.interface,
            )
            parts = [around, replace(step, compute_s=0.0), replace(around, op="close", compute_s=0.0)]
        share = 1.0 if self._noise is None else self._noise(job.number, number, step)
        made: list[tuple[Step, Laid]] = []
        for part in parts:
            if part.op == "close" and made:  # laid out as the open before it
                self._laid.append((place, part, made[0][1], files))
                made.append((part, made[0][1]))
                continue
            if part.moves_data:
                targets = np.stack([self._files.targets[i] for i in files])
                lock = machine.at.lock + job.number % LOCKS
                laid = lay_out_step(machine, part, nodes, forwarder_of, targets, lock)
            else:
                key = (part.writers, part.files, part.each, server)
                if key not in alike:
                    alike[key] = lay_out_step(machine, part, nodes, forwarder_of, mds, 0)
                laid = alike[key]
            laid = stretch_step(laid, share)
            self._laid.append((place, part, laid, files))
            made.append((part, laid))
        return made

    def _add_chain(self, parts: list[tuple[Step, Laid]], now: float, tail_s: float) -> int:
        """Hand a job's phases to the engine, one after the other; the last only computes. Number of the first."""
        laid = [one for _, one in parts]
        delay = np.array([step.compute_s for step, _ in parts] + [tail_s])
        delay[0] += now
        sizes = np.array([len(one.amount) for one in laid] + [0])
        width = max((one.crosses.shape[1] for one in laid), default=1)
        crosses, cost = np.full((int(sizes.sum()), width), -1, np.int32), np.zeros((int(sizes.sum()), width))
        at = 0
        for one in laid:
            rows, columns = one.crosses.shape
            crosses[at : at + rows, :columns], cost[at : at + rows, :columns] = one.crosses, one.cost
            at += rows
        after = np.arange(-1, len(laid), dtype=np.int32)
        phases = Phases(
            after=after,
            delay_s=delay,
            phase=np.repeat(np.arange(len(sizes)), sizes).astype(np.int32),
            amount=_together([one.amount for one in laid]),
            weight=_together([one.weight for one in laid]),
            cap=_together([one.cap for one in laid]),
            crosses=crosses,
            cost=cost,
        )
        first, _ = self._engine.add(phases, after_within=True)
        self._given.append(phases)
        return first

    def _course(self, segments: Segments, until_s: float) -> Course:
        begun, ended = self._engine.read_times()
        phase_begun, phase_ended = self._engine.list_phase_times()
        laid = [one for _, _, one, _ in self._laid]
        sizes = np.array([len(one.amount) for one in laid], np.int64)
        lanes = _together([np.bincount(one.lane_flow, minlength=len(one.amount)) for one in laid], np.int64)

        def of_step(values: list[int]) -> I64:
            return np.repeat(np.array(values, np.int64), sizes)

        steps = [step for _, step, _, _ in self._laid]
        return Course(
            machine=self.machine,
            jobs=self._jobs,
            files=self._files,
            to_s=until_s,
            segments=segments,
            begun=begun,
            ended=ended,
            phase_begun=phase_begun,
            phase_ended=phase_ended,
            job=of_step([place for place, _, _, _ in self._laid]).astype(np.int32),
            op=of_step([OPS.index(step.op) for step in steps]).astype(np.int32),
            interface=of_step([INTERFACES.index(step.interface) for step in steps]).astype(np.int32),
            random=of_step([step.random for step in steps]).astype(np.bool_),
            pauses=of_step([step.pauses for step in steps]).astype(np.int32),
            forwarder=_together([one.forwarder for one in laid], np.int32),
            target=_together([one.target for one in laid], np.int32),
            size=of_step([one.size for one in laid]),
            requests=of_step([one.requests for one in laid]),
            streams=_together([one.streams for one in laid]),
            alone=_together([one.alone for one in laid]),
            first_lane=np.cumsum(lanes) - lanes,
            lanes=lanes,
            rank=_together([one.rank for one in laid], np.int32),
            node=_together([one.node for one in laid], np.int32),
            file=_together([files[one.file] for _, _, one, files in self._laid], np.int32),
            offset=_together([one.offset for one in laid], np.int64),
            stride=_together([one.stride for one in laid], np.int64),
            phases=join_engine_phases(self._given),
        )


def _together(parts: Sequence[Any], kind: type = np.float64) -> Any:
    return np.concatenate(parts).astype(kind) if parts else np.zeros(0, kind)

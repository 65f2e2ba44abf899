"""A play: a described machine, its jobs drawn from a seed, run once; its records as tables, interval by interval.

Everything in it is simulated. Times are whole seconds since `origin_ns`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from fairlead.core.model.site import F64, Site
from fairlead.core.model.tables import TABLES
from fairlead.decide.sim.faults import Fault
from fairlead.kit.testing.machine import client_rows, feed_rows, server_rows
from fairlead.kit.testing.machine.course import Choose, Course, MachineRun, Noise
from fairlead.kit.testing.machine.population import DrawnJob, Mix, draw_population_jobs
from fairlead.kit.testing.machine.traffic import Traffic, build_traffic

ORIGIN_NS = 1_717_200_000_000_000_000
"""2024-06-01 00:00 UTC."""


@dataclass(frozen=True)
class Play:
    """One run of a made machine. `seconds` long; the same arguments give the same records, in any process."""

    machine: Site
    mix: Mix
    seed: int
    seconds: int
    origin_ns: int = ORIGIN_NS
    faults: Sequence[Fault] = ()
    jobs: Sequence[DrawnJob] | None = None
    """The jobs, where they are not to be drawn."""
    choose: Choose | None = None
    noise: Noise | None = None
    placed: dict[int, tuple[float, np.ndarray]] | None = field(default=None, repr=False)
    idle_s: int = 1
    """Targets that are idle are told of in one of so many seconds."""

    @cached_property
    def drawn(self) -> Sequence[DrawnJob]:
        """The jobs handed in within the time."""
        if self.jobs is not None:
            return self.jobs
        rng = np.random.default_rng([self.seed, 1])
        many = self.mix.backlog + int(self.mix.arrivals_per_s * self.seconds * 1.5) + 8
        return [job for job in draw_population_jobs(self.machine, self.mix, many, rng) if job.submit_s < self.seconds]

    @cached_property
    def course(self) -> Course:
        """What happened."""
        run = MachineRun(
            self.machine,
            self.drawn,
            self.seed,
            faults=self.faults,
            choose=self.choose,
            placed=self.placed,
            noise=self.noise,
        )
        return run.run(float(self.seconds))

    def build_tables(self, from_s: int = 0, to_s: int | None = None) -> dict[str, pa.Table]:
        """Rows of [from_s, to_s) by table."""
        to_s = self.seconds if to_s is None else to_s
        course, origin = self.course, self.origin_ns
        t = build_traffic(course, from_s, to_s)
        runs = client_rows.build_client_runs(course, t, self.seed)
        batches = {
            "ops": client_rows.build_client_rows(course, t, runs, origin),
            **server_rows.build_server_rows(
                course, t, runs, origin, from_s, to_s, used=self.count_used_bytes(from_s), idle_s=self.idle_s
            ),
            **feed_rows.build_feed_rows(course, origin, from_s, to_s),
        }
        return {
            name: pa.Table.from_batches([batch], TABLES[name].schema)
            for name, batch in batches.items()
            if batch.num_rows
        }

    def iterate_intervals(
        self, every_s: int = 60, from_s: int = 0, to_s: int | None = None
    ) -> Iterator[dict[str, pa.Table]]:
        """Rows by table, one interval after the other."""
        stop = self.seconds if to_s is None else to_s
        for start in range(from_s, stop, every_s):
            yield self.build_tables(start, min(start + every_s, stop))

    def build_traffic(self, from_s: int = 0, to_s: int | None = None) -> Traffic:
        """The account all records are made of."""
        return build_traffic(self.course, from_s, self.seconds if to_s is None else to_s)

    def count_used_bytes(self, at_s: int) -> F64:
        """Bytes used on each target: what was there in the beginning and what was written since."""
        machine, course = self.machine, self.course
        rng = np.random.default_rng([self.seed, 2])
        base = np.floor(machine.target_bytes * rng.uniform(0.35, 0.75, len(machine.targets)))
        s = course.segments
        written = (course.op[s.flow] == 1) & (s.begin_s < at_s)
        carried = s.rate[written] * (np.minimum(s.end_s[written], at_s) - s.begin_s[written])
        return np.floor(base + np.bincount(course.target[s.flow[written]], carried, len(machine.targets)))

    def leave_out(self, *, faults: Sequence[Fault] | None = None, jobs: Sequence[int] = ()) -> Play:
        """The same play with other faults (None: the same), or without some jobs (by number); all others begin when
        and where they did."""
        placed = {job.drawn.number: (job.start_s, job.nodes) for job in self.course.jobs}
        kept = [job for job in self.drawn if job.number in placed and job.number not in jobs]
        return replace(self, faults=self.faults if faults is None else faults, jobs=kept, placed=placed)

    def to_the_end(self) -> Play:
        """The same jobs, begun when and where they did, with time for all to end (at most ten times as long)."""
        return replace(self.leave_out(), seconds=10 * self.seconds)

"""A season: one site, its programs drawn once, played many times over, one play after the other, so that programs have
histories; with run-to-run noise, neighbours that hurt and neighbours that only look it, and now and then a fault.

The plays are independent: each begins with an empty machine. Job numbers are unique over the season. Not here: the
truth of a play (`phase_truth`), what is seen of it (`observed`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairlead.core.model.site import Site
from fairlead.decide.sim import platform
from fairlead.decide.sim.faults import Fault
from fairlead.kit.testing.machine.noise import RunNoise
from fairlead.kit.testing.machine.play import ORIGIN_NS, Play
from fairlead.kit.testing.machine.population import (
    DrawnJob,
    Mix,
    Program,
    draw_population_jobs,
    draw_population_programs,
)

JOBS_OF_PLAY = 1000
"""Job numbers a play has for itself; more jobs are not handed in."""
NS = 1_000_000_000
SMALL_SEASON = Mix(
    nontrivial_share=0.85,
    high_mdops_share=0.003,
    mixed_share=0.025,
    volume_scale=0.2,
    time_scale=0.02,
    shortest_s=30.0,
    longest_s=150.0,
    arrivals_per_s=0.062,
    largest_share=0.19,
    mode_jobs=(8_000, 1_000, 300, 16_000),
    mode_scale=(1.0, 1.0, 2.0, 0.12),
    popularity=1.4,
    program_sigma=0.8,
    run_sigma=0.3,
    storm_each=(800, 2400),
)
"""The published population on the small machine: about as many jobs as it can hold without being full."""
TWO_LAYER_SEASON = replace(SMALL_SEASON, volume_scale=0.7, largest_share=0.06, arrivals_per_s=0.065)
"""The same on the ordinary site: larger volumes, as its nodes are faster."""
FAULT_KINDS = (
    ("target", "degraded"),
    ("target", "rebuild"),
    ("target", "fail_slow"),
    ("forwarder", "degraded"),
    ("forwarder", "fail_slow"),
    ("mds", "degraded"),
)


@dataclass(frozen=True)
class Season:
    """`plays` plays of `seconds` each. `fault_share`: of plays with a fault in them; `noise` multiplies the logarithm
    of run-to-run noise, of kind `noise_name`. The same arguments give the same season."""

    machine: Site
    mix: Mix
    seed: int
    plays: int = 30
    seconds: int = 3600
    fault_share: float = 0.06
    noise: float = 1.0
    noise_name: str = "quiet"

    @cached_property
    def site(self) -> dict[str, list[Program]]:
        """The programs of the site."""
        return draw_population_programs(self.machine, self.mix, np.random.default_rng([self.seed, 21]))

    def play(self, number: int) -> Play:
        """One play of the season."""
        return Play(
            self.machine,
            self.mix,
            self.seed * 1000 + number,
            self.seconds,
            origin_ns=ORIGIN_NS + number * self.seconds * NS,
            faults=self._faults(number),
            jobs=self._jobs(number),
            noise=RunNoise(self.seed, self.noise, self.noise_name),
        )

    def __iter__(self) -> Iterator[Play]:
        """The plays in order."""
        return (self.play(number) for number in range(self.plays))

    def _jobs(self, number: int) -> list[DrawnJob]:
        rng = np.random.default_rng([self.seed, 22, number])
        many = min(self.mix.backlog + int(self.mix.arrivals_per_s * self.seconds * 1.5) + 8, JOBS_OF_PLAY)
        drawn = draw_population_jobs(self.machine, self.mix, many, rng, site=self.site, first=number * JOBS_OF_PLAY)
        return [job for job in drawn if job.submit_s < self.seconds]

    def _faults(self, number: int) -> list[Fault]:
        rng = np.random.default_rng([self.seed, 23, number])
        if rng.random() >= self.fault_share:
            return []
        layers = {
            "target": len(self.machine.targets),
            "forwarder": len(self.machine.forwarders),
            "mds": len(self.machine.mds),
        }
        kinds = [(layer, kind) for layer, kind in FAULT_KINDS if layers[layer]]
        layer, kind = kinds[int(rng.integers(len(kinds)))]
        begin = float(rng.uniform(0.05, 0.6)) * self.seconds
        length = float(rng.uniform(0.08, 0.2)) * self.seconds
        return [
            Fault(
                component=layer,
                number=int(rng.integers(layers[layer])),
                from_s=begin,
                to_s=min(begin + length, self.seconds - 60.0),
                factor=float(rng.uniform(0.05, 0.2)),
                kind=kind,
            )
        ]


def build_small_season(seed: int, plays: int = 30, seconds: int = 3600, **more: float) -> Season:
    """A season of the small machine with forwarders."""
    return Season(platform.build_small_platform(), SMALL_SEASON, seed, plays, seconds, **more)  # type: ignore[arg-type]


def build_ordinary_season(seed: int, plays: int = 30, seconds: int = 3600, **more: float) -> Season:
    """A season of the ordinary site: no forwarders, and links so narrow that a job alone does not fill its storage."""
    machine = platform.build_two_layer_platform(node_bandwidth=600e6, process_bandwidth=250e6)
    return Season(machine, TWO_LAYER_SEASON, seed, plays, seconds, **more)  # type: ignore[arg-type]

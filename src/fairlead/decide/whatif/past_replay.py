"""Replays of one past under policies and capacities, and their figures. Not here: checks of them (`checks`), words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairlead.core.model.site import Site
from fairlead.decide.policies.paths.contract import ExpectedJob, Grant, PathPolicy
from fairlead.decide.sim.replay.jobs import Jobs, Progress, ReplayResult
from fairlead.decide.sim.replay.perfect_prediction import build_perfect_prediction
from fairlead.decide.sim.replay.replay import replay_jobs
from fairlead.decide.sim.workloads.history import MODES, History, Runs
from fairlead.decide.whatif.past_jobs import Names, Past

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
AS_IT_WAS = "as it was"
"""The name of the policy that was really active."""


@dataclass(frozen=True)
class RecordedPaths:
    """A path policy that grants every job what it was really granted. `grants` by place of the job in the replay."""

    grants: Sequence[Grant]

    def grant(self, expected: ExpectedJob, site: Site, rng: np.random.Generator) -> Grant:  # noqa: ARG002
        """See `PathPolicy`."""
        return self.grants[int(expected.job_id)]


@dataclass(frozen=True)
class OnLayer:
    """A policy on one layer only; the other stays as it was recorded (or the site's default)."""

    policy: PathPolicy
    rest: RecordedPaths
    layer: str

    def grant(self, expected: ExpectedJob, site: Site, rng: np.random.Generator) -> Grant:
        """See `PathPolicy`."""
        mine, was = self.policy.grant(expected, site, rng), self.rest.grant(expected, site, rng)
        if self.layer == "forwarders":
            return replace(mine, targets=was.targets, stripe_count=None)
        return replace(mine, forwarders=was.forwarders, isolated=False)


def build_recorded_past_replay(
    past: Past,
    rows: I64,
    site: Site,
    *,
    forwarders: bool = True,
    targets: bool = True,
    mapped_at: int | None = None,
) -> RecordedPaths:
    """What served the jobs in `rows`, as counted, else as the map says; without one of the layers where that is to be
    the site's default. `mapped_at`: by the map of then alone, whatever was counted."""

    counted = [past.forwarders[row] if forwarders and mapped_at is None else () for row in rows.tolist()]
    by_map: dict[int, Names] = {}
    if forwarders:
        rest = [row for row, names in zip(rows.tolist(), counted, strict=True) if not names]
        by_map = dict(zip(rest, past.find_mapped(rest, mapped_at), strict=True))
    return RecordedPaths(
        [
            Grant(
                forwarders=_places(names or by_map.get(row, ()), site.forwarders.places),
                targets=_places(past.targets[row] if targets else (), site.targets.places),
            )
            for row, names in zip(rows.tolist(), counted, strict=True)
        ]
    )


def _places(names: Names, known: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(known[name] for name in names if name in known))


@dataclass(frozen=True, kw_only=True)
class NamedReplay:
    """A replay with what it was of."""

    name: str
    policy: str
    site: Site
    replayed: ReplayResult


def replay_past(
    name: str,
    label: str,
    policy: PathPolicy,
    past: Past,
    rows: I64,
    runs: Runs,
    history: History,
    site: Site,
    *,
    seed: int,
    progress: Progress | None = None,
) -> NamedReplay:
    """The jobs replayed. What a policy is told of a job are its figures of that run: perfect prediction."""
    jobs = _fit_jobs(history.jobs, site)
    told = _told(past, rows, runs, jobs, site)
    found = replay_jobs(jobs, site, policy, seed=seed, expected_of=told, progress=progress)
    return NamedReplay(name=label, policy=name, site=site, replayed=found)


def _fit_jobs(jobs: Jobs, site: Site) -> Jobs:
    """The jobs on this machine: nodes that are not in a row on it are not known."""
    most = site.nodes
    first = np.where(jobs.first_node + jobs.nodes > most, -1, jobs.first_node)
    return replace(jobs, first_node=first)


def _told(past: Past, rows: I64, runs: Runs, jobs: Jobs, site: Site) -> Callable[[int], ExpectedJob]:
    drawn = np.random.default_rng([0, 0]).random(len(jobs))
    place = np.floor(drawn * (site.nodes - jobs.nodes + 1)).astype(np.int64)
    known = build_perfect_prediction(jobs, site, np.where(jobs.first_node >= 0, jobs.first_node, place))

    def expected(j: int) -> ExpectedJob:
        row = int(rows[j])
        mode, processes = int(runs.mode[j]), float(runs.io_processes[j])
        one = known(j)
        return replace(
            one,
            user=past.user[row] or "",
            program=past.program[row] or "",
            mode=MODES[mode] if mode >= 0 else one.mode,
            io_processes=int(processes) if np.isfinite(processes) and processes >= 1 else one.io_processes,
        )

    return expected


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures of one replay. (J,): core-hours its cores wait for I/O, alone with the best grant, slowdown (NaN where it
    needs no time alone). Sums are of jobs that ended in the replay, which all do unless a component is dead."""

    io_core_hours: F64
    alone_core_hours: F64
    slowdown: F64


def compute_past_replay_figures(jobs: Jobs, found: ReplayResult) -> Figures:
    """Core-hours and slowdowns by job."""
    with np.errstate(divide="ignore", invalid="ignore"):
        slowdown = np.where(found.alone_s > 0, found.io_s / found.alone_s, np.nan)
    return Figures(
        io_core_hours=jobs.cores * found.io_s / 3600.0,
        alone_core_hours=jobs.cores * found.alone_s / 3600.0,
        slowdown=slowdown,
    )

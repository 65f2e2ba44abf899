"""Replays of an experiment: jobs in, one row of measures a policy out, in the columns of sets of applications.

What a measure means of jobs that come and go stands at `build_replay_row`. Jobs are read by `sim.runs.replay_pieces`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from fairlead.core.model.site import Site
from fairlead.decide.policies.paths.contract import PathPolicy
from fairlead.decide.sim import platform
from fairlead.decide.sim.cycles.cycle_measures import measure_cycle_fairness
from fairlead.decide.sim.experiments.cases import Case, Row, drop_case_nan
from fairlead.decide.sim.experiments.dfra import predict_true_dfra_jobs
from fairlead.decide.sim.experiments.replay_spec import Swf, Table
from fairlead.decide.sim.replay.jobs import Jobs, ReplayResult
from fairlead.decide.sim.replay.replay import replay_jobs
from fairlead.decide.sim.replay.replay_measures import (
    measure_granted_slowdown,
    measure_slowdown,
    measure_stretch,
    measure_waiting_core_hours,
)
from fairlead.decide.sim.workloads import swf, tables
from fairlead.decide.sim.workloads.profiles import BEHAVIOURS

DAY_S = 86_400.0


@dataclass(frozen=True, kw_only=True)
class Source:
    """What is replayed: `jobs` on a `machine`; `play` replays them under the path policy of that name, what is random
    from the seed. `content`: digest of it all; `told`: what was dropped and what is assumed, in words."""

    jobs: Jobs
    machine: Site
    play: Callable[[str, int], ReplayResult]
    content: str
    told: tuple[str, ...]


def read_replay_trace(workload: Swf | Table, data: bytes, seed: tuple[int, ...], where: str) -> Source:
    """Jobs of a trace's bytes. `seed`: what I/O a trace of SWF is given comes from it. Raises InputError."""
    changes = {} if workload.forwarders is None else {"forwarders": workload.forwarders}
    machine = platform.MACHINES[workload.machine](**changes)
    taken = (
        swf.read_swf(data, seed, machine=machine, where=where)
        if isinstance(workload, Swf)
        else tables.read_workload_job_table(data, machine, where=where)
    )
    drawn = taken.season
    jobs = drawn.jobs if workload.days is None else _select_first(drawn.jobs, workload.days * DAY_S)
    expected = predict_true_dfra_jobs(drawn)

    def play(name: str, number: int) -> ReplayResult:
        return replay_jobs(jobs, machine, _policy(name), seed=number, expected_of=expected)

    return Source(
        jobs=jobs,
        machine=machine,
        play=play,
        content=blake2b(data, digest_size=8).hexdigest(),
        told=(taken.told, *taken.assumed),
    )


def _policy(name: str) -> PathPolicy:
    from fairlead.decide.registered_policies import find_registered_path_policy

    return find_registered_path_policy(name)


def _select_first(jobs: Jobs, until_s: float) -> Jobs:
    """Those that begin before `until_s`."""
    many = int(np.searchsorted(jobs.start_s, until_s))
    phases = int(jobs.first_phase[many])
    by_phase = ("compute_s", "volume", "operations", "phase_rate")
    columns: dict[str, Any] = {}
    for name in jobs.__dataclass_fields__:
        column = getattr(jobs, name)
        end = many + 1 if name == "first_phase" else phases if name in by_phase else many
        columns[name] = None if column is None else column[:end]
    return Jobs(**columns)


def build_replay_row(case: Case, number: int, policy: str, jobs: Jobs, machine: Site, found: ReplayResult) -> Row:
    """A replay as a row. The window is the whole of it, from the first job's start to the last one's end.

    Slowdown (also its parts, percentiles and fairness) is of jobs that ended and have I/O; `idle` is the share of the
    machine's nodes that wait in I/O, `core_hours_lost` the core-hours of those jobs in I/O; `occupancy_mean` and
    `spread` are of forwarders (targets, where there are none), `resources_mean` those granted of that layer.
    load(pi_sys) is not defined for jobs that come and go: it is not known."""
    ended = ~np.isnan(found.end_s)
    busy = ended & (found.alone_s > 0)
    rho, granted = measure_slowdown(found)[busy], measure_granted_slowdown(found)[busy]
    at = np.percentile(rho, (10, 50, 90)) if len(rho) else np.full(3, np.nan)
    span_s = float(found.end_s[ended].max() - jobs.start_s[0]) if ended.any() else 0.0
    waits_s = float((found.io_s * jobs.nodes)[ended].sum())
    layer, counts = (
        (found.forwarder_busy, found.forwarders) if len(machine.forwarders) else (found.target_busy, found.targets)
    )
    behaviour = jobs.behaviour[busy]
    return Row(
        case_id=case.digest,
        seed=case.seed,
        window="whole",
        applications=len(jobs),
        load=None,
        set_number=number,
        policy=policy,
        information="exact",
        load_sys=None,
        slowdown_mean=_mean(rho),
        slowdown_max=float(rho.max()) if len(rho) else None,
        slowdown_p10=drop_case_nan(float(at[0])),
        slowdown_p50=drop_case_nan(float(at[1])),
        slowdown_p90=drop_case_nan(float(at[2])),
        granted_mean=_mean(granted),
        contention_mean=_mean(rho - granted),
        idle=waits_s / (span_s * machine.nodes) if span_s > 0 else None,
        core_hours_lost=float(measure_waiting_core_hours(jobs, found)[ended].sum()) if ended.any() else None,
        occupancy_mean=_mean(layer),
        spread=float(layer.max() - layer.min()) if len(layer) else None,
        stretch_mean=_mean(measure_stretch(jobs, found)[busy]),
        fairness=drop_case_nan(measure_cycle_fairness(1.0 / rho)),
        resources_mean=_mean(counts[busy].astype(np.float64)),
        class_slowdown=[_mean(rho[behaviour == b]) for b in range(len(BEHAVIOURS))],
        unfinished=int((~ended).sum()),
        window_s=span_s,
        events=found.events,
    )


def _mean(values: np.ndarray) -> float | None:
    return drop_case_nan(float(values.mean())) if len(values) else None

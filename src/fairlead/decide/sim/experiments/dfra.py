"""DFRA against the static map on a month like TaihuLight's (Ji et al., FAST 2019): what it saves, who wins, who loses.

Not here: DFRA (`policies.paths.dfra`), the month's jobs (`sim.workloads.taihulight`), the replay (`sim.replay`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairlead.core.model.site import Site
from fairlead.decide.policies.paths.contract import ExpectedJob
from fairlead.decide.policies.paths.dfra import Dfra
from fairlead.decide.registered_policies import find_registered_path_policy
from fairlead.decide.sim.experiments.papers import Line, PaperReport
from fairlead.decide.sim.faults import Fault
from fairlead.decide.sim.platform import build_taihulight_platform
from fairlead.decide.sim.replay.jobs import Jobs, Progress, ReplayResult
from fairlead.decide.sim.replay.kernel_arguments import F64, I64
from fairlead.decide.sim.replay.perfect_prediction import build_perfect_prediction
from fairlead.decide.sim.replay.replay import replay_jobs
from fairlead.decide.sim.replay.replay_measures import (
    HOUR_S,
    measure_computing_seconds,
    measure_replay_change,
    summarise_replay_measures,
)
from fairlead.decide.sim.replay.solo_time import compute_solo_time
from fairlead.decide.sim.workloads.sunway import MODES
from fairlead.decide.sim.workloads.taihulight import DAY_S, YEAR_S, Season, draw_taihulight_season

MONTH_S = 30 * DAY_S
QUICK_S = 2 * DAY_S
FORWARDERS = 240
"""About 80 that nodes are mapped to, 512 to each, and 160 of those that were reserved on request and hardly used."""
Mask = NDArray[np.bool_]
_SICK, _SICK_PART = (7, 41), (0.2, 0.45)
_LEAST_RUNS = 3


def build_dfra_machine() -> Site:
    """TaihuLight with 240 forwarders: its map leads to the first 80. Any number of them may be granted."""
    return replace(build_taihulight_platform(forwarders=FORWARDERS), forwarder_counts=tuple(range(1, FORWARDERS + 1)))


def find_last_dfra_runs(drawn: Season) -> I64:
    """The last run of each job's program that had ended when it came (J,), -1 where none had; ends as if alone."""
    jobs = drawn.jobs
    ends = jobs.start_s + measure_computing_seconds(jobs) + compute_solo_time(jobs, drawn.machine)
    last = np.full(len(jobs), -1)
    for program in np.unique(drawn.program):
        own = np.flatnonzero(drawn.program == program)
        for i, j in enumerate(own):
            over = own[:i][ends[own[:i]] <= jobs.start_s[j]]
            if len(over):
                last[j] = over[-1]
    return last


def predict_dfra_jobs(drawn: Season) -> Callable[[int], ExpectedJob]:
    """What is expected of a job: the figures of the last run of its program, at its own nodes; nothing for a first run.

    DFRA's own forecast: a job of the same user, name and size does what it did (FAST 2019).
    """
    last, figures = find_last_dfra_runs(drawn), predict_true_dfra_jobs(drawn)

    def expected(j: int) -> ExpectedJob:
        was, now = int(last[j]), figures(j)
        if was < 0:
            return ExpectedJob(
                job_id=now.job_id,
                node_count=now.node_count,
                node_ids=now.node_ids,
                cores=now.cores,
                processes=now.processes,
            )
        return replace(
            figures(was),
            job_id=now.job_id,
            node_count=now.node_count,
            node_ids=now.node_ids,
            basis="the last run of its program",
        )

    return expected


def predict_true_dfra_jobs(drawn: Season) -> Callable[[int], ExpectedJob]:
    """Each job's own figures, with the mode and the processes that were drawn for it."""
    figures = build_perfect_prediction(drawn.jobs, drawn.machine)

    def expected(j: int) -> ExpectedJob:
        return replace(figures(j), mode=drawn.format_mode(j), io_processes=int(drawn.io_processes[j]))

    return expected


def _find_eligible(drawn: Season) -> Mask:
    """Jobs that DFRA's rule takes by their own figures (J,)."""
    rule = Dfra()
    mode = np.array([drawn.format_mode(j) in rule.modes for j in range(len(drawn.jobs))], np.bool_)
    moved = drawn.read + drawn.written >= rule.least_bytes
    return np.asarray(mode & moved & (drawn.io_processes >= rule.least_processes))


def _compute_speed_ups(drawn: Season, static: ReplayResult, dynamic: ReplayResult, among: Mask) -> F64:
    """I/O time under the static map over that under DFRA, of each program with three runs among the jobs; falling."""
    chosen = among & ~np.isnan(static.end_s) & ~np.isnan(dynamic.end_s)
    program, count = np.unique(drawn.program[chosen], return_counts=True)
    own = [chosen & (drawn.program == p) for p in program[count >= _LEAST_RUNS]]
    return np.sort([float(static.io_s[mine].sum() / dynamic.io_s[mine].sum()) for mine in own])[::-1]


def measure_dfra_forwarder(seed: int) -> float:
    """Speed-up under DFRA of one application on the 512 nodes of one forwarder, each writing at its client's rate."""
    sunway, one = build_dfra_machine(), np.ones(1)
    job = Jobs(
        start_s=np.zeros(1),
        first_phase=np.array([0, 1]),
        compute_s=np.zeros(1),
        volume=one * 1e13,
        operations=np.zeros(1),
        tail_s=np.zeros(1),
        nodes=np.array([512]),
        cores=one * 512 * 260,
        first_node=np.zeros(1, np.int64),
        client_rate=one * 512 * sunway.client_bandwidth,
        forwarder_cost=one / sunway.forwarders.bandwidth[0],
        target_cost=one / sunway.targets.bandwidth[0],
        most_targets=np.array([512]),
        behaviour=np.array([-1]),
        basis=np.zeros(1, np.int64),
    )
    static, dynamic = (
        replay_jobs(job, sunway, find_registered_path_policy(name), seed=seed).io_s[0]
        for name in ("static-map", "dfra")
    )
    return float(static / dynamic)


def compare_dfra(*, seed: int, quick: bool, tell: Callable[[int, int], None]) -> PaperReport:
    """A month (`quick`: two days) under both, also with sick forwarders, and DFRA by true figures for its last runs."""
    span_s = QUICK_S if quick else MONTH_S
    drawn = draw_taihulight_season((seed, 2019), span_s=span_s, machine=build_dfra_machine())
    begin_s, end_s = (part * span_s for part in _SICK_PART)
    faults = [Fault(component="forwarder", number=n, from_s=begin_s, to_s=end_s, factor=0.2) for n in _SICK]
    settings = [
        ("static-map", predict_true_dfra_jobs(drawn), []),
        ("dfra", predict_dfra_jobs(drawn), []),
        ("dfra", predict_true_dfra_jobs(drawn), []),
        ("static-map", predict_true_dfra_jobs(drawn), faults),
        ("dfra", predict_dfra_jobs(drawn), faults),
    ]
    jobs = len(drawn.jobs)
    out = [
        replay_jobs(
            drawn.jobs,
            drawn.machine,
            find_registered_path_policy(name),
            seed=seed,
            faults=sick,
            expected_of=expected_of,
            progress=_part(tell, number, len(settings)),
        )
        for number, (name, expected_of, sick) in enumerate(settings)
    ]
    static, dynamic, knowing, static_sick, dynamic_sick = out
    lines = [
        *_of_all(drawn, static, dynamic, knowing, span_s),
        *_of_eligible(drawn, static, dynamic, seed),
        *_of_modes(drawn, static, dynamic),
        *_of_forwarders(drawn, (static, dynamic), (static_sick, dynamic_sick)),
    ]
    drawn_by = (
        f"{jobs} jobs drawn by published figures of TaihuLight's population, not the paper's trace: core-hours are of "
        "drawn jobs. First runs have no last run, so DFRA leaves them to the map."
    )
    of_machine = (
        f"80 forwarders by the map, 512 nodes to each, {FORWARDERS - 80} more that only DFRA grants; 2.5 GB/s a "
        "forwarder and 90 MB/s a node, so a job alone gains at most 512 x 90 MB/s / 2.5 GB/s = 18.4 times."
    )
    of_lost = (
        "Lost: beyond the best grant alone. Slowdown: mean over jobs of I/O time over that alone with the best grant."
    )
    of_faults = "Sick: two mapped forwarders at a fifth of their rate for a quarter of the time; DFRA knows at once."
    return PaperReport(
        paper="dfra",
        source="Ji et al., FAST 2019",
        lines=tuple(lines),
        notes=(drawn_by, of_machine, of_lost, of_faults),
    )


def _part(tell: Callable[[int, int], None], number: int, of: int) -> Progress:
    return lambda done, jobs: tell(number * jobs + done, of * jobs)


def _of_all(
    drawn: Season, static: ReplayResult, dynamic: ReplayResult, knowing: ReplayResult, span_s: float
) -> list[Line]:
    jobs, where, unit = drawn.jobs, "all jobs", "core-hours"
    was, now = summarise_replay_measures(jobs, static), summarise_replay_measures(jobs, dynamic)
    changed, known = measure_replay_change(jobs, static, dynamic), measure_replay_change(jobs, static, knowing)
    saved = changed.saved_core_hours
    return [
        Line(where, "jobs", float(len(jobs))),
        Line(where, "waited in I/O, static", was.waiting_core_hours, unit=unit),
        Line(where, "lost, static", was.lost_core_hours, unit=unit),
        Line(where, "lost, DFRA", now.lost_core_hours, unit=unit),
        Line(where, "saved", saved, unit=unit, wanted="> 0"),
        Line(
            where,
            "saved in 11 months",
            saved * YEAR_S * 11 / 12 / span_s,
            200e6,
            unit=unit,
            note="the paper's are of its own jobs",
        ),
        Line(
            where, "of what perfect forecasts save", saved / known.saved_core_hours if known.saved_core_hours else None
        ),
        Line(where, "slowdown, static", was.mean),
        Line(where, "slowdown, DFRA", now.mean),
        Line(where, "faster", float(changed.faster), unit="jobs"),
        Line(where, "slower", float(changed.slower), unit="jobs"),
        Line(where, "lost by the slower", changed.paid_core_hours, unit=unit),
    ]


def _of_eligible(drawn: Season, static: ReplayResult, dynamic: ReplayResult, seed: int) -> list[Line]:
    fit, where = _find_eligible(drawn), "eligible jobs"
    gains = _compute_speed_ups(drawn, static, dynamic, fit)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_runs = (static.io_s / dynamic.io_s)[fit]
    lines = [
        Line(
            "512 nodes alone",
            "speed-up",
            measure_dfra_forwarder(seed),
            18.9,
            0.15,
            note="16 to 18.9 published for some",
        ),
        Line(where, "part of all jobs", float(fit.mean())),
        Line(where, "slowdown, static", summarise_replay_measures(drawn.jobs, static, fit).mean),
        Line(where, "slowdown, DFRA", summarise_replay_measures(drawn.jobs, dynamic, fit).mean),
        Line(where, "largest speed-up of a run", float(np.nanmax(of_runs)) if len(of_runs) else None),
        Line(where, "programs with three runs", float(len(gains))),
    ]
    if len(gains):
        lines += [
            Line(where, "largest speed-up of a program", float(gains[0])),
            Line(where, "p90 of programs' speed-ups", float(np.percentile(gains, 90))),
            Line(where, "median of programs' speed-ups", float(np.median(gains))),
            Line(where, "programs slower by 1 %", float((gains < 0.99).sum())),
        ]
    return lines


def _of_modes(drawn: Season, static: ReplayResult, dynamic: ReplayResult) -> list[Line]:
    lines = []
    for place, name in enumerate((*MODES, "metadata storms")):
        own = drawn.mode == place
        if not own.any():
            continue
        saved = np.nansum(((static.io_s - dynamic.io_s) * drawn.jobs.cores)[own]) / HOUR_S
        lines += [
            Line(name, "slowdown, static", summarise_replay_measures(drawn.jobs, static, own).mean),
            Line(name, "slowdown, DFRA", summarise_replay_measures(drawn.jobs, dynamic, own).mean),
            Line(name, "saved", float(saved), unit="core-hours"),
        ]
    return lines


def _of_forwarders(
    drawn: Season, sound: tuple[ReplayResult, ReplayResult], sick: tuple[ReplayResult, ReplayResult]
) -> list[Line]:
    mapped = len(np.unique(build_dfra_machine().default_forwarder))
    where, both = "forwarders", [measure_replay_change(drawn.jobs, *pair).saved_core_hours for pair in (sound, sick)]
    return [
        Line(where, "busy, mapped ones, static", float(sound[0].forwarder_busy[:mapped].mean())),
        Line(where, "busy, mapped ones, DFRA", float(sound[1].forwarder_busy[:mapped].mean())),
        Line(where, "busy, others, DFRA", float(sound[1].forwarder_busy[mapped:].mean())),
        Line("two sick", "saved", both[1], unit="core-hours", wanted="> 0"),
        Line("two sick", "more than with sound ones", both[1] - both[0], unit="core-hours"),
    ]

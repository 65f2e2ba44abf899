"""Who made jobs slow: the slow target, the disturbing job, or nobody, each with its evidence in plain words.

Pure: tables in, a judgement out. How it is measured is in `slow_targets` and `disturbers`, and told to people in
docs/explanation/who-is-to-blame.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from fairlead.core.model.histogram_bins import OCTAVES_NS
from fairlead.core.model.unit_formats import (
    NS_PER_S,
    format_bandwidth,
    format_bytes,
    format_count,
    format_duration,
    format_percent,
    format_ratio,
)
from fairlead.explain.analysis.component_flows import (
    NO_JOB,
    Axis,
    Bools,
    Floats,
    Flow,
    build_component_flow_axis,
    build_forwarder_flows,
    build_target_flows,
)
from fairlead.explain.analysis.disturbers import Disturbance, DisturberLimits, find_disturbers
from fairlead.explain.analysis.slow_targets import SlowLimits, SlowTarget, find_slow_targets

SCHEMA = "fairlead.judgement/1"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One accusation. `kind` is `slow_target` or `disturber`, `culprit` the target or the job."""

    kind: str
    culprit: str
    title: str
    where: list[str] = []
    """The forwarders concerned; of a target none."""
    from_ns: int
    to_ns: int
    confidence: float
    evidence: list[str]
    advice: list[str]
    victims: list[str]
    lost_s: dict[str, float]
    """By job: seconds its requests lost to this, summed over requests (they overlap)."""
    cost_s: dict[str, float]
    """By job: about how many seconds of its run that was, as far as its number of processes is known."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What the records say: verdicts, the worst of each kind first; `nobody` says why none where there is none."""

    schema: str = SCHEMA
    verdicts: list[Verdict]
    nobody: str | None
    looked_at: dict[str, int]
    """How much there was to judge by: seconds, requests, targets, forwarders, jobs."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a judgement was reached on, for the page."""

    axis: Axis | None
    forwarders: Sequence[Flow]
    targets: Sequence[Flow]
    slow: Sequence[SlowTarget]
    disturbed: Sequence[Disturbance]


def judge_culprits(
    tables: Mapping[str, pa.Table],
    edges_ns: Floats = OCTAVES_NS,
    *,
    window_ns: int = NS_PER_S,
    slow_limits: SlowLimits | None = None,
    disturber_limits: DisturberLimits | None = None,
) -> tuple[Judgement, Facts]:
    """The judgement on `forwarder` and `target` records (`jobs` and `ops`, where given, say how many processes).

    `edges_ns`: bounds of the histograms' bins; histograms of another length count nothing. Tables may be absent.
    """
    forwarder, target = tables.get("forwarder"), tables.get("target")
    axis = build_component_flow_axis([table for table in (forwarder, target) if table is not None], window_ns)
    if axis is None:
        nothing = Facts(axis=None, forwarders=[], targets=[], slow=[], disturbed=[])
        return Judgement(verdicts=[], nobody="There are no records of forwarders or targets.", looked_at={}), nothing
    forwarders = build_forwarder_flows(forwarder, axis, edges_ns) if forwarder is not None else []
    targets = build_target_flows(target, axis, edges_ns) if target is not None else []
    slow = find_slow_targets(targets, slow_limits)
    disturbed = find_disturbers(forwarders, _marked(slow, axis), disturber_limits)
    width = count_culprit_processes(tables)
    verdicts = [_slow_verdict(one, _suffered(one, forwarders), width) for one in slow]
    verdicts += [
        _disturber_verdict(name, [one for one in disturbed if one.disturber == name], width)
        for name in dict.fromkeys(one.disturber for one in disturbed)
    ]
    looked = {
        "seconds": round(axis.count * axis.window_s),
        "requests": round(sum(float(flow.requests.sum()) for flow in forwarders)),
        "targets": len(targets),
        "forwarders": len(forwarders),
        "jobs": len({job for flow in forwarders for job in flow.jobs} - {NO_JOB}),
    }
    facts = Facts(axis=axis, forwarders=forwarders, targets=targets, slow=slow, disturbed=disturbed)
    nobody = None if verdicts else _nobody(forwarders, targets)
    return Judgement(verdicts=verdicts, nobody=nobody, looked_at=looked), facts


def count_culprit_processes(tables: Mapping[str, pa.Table]) -> dict[str, int]:
    """Processes of each job: as its record says, else as many ranks as its operations came from."""
    found: dict[str, int] = {}
    ops = tables.get("ops")
    if ops is not None and ops.num_rows:
        seen: dict[str, set[object]] = {}
        pairs = ops.select(["job_id", "rank"]).group_by(["job_id", "rank"]).aggregate([])
        for row in pairs.to_pylist():
            if row["job_id"] is not None and row["rank"] is not None:
                seen.setdefault(row["job_id"], set()).add(row["rank"])
        found = {job: len(ranks) for job, ranks in seen.items()}
    jobs = tables.get("jobs")
    if jobs is not None:
        found |= {row["job_id"]: row["processes"] for row in jobs.to_pylist() if row.get("processes")}
    return found


def _marked(slow: Sequence[SlowTarget], axis: Axis) -> Bools:
    """Windows in which some target was slow."""
    marked = np.zeros(axis.count, bool)
    for one in slow:
        first = (one.from_ns - axis.start_ns) // axis.window_ns
        marked[first : (one.to_ns - axis.start_ns) // axis.window_ns] = True
    return marked


def _cost(lost: Mapping[str, float], width: Mapping[str, int], length_s: float) -> dict[str, float]:
    """Seconds of a run: the requests of one process follow one another, those of several overlap."""
    return {job: round(min(value / width[job], length_s), 3) for job, value in lost.items() if width.get(job)}


def _suffered(one: SlowTarget, forwarders: Sequence[Flow]) -> dict[str, float]:
    """By job the time lost to a slow target: as the target knows it, else as its requests took longer to serve."""
    lost = {job: value for job, value in one.lost_s.items() if job != NO_JOB}
    if lost:
        return lost
    for flow in forwarders:
        during = _marked([one], flow.axis)
        for row, job in enumerate(flow.jobs):
            requests, service = flow.requests[row] - flow.metadata[row], flow.service_s[row]
            if job == NO_JOB or min(requests[during].sum(), requests[~during].sum()) < _FEW:
                continue
            usual = service[~during].sum() / requests[~during].sum()
            beyond = float(service[during].sum() - usual * requests[during].sum())
            if beyond > 0.3 * usual * requests[during].sum():
                lost[job] = lost.get(job, 0.0) + beyond
    return lost


_FEW = 10
"""Requests, inside and outside the slow seconds, below which a job's service times are not compared."""


def _slow_verdict(one: SlowTarget, lost: Mapping[str, float], width: Mapping[str, int]) -> Verdict:
    length = (one.to_ns - one.from_ns) / NS_PER_S
    evidence = []
    if one.per_mib_s is not None and one.peers_per_mib_s is not None:
        evidence.append(
            f"Each MiB took {one.target} {format_duration(one.per_mib_s)} of device time; "
            f"its {one.peers} peers took {format_duration(one.peers_per_mib_s)} for the same jobs in the same seconds."
        )
    evidence.append(
        f"Job by job, by the more cautious of time per byte and time per request, it was {format_ratio(one.ratio)} "
        f"times as slow as they were: in {one.windows} intervals over {format_duration(length)}, "
        f"{format_count(one.requests)} requests and {format_bytes(one.bytes)}."
    )
    if one.before_per_mib_s is not None and one.per_mib_s is not None:
        evidence.append(
            f"Outside those seconds the same target took {format_duration(one.before_per_mib_s)} for a MiB."
        )
    else:
        evidence.append("There are too few requests from other seconds to say how fast it was then.")
    advice = [
        f"Look at what lies under {one.target}: a failing disk, a rebuild, a full or throttled device.",
        f"Until it is healthy, place no new files on {one.target}, and move frequently read files off it.",
    ]
    return Verdict(
        kind="slow_target",
        culprit=one.target,
        title=f"Target {one.target} was slow",
        from_ns=one.from_ns,
        to_ns=one.to_ns,
        confidence=one.confidence,
        evidence=evidence,
        advice=advice,
        victims=list(lost),
        lost_s=dict(lost),
        cost_s=_cost(lost, width, length),
    )


_RATES = {"requests": "requests", "metadata": "metadata operations", "bytes": ""}


def _rate(kind: str, value: float) -> str:
    return format_bandwidth(value) if kind == "bytes" else f"{format_count(round(value))} {_RATES[kind]} a second"


def _disturber_verdict(name: str, found: Sequence[Disturbance], width: Mapping[str, int]) -> Verdict:
    evidence = []
    for one in found:
        evidence.append(
            f"While job {name} was busy at {one.forwarder}, nine of ten requests of job {one.victim} waited up to "
            f"{format_duration(one.wait_p90_s)} in its queue (half of them up to {format_duration(one.wait_p50_s)}); "
            f"otherwise up to {format_duration(one.usual_wait_p90_s)}."
        )
        chance = (
            ""
            if one.by_chance is None
            else (f" Of the same load moved to other seconds, {format_percent(one.by_chance)} fits as well.")
        )
        evidence.append(
            f"{one.windows} intervals of high load against {one.usual_windows} of low: the busy one had the longer "
            f"wait in {format_percent(one.separation)} of the pairs.{chance}"
        )
    main = max(found, key=lambda one: one.workers)
    evidence.append(
        f"Job {name} asked for {_rate(main.kind, main.demand_per_s)} then, "
        f"otherwise {_rate(main.kind, main.usual_demand_per_s)}; it kept {main.workers:.1f} workers of "
        f"{main.forwarder} busy, {format_percent(main.worker_share)} of all that worked; otherwise "
        f"{main.usual_workers:.1f}."
    )
    lost: dict[str, float] = {}
    for one in found:
        lost[one.victim] = lost.get(one.victim, 0.0) + one.waited_s
    first, last = min(one.from_ns for one in found), max(one.to_ns for one in found)
    victims = list(dict.fromkeys(one.victim for one in found))
    return Verdict(
        kind="disturber",
        culprit=name,
        title=f"Job {name} made {_listed(victims)} wait",
        where=sorted({one.forwarder for one in found}),
        from_ns=first,
        to_ns=last,
        confidence=max(one.confidence for one in found),
        evidence=evidence,
        advice=_disturber_advice(name, main),
        victims=[job for job in victims if job != NO_JOB],
        lost_s=lost,
        cost_s=_cost(lost, width, (last - first) / NS_PER_S),
    )


def _disturber_advice(name: str, main: Disturbance) -> list[str]:
    advice = [
        f"Let the jobs of {main.forwarder} take turns (job-fair): one job's queue is then not the others' wait.",
        f"Or give job {name} a forwarder of its own.",
    ]
    if main.kind == "metadata":
        advice.append(f"Job {name}: keep many small files in one container, or make them on node-local storage.")
    elif main.kind == "requests":
        advice.append(f"Job {name}: write larger pieces; each small request costs a worker of the forwarder its turn.")
    return advice


def _listed(jobs: Sequence[str]) -> str:
    named = [f"job {job}" if job != NO_JOB else "requests of no known job" for job in jobs]
    return named[0] if len(named) == 1 else ", ".join(named[:-1]) + " and " + named[-1]


def _nobody(forwarders: Sequence[Flow], targets: Sequence[Flow]) -> str:
    """Why nobody is accused."""
    parts = []
    if len(targets) < 3:
        parts.append("with fewer than three targets none can be held against its peers")
    else:
        parts.append("no target took clearly longer than its peers for the same jobs over several seconds")
    if any(len(set(flow.jobs) - {NO_JOB}) > 1 for flow in forwarders):
        parts.append("no job's waits at a forwarder grew with another job's load")
    else:
        parts.append("no two jobs shared a forwarder")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."

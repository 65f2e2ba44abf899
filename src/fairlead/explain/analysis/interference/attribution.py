"""The verdict on one abnormal phase: which neighbour or component took its time, if the evidence says so. Pure.

Loads become arrays (`loads`), arrays congestion (`congestion`), congestion seconds by candidate (`blame`), and those
with dose and response a probability (`cause_scores`). See docs/explanation/attribution.md. Not here: findings
(`job_findings`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow.compute as pc

from fairlead.core.model.finding import Evidence, Subject
from fairlead.core.model.incident import Incident
from fairlead.core.model.unit_formats import format_bytes, format_count, format_duration, format_percent
from fairlead.core.safe_text import escape_text
from fairlead.explain.analysis.interference import cause_scores
from fairlead.explain.analysis.interference.blame import assign_blame, order_by_blame
from fairlead.explain.analysis.interference.congestion import Congestion, find_congestion, find_congestion_path
from fairlead.explain.analysis.interference.dose_response import estimate_doses
from fairlead.explain.analysis.interference.features import FeatureLimits, compute_features
from fairlead.explain.analysis.interference.load_arrays import F64, Loads, build_load_arrays
from fairlead.explain.analysis.interference.neighbour_verdict import (
    PLAIN,
    Case,
    classify_neighbour_load,
    compute_peak_use,
    list_neighbour_counter_evidence,
)
from fairlead.explain.analysis.interference.part_estimates import add_part_estimates
from fairlead.explain.analysis.interference.scene import Attribution, Culprit, Scene, Victim

MOST_TOLD = 10
"""Candidates that are told of."""
LEAST_TOLD = 0.01
"""Least share of the lost time that must fall to a neighbour to be told of."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What it takes to name somebody."""

    features: FeatureLimits = field(default_factory=FeatureLimits)
    accuse: float = 0.5
    """Least confidence with which a culprit is named."""
    least_share: float = 0.25
    """Least share of the lost time that must fall to whoever is named."""
    alone: float = 0.45
    """Least part of what all neighbours took with which one of them is named alone, where three or more took part."""
    enough: float = 0.5
    """Share of the lost time that would come back if one of them alone were gone, from which it is to blame alone."""
    partaker: float = 0.1
    """Least part of what all neighbours took that makes one of them one of many; half of what the first took does,
    too."""
    tied: float = 0.9
    """Neighbours without whom at least this part of what the first would give back came back are as good a culprit: of
    three and more none is named alone."""
    mixed_part: float = 1 / 3
    """Part of what a neighbour took that a second kind of load makes up, for it to be `mixed`."""
    own_change: float = 2.0
    """Times its usual that a job's requests are smaller or its metadata operations more."""
    unsure: float = 0.85
    """What a confidence is multiplied by for shares that are estimates, and for each kind of layer nothing is known
    of."""


@dataclass(frozen=True)
class _Candidate:
    culprit: Culprit
    cost_s: float
    took_s: float
    """What would come back without it, as far as is known at least `cost_s`."""
    confidence: float


def attribute_phase(scene: Scene, limits: Limits | None = None) -> Attribution:
    """Who or what took the time of the scene's victim. Nothing known gives `unknown`; it never raises for what is
    missing."""
    limits = limits or Limits()
    case, missing, trust = _build_case(scene, limits)
    lost = float(case.found.lost.sum())
    if lost <= 0 or not case.found.held:
        own = _own_change(scene.victim, limits)
        return (
            _own(own, (), missing)
            if own
            else Attribution(
                verdict="unknown",
                accused=False,
                confidence=0.0,
                culprits=(),
                evidence=(_nothing(case),),
                missing=missing,
            )
        )
    jobs = _neighbours(case, limits, trust)
    components = _components(case, trust)
    ranked = sorted([*jobs, *components], key=lambda one: (-one.confidence, -one.cost_s, one.culprit.who.id))
    culprits = tuple(one.culprit for one in ranked[:MOST_TOLD])
    many = _many(case, limits, trust)
    best = ranked[0] if ranked else None
    if many is not None and (best is None or best.culprit.who.kind == "job"):
        confidence, evidence, culprits = many
        verdict = "many_neighbours"
    elif best is None:
        confidence, evidence, verdict = 0.0, [_nothing(case)], "unknown"
    else:
        confidence, evidence, verdict = best.confidence, list(best.culprit.evidence), best.culprit.verdict
        if best.took_s < limits.least_share * lost:
            confidence = min(confidence, limits.accuse / 2)
    accused = confidence >= limits.accuse
    if not accused:
        own = _own_change(scene.victim, limits)
        if own:
            return _own(own, culprits, missing)
        verdict, evidence = "unknown", [_nothing(case), *evidence]
    return Attribution(
        verdict=verdict,
        accused=accused,
        confidence=round(confidence, 4),
        culprits=culprits,
        evidence=evidence,
        missing=missing,
    )


def _build_case(scene: Scene, limits: Limits) -> tuple[Case, list[str], float]:
    """All evidence of a scene; what was missing; how far confidence is to be trusted for that, in [0, 1]."""
    victim = scene.victim
    others = (
        [str(job) for job in pc.unique(scene.neighbours["job_id"]).to_pylist()] if scene.neighbours.num_rows else []
    )
    loads = build_load_arrays(
        scene.loads, scene.interval_ns, victim.job_id, others, span_ns=(victim.start_ns, victim.end_ns)
    )
    loads, estimated = add_part_estimates(loads, victim, scene.neighbours)
    path = find_congestion_path(loads, victim)
    found = find_congestion(
        loads, victim, path, incidents=scene.incidents, peaks=scene.peaks, usual_wait_s=scene.usual_wait_s
    )
    blame = assign_blame(loads, found)
    moves = estimate_doses(blame.load, found.rate, (found.inside > 0) | (np.nan_to_num(found.rate) > 0))
    features = compute_features(loads, found.inside, victim.start_ns, victim.end_ns, scene.neighbours, path)
    seen = {loads.components[place].kind for place in path}
    wanted = ["mds"] if victim.kind == "metadata" else ["target"]
    lacking = [f"{PLAIN[kind]}s: no counters" for kind in wanted if kind not in seen]
    trust = limits.unsure ** (len(lacking) + bool(estimated) + bool(found.missing))
    missing = list(dict.fromkeys([*scene.missing, *lacking, *estimated, *found.missing]))
    return Case(loads, found, blame, moves, features, limits.features, victim.kind), missing, trust


def _neighbours(case: Case, limits: Limits, trust: float) -> list[_Candidate]:
    """Neighbours with what they took and how likely each is the main cause."""
    blame, loads = case.blame, case.loads
    if len(loads.jobs) < 2:
        return []
    likely = trust * cause_scores.compute_cause_scores(_build_score_inputs(case))
    lost = float(case.found.lost.sum())
    some = [job for job in range(1, len(loads.jobs)) if blame.jobs[job] > LEAST_TOLD * lost]
    made = []
    for job in sorted(some, key=lambda k: (-float(likely[k - 1]), -float(blame.jobs[k]), k))[:MOST_TOLD]:
        cost = float(blame.jobs[job])
        at = [row for row in order_by_blame(blame.where[:, job]) if blame.where[row, job] > 0.02 * cost]
        culprit = Culprit(
            who=Subject("job", loads.jobs[job]),
            verdict=classify_neighbour_load(case, job, limits.mixed_part),
            score=round(float(likely[job - 1]), 4),
            cost_s=round(cost, 3),
            at=[_subject(loads, case.found, row) for row in at],
            evidence=list_neighbour_counter_evidence(case, job),
            facts=case.features[job - 1].list_facts(),
        )
        made.append(_Candidate(culprit, cost, max(cost, float(blame.alone[job])), float(likely[job - 1])))
    return made


def _build_score_inputs(case: Case) -> cause_scores.Inputs:
    """What the score is made of, by neighbour."""
    lost = max(float(case.found.lost.sum()), 1e-9)
    costs = case.blame.jobs[1:]
    rivals = np.append(costs, case.blame.faults.max(initial=0.0))
    shown = np.array([bool(one.list_conspicuous(case.limits)) for one in case.features], float)
    return cause_scores.Inputs(
        share=np.minimum(costs / lost, 1.0),
        alone=np.minimum(case.blame.alone[1:] / lost, 1.0),
        lead=cause_scores.compute_score_leads(rivals)[:-1],
        response=case.doses.response[1:],
        by_chance=case.doses.by_chance[1:],
        conspicuous=shown,
    )


def _subject(loads: Loads, found: Congestion, row: int) -> Subject:
    one = loads.components[found.held[row].place]
    return Subject(one.kind, one.id)


def _components(case: Case, trust: float) -> list[_Candidate]:
    """Components whose known fault explains a part."""
    lost = max(float(case.found.lost.sum()), 1e-9)
    made = []
    best = float(case.blame.jobs.max(initial=0.0))
    for row, held in enumerate(case.found.held):
        cost = float(case.blame.faults[row])
        if held.incident is None or cost <= 0:
            continue
        one = case.loads.components[held.place]
        lead = cost / max(cost + best, 1e-9)
        sure = held.incident.confidence * trust * float(np.clip(1.6 * min(cost / lost, 1.0) * lead / 0.8, 0.0, 1.0))
        culprit = Culprit(
            who=Subject(one.kind, one.id),
            verdict="component",
            score=round(sure, 4),
            cost_s=round(cost, 3),
            at=[Subject(one.kind, one.id)],
            evidence=_sick(case, row, held.incident, cost, lost),
            facts={"component": one.id}
            | ({} if held.incident.share_of_peak is None else {"share_of_peak": held.incident.share_of_peak}),
        )
        made.append(_Candidate(culprit, cost, cost, sure))
    return made


def _sick(case: Case, row: int, incident: Incident, cost: float, lost: float) -> list[Evidence]:
    one = case.loads.components[case.found.held[row].place]
    name = f"{PLAIN[one.kind]} {escape_text(one.id)}"
    state = "did not work" if incident.kind == "dead" else "was below its known peak"
    if incident.kind != "dead" and incident.share_of_peak is not None:
        state = f"reached {format_percent(incident.share_of_peak)} of its known peak"
    told = [
        Evidence(
            text=f"{name} {state} while the phase ran (incident {escape_text(incident.id)})",
            metric="share_of_peak",
            value=incident.share_of_peak,
            unit="share",
        ),
        Evidence(
            text=f"{format_duration(cost)} of the {format_duration(lost)} lost are due to its missing capacity",
            metric="cost",
            value=round(cost, 3),
            unit="s",
        ),
    ]
    use = compute_peak_use(case, row)
    if use is not None:
        told.append(
            Evidence(
                text=f"of what it had left, {format_percent(min(use, 1.0))} was in use: demand was higher",
                metric="use",
                value=round(min(use, 1.0), 4),
                unit="share",
            )
        )
    return [*told, *incident.evidence[:2]]


def _many(case: Case, limits: Limits, trust: float) -> tuple[float, list[Evidence], tuple[Culprit, ...]] | None:
    """The verdict that many took a part and none the most, where it is so."""
    costs: F64 = case.blame.jobs
    total, lost = float(costs.sum()), float(case.found.lost.sum())
    least = min(limits.partaker * total, float(costs.max()) / 2)
    parts = [job for job in order_by_blame(costs) if costs[job] >= least and costs[job] > 0]
    if len(parts) < 3 or costs[parts[0]] >= limits.alone * total or total < 2 * limits.least_share * lost:
        return None
    alone = float(case.blame.alone.max())
    if alone >= limits.enough * lost and int((case.blame.alone >= limits.tied * alone).sum()) < 3:
        return None
    if float(case.blame.faults.sum()) >= total:
        return None
    sure = trust * float(np.clip(total / lost, 0.0, 1.0)) * 0.9
    evidence = [
        Evidence(
            text=f"{format_duration(total)} of the {format_duration(lost)} lost are due to {len(parts)} jobs together; "
            f"the largest part of one is {format_percent(float(costs[parts[0]]) / total)}",
            metric="cost",
            value=round(total, 3),
            unit="s",
        )
    ]
    culprits = []
    for job in parts:
        at = [row for row in order_by_blame(case.blame.where[:, job]) if case.blame.where[row, job] > 0.02 * costs[job]]
        told = list_neighbour_counter_evidence(case, job)
        evidence += told[1:2]
        culprits.append(
            Culprit(
                who=Subject("job", case.loads.jobs[job]),
                verdict=classify_neighbour_load(case, job, limits.mixed_part),
                score=round(sure * float(costs[job]) / total, 4),
                cost_s=round(float(costs[job]), 3),
                at=[_subject(case.loads, case.found, row) for row in at],
                evidence=told,
                facts=case.features[job - 1].list_facts(),
            )
        )
    return sure, evidence, tuple(culprits)


def _own_change(victim: Victim, limits: Limits) -> list[Evidence]:
    """What the job itself did unlike its category; empty where nothing, or nothing is known."""
    told = []
    now, usual = victim.request_bytes, victim.usual_request_bytes
    if now is not None and usual is not None and now > 0 and usual >= limits.own_change * now:
        told.append(
            Evidence(
                text=f"its requests were of {format_bytes(now)}; usually they are of {format_bytes(usual)}",
                metric="request_bytes",
                value=now,
                unit="bytes",
            )
        )
    count, before = victim.metadata_ops, victim.usual_metadata_ops
    if count is not None and before is not None and count >= limits.own_change * max(before, 100.0):
        told.append(
            Evidence(
                text=f"it made {format_count(count)} metadata operations; usually {format_count(before)}",
                metric="metadata_ops",
                value=count,
            )
        )
    if victim.mode is not None and victim.usual_mode is not None and victim.mode != victim.usual_mode:
        told.append(
            Evidence(
                text=f"its files were shared as {victim.mode}; usually as {victim.usual_mode}",
                metric="mode",
                value=victim.mode,
            )
        )
    return told


def _own(told: list[Evidence], culprits: Sequence[Culprit], missing: list[str]) -> Attribution:
    return Attribution(
        verdict="own",
        accused=False,
        confidence=round(min(0.6 + 0.15 * len(told), 0.9), 4),
        culprits=culprits,
        evidence=told,
        missing=missing,
    )


def _nothing(case: Case) -> Evidence:
    """Why nobody is named."""
    if not case.found.held:
        return Evidence(text="no records of the components it used")
    lost = max(float(case.found.lost.sum()), 1e-9)
    return Evidence(
        text=f"{format_percent(case.blame.unexplained_s / lost)} of the lost time is visible on none of the "
        f"{len(case.found.held)} components it used",
        metric="unexplained",
        value=round(case.blame.unexplained_s, 3),
        unit="s",
    )

"""Findings of jobs: one for each job and cause, the same to the byte, with costs that do not exceed what was lost."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import pytest

from fairlead.core.model.finding import Advice, Evidence, Subject
from fairlead.core.model.finding_incident_rows import build_finding_rows, parse_finding_rows
from fairlead.explain.analysis.anomalies.detector_output import PhaseJudgement
from fairlead.explain.analysis.interference.scene import Attribution, Culprit
from fairlead.explain.analysis.job_findings import build_job_findings
from interference_building import S, phase_table


def phase(number: int, job: str = "7", **more: object) -> dict[str, object]:
    begin = (10 + 100 * number) * S
    return {
        "job_id": job,
        "job_start_ns": 0,
        "number": number,
        "kind": "write",
        "start_ns": begin,
        "end_ns": begin + 60 * S,
        "active_ns": 60 * S,
        "user": "ada",
        "program": "flow",
        "nodes_count": 16,
        "processes": 64,
        "made_ns": 1,
        "analysis_version": 1,
        **more,
    }


def judged(count: int) -> PhaseJudgement:
    return PhaseJudgement(
        abnormal=np.ones(count, bool),
        confidence=np.full(count, 0.9),
        expected_s=np.full(count, 20.0),
        lost_s=np.full(count, 40.0),
        runs=np.full(count, 12),
        rung=np.zeros(count, np.int8),
    )


def by_job(name: str, verdict: str = "n_to_1", cost_s: float = 30.0, *, accused: bool = True) -> Attribution:
    culprit = Culprit(
        who=Subject("job", name),
        verdict=verdict,
        score=0.9,
        cost_s=cost_s,
        at=[Subject("forwarder", "fwd002")],
        evidence=[Evidence(text=f"job {name} held 90 %")],
        facts={"culprit": name, "processes": 960},
    )
    return Attribution(
        verdict=verdict if accused else "unknown",
        accused=accused,
        confidence=0.8 if accused else 0.3,
        culprits=[culprit],
        evidence=list(culprit.evidence),
        missing=["no port counters"],
    )


def sick() -> Attribution:
    where = Subject("target", "OST0003")
    culprit = Culprit(who=where, verdict="component", score=0.9, cost_s=39.0, at=[where], evidence=[])
    return Attribution(verdict="component", accused=True, confidence=0.9, culprits=[culprit], evidence=[], missing=[])


def test_phases_with_one_culprit_are_one_finding() -> None:
    told = build_job_findings(
        phase_table([phase(0), phase(1)]), judged(2), {0: by_job("812"), 1: by_job("812", cost_s=20.0)}
    )
    assert len(told) == 1
    finding = told[0].finding
    assert finding.rule == "job.interference"
    assert finding.category == "n_to_1"
    assert finding.culprits == [Subject("job", "812")]
    assert told[0].components == [Subject("forwarder", "fwd002")]
    assert finding.cost_s == 50.0
    assert (finding.from_ns, finding.to_ns) == (10 * S, 170 * S)
    assert finding.confidence == pytest.approx(0.72)
    assert "812" in finding.title
    assert "fwd002" in finding.title
    assert finding.missing == ["no port counters"]
    assert "usually takes 20 s (12 other phases" in finding.evidence[0].text


def test_different_causes_and_different_jobs_are_different_findings() -> None:
    rows = [phase(0), phase(1), phase(2), phase(0, "8")]
    told = build_job_findings(
        phase_table(rows), judged(4), {0: by_job("812"), 1: sick(), 2: by_job("813", accused=False), 3: by_job("812")}
    )
    assert len({one.finding.id for one in told}) == 4
    assert sorted((one.job_id or "", one.finding.rule) for one in told) == [
        ("7", "job.interference"),
        ("7", "job.slow_component"),
        ("7", "job.slow_unexplained"),
        ("8", "job.interference"),
    ]


def test_below_the_threshold_nobody_is_named() -> None:
    told = build_job_findings(phase_table([phase(0)]), judged(1), {0: by_job("812", accused=False)})
    finding = told[0].finding
    assert finding.rule == "job.slow_unexplained"
    assert finding.category == "unknown"
    assert finding.culprits == []
    assert told[0].components == []
    assert "812" not in finding.title
    assert finding.cost_s == 40.0


def test_no_more_is_put_on_a_cause_than_was_lost() -> None:
    told = build_job_findings(phase_table([phase(0)]), judged(1), {0: by_job("812", cost_s=4000.0)})
    assert told[0].finding.cost_s == 40.0


def test_the_same_to_the_byte_in_any_order() -> None:
    rows, said = [phase(0), phase(1)], {0: by_job("812"), 1: sick()}
    first = build_finding_rows(build_job_findings(phase_table(rows), judged(2), said), 5)
    again = build_finding_rows(build_job_findings(phase_table(rows), judged(2), dict(reversed(said.items()))), 5)
    assert first.equals(again)
    assert msgspec.json.encode(parse_finding_rows(first)[0]) == msgspec.json.encode(
        build_job_findings(phase_table(rows), judged(2), said)[0]
    )


def test_severity_grows_with_the_share_of_the_run() -> None:
    short = build_job_findings(phase_table([phase(0)]), judged(1), {0: by_job("812")})
    long_run = phase(0, job_start_ns=-100_000 * S)
    long = build_job_findings(phase_table([long_run]), judged(1), {0: by_job("812")})
    assert short[0].finding.severity == "high"
    assert long[0].finding.severity == "info"


def test_advice_is_asked_with_what_is_known_of_the_culprit() -> None:
    asked: list[tuple[str, str, Mapping[str, object], str | None]] = []

    def advise(rule: str, verdict: str, facts: Mapping[str, object], layer: str | None) -> list[Advice]:
        asked.append((rule, verdict, facts, layer))
        return [Advice(text="write with fewer processes")]

    told = build_job_findings(phase_table([phase(0)]), judged(1), {0: by_job("812")}, advise=advise)
    rule, verdict, facts, layer = asked[0]
    assert (rule, verdict, layer) == ("job.interference", "n_to_1", "forwarder")
    assert facts["culprit"] == "812"
    assert facts["processes"] == 960
    assert facts["user"] == "ada"
    assert [one.text for one in told[0].finding.advice] == ["write with fewer processes"]


def test_names_that_hold_control_characters_are_made_harmless() -> None:
    told = build_job_findings(phase_table([phase(0, "7\x1b[31m")]), judged(1), {0: by_job("8\x07")})
    assert "\x1b" not in told[0].finding.title
    assert "\x07" not in told[0].finding.title


def test_nothing_attributed_nothing_told() -> None:
    assert build_job_findings(phase_table([phase(0)]), judged(1), {}) == []

"""Evaluates rules on a job's profile: findings ordered by what they cost, and the rules that could not be decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fairlead.analysis import ANALYSIS_VERSION
from fairlead.analysis.balance import stragglers
from fairlead.analysis.costs import COSTS
from fairlead.analysis.profile import METRICS, JobProfile
from fairlead.analysis.values import Value
from fairlead.model import units
from fairlead.model.finding import SEVERITIES, Advice, Evidence, Finding, Severity, Subject
from fairlead.rules.rule import AdviceTemplate, EvidenceTemplate, Rule, compiled, placeholders

_UNIT_FORMAT = {
    "bytes": units.format_bytes, "bytes/s": units.format_bandwidth, "count": units.format_count,
    "share": units.format_percent, "s": units.format_duration, "rank": lambda v: str(v),
    "1/s": lambda v: f"{units.format_count(v)}/s", "ratio": lambda v: f"{v:.3g}",
}  # fmt: skip


@dataclass(frozen=True)
class Undecided:
    """A rule whose condition hangs on metrics the trace cannot tell."""

    rule: str
    title: str
    unknown: list[str]


def namespace(profile: JobProfile) -> dict[str, Value]:
    """Names a condition may use: metrics and `cost_<cause>_s`."""
    return profile.metrics | {f"cost_{cause}_s": cost.seconds for cause, cost in profile.costs.items()}


def shown(name: str, value: Value) -> str:
    """A metric's value in its unit, for people."""
    if value is None:
        return "unknown"
    if isinstance(value, str | bool):
        return str(value)
    unit = "s" if name.startswith("cost_") else METRICS[name][0]
    formatted = _UNIT_FORMAT.get(unit)
    return str(value) if formatted is None else str(formatted(value))  # type: ignore[operator]


def fill(text: str, metrics: Mapping[str, Value]) -> str:
    """`text` with its `{metric}` placeholders shown in their units."""
    for name in placeholders(text):
        text = text.replace("{" + name + "}", shown(name, metrics.get(name)))
    return text


def evaluate(rules: Mapping[str, Rule], profile: JobProfile) -> tuple[list[Finding], list[Undecided]]:
    """Findings, dearest first (then by severity), and the rules that could not be decided."""
    metrics = namespace(profile)
    findings: list[Finding] = []
    undecided: list[Undecided] = []
    for rule in rules.values():
        if not rule.enabled:
            continue
        condition = compiled(rule.when)
        holds = condition.evaluate(metrics)
        if holds is None:
            undecided.append(Undecided(rule.id, fill(rule.title, metrics), condition.unknown(metrics)))
        elif holds:
            findings.append(_finding(rule, metrics, profile))
    return sorted(findings, key=_order), undecided


def _order(finding: Finding) -> tuple[bool, float, int, str]:
    good = finding.severity in ("ok", "info")
    return good, -(finding.cost_s or 0.0), SEVERITIES.index(finding.severity), finding.rule


def severity_of(rule: Rule, metrics: Mapping[str, Value]) -> Severity:
    """The first step whose condition holds, else the rule's own severity."""
    for step in rule.steps:
        if compiled(step.when).evaluate(metrics):
            return step.severity
    return rule.severity


def _finding(rule: Rule, metrics: Mapping[str, Value], profile: JobProfile) -> Finding:
    job = profile.view.job
    cost = profile.costs[rule.cost] if rule.cost else None
    severity = severity_of(rule, metrics)
    seconds = cost.seconds if cost and severity not in ("ok",) else None
    return Finding(
        id=f"{job.job_id}/{rule.id}",
        rule=rule.id,
        title=fill(rule.title, metrics),
        subject=Subject("job", job.job_id),
        from_ns=job.start_ns,
        to_ns=job.end_ns,
        severity=severity,
        confidence=rule.confidence,
        category=rule.category,
        evidence=[_evidence(e, metrics, profile) for e in rule.evidence if _applies(e.when, metrics)],
        missing=_unknown(rule, metrics),
        advice=[_advice(a, metrics) for a in rule.advice if _applies(a.when, metrics)],
        cost_s=seconds,
        cost_basis=f"{COSTS[rule.cost or '']}; {cost.basis}" if cost and seconds is not None else None,
        analysis_version=ANALYSIS_VERSION,
    )


def _applies(when: str | None, metrics: Mapping[str, Value]) -> bool:
    return when is None or bool(compiled(when).evaluate(metrics))


def _unknown(rule: Rule, metrics: Mapping[str, Value]) -> list[str]:
    names = {name for _, text in rule.conditions() for name in compiled(text).names}
    return sorted(name for name in names if metrics.get(name) is None)


def _evidence(template: EvidenceTemplate, metrics: Mapping[str, Value], profile: JobProfile) -> Evidence:
    value = metrics.get(template.metric) if template.metric else None
    ranks: list[int] = []
    if template.ranks == "slowest" and profile.times.slowest_rank is not None:
        ranks = [profile.times.slowest_rank]
    elif template.ranks == "stragglers" and profile.times.per_rank_s is not None:
        ranks = [int(r) for r in stragglers(profile.times.per_rank_s)[:10]]
    return Evidence(
        text=fill(template.text, metrics),
        metric=template.metric,
        value=value,
        unit=METRICS[template.metric][0] if template.metric in METRICS else ("s" if template.metric else None),
        files=profile.files.top(template.files) if template.files else [],
        ranks=ranks,
    )


def _advice(template: AdviceTemplate, metrics: Mapping[str, Value]) -> Advice:
    return Advice(
        text=fill(template.text, metrics), audience=template.audience, code=template.code, language=template.language
    )

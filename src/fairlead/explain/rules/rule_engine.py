"""Evaluates rules on a job's profile: findings ordered by what they cost, and the rules that could not be decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from fairlead.core.model import unit_formats
from fairlead.core.model.finding import SEVERITIES, Advice, Evidence, Finding, Severity, Subject
from fairlead.explain.analysis import ANALYSIS_VERSION
from fairlead.explain.analysis.costs import COSTS
from fairlead.explain.analysis.metric_docs import Value
from fairlead.explain.analysis.profile import METRICS, JobProfile
from fairlead.explain.analysis.rank_balance import find_straggler_ranks
from fairlead.explain.rules.condition import compile_condition
from fairlead.explain.rules.rule import AdviceTemplate, EvidenceTemplate, Rule, substitute_rule_placeholders

MINOR_S, MINOR_SHARE = 0.1, 0.05
"""What costs less than a tenth of a second, or less than 5 % of the run time, is at most a warning."""
NEGLIGIBLE_SHARE = 0.001
"""What costs nothing, or less than 0.1 % of the run time, is for information only."""


def _percent(value: float) -> str:
    """A share that is not quite everything is not shown as everything."""
    return "over 99 %" if 0.995 <= value < 1 else unit_formats.format_percent(value)


_UNIT_FORMAT: dict[str, Callable[[float], str]] = {
    "bytes": unit_formats.format_bytes,
    "bytes/s": unit_formats.format_bandwidth,
    "count": unit_formats.format_count,
    "share": _percent,
    "s": unit_formats.format_duration,
    "rank": lambda v: str(int(v)),
    "1/s": lambda v: f"{unit_formats.format_count(v)}/s",
    "ratio": unit_formats.format_ratio,
}


@dataclass(frozen=True)
class UndecidedRule:
    """A rule whose condition hangs on metrics the trace cannot tell."""

    rule: str
    title: str
    unknown: list[str]


def build_rule_namespace(profile: JobProfile) -> dict[str, Value]:
    """Names a condition may use: metrics and `cost_<cause>_s`."""
    return profile.metrics | {f"cost_{cause}_s": cost.seconds for cause, cost in profile.costs.items()}


def get_rule_metric_unit(name: str) -> str:
    """The unit of a metric or cost."""
    return METRICS[name][0] if name in METRICS else "s"


def format_rule_metric(name: str, value: Value) -> str:
    """A metric's value in its unit, for people."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("processes") and isinstance(value, int):
        return f"{value:,}"
    formatted = None if isinstance(value, str) else _UNIT_FORMAT.get(get_rule_metric_unit(name))
    return str(value) if formatted is None else formatted(value)  # type: ignore[arg-type]


def fill_rule_placeholders(text: str, metrics: Mapping[str, Value]) -> str:
    """`text` with its `{metric}` placeholders shown in their units."""
    return substitute_rule_placeholders(text, lambda name: format_rule_metric(name, metrics.get(name)))


def evaluate_rules(rules: Mapping[str, Rule], profile: JobProfile) -> tuple[list[Finding], list[UndecidedRule]]:
    """Findings, dearest first (then by severity), and the rules that could not be decided."""
    metrics = build_rule_namespace(profile)
    fired: dict[str, Finding] = {}
    undecided: list[UndecidedRule] = []
    for rule in rules.values():
        if not rule.enabled:
            continue
        condition = compile_condition(rule.when)
        holds = condition.holds(metrics)
        if holds is None:
            undecided.append(UndecidedRule(rule.id, _title(rule, metrics), condition.list_unknown(metrics)))
        elif holds:
            fired[rule.id] = _finding(rule, metrics, profile)
    return sorted(_folded(rules, fired, metrics), key=_order), undecided


def _order(finding: Finding) -> tuple[bool, float, int, str]:
    good = finding.severity in ("ok", "info")
    return good, -(finding.cost_s or 0.0), SEVERITIES.index(finding.severity), finding.rule


# -- one fault, one finding --------------------------------------------------------------------------------------------


def _folded(rules: Mapping[str, Rule], fired: dict[str, Finding], metrics: Mapping[str, Value]) -> list[Finding]:
    """Findings without those that a more specific one covers; the specific one (the first by cost) names them."""
    direct = {
        name: [c.rule for c in rules[name].covers if c.rule in fired and _applies(c.when, metrics)] for name in fired
    }
    covered = {other for others in direct.values() for other in others}
    out, named = [], set[str]()
    for finding in sorted((f for name, f in fired.items() if name not in covered), key=_order):
        below = [name for name in _reached(direct, finding.rule) if name not in named]
        named.update(below)
        out.append(_covering(finding, [fired[name] for name in below]) if below else finding)
    return out


def _reached(direct: Mapping[str, list[str]], start: str) -> list[str]:
    out: list[str] = []
    waiting = list(direct[start])
    while waiting:
        name = waiting.pop(0)
        if name not in out:
            out.append(name)
            waiting += direct[name]
    return out


def _covering(finding: Finding, below: list[Finding]) -> Finding:
    """The finding with what it covers: as bad as the worst of them; its own cost, or the dearest if it has none."""
    worst = min((finding, *below), key=lambda f: SEVERITIES.index(f.severity))
    priced = finding if finding.cost_s is not None else max((finding, *below), key=lambda f: f.cost_s or 0.0)
    also = [Evidence(text=f"also: {one.title[0].lower()}{one.title[1:]}") for one in below]
    return msgspec.structs.replace(
        finding,
        severity=worst.severity,
        cost_s=priced.cost_s,
        cost_basis=priced.cost_basis,
        evidence=[*finding.evidence, *also],
        covers=[one.rule for one in below],
    )


# -- one finding -------------------------------------------------------------------------------------------------------


def _determine_severity(rule: Rule, metrics: Mapping[str, Value]) -> Severity:
    """The first step whose condition holds, else the rule's own severity."""
    for step in rule.steps:
        if compile_condition(step.when).holds(metrics):
            return step.severity
    return rule.severity


def cap_rule_severity(severity: Severity, at_most_s: float | None, run_time_s: float | None) -> Severity:
    """The severity of what costs at most so many seconds of a run (None: unknown)."""
    if at_most_s is None or severity in ("info", "ok"):
        return severity
    run_time = run_time_s or 0.0
    if at_most_s <= 0 or at_most_s < NEGLIGIBLE_SHARE * run_time:
        return "info"
    return "warning" if at_most_s < max(MINOR_S, MINOR_SHARE * run_time) else severity


def _finding(rule: Rule, metrics: Mapping[str, Value], profile: JobProfile) -> Finding:
    job = profile.view.job
    cost = profile.costs[rule.cost] if rule.cost else None
    severity = _determine_severity(rule, metrics)
    if not rule.burdens_others:
        # What has no price of its own cannot cost more than all the I/O of the slowest process.
        bound = cost.seconds if cost and cost.seconds is not None else profile.times.slowest_s
        severity = cap_rule_severity(severity, bound, job.run_time_s)
    seconds = cost.seconds if cost and severity != "ok" else None
    if seconds is not None and job.run_time_s:
        # Threads of one process wait at the same time: their sum may be longer than the run, its price may not.
        seconds = min(seconds, job.run_time_s)
    return Finding(
        id=f"{job.job_id}/{rule.id}",
        rule=rule.id,
        title=_title(rule, metrics),
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


def _title(rule: Rule, metrics: Mapping[str, Value]) -> str:
    title = fill_rule_placeholders(rule.title, metrics)
    return title[:1].upper() + title[1:]


def _applies(when: str | None, metrics: Mapping[str, Value]) -> bool:
    return when is None or bool(compile_condition(when).holds(metrics))


def _unknown(rule: Rule, metrics: Mapping[str, Value]) -> list[str]:
    names = {name for _, text in rule.list_conditions() for name in compile_condition(text).names}
    return sorted(name for name in names if metrics.get(name) is None)


def _evidence(template: EvidenceTemplate, metrics: Mapping[str, Value], profile: JobProfile) -> Evidence:
    ranks: list[int] = []
    if template.ranks == "slowest" and profile.times.slowest_rank is not None:
        ranks = [profile.times.slowest_rank]
    elif template.ranks == "stragglers" and profile.times.per_rank_s is not None:
        ranks = [int(r) for r in find_straggler_ranks(profile.times.per_rank_s)[:10]]
    return Evidence(
        text=fill_rule_placeholders(template.text, metrics),
        metric=template.metric,
        value=metrics.get(template.metric) if template.metric else None,
        unit=get_rule_metric_unit(template.metric) if template.metric else None,
        files=profile.files.list_top(template.files) if template.files else [],
        ranks=ranks,
    )


def _advice(template: AdviceTemplate, metrics: Mapping[str, Value]) -> Advice:
    return Advice(
        text=fill_rule_placeholders(template.text, metrics),
        audience=template.audience,
        code=template.code,
        language=template.language,
    )

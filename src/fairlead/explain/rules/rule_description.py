"""A rule in words, for the command line and the documentation. Not here: how it looks (`cli.rules`, `docs`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fairlead.explain.analysis.costs import COSTS
from fairlead.explain.analysis.profile import METRICS
from fairlead.explain.rules.condition import compile_condition
from fairlead.explain.rules.rule import Rule, substitute_rule_placeholders
from fairlead.explain.rules.rule_engine import MINOR_S, MINOR_SHARE, NEGLIGIBLE_SHARE, get_rule_metric_unit

_STAND_INS = {
    "share": "x %",
    "bytes": "x MiB",
    "bytes/s": "x MiB/s",
    "s": "x s",
    "count": "n",
    "1/s": "n/s",
    "ratio": "n",
    "rank": "n",
    "word": "…",
    "bool": "…",
}


def format_rule_template(text: str) -> str:
    """A template with its placeholders as `x %`, `n`, `x MiB`, by unit."""
    return substitute_rule_placeholders(text, lambda name: _STAND_INS[get_rule_metric_unit(name)])


def list_rule_metrics() -> Iterator[tuple[str, str, str]]:
    """(name, unit, meaning) of everything a rule may use, costs last."""
    for name, (unit, meaning) in METRICS.items():
        yield name, unit, meaning
    for cause, meaning in COSTS.items():
        yield f"cost_{cause}_s", "s", f"seconds of the run lost: {meaning}"


MEANINGS: dict[str, str] = {name: meaning for name, _, meaning in list_rule_metrics()}


def list_used_rule_metrics(rule: Rule) -> list[tuple[str, str, str]]:
    """(name, unit, meaning) of the metrics the rule's main condition asks for."""
    return [(name, get_rule_metric_unit(name), MEANINGS[name]) for name in sorted(compile_condition(rule.when).names)]


def describe_rule_severity(rule: Rule) -> str:
    """How bad it can be, and what lowers it."""
    parts = [f"{step.severity} when `{step.when}`" for step in rule.steps]
    text = f"{rule.severity}" + (f"; {', '.join(parts)}" if parts else "")
    if rule.severity in ("ok", "info"):
        return text
    if rule.burdens_others:
        return f"{text}. Not lowered where it costs this job little: it slows down others"
    return (
        f"{text}. At most a warning where it costs less than {MINOR_SHARE * 100:g} % of the run time or {MINOR_S:g} s, "
        f"and for information only below {NEGLIGIBLE_SHARE * 100:g} %"
    )


def describe_rule_cost(rule: Rule) -> str:
    """What its cost is, or that it has none."""
    return f"`{rule.cost}`: {COSTS[rule.cost]}" if rule.cost else "not priced"


def describe_covered_rules(rule: Rule) -> list[tuple[str, str | None]]:
    """(rule, condition) of the more general rules that stay silent when this one fires."""
    return [(c.rule, c.when) for c in rule.covers]


def describe_covering_rules(rules: Mapping[str, Rule], name: str) -> list[str]:
    """Rules that cover this one."""
    return sorted(rule.id for rule in rules.values() if any(c.rule == name for c in rule.covers))


def join_rule_lines(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())

"""Which concerns are told, by which rule, through which routes, how bad: pure decisions at a given time.

Not here: what was told before, silences and hold-off (`alert_evaluation`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from fairlead.core.model.finding import SEVERITIES
from fairlead.show.alerts.alert_settings import AlertRule, Alerts
from fairlead.show.alerts.alert_subject import Concern
from fairlead.show.alerts.state import Subscription

_NS_PER_H = 3600 * 10**9
SUBSCRIPTION = "subscription"
"""Name of the rule of notices that a subscription asked for."""
_SUBSCRIBED = AlertRule(name=SUBSCRIPTION, to=[], severity="warning", hold_off_s=0.0, escalate=[], resolved=True)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A concern is to be told through a route, to one recipient (empty: the route's own)."""

    rule: AlertRule
    route: str
    recipient: str
    level: int
    severity: str


def _choose_worse(one: str, other: str) -> str:
    """The worse of two severities."""
    return min(one, other, key=SEVERITIES.index)


def matches_alert_rule(rule: AlertRule, concern: Concern) -> bool:
    """Whether a concern is one the rule is about; its duration aside. What is not known fits no pattern."""
    named = (
        (rule.rules, [concern.rule]),
        (rule.layers, concern.layers),
        (rule.components, concern.components),
        (rule.users, [concern.user] if concern.user else []),
        (rule.programs, [concern.program] if concern.program else []),
        (rule.jobs, [concern.job] if concern.job else concern.jobs),
    )
    return (
        SEVERITIES.index(concern.severity) <= SEVERITIES.index(rule.severity)
        and concern.confidence >= rule.confidence
        and (rule.cost_s <= 0 or (concern.cost_s is not None and concern.cost_s >= rule.cost_s))
        and all(_any(patterns, values) for patterns, values in named)
    )


def _any(patterns: Sequence[str], values: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(value, pattern) for value in values for pattern in patterns)


def find_alert_escalation(rule: AlertRule, concern: Concern, now_ns: int) -> int | None:
    """The step of escalation it has reached (0: none yet); None: it has not lasted long enough to be told at all. What
    does not last is told at once. Beacon's site mails at 96 h, and at once for a large job (TOS 2023, section 6.2)."""
    if not concern.lasting:
        return 0
    lasted_h = ((concern.to_ns if concern.to_ns is not None else now_ns) - concern.from_ns) / _NS_PER_H
    large = rule.large_nodes > 0 and concern.nodes is not None and concern.nodes >= rule.large_nodes
    steps = sorted(step.after_h for step in rule.escalate)
    level = sum(lasted_h >= after_h for after_h in steps)
    return level if level or large or lasted_h >= rule.wait_h else None


def list_alert_notices(
    alerts: Alerts, subscriptions: Sequence[Subscription], concern: Concern, now_ns: int
) -> Iterator[Delivery]:
    """Everything that should have been told of a concern by now; of several steps the highest that was reached."""
    for rule in alerts.rules:
        level = find_alert_escalation(rule, concern, now_ns) if matches_alert_rule(rule, concern) else None
        if level is None:
            continue
        step = sorted(rule.escalate, key=lambda one: one.after_h)[level - 1] if level else None
        severity = _choose_worse(step.severity, concern.severity) if step else concern.severity
        for route in dict.fromkeys(step.to or rule.to if step else rule.to):
            yield Delivery(rule, route, "", level, severity)
    if alerts.subscriptions and matches_alert_rule(_SUBSCRIBED, concern):
        for one in subscriptions:
            if _is_subscribed(one, concern):
                yield Delivery(_SUBSCRIBED, alerts.subscriptions, one.address, 0, concern.severity)


def _is_subscribed(one: Subscription, concern: Concern) -> bool:
    """Whether a subscription is to this: a job of its owner; never one whose owner is not known."""
    if concern.job is None:
        return False
    mine = not one.owner or concern.user == one.owner
    return (
        mine and one.job in ("", concern.job) and (not one.program or fnmatchcase(concern.program or "", one.program))
    )

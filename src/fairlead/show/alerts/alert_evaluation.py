"""One look: new concerns and those not over, against rules, silences and what was told before; notices come out.

Everything of a look is one change of the state: killed in it, it is as if it had not begun. Not here: where concerns
are from (`run.alert_loop`), sending (`route_sender`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from fairlead.core.model.finding import SEVERITIES
from fairlead.show.alerts.alert_rules import SUBSCRIPTION, Delivery, list_alert_notices
from fairlead.show.alerts.alert_settings import Alerts
from fairlead.show.alerts.alert_subject import Concern
from fairlead.show.alerts.silences import find_silence
from fairlead.show.alerts.state import Kind, Notice, State

_NS = 10**9
_UNRESOLVED_NS = 7 * 86400 * _NS
"""Ends of incidents are looked for so long."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a look did: notices added; concerns not told because they are silenced or acknowledged, or held off."""

    added: int
    silenced: int
    held: int


def evaluate_alert_concerns(state: State, alerts: Alerts, concerns: Sequence[Concern], now_ns: int) -> Look:
    """Takes `concerns` (new, or changed) and adds the notices that are due at `now_ns`."""
    with state.change():
        state.keep(concerns)
        _merge_copies(state, concerns)
        open_ones = [*state.open_concerns(), *state.list_unresolved(now_ns - _UNRESOLVED_NS)]
        silences, acknowledged = state.list_silences(), state.list_acknowledged(site=True)
        subscriptions = state.list_subscriptions()
        new = {one.id: one for one in concerns}
        oldest_ns = now_ns - round(alerts.oldest_h * 3600 * _NS)
        quiet = held = 0
        notices: list[Notice] = []
        for concern in {**{one.id: one for one in open_ones}, **new}.values():
            told = state.list_told(concern.id)
            if concern.over:
                if concern.withdrawn or concern.to_ns is None or now_ns >= concern.to_ns + alerts.settle_s * _NS:
                    notices += _resolved(alerts, told, concern, now_ns)
                if concern.withdrawn or told:
                    continue
            if concern.is_before(oldest_ns):
                continue
            if concern.id in acknowledged or find_silence(concern, silences, now_ns):
                quiet += 1
                continue
            for one in list_alert_notices(alerts, subscriptions, concern, now_ns):
                if any(_same(one, notice) for notice in told):
                    if concern.lasting and _is_worse(one, told):
                        notices.append(_notice(one, concern, now_ns, kind="worse"))
                    continue
                if one.level == 0 and _held(state, one, concern, now_ns):
                    held += 1
                    continue
                notices.append(_notice(one, concern, now_ns))
        return Look(state.enqueue_notices(notices, alerts.most_waiting), quiet, held)


def _merge_copies(state: State, concerns: Sequence[Concern]) -> None:
    """A withdrawn copy of an incident that goes on under another id leaves its notices to that: nothing is sent twice,
    and nobody is told that it is over."""
    copies = [one for one in concerns if one.withdrawn and one.lasting]
    if not copies:
        return
    for copy in copies:
        for one in state.open_concerns():
            if one.id != copy.id and (one.layers, one.components) == (copy.layers, copy.components):
                state.move_notices(copy.id, one.id)
                break


def _is_worse(one: Delivery, told: Sequence[Notice]) -> bool:
    """Whether it is worse than all that was sent of it there."""
    sent = [notice for notice in told if (notice.route, notice.recipient) == (one.route, one.recipient)]
    return all(
        SEVERITIES.index(one.severity) < SEVERITIES.index(notice.severity)
        for notice in sent
        if notice.kind != "resolved"
    )


def _same(one: Delivery, notice: Notice) -> bool:
    """Whether that was told: the same step, or a later one, of the same rule's or another's."""
    return (
        notice.kind == "firing"
        and (notice.route, notice.recipient) == (one.route, one.recipient)
        and notice.level >= one.level
    )


def _held(state: State, one: Delivery, concern: Concern, now_ns: int) -> bool:
    """Whether another concern about the same was told lately; if not, this one is now."""
    if one.rule.hold_off_s <= 0:
        return False
    key = "\0".join((one.rule.name, one.route, one.recipient, concern.about))
    last = state.find_held(key)
    if last is not None and last[0] != concern.id and now_ns < last[1] + one.rule.hold_off_s * _NS:
        return True
    if last is None or last[0] != concern.id:
        state.hold(key, concern.id, now_ns)
    return False


def _notice(one: Delivery, concern: Concern, now_ns: int, kind: Kind = "firing") -> Notice:
    """A notice. That it got worse is sent once a severity."""
    return Notice(
        kind=kind,
        route=one.route,
        recipient=one.recipient,
        concern=concern.id,
        level=one.level if kind == "firing" else SEVERITIES.index(one.severity),
        severity=one.severity,
        rule=one.rule.name,
        body=msgspec.json.encode(concern).decode(),
        made_ns=now_ns,
    )


def _resolved(alerts: Alerts, told: Sequence[Notice], concern: Concern, now_ns: int) -> list[Notice]:
    """One for each place that was told that it began, and not at once that it was over."""
    wants = {rule.name: rule.resolved for rule in alerts.rules} | {SUBSCRIPTION: True}
    places = {(one.route, one.recipient): one for one in told if one.kind == "firing" and one.state != "counted"}
    return [
        Notice(
            route=one.route,
            recipient=one.recipient,
            concern=concern.id,
            kind="resolved",
            severity=one.severity,
            rule=one.rule,
            body=msgspec.json.encode(concern).decode(),
            made_ns=now_ns,
        )
        for one in places.values()
        if wants.get(one.rule, True) and (concern.withdrawn or not msgspec.json.decode(one.body, type=Concern).over)
    ]

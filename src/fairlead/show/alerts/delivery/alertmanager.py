"""Alerts in the form of Alertmanager's API v2 (`POST /api/v2/alerts`). What lasts is told again until it is over.

Not here: its own grouping, silences and routes, which are as its operator made them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from fairlead.show.alerts.alert_messages import Message, build_alert_link, shorten_message_text
from fairlead.show.alerts.alert_settings import AlertApi, Alerts, read_alert_secret
from fairlead.show.alerts.alert_subject import Concern
from fairlead.show.alerts.delivery.courier import Post

PATH = "/api/v2/alerts"
_AT_ONCE = 500
_LONGEST_LABEL = 200
_LONGEST_TEXT = 4000


class ByAlertApi:
    """A `Courier`. Raises ConfigError for a token that cannot be read."""

    def __init__(self, route: AlertApi, alerts: Alerts) -> None:
        self._route = route
        self._alerts = alerts
        self._post = Post(route.url.rstrip("/") + PATH, route.ca, read_alert_secret(route.token_file), route.timeout_s)

    @property
    def refresh_s(self) -> float:
        """How often `refresh` is wanted."""
        return self._route.refresh_s

    def deliver(self, message: Message, recipient: str, now_ns: int) -> None:  # noqa: ARG002
        """As `Courier` has it. A message that is about nothing (a test) becomes one alert for five minutes."""
        if not message.pairs:
            self._send([_plain(message, self._route, now_ns)])
            return
        self._send(
            [
                self._alert(concern, notice.severity, now_ns, over=notice.kind == "resolved")
                for notice, concern in message.pairs
            ]
        )

    def refresh(self, told: Sequence[tuple[Concern, str]], now_ns: int) -> None:
        """Tells again what is not over, each with its severity. Raises as `deliver`; what fails is told next time."""
        self._send([self._alert(concern, severity, now_ns, over=False) for concern, severity in told])

    def _send(self, alerts: list[dict[str, Any]]) -> None:
        for begin in range(0, len(alerts), _AT_ONCE):
            self._post.post(msgspec.json.encode(alerts[begin : begin + _AT_ONCE]))

    def _alert(self, concern: Concern, severity: str, now_ns: int, *, over: bool) -> dict[str, Any]:
        if over:
            end_ns = min(now_ns, concern.to_ns) if concern.to_ns is not None and concern.lasting else now_ns
        elif concern.lasting and concern.to_ns is None:
            end_ns = now_ns + round(self._route.refresh_s * 4 * 1e9)
        else:
            end_ns = now_ns + round(self._route.event_s * 1e9)
        labels = {
            "alertname": concern.rule,
            "category": concern.category,
            "id": concern.id,
            "layer": ",".join(concern.layers),
            "component": ",".join(concern.components),
            "job_id": concern.job,
            "user": concern.user,
            "program": concern.program,
            **self._route.labels,
        }
        # Severity is no label: one that rises would make another alert of the same.
        advice = "\n".join(f"{one.audience}: {shorten_message_text(one.text, 1000)}" for one in concern.advice)
        notes = {
            "summary": shorten_message_text(concern.title, _LONGEST_LABEL),
            "severity": severity,
            "description": "\n".join(shorten_message_text(text, 1000) for text in concern.evidence)[:_LONGEST_TEXT],
            "advice": advice[:_LONGEST_TEXT],
            "explain": f"fairlead finding show {shorten_message_text(concern.id, 100)}",
        }
        found: dict[str, Any] = {
            "labels": {name: shorten_message_text(text, _LONGEST_LABEL) for name, text in labels.items() if text},
            "annotations": {name: text for name, text in notes.items() if text},
            "startsAt": _time(min(concern.from_ns, end_ns)),
            "endsAt": _time(end_ns),
        }
        address = build_alert_link(self._alerts, concern)
        return found | ({"generatorURL": address} if address else {})


def _plain(message: Message, route: AlertApi, now_ns: int) -> dict[str, Any]:
    return {
        "labels": {"alertname": "fairlead.test", **route.labels},
        "annotations": {"summary": shorten_message_text(message.subject, _LONGEST_LABEL)},
        "startsAt": _time(now_ns),
        "endsAt": _time(now_ns + 300 * 10**9),
    }


def _time(ns: int) -> str:
    """RFC 3339, UTC, milliseconds."""
    return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{ns // 10**6 % 1000:03d}Z"

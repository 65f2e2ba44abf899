"""Messages in words: many notices in one text, everything in it harmless to show, long ones cut.

A message to a subscriber tells of his own job only: neither the names of others nor evidence that may hold them. Not
here: how a message travels (`delivery`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from fairlead.core.model.finding import SEVERITIES
from fairlead.core.safe_text import escape_text, escape_text_within
from fairlead.show.alerts.alert_settings import Alerts
from fairlead.show.alerts.alert_subject import Concern
from fairlead.show.alerts.state import Batch, Notice

MESSAGE_SCHEMA = "fairlead.alert/1"
_SUBJECT_CHARACTERS = 160
_LINE_CHARACTERS = 2000
_PERSONAL = {
    "job.interference": "other jobs on the same storage slowed it down",
    "job.slow_component": "a component of the storage was slow",
    "job.slow_unexplained": "it was slower than your earlier runs; the cause is not known",
    "job.own_change": "its I/O differed from your earlier runs",
}


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message. `id` is the same however often it is tried: a receiver may drop what it has. `pairs`: what it is
    about, worst first, with the notice that made it; empty for a digest or a test."""

    id: str
    made_ns: int
    subject: str
    text: str
    pairs: list[tuple[Notice, Concern]] = []
    untold: int = 0

    def build_document(self, alerts: Alerts) -> dict[str, Any]:
        """The message as JSON has it."""
        return {
            "schema": MESSAGE_SCHEMA,
            "id": self.id,
            "made_ns": self.made_ns,
            "subject": escape_text(self.subject),
            "text": self.text,
            "untold": self.untold,
            "alerts": [_plain(alerts, notice, concern) for notice, concern in self.pairs[: alerts.most_in_one]],
            "more": max(0, len(self.pairs) - alerts.most_in_one),
        }


def _plain(alerts: Alerts, notice: Notice, concern: Concern) -> dict[str, Any]:
    """One alert of the document: harmless, but for the line breaks of code."""
    found: dict[str, Any] = {
        "status": "resolved" if notice.kind == "resolved" else "firing",
        "level": notice.level,
        "alert_rule": notice.rule,
        "alert_severity": notice.severity,
        "link": build_alert_link(alerts, concern),
        **escape_text_within(msgspec.to_builtins(concern)),
    }
    for one, advice in zip(found["advice"], concern.advice, strict=True):
        if advice.code is not None:
            one["code"] = "\n".join(map(escape_text, advice.code.split("\n")))
    return found


def build_alert_message(batch: Batch, alerts: Alerts) -> Message:
    """The message of a batch."""
    first = batch.notices[0]
    if first.kind == "digest":
        subject, text = msgspec.json.decode(first.body, type=tuple[str, str])
        return Message(id=batch.id, made_ns=batch.made_ns, subject=subject, text=text)
    pairs = _pairs(batch.notices)
    personal = bool(batch.recipient)
    parts = [_block(alerts, notice, concern, personal=personal) for notice, concern in pairs[: alerts.most_in_one]]
    rest = pairs[alerts.most_in_one :]
    if rest:
        kinds = Counter(concern.rule for _, concern in rest)
        parts.append(
            f"And {len(rest)} more: " + ", ".join(f"{count} {escape_text(rule)}" for rule, count in kinds.most_common())
        )
    if batch.untold:
        parts.append(f"Another {batch.untold} were not sent one by one; `fairlead finding list` lists all.")
    return Message(
        id=batch.id,
        made_ns=batch.made_ns,
        subject=_subject(pairs, batch.untold, personal=personal),
        text="\n\n".join(parts) + "\n",
        pairs=pairs,
        untold=batch.untold,
    )


def _pairs(notices: Sequence[Notice]) -> list[tuple[Notice, Concern]]:
    """Notices with their concerns, worst first. Of one concern the latest step, and what is over only as that."""
    latest: dict[str, tuple[Notice, Concern]] = {}
    for notice in notices:
        latest[notice.concern] = notice, msgspec.json.decode(notice.body, type=Concern)
    order: dict[str, int] = {name: n for n, name in enumerate(SEVERITIES)}
    return sorted(
        latest.values(), key=lambda pair: (pair[0].kind == "resolved", order.get(pair[0].severity, 9), pair[0].number)
    )


def _subject(pairs: Sequence[tuple[Notice, Concern]], untold: int, *, personal: bool) -> str:
    notice, concern = pairs[0]
    title = _personal_title(concern) if personal else concern.title
    state = "over" if notice.kind == "resolved" else notice.severity
    count = len(pairs) + untold
    head = f"[fairlead] {state}: {title}" if count == 1 else f"[fairlead] {count} alerts, first {state}: {title}"
    return shorten_message_text(head, _SUBJECT_CHARACTERS)


def _personal_title(concern: Concern) -> str:
    return f"your job {concern.job}: {_PERSONAL.get(concern.rule, 'there is a finding about it')}"


def _block(alerts: Alerts, notice: Notice, concern: Concern, *, personal: bool) -> str:
    """A concern in some lines."""
    title = _personal_title(concern) if personal else concern.title
    state = "OVER" if notice.kind == "resolved" else notice.severity.upper()
    lines = [f"{state}: {title}"]
    if notice.kind == "resolved" and concern.withdrawn:
        lines.append("  Withdrawn: later analysis did not confirm it.")
    elif notice.kind == "worse":
        lines.append("  Still open, and worse than reported before.")
    elif notice.level:
        lines.append(f"  Still open: escalation step {notice.level}.")
    until = "now" if concern.lasting and concern.to_ns is None else format_message_time(concern.to_ns)
    lines.append(
        f"  from {format_message_time(concern.from_ns)} to {until}; confidence {concern.confidence * 100:.0f} %"
    )
    if concern.cost_s is not None:
        lines.append(f"  cost {concern.cost_s:.0f} s of the job's time")
    if not personal:
        lines += [f"  - {text}" for text in concern.evidence]
        lines += [f"  not recorded: {text}" for text in concern.missing]
    if notice.kind != "resolved":
        for advice in concern.advice:
            if personal and advice.audience != "user":
                continue
            lines.append(f"  -> {advice.audience}: {advice.text}")
            lines += [f"       {line}" for line in (advice.code or "").splitlines()]
    lines.append(f"  fairlead job explain {concern.job}" if personal else f"  fairlead finding show {concern.id}")
    address = build_alert_link(alerts, concern)
    if address:
        lines.append(f"  {address}")
    return "\n".join(shorten_message_text(line, _LINE_CHARACTERS) for line in lines)


def build_alert_link(alerts: Alerts, concern: Concern) -> str:
    """Address of the page about it; empty where the site has none."""
    safe = "".join(character for character in concern.id if character.isascii() and character.isalnum())
    return alerts.link.replace("{id}", safe)


def format_message_time(ns: int | None) -> str:
    """A time for people, UTC."""
    if ns is None:
        return "?"
    return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def shorten_message_text(text: str, most: int) -> str:
    """`text` on one harmless line of at most so many characters."""
    line = escape_text(text)
    return line if len(line) <= most else line[: most - 3] + "..."

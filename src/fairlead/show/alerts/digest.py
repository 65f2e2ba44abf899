"""What was, of a day or a week, as one text: by rule, the worst, what is not over, what was held back.

Not here: when it is sent (`enqueue_due_digests`, asked by the round in `run.alert_loop`), through what (`delivery`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from fairlead.core.model.finding import SEVERITIES
from fairlead.show.alerts.alert_messages import format_message_time, shorten_message_text
from fairlead.show.alerts.alert_settings import Alerts
from fairlead.show.alerts.alert_subject import Concern
from fairlead.show.alerts.state import Acknowledged, Notice, State

_MOST = 20
_LINE = 200


def find_digest_span(every: str, hour: int, now_ns: int) -> tuple[int, int]:
    """The last whole day (or week) that ended at `hour` UTC: from, to (ns)."""
    now = datetime.fromtimestamp(now_ns // 10**9, UTC)
    end = now.replace(hour=hour, minute=0, second=0, microsecond=0)
    if end > now:
        end -= timedelta(days=1)
    days = 1
    if every == "week":
        end -= timedelta(days=end.weekday())
        days = 7
    return int((end - timedelta(days=days)).timestamp()) * 10**9, int(end.timestamp()) * 10**9


def enqueue_due_digests(state: State, alerts: Alerts, now_ns: int) -> int:
    """Adds the digest of the last whole day or week where it was not yet; returns how many notices that makes. None for
    days before alerting began here."""
    from_ns, to_ns = find_digest_span(alerts.digest_every, alerts.digest_hour, now_ns)
    with state.change():
        last = state.mark("digest")
        if last is None or not alerts.digest:
            state.set_mark("digest", to_ns)
            return 0
        if last >= to_ns:
            return 0
        body = msgspec.json.encode(build_digest_of_span(state, alerts, from_ns, to_ns)).decode()
        state.set_mark("digest", to_ns)
        return state.enqueue_notices(
            [
                Notice(
                    route=route,
                    concern=f"digest/{to_ns}",
                    kind="digest",
                    severity="info",
                    rule="digest",
                    body=body,
                    made_ns=now_ns,
                )
                for route in dict.fromkeys(alerts.digest)
            ],
            alerts.most_waiting,
        )


def build_digest_of_span(state: State, alerts: Alerts, from_ns: int, to_ns: int) -> tuple[str, str]:
    """Subject and text of the digest of that time; without what was over long before."""
    oldest_ns = from_ns - round(alerts.oldest_h * 3600e9)
    concerns = [one for one in state.list_concerns(from_ns, to_ns) if not one.is_before(oldest_ns)]
    return _build_digest(concerns, state.list_acknowledged(), from_ns, to_ns)


def _build_digest(
    concerns: Sequence[Concern], acknowledged: Mapping[str, Acknowledged], from_ns: int, to_ns: int
) -> tuple[str, str]:
    """Subject and text. `concerns`: made in that time, and those that are not over."""
    new = [one for one in concerns if from_ns <= _get_new_ns(one) < to_ns and not one.withdrawn]
    lasting = [one for one in concerns if one.lasting and not one.over]
    subject = f"[fairlead] digest: {len(new)} new, {len(lasting)} open"
    lines = [f"From {format_message_time(from_ns)} to {format_message_time(to_ns)}."]
    if not new and not lasting:
        return subject, "\n".join([*lines, "Nothing was found."]) + "\n"
    kinds = Counter(one.rule for one in new)
    lines += ["", f"New: {len(new)}"] + [
        f"  {count:6d}  {shorten_message_text(rule, _LINE)}" for rule, count in kinds.most_common()
    ]
    cost = sum(one.cost_s or 0.0 for one in new)
    unknown = sum(one.cost_s is None for one in new)
    if cost:
        lines.append(f"Time lost by jobs: {cost / 3600:.1f} h" + (f" (of {unknown} not known)" if unknown else ""))
    lines += _listed("Open", sorted(lasting, key=lambda one: one.from_ns), acknowledged)
    worst = sorted(new, key=lambda one: (SEVERITIES.index(one.severity), -(one.cost_s or 0.0), one.id))
    lines += _listed("Worst", [one for one in worst if one not in lasting], acknowledged)
    return subject, "\n".join(lines) + "\n"


def _get_new_ns(one: Concern) -> int:
    """When it was new. An incident is written again while it lasts, and first when it has lasted an hour."""
    return one.from_ns + 3600 * 10**9 if one.lasting else one.made_ns


def _listed(title: str, concerns: Sequence[Concern], acknowledged: Mapping[str, Acknowledged]) -> list[str]:
    if not concerns:
        return []
    lines = ["", f"{title}:"]
    for one in concerns[:_MOST]:
        who = acknowledged.get(one.id)
        taken = f" [acknowledged by {who.who}: {who.why}]" if who else ""
        lines.append(
            shorten_message_text(
                f"  {one.severity:8s} {format_message_time(one.from_ns)}  {one.title} ({one.id}){taken}", _LINE
            )
        )
    if len(concerns) > _MOST:
        lines.append(f"  and {len(concerns) - _MOST} more")
    return lines

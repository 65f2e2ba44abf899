"""Daily volumes of every layer. Days that are over are kept for a while.

Not here: one layer's components (`layer`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.core.errors import UsageError
from fairlead.explain.questions.answers import Sums
from fairlead.explain.questions.answers_pages import DayVolume, Volumes
from fairlead.explain.questions.lake_queries import Sight, Tables, build_day_filter, list_query_rows, query_lake
from fairlead.explain.questions.question import Asking
from fairlead.explain.questions.rollup_sums import VALUES, WHOLE_LAYERS, WHOLE_WORDS, read_rollup_sums
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, Span
from fairlead.explain.questions.timelines import LAYERS

_WHOLE = (
    f"job_id IS NULL AND ({WHOLE_LAYERS} OR (kind = $port AND layer = $port AND NOT ends_with(id, '/lnet'))"
    " OR (kind = $dev AND layer = $dev AND NOT contains(id, ':/')))"
)
_WORDS = {**WHOLE_WORDS, "port": "port", "dev": "device"}
_MOST_DAYS = 400
_SETTLED_NS = HOUR_NS


def build_daily_volumes(asking: Asking, name: str, asked: Any, sight: Sight, now_ns: int) -> Volumes:  # noqa: ARG001
    """Daily volumes of every layer: whole days (UTC). Raises UsageError, LakeError."""
    span = asked.span(now_ns, "30d", asking.longest_ns).align_to(DAY_NS)
    if span.length_ns > _MOST_DAYS * DAY_NS:
        raise UsageError(f"volumes cover at most {_MOST_DAYS} days", remedy="choose a shorter span")
    starts = range(span.from_ns, min(span.to_ns, now_ns), DAY_NS)
    held = {start: asking.kept.get(("volume", start), now_ns) for start in starts}
    wanted = [start for start in starts if held[start] is None]
    for stretch in _stretches(wanted):
        fresh = _read(asking.lake, stretch)
        for start in range(stretch.from_ns, stretch.to_ns, DAY_NS):
            held[start] = fresh.get(start, {})
            if start + DAY_NS + _SETTLED_NS <= now_ns:
                asking.kept.put(("volume", start), held[start], now_ns)
    order = {layer: place for place, layer in enumerate(LAYERS)}
    made = [
        DayVolume(day=str(np.datetime64(start // DAY_NS, "D")), layer=layer, sums=sums)
        for start in starts
        for layer, sums in sorted((held[start] or {}).items(), key=lambda one: order.get(one[0], len(order)))
    ]
    missing = [] if made else ["volumes: no data in this time"]
    return Volumes(from_ns=span.from_ns, to_ns=span.to_ns, days=made, missing=missing)


def _stretches(starts: list[int]) -> list[Span]:
    """Days that follow each other as one span."""
    made: list[Span] = []
    for start in starts:
        if made and made[-1].to_ns == start:
            made[-1] = Span(made[-1].from_ns, start + DAY_NS)
        else:
            made.append(Span(start, start + DAY_NS))
    return made


def _read(lake: Tables, span: Span) -> dict[int, dict[str, Sums]]:
    """Sums by day and layer; of hours."""
    added = ", ".join(f"TRY_CAST(sum({name}) AS BIGINT) AS {name}" for name in VALUES)
    found = query_lake(
        lake,
        f"SELECT ts_ns // {DAY_NS} AS number, layer, {added} FROM rollup WHERE interval_ns = {HOUR_NS} AND {_WHOLE}"
        f" AND ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns} AND {build_day_filter(span)} GROUP BY number, layer",
        _WORDS,
        within=span,
    )
    made: dict[int, dict[str, Sums]] = {}
    for row in list_query_rows(found):
        made.setdefault(row["number"] * DAY_NS, {})[row["layer"]] = read_rollup_sums(row)
    return made

"""Up to when components were looked at, as marks in the lake, and hours whose records came after that.

So time in which nobody looked is looked at later, and late records change what was found. Not here: the look itself
(`health_round`).
"""
# ruff: noqa: S608  (conditions are numbers of ours)

from __future__ import annotations

from typing import Any

from fairlead.core.model.finding_incident_rows import DIAGNOSIS_VERSION, build_incident_rows
from fairlead.explain.questions.lake_queries import Tables, build_day_filter, query_lake
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, MINUTE_NS, Span

MARK_NS = 10 * MINUTE_NS
"""Time is marked as looked at in pieces of this length."""
BACK_NS = 14 * DAY_NS
"""Time before that is not looked at any more."""
LATE_NS = DAY_NS
"""Records up to this late are noticed."""
AGAIN_NS = 6 * HOUR_NS
"""The first look of a process covers this time again: what came while no process ran is not known."""
_STREAM = f"health/looked/{DIAGNOSIS_VERSION}"


def find_looked_end(writer: Any, end_ns: int) -> int | None:
    """Return the time before `end_ns` up to which components were looked at; None if never in the last `BACK_NS`."""
    last = end_ns // MARK_NS - 1
    for piece in range(last, last - BACK_NS // MARK_NS, -1):
        if writer.has_batch(_STREAM, piece):
            return (piece + 1) * MARK_NS
    return None


def mark_looked_time(writer: Any, end_ns: int) -> None:
    """Mark the time up to `end_ns` as looked at, in whole pieces."""
    piece = end_ns // MARK_NS - 1
    if not writer.has_batch(_STREAM, piece):
        batch = writer.open_batch(_STREAM, piece, source="analysis")
        batch.add(build_incident_rows([], end_ns))
        batch.commit()


class LateRecords:
    """How many records each hour of the last day has: an hour that has more than before got some late."""

    def __init__(self) -> None:
        self._counts: dict[int, int] | None = None

    def find_changed_time(self, lake: Tables, now_ns: int) -> int | None:
        """Return the start of the first hour that got records since the last call; None if none did. Hours that are
        still going on are left out. The first call returns `AGAIN_NS` ago. Raises LakeError."""
        end = now_ns // HOUR_NS * HOUR_NS
        span = Span(end - LATE_NS, end)
        found = query_lake(
            lake,
            f"SELECT ts_ns // {HOUR_NS} AS hour, count(*) AS n FROM rollup WHERE interval_ns = {MINUTE_NS}"
            f" AND ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns} AND {build_day_filter(span)} GROUP BY hour",
            within=span,
        )
        counts = dict(zip(found["hour"].to_pylist(), found["n"].to_pylist(), strict=True))
        before, self._counts = self._counts, counts
        if before is None:
            return now_ns - AGAIN_NS
        known = max(before, default=-1)
        changed = [hour for hour, many in counts.items() if many != before.get(hour, 0) and hour <= known]
        return min(changed) * HOUR_NS if changed else None

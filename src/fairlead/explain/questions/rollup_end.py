"""Where the present begins: what happens now is in the rollup half a minute later, so a short look ends there.

Not here: what is looked at.
"""
# ruff: noqa: S608  (conditions are numbers and words of ours)

from __future__ import annotations

from fairlead.explain.questions.lake_queries import Tables, build_day_filter, list_query_rows, query_lake
from fairlead.explain.questions.span import MINUTE_NS, SECOND_NS, Span
from fairlead.explain.questions.visible_lake import widen_visible_lake

SHORT_NS = 15 * MINUTE_NS
"""A look up to now that is longer than this ends now: what has not arrived is a small part of it."""
_BACK_NS = 5 * MINUTE_NS


def shift_to_rollup_end(lake: Tables, span: Span, now_ns: int) -> Span:
    """A short span that ends now, ended where the rollup ends instead (at most five minutes ago): its rates would
    be too low otherwise. Any other span, and that of a restricted reader, as it is."""
    if span.length_ns > SHORT_NS or span.to_ns < now_ns:
        return span
    if (
        widen_visible_lake(lake) is not lake
    ):  # when others' records last came is not told, not even by where the present begins
        return span
    back = Span(now_ns - _BACK_NS, now_ns + MINUTE_NS)
    found = query_lake(
        lake,
        f"SELECT max(ts_ns) AS newest FROM rollup WHERE interval_ns = {SECOND_NS} AND ts_ns >= {back.from_ns}"
        f" AND ts_ns < {now_ns} AND {build_day_filter(back)}",
        within=back,
    )
    [row] = list_query_rows(found)
    if row["newest"] is None:
        return span
    end = min(now_ns, row["newest"] + SECOND_NS)
    return Span(end - span.length_ns, end, live=True)

"""One look at the whole system: each hour and each day that is over, once, as findings in the lake.

A window's batch is named after it, so that whoever looks again adds nothing.
Not here: what is found (`analysis.system`).
"""
# ruff: noqa: S608  (names of columns and conditions are ours)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from fairlead.analysis.system.findings import DAILY, HOURLY, kinds_read, system_findings, tables_read
from fairlead.analysis.system.site import SystemSite
from fairlead.lake.tables import conform
from fairlead.model.diagnosis import DIAGNOSIS_VERSION, finding_rows
from fairlead.model.tables import TABLES
from fairlead.questions.asking import days, select
from fairlead.questions.span import DAY_NS, HOUR_NS, MINUTE_NS, Span
from fairlead.rules.advice_set import load_advice

LATE_NS = 10 * MINUTE_NS
"""A window is looked at this long after its end: records come late."""
BACK = {HOUR_NS: 6, DAY_NS: 2}
"""Windows looked at again for having been missed, by their length."""
MOST_ROWS = 3_000_000
"""Of a table that has more rows in a window nothing is read: it is told as missing."""
_CONDITION = {
    "rollup": f"interval_ns = {MINUTE_NS} AND ts_ns >= {{begin}} AND ts_ns < {{end}}",
    "job_summary": "start_ns < {end} AND coalesce(end_ns, made_ns) > {begin}",
    "mapping": "from_ns < {end} AND (to_ns IS NULL OR to_ns > {begin})", "layouts": "true",
    "file_counters": "open_start_ns >= {begin} AND open_start_ns < {end}",
    "ops": "start_ns >= {begin} AND start_ns < {end}",
    "metadata": "ts_ns > {begin} AND ts_ns <= {end} AND client IS NOT NULL",
    "health": "ts_ns >= {begin} AND ts_ns < {end}",
}  # fmt: skip
_BEFORE = {"job_summary": 32 * DAY_NS}


def windows(now_ns: int) -> list[Span]:
    """Hours and days that are over, the oldest first."""
    found = []
    for length, back in BACK.items():
        last = (now_ns - LATE_NS) // length * length
        found += [Span(last - k * length, last - (k - 1) * length) for k in range(back, 0, -1)]
    return found


def system_round(lake: Any, writer: Any, now_ns: int, site: SystemSite) -> int:
    """Looks at the windows that were not looked at, one batch each; returns the rows written. Raises LakeError."""
    written = 0
    for window in windows(now_ns):
        stream = f"system/{DIAGNOSIS_VERSION}/{window.from_ns}/{window.to_ns}"
        if writer.known(stream):
            continue
        rules = HOURLY if window.length_ns == HOUR_NS else DAILY
        tables = _tables(lake, window, rules)
        found = system_findings(tables, site, window.from_ns, window.to_ns, only=rules, advice=load_advice())
        if found.told:
            batch = writer.batch(stream, source="analysis")
            batch.add(finding_rows(sorted(found.told, key=lambda one: one.finding.id), now_ns))
            batch.commit()
            written += len(found.told)
    return written


def _tables(lake: Any, window: Span, rules: Sequence[str]) -> dict[str, pa.Table]:
    """What these rules read of a window; tables without rows in it are left out, and so are those with too many."""
    found = {}
    for name in tables_read(rules):
        spec = TABLES[name]
        where = _CONDITION[name].format(begin=window.from_ns, end=window.to_ns)
        if spec.time_column is not None and name != "mapping":
            where += f" AND {days(Span(window.from_ns - _BEFORE.get(name, DAY_NS), window.to_ns + DAY_NS))}"
        words: dict[str, object] = {}
        if name == "rollup":
            where += " AND kind IN (SELECT unnest($kinds)) AND (kind <> $whole OR job_id IS NULL)"
            words = {"kinds": kinds_read(rules), "whole": "node"}
        counted = select(lake, f"SELECT count(*) AS n FROM {name} WHERE {where}", words)["n"][0].as_py()
        if 0 < counted <= MOST_ROWS:
            order = ", ".join(f'"{column}"' for column in spec.sort_by)
            rows = select(lake, f"SELECT * EXCLUDE (day) FROM {name} WHERE {where} ORDER BY {order}", words)
            found[name] = conform(rows, spec, strict=True)
    return found

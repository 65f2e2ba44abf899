"""What components are known to reach, and how long requests wait at them in quiet times: of the days before.

The site's description counts over what was seen. Not here: incidents (`health_round`), what a look itself shows
(`health.class_peaks`).
"""
# ruff: noqa: S608  (names of columns are ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.health.class_peaks import LEARNT, LEAST_CELLS, PEAK_QUANTILE, Peak
from fairlead.explain.diagnosing.serving_components import DAY_NS, Tables, build_day_condition

Peaks = dict[tuple[str, str], float]
"""(kind, component) → bytes/s (mds: operations/s), or seconds."""
REACH_NS = 7 * DAY_NS
"""Peaks and usual waits are of so long before."""
_MINUTE_NS = 60 * NS_PER_S
_BYTES = "coalesce(read_bytes, 0) + coalesce(write_bytes, 0)"
_WORK = f"CASE WHEN kind = 'mds' THEN metadata_ops ELSE {_BYTES} END"


def find_known_peaks(
    lake: Tables, before_ns: int, served: Mapping[str, Sequence[str]], given: Mapping[str, float]
) -> Peaks:
    """The busiest minute of each component in the week before, or what the site's description says of its kind."""
    known: Peaks = {(kind, name): given[kind] for kind, names in served.items() if kind in given for name in names}
    asked = {kind: list(names) for kind, names in served.items() if kind not in given and names}
    if not asked:
        return known
    first = before_ns - REACH_NS
    where = " OR ".join(f"(kind = $k_{kind} AND id IN (SELECT unnest(${kind}_ids)))" for kind in asked)
    found = lake.query(
        f"SELECT kind, id, max(work) AS most FROM (SELECT kind, id, ts_ns, sum({_WORK}) AS work FROM rollup"
        f" WHERE interval_ns = {_MINUTE_NS} AND ts_ns >= {first} AND ts_ns < {before_ns}"
        f" AND {build_day_condition(first, before_ns)} AND job_id IS NULL AND ({where}) GROUP BY kind, id, ts_ns)"
        " GROUP BY kind, id",
        {**{f"k_{kind}": kind for kind in asked}, **{f"{kind}_ids": names for kind, names in asked.items()}},
    )
    for row in found.to_pylist():
        if row["most"]:
            known[row["kind"], row["id"]] = float(row["most"]) / 60.0
    return known


def compute_usual_component_waits(lake: Tables, before_ns: int, served: Mapping[str, Sequence[str]]) -> Peaks:
    """Mean wait of a request, seconds, in the median hour of the week before, where waits are counted."""
    asked = {kind: list(names) for kind, names in served.items() if names}
    if not asked:
        return {}
    first = before_ns - REACH_NS
    where = " OR ".join(f"(kind = $k_{kind} AND id IN (SELECT unnest(${kind}_ids)))" for kind in asked)
    found = lake.query(
        "SELECT kind, id, median(wait) AS usual FROM (SELECT kind, id, ts_ns,"
        f" sum(wait_ns) / nullif(sum(waits), 0) AS wait FROM rollup WHERE interval_ns = {60 * _MINUTE_NS}"
        f" AND ts_ns >= {first} AND ts_ns < {before_ns} AND {build_day_condition(first, before_ns)} AND job_id IS NULL"
        f" AND ({where}) GROUP BY kind, id, ts_ns) WHERE wait IS NOT NULL GROUP BY kind, id",
        {**{f"k_{kind}": kind for kind in asked}, **{f"{kind}_ids": names for kind, names in asked.items()}},
    )
    return {(row["kind"], row["id"]): float(row["usual"]) / 1e9 for row in found.to_pylist()}


def read_past_peaks(lake: Tables, before_ns: int) -> dict[tuple[str, str], Peak]:
    """What every forwarder, target, metadata server, port and device reached in the week before, by the minute: so a
    component that has been slow for longer than a look reaches back is still held to what it could do. Raises
    LakeError."""
    first = before_ns - REACH_NS
    busy = "sum(busy_ns) / 1e9"
    rate = (
        f"CASE WHEN kind = $k_mds THEN sum(metadata_ops) / 60.0 WHEN kind = $k_device AND {busy} >= 1.2 THEN"
        f" sum({_BYTES}) / ({busy}) ELSE sum({_BYTES}) / 60.0 END"
    )
    found = lake.query(
        f"SELECT kind, id, quantile_cont(rate, {PEAK_QUANTILE}) AS best FROM (SELECT kind, id, ts_ns, {rate} AS rate"
        f" FROM rollup WHERE interval_ns = {_MINUTE_NS} AND ts_ns >= {first} AND ts_ns < {before_ns}"
        f" AND {build_day_condition(first, before_ns)} AND job_id IS NULL AND kind IN (SELECT unnest($kinds))"
        " AND layer = CASE WHEN kind = $k_mds THEN $l_mds ELSE kind END GROUP BY kind, id, ts_ns)"
        f" WHERE rate > 0 GROUP BY kind, id HAVING count(*) >= {LEAST_CELLS} ORDER BY kind, id",
        {
            "kinds": ["forwarder", "target", "mds", "port", "device"],
            "k_mds": "mds",
            "k_device": "device",
            "l_mds": "metadata",
        },
    )
    peaks = {}
    for row in found.to_pylist():
        by_ops = row["kind"] == "mds"
        peaks[row["kind"], row["id"]] = Peak(
            bytes_per_s=None if by_ops else float(row["best"]),
            ops_per_s=float(row["best"]) if by_ops else None,
            basis=LEARNT,
        )
    return peaks

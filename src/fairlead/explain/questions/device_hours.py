"""Devices by hour of the day: what each reads and writes, and how busy it is. Not here: their health."""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.questions.answers_site import DeviceHour, Devices
from fairlead.explain.questions.lake_queries import Tables, build_day_filter, list_query_rows, query_lake
from fairlead.explain.questions.span import HOUR_NS, Span


def average_device_hours(devices: pa.Table, offset_ns: int = 0) -> pa.Table:
    """Load of devices by hour of the day: `id`, `hour` (0 to 23, of UTC + `offset_ns`), `read_bytes_per_s`,
    `write_bytes_per_s`, `busy_share` (null where busy times are not counted), `hours` (hours it is the mean of).

    `devices`: rows of the rollup of kind device at intervals of an hour.
    """
    local = devices["ts_ns"].to_numpy() + offset_ns
    keyed = pa.table(
        {
            "id": devices["id"].cast(pa.string()),
            "start": devices["ts_ns"],
            "hour": pa.array(local // HOUR_NS % 24),
            **{name: devices[name] for name in ("read_bytes", "write_bytes", "busy_ns")},
        }
    )
    found = keyed.group_by(["id", "hour"]).aggregate(
        [("read_bytes", "sum"), ("write_bytes", "sum"), ("busy_ns", "sum"), ("start", "count_distinct")]
    )
    seconds = pc.multiply(found["start_count_distinct"].cast(pa.float64()), 3600.0)
    return pa.table(
        {
            "id": found["id"],
            "hour": found["hour"],
            "read_bytes_per_s": pc.divide(found["read_bytes_sum"].cast(pa.float64()), seconds),
            "write_bytes_per_s": pc.divide(found["write_bytes_sum"].cast(pa.float64()), seconds),
            "busy_share": pc.divide(pc.divide(found["busy_ns_sum"].cast(pa.float64()), float(NS_PER_S)), seconds),
            "hours": found["start_count_distinct"],
        }
    ).sort_by([("id", "ascending"), ("hour", "ascending")])


def list_device_hours(lake: Tables, span: Span, node: str = "", *, limit: int = 50) -> Devices:
    """Devices (of a node) by hour of the day, the busiest first."""
    hours = span.align_to(HOUR_NS)
    mine = " AND starts_with(id, $device)" if node else ""
    found = query_lake(
        lake,
        "SELECT id, ts_ns, sum(read_bytes)::BIGINT AS read_bytes, sum(write_bytes)::BIGINT AS write_bytes,"
        f" sum(busy_ns)::BIGINT AS busy_ns FROM rollup WHERE interval_ns = {HOUR_NS} AND kind = $kind"
        f" AND layer = $kind AND ts_ns >= {hours.from_ns} AND ts_ns < {hours.to_ns} AND {build_day_filter(hours)}{mine}"
        " AND NOT contains(id, ':/') GROUP BY id, ts_ns",
        {"kind": "device"} | ({"device": f"{node}/"} if node else {}),
        within=hours,
    )
    load: dict[str, int] = {}
    for row in list_query_rows(found):
        load[row["id"]] = load.get(row["id"], 0) + (row["read_bytes"] or 0) + (row["write_bytes"] or 0)
    chosen = sorted(load, key=lambda name: (-load[name], name))[:limit]
    place = {name: k for k, name in enumerate(chosen)}
    rows = [DeviceHour(**row) for row in list_query_rows(average_device_hours(found)) if row["id"] in place]
    rows.sort(key=lambda row: (place[row.id], row.hour))
    return Devices(from_ns=hours.from_ns, to_ns=hours.to_ns, node=node or None, total=len(load), devices=rows)

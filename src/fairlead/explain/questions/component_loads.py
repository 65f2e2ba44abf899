"""What watching components needs of the lake for a span: all their loads, events, servers, sizes of jobs, canaries.

Not here: what is made of it (`analysis.health`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from fairlead.core.model.tables import EVENTS, METADATA, ROLLUP, TARGET
from fairlead.explain.analysis.health.canaries import CANARY
from fairlead.explain.questions.lake_queries import Tables, build_day_filter, query_lake
from fairlead.explain.questions.span import DAY_NS, MINUTE_NS, SECOND_NS, Span
from fairlead.explain.questions.visible_lake import narrow_visible_lake
from fairlead.store.stored_tables import conform_stored_table

KINDS = ("forwarder", "target", "mds", "port", "device", "job")
FINE_ROWS = 4_000_000
"""Beyond so many rows of seconds minutes are looked at: they find less, but in bounded memory and time."""
_SUMS = (
    "read_bytes",
    "write_bytes",
    "read_ops",
    "write_ops",
    "metadata_ops",
    "busy_ns",
    "wait_ns",
    "waits",
    "cache_hit",
    "cache_miss",
    "samples",
)
_LARGEST = ("queue_len_max", "used_bytes_max", "capacity_bytes")
_KEYS = "ts_ns, interval_ns, kind, id, layer, job_id"
ADDED = ", ".join(
    [
        *(f"TRY_CAST(sum({name}) AS BIGINT) AS {name}" for name in _SUMS),
        *(f"max({name}) AS {name}" for name in _LARGEST),
    ]
)


@dataclass(frozen=True)
class ComponentLoads:
    """Arguments of `analysis.health.watch.watched`."""

    loads: pa.Table
    interval_ns: int
    events: pa.Table
    servers: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, int] = field(default_factory=dict)
    canaries: Mapping[str, pa.Table] = field(default_factory=dict)


def read_component_load_rows(
    lake: Tables, span: Span, interval_ns: int, where: str, words: Mapping[str, object]
) -> pa.Table:
    """Rows of ROLLUP at one interval, one a key, in a fixed order."""
    found = query_lake(
        lake,
        f"SELECT {_KEYS}, {ADDED} FROM rollup WHERE interval_ns = {interval_ns} AND ts_ns >= {span.from_ns}"
        f" AND ts_ns < {span.to_ns} AND {build_day_filter(span)} AND ({where}) GROUP BY {_KEYS}"
        " ORDER BY kind, id, layer, job_id NULLS FIRST, ts_ns",
        dict(words),
        within=Span(span.from_ns, span.to_ns),
    )
    return conform_stored_table(found, ROLLUP, strict=True)


def read_component_loads(lake: Tables, span: Span) -> ComponentLoads:
    """Everything of the span. By the second, unless that would be too much."""
    words: dict[str, object] = {"kinds": list(KINDS), "k_node": "node"}
    where = "kind IN (SELECT unnest($kinds)) OR (kind = $k_node AND layer IN ('mount', 'client'))"
    counted = query_lake(
        lake,
        f"SELECT count(*) AS n FROM rollup WHERE interval_ns = {SECOND_NS} AND ts_ns >= {span.from_ns}"
        f" AND ts_ns < {span.to_ns} AND {build_day_filter(span)} AND ({where})",
        words,
        within=span,
    )
    interval = SECOND_NS if 0 < counted["n"][0].as_py() <= FINE_ROWS else MINUTE_NS
    loads = read_component_load_rows(lake, span, interval, where, words)
    return ComponentLoads(
        loads=loads,
        interval_ns=interval,
        events=_events(lake, span),
        servers=_servers(lake, span),
        nodes=_nodes(lake, span),
        canaries=_canaries(lake, span),
    )


def _events(lake: Tables, span: Span) -> pa.Table:
    found = query_lake(
        narrow_visible_lake(lake, span),
        f"SELECT * EXCLUDE (day) FROM events WHERE ts_ns < {span.to_ns} AND coalesce(end_ns, ts_ns) >= {span.from_ns}"
        f" AND {build_day_filter(Span(span.from_ns - 7 * DAY_NS, span.to_ns))} ORDER BY ts_ns, component, kind, text",
    )
    return conform_stored_table(found, EVENTS, strict=True)


def _servers(lake: Tables, span: Span) -> dict[str, str]:
    """The server of each target, by who counted it, else by the last mapping."""
    mapped = query_lake(
        narrow_visible_lake(lake, span),
        "SELECT a, arg_max(b, from_ns) AS b FROM mapping WHERE kind IN (SELECT unnest($kinds))"
        f" AND from_ns < {span.to_ns} GROUP BY a ORDER BY a",
        {"kinds": ["target→server", "target_server"]},
    )
    return dict(zip(mapped["a"].to_pylist(), mapped["b"].to_pylist(), strict=True))


def _nodes(lake: Tables, span: Span) -> dict[str, int]:
    began = Span(span.from_ns - 32 * DAY_NS, span.to_ns)
    ran = f"start_ns < {span.to_ns} AND (end_ns IS NULL OR end_ns >= {span.from_ns}) AND {build_day_filter(began)}"
    found = query_lake(
        lake,
        f"SELECT job_id, max(nodes_count) AS n, bool_or(nodes_count IS NULL) AS unsaid FROM jobs WHERE {ran}"
        " GROUP BY job_id ORDER BY job_id",
        began=began,
    )
    unsaid = [row["job_id"] for row in found.to_pylist() if row["unsaid"]]
    # Lists of nodes are most of the table: they are read of those jobs alone that tell no number.
    listed = (
        query_lake(
            lake,
            "SELECT job_id, max(coalesce(nodes_count, len(nodes))) AS n FROM jobs"
            f" WHERE job_id IN (SELECT unnest($unsaid)) AND {ran} GROUP BY job_id ORDER BY job_id",
            {"unsaid": unsaid},
            began=began,
            numbers=unsaid,
        ).to_pylist()
        if unsaid
        else []
    )
    return {row["job_id"]: int(row["n"]) for row in [*found.to_pylist(), *listed] if row["n"] is not None}


def _canaries(lake: Tables, span: Span) -> dict[str, pa.Table]:
    """Rows that canaries made, of the day up to the end of the span: what is usual has to be known."""
    made = {}
    for spec in (TARGET, METADATA):
        wide = Span(span.to_ns - DAY_NS, span.to_ns)
        order = "target, client" if spec is TARGET else "target, op, client"
        found = query_lake(
            lake,
            f"SELECT * EXCLUDE (day) FROM {spec.name} WHERE source = $canary AND ts_ns >= {wide.from_ns}"
            f" AND ts_ns < {wide.to_ns} AND {build_day_filter(wide)} ORDER BY ts_ns, server, {order}",
            {"canary": CANARY},
            within=wide,
        )
        if found.num_rows:
            made[spec.name] = conform_stored_table(found, spec, strict=True)
    return made

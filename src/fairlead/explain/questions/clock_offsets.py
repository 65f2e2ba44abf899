"""Clocks of nodes against the server's: which are off, and a job's layers with every node's records at their true time.

Records are stored as sent; only what is shown is shifted, and it is said. Not here: how offsets are measured (agent).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from fairlead.explain.questions.lake_queries import Tables, build_day_filter, list_query_rows, query_lake
from fairlead.explain.questions.rollup_sums import VALUES, Steps
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, INTERVALS, SECOND_NS, Span

OFF_NS = 2 * SECOND_NS
"""Smaller offsets are left: they are no larger than what a round trip hides."""
MOST_OFF_NS = DAY_NS
BY_NODE = ("client", "mount", "pfs_client", "osc")
BY_FORWARDER = ("forwarder",)
"""Layers whose rows of jobs can be told apart by the source that dated them."""


def find_clock_offsets(lake: Tables, sources: Sequence[str], span: Span) -> dict[str, int]:
    """ns to add to the times of those of `sources` whose clocks are off: as told nearest to the middle of the span."""
    if not sources:
        return {}
    middle = (span.from_ns + span.to_ns) // 2
    wide = Span(span.from_ns - HOUR_NS, span.to_ns + HOUR_NS)
    found = query_lake(
        lake,
        f"SELECT node, arg_min(clock_offset_ns, abs(ts_ns + clock_offset_ns - {middle})) AS off FROM health"
        f" WHERE clock_offset_ns IS NOT NULL AND ts_ns >= {wide.from_ns} AND ts_ns < {wide.to_ns} AND"
        f" {build_day_filter(wide)}"
        " AND node IN (SELECT unnest($names)) GROUP BY node",
        {"names": list(sources)},
        within=wide,
    )
    return {row["node"]: row["off"] for row in list_query_rows(found) if OFF_NS < abs(row["off"]) <= MOST_OFF_NS}


def correct_clock_offsets(
    lake: Tables, job_id: str, steps: Steps, found: pa.Table, nodes: Sequence[str], off: Mapping[str, int]
) -> pa.Table:
    """`found` (sums of a job by `step` and `layer`) with the layers that nodes and forwarders dated made anew, each
    source's rows shifted. Other layers are as they were."""
    step = max(one for one in INTERVALS if steps.step_ns % one == 0 and steps.from_ns % one == 0)
    span = steps.span
    far = max(abs(ns) for ns in off.values())
    wide = Span(span.from_ns - far, span.to_ns + far).align_to(step)
    sums = ", ".join(f"TRY_CAST(sum({name}) AS BIGINT) AS {name}" for name in VALUES)
    made = query_lake(
        lake,
        "WITH off AS (SELECT unnest($sources) AS source, unnest($offs) AS ns), dated AS ("
        f"SELECT r.*, ts_ns + coalesce(off.ns, 0) AS shown_ns FROM rollup r"
        f" LEFT JOIN off ON off.source = r.id WHERE interval_ns = {step} AND job_id = $job"
        " AND (kind = $node AND layer IN (SELECT unnest($by_node)) AND id IN (SELECT unnest($nodes))"
        " OR kind = $fwd AND layer IN (SELECT unnest($by_fwd)))"
        f" AND ts_ns >= {wide.from_ns} AND ts_ns < {wide.to_ns} AND {build_day_filter(wide)})"
        f" SELECT (shown_ns - {steps.from_ns}) // {steps.step_ns} AS step, layer, {sums} FROM dated"
        f" WHERE shown_ns >= {span.from_ns} AND shown_ns < {span.to_ns} GROUP BY step, layer",
        {
            "sources": list(off),
            "offs": [round(ns / step) * step for ns in off.values()],
            "job": job_id,
            "nodes": list(nodes),
            "node": "node",
            "fwd": "forwarder",
            "by_node": list(BY_NODE),
            "by_fwd": list(BY_FORWARDER),
        },
        within=wide,
    )
    again = made["layer"].unique().to_pylist()
    kept = found.filter(pc.invert(pc.is_in(found["layer"], value_set=pa.array(again, pa.string()))))
    return pa.concat_tables([kept, made.select(found.column_names)], promote_options="permissive")

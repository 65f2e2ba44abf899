"""How long requests took, by layer and kind: means from the rollups, quantiles where histograms are recorded.

Layers tell of the same request at several heights, so their times are never added: what a layer's requests took holds
what the layers below it took. Unknown where nothing counted times. Not here: queues over time (`pages.waits`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from fairlead.core.model.histogram_bins import OCTAVES_NS
from fairlead.explain.analysis.component_flows import estimate_flow_quantile_s
from fairlead.explain.questions.answers import LatencyLine
from fairlead.explain.questions.lake_queries import Tables, build_day_filter, list_query_rows, query_lake
from fairlead.explain.questions.rollup_sums import build_rollup_select
from fairlead.explain.questions.span import HOUR_NS, Span

QUANTILES_NS = 6 * HOUR_NS
"""Histograms are of raw rows, which are many: those of the last hours of a span are read."""
ORDER = ("mount", "client", "pfs_client", "osc", "forwarder", "target", "metadata")
"""Layers from the program down."""
_BINS = len(OCTAVES_NS) - 1
_KINDS = ("read", "write", "metadata")
_COLUMNS = (*(f"{kind}_ops" for kind in _KINDS), *(f"{kind}_busy_ns" for kind in _KINDS), "busy_ns", "timed_ops")
_RAW = {"forwarder": ("forwarder", "node"), "target": ("target", "target")}


def list_latencies(
    lake: Tables, span: Span, where: str, parameters: Mapping[str, object], *, by_job: str = "", component: str = ""
) -> list[LatencyLine]:
    """Times of requests of the rollup rows `where` holds for, by layer and kind, the upper layers first.

    A kind's mean is given only where all requests of the layer were timed; the mean of all is of those that were.
    Quantiles are of one job (`by_job`) at its forwarders, or of one forwarder or target (`component`).
    """
    added = ", ".join(f"TRY_CAST(sum({name}) AS BIGINT) AS {name}" for name in _COLUMNS)
    found = query_lake(
        lake,
        f"SELECT layer, {added} FROM {build_rollup_select(span, where, 'layer, ' + ', '.join(_COLUMNS))}"
        " WHERE timed_ops > 0 OR busy_ns IS NULL GROUP BY layer",
        parameters,
        within=span.align_to(HOUR_NS),
    )
    rows = {row["layer"]: row for row in list_query_rows(found)}
    lines: list[LatencyLine] = []
    for layer in ORDER:
        row = rows.get(layer)
        if row is None or not row["timed_ops"]:
            continue
        whole = LatencyLine(
            layer=layer, kind="all", requests=row["timed_ops"], mean_ns=row["busy_ns"] / row["timed_ops"]
        )
        quantiles = _read_quantiles(lake, span, layer, by_job=by_job, component=component)
        lines.append(replace(whole, **quantiles) if quantiles else whole)
        counted = [row[f"{kind}_ops"] or 0 for kind in _KINDS]
        if sum(counted) != row["timed_ops"]:
            continue
        for kind, requests in zip(_KINDS, counted, strict=True):
            busy = row[f"{kind}_busy_ns"]
            if requests and busy is not None and requests != row["timed_ops"]:
                lines.append(LatencyLine(layer=layer, kind=kind, requests=requests, mean_ns=busy / requests))
    return lines


def _read_quantiles(lake: Tables, span: Span, layer: str, *, by_job: str, component: str) -> dict[str, Any]:
    """Quantiles of one component's or job's requests in the last hours of the span; nothing without a histogram."""
    if layer not in _RAW or not (by_job or component):
        return {}
    table, column = _RAW[layer]
    last = Span(max(span.from_ns, span.to_ns - QUANTILES_NS), span.to_ns)
    condition = "job_id = $name" if by_job else f'"{column}" = $name'
    sums = ", ".join(f"TRY_CAST(sum(service_ns_histogram[{k + 1}]) AS BIGINT) AS bin_{k}" for k in range(_BINS))
    # Bricks and OSTs whose service times are told by size (brw_stats) are told once; other parts would count twice.
    source = "" if table == "forwarder" else " AND coalesce(source, '') NOT IN ('job_stats', 'exports', 'canary')"
    found = query_lake(
        lake,
        f"SELECT {sums} FROM {table} WHERE ts_ns > {last.from_ns} AND ts_ns <= {last.to_ns}"
        f" AND {build_day_filter(Span(last.from_ns, last.to_ns + 1))} AND {condition}{source}"
        f" AND len(service_ns_histogram) = {_BINS}",
        {"name": by_job or component},
        within=last,
    )
    [row] = list_query_rows(found)
    histogram = np.array([row[f"bin_{k}"] or 0 for k in range(_BINS)], np.float64)
    if not histogram.sum():
        return {}
    shares = {"p50_ns": 0.50, "p95_ns": 0.95, "p99_ns": 0.99}
    told: dict[str, Any] = {
        name: round(float(estimate_flow_quantile_s(histogram, OCTAVES_NS, share)) * 1e9, 1)
        for name, share in shares.items()
    }
    return told | {"quantiles_from_ns": last.from_ns}

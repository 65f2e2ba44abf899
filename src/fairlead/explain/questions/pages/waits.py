"""Queues and latencies of a layer: how long requests waited and were served, how long queues were.

Histograms are of raw rows, which are many: of a long time they are read from its end on, and it is said how far. Not
here: waits of one job's requests (`courses`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairlead.core.model.histogram_bins import OCTAVES_NS
from fairlead.core.model.tables import PART_SOURCES
from fairlead.core.model.unit_formats import format_duration
from fairlead.explain.analysis.component_flows import estimate_flow_quantile_s
from fairlead.explain.questions.answers_pages import WaitClass, Waits
from fairlead.explain.questions.components import list_component_names
from fairlead.explain.questions.lake_queries import (
    Sight,
    Tables,
    UnknownNameError,
    build_day_filter,
    find_similar_names,
    list_query_rows,
    query_lake,
)
from fairlead.explain.questions.pages.layer_kinds import LayerKind, find_layer
from fairlead.explain.questions.question import Asking, resolve_question_span
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, MINUTE_NS, Span

MOST_ROWS = 400_000
"""So many raw rows are added up for one answer."""
BINS = len(OCTAVES_NS) - 1
QUEUE_BINS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)
_RAW = {"forwarder": ("forwarder", "node"), "target": ("target", "target")}
"""Table with histograms, and its column of components."""
_NO_TIMES = {
    "mds": "times: no histogram of times is recorded of metadata servers; a server's page has the mean",
    "network": "times: ports count bytes and packets, not how long they took",
    "device": "times: devices report busy time and requests in flight, not the time of each request",
}
Ints = NDArray[np.int64]


def describe_waits(asking: Asking, name: str, asked: Any, sight: Sight, now_ns: int) -> Waits:  # noqa: ARG001
    """Queues and latencies of a layer. Raises UsageError, UnknownNameError, LakeError."""
    layer = find_layer(name)
    span = resolve_question_span(asking, asked, "1h", now_ns)
    lake, component = asking.lake, asked.component
    if component:
        known = list_component_names(lake, layer.kind, now_ns, span)
        if component not in known:
            raise UnknownNameError(name, component, find_similar_names(component, known))
    missing: list[str] = []
    classes: list[WaitClass] = []
    if layer.name in _RAW:
        read = _readable(asking, layer, component, span, now_ns)
        if read.length_ns < span.length_ns:
            took = format_duration(read.seconds)
            missing.append(f"times: only the last {took} of this time were read: there are too many records for more")
        classes = _classes(lake, layer, component, read)
        if not classes:
            missing.append("times: nothing recorded how long requests waited or took here")
    else:
        missing.append(_NO_TIMES[layer.name])
    queue, mean = _queues(lake, layer, component, span)
    if not any(queue):
        missing.append("queues: nothing recorded how many requests were waiting here")
    return Waits(
        layer=name,
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        component=component or None,
        bins_ns=OCTAVES_NS[1:].tolist(),
        classes=classes,
        queue_bins=list(QUEUE_BINS),
        queue=queue,
        queue_mean=mean,
        missing=missing,
    )


# -- times -----------------------------------------------------------------------------------------------------------


def _where(layer: LayerKind, component: str, span: Span) -> tuple[str, dict[str, object]]:
    """Raw rows of the span (each of the interval that ends at its time) that count the whole once."""
    _, column = _RAW[layer.name]
    words: dict[str, object] = {}
    parts = [f"ts_ns > {span.from_ns}", f"ts_ns <= {span.to_ns}", build_day_filter(Span(span.from_ns, span.to_ns + 1))]
    if component:
        parts.append(f'"{column}" = $component')
        words["component"] = component
    if layer.name == "target":
        # Service times are a part of their own where a server's brw_stats tells them; other parts would count twice.
        parts.append("coalesce(source, '') NOT IN (SELECT unnest($parts))")
        words["parts"] = [one for one in PART_SOURCES if one != "brw_stats"]
    return " AND ".join(parts), words


def _readable(asking: Asking, layer: LayerKind, component: str, span: Span, now_ns: int) -> Span:
    """The last part of the span that is not too many rows: whole hours, or a part of one."""
    key = ("waits", layer.name, component, span.from_ns, span.to_ns)
    held = asking.kept.get(key, now_ns)
    if held is not None:
        return held  # type: ignore[no-any-return]
    table, _ = _RAW[layer.name]
    where, words = _where(layer, component, span)
    found = query_lake(
        asking.lake,
        f"SELECT (ts_ns - 1) // {HOUR_NS} AS hour, count(*) AS n FROM {table} WHERE {where} GROUP BY hour"
        " ORDER BY hour DESC",
        words or None,
        within=span,
    )
    rows, first = 0, span.to_ns
    for row in list_query_rows(found):
        begin = max(span.from_ns, row["hour"] * HOUR_NS)
        if rows + row["n"] > MOST_ROWS:
            part = (MOST_ROWS - rows) / row["n"]
            first = max(begin, first - round((first - begin) * part)) if first > begin else first
            break
        rows, first = rows + row["n"], begin
    else:
        first = span.from_ns
    made = Span(min(first, span.to_ns - 1), span.to_ns)
    asking.kept.put(key, made, now_ns)
    return made


def _classes(lake: Tables, layer: LayerKind, component: str, span: Span) -> list[WaitClass]:
    """Histograms by class, the busiest first. Where a class tells none of a kind, its list is empty."""
    table, _ = _RAW[layer.name]
    where, words = _where(layer, component, span)
    ways = ("wait", "service") if layer.name == "forwarder" else ("service",)
    op_class = "op_class" if layer.name == "forwarder" else "'all'"
    requests = "requests" if layer.name == "forwarder" else "coalesce(read_rpcs + write_rpcs, read_rpcs, write_rpcs)"
    sums = ", ".join(
        f"TRY_CAST(sum({way}_ns_histogram[{k + 1}]) FILTER (len({way}_ns_histogram) = {BINS}) AS BIGINT) AS {way}_{k}"
        for way in ways
        for k in range(BINS)
    )
    counted = " AND ".join(f"{way}_ns_histogram IS NULL" for way in ways)
    found = list_query_rows(
        query_lake(
            lake,
            f"SELECT {op_class} AS op_class, TRY_CAST(sum({requests}) AS BIGINT) AS requests, {sums} FROM {table}"
            f" WHERE {where} AND NOT ({counted}) GROUP BY ALL ORDER BY requests DESC NULLS LAST, op_class",
            words or None,
            within=span,
        )
    )
    made = []
    for row in found:
        histograms = {way: _histogram(row, way) for way in ("wait", "service")}
        counted_requests = row["requests"]
        if counted_requests is None:
            counted_requests = int(max(one.sum() for one in histograms.values()))
        one = WaitClass(
            op_class=row["op_class"],
            requests=counted_requests,
            wait=[],
            service=[],
            wait_p50_ns=None,
            wait_p95_ns=None,
            wait_p99_ns=None,
            service_p50_ns=None,
            service_p95_ns=None,
            service_p99_ns=None,
        )
        made.append(replace(one, **{k: v for way, values in histograms.items() for k, v in _told(way, values).items()}))
    return [one for one in made if one.wait or one.service]


def _histogram(row: dict[str, Any], way: str) -> Ints:
    return np.array([row.get(f"{way}_{k}") or 0 for k in range(BINS)], np.int64)


def _told(way: str, histogram: Ints) -> dict[str, Any]:
    """The histogram and its quantiles, interpolated within bins; nothing of one that counts nothing."""
    if not histogram.sum():
        return {}
    values = histogram.astype(np.float64)
    shares = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
    quantiles = {
        f"{way}_{name}_ns": round(float(estimate_flow_quantile_s(values, OCTAVES_NS, share)) * 1e9, 1)
        for name, share in shares.items()
    }
    return {way: histogram.tolist(), **quantiles}


# -- queues ----------------------------------------------------------------------------------------------------------


def _queues(lake: Tables, layer: LayerKind, component: str, span: Span) -> tuple[list[int], float | None]:
    """Component-minutes by the longest queue in them, and the mean of these. A device tells the mean number of requests
    under way instead of the longest queue."""
    step = MINUTE_NS if span.length_ns <= 2 * DAY_NS else HOUR_NS
    wide = span.align_to(step)
    chosen = " AND id = $component" if component else ""
    told = "wait_ns" if layer.name == "device" else "queue_len_max"
    value = f"sum(wait_ns)::DOUBLE / {step}" if layer.name == "device" else "max(queue_len_max)::DOUBLE"
    place = " + ".join(f"(queue > {edge})::INTEGER" for edge in QUEUE_BINS)
    found = list_query_rows(
        query_lake(
            lake,
            f"SELECT {place} AS place, count(*) AS n, sum(queue) AS whole FROM"
            f" (SELECT {value} AS queue FROM rollup WHERE interval_ns = {step} AND kind = $kind AND layer = $layer"
            f" AND job_id IS NULL AND {told} IS NOT NULL AND ts_ns >= {wide.from_ns} AND ts_ns < {wide.to_ns}"
            f" AND {build_day_filter(wide)}{chosen}"
            " GROUP BY id, ts_ns) WHERE queue IS NOT NULL GROUP BY place",
            {"kind": layer.kind, "layer": layer.counted} | ({"component": component} if component else {}),
            within=wide,
        )
    )
    counts = [0] * (len(QUEUE_BINS) + 1)
    for row in found:
        counts[row["place"]] += row["n"] * (step // MINUTE_NS)
    whole = sum(row["n"] for row in found)
    return counts, sum(row["whole"] for row in found) / whole if whole else None

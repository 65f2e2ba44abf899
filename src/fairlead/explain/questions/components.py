"""Storage targets and forwarders: load, imbalance, fullness, growth of all; one over time and who makes it up.

Not here: metadata servers (`metadata_load`), heat maps and distributions (`load_distributions`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fairlead.explain.analysis.table_columns import read_float_column
from fairlead.explain.questions.answers import ComponentPage, ComponentRow, Share, Targets
from fairlead.explain.questions.coverage import find_coverage
from fairlead.explain.questions.job_accounts import find_latest_accounts
from fairlead.explain.questions.job_detail import choose_job_detail_weight
from fairlead.explain.questions.lake_queries import (
    Sight,
    Tables,
    UnknownNameError,
    build_day_filter,
    find_similar_names,
    list_query_rows,
    query_lake,
)
from fairlead.explain.questions.latencies import list_latencies
from fairlead.explain.questions.rollup_sums import VALUES, Steps, build_rollup_select, read_rollup_sums
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, MINUTE_NS, Span, choose_long_span_interval
from fairlead.explain.questions.timelines import build_timeline, sum_timeline_by_layer
from fairlead.explain.questions.visible_lake import mask_by_visible_intervals, require_visible_component

_WHOLE = "kind = $kind AND layer = $layer AND job_id IS NULL"
_LAYERS = {"target": "target", "forwarder": "forwarder", "mds": "metadata", "device": "device", "port": "port"}
SERVED_BY = ("target→server", "target_server")
"""Words of `mapping` for which server serves a target."""
SERVED_WITHIN_NS = 10 * MINUTE_NS
"""How far back raw counters are read for the server of a target."""
_SPACE_WITHIN_NS = 6 * HOUR_NS
"""Space is told every few minutes; a target's last word counts this long."""


def list_components(lake: Tables, span: Span, kind: str) -> list[ComponentRow]:
    """All of a kind with their load and space in the span, busiest first."""
    return _components(lake, span, kind, "", {})


def list_node_devices(lake: Tables, span: Span, node: str) -> list[ComponentRow]:
    """What a node has for itself: block devices (`NODE/vda`) and the room on its file systems (`NODE:/scratch`)."""
    mine = " AND (starts_with(id, $device) OR starts_with(id, $folder))"
    return _components(lake, span, "device", mine, {"device": f"{node}/", "folder": f"{node}:/"})


def _components(lake: Tables, span: Span, kind: str, named: str, names: Mapping[str, object]) -> list[ComponentRow]:
    step = choose_long_span_interval(span)
    parameters: dict[str, object] = {"kind": kind, "layer": _LAYERS[kind], **names}
    added = ", ".join(f"TRY_CAST(sum({name}) AS BIGINT) AS {name}" for name in VALUES)
    each = (
        f"SELECT id, ts_ns, sum(coalesce(read_bytes + write_bytes, read_bytes, write_bytes)) AS moved, {added}"
        f" FROM rollup WHERE interval_ns = {step} AND {_WHOLE}{named} AND ts_ns >= {span.align_to(step).from_ns}"
        f" AND ts_ns < {span.to_ns} AND {build_day_filter(span.align_to(step))} GROUP BY id, ts_ns"
    )
    found = query_lake(
        lake,
        f"SELECT id, {added}, max(moved) * 1e9 / {step} AS peak, CASE WHEN count(moved) > 0 THEN"
        f" count(*) FILTER (WHERE moved > 0) * {step / 1e9} / {span.seconds} END AS busy FROM ({each}) GROUP BY id",
        parameters,
        within=span.align_to(step),
    )
    space = _space(lake, span, named, parameters)
    load = {row["id"]: row for row in list_query_rows(found)}
    rows = [_row(name, load.get(name), space.get(name)) for name in sorted(load.keys() | space.keys())]
    return sorted(rows, key=lambda row: -(row.sums.bytes or row.sums.metadata_ops or 0))


def _row(name: str, load: Mapping[str, Any] | None, space: Mapping[str, Any] | None) -> ComponentRow:
    used = space["used"] if space else None
    capacity = space["capacity"] if space else None
    before = space["before"] if space else None
    busy = load["busy"] if load else None
    return ComponentRow(
        id=name,
        sums=read_rollup_sums(load or dict.fromkeys(VALUES)),
        peak_bytes_per_s=load["peak"] if load else None,
        busy_share=None if busy is None else min(1.0, busy),
        used_bytes=used,
        capacity_bytes=capacity,
        fullness=used / capacity if used is not None and capacity else None,
        grown_bytes=used - before if used is not None and before is not None else None,
    )


def _space(lake: Tables, span: Span, named: str, parameters: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    """Used and capacity by the end of the span, used at its beginning."""
    step = MINUTE_NS if span.length_ns < 6 * HOUR_NS else HOUR_NS
    wide = Span(span.from_ns - _SPACE_WITHIN_NS, span.to_ns).align_to(step)
    found = query_lake(
        lake,
        # Rows are partial: of several of one time the largest counts, as always the same one.
        "SELECT id, arg_max(used, ts_ns) AS used, arg_max(capacity, ts_ns) AS capacity,"
        f" coalesce(arg_max(used, ts_ns) FILTER (WHERE ts_ns < {span.from_ns}), arg_min(used, ts_ns)) AS before FROM ("
        "SELECT id, ts_ns, max(used_bytes_max) AS used, max(capacity_bytes) AS capacity FROM rollup"
        f" WHERE interval_ns = {step} AND {_WHOLE}{named} AND used_bytes_max IS NOT NULL AND ts_ns >= {wide.from_ns}"
        f" AND ts_ns < {wide.to_ns} AND {build_day_filter(wide)} GROUP BY id, ts_ns) GROUP BY id",
        parameters,
        within=wide,
    )
    return {row["id"]: row for row in list_query_rows(found)}


def describe_targets(lake: Tables, span: Span) -> Targets:
    """Every storage target, and how evenly load and space lie on them."""
    rows = list_components(lake, span, "target")
    moved = [row.sums.bytes for row in rows if row.sums.bytes is not None]
    mean = sum(moved) / len(moved) if moved else None
    full = [row.fullness for row in rows if row.fullness is not None]
    return Targets(
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        targets=rows,
        mean_bytes=mean,
        imbalance=max(moved) / mean if mean else None,
        idle=sum(1 for value in moved if value == 0),
        fullness_spread=max(full) - min(full) if full else None,
    )


def describe_component(
    lake: Tables, kind: str, name: str, span: Span, sight: Sight, now_ns: int, *, points: int = 600, limit: int = 20
) -> ComponentPage:
    """One target, forwarder or metadata server. Raises UnknownNameError."""
    seen = require_visible_component(lake, kind, name, span)
    where = "kind = $kind AND id = $id AND job_id IS NULL"
    steps, found = sum_timeline_by_layer(lake, span, where, {"kind": kind, "id": name}, now_ns, points)
    load = _load(found, steps, _LAYERS[kind])
    space = _space(lake, span, " AND id = $id", {"kind": kind, "layer": _LAYERS[kind], "id": name}).get(name)
    if load is None and space is None and not found.num_rows:
        known = list_component_names(lake, kind, now_ns, span)
        if name not in known:
            raise UnknownNameError(kind, name, find_similar_names(name, known))
    sources = [name, *find_component_servers(lake, kind, name, span)]
    cover = find_coverage(lake, sources, steps)
    row = _row(name, load, space)
    return ComponentPage(
        kind=kind,
        id=name,
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        row=row,
        timeline=mask_by_visible_intervals(build_timeline(steps, found, cover), seen),
        who=_list_job_shares(lake, kind, name, span, limit),
        hidden=not sight.everything,
        gaps=cover.gaps,
        latencies=list_latencies(lake, span, where, {"kind": kind, "id": name}, component=name),
    )


def _load(found: pa.Table, steps: Steps, layer: str) -> dict[str, Any] | None:
    """Sums, highest rate and busy share of one component, of its sums by step and layer; None without rows."""
    import pyarrow.compute as pc

    rows = found.filter(pc.equal(found.column("layer"), layer))
    if not rows.num_rows:
        return None
    moved = np.nan_to_num(read_float_column(rows, "read_bytes")) + np.nan_to_num(read_float_column(rows, "write_bytes"))
    sums = {name: pc.sum(rows.column(name)).as_py() for name in VALUES}
    return sums | {"peak": float(moved.max()) * 1e9 / steps.step_ns, "busy": int((moved > 0).sum()) / steps.count}


def _list_job_shares(lake: Tables, kind: str, name: str, span: Span, limit: int) -> list[Share]:
    """Jobs by their part in what one component did. `share` is of the whole."""
    added = ", ".join(f"TRY_CAST(sum({value}) AS BIGINT) AS {value}" for value in VALUES)
    columns = f"job_id, layer, {', '.join(VALUES)}"
    found = query_lake(
        lake,
        f"SELECT job_id, layer, {added} FROM"
        f" {build_rollup_select(span, 'kind = $kind AND id = $id', columns, one=True)}"
        " GROUP BY job_id, layer",
        {"kind": kind, "id": name},
        within=span.align_to(HOUR_NS),
    )
    rows = list_query_rows(found)
    whole = {row["layer"]: choose_job_detail_weight(row) for row in rows if row["job_id"] is None}
    parts = [row for row in rows if row["job_id"] is not None]
    parts.sort(key=lambda row: (-choose_job_detail_weight(row), row["job_id"]))
    told = find_latest_accounts(lake, [row["job_id"] for row in parts[:limit]], span)
    shares = []
    for row in parts[:limit]:
        account = told.get(row["job_id"])
        all_of = whole.get(row["layer"]) or 0
        shares.append(
            Share(
                kind="job",
                id=row["job_id"],
                layer=row["layer"],
                sums=read_rollup_sums(row),
                share=choose_job_detail_weight(row) / all_of if all_of else None,
                user=account["user"] if account else None,
                program=account["program"] if account else None,
            )
        )
    return shares


def list_component_names(lake: Tables, kind: str, now_ns: int, span: Span) -> list[str]:
    """Components of a kind that counters named in the last week or in the span."""
    names: set[str] = set()
    for look in (Span(now_ns - 7 * DAY_NS, now_ns), span):
        wide = look.align_to(HOUR_NS)
        found = query_lake(
            lake,
            f"SELECT DISTINCT id FROM rollup WHERE interval_ns = {HOUR_NS} AND kind = $kind"
            f" AND ts_ns >= {wide.from_ns} AND ts_ns < {wide.to_ns} AND {build_day_filter(wide)}",
            {"kind": kind},
            within=wide,
        )
        names.update(found.column("id").to_pylist())
    return sorted(names)


def find_component_servers(lake: Tables, kind: str, name: str, span: Span) -> list[str]:
    """Servers that count for a target (from the mapping, else from raw counters near the end of the span)."""
    if kind == "forwarder":
        return []
    found = query_lake(
        lake,
        f"SELECT DISTINCT b FROM mapping WHERE kind IN (SELECT unnest($kinds)) AND a = $name AND from_ns < {span.to_ns}"
        f" AND (to_ns IS NULL OR to_ns > {span.from_ns})",
        {"kinds": list(SERVED_BY), "name": name},
    )
    names: Sequence[str] = found.column("b").to_pylist()
    if names:
        return list(names)
    last = Span(max(span.from_ns, span.to_ns - SERVED_WITHIN_NS), span.to_ns)
    table = "target" if kind == "target" else "metadata"
    raw = query_lake(
        lake,
        f"SELECT DISTINCT server FROM {table} WHERE target = $name AND server IS NOT NULL"
        f" AND ts_ns >= {last.from_ns} AND ts_ns < {last.to_ns} AND {build_day_filter(last)} LIMIT 8",
        {"name": name},
        within=last,
    )
    return [server for server in raw.column("server").to_pylist() if server]

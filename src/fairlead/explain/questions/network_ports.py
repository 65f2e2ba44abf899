"""Beside the path: switch ports of jobs and how evenly they are used.

Ports of switches are told by links (the site's, else what a fabric's own tools say is at the other end). A node's own
adapters stand in only where no switch port of it is known; LNet's sums over interfaces never do.
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.tables import JOBS, MAPPING, PORT
from fairlead.explain.analysis.node_intervals import build_node_placement_intervals
from fairlead.explain.analysis.switch_ports import (
    LINKED,
    compute_switch_port_imbalance,
    list_port_links,
    sum_switch_ports_by_job,
)
from fairlead.explain.questions.answers import PortImbalance, PortVolume
from fairlead.explain.questions.answers_site import Ports
from fairlead.explain.questions.job_accounts import (
    build_account_condition,
    compute_account_begin_span,
    find_latest_accounts,
)
from fairlead.explain.questions.lake_queries import Sight, Tables, build_day_filter, list_query_rows, query_lake
from fairlead.explain.questions.span import HOUR_NS, Span, choose_long_span_interval, widen_span_to_pieces

LNET = "/lnet"
"""How ids of LNet's rows end."""
_SEEN_NS = HOUR_NS
_MOST_NODES = 4096


def list_network_ports(
    lake: Tables, span: Span, sight: Sight, *, rates: Mapping[str, float] | None = None, limit: int = 20
) -> Ports:
    """The busiest ports of the span, and jobs of several ports, the most uneven first."""
    moved = _moved(lake, span, None)
    links = _links(lake, span, None, moved)
    names = dict(zip(links["b"].to_pylist(), links["a"].to_pylist(), strict=True))
    by_port = moved.group_by("id").aggregate([("read_bytes", "sum"), ("write_bytes", "sum")])
    volumes = [_volume(row, names.get(row["id"]), span, rates or {}) for row in list_query_rows(by_port)]
    volumes.sort(key=lambda one: (-(one.received_bytes + one.sent_bytes), one.port))
    missing = [] if moved.num_rows else ["ports: no counter of a port in this time"]
    if moved.num_rows and not links.num_rows:
        missing.append("links: it is not known which node is behind which port")
    uneven = (
        compute_switch_port_imbalance(sum_switch_ports_by_job(moved, links, _placed(lake, span, None)))
        if links.num_rows
        else None
    )
    return Ports(
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        job_id=None,
        ports=volumes[:limit],
        total=len(volumes),
        jobs=_jobs(lake, span, uneven, limit),
        missing=missing,
        hidden=not sight.everything,
    )


def list_job_network_ports(
    lake: Tables, span: Span, job_id: str, nodes: Sequence[str], rates: Mapping[str, float] | None = None
) -> tuple[list[PortVolume], PortImbalance | None]:
    """Ports of one job, busiest first; how evenly they are used, where there are several."""
    if not nodes or len(nodes) > _MOST_NODES or not _counted(lake, span):
        return [], None
    links = _links(lake, span, nodes, None)
    if not links.num_rows:
        return [], None
    moved = _moved(lake, span, sorted(set(links["b"].to_pylist())))
    if not moved.num_rows:
        return [], None
    volumes = sum_switch_ports_by_job(moved, links, _placed(lake, span, nodes))
    mine = volumes.filter(pc.equal(volumes["job_id"], job_id))
    found = [
        PortVolume(
            port=row["port"],
            node=row["node"],
            received_bytes=round(row["received_bytes"]),
            sent_bytes=round(row["sent_bytes"]),
            shared_bytes=round(row["ambiguous_bytes"]),
            peak_share=_of_rate(row["received_bytes"], row["sent_bytes"], row["port"], span, rates or {}),
        )
        for row in list_query_rows(mine)
    ]
    found.sort(key=lambda one: (-(one.received_bytes + one.sent_bytes), one.port))
    uneven = [_uneven(row) for row in list_query_rows(compute_switch_port_imbalance(mine))]
    return found, uneven[0] if uneven else None


def _counted(lake: Tables, span: Span) -> bool:
    """Whether any port was counted."""
    hours = span.align_to(HOUR_NS)
    found = query_lake(
        lake,
        f"SELECT 1 AS one FROM rollup WHERE interval_ns = {HOUR_NS} AND kind = $kind AND ts_ns >= {hours.from_ns}"
        f" AND ts_ns < {hours.to_ns} AND {build_day_filter(hours)} LIMIT 1",
        {"kind": "port"},
        within=hours,
    )
    return bool(found.num_rows)


def _moved(lake: Tables, span: Span, names: Sequence[str] | None) -> pa.Table:
    """Sums by port and interval: `id`, `ts_ns`, `interval_ns`, `read_bytes`, `write_bytes`."""
    step = choose_long_span_interval(span)
    wide = span.align_to(step)
    chosen = "" if names is None else " AND id IN (SELECT unnest($names))"
    return query_lake(
        lake,
        "SELECT id, ts_ns, interval_ns, sum(read_bytes)::BIGINT AS read_bytes, sum(write_bytes)::BIGINT AS write_bytes"
        f" FROM rollup WHERE interval_ns = {step} AND kind = $kind AND ts_ns >= {wide.from_ns}"
        f" AND ts_ns < {wide.to_ns} AND {build_day_filter(wide)} AND NOT ends_with(id, $lnet){chosen}"
        " GROUP BY id, ts_ns, interval_ns",
        {"kind": "port", "lnet": LNET} | ({} if names is None else {"names": list(names)}),
        within=wide,
    )


def _links(lake: Tables, span: Span, nodes: Sequence[str] | None, moved: pa.Table | None) -> pa.Table:
    """`mapping` rows of links: those told; else those the fabric shows; else each node's own adapters."""
    mine = "" if nodes is None else " AND a IN (SELECT unnest($nodes))"
    words: dict[str, object] = {} if nodes is None else {"nodes": list(nodes)}
    told = query_lake(
        lake,
        f"SELECT * EXCLUDE (day) FROM mapping WHERE kind = $kind AND from_ns < {span.to_ns}"
        f" AND (to_ns IS NULL OR to_ns > {span.from_ns}){mine}",
        {**words, "kind": LINKED},
    ).select(MAPPING.schema.names)
    if told.num_rows:
        return told
    seen = Span(max(span.from_ns, span.to_ns - _SEEN_NS), span.to_ns)
    raw = query_lake(
        lake,
        f"SELECT DISTINCT switch, port, peer FROM {PORT.name} WHERE ts_ns >= {seen.from_ns} AND ts_ns < {seen.to_ns}"
        f" AND {build_day_filter(seen)} AND peer IS NOT NULL",
        within=seen,
    )
    shown = list_port_links(raw)
    if nodes is not None:
        shown = shown.filter(pc.is_in(shown["a"], value_set=pa.array(list(nodes), pa.string())))
    if shown.num_rows:
        return shown
    ids = moved["id"].unique().to_pylist() if moved is not None else _own(lake, span, nodes or [])
    known = None if nodes is None else set(nodes)
    pairs = [(name.partition("/")[0], name) for name in ids if known is None or name.partition("/")[0] in known]
    pairs = [pair for pair in pairs if known is not None or pair[1].count("/") > 1]
    rows = [{"from_ns": 0, "kind": LINKED, "a": node, "b": name} for node, name in pairs]
    return pa.Table.from_pylist(rows, MAPPING.schema)


def _own(lake: Tables, span: Span, nodes: Sequence[str]) -> list[str]:
    hours = span.align_to(HOUR_NS)
    found = query_lake(
        lake,
        f"SELECT DISTINCT id FROM rollup WHERE interval_ns = {HOUR_NS} AND kind = $kind AND ts_ns >= {hours.from_ns}"
        f" AND ts_ns < {hours.to_ns} AND {build_day_filter(hours)} AND split_part(id, '/', 1) IN (SELECT"
        f" unnest($nodes))"
        " AND NOT ends_with(id, $lnet)",
        {"kind": "port", "nodes": list(nodes), "lnet": LNET},
        within=hours,
    )
    return [str(name) for name in found["id"].to_pylist()]


def _placed(lake: Tables, span: Span, nodes: Sequence[str] | None) -> pa.Table:
    mine = "" if nodes is None else " AND list_has_any(nodes, $nodes)"
    found = query_lake(
        lake,
        f"SELECT * EXCLUDE (day) FROM jobs WHERE {build_account_condition(span)}{mine}",
        {} if nodes is None else {"nodes": list(nodes)},
        began=compute_account_begin_span(span),
    )
    return build_node_placement_intervals(found.select(JOBS.schema.names))


def _volume(row: Mapping[str, object], node: str | None, span: Span, rates: Mapping[str, float]) -> PortVolume:
    into, out = int(row["write_bytes_sum"] or 0), int(row["read_bytes_sum"] or 0)  # type: ignore[call-overload]
    port = str(row["id"])
    return PortVolume(
        port=port, node=node, received_bytes=into, sent_bytes=out, peak_share=_of_rate(into, out, port, span, rates)
    )


def _of_rate(into: float, out: float, port: str, span: Span, rates: Mapping[str, float]) -> float | None:
    rate = rates.get(port.partition("/")[0])
    return max(into, out) / span.seconds / rate if rate and span.seconds > 0 else None


def _uneven(row: Mapping[str, object]) -> PortImbalance:
    return PortImbalance(
        job_id=str(row["job_id"]),
        ports=row["ports"],  # type: ignore[arg-type]
        received_bytes=round(row["received_bytes"]),  # type: ignore[call-overload]
        sent_bytes=round(row["sent_bytes"]),  # type: ignore[call-overload]
        highest_over_mean=row["highest_over_mean"],  # type: ignore[arg-type]
        deviation=row["deviation"],  # type: ignore[arg-type]
    )


def _jobs(lake: Tables, span: Span, uneven: pa.Table | None, limit: int) -> list[PortImbalance]:
    if uneven is None or not uneven.num_rows:
        return []
    found = sorted(
        (_uneven(row) for row in list_query_rows(uneven)), key=lambda one: (-one.highest_over_mean, one.job_id)
    )
    told = find_latest_accounts(lake, [one.job_id for one in found[:limit]], widen_span_to_pieces(span))
    return [_with_owner(one, told.get(one.job_id)) for one in found[:limit]]


def _with_owner(one: PortImbalance, account: Mapping[str, object] | None) -> PortImbalance:
    from msgspec.structs import replace

    return replace(one, user=account["user"], program=account["program"]) if account else one

"""Finds what the jobs a reader may see ran on, where and when: their nodes, and what served these meanwhile.

Not here: what is made of it (`restricted_lake`), the rules (`visible_lake`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fairlead.explain.analysis.switch_ports import LINKED
from fairlead.explain.analysis.table_columns import read_integer_column
from fairlead.explain.questions.lake_queries import Sight, Tables, build_day_filter, list_query_rows, query_lake
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, Span
from fairlead.explain.questions.visible_lake import Reach, build_visible_jobs_condition, merge_visible_intervals

FORWARDED = ("node_forwarder", "node→forwarder")
SERVED_BY = ("target→server", "target_server")
LONGEST_RUN_NS = 32 * DAY_NS
"""A job without an end is taken to have run no longer."""
_END = f"least(coalesce(end_ns, start_ns + {LONGEST_RUN_NS}), {2**62})"
_COUNTED = ("forwarder", "target", "mds")
_ANYTHING = ("node", "forwarder", "target", "mds", "port", "server")
_SOURCES = ("node", "forwarder", "server")


def look_up_visible_reach(lake: Tables, sight: Sight, span: Span | None) -> Reach:
    """The reach of jobs that ran in the span, of all jobs without one. `lake`: with nothing hidden. Raises
    LakeError."""
    own = _own(lake, sight, span)
    numbers = sorted(set(own["job_id"].to_pylist()))
    strangers = _strangers(lake, sight, numbers)
    begins, ends = read_integer_column(own, "start_ns"), read_integer_column(own, "end_ns")
    ids = own["job_id"].to_pylist()
    overlapping = {number: [(a, z) for n, a, z in strangers if n == number] for number in {s[0] for s in strangers}}
    mixed = frozenset(
        (number, a)
        for number, a, z in zip(ids, begins.tolist(), ends.tolist(), strict=True)
        if any(b < z and e > a for b, e in overlapping.get(number, ()))
    )
    # Counters by number are the job's own to the hour, unless another had the number close to it.
    first, last = begins // HOUR_NS * HOUR_NS, -(-ends // HOUR_NS) * HOUR_NS
    alone = np.array(
        [
            not any(b < z and e > a for b, e in overlapping.get(number, ()))
            for number, a, z in zip(ids, first.tolist(), last.tolist(), strict=True)
        ],
        np.bool_,
    )
    plain = np.array([(n, a) not in mixed for n, a in zip(ids, begins.tolist(), strict=True)], np.bool_)
    names = np.array(ids, object)
    parts = [
        _rows("job", names[alone], first[alone], last[alone]),
        _rows("job", names[plain & ~alone], begins[plain & ~alone], ends[plain & ~alone]),
        *_used(lake, sight, own, alone),
    ]
    kinds, where, starts, stops = (np.concatenate([part[k] for part in parts]) for k in range(4))
    kinds, where, starts, stops = merge_visible_intervals(kinds, where, starts, stops)
    extra = [(kinds, where, starts, stops)]
    for called, of in (("any", _ANYTHING), ("source", _SOURCES)):
        chosen = np.isin(kinds.astype(str), of)
        extra.append(
            merge_visible_intervals(
                np.full(int(chosen.sum()), called, object), where[chosen], starts[chosen], stops[chosen]
            )
        )
    kinds, where, starts, stops = (np.concatenate([part[k] for part in extra]) for k in range(4))
    runs = list(zip(own["cluster"].to_pylist(), ids, begins.tolist(), ends.tolist(), strict=True))
    common = frozenset(number for number, _, _ in strangers)
    return Reach(kinds, where, starts, stops, runs=runs, mixed=mixed, common=common)


_Part = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _rows(kind: str, names: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> _Part:
    return np.full(len(names), kind, object), names, begins, ends


def _ran(span: Span | None, alias: str = "") -> str:
    if span is None:
        return "start_ns IS NOT NULL"
    return (
        f"{alias}start_ns < {span.to_ns} AND {alias}start_ns >= {span.from_ns - LONGEST_RUN_NS}"
        f" AND ({alias}end_ns IS NULL OR {alias}end_ns >= {span.from_ns})"
    )


def _own(lake: Tables, sight: Sight, span: Span | None) -> pa.Table:
    condition, words = build_visible_jobs_condition(sight)
    return query_lake(
        lake,
        f"SELECT cluster, job_id, start_ns, {_END} AS end_ns, nodes FROM jobs"
        f" WHERE {condition} AND {_ran(span)} ORDER BY start_ns, cluster, job_id",
        words,
        began=None if span is None else Span(span.from_ns - LONGEST_RUN_NS, span.to_ns),
    )


def _strangers(lake: Tables, sight: Sight, numbers: list[str]) -> list[tuple[str, int, int]]:
    """(number, start, end) of jobs of these numbers that this reader may not see."""
    if not numbers:
        return []
    condition, words = build_visible_jobs_condition(sight)
    found = query_lake(
        lake,
        f"SELECT job_id, start_ns, {_END} AS end_ns FROM jobs"
        f" WHERE job_id IN (SELECT n FROM r_numbers) AND NOT coalesce({condition}, false) AND start_ns IS NOT NULL",
        words,
        numbers=numbers,
        tables={"r_numbers": pa.table({"n": pa.array(numbers, pa.string())})},
    )
    return [(row["job_id"], row["start_ns"], row["end_ns"]) for row in list_query_rows(found)]


def _used(lake: Tables, sight: Sight, own: pa.Table, alone: np.ndarray) -> list[_Part]:
    """Nodes of the jobs and what served them: by the mapping of that time, by counters and by what analysis says."""
    if not own.num_rows:
        return [_rows("", np.empty(0, object), np.empty(0, np.int64), np.empty(0, np.int64))]
    begins, ends = read_integer_column(own, "start_ns"), read_integer_column(own, "end_ns")
    hull = Span(int(begins.min()), int(ends.max())).align_to(HOUR_NS)
    condition, words = build_visible_jobs_condition(sight)
    counted = own.filter(pa.array(alone))
    found = query_lake(
        lake,
        "WITH there AS (SELECT DISTINCT unnest(nodes) AS node, began, ended FROM r_own),"
        f" hours AS (SELECT DISTINCT kind, id, job_id, ts_ns FROM rollup WHERE interval_ns = {HOUR_NS}"
        " AND (kind IN (SELECT unnest($k_counted)) AND job_id IN (SELECT number FROM r_named) OR kind = $k_port)"
        f" AND ts_ns >= {hull.from_ns} AND ts_ns < {hull.to_ns} AND {build_day_filter(hull)}),"
        " ports AS (SELECT DISTINCT id, split_part(id, '/', 1) AS node FROM hours WHERE kind = $k_port)"
        " SELECT $k_node AS kind, node AS id, began, ended FROM there"
        " UNION ALL SELECT CASE WHEN m.kind = $k_linked THEN $k_port ELSE $k_fwd END, m.b, greatest(began, m.from_ns),"
        " least(ended, coalesce(m.to_ns, ended)) FROM there JOIN mapping m ON m.a = there.node AND m.from_ns < ended"
        " AND coalesce(m.to_ns, ended) > began WHERE m.kind IN (SELECT unnest($k_forwarded)) OR m.kind = $k_linked"
        " UNION ALL SELECT $k_port, ports.id, began, ended FROM there JOIN ports USING (node)"
        " UNION ALL SELECT DISTINCT hours.kind, hours.id, began, ended FROM r_named"
        " JOIN hours ON hours.job_id = r_named.number"
        f" AND hours.ts_ns + {HOUR_NS} > began AND hours.ts_ns < ended"
        f" UNION ALL SELECT $k_ost, unnest(targets), start_ns, coalesce(end_ns, start_ns + {LONGEST_RUN_NS})"
        f" FROM job_summary WHERE {condition} AND start_ns >= {hull.from_ns} AND start_ns < {hull.to_ns}"
        f" UNION ALL SELECT $k_fwd, unnest(forwarders), start_ns, coalesce(end_ns, start_ns + {LONGEST_RUN_NS})"
        f" FROM job_summary WHERE {condition} AND start_ns >= {hull.from_ns} AND start_ns < {hull.to_ns}",
        {
            **words,
            "k_counted": list(_COUNTED),
            "k_node": "node",
            "k_fwd": "forwarder",
            "k_ost": "target",
            "k_port": "port",
            "k_linked": LINKED,
            "k_forwarded": list(FORWARDED),
        },
        within=hull,
        began=hull,
        tables={
            "r_own": pa.table({"began": begins, "ended": ends, "nodes": own["nodes"]}),
            "r_named": pa.table({"number": counted["job_id"], "began": begins[alone], "ended": ends[alone]}),
        },
    )
    parts = _part(found)
    return [parts, *_seen_links(lake, parts, hull), *_servers(lake, parts)]


def _part(found: pa.Table) -> _Part:
    whole = found.filter(pa.array([i is not None for i in found["id"].to_pylist()], pa.bool_()))
    return (
        np.array(whole["kind"].to_pylist(), object),
        np.array(whole["id"].to_pylist(), object),
        np.asarray(read_integer_column(whole, "began")),
        np.asarray(read_integer_column(whole, "ended")),
    )


def _named(called: str, parts: _Part, chosen: np.ndarray) -> pa.Table:
    """The names that are chosen, with their times."""
    _, ids, begins, ends = (part[chosen] for part in parts)
    return pa.table({called: pa.array(ids, pa.string()), "began": begins, "ended": ends})


def _seen_links(lake: Tables, parts: _Part, hull: Span) -> list[_Part]:
    """Switch ports by what the fabric says is at their other end."""
    nodes = parts[0] == "node"
    found = query_lake(
        lake,
        "SELECT DISTINCT $k_port AS kind, concat(switch, '/', port) AS id, began, ended FROM"
        " (SELECT DISTINCT switch, port, split_part(trim(peer), ' ', 1) AS node FROM port"
        f" WHERE ts_ns >= {hull.from_ns} AND ts_ns < {hull.to_ns} AND {build_day_filter(hull)} AND peer IS NOT NULL)"
        " JOIN r_told USING (node)",
        {"k_port": "port"},
        within=hull,
        tables={"r_told": _named("node", parts, nodes)},
    )
    return [_part(found)]


def _servers(lake: Tables, parts: _Part) -> list[_Part]:
    """Hosts of the targets and metadata targets, by the mapping."""
    kinds = parts[0]
    stored = (kinds == "target") | (kinds == "mds")
    found = query_lake(
        lake,
        "SELECT DISTINCT $k_server AS kind, m.b AS id, greatest(began, m.from_ns) AS began,"
        " least(ended, coalesce(m.to_ns, ended)) AS ended FROM r_told"
        " JOIN mapping m ON m.a = r_told.name AND m.from_ns < ended"
        " AND coalesce(m.to_ns, ended) > began WHERE m.kind IN (SELECT unnest($kinds))",
        {"k_server": "server", "kinds": list(SERVED_BY)},
        tables={"r_told": _named("name", parts, stored)},
    )
    return [_part(found)]

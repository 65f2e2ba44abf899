"""The machine at a glance, one node of it, and how watching goes: volumes by layer and day, silent sources, health.

Not here: components that many share (`components`, `mds`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec.structs import replace

from fairlead.explain.questions.answers import (
    Amplification,
    ClockShift,
    ComponentRow,
    Event,
    Gap,
    Health,
    LayerDay,
    NodePage,
    ProbeHealth,
    Sums,
    System,
)
from fairlead.explain.questions.clock_offsets import find_clock_offsets
from fairlead.explain.questions.components import list_node_devices
from fairlead.explain.questions.coverage import LAG_NS, PERIODS, Coverage, find_coverage, find_coverage_gaps
from fairlead.explain.questions.job_accounts import build_account_condition, compute_account_begin_span
from fairlead.explain.questions.job_lists import list_jobs
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
from fairlead.explain.questions.own_health import count_silent_sources
from fairlead.explain.questions.rollup_sums import (
    VALUES,
    WHOLE_LAYERS,
    WHOLE_WORDS,
    Steps,
    add_rollup_sums,
    build_rollup_select,
    read_rollup_sums,
    sum_rollup,
)
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, MINUTE_NS, Span
from fairlead.explain.questions.timelines import LAYERS, build_timeline, sum_timeline_by_layer
from fairlead.explain.questions.visible_lake import mask_by_visible_intervals, require_visible_component

_HEARD_NS = 2 * HOUR_NS
"""How far back the last word of a probe is looked for."""
_MOST_EVENTS, _MOST_SILENT, _MOST_PROBES = 50, 100, 200
_TROUBLE = ("failing", "lost", "late", "missing")
_WHOLE = f"job_id IS NULL AND ({WHOLE_LAYERS})"


def describe_machine(lake: Tables, span: Span, sight: Sight, now_ns: int, *, points: int = 300) -> System:
    """Volumes per layer and day, amplification between layers, jobs, silent sources, events."""
    columns = f"layer, ts_ns, {', '.join(VALUES)}"
    sums = ", ".join(f"TRY_CAST(sum({name}) AS BIGINT) AS {name}" for name in VALUES)
    found = query_lake(
        lake,
        f"SELECT ts_ns // {DAY_NS} AS date, layer, {sums} FROM {build_rollup_select(span, _WHOLE, columns)}"
        " GROUP BY date, layer ORDER BY date, layer",
        WHOLE_WORDS,
        within=span.align_to(HOUR_NS),
    )
    rows = list_query_rows(found)
    order = {name: k for k, name in enumerate(LAYERS)}
    rows.sort(key=lambda row: (row["date"], order.get(row["layer"], 99)))
    by_day = [
        LayerDay(day=str(np.datetime64(r["date"], "D")), layer=r["layer"], sums=read_rollup_sums(r)) for r in rows
    ]
    layers = [name for name in LAYERS if any(one.layer == name for one in by_day)]
    totals_ = {name: add_rollup_sums([one.sums for one in by_day if one.layer == name]) for name in layers}
    steps, series = sum_timeline_by_layer(lake, span, _WHOLE, WHOLE_WORDS, now_ns, points, many=True)
    running, ended = count_machine_jobs(lake, span, now_ns)
    sources, silent = count_silent_sources(lake, min(span.to_ns, now_ns))
    return System(
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        jobs_running=running,
        jobs_ended=ended,
        layers=by_day,
        totals=totals_,
        amplification=_compute_amplification(totals_),
        timeline=build_timeline(steps, series, _anyone(lake, steps)),
        sources=sources,
        silent=silent[:_MOST_SILENT],
        events=_list_events(lake, span, sight),
    )


def _compute_amplification(sums: Mapping[str, Sums]) -> list[Amplification]:
    """Bytes each layer moved for a byte of the layer above it that moved any."""
    top = "mount" if "mount" in sums else "client"  # a tracer follows some jobs only, a mount all of them
    layers = [name for name in (top, "forwarder", "pfs_client", "target") if name in sums]
    pairs = []
    for upper, lower in pairwise(layers):
        above, below = sums[upper], sums[lower]
        read = below.read_bytes / above.read_bytes if below.read_bytes is not None and above.read_bytes else None
        write = below.write_bytes / above.write_bytes if below.write_bytes is not None and above.write_bytes else None
        pairs.append(Amplification(upper=upper, lower=lower, read=read, write=write))
    return pairs


def _anyone(lake: Tables, steps: Steps) -> Coverage:
    """Whether anybody's agent reported at all in each step."""
    span = steps.span
    rows = query_lake(
        lake,
        f"SELECT DISTINCT (ts_ns - {span.from_ns}) // {max(steps.step_ns, MINUTE_NS)} AS place FROM health"
        f" WHERE probe = 'agent' AND state = 'ok' AND ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns}"
        f" AND {build_day_filter(span)}",
        within=span,
    )
    known = np.zeros(steps.count, np.bool_)
    each = max(1, MINUTE_NS // steps.step_ns)
    for place in rows.column("place").to_pylist():
        known[place * each : (place + 1) * each] = True
    known &= steps.list_starts() + steps.step_ns <= steps.now_ns - LAG_NS
    return Coverage(known, known.astype(float), [])


def count_machine_jobs(lake: Tables, span: Span, now_ns: int) -> tuple[int | None, int | None]:
    """Jobs running at the end of the span and jobs that ended in it ; None when no account is known."""
    moment = min(span.to_ns, now_ns)
    found = query_lake(
        lake,
        f"SELECT count(*) AS told, count(*) FILTER (WHERE start_ns <= {moment} AND (end_ns > {moment}"
        " OR (end_ns IS NULL AND NOT regexp_matches(lower(coalesce(state, '')), $ended)))) AS running,"
        f" count(*) FILTER (WHERE end_ns >= {span.from_ns} AND end_ns < {span.to_ns}) AS ended"
        f" FROM jobs WHERE {build_account_condition(span)}",
        {"ended": "^(completed|failed|cancel|timeout|node_fail|out_of|boot_fail|deadline|preempted|pending)"},
        within=compute_account_begin_span(span),
        began=compute_account_begin_span(span),
    )
    [row] = list_query_rows(found)
    return (row["running"], row["ended"]) if row["told"] else (None, None)


def _list_events(lake: Tables, span: Span, sight: Sight, components: list[str] | None = None) -> list[Event]:
    """What happened in the span, latest first. A reader with a user sees neither texts (they may name others) nor what
    is told of jobs."""
    chosen = " AND component IN (SELECT unnest($components))" if components is not None else ""
    hidden = "" if sight.everything else " AND NOT regexp_matches(component, '^(job|input|user):')"
    found = query_lake(
        lake,
        "SELECT ts_ns, max(end_ns) AS end_ns, component, kind, max(text) AS text FROM events"
        f" WHERE ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns} AND {build_day_filter(span)}{chosen}{hidden}"
        f" GROUP BY ts_ns, component, kind ORDER BY ts_ns DESC, component, kind LIMIT {_MOST_EVENTS}",
        {"components": components} if components is not None else None,
        within=span,
    )
    return [
        Event(
            ts_ns=row["ts_ns"],
            end_ns=row["end_ns"],
            component=row["component"],
            kind=row["kind"],
            text=row["text"] if sight.everything else None,
        )
        for row in list_query_rows(found)
    ]


def describe_node(lake: Tables, name: str, span: Span, sight: Sight, now_ns: int, *, points: int = 600) -> NodePage:
    """A node: its jobs, its I/O by layer, its probes. Raises UnknownNameError."""
    where = "kind IN ($node, $fwd) AND id = $id AND job_id IS NULL"
    parameters = {"node": "node", "fwd": "forwarder", "id": name}
    seen = require_visible_component(lake, ("node", "forwarder"), name, span)
    off = find_clock_offsets(lake, [name], span).get(name, 0)
    dated = Span(span.from_ns - off, span.to_ns - off)
    steps, found = sum_timeline_by_layer(lake, dated, where, parameters, now_ns - off, points)
    cover = find_coverage(lake, [name], steps)
    running = list_jobs(lake, span, sight, now_ns, node=name, limit=100)
    probes = _last_words(lake, min(span.to_ns, now_ns), [name], sight)
    own = _own(lake, span, name)
    if not found.num_rows and not running.jobs and not probes and not own and not cover.known.any():
        known = _nodes(lake, now_ns)
        if name not in known:
            raise UnknownNameError("node", name, find_similar_names(name, known))
    by_layer = list_query_rows(sum_rollup(lake, dated, "layer", where, parameters))
    drawn = build_timeline(steps, found, cover)
    if seen is not None:
        drawn = mask_by_visible_intervals(drawn, [(begin - off, end - off) for begin, end in seen])
    return NodePage(
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        node=name,
        jobs=running.jobs,
        sums={row["layer"]: read_rollup_sums(row) for row in sorted(by_layer, key=lambda row: str(row["layer"]))},
        probes=probes,
        timeline=replace(drawn, from_ns=drawn.from_ns + off),
        clock=ClockShift(source=name, offset_ns=off) if off else None,
        gaps=cover.gaps,
        events=_list_events(lake, span, sight, [name]),
        devices=own,
        latencies=list_latencies(lake, dated, where, parameters),
    )


def _own(lake: Tables, span: Span, node: str) -> list[ComponentRow]:
    """The node's devices, named without the node."""
    rows = list_node_devices(lake, span, node)
    return [replace(row, id=row.id[len(node) + 1 :]) for row in rows]


def _nodes(lake: Tables, now_ns: int) -> list[str]:
    """Nodes that were heard of in the last days."""
    hours = Span(now_ns - 3 * DAY_NS, now_ns).align_to(HOUR_NS)
    counted = query_lake(
        lake,
        f"SELECT DISTINCT id FROM rollup WHERE interval_ns = {HOUR_NS} AND kind IN ($node, $fwd)"
        f" AND ts_ns >= {hours.from_ns} AND ts_ns < {hours.to_ns} AND {build_day_filter(hours)}",
        {"node": "node", "fwd": "forwarder"},
        within=hours,
    )
    told = query_lake(
        lake,
        f"SELECT DISTINCT node FROM health WHERE ts_ns >= {now_ns - _HEARD_NS} AND ts_ns < {now_ns + HOUR_NS}"
        f" AND {build_day_filter(hours)}",
        within=hours,
    )
    return sorted({*counted.column("id").to_pylist(), *told.column("node").to_pylist()})


def _last_words(lake: Tables, now_ns: int, nodes: list[str] | None, sight: Sight) -> list[ProbeHealth]:
    """The last row of health of every probe (of `nodes`)."""
    back = DAY_NS if nodes is not None else _HEARD_NS
    span = Span(now_ns - back, now_ns + HOUR_NS)
    fields = (
        "state",
        "rows",
        "failures",
        "unknown_lines",
        "lost_batches",
        "memory_bytes",
        "clock_offset_ns",
        "text",
        "interval_ns",
    )
    chosen = ", ".join(f"'{name}': \"{name}\"" for name in fields)
    condition = " AND node IN (SELECT unnest($nodes))" if nodes is not None else ""
    found = query_lake(
        lake,
        f"SELECT node, probe, max(ts_ns) AS ts_ns, arg_max({{{chosen}}}, ts_ns) AS last FROM health"
        f" WHERE ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns} AND {build_day_filter(span)}{condition}"
        f" GROUP BY node, probe"
        " ORDER BY node, probe",
        {"nodes": nodes} if nodes is not None else None,
        within=span,
    )
    return [_probe(row, now_ns, sight) for row in list_query_rows(found)]


def _probe(row: Mapping[str, Any], now_ns: int, sight: Sight) -> ProbeHealth:
    last = dict(row["last"])
    period = max(last.pop("interval_ns") or 0, MINUTE_NS)
    text = last.pop("text")
    return ProbeHealth(
        node=row["node"],
        probe=row["probe"],
        ts_ns=row["ts_ns"],
        silent=now_ns - row["ts_ns"] > PERIODS * period,
        text=text if sight.everything else None,
        **last,
    )


def list_probe_health(lake: Tables, sight: Sight, now_ns: int, *, everything: bool = False) -> Health:
    """How watching goes: every probe's state, those in trouble first. Probes in order are left out unless
    `everything`."""
    span = Span(now_ns - _HEARD_NS, now_ns + HOUR_NS)
    counted = query_lake(
        lake,
        "SELECT count(DISTINCT node) AS nodes FROM health"
        f" WHERE ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns} AND {build_day_filter(span)}",
        within=span,
    )
    words = _last_words(lake, now_ns, None, sight)
    states: dict[str, int] = {}
    for probe in words:
        state = "silent" if probe.silent else probe.state
        states[state] = states.get(state, 0) + 1
    words.sort(key=lambda p: (not p.silent, p.state == "ok", p.state == "missing", p.node, p.probe))
    shown = words if everything else [p for p in words if p.silent or p.state in _TROUBLE or p.lost_batches]
    gaps = find_coverage_gaps(lake, None, Span(now_ns - DAY_NS, now_ns))
    named = {gap.source for gap in gaps if gap.to_ns is None}
    quiet = [p for p in words if p.silent and p.probe == "agent" and p.node not in named]
    gaps += [Gap(source=p.node, from_ns=p.ts_ns, to_ns=None, why="its agent no longer reports") for p in quiet]
    return Health(
        now_ns=now_ns,
        nodes=int(counted.column("nodes")[0].as_py()),
        states=states,
        probes=shown[:_MOST_PROBES],
        gaps=gaps,
    )

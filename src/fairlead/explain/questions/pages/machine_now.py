"""The machine now, layer by layer: load, states, the last hour, who moves most, what is open.

Closed minutes are kept between calls, so that a page that is looked at all day reads the newest minutes only. Not here:
states (`states`), layers (`layer_kinds`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.model.incident import Incident
from fairlead.explain.analysis.table_columns import read_float_column, read_integer_column
from fairlead.explain.questions.answers import Gap, TopRow
from fairlead.explain.questions.answers_pages import ComponentNow, LayerNow, Now
from fairlead.explain.questions.job_lists import rank_job_consumers
from fairlead.explain.questions.lake_queries import Sight, Tables, build_day_filter, query_lake
from fairlead.explain.questions.machine import count_machine_jobs
from fairlead.explain.questions.own_health import count_silent_sources
from fairlead.explain.questions.pages.component_states import (
    WORST_FIRST,
    Trouble,
    find_component_troubles,
    get_component_state,
    list_component_incidents,
)
from fairlead.explain.questions.pages.layer_kinds import LAYERS, LayerKind, find_layer_full_load
from fairlead.explain.questions.question import Asking
from fairlead.explain.questions.rollup_end import shift_to_rollup_end
from fairlead.explain.questions.rollup_sums import round_rollup_line
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS, Span, parse_span_moment

MOST_COMPONENTS = 400
MOST_CLIENTS = 50
_MINUTES = 60
_SETTLED = 3
"""Minutes that ended so many minutes ago are kept."""
_CLIENTS = ("mount", "client", "pfs_client")
"""Layers that count what a node moved, the best first."""
_TOP, _TOP_NS = 10, 10 * MINUTE_NS
_FRESH_NS = 15 * SECOND_NS
"""So long it is remembered which jobs moved most."""
_MOST_SILENT = 100
_MOVED = "sum(coalesce(read_bytes + write_bytes, read_bytes, write_bytes))"
_COUNTED = (
    "job_id IS NULL AND (kind IN (SELECT unnest($kinds)) OR (kind = $k_node AND layer IN (SELECT unnest($layers))))"
    " AND NOT contains(id, ':/') AND NOT ends_with(id, '/lnet')"
)
_WORDS = {"kinds": [kind.kind for kind in LAYERS.values()], "k_node": "node", "layers": list(_CLIENTS)}
Floats = NDArray[np.float64]
Lines = tuple[Floats, Floats]
Counted = tuple[str, str]
"""Kind and layer of rows of the rollup."""


@dataclass(frozen=True)
class _Rates:
    """Of components in the last minutes: bytes and metadata operations a second (NaN: not told)."""

    ids: list[str]
    bytes_per_s: Floats
    ops_per_s: Floats


_NO_RATES = _Rates([], np.empty(0), np.empty(0))


def describe_machine_now(asking: Asking, name: str, asked: Any, sight: Sight, now_ns: int) -> Now:  # noqa: ARG001
    """The machine now, layer by layer. Raises UsageError, LakeError."""
    at = parse_span_moment(asked.at, now_ns) if asked.at else now_ns
    lake = asking.lake
    end = shift_to_rollup_end(lake, Span(at - MINUTE_NS, at), at).to_ns
    span = Span((end - MINUTE_NS) // MINUTE_NS * MINUTE_NS, end, at == now_ns)
    incidents = list_component_incidents(lake, at, sight)
    rates, recent = _rates(lake, span), _recent(asking, end)
    known = _known(asking, at)
    names = {kind.kind: _names(kind, rates, known, incidents) for kind in LAYERS.values()}
    clients = {name for counted in _CLIENTS for name in known.get(("node", counted), ())}
    trouble = find_component_troubles(lake, names | {"node": sorted(clients)}, at, incidents)
    sources, silent = _sources(asking, at)
    heard = replace(trouble["node"], silent={gap.source: gap.why for gap in silent})
    layers = [_clients(rates, recent, known, heard, incidents)]
    for kind in LAYERS.values():
        peak = find_layer_full_load(asking, kind, Span(at - HOUR_NS, at), at)[0] if names[kind.kind] else None
        layers.append(_layer(kind, names[kind.kind], rates, recent, trouble[kind.kind], peak))
    running, busy = _jobs(asking, Span(end - _TOP_NS, end), sight, at)
    missing = [f"{one.layer}: no data in the last day" for one in layers if not one.total]
    return Now(
        now_ns=at,
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        layers=[one for one in layers if one.total],
        top=busy,
        open=incidents,
        jobs_running=running,
        sources=sources,
        silent=silent[:_MOST_SILENT],
        missing=missing,
    )


def _names(
    kind: LayerKind,
    rates: Mapping[Counted, _Rates],
    known: Mapping[Counted, Sequence[str]],
    incidents: Sequence[Incident],
) -> list[str]:
    """Components of a layer: counted now or in the last day, or sick."""
    of = (kind.kind, kind.counted)
    told = {*rates.get(of, _NO_RATES).ids, *known.get(of, ())}
    return sorted(
        {name for name in told if kind.is_shown(name)} | {i.component for i in incidents if i.layer == kind.kind}
    )


def _layer(
    kind: LayerKind,
    names: Sequence[str],
    every: Mapping[Counted, _Rates],
    recent: Mapping[Counted, Lines],
    trouble: Trouble,
    peak: float | None,
) -> LayerNow:
    """One layer of shared components."""
    of = (kind.kind, kind.counted)
    rates = every.get(of, _NO_RATES)
    rates = _only(rates, [kind.is_shown(one) for one in rates.ids])
    value = rates.ops_per_s if kind.name == "mds" else rates.bytes_per_s
    rows = _components(names, rates, value, trouble, peak)
    loads = [one.load for one in rows if one.load is not None]
    heard = sum(1 for one in rows if one.state not in ("unknown", "silent"))
    lines = recent.get(of, _NO_LINES)
    return LayerNow(
        layer=kind.name,
        kind=kind.kind,
        components=rows[:MOST_COMPONENTS],
        total=len(names),
        states=dict(Counter(one.state for one in rows)),
        bytes_per_s=_sum(rates.bytes_per_s),
        ops_per_s=_sum(rates.ops_per_s),
        load=sum(loads) / heard if loads and heard else None,
        recent=round_rollup_line(lines[1] if kind.name == "mds" else lines[0]),
    )


def _clients(
    every: Mapping[Counted, _Rates],
    recent: Mapping[Counted, Lines],
    known: Mapping[Counted, Sequence[str]],
    heard: Trouble,
    incidents: Sequence[Incident],
) -> LayerNow:
    """Compute nodes, each as the best layer that counts it does; the last hour is of the layer that counts most."""
    layers = [("node", counted) for counted in _CLIENTS]
    rates = _merge_rates([every[of] for of in layers if of in every])
    trouble = replace(heard, incidents={one.component: one for one in reversed(incidents) if one.layer == "client"})
    names = sorted({*rates.ids, *trouble.incidents, *(name for of in layers for name in known.get(of, ()))})
    rows = _components(names, rates, rates.bytes_per_s, trouble, None)
    widest = max(layers, key=lambda of: (len({*every.get(of, _NO_RATES).ids, *known.get(of, ())}), of in recent))
    return LayerNow(
        layer="client",
        kind="node",
        components=rows[:MOST_CLIENTS],
        total=len(names),
        states=dict(Counter(one.state for one in rows)),
        bytes_per_s=_sum(rates.bytes_per_s),
        ops_per_s=_sum(rates.ops_per_s),
        load=None,
        recent=round_rollup_line(recent.get(widest, _NO_LINES)[0]),
    )


def _merge_rates(layers: Sequence[_Rates]) -> _Rates:
    """Each component once, as the first of the layers that names it tells."""
    if not layers:
        return _NO_RATES
    ids = np.array([name for one in layers for name in one.ids], dtype=object)
    first = np.sort(np.unique(ids, return_index=True)[1])
    return _Rates(
        ids[first].tolist(),
        np.concatenate([one.bytes_per_s for one in layers])[first],
        np.concatenate([one.ops_per_s for one in layers])[first],
    )


def _components(
    names: Sequence[str], rates: _Rates, value: Floats, trouble: Trouble, peak: float | None
) -> list[ComponentNow]:
    """Those in trouble first, then the busiest."""
    place = {name: at for at, name in enumerate(rates.ids)}
    made = []
    for name in names:
        at = place.get(name)
        moved = None if at is None or np.isnan(value[at]) else float(value[at])
        state, incident, why = get_component_state(name, moved, trouble)
        made.append(
            ComponentNow(
                id=name,
                state=state,
                load=moved / peak if moved is not None and peak else None,
                bytes_per_s=_number(rates.bytes_per_s, at),
                ops_per_s=_number(rates.ops_per_s, at),
                incident=incident,
                why=why,
            )
        )
    worst = {state: place for place, state in enumerate(WORST_FIRST)}
    made.sort(key=lambda one: (worst[one.state], -(one.bytes_per_s or 0.0), -(one.ops_per_s or 0.0), one.id))
    return made


def _number(values: Floats, at: int | None) -> float | None:
    return None if at is None or np.isnan(values[at]) else round(float(values[at]), 3)


def _sum(values: Floats) -> float | None:
    return None if np.isnan(values).all() else round(float(np.nansum(values)), 3)


def _only(rates: _Rates, chosen: Sequence[bool]) -> _Rates:
    mine = np.array(chosen, np.bool_)
    ids = [name for name, one in zip(rates.ids, chosen, strict=True) if one]
    return _Rates(ids, rates.bytes_per_s[mine], rates.ops_per_s[mine])


def _rates(lake: Tables, span: Span) -> dict[Counted, _Rates]:
    """What each component did in the span, which is of whole minutes but for the last, by layer."""
    found = query_lake(
        lake,
        f"SELECT kind, layer, id, {_MOVED} AS moved, sum(metadata_ops) AS asked FROM rollup"
        f" WHERE interval_ns = {MINUTE_NS} AND {_COUNTED} AND ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns}"
        f" AND {build_day_filter(span)} GROUP BY kind, layer, id ORDER BY kind, layer, id",
        _WORDS,
        within=span,
    )
    made = {}
    for of, first, last in _parts(found):
        part = found.slice(first, last - first)
        made[of] = _Rates(
            part.column("id").to_pylist(),
            read_float_column(part, "moved") / span.seconds,
            read_float_column(part, "asked") / span.seconds,
        )
    return made


def _parts(found: pa.Table) -> list[tuple[Counted, int, int]]:
    """Of rows in the order of kind and layer: where each of these begins and ends."""
    keys = list(zip(found.column("kind").to_pylist(), found.column("layer").to_pylist(), strict=True))
    firsts = [at for at, key in enumerate(keys) if at == 0 or keys[at - 1] != key]
    return [(keys[at], at, end) for at, end in zip(firsts, [*firsts[1:], len(keys)][: len(firsts)], strict=True)]


def _known(asking: Asking, at: int) -> dict[Counted, list[str]]:
    """Components that were counted in the last day."""
    hours = Span(at - DAY_NS, at).align_to(HOUR_NS)
    key = ("known", hours)
    found = asking.kept.get(key, at)
    if found is None:
        rows = query_lake(
            asking.lake,
            f"SELECT DISTINCT kind, layer, id FROM rollup WHERE interval_ns = {HOUR_NS} AND {_COUNTED}"
            f" AND ts_ns >= {hours.from_ns} AND ts_ns < {hours.to_ns}"
            f" AND {build_day_filter(hours)} ORDER BY kind, layer, id",
            _WORDS,
            within=hours,
        )
        found = {of: rows.column("id").slice(first, last - first).to_pylist() for of, first, last in _parts(rows)}
        asking.kept.put(key, found, at)
    return found  # type: ignore[no-any-return]


def _recent(asking: Asking, end_ns: int) -> dict[Counted, Lines]:
    """Bytes and metadata operations a second of each layer in each of the last 60 minutes; minutes that are over are
    kept."""
    last = -(-end_ns // MINUTE_NS) * MINUTE_NS
    starts = range(last - _MINUTES * MINUTE_NS, last, MINUTE_NS)
    held = {start: asking.kept.get(("minute", start), end_ns) for start in starts}
    wanted = [start for start in starts if held[start] is None]
    if wanted:
        fresh = _by_minute(asking.lake, Span(wanted[0], last))
        for start in range(wanted[0], last, MINUTE_NS):
            held[start] = fresh.get(start, {})
            if start + (1 + _SETTLED) * MINUTE_NS <= end_ns:
                asking.kept.put(("minute", start), held[start], end_ns)
    lines: dict[Counted, Lines] = {}
    for place, start in enumerate(starts):
        seconds = min(MINUTE_NS, max(1, end_ns - start)) / 1e9
        for of, pair in (held[start] or {}).items():
            for line, value in zip(lines.setdefault(of, _nothing()), pair, strict=True):
                line[place] = value / seconds
    return lines


def _nothing() -> Lines:
    return np.full(_MINUTES, np.nan), np.full(_MINUTES, np.nan)


_NO_LINES = _nothing()


def _by_minute(lake: Tables, span: Span) -> dict[int, dict[Counted, tuple[float, float]]]:
    """Bytes and metadata operations by minute and layer (NaN: not told)."""
    found = query_lake(
        lake,
        f"SELECT ts_ns, kind, layer, {_MOVED} AS moved, sum(metadata_ops) AS asked FROM rollup"
        f" WHERE interval_ns = {MINUTE_NS} AND {_COUNTED} AND ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns}"
        f" AND {build_day_filter(span)} GROUP BY ts_ns, kind, layer",
        _WORDS,
        within=span,
    )
    made: dict[int, dict[Counted, tuple[float, float]]] = {}
    columns = (
        read_integer_column(found, "ts_ns"),
        read_float_column(found, "moved"),
        read_float_column(found, "asked"),
    )
    of = zip(found.column("kind").to_pylist(), found.column("layer").to_pylist(), strict=True)
    for start, moved, asked, key in zip(*(one.tolist() for one in columns), of, strict=True):
        made.setdefault(start, {})[key] = (moved, asked)
    return made


def _jobs(asking: Asking, span: Span, sight: Sight, at: int) -> tuple[int | None, list[TopRow]]:
    """How many jobs run, and who moved most in the last minutes."""
    key = ("busy", at // _FRESH_NS)
    found = asking.kept.get(key, at)
    if found is None:
        running, _ = count_machine_jobs(asking.lake, Span(at - DAY_NS, at), at)
        found = (running, rank_job_consumers(asking.lake, span, sight, at, by="jobs", limit=_TOP).rows)
        asking.kept.put(key, found, at)
    return found  # type: ignore[no-any-return]


def _sources(asking: Asking, at: int) -> tuple[int, list[Gap]]:
    """How many sources report, and which of them are silent."""
    key = ("sources", at // (MINUTE_NS // 2))
    found = asking.kept.get(key, at)
    if found is None:
        found = count_silent_sources(asking.lake, at)
        asking.kept.put(key, found, at)
    return found  # type: ignore[no-any-return]

"""The machine now, layer by layer: load, states, the last hour, who moves most, what is open.

Closed minutes are kept between calls, so that a page that is looked at all day reads the newest minutes only. Not here:
states (`states`), layers (`layers`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.model.incident import Incident
from fairlead.questions.answers import Gap
from fairlead.questions.answers_pages import ComponentNow, LayerNow, Now
from fairlead.questions.asking import Sight, Tables, days, floats, integers, records, select
from fairlead.questions.coverage import PERIODS, gaps_of
from fairlead.questions.jobs import top
from fairlead.questions.live import shifted
from fairlead.questions.machine import job_counts
from fairlead.questions.pages.layers import LAYERS, LayerKind, peak_of
from fairlead.questions.pages.states import WORST_FIRST, Trouble, open_incidents, state_of, trouble_of
from fairlead.questions.question import Asking
from fairlead.questions.span import DAY_NS, HOUR_NS, MINUTE_NS, Span, moment_ns
from fairlead.questions.sums import numbers

MOST_COMPONENTS = 400
MOST_CLIENTS = 50
_MINUTES = 60
_SETTLED = 3
"""Minutes that ended so many minutes ago are kept."""
_CLIENTS = ("mount", "client", "pfs_client")
"""Layers that count what a node moved, the best first."""
_TOP, _TOP_NS = 10, 10 * MINUTE_NS
_HEARD_NS = 2 * HOUR_NS
_MOST_SILENT = 100
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Rates:
    """Of components in the last minutes: bytes and metadata operations a second (NaN: not told)."""

    ids: list[str]
    bytes_per_s: Floats
    ops_per_s: Floats


def now(asking: Asking, name: str, asked: Any, sight: Sight, now_ns: int) -> Now:  # noqa: ARG001
    """The machine now, layer by layer. Raises UsageError, LakeError."""
    at = moment_ns(asked.at, now_ns) if asked.at else now_ns
    lake = asking.lake
    end = shifted(lake, Span(at - MINUTE_NS, at), at).to_ns
    span = Span((end - MINUTE_NS) // MINUTE_NS * MINUTE_NS, end, at == now_ns)
    incidents = open_incidents(lake, at, sight)
    layers = [_clients(asking, span, incidents)]
    layers += [_layer(asking, kind, span, at, incidents) for kind in LAYERS.values()]
    shown = [one for one in layers if one.total]
    running, _ = job_counts(lake, Span(at - DAY_NS, at), at)
    sources, silent = _sources(asking, at)
    busy = top(lake, Span(end - _TOP_NS, end, at == now_ns), sight, at, by="jobs", limit=_TOP)
    known = {one.layer for one in shown}
    missing = [f"{one.layer}: nothing was counted there in the last day" for one in layers if one.layer not in known]
    return Now(
        now_ns=at, from_ns=span.from_ns, to_ns=span.to_ns, layers=shown, top=busy.rows, open=incidents,
        jobs_running=running, sources=sources, silent=silent[:_MOST_SILENT], missing=missing,
    )  # fmt: skip


def _layer(asking: Asking, kind: LayerKind, span: Span, at: int, incidents: Sequence[Incident]) -> LayerNow:
    """One layer of shared components."""
    lake = asking.lake
    rates = _rates(lake, kind.kind, kind.counted, span)
    rates = _only(rates, [kind.shows(one) for one in rates.ids])
    sick = {one.component for one in incidents if one.layer == kind.kind}
    names = sorted({*(one for one in _known(asking, kind, at) if kind.shows(one)), *rates.ids, *sick})
    if not names:
        return _nothing(kind.name, kind.kind)
    peak, _ = peak_of(asking, kind, Span(at - HOUR_NS, at), at)
    trouble = trouble_of(lake, kind.kind, names, at, incidents)
    value = rates.ops_per_s if kind.name == "mds" else rates.bytes_per_s
    rows = _components(names, rates, value, trouble, peak)
    loads = [one.load for one in rows if one.load is not None]
    heard = sum(1 for one in rows if one.state not in ("unknown", "silent"))
    return LayerNow(
        layer=kind.name, kind=kind.kind, components=rows[:MOST_COMPONENTS], total=len(names),
        states=dict(Counter(one.state for one in rows)), bytes_per_s=_sum(rates.bytes_per_s),
        ops_per_s=_sum(rates.ops_per_s), load=sum(loads) / heard if loads and heard else None,
        recent=_recent(asking, kind.kind, kind.counted, span.to_ns, operations=kind.name == "mds"),
    )  # fmt: skip


def _clients(asking: Asking, span: Span, incidents: Sequence[Incident]) -> LayerNow:
    """Compute nodes: the layer as a whole, and the busiest of them."""
    for counted in _CLIENTS:
        rates = _rates(asking.lake, "node", counted, span)
        recent = _recent(asking, "node", counted, span.to_ns, operations=False)
        if rates.ids or any(value is not None for value in recent):
            break
    trouble = Trouble({one.component: one for one in reversed(incidents) if one.layer == "client"})
    names = sorted({*rates.ids, *trouble.incidents})
    rows = _components(names, rates, rates.bytes_per_s, trouble, None)
    return LayerNow(
        layer="client", kind="node", components=rows[:MOST_CLIENTS], total=len(names),
        states=dict(Counter(one.state for one in rows)), bytes_per_s=_sum(rates.bytes_per_s),
        ops_per_s=_sum(rates.ops_per_s), load=None, recent=recent,
    )  # fmt: skip


def _nothing(layer: str, kind: str) -> LayerNow:
    return LayerNow(
        layer=layer, kind=kind, components=[], total=0, states={}, bytes_per_s=None, ops_per_s=None, load=None
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
        state, incident, why = state_of(name, moved, trouble)
        made.append(ComponentNow(
            id=name, state=state, load=moved / peak if moved is not None and peak else None,
            bytes_per_s=_number(rates.bytes_per_s, at), ops_per_s=_number(rates.ops_per_s, at), incident=incident,
            why=why,
        ))  # fmt: skip
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


def _rates(lake: Tables, kind: str, counted: str, span: Span) -> _Rates:
    """What each component did in the span, which is of whole minutes but for the last."""
    found = select(
        lake,
        "SELECT id, sum(coalesce(read_bytes + write_bytes, read_bytes, write_bytes)) AS moved,"
        f" sum(metadata_ops) AS asked FROM rollup WHERE interval_ns = {MINUTE_NS} AND kind = $kind AND layer = $layer"
        f" AND job_id IS NULL AND ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns} AND {days(span)}"
        " GROUP BY id ORDER BY id",
        {"kind": kind, "layer": counted}, within=span,
    )  # fmt: skip
    return _Rates(
        found.column("id").to_pylist(), floats(found, "moved") / span.seconds, floats(found, "asked") / span.seconds
    )


def _known(asking: Asking, kind: LayerKind, at: int) -> list[str]:
    """Components that were counted in the last day."""
    hours = Span(at - DAY_NS, at).aligned(HOUR_NS)
    key = ("known", kind.kind, hours)
    found = asking.kept.get(key, at)
    if found is None:
        rows = select(
            asking.lake,
            f"SELECT DISTINCT id FROM rollup WHERE interval_ns = {HOUR_NS} AND kind = $kind AND layer = $layer"
            f" AND job_id IS NULL AND ts_ns >= {hours.from_ns} AND ts_ns < {hours.to_ns} AND {days(hours)}",
            {"kind": kind.kind, "layer": kind.counted}, within=hours,
        )  # fmt: skip
        found = rows.column("id").to_pylist()
        asking.kept.put(key, found, at)
    return list(found)


def _recent(asking: Asking, kind: str, counted: str, end_ns: int, *, operations: bool) -> list[float | None]:
    """The layer's load in each of the last 60 minutes; minutes that are over are kept."""
    last = -(-end_ns // MINUTE_NS) * MINUTE_NS
    starts = range(last - _MINUTES * MINUTE_NS, last, MINUTE_NS)
    held: dict[int, float | None] = {}
    for start in starts:
        found = asking.kept.get(("minute", kind, counted, start), end_ns)
        if found is not None:
            held[start] = found[0]
    wanted = [start for start in starts if start not in held]
    if wanted:
        stretch = Span(wanted[0], last)
        fresh = _by_minute(asking.lake, kind, counted, stretch, operations=operations)
        for start in range(wanted[0], last, MINUTE_NS):
            held[start] = fresh.get(start)
            if start + (1 + _SETTLED) * MINUTE_NS <= end_ns:
                asking.kept.put(("minute", kind, counted, start), (held[start],), end_ns)
    line = np.array([np.nan if held[start] is None else held[start] for start in starts], np.float64)
    line[-1] *= MINUTE_NS / max(1, end_ns - starts[-1])
    return numbers(line)


def _by_minute(lake: Tables, kind: str, counted: str, span: Span, *, operations: bool) -> dict[int, float]:
    value = "sum(metadata_ops)" if operations else "sum(coalesce(read_bytes + write_bytes, read_bytes, write_bytes))"
    found = select(
        lake,
        f"SELECT ts_ns, {value} / 60.0 AS rate FROM rollup WHERE interval_ns = {MINUTE_NS} AND kind = $kind"
        f" AND layer = $layer AND job_id IS NULL AND ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns} AND {days(span)}"
        f" GROUP BY ts_ns HAVING {value} IS NOT NULL",
        {"kind": kind, "layer": counted}, within=span,
    )  # fmt: skip
    return dict(zip(integers(found, "ts_ns").tolist(), floats(found, "rate").tolist(), strict=True))


def _sources(asking: Asking, at: int) -> tuple[int, list[Gap]]:
    """How many machines have reported in the last hours, and which of them are silent."""
    key = ("sources", at // (MINUTE_NS // 2))
    found = asking.kept.get(key, at)
    if found is None:
        back = Span(at - _HEARD_NS, at + MINUTE_NS)
        rows = select(
            asking.lake,
            f"SELECT node, max(ts_ns) AS last, max(coalesce(interval_ns, {MINUTE_NS})) AS period FROM health"
            f" WHERE probe = 'agent' AND ts_ns >= {back.from_ns} AND ts_ns < {back.to_ns} AND {days(back)}"
            " GROUP BY node",
            within=back,
        )
        quiet = at - integers(rows, "last") > PERIODS * np.maximum(integers(rows, "period"), MINUTE_NS)
        gaps = {gap.source: gap for gap in gaps_of(asking.lake, None, Span(at - DAY_NS, at))
                if gap.to_ns is None}  # fmt: skip
        for row in _taken(rows, quiet):
            gaps.setdefault(row["node"], Gap(
                source=row["node"], from_ns=row["last"], to_ns=None, why="its agent does not report any more"
            ))  # fmt: skip
        found = (rows.num_rows, sorted(gaps.values(), key=lambda gap: (-gap.from_ns, gap.source)))
        asking.kept.put(key, found, at)
    return found  # type: ignore[no-any-return]


def _taken(rows: Any, chosen: NDArray[np.bool_]) -> list[Mapping[str, Any]]:
    import pyarrow as pa

    return list(records(rows.filter(pa.array(chosen))))

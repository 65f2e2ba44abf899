"""A day of all forwarders as a heat map, and how busy targets are as a distribution (Beacon, TOS 2023, section 7).

Closed hours are kept in the process: what was counted then changes only when something arrives late.
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.explain.analysis.overview.class_limits import LEVELS, classify_share_by_limits
from fairlead.explain.analysis.table_columns import read_float_column, read_integer_column
from fairlead.explain.questions.answers import Cdf, HeatMap, HeatRow
from fairlead.explain.questions.component_hosts import find_component_hosts
from fairlead.explain.questions.lake_queries import Tables, build_day_filter, list_query_rows, query_lake
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, MINUTE_NS, Span

SETTLED_NS = 10 * MINUTE_NS
"""An hour that ended this long ago is kept; what arrives later still shows within `KEPT_NS`."""
KEPT_NS = 5 * MINUTE_NS
_PEAK_DAYS = 7
_MOST_HELD = 4096
BINS = 200
"""Steps of utilisation a distribution is counted in, of half a per cent each."""
_LAYERS = {"target": "target", "forwarder": "forwarder", "mds": "metadata", "port": "port", "device": "device"}
_BYTES_TOLD = " AND (read_bytes IS NOT NULL OR write_bytes IS NOT NULL)"
_LEFT_OUT = {
    "mds": " AND metadata_ops IS NOT NULL",
    "port": f" AND NOT ends_with(id, '/lnet'){_BYTES_TOLD}",
    "device": f" AND NOT contains(id, ':/'){_BYTES_TOLD}",
}
"""Ids that are no component of their kind: LNet's sums over interfaces, room on file systems."""


def _get_load_unit(kind: str) -> str:
    """What the load of a kind of component is counted in, of rows of the rollup: bytes, or metadata operations."""
    return "metadata_ops" if kind == "mds" else "coalesce(read_bytes, 0) + coalesce(write_bytes, 0)"


class DistributionCache:
    """What was found out about closed times, for `KEPT_NS`. Safe to share among threads."""

    def __init__(self, most: int = _MOST_HELD) -> None:
        self._turn = threading.Lock()
        self._most = most
        self._held: OrderedDict[Hashable, tuple[int, Any]] = OrderedDict()

    def get(self, key: Hashable, now_ns: int) -> Any:
        """The value, None when there is none or it is too old."""
        with self._turn:
            found = self._held.get(key)
            return found[1] if found is not None and 0 <= now_ns - found[0] < KEPT_NS else None

    def put(self, key: Hashable, value: Any, now_ns: int) -> None:
        """Keeps a value; the oldest goes when there are too many."""
        with self._turn:
            self._held[key] = (now_ns, value)
            self._held.move_to_end(key)
            while len(self._held) > self._most:
                self._held.popitem(last=False)


@dataclass(frozen=True)
class _Hour:
    """One hour: by component the busiest minute (bytes/s), and by half per cent of bytes/s nothing yet."""

    ids: list[str]
    peak: NDArray[np.float64]


def build_load_heat_map(
    lake: Tables,
    span: Span,
    kept: DistributionCache,
    now_ns: int,
    *,
    kind: str = "forwarder",
    peak_bytes_per_s: float | None = None,
) -> HeatMap:
    """The busiest minute of each hour of each forwarder as a share of its known peak. Whole hours (UTC)."""
    wide = span.align_to(HOUR_NS)
    columns = wide.length_ns // HOUR_NS
    found = _hours(lake, wide, kept, now_ns, kind)
    names = sorted({name for hour in found for name in hour.ids})
    hosts = find_component_hosts(lake, kind, names, wide)
    known = _watched(lake, wide, kept, now_ns, kind, hosts)
    place = {name: k for k, name in enumerate(names)}
    grid = np.full((len(names), columns), np.nan)
    for k, hour in enumerate(found):
        rows = np.array([place[name] for name in hour.ids], np.int64)
        if len(rows):
            grid[rows, k] = hour.peak
    idle = np.zeros((len(names), columns), np.bool_)
    for k, name in enumerate(names):
        idle[k] = known.get(hosts.get(name, ""), False)
    grid = np.where(np.isnan(grid) & idle, 0.0, grid)
    highest, basis = peak_bytes_per_s, "given"
    if highest is None:
        highest, basis = find_highest_load(lake, wide, kept, now_ns, kind), "highest seen"
        if np.isfinite(grid).any():
            highest = max(highest or 0.0, float(np.nanmax(grid)))
    rows_out = [_heat_row(name, grid[k], highest) for k, name in enumerate(names)]
    levels = {name: sum(row.level.count(name) for row in rows_out) for name, _ in LEVELS}
    levels["no data"] = sum(row.level.count(None) for row in rows_out)
    return HeatMap(
        from_ns=wide.from_ns,
        step_ns=HOUR_NS,
        columns=columns,
        kind=kind,
        peak_bytes_per_s=highest,
        peak_basis=basis,
        levels=levels,
        rows=rows_out,
    )


def _heat_row(name: str, line: NDArray[np.float64], highest: float | None) -> HeatRow:
    if not highest:
        shares: list[float | None] = [0.0 if value == 0 else None for value in line.tolist()]
    else:
        shares = [None if value != value else round(value / highest, 4) for value in line.tolist()]
    return HeatRow(id=name, peak_share=shares, level=[classify_share_by_limits(share) for share in shares])


def _hours(lake: Tables, span: Span, kept: DistributionCache, now_ns: int, kind: str) -> list[_Hour]:
    """The hours of the span; those that are not kept are read in one stretch."""
    starts = range(span.from_ns, span.to_ns, HOUR_NS)
    held = {start: kept.get(("heat", kind, start), now_ns) for start in starts}
    wanted = [start for start in starts if held[start] is None and start < now_ns]
    if wanted:
        stretch = Span(wanted[0], wanted[-1] + HOUR_NS)
        fresh = _read_hours(lake, stretch, kind)
        for start in range(stretch.from_ns, stretch.to_ns, HOUR_NS):
            held[start] = fresh.get(start, _Hour([], np.empty(0)))
            if start + HOUR_NS + SETTLED_NS <= now_ns:
                kept.put(("heat", kind, start), held[start], now_ns)
    return [held[start] or _Hour([], np.empty(0)) for start in starts]


def _left_out(kind: str) -> str:
    return _LEFT_OUT.get(kind, "")


def _minutes(span: Span, kind: str) -> str:
    """Bytes (operations) a second of each component in each minute of the span."""
    return (
        f"SELECT id, ts_ns, sum({_get_load_unit(kind)}) / 60.0 AS rate FROM rollup"
        f" WHERE interval_ns = {MINUTE_NS} AND kind = $kind AND layer = $layer AND job_id IS NULL{_left_out(kind)}"
        f" AND ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns} AND {build_day_filter(span)} GROUP BY id, ts_ns"
    )


def _read_hours(lake: Tables, span: Span, kind: str) -> dict[int, _Hour]:
    found = query_lake(
        lake,
        f"SELECT ts_ns // {HOUR_NS} AS hour, id, max(rate) AS peak FROM ({_minutes(span, kind)}) GROUP BY hour, id"
        " ORDER BY hour, id",
        {"kind": kind, "layer": _LAYERS[kind]},
        within=span,
    )
    hours, peaks = read_integer_column(found, "hour"), read_float_column(found, "peak")
    ids = found.column("id")
    firsts = np.flatnonzero(np.diff(hours, prepend=-1)) if len(hours) else np.empty(0, np.int64)
    lasts = [*firsts[1:].tolist(), len(hours)][: len(firsts)]
    return {
        int(hours[first]) * HOUR_NS: _Hour(ids.slice(first, last - first).to_pylist(), peaks[first:last])
        for first, last in zip(firsts.tolist(), lasts, strict=True)
    }


def _watched(
    lake: Tables, span: Span, kept: DistributionCache, now_ns: int, kind: str, hosts: Mapping[str, str]
) -> dict[str, NDArray[np.bool_]]:
    """By machine the hours in which its agent said at least once that all was well."""
    hour_now = now_ns // HOUR_NS * HOUR_NS
    key = ("watched", kind, span.from_ns, span.to_ns, hour_now)
    found = kept.get(key, now_ns)
    if found is not None:
        return found  # type: ignore[no-any-return]
    rows = query_lake(
        lake,
        f"SELECT node, (ts_ns - {span.from_ns}) // {HOUR_NS} AS hour FROM health WHERE probe = 'agent' AND state = 'ok'"
        f" AND ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns} AND {build_day_filter(span)}"
        " AND node IN (SELECT unnest($hosts)) GROUP BY ALL",
        {"hosts": sorted(set(hosts.values()))},
        within=span,
    )
    watched: dict[str, NDArray[np.bool_]] = {}
    for row in list_query_rows(rows):
        watched.setdefault(row["node"], np.zeros(span.length_ns // HOUR_NS, np.bool_))[row["hour"]] = True
    kept.put(key, watched, now_ns)
    return watched


def find_highest_load(lake: Tables, span: Span, kept: DistributionCache, now_ns: int, kind: str) -> float | None:
    """The highest minute of any component in the week before the span's end (of hours where minutes are gone)."""
    end = min(span.to_ns, now_ns // HOUR_NS * HOUR_NS + HOUR_NS)
    key = ("highest", kind, end)
    found = kept.get(key, now_ns)
    if found is not None:
        return found[0]  # type: ignore[no-any-return]
    week = Span(end - _PEAK_DAYS * DAY_NS, end)
    # The busiest hours are looked for first: the busiest minute is among the busiest of them, or close to it.
    rows = query_lake(
        lake,
        f"SELECT id, ts_ns, sum({_get_load_unit(kind)}) AS moved FROM rollup"
        f" WHERE interval_ns = {HOUR_NS} AND kind = $kind AND layer = $layer AND job_id IS NULL{_left_out(kind)}"
        f" AND ts_ns >= {week.from_ns} AND ts_ns < {week.to_ns} AND {build_day_filter(week)} GROUP BY id, ts_ns"
        " ORDER BY moved DESC LIMIT 32",
        {"kind": kind, "layer": _LAYERS[kind]},
        within=week,
    )
    highest: float | None = None
    if rows.num_rows:
        highest = float(rows.column("moved")[0].as_py()) / 3600
        hours = list(dict.fromkeys(row["ts_ns"] for row in list_query_rows(rows)))[:4]
        for start in hours:
            hour = _read_hours(lake, Span(start, start + HOUR_NS), kind).get(start)
            if hour is not None and len(hour.peak):
                highest = max(highest, float(hour.peak.max()))
    kept.put(key, (highest,), now_ns)
    return highest


def find_full_load(lake: Tables, span: Span, kept: DistributionCache, now_ns: int, kind: str) -> float | None:
    """As `find_highest_load`, and no less than any minute of the span and of the day before its end: the one figure
    that all pictures of a layer's page are shares of."""
    wide = Span(min(span.from_ns, span.to_ns - DAY_NS), span.to_ns).align_to(HOUR_NS)
    seen = find_highest_load(lake, wide, kept, now_ns, kind) or 0.0
    return (
        max([seen, *(float(hour.peak.max()) for hour in _hours(lake, wide, kept, now_ns, kind) if len(hour.peak))])
        or None
    )


def build_load_cdf(
    lake: Tables,
    span: Span,
    kept: DistributionCache,
    now_ns: int,
    *,
    kind: str = "target",
    peak_bytes_per_s: float | None = None,
) -> Cdf:
    """How busy targets are: over all targets and minutes of the span (whole hours), the share at or below each
    utilisation. Minutes without rows count as idle where the source was there, else they are unknown."""
    wide = span.align_to(HOUR_NS)
    wide = Span(wide.from_ns, min(wide.to_ns, max(wide.from_ns + HOUR_NS, now_ns // MINUTE_NS * MINUTE_NS)))
    highest, basis = peak_bytes_per_s, "given"
    if highest is None:
        highest, basis = find_highest_load(lake, wide.align_to(HOUR_NS), kept, now_ns, kind), "highest seen"
    key = ("cdf", kind, wide.from_ns, wide.to_ns, highest)
    found = kept.get(key, now_ns)
    if found is not None:
        return found  # type: ignore[no-any-return]
    counts, components, told = _utilisation(lake, wide, kept, now_ns, kind, highest)
    all_minutes = components * (wide.length_ns // MINUTE_NS)
    idle = max(0, int(all_minutes * _watched_share(lake, wide, kept, now_ns, kind)) - told)
    counts[0] += idle
    known = told + idle
    share = np.cumsum(counts) / known if known else np.zeros(BINS + 1)
    answer = Cdf(
        from_ns=wide.from_ns,
        to_ns=wide.to_ns,
        kind=kind,
        peak_bytes_per_s=highest,
        peak_basis=basis,
        components=components,
        minutes=known,
        minutes_unknown=all_minutes - known,
        utilisation=np.round(np.arange(BINS + 1) / BINS, 4).tolist(),
        share=np.round(share, 6).tolist(),
        below_1_percent=_at(share, 0.01, known),
        below_5_percent=_at(share, 0.05, known),
    )
    if wide.to_ns + SETTLED_NS <= now_ns:
        kept.put(key, answer, now_ns)
    return answer


def _at(share: NDArray[np.float64], utilisation: float, known: int) -> float | None:
    return float(share[round(utilisation * BINS)]) if known else None


def _utilisation(
    lake: Tables, span: Span, kept: DistributionCache, now_ns: int, kind: str, highest: float | None
) -> tuple[NDArray[np.int64], int, int]:
    """Minutes by half per cent of utilisation (rounded up, over 100 % counts as 100 %), components, minutes in all."""
    rates = _rates(lake, span, kept, now_ns, kind)
    scaled = np.ceil(rates * (BINS / highest if highest else 0.0))
    counts = np.bincount(np.minimum(scaled, BINS).astype(np.int64), minlength=BINS + 1)
    key = ("components", kind, span.align_to(HOUR_NS))
    components = kept.get(key, now_ns)
    if components is None:
        named = query_lake(
            lake,
            f"SELECT count(DISTINCT id) AS n FROM rollup WHERE interval_ns = {HOUR_NS} AND kind = $kind"
            f" AND layer = $layer AND job_id IS NULL{_left_out(kind)} AND ts_ns >= {span.from_ns}"
            f" AND ts_ns < {span.to_ns} AND {build_day_filter(span)}",
            {"kind": kind, "layer": _LAYERS[kind]},
            within=span,
        )
        components = int(named.column("n")[0].as_py())
        kept.put(key, components, now_ns)
    return counts, components, len(rates)


def _rates(lake: Tables, span: Span, kept: DistributionCache, now_ns: int, kind: str) -> NDArray[np.float32]:
    """Bytes a second of every component-minute of the span that has rows; closed hours are kept."""
    starts = range(span.from_ns, span.to_ns, HOUR_NS)
    held = {start: kept.get(("rates", kind, start), now_ns) for start in starts}
    wanted = [start for start in starts if held[start] is None]
    if wanted:
        stretch = Span(wanted[0], min(wanted[-1] + HOUR_NS, span.to_ns))
        found = query_lake(
            lake,
            f"SELECT (ts_ns // {HOUR_NS})::BIGINT AS hour, rate::FLOAT AS rate FROM ({_minutes(stretch, kind)})"
            " ORDER BY hour",
            {"kind": kind, "layer": _LAYERS[kind]},
            within=stretch,
        )
        hours = read_integer_column(found, "hour")
        rates = np.asarray(found.column("rate").to_numpy(), np.float32)
        for start in range(wanted[0], stretch.to_ns, HOUR_NS):
            first, last = np.searchsorted(hours, [start // HOUR_NS, start // HOUR_NS + 1])
            held[start] = rates[first:last].copy()
            if start + HOUR_NS + SETTLED_NS <= now_ns:
                kept.put(("rates", kind, start), held[start], now_ns)
    return np.concatenate([held[start] for start in starts])


def _watched_share(lake: Tables, span: Span, kept: DistributionCache, now_ns: int, kind: str) -> float:
    """The share of the time somebody watched: of the minutes of all servers, those whose agent was well."""
    from fairlead.explain.questions.components import SERVED_BY

    key = ("watched share", kind, span.align_to(HOUR_NS))
    share = kept.get(key, now_ns)
    if share is None:
        found = query_lake(
            lake,
            "SELECT count(DISTINCT (node, ts_ns // $minute)) AS watched, count(DISTINCT node) AS nodes FROM health"
            f" WHERE probe = 'agent' AND state = 'ok' AND ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns}"
            f" AND {build_day_filter(span)} AND node IN (SELECT b FROM mapping WHERE kind IN (SELECT unnest($kinds))"
            f" UNION SELECT id FROM rollup WHERE interval_ns = {HOUR_NS} AND kind = $component"
            f" AND ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns})",
            {"minute": MINUTE_NS, "kinds": list(SERVED_BY), "component": kind},
        )
        [row] = list_query_rows(found)
        minutes = row["nodes"] * (span.length_ns // MINUTE_NS)
        share = min(1.0, row["watched"] / minutes) if minutes else 0.0
        kept.put(key, share, now_ns)
    return float(share)

"""From samples of series to rows: counters to their growth with resets seen, columns of one thing and time in one row.

Not here: where samples come from (`remote_write`, `scrape`). For one thread at a time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.tables import TABLES, build_table_batch
from fairlead.see.collector.feeds.prometheus.mapping import FREE, Mapping, Place, Thing

_NS_PER_MS = 1_000_000
_LONGEST_MS = 15 * 60_000
"""Between two samples of a counter: after more, nothing is said of the time between."""
_BORN_WITHIN_MS = 5 * 60_000
_MOST_UNKNOWN = 1000
_LAST_MS = (1 << 63) // _NS_PER_MS - 1
AHEAD_MS = 86_400_000
"""Samples may be dated this much ahead of the collector's clock."""
_LARGEST = 4e18
"""Of what 64 bits hold; no counter of bytes gets there."""
Key = str | bytes


class _Series:
    """One series: where its samples go, and the last one."""

    __slots__ = ("born", "column", "counts", "factor", "seen", "stamp", "thing", "value")

    def __init__(self, place: Place) -> None:
        self.thing = place.thing
        self.column = place.metric.column
        self.factor = place.metric.factor
        self.counts = place.metric.kind == "counter"
        self.born = place.metric.born
        self.seen = (place.instance, place.thing.table)
        self.stamp = -1
        self.value = math.nan


_Found = dict[tuple[Thing, int], dict[str, float]]


@dataclass
class Counts:
    """What happened to samples. Unknown metrics are counted by name, the first thousand names."""

    samples: int = 0
    resets: int = 0
    late: int = 0
    misdated: int = 0
    stale: int = 0
    unknown: Counter[str] = field(default_factory=Counter)

    def format_text(self) -> str:
        """For health: what was not understood."""
        if self.misdated:
            return f"{self.misdated} samples dated before 1970 or more than a day ahead"
        if not self.unknown:
            return ""
        names = ", ".join(name for name, _ in self.unknown.most_common(3))
        return f"{len(self.unknown)} metrics with unknown names, such as {names}"


class Assembly:
    """Remembers the last sample of every series, `most_series` at most. `labels_of` takes a series' key apart; `node`
    stands for the server where no label names it."""

    def __init__(
        self,
        mapping: Mapping,
        labels_of: Callable[[Key], dict[str, str] | None],
        *,
        node: str = "",
        most_series: int = 250_000,
    ) -> None:
        self.counts = Counts()
        self._mapping = mapping
        self._labels_of = labels_of
        self._node = node
        self._most = most_series
        self._series: dict[Key, _Series | None] = {}
        self._seen: dict[tuple[str, str], int] = {}
        """Time of the last sample of each server and table: a job's series that appears later began at 0."""
        self._forgot = False

    @property
    def series_count(self) -> int:
        """Series remembered, those of no interest among them."""
        return len(self._series)

    def build_rows(self, samples: Iterable[tuple[Key, int, float]], newest_ms: int = _LAST_MS) -> list[pa.RecordBatch]:
        """Rows from (series, milliseconds, value) in any order of series; of a series in the order of time. Samples
        dated after `newest_ms` are left out: believed, they would make all that follow late."""
        found: _Found = {}
        newest: dict[tuple[str, str], int] = {}
        known = self._series
        for key, stamp, value in samples:
            self.counts.samples += 1
            if not 0 <= stamp <= newest_ms:
                self.counts.misdated += 1
                continue
            series = known[key] if key in known else self._new(key)
            if series is None:
                continue
            if stamp > newest.get(series.seen, -1):
                newest[series.seen] = stamp
            self._one(series, stamp, value, found)
        for seen, stamp in newest.items():
            self._seen[seen] = max(stamp, self._seen.get(seen, -1))
        if len(known) > self._most:
            self._forget()
        return _batches(found)

    def _one(self, series: _Series, stamp: int, value: float, found: _Found) -> None:
        if not abs(value * series.factor) < _LARGEST:
            # A stale marker, or no number that can be stored: the series has no base any more.
            self.counts.stale += 1
            if stamp > series.stamp:
                series.value, series.stamp = math.nan, stamp
            return
        if stamp <= series.stamp:
            self.counts.late += 1
            return
        before, since = series.value, series.stamp
        series.value, series.stamp = value, stamp
        if not series.counts:
            found.setdefault((series.thing, stamp), {})[series.column] = value * series.factor
            return
        if since < 0 and series.born:
            since = self._seen.get(series.seen, -1)
            if self._forgot or since < 0 or not 0 < stamp - since <= _BORN_WITHIN_MS:
                return
            before = 0.0
        if before != before or stamp - since > _LONGEST_MS:
            return
        if value < before:
            self.counts.resets += 1
            return
        row = found.setdefault((series.thing, stamp), {})
        row[series.column] = (value - before) * series.factor
        row["interval_ns"] = (stamp - since) * _NS_PER_MS

    def _new(self, key: Key) -> _Series | None:
        labels = self._labels_of(key)
        place = self._mapping.place(labels, self._node) if labels is not None else None
        if place is not None:
            names = place.thing.names
            spec = TABLES[place.thing.table]
            # A series that does not say what it counts (no target) makes no row.
            if any(
                not column.nullable and column.name in place.metric.keys and column.name not in names
                for column in spec.schema
            ):
                place = None
        elif labels is None or not self._mapping.is_ignored(labels.get("__name__", "")):
            name = labels.get("__name__", "") if labels is not None else "(malformed)"
            if name in self.counts.unknown or len(self.counts.unknown) < _MOST_UNKNOWN:
                self.counts.unknown[name] += 1
        series = _Series(place) if place is not None else None
        self._series[key] = series
        return series

    def _forget(self) -> None:
        """Forgets a tenth of the series: those of no interest first, then those silent longest."""
        self._forgot = True
        drop = len(self._series) - self._most * 9 // 10
        order = sorted(self._series, key=lambda key: series.stamp if (series := self._series[key]) is not None else -2)
        for key in order[:drop]:
            del self._series[key]


def _batches(found: _Found) -> list[pa.RecordBatch]:
    """A batch a table; a column that no sample told of is null."""
    tables: dict[str, list[tuple[Thing, int, dict[str, float]]]] = {}
    for (thing, stamp), values in found.items():
        _use(values)
        if len(values) > ("interval_ns" in values):
            tables.setdefault(thing.table, []).append((thing, stamp, values))
    return [_batch(name, rows) for name, rows in tables.items()]


def _use(values: dict[str, float]) -> None:
    """What is free becomes what is used."""
    for free, (used, whole) in FREE.items():
        if free in values:
            left = values.pop(free)
            if whole in values:
                values[used] = max(values[whole] - left, 0)


def _batch(name: str, rows: list[tuple[Thing, int, dict[str, float]]]) -> pa.RecordBatch:
    spec = TABLES[name]
    columns: dict[str, object] = {"ts_ns": pa.array([stamp * _NS_PER_MS for _, stamp, _ in rows], pa.int64())}
    named = {column for thing, _, _ in rows for column in thing.names}
    for column in named:
        columns[column] = [thing.names.get(column) for thing, _, _ in rows]
    told = {column for _, _, values in rows for column in values}
    for column in told:
        kind = spec.schema.field(column).type
        found = pa.array([values.get(column) for _, _, values in rows], pa.float64())
        columns[column] = pc.round(found).cast(kind, safe=False) if pa.types.is_integer(kind) else found
    return build_table_batch(spec, columns)

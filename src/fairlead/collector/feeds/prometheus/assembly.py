"""From samples of series to rows: counters to their growth with resets seen, columns of one thing and time in one row.

Not here: where samples come from (`remote_write`, `scrape`). For one thread at a time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from fairlead.collector.feeds.prometheus.mapping import FREE, Mapping, Place, Row
from fairlead.model.tables import TABLES, batch_of

_NS_PER_MS = 1_000_000
_LONGEST_MS = 15 * 60_000
"""Between two samples of a counter: after more, nothing is said of the time between."""
_BORN_WITHIN_MS = 5 * 60_000
_MOST_UNKNOWN = 1000
Key = str | bytes


class _Series:
    """One series: where its samples go, and the last one."""

    __slots__ = ("place", "stamp", "value")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.stamp = -1
        self.value = math.nan


@dataclass
class Counts:
    """What happened to samples. Unknown metrics are counted by name, the first thousand names."""

    samples: int = 0
    resets: int = 0
    late: int = 0
    stale: int = 0
    unknown: Counter[str] = field(default_factory=Counter)

    def text(self) -> str:
        """For health: what was not understood."""
        if not self.unknown:
            return ""
        names = ", ".join(name for name, _ in self.unknown.most_common(3))
        return f"{len(self.unknown)} metrics of unknown names, such as {names}"


class Assembly:
    """Remembers the last sample of every series, `most_series` at most. `labels_of` takes a series' key apart; `node`
    stands for the server where no label names it."""

    def __init__(
        self, mapping: Mapping, labels_of: Callable[[Key], dict[str, str] | None], *, node: str = "",
        most_series: int = 1_000_000,
    ) -> None:  # fmt: skip
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

    def rows(self, samples: Iterable[tuple[Key, int, float]]) -> list[pa.RecordBatch]:
        """Rows from (series, milliseconds, value) in any order of series; of a series in the order of time."""
        found: dict[tuple[Row, int], dict[str, float]] = {}
        newest: dict[tuple[str, str], int] = {}
        for key, stamp, value in samples:
            self.counts.samples += 1
            series = self._series[key] if key in self._series else self._new(key)
            if series is None:
                continue
            place = series.place
            seen = (place.instance, place.row.table)
            if stamp > newest.get(seen, -1):
                newest[seen] = stamp
            self._one(series, stamp, value, found)
        for seen, stamp in newest.items():
            self._seen[seen] = max(stamp, self._seen.get(seen, -1))
        if len(self._series) > self._most:
            self._forget()
        return _batches(found)

    def _one(self, series: _Series, stamp: int, value: float, found: dict[tuple[Row, int], dict[str, float]]) -> None:
        if value != value or math.isinf(value):
            # A stale marker, or no number: the series has no base any more.
            self.counts.stale += 1
            if stamp > series.stamp:
                series.value, series.stamp = math.nan, stamp
            return
        place = series.place
        metric = place.metric
        if stamp <= series.stamp:
            self.counts.late += 1
            return
        before, since = series.value, series.stamp
        first = since < 0
        series.value, series.stamp = value, stamp
        if metric.kind == "gauge":
            row = found.setdefault((place.row, stamp), {})
            row[metric.column] = value * metric.factor
            return
        if first and metric.born:
            since = self._seen.get((place.instance, place.row.table), -1)
            if self._forgot or since < 0 or not 0 < stamp - since <= _BORN_WITHIN_MS:
                return
            before = 0.0
        if before != before:
            return
        if value < before:
            self.counts.resets += 1
            return
        if stamp - since > _LONGEST_MS:
            return
        row = found.setdefault((place.row, stamp), {})
        row[metric.column] = (value - before) * metric.factor
        row["interval_ns"] = (stamp - since) * _NS_PER_MS

    def _new(self, key: Key) -> _Series | None:
        labels = self._labels_of(key)
        place = self._mapping.place(labels, self._node) if labels is not None else None
        if place is not None:
            names = {name for name, _ in place.row.names}
            spec = TABLES[place.row.table]
            # A series that does not say what it counts (no target) makes no row.
            if any(not column.nullable and column.name in place.metric.keys and column.name not in names
                   for column in spec.schema):  # fmt: skip
                place = None
        elif labels is None or not self._mapping.ignored(labels.get("__name__", "")):
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


def _batches(found: dict[tuple[Row, int], dict[str, float]]) -> list[pa.RecordBatch]:
    """A batch a table; a column that no sample told of is null."""
    tables: dict[str, list[tuple[Row, int, dict[str, float]]]] = {}
    for (row, stamp), values in found.items():
        _use(values)
        if len(values) > ("interval_ns" in values):
            tables.setdefault(row.table, []).append((row, stamp, values))
    return [_batch(name, rows) for name, rows in tables.items()]


def _use(values: dict[str, float]) -> None:
    """What is free becomes what is used."""
    for free, (used, whole) in FREE.items():
        left = values.pop(free, None)
        if left is not None and whole in values:
            values[used] = max(values[whole] - left, 0)


def _batch(name: str, rows: list[tuple[Row, int, dict[str, float]]]) -> pa.RecordBatch:
    spec = TABLES[name]
    columns: dict[str, object] = {"ts_ns": pa.array([stamp * _NS_PER_MS for _, stamp, _ in rows], pa.int64())}
    words = [dict(row.names) for row, _, _ in rows]
    for column in dict.fromkeys(column for named in words for column in named):
        columns[column] = [named.get(column) for named in words]
    for column in dict.fromkeys(column for _, _, values in rows for column in values):
        kind = spec.schema.field(column).type
        found = [values.get(column) for _, _, values in rows]
        if pa.types.is_integer(kind):
            columns[column] = pa.array([None if value is None else round(value) for value in found], kind)
        else:
            columns[column] = pa.array(found, kind)
    return batch_of(spec, columns)

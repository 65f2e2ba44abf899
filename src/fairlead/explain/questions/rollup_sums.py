"""Sums over rollup rows: of components, of jobs, over a span or by step. Every other question is made of these.

Not here: who a job belongs to (`accounts`), where nothing is known (`coverage`).
"""

# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.explain.questions.answers import Sums
from fairlead.explain.questions.lake_queries import Tables, build_day_filter, query_lake
from fairlead.explain.questions.span import (
    Span,
    choose_span_bin,
    choose_span_interval,
    split_span_by_interval,
    widen_span_to_pieces,
)

VALUES = ("read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops")
_ADDED = ", ".join(f"TRY_CAST(sum({name}) AS BIGINT) AS {name}" for name in VALUES)
RANK = ("mount", "client", "forwarder", "pfs_client", "osc", "target", "metadata", "device")
"""Layers by how well they tell what a job moved, nearest to the job first: its own mount, a tracer inside its
processes, a forwarder, a file system's client, its targets. Lists, pages and summaries all read it."""
METADATA_RANK = ("mount", "client", "metadata", "forwarder", "pfs_client", "osc")
"""The same for metadata operations. What a storage target counts as such are truncations and syncs: no metadata server
saw them."""
WHOLE_LAYERS = (
    "(kind = $node AND layer IN ($client, $mount, $pfs)) OR (kind = $fwd AND layer = $fwd)"
    " OR (kind = $ost AND layer = $ost) OR (kind = $mds AND layer = $meta)"
)
WHOLE_WORDS = {
    "node": "node",
    "client": "client",
    "mount": "mount",
    "pfs": "pfs_client",
    "fwd": "forwarder",
    "ost": "target",
    "mds": "mds",
    "meta": "metadata",
}
"""Of each layer the components that count all of it. As parameters: a query reads every table it names."""


def build_rollup_select(span: Span, where: str, columns: str = "*", *, one: bool = False) -> str:
    """A sub-select of the rollup rows of the span (`span.split_span_by_interval`); `where` filters each piece."""
    parts = [
        f"SELECT {columns} FROM rollup WHERE interval_ns = {step} AND ts_ns >= {piece.from_ns}"
        f" AND ts_ns < {piece.to_ns} AND {build_day_filter(piece)} AND ({where})"
        for step, piece in split_span_by_interval(span, one=one)
    ]
    return f"({' UNION ALL '.join(parts)})"


def sum_rollup(
    lake: Tables, span: Span, by: str, where: str, parameters: Mapping[str, object], *, more: str = ""
) -> pa.Table:
    """Sums of `VALUES` by the columns `by`; `more` adds aggregates (beginning with a comma)."""
    columns = "kind, id, layer, job_id, ts_ns, interval_ns, busy_ns, used_bytes_max, capacity_bytes, " + ", ".join(
        VALUES
    )
    sql = f"SELECT {by}, {_ADDED}{more} FROM {build_rollup_select(span, where, columns)} GROUP BY {by}"
    return query_lake(lake, sql, parameters, within=widen_span_to_pieces(span))


def read_rollup_sums(row: Mapping[str, Any]) -> Sums:
    """The sums in a row of `sum_rollup`."""
    return Sums(**{name: row[name] for name in VALUES})


def add_rollup_sums(rows: Sequence[Sums]) -> Sums:
    """Their sum; unknown where all are."""
    known = {name: [v for row in rows if (v := getattr(row, name)) is not None] for name in VALUES}
    return Sums(**{name: sum(values) if values else None for name, values in known.items()})


@dataclass(frozen=True)
class Steps:
    """Equal steps over a span: step k covers [from_ns + k * step_ns, ...). Rates of the step that is not over yet are
    of its part up to `now_ns`."""

    from_ns: int
    step_ns: int
    count: int
    now_ns: int

    @property
    def span(self) -> Span:
        """All of them."""
        return Span(self.from_ns, self.from_ns + self.count * self.step_ns)

    def list_starts(self) -> NDArray[np.int64]:
        """Where each begins."""
        return self.from_ns + np.arange(self.count, dtype=np.int64) * self.step_ns

    def compute_elapsed_s(self) -> NDArray[np.float64]:
        """How much of each has passed; at least a tenth of a second."""
        ends = np.minimum(self.list_starts() + self.step_ns, max(self.now_ns, self.from_ns + 1))
        return np.maximum((ends - self.list_starts()) / 1e9, 0.1)

    def mark_begun(self) -> NDArray[np.bool_]:
        """Which have begun."""
        return self.list_starts() < self.now_ns


def choose_rollup_steps(span: Span, now_ns: int, points: int, interval: int | None = None) -> tuple[Steps, int]:
    """Steps for a picture of the span of at most `points`, and the rollup interval they are made of."""
    interval = interval or choose_span_interval(span)
    step = choose_span_bin(span.align_to(interval), interval, points)
    whole = span.align_to(interval)
    return Steps(whole.from_ns, step, -(-whole.length_ns // step), now_ns), interval


def sum_rollup_by_step(
    lake: Tables, steps: Steps, interval: int, by: str, where: str, parameters: Mapping[str, object], *, more: str = ""
) -> pa.Table:
    """Sums of `VALUES` by step (`step`, counted from 0) and the columns `by`."""
    span = steps.span
    keys = f"step, {by}" if by else "step"
    sql = (
        f"SELECT (ts_ns - {steps.from_ns}) // {steps.step_ns} AS step{f', {by}' if by else ''}, {_ADDED}{more}"
        f" FROM rollup WHERE interval_ns = {interval} AND ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns}"
        f" AND {build_day_filter(span)} AND ({where}) GROUP BY {keys}"
    )
    return query_lake(lake, sql, parameters, within=span)


def fill_rollup_steps(steps: Steps, at: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[count]: the values at their steps, NaN elsewhere."""
    line = np.full(steps.count, np.nan)
    line[at] = values
    return line


def round_rollup_line(line: NDArray[np.float64]) -> list[float | None]:
    """A line as an answer holds it: NaN is null, rates are rounded to a thousandth."""
    values: list[float | None] = np.round(line, 3).tolist()
    for k in np.flatnonzero(np.isnan(line)):
        values[k] = None
    return values

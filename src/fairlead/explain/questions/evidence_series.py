"""Lines over time that a finding is explained with: what the job got, the load at a shared component, how long requests
waited there, a component's load against its peak.

Not here: which of them belong to a finding (`explain`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.explain.questions.answers_diagnosis import Course, CourseLine
from fairlead.explain.questions.lake_queries import Tables, list_query_rows
from fairlead.explain.questions.rollup_sums import (
    METADATA_RANK,
    RANK,
    Steps,
    choose_rollup_steps,
    round_rollup_line,
    sum_rollup_by_step,
)
from fairlead.explain.questions.span import HOUR_NS, MINUTE_NS, Span

POINTS = 360
LEAST_AROUND_NS, MOST_AROUND_NS = MINUTE_NS, HOUR_NS // 2
_VALUE = {"read": "read_bytes", "write": "write_bytes", "metadata": "metadata_ops"}
_WAITS = (
    ", TRY_CAST(sum(wait_ns) AS BIGINT) AS wait_ns, TRY_CAST(sum(waits) AS BIGINT) AS waits,"
    " max(queue_len_max)::BIGINT AS queue"
)
Name = Callable[[str], str]


def widen_evidence_span(from_ns: int, to_ns: int) -> Span:
    """The stretch that is drawn around what was: as long again before and after, within bounds."""
    pad = min(max(to_ns - from_ns, LEAST_AROUND_NS), MOST_AROUND_NS)
    return Span(from_ns - pad, to_ns + pad)


def _get_rate_unit(kind: str) -> str:
    """The unit of a phase's rate."""
    return "operations/s" if kind == "metadata" else "bytes/s"


def build_job_evidence_series(
    lake: Tables, job_id: str, kind: str, phase: tuple[int, int], now_ns: int, *, usual_per_s: float | None = None
) -> Course | None:
    """The rate of one job's reads, writes or metadata operations; None when no counter names it then."""
    steps, interval = choose_rollup_steps(widen_evidence_span(*phase), now_ns, POINTS)
    found = sum_rollup_by_step(
        lake, steps, interval, "layer", "kind = $kind AND id = $id", {"kind": "job", "id": job_id}
    )
    by_layer: dict[str, list[Mapping[str, Any]]] = {}
    for row in list_query_rows(found):
        if row[_VALUE[kind]] is not None:
            by_layer.setdefault(row["layer"], []).append(row)
    rank = METADATA_RANK if kind == "metadata" else RANK
    layer = next((name for name in rank if name in by_layer), None)
    if layer is None:
        return None
    values = _rates(steps, by_layer[layer], _VALUE[kind], idle=True)
    lines = [CourseLine(name=f"job {job_id}", role="victim", values=values)]
    if usual_per_s is not None:
        inside = (steps.list_starts() + steps.step_ns > phase[0]) & (steps.list_starts() < phase[1])
        lines.append(CourseLine(name="usual", role="usual", values=[usual_per_s if one else None for one in inside]))
    title = {"read": "read", "write": "wrote", "metadata": "requests to the metadata servers"}[kind]
    return _course(steps, f"What job {job_id} {title}", _get_rate_unit(kind), lines, phase)


def build_component_evidence_series(
    lake: Tables,
    component: tuple[str, str],
    kind: str,
    victim: str | None,
    culprits: Sequence[str],
    phase: tuple[int, int],
    now_ns: int,
    *,
    peak: float | None = None,
    name: Name = str,
) -> list[Course]:
    """The load of one component, whole and of these jobs, and how long requests waited there (or its queue)."""
    steps, interval = choose_rollup_steps(widen_evidence_span(*phase), now_ns, POINTS)
    where = "kind = $kind AND id = $id AND (job_id IS NULL OR job_id IN (SELECT unnest($jobs)))"
    words = {"kind": component[0], "id": component[1], "jobs": [*culprits, *([victim] if victim else [])]}
    rows = list_query_rows(sum_rollup_by_step(lake, steps, interval, "job_id", where, words, more=_WAITS))
    if not rows:
        return []
    column = _column(component[0], kind)
    unit = "operations/s" if column == "metadata_ops" else "bytes/s"
    whole = [row for row in rows if row["job_id"] is None]
    lines = [CourseLine(name="all", role="whole", values=_rates(steps, whole, column))] if whole else []
    for job, role in (*((one, "culprit") for one in culprits), *([(victim, "victim")] if victim else [])):
        mine = [row for row in rows if row["job_id"] == job]
        if mine:
            values = _rates(steps, mine, column, idle=True)
            lines.append(CourseLine(name=name(f"job {job}"), role=role, values=values))
    if peak is not None:
        lines.append(CourseLine(name="known peak", role="peak", values=[peak] * steps.count))
    courses = [_course(steps, f"Load at {component[0]} {component[1]}", unit, lines, phase)] if lines else []
    return courses + _waiting(steps, rows, component, victim, phase)


def _column(layer: str, kind: str) -> str:
    return "metadata_ops" if kind == "metadata" or layer == "mds" else "bytes"


def _waiting(
    steps: Steps,
    rows: Sequence[Mapping[str, Any]],
    component: tuple[str, str],
    victim: str | None,
    phase: tuple[int, int],
) -> list[Course]:
    """How long requests waited, of all and of the victim; where waits are not counted, the queue."""
    lines = []
    for job, name, role in ((None, "all", "wait"), (victim, f"job {victim}", "victim")):
        waits = np.full(steps.count, np.nan)
        for row in rows:
            if row["job_id"] == job and row["waits"]:
                waits[row["step"]] = row["wait_ns"] / row["waits"] / 1e9
        if not np.isnan(waits).all() and (job is not None or role == "wait"):
            lines.append(CourseLine(name=name, role=role, values=_numbers(waits)))
    if lines:
        return [_course(steps, f"Mean wait of a request at {component[0]} {component[1]}", "s", lines, phase)]
    queue = np.full(steps.count, np.nan)
    for row in rows:
        if row["job_id"] is None and row["queue"] is not None:
            queue[row["step"]] = row["queue"]
    if np.isnan(queue).all():
        return []
    line = CourseLine(name="queue", role="wait", values=_numbers(queue))
    return [_course(steps, f"Longest queue at {component[0]} {component[1]}", "requests", [line], phase)]


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    """To the microsecond: `round_rollup_line` rounds rates."""
    return [None if np.isnan(value) else float(value) for value in np.round(values, 6)]


def build_peak_evidence_series(
    lake: Tables,
    component: tuple[str, str],
    span: Span,
    marked: Sequence[tuple[int, int]],
    peak: float | None,
    now_ns: int,
    *,
    limit: float | None = None,
) -> Course | None:
    """One component's load over a span, its known peak, and the share of it below which it counts as sick."""
    steps, interval = choose_rollup_steps(span, now_ns, POINTS)
    where = "kind = $kind AND id = $id AND job_id IS NULL"
    rows = list_query_rows(
        sum_rollup_by_step(lake, steps, interval, "", where, {"kind": component[0], "id": component[1]})
    )
    if not rows:
        return None
    column = _column(component[0], "")
    lines = [CourseLine(name="load", role="whole", values=_rates(steps, rows, column))]
    if peak is not None:
        lines.append(CourseLine(name="known peak", role="peak", values=[peak] * steps.count))
        if limit is not None:
            lines.append(CourseLine(name=f"{limit:.0%} of it", role="usual", values=[peak * limit] * steps.count))
    unit = "operations/s" if column == "metadata_ops" else "bytes/s"
    title = f"Load of {component[0]} {component[1]}"
    return Course(
        title=title, unit=unit, from_ns=steps.from_ns, step_ns=steps.step_ns, lines=lines, marked=list(marked)
    )


def _rates(steps: Steps, rows: Sequence[Mapping[str, Any]], column: str, *, idle: bool = False) -> list[float | None]:
    """Rates by step. `idle`: between its first and its last record, steps without one are 0."""
    values = np.full(steps.count, np.nan)
    for row in rows:
        amount = row[column] if column != "bytes" else _both(row)
        if amount is not None:
            values[row["step"]] = (0.0 if np.isnan(values[row["step"]]) else values[row["step"]]) + amount
    known = np.flatnonzero(~np.isnan(values))
    if idle and len(known):
        inside = slice(known[0], known[-1] + 1)
        values[inside] = np.nan_to_num(values[inside])
    return round_rollup_line(values / steps.compute_elapsed_s())


def _both(row: Mapping[str, Any]) -> int | None:
    if row["read_bytes"] is None and row["write_bytes"] is None:
        return None
    return (row["read_bytes"] or 0) + (row["write_bytes"] or 0)


def _course(steps: Steps, title: str, unit: str, lines: list[CourseLine], phase: tuple[int, int]) -> Course:
    return Course(title=title, unit=unit, from_ns=steps.from_ns, step_ns=steps.step_ns, lines=lines, marked=[phase])

"""All components of one layer, their hours and their distribution (Beacon, TOS 2023, section 7).

Not here: queues and waits (`waits`), one component (`list_components`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fairlead.core.errors import UsageError
from fairlead.explain.questions import load_distributions
from fairlead.explain.questions.answers import Cdf, ComponentRow, HeatMap
from fairlead.explain.questions.answers_pages import Layer, LayerComponent
from fairlead.explain.questions.components import list_components
from fairlead.explain.questions.lake_queries import Sight, Tables, list_query_rows, query_lake
from fairlead.explain.questions.pages.component_states import (
    find_component_trouble,
    get_component_state,
    list_component_incidents,
)
from fairlead.explain.questions.pages.layer_kinds import LayerKind, find_layer, find_layer_full_load
from fairlead.explain.questions.question import Asking, resolve_question_span
from fairlead.explain.questions.rollup_sums import add_rollup_sums, build_rollup_select
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, Span

_MOST_HEAT_NS = 32 * DAY_NS


def describe_layer(asking: Asking, name: str, asked: Any, sight: Sight, now_ns: int) -> Layer:
    """All components of a layer. Raises UsageError, LakeError."""
    kind = find_layer(name)
    span = resolve_question_span(asking, asked, "1h", now_ns)
    rows = [row for row in list_components(asking.lake, span, kind.kind) if kind.is_shown(row.id)]
    peak, basis = _peak(asking, kind, asked, span, now_ns)
    order = sorted(rows, key=lambda row: _sorted_by(kind, asked.sort, row))
    page = order[asked.offset : asked.offset + asked.limit]
    end = min(span.to_ns, now_ns)
    incidents = list_component_incidents(asking.lake, end, sight, kind.kind)
    trouble = find_component_trouble(asking.lake, kind.kind, [row.id for row in page], end, incidents)
    jobs = _jobs(asking.lake, kind, [row.id for row in page], span)
    shown = []
    for row in page:
        value = _amount(kind, row)
        state, incident, _ = get_component_state(row.id, value, trouble)
        shown.append(
            LayerComponent(
                row=row,
                state=state,
                load=value / span.seconds / peak if value is not None and peak else None,
                jobs=jobs.get(row.id, 0) if jobs is not None else None,
                incident=incident,
            )
        )
    told = [value for row in rows if (value := _amount(kind, row)) is not None]
    mean = sum(told) / len(told) if told else None
    return Layer(
        layer=name,
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        total=len(rows),
        components=shown,
        sums=add_rollup_sums([row.sums for row in rows]),
        imbalance=max(told) / mean if mean else None,
        idle=sum(1 for value in told if value == 0),
        peak=peak,
        peak_basis=basis,
        peak_unit=kind.unit,
        missing=_missing(kind, rows, jobs is not None),
    )


def build_layer_heat_map(asking: Asking, name: str, asked: Any, sight: Sight, now_ns: int) -> HeatMap:  # noqa: ARG001
    """By hour. Raises UsageError, LakeError."""
    kind = find_layer(name)
    span = asked.span(now_ns, "1d", asking.longest_ns)
    if span.length_ns > _MOST_HEAT_NS:
        raise UsageError("a heat map by hour covers at most 32 days", remedy="choose a shorter span")
    peak, basis = _peak(asking, kind, asked, span, now_ns)
    told = load_distributions.build_load_heat_map(
        asking.lake, span, asking.kept, now_ns, kind=kind.kind, peak_bytes_per_s=peak
    )
    return replace(told, peak_basis=basis)


def build_layer_cdf(asking: Asking, name: str, asked: Any, sight: Sight, now_ns: int) -> Cdf:  # noqa: ARG001
    """As a distribution. Raises UsageError, LakeError."""
    kind = find_layer(name)
    span = asked.span(now_ns, "1d", asking.longest_ns)
    if span.length_ns > _MOST_HEAT_NS:
        raise UsageError("a distribution covers at most 32 days", remedy="choose a shorter span")
    peak, basis = _peak(asking, kind, asked, span, now_ns)
    told = load_distributions.build_load_cdf(
        asking.lake, span, asking.kept, now_ns, kind=kind.kind, peak_bytes_per_s=peak
    )
    return replace(told, peak_basis=basis)


def _peak(asking: Asking, kind: LayerKind, asked: Any, span: Span, now_ns: int) -> tuple[float | None, str]:
    """What all shares of this page are of, and how that is known."""
    if span.length_ns > _MOST_HEAT_NS or asked.peak or asking.peaks.get(kind.kind):
        return find_layer_full_load(asking, kind, span, now_ns, asked.peak)
    return load_distributions.find_full_load(asking.lake, span, asking.kept, now_ns, kind.kind), "highest seen"


def _amount(kind: LayerKind, row: ComponentRow) -> int | None:
    return row.sums.metadata_ops if kind.name == "mds" else row.sums.bytes


def _sorted_by(kind: LayerKind, sort: str, row: ComponentRow) -> tuple[float, str]:
    value: float | None = {
        "load": _amount(kind, row),
        "id": 0,
        "read": row.sums.read_bytes,
        "write": row.sums.write_bytes,
        "metadata": row.sums.metadata_ops,
        "fullness": row.fullness,
    }[sort]
    return (1.0 if value is None else -value, row.id)


def _jobs(lake: Tables, kind: LayerKind, names: list[str], span: Span) -> dict[str, int] | None:
    """How many jobs each was counted for; None where this layer counts none by job."""
    where = "kind = $kind AND job_id IS NOT NULL AND id IN (SELECT unnest($names))"
    found = query_lake(
        lake,
        f"SELECT id, count(DISTINCT job_id) AS many FROM {build_rollup_select(span, where, 'id, job_id')} GROUP BY id",
        {"kind": kind.kind, "names": names},
        within=span.align_to(HOUR_NS),
    )
    return {row["id"]: row["many"] for row in list_query_rows(found)} or None


def _missing(kind: LayerKind, rows: list[ComponentRow], by_job: bool) -> list[str]:
    if not rows:
        return [f"{kind.name}: no data for this layer in this time"]
    return [] if by_job else ["jobs: these counters are not split by job"]

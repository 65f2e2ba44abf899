"""One job: its account, its summary, each layer's bandwidth over time, the components it went through.

Not here: lists of jobs (`job_lists`), what one could change about it (`fairlead.explain.analysis`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from fairlead.explain.questions.answers import ClockShift, JobPage, JobRow, JobSummary, Share, Sums
from fairlead.explain.questions.clock_offsets import correct_clock_offsets, find_clock_offsets
from fairlead.explain.questions.coverage import find_coverage
from fairlead.explain.questions.job_accounts import build_account_row, build_unknown_job_error, read_run_accounts
from fairlead.explain.questions.job_volumes import read_one_volume, read_summary_bound
from fairlead.explain.questions.lake_queries import Sight, Tables, list_query_rows, query_lake
from fairlead.explain.questions.latencies import list_latencies
from fairlead.explain.questions.layer_estimates import estimate_layers
from fairlead.explain.questions.network_ports import list_job_network_ports
from fairlead.explain.questions.node_estimates import ESTIMATE
from fairlead.explain.questions.rollup_sums import (
    METADATA_RANK,
    RANK,
    VALUES,
    choose_rollup_steps,
    read_rollup_sums,
    sum_rollup,
    sum_rollup_by_step,
)
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS, Span
from fairlead.explain.questions.timelines import build_timeline, sum_timeline_by_layer
from fairlead.explain.questions.visible_lake import get_visible_reach, is_job_visible, widen_visible_lake

NODES_SHOWN = 1000
_COMPONENTS = ("forwarder", "target", "mds")
TAIL_NS = MINUTE_NS
"""Counted up to this long after its end: caches are written back late."""
_HEAD_NS = 10 * SECOND_NS
"""Components count from this long before its start: a probe's row covers an interval that began before the job did."""
_MOST_SHARES = 500


def describe_job(
    lake: Tables,
    job_id: str,
    sight: Sight,
    now_ns: int,
    *,
    cluster: str = "",
    span: Span | None = None,
    points: int = 600,
    rates: Mapping[str, float] | None = None,
) -> JobPage:
    """The page of the latest job of this number (of `cluster`). `span` looks at a part of its course; figures are
    those of the whole run. Raises UnknownNameError
    for one that neither the scheduler nor counters know, or that is not this reader's."""
    runs = read_run_accounts(lake, job_id, cluster or None)
    if span is not None and len(runs) > 1:
        runs = [run for run in runs if does_job_detail_overlap(run, span)] or runs
    if not runs:
        if not sight.everything or cluster:
            raise build_unknown_job_error(lake, job_id)
        return _unaccounted(lake, job_id, span, now_ns, points)
    mine = [run for run in runs if is_job_visible(run, sight)]
    if not mine:
        raise build_unknown_job_error(lake, job_id)
    account = mine[0]
    life = compute_job_detail_life(account, now_ns, 0 if not sight.everything else TAIL_NS)
    seen = life if span is None else span.clip_to(life.from_ns, life.to_ns)
    if seen.length_ns <= 0:
        seen = life
    reach = get_visible_reach(lake, life)
    if reach is not None and reach.is_number_shared(job_id, account["start_ns"]):
        return _without_counters(account, seen, now_ns, len(mine) - 1)
    head_ns = _HEAD_NS if sight.everything and seen.from_ns == life.from_ns else 0
    return _page(lake, account, seen, now_ns, points, len(mine) - 1, rates, head_ns)


def does_job_detail_overlap(run: Mapping[str, Any], span: Span) -> bool:
    """Whether a run has a time that touches the span."""
    start, end = run["start_ns"], run["end_ns"]
    return start is not None and start < span.to_ns and (end is None or end >= span.from_ns)


def compute_job_detail_life(account: Mapping[str, Any], now_ns: int, tail_ns: int) -> Span:
    """From its start to its end and a little more, or to now."""
    start = account["start_ns"]
    end = account["end_ns"]
    if start is None:
        start = account["submit_ns"] if account["submit_ns"] is not None else now_ns - HOUR_NS
    if end is None:
        # A scheduler that was never heard of again: a run is at most some weeks long.
        end = min(now_ns, start + 32 * DAY_NS) if start < now_ns else start + MINUTE_NS
    else:
        end += tail_ns
    return Span(start, max(end, start + MINUTE_NS // 60))


def _page(
    lake: Tables,
    account: dict[str, Any],
    span: Span,
    now_ns: int,
    points: int,
    others: int,
    rates: Mapping[str, float] | None = None,
    head_ns: int = 0,
) -> JobPage:
    job_id = account["job_id"]
    nodes = account["nodes"] or []
    where, words = "kind = $kind AND id = $id", {"kind": "job", "id": job_id}
    steps, found = sum_timeline_by_layer(lake, span, where, words, now_ns, points)
    shares = _components(lake, job_id, Span(span.from_ns - head_ns, span.to_ns))
    off = find_clock_offsets(lake, [*nodes[:4096], *(one.id for one in shares if one.kind == "forwarder")], span)
    if off:
        # Records may be dated beside the job's life, where no seconds of it were looked for.
        fine, interval = choose_rollup_steps(span, now_ns, points)
        moved = correct_clock_offsets(
            lake, job_id, fine, sum_rollup_by_step(lake, fine, interval, "layer", where, words), nodes, off
        )
        steps, found = (fine, moved) if moved.num_rows else (steps, found)
    cover = find_coverage(lake, nodes[:4096], steps)
    drawn = build_timeline(steps, found, cover)
    extra, mapped, missing = estimate_layers(widen_visible_lake(lake), job_id, nodes, steps, found, cover)
    drawn = replace(drawn, series=[*drawn.series, *extra])
    if account["start_ns"] is None:
        (layer, sums), bound = _moved(found), None
    else:
        layer, sums, bound = read_one_volume(lake, account, now_ns)
    if layer == ESTIMATE:
        missing = [_ESTIMATED, *missing]
    row = build_account_row(account, now_ns, sums=sums, layer=layer, bound=bound)
    summary = read_job_detail_summary(lake, account)
    known = {(share.kind, share.id) for share in shares}
    shares += [Share(kind=k, id=i, layer=k, sums=Sums(), mapped=True) for k, i in mapped if (k, i) not in known]
    volumes, uneven = list_job_network_ports(lake, span, job_id, nodes, rates)
    return JobPage(
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        job=row,
        nodes=nodes[:NODES_SHOWN],
        summary=summary,
        timeline=drawn,
        components=shares,
        missing=missing,
        gaps=cover.gaps,
        other_runs=others,
        ports=volumes[:NODES_SHOWN],
        port_imbalance=uneven,
        clocks=[ClockShift(source=name, offset_ns=ns) for name, ns in sorted(off.items())],
        latencies=list_latencies(lake, span, where, words, by_job=job_id),
    )


_ESTIMATED = "client: not counted by job; figures are those of its nodes while it ran, within the bounds"


def _moved(found: pa.Table) -> tuple[str | None, Sums]:
    """Layer and sums of the layer that tells the job best, of its sums by step and layer."""
    by_layer = {
        row["layer"]: Sums(**{name: row[f"{name}_sum"] for name in VALUES})
        for row in list_query_rows(found.group_by("layer").aggregate([(name, "sum") for name in VALUES]))
    }
    order = [name for name in RANK if name in by_layer] + sorted(by_layer.keys() - set(RANK))
    layer = next((name for name in order if by_layer[name].bytes is not None), order[0] if order else None)
    if layer is None:
        return None, Sums()
    told = [name for name in METADATA_RANK if name in by_layer and by_layer[name].metadata_ops is not None]
    return layer, replace(by_layer[layer], metadata_ops=by_layer[told[0]].metadata_ops if told else None)


def read_job_detail_summary(lake: Tables, account: Mapping[str, Any]) -> JobSummary | None:
    """What the analysis says of the run an account is of; None where it has not been looked at."""
    fields = [name for name in JobSummary.__struct_fields__ if name not in ("sums", "so_far", "bound")]
    found = query_lake(
        lake,
        "SELECT * FROM job_summary WHERE job_id = $job_id AND cluster IS NOT DISTINCT FROM $cluster "
        "AND start_ns IS NOT DISTINCT FROM $start_ns LIMIT 1",
        {"job_id": account["job_id"], "cluster": account["cluster"], "start_ns": account["start_ns"]},
        numbers=[account["job_id"]],
    )
    for row in list_query_rows(found):
        row["estimated"] = row["estimated"] or []
        return JobSummary(
            **{name: row[name] for name in fields},
            sums=read_rollup_sums(row),
            bound=read_summary_bound(row),
            so_far=row["end_ns"] is None,
        )
    return None


def _components(lake: Tables, job_id: str, span: Span) -> list[Share]:
    """Forwarders, targets and metadata servers whose counters name the job, busiest first in each kind."""
    found = sum_rollup(
        lake,
        span,
        "kind, id, layer",
        "kind IN (SELECT unnest($kinds)) AND job_id = $job_id",
        {"kinds": list(_COMPONENTS), "job_id": job_id},
    )
    rows = list_query_rows(found)
    whole: dict[str, int] = {}
    for row in rows:
        whole[row["kind"]] = whole.get(row["kind"], 0) + choose_job_detail_weight(row)
    rows.sort(key=lambda row: (_COMPONENTS.index(row["kind"]), -choose_job_detail_weight(row), row["id"]))
    return [
        Share(
            kind=row["kind"],
            id=row["id"],
            layer=row["layer"],
            sums=read_rollup_sums(row),
            share=choose_job_detail_weight(row) / whole[row["kind"]] if whole[row["kind"]] else None,
        )
        for row in rows[:_MOST_SHARES]
    ]


def choose_job_detail_weight(row: Mapping[str, Any]) -> int:
    """What a share is a share of: bytes, or metadata operations where no bytes are counted."""
    if row["read_bytes"] is None and row["write_bytes"] is None:
        return row["metadata_ops"] or 0
    return (row["read_bytes"] or 0) + (row["write_bytes"] or 0)


def _unaccounted(lake: Tables, job_id: str, span: Span | None, now_ns: int, points: int) -> JobPage:
    """A job only counters know: its span is where they name it."""
    look = span or Span(now_ns - 32 * DAY_NS, now_ns)
    day = look.align_to(HOUR_NS)
    found = query_lake(
        lake,
        f"SELECT min(ts_ns) AS first, max(ts_ns) AS last FROM rollup WHERE interval_ns = {HOUR_NS} AND kind = $kind "  # noqa: S608
        f"AND id = $id AND ts_ns >= {day.from_ns} AND ts_ns < {day.to_ns}",
        {"kind": "job", "id": job_id},
        within=day,
    )
    [row] = list_query_rows(found)
    if row["first"] is None:
        raise build_unknown_job_error(lake, job_id)
    seen = span or Span(row["first"], min(row["last"] + HOUR_NS, max(now_ns, row["first"] + 1)))
    account: dict[str, Any] = dict.fromkeys((*JobRow.__struct_fields__, "nodes")) | {"job_id": job_id}
    page = _page(lake, account, seen, now_ns, points, 0)
    told = replace(page.job, accounted=False)
    return replace(page, job=told, missing=["account: the scheduler has not reported this job", *page.missing])


def _without_counters(account: dict[str, Any], span: Span, now_ns: int, others: int) -> JobPage:
    from fairlead.explain.questions.answers import Timeline

    nodes = account["nodes"] or []
    return JobPage(
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        job=build_account_row(account, now_ns),
        nodes=nodes[:NODES_SHOWN],
        summary=None,
        timeline=Timeline(from_ns=span.from_ns, step_ns=span.length_ns, points=0, series=[]),
        components=[],
        missing=["counters: another user's job had the same number at that time, and they cannot be told apart"],
        gaps=[],
        other_runs=others,
    )

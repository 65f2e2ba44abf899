"""Other jobs on the components that served a job, while it ran: who moved most there, and whom a finding blames.

Not here: what a finding says (`explain`). Names of jobs a reader may not see are left out.
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairlead.explain.analysis.table_columns import read_float_column, read_integer_column
from fairlead.explain.questions.answers_pages import Neighbour
from fairlead.explain.questions.job_accounts import read_all_accounts
from fairlead.explain.questions.lake_queries import Sight, Tables, build_day_filter, list_query_rows, query_lake
from fairlead.explain.questions.pages.page_axis import Axis
from fairlead.explain.questions.pages.run_window import RunSeen
from fairlead.explain.questions.rollup_sums import (
    build_rollup_select,
    fill_rollup_steps,
    round_rollup_line,
    sum_rollup_by_step,
)
from fairlead.explain.questions.span import DAY_NS, INTERVALS, MINUTE_NS, Span, widen_span_to_pieces
from fairlead.explain.questions.visible_lake import is_job_visible, widen_visible_lake

_SHARED = ("forwarder", "target", "mds")
_PARTS = "job_id IS NOT NULL AND kind IN (SELECT unnest($kinds))"
_MOVED = "coalesce(sum(read_bytes), 0) + coalesce(sum(write_bytes), 0)"
Part = Mapping[str, Any]


def list_neighbour_parts(lake: Tables, run: RunSeen) -> list[Part]:
    """What jobs did on the components that counted this one meanwhile, the most first: `kind`, `id`, `job_id`, `moved`
    (bytes), `asked` (metadata operations). `lake`: with nothing hidden."""
    span = run.span
    columns = "kind, id, job_id, read_bytes, write_bytes, metadata_ops"
    mine = "kind IN (SELECT unnest($kinds)) AND job_id = $job"
    own = query_lake(
        lake,
        f"SELECT DISTINCT kind, id FROM {build_rollup_select(span, mine, 'kind, id', one=True)} ORDER BY kind, id",
        {"kinds": list(_SHARED), "job": run.job_id},
        within=widen_span_to_pieces(span),
    )
    if not own.num_rows:
        return []
    there = f"{_PARTS} AND id IN (SELECT unnest($ids))"
    found = query_lake(
        lake,
        f"SELECT kind, id, job_id, ({_MOVED})::BIGINT AS moved, coalesce(sum(metadata_ops), 0)::BIGINT AS asked"
        f" FROM {build_rollup_select(span, there, columns, one=True)} GROUP BY kind, id, job_id"
        " ORDER BY moved DESC, asked DESC, job_id, kind, id",
        {"kinds": list(_SHARED), "ids": own.column("id").to_pylist()},
        within=widen_span_to_pieces(span),
    )
    served = {(row["kind"], row["id"]) for row in list_query_rows(own)}
    return [row for row in list_query_rows(found) if (row["kind"], row["id"]) in served]


def rank_neighbours(
    lake: Tables, run: RunSeen, axis: Axis, parts: Sequence[Part], sight: Sight, most: int
) -> list[Neighbour]:
    """The `most` heaviest other jobs there, each at the component where it moved most; those that a finding blames
    come first."""
    others = [row for row in parts if row["job_id"] != run.job_id]
    if not others or most <= 0:
        return []
    blamed = _blamed(lake, run)
    chosen: dict[str, Part] = {}
    for row in sorted(others, key=lambda row: (row["job_id"] not in blamed, -row["moved"], -row["asked"])):
        if row["job_id"] not in chosen and (row["moved"] or row["asked"]):
            chosen[row["job_id"]] = row
    rows = list(chosen.values())[:most]
    lines = _lines(widen_visible_lake(lake), run, axis, rows)
    accounts = read_all_accounts(widen_visible_lake(lake), [row["job_id"] for row in rows], run.span)
    made = []
    for row, (moved, asked) in zip(rows, lines, strict=True):
        ran = [one for one in accounts if one["job_id"] == row["job_id"]]
        seen = bool(ran) and all(is_job_visible(one, sight) for one in ran) if not sight.everything else True
        account = ran[-1] if seen and ran else None
        made.append(
            Neighbour(
                job_id=row["job_id"] if seen else None,
                user=account["user"] if account else None,
                program=account["program"] if account else None,
                kind=row["kind"],
                component=row["id"],
                bytes_per_s=moved,
                bytes=row["moved"],
                ops_per_s=asked,
                metadata_ops=row["asked"],
                blamed=row["job_id"] in blamed,
            )
        )
    return made


def _blamed(lake: Tables, run: RunSeen) -> set[str]:
    """Jobs that findings about this run blame."""
    life = Span(run.life.from_ns - MINUTE_NS, run.life.to_ns + MINUTE_NS)
    found = query_lake(
        lake,
        "SELECT DISTINCT unnest(culprits) AS who FROM finding WHERE job_id = $job AND cluster IS NOT DISTINCT FROM"
        f" $cluster AND from_ns < {life.to_ns} AND coalesce(to_ns, from_ns) >= {life.from_ns}"
        f" AND NOT coalesce(withdrawn, false) AND {build_day_filter(Span(life.from_ns - DAY_NS, life.to_ns + DAY_NS))}",
        {"job": run.job_id, "cluster": run.cluster},
        numbers=[run.job_id],
    )
    return {who[4:] for who in found.column("who").to_pylist() if who.startswith("job:")}


def _lines(
    lake: Tables, run: RunSeen, axis: Axis, rows: Sequence[Part]
) -> list[tuple[list[float | None], list[float | None]]]:
    """Bytes and metadata operations a second of each, over the points that are drawn: 0 where its counter was silent
    between its first and last word."""
    steps = axis.points
    interval = max(one for one in INTERVALS if steps.step_ns % one == 0 and steps.from_ns % one == 0)
    found = sum_rollup_by_step(
        lake,
        steps,
        interval,
        "kind, id, job_id",
        f"{_PARTS} AND id IN (SELECT unnest($ids)) AND job_id IN (SELECT unnest($jobs))",
        {"kinds": list(_SHARED), "ids": [row["id"] for row in rows], "jobs": [row["job_id"] for row in rows]},
    )
    keys = list(zip(*(found.column(name).to_pylist() for name in ("kind", "id", "job_id")), strict=True))
    at = read_integer_column(found, "step")
    read, write, asked = (read_float_column(found, name) for name in ("read_bytes", "write_bytes", "metadata_ops"))
    moved = np.where(np.isnan(read) & np.isnan(write), np.nan, np.nan_to_num(read) + np.nan_to_num(write))
    made = []
    for row in rows:
        mine = np.array([key == (row["kind"], row["id"], row["job_id"]) for key in keys], np.bool_)
        pair = []
        for values in (moved, asked):
            line = fill_rollup_steps(steps, at[mine], values[mine] / steps.compute_elapsed_s()[at[mine]])
            known = np.flatnonzero(np.isfinite(line))
            if len(known):
                line[known[0] : known[-1] + 1] = np.nan_to_num(line[known[0] : known[-1] + 1])
            line[steps.list_starts() >= run.life.to_ns] = np.nan
            pair.append(round_rollup_line(np.repeat(line, axis.parts)))
        made.append((pair[0], pair[1]))
    return made

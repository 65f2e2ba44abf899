"""What a job did on shared components that do not count by job: split off by its share of client traffic, marked so.

Only where no counter names the job. A forwarder's bytes are shared by what the nodes mapped to it moved, those of
targets by what all jobs moved. Not here: counted layers (`timelines`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.explain.analysis.table_columns import read_float_column, read_integer_column
from fairlead.explain.questions.answers import Series
from fairlead.explain.questions.coverage import Coverage
from fairlead.explain.questions.lake_queries import Tables, list_query_rows, query_lake
from fairlead.explain.questions.rollup_sums import Steps, sum_rollup_by_step
from fairlead.explain.questions.span import INTERVALS, Span
from fairlead.explain.questions.timelines import build_estimated_timeline

FORWARDED = ("node_forwarder", "node→forwarder")
_MANY = 4096
"""Nodes behind a job's forwarders up to which their traffic is added up."""
_VALUES = ("read_bytes", "write_bytes")
_WHOLE = "kind = $kind AND id IN (SELECT unnest($names)) AND layer = $kind AND job_id IS NULL"
_BEHIND = "kind = $kind AND id IN (SELECT unnest($names)) AND layer = $layer AND (job_id IS NULL OR job_id = $job_id)"
Grid = NDArray[np.float64]


def estimate_layers(
    lake: Tables, job_id: str, nodes: Sequence[str], steps: Steps, found: pa.Table, cover: Coverage
) -> tuple[list[Series], list[tuple[str, str]], list[str]]:
    """Estimated series of layers `found` does not tell, components (kind, id) known from the mapping alone, and what
    stays unknown and why."""
    layers = set(found.column("layer").to_pylist())
    span = steps.span
    extra: list[Series] = []
    mapped: list[tuple[str, str]] = []
    missing: list[str] = []
    if not layers:
        missing.append(
            "traffic: no counter names this job"
            + ("" if cover.known.any() else ", and no agent reports from its nodes")
        )
    elif not layers & {"mount", "client", "pfs_client"}:
        missing.append("client: no traffic of its own nodes is recorded")
    if "forwarder" not in layers:
        served = _served(lake, nodes, span)
        mapped += [("forwarder", name) for name in sorted(set(served.values()))]
        series = _forwarders(lake, job_id, nodes, served, steps) if served else None
        if series is not None:
            extra.append(series)
            missing.append("forwarder: not counted by job; estimated by its nodes' share of the traffic")
    if "target" not in layers:
        names = _targets(lake, job_id)
        mapped += [("target", name) for name in names]
        series = _stored(lake, job_id, names, steps, layers) if names else None
        if series is not None:
            extra.append(series)
            missing.append("target: not counted by job; estimated by its share of all jobs' traffic")
    return extra, mapped, missing


def _in_force(span: Span) -> str:
    return f"from_ns < {span.to_ns} AND (to_ns IS NULL OR to_ns > {span.from_ns})"


def _served(lake: Tables, nodes: Sequence[str], span: Span) -> dict[str, str]:
    """Forwarder of each node behind the forwarders that served `nodes`; empty when none is known or they are many."""
    if not nodes:
        return {}
    rows = query_lake(
        lake,
        f"SELECT a, max(b) AS b FROM mapping WHERE kind IN (SELECT unnest($kinds)) AND {_in_force(span)}"
        f" AND b IN (SELECT b FROM mapping WHERE kind IN (SELECT unnest($kinds)) AND {_in_force(span)}"
        f" AND a IN (SELECT unnest($nodes))) GROUP BY a LIMIT {_MANY + 1}",
        {"kinds": list(FORWARDED), "nodes": list(nodes[:_MANY])},
    )
    return {row["a"]: row["b"] for row in list_query_rows(rows)} if rows.num_rows <= _MANY else {}


def _targets(lake: Tables, job_id: str) -> list[str]:
    rows = query_lake(
        lake,
        "SELECT targets FROM job_summary WHERE job_id = $job_id ORDER BY start_ns DESC LIMIT 1",
        {"job_id": job_id},
        numbers=[job_id],
    )
    for row in list_query_rows(rows):
        return sorted(row["targets"] or [])
    return []


def _forwarders(lake: Tables, job_id: str, nodes: Sequence[str], served: dict[str, str], steps: Steps) -> Series | None:
    interval = _interval(steps)
    forwarders = sorted(set(served.values()))
    whole = sum_rollup_by_step(lake, steps, interval, "id", _WHOLE, {"kind": "forwarder", "names": forwarders})
    if not whole.num_rows:
        return None
    for layer in ("mount", "client", "pfs_client"):
        behind = sum_rollup_by_step(
            lake,
            steps,
            interval,
            "id, job_id",
            _BEHIND,
            {"kind": "node", "names": sorted(served), "layer": layer, "job_id": job_id},
        )
        if behind.num_rows:
            break
    else:
        return None
    place = {name: k for k, name in enumerate(forwarders)}
    own = set(nodes)
    ids, jobs = behind.column("id").to_pylist(), behind.column("job_id").to_pylist()
    by_job = any(number is not None for number in jobs)
    mine = np.array([(number is not None) if by_job else name in own for name, number in zip(ids, jobs, strict=True)])
    every = np.array([number is None for number in jobs])
    row = np.array([place[served[name]] for name in ids])
    at_whole = np.array([place[name] for name in whole.column("id").to_pylist()])
    lines = []
    for value in _VALUES:
        counts = _grid(steps, len(place), at_whole, whole, value)
        all_of = _grid(steps, len(place), row[every], behind.filter(pa.array(every)), value)
        part = _grid(steps, len(place), row[mine], behind.filter(pa.array(mine)), value)
        lines.append(_split(counts, part, all_of) / steps.compute_elapsed_s())
    return build_estimated_timeline(steps, "forwarder", lines[0], lines[1])


def _stored(lake: Tables, job_id: str, names: Sequence[str], steps: Steps, layers: set[str]) -> Series | None:
    layer = next((name for name in ("mount", "client", "forwarder", "pfs_client") if name in layers), None)
    if layer is None:
        return None
    interval = _interval(steps)
    whole = sum_rollup_by_step(lake, steps, interval, "", _WHOLE, {"kind": "target", "names": list(names)})
    if not whole.num_rows:
        return None
    jobs = _of_all_jobs(lake, job_id, layer, steps, interval)
    own = np.asarray(jobs.column("own").to_numpy(zero_copy_only=False), np.bool_)
    lines = []
    for value in _VALUES:
        counts = _grid(steps, 1, np.zeros(whole.num_rows, np.int64), whole, value)
        every = _grid(steps, 1, np.zeros(len(own), np.int64), jobs, value)
        part = _grid(steps, 1, np.zeros(int(own.sum()), np.int64), jobs.filter(pa.array(own)), value)
        lines.append(_split(counts, part, every) / steps.compute_elapsed_s())
    return build_estimated_timeline(steps, "target", lines[0], lines[1])


def _of_all_jobs(lake: Tables, job_id: str, layer: str, steps: Steps, interval: int) -> pa.Table:
    """Sums by step and `own`: of this job, and of all others."""
    found = sum_rollup_by_step(
        lake, steps, interval, "id", "kind = $kind AND layer = $layer", {"kind": "job", "layer": layer}
    )
    own = pa.array([name == job_id for name in found.column("id").to_pylist()], pa.bool_())
    return found.append_column("own", own)


def _interval(steps: Steps) -> int:
    """The coarsest interval of the rollup the steps are made of."""
    return max(step for step in INTERVALS if steps.step_ns % step == 0 and steps.from_ns % step == 0)


def _grid(steps: Steps, rows: int, row: NDArray[np.int64], table: pa.Table, value: str) -> Grid:
    """float64[rows, steps]: sums, NaN where no row says anything."""
    grid = np.zeros((rows, steps.count))
    told = np.zeros((rows, steps.count), np.bool_)
    values, at = read_float_column(table, value), read_integer_column(table, "step")
    known = np.isfinite(values)
    np.add.at(grid, (row[known], at[known]), values[known])
    told[row[known], at[known]] = True
    return np.where(told, grid, np.nan)


def _split(whole: Grid, part: Grid, every: Grid) -> NDArray[np.float64]:
    """Σ over components of `whole` times the share `part`/`every`, NaN where no component is known. A job without rows
    beside traffic of others had no share."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(np.isnan(every), np.nan, np.nan_to_num(part) / np.where(every > 0, every, np.inf))
    pieces = whole * share
    known = np.isfinite(pieces).any(axis=0)
    return np.where(known, np.nansum(pieces, axis=0), np.nan)

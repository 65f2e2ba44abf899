"""Series and figures for the page of a job's path: per window what each layer carried, waited and served.

Pure. Not here: how they are drawn (`fairlead.show.report.path`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.unit_formats import MIB, NS_PER_S
from fairlead.explain.analysis.component_flows import NO_JOB, Axis, Floats, Flow
from fairlead.explain.analysis.culprits import Facts, Judgement
from fairlead.explain.analysis.job_path import DATA, SMALL, JobPath, drop_job_path_dictionary, sum_job_path_series

MAX_POINTS = 1200
"""Windows are summed until there are at most this many: more cannot be told apart on a screen."""


def build_path_charts(
    tables: Mapping[str, pa.Table], judgement: Judgement, facts: Facts, found: Sequence[JobPath]
) -> dict[str, Any]:
    """What the page draws; times are seconds since `start_ns`."""
    axis = facts.axis
    if axis is None:
        return {"start_ns": None, "window_s": None, "count": 0, "jobs": [], "targets": [], "forwarders": []}
    fold = -(-axis.count // MAX_POINTS)
    clients = _build_client_series(tables.get("ops"), axis)
    return {
        "start_ns": axis.start_ns,
        "window_s": axis.window_s * fold,
        "count": -(-axis.count // fold),
        "jobs": [_job(path, facts, clients.get(path.job_id), fold) for path in found],
        "targets": [_target(flow, fold) for flow in facts.targets],
        "forwarders": [_forwarder(flow, fold) for flow in facts.forwarders],
        "spans": [
            {
                "kind": one.kind,
                "culprit": one.culprit,
                "from_s": (one.from_ns - axis.start_ns) / NS_PER_S,
                "to_s": (one.to_ns - axis.start_ns) / NS_PER_S,
                "victims": one.victims,
                "where": one.where,
            }
            for one in judgement.verdicts
        ],
    }


def _build_client_series(ops: pa.Table | None, axis: Axis) -> dict[str, Floats]:
    """By job the bytes per window that its applications read and wrote; a run counts where it begins."""
    if ops is None or not ops.num_rows:
        return {}
    kept = ops.filter(pc.is_in(drop_job_path_dictionary(ops["op"]), pa.array(DATA)))
    jobs = np.array(pc.fill_null(drop_job_path_dictionary(kept["job_id"]), NO_JOB).to_pylist(), object)
    sizes = pc.multiply(pc.fill_null(kept["size"], 0), kept["count"]).to_numpy().astype(np.float64)
    window = (kept["start_ns"].to_numpy() - axis.start_ns) // axis.window_ns
    inside = (window >= 0) & (window < axis.count)
    return {
        job: np.bincount(window[at], sizes[at], axis.count).astype(np.float64)
        for job in sorted(set(jobs.tolist()))
        if (at := inside & (jobs == job)).any()
    }


def _job(path: JobPath, facts: Facts, client: Floats | None, fold: int) -> dict[str, Any]:
    job = path.job_id
    wait, service = (sum_job_path_series(facts.forwarders, job, name) for name in ("wait_s", "service_s"))
    requests = sum_job_path_series(facts.forwarders, job, "requests")
    device, pieces = (
        sum_job_path_series(facts.targets, job, "service_s"),
        sum_job_path_series(facts.targets, job, "requests"),
    )
    return {
        "id": job,
        "client_bytes": _folded(client, fold),
        "forwarder_bytes": _folded(sum_job_path_series(facts.forwarders, job, "bytes"), fold),
        "metadata": _folded(sum_job_path_series(facts.forwarders, job, "metadata"), fold),
        "target_bytes": _folded(sum_job_path_series(facts.targets, job, "bytes"), fold),
        "wait_s": _mean(wait, requests, fold),
        "service_s": _mean(service, requests, fold),
        "device_s": _mean(device, pieces, fold),
    }


def _target(flow: Flow, fold: int) -> dict[str, Any]:
    sizes = flow.bytes.sum(axis=0)
    told = np.where(sizes >= SMALL * flow.requests.sum(axis=0), sizes, 0.0)
    return {
        "name": flow.name,
        "bytes": _folded(sizes, fold),
        "per_mib_s": _mean(np.where(told > 0, flow.service_s.sum(axis=0), 0.0), told / MIB, fold),
    }


def _forwarder(flow: Flow, fold: int) -> dict[str, Any]:
    return {
        "name": flow.name,
        "workers": {
            job: _folded(flow.service_s[row] / flow.axis.window_s / fold, fold) for row, job in enumerate(flow.jobs)
        },
        "wait_p90_s": {job: _highest(flow.wait_p90_s[row], fold) for row, job in enumerate(flow.jobs)},
    }


def _chunks(values: Floats, fold: int) -> Floats:
    short = -len(values) % fold
    return np.concatenate([values, np.full(short, np.nan)]).reshape(-1, fold)


def _folded(values: Floats | None, fold: int) -> list[float] | None:
    if values is None:
        return None
    return [float(value) for value in np.nansum(_chunks(values, fold), axis=1)]


def _mean(total: Floats | None, count: Floats | None, fold: int) -> list[float | None] | None:
    """Total over count per window, None where nothing was counted."""
    if total is None or count is None:
        return None
    tops, bottoms = np.nansum(_chunks(total, fold), axis=1), np.nansum(_chunks(count, fold), axis=1)
    return [float(top / bottom) if bottom > 0 else None for top, bottom in zip(tops, bottoms, strict=True)]


def _highest(values: Floats, fold: int) -> list[float | None]:
    chunks = np.where(np.isfinite(parts := _chunks(values, fold)), parts, -1.0)
    return [float(value) if value >= 0 else None for value in chunks.max(axis=1)]

"""Sizes of requests: bandwidth against operations a second, and the share of jobs below a size.

Beacon (Yang et al., ACM TOS 2023, section 7). Not here: drawing (`web.diagnosis.charts.draw_scatter_chart`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from fairlead.explain.analysis.overview.job_population import get_main_population_mode
from fairlead.explain.analysis.table_columns import F64, read_float_column

EDGES = (1 << 10, 4 << 10, 64 << 10, 1 << 20, 16 << 20)
"""Sizes jobs are counted below, bytes."""


def compute_mean_request_bytes(jobs: pa.Table) -> F64:
    """Of each job (JOB_SUMMARY) bytes over reads and writes, both ways together; NaN where a way's bytes or operations
    are not known while the other's are, or there were none."""
    size_sum, asked = np.zeros(jobs.num_rows), np.zeros(jobs.num_rows)
    sound = np.zeros(jobs.num_rows, np.bool_)
    for way in ("read", "write"):
        size, count = read_float_column(jobs, f"{way}_bytes"), read_float_column(jobs, f"{way}_ops")
        both = ~np.isnan(size) & ~np.isnan(count)
        size_sum += np.where(both, size, 0.0)
        asked += np.where(both, count, 0.0)
        sound |= both
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sound & (asked > 0), size_sum / asked, np.nan)


def compute_request_scatter(jobs: pa.Table, least_bytes: int = 200_000_000) -> pa.Table:
    """The scatter: `job_id`, `user`, `program`, `mode` (of the way with more bytes), `iops`, `bandwidth_bytes_per_s`,
    `request_bytes`. Jobs that moved at most `least_bytes` (trivial I/O) or whose rates are not known are left out."""
    rates = np.stack([read_float_column(jobs, f"{way}_bandwidth_bytes_per_s") for way in ("read", "write")])
    sizes = np.stack([np.nan_to_num(read_float_column(jobs, f"{way}_bytes")) for way in ("read", "write")])
    iops, request = read_float_column(jobs, "iops"), compute_mean_request_bytes(jobs)
    # Over the time in which requests were made: both ways may overlap, so bandwidth follows from requests.
    rate = np.where(np.isnan(iops) | np.isnan(request), np.nanmax(np.nan_to_num(rates), axis=0), iops * request)
    chosen = (sizes.sum(axis=0) > least_bytes) & (rate > 0) & (iops > 0)
    modes = get_main_population_mode(jobs)
    found = pa.table(
        {
            "job_id": jobs["job_id"],
            "user": jobs["user"],
            "program": jobs["program"],
            "mode": modes,
            "iops": pa.array(iops, from_pandas=True),
            "bandwidth_bytes_per_s": pa.array(rate, from_pandas=True),
            "request_bytes": pa.array(request, from_pandas=True),
        }
    )
    return found.filter(pa.array(chosen))


def compute_request_size_shares(jobs: pa.Table, edges: Sequence[int] = EDGES, fewest_ops: int = 1) -> pa.Table:
    """For each edge (`below_bytes`): `jobs` whose mean request is smaller, `job_share`, `ops`, `ops_share`, of `known`
    jobs with at least `fewest_ops` reads and writes. Shares are null where no job's requests are known."""
    size = compute_mean_request_bytes(jobs)
    ops = np.nan_to_num(read_float_column(jobs, "read_ops")) + np.nan_to_num(read_float_column(jobs, "write_ops"))
    counted = ~np.isnan(size) & (ops >= fewest_ops)
    known, total = int(counted.sum()), float(ops[counted].sum())
    rows = []
    for edge in edges:
        small = counted & (size < edge)
        rows.append(
            {
                "below_bytes": edge,
                "jobs": int(small.sum()),
                "job_share": float(small.sum()) / known if known else None,
                "ops": int(ops[small].sum()),
                "ops_share": float(ops[small].sum()) / total if total else None,
                "known": known,
            }
        )
    return pa.Table.from_pylist(rows, schema=_SHARES)


_SHARES = pa.schema(
    [
        ("below_bytes", pa.int64()),
        ("jobs", pa.int64()),
        ("job_share", pa.float64()),
        ("ops", pa.int64()),
        ("ops_share", pa.float64()),
        ("known", pa.int64()),
    ]
)

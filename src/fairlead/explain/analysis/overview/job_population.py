"""Statistics of a population of jobs: who does I/O at all, in which mode, how much by size, how N-1 grows with N.

Tables of JOB_SUMMARY in, small tables out (Beacon: Yang et al., ACM TOS 2023, sections 5 and 7). What is not known of a
job is left out of a figure and counted beside it, never taken as zero. Not here: months in a lake (`explain.batch`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.explain.analysis.overview.class_limits import CORE_HOURS, LARGEST, MODES, NONTRIVIAL_BYTES
from fairlead.explain.analysis.table_columns import F64, read_float_column, sum_byte_columns

Flags = NDArray[np.bool_]


def select_latest_population_jobs(jobs: pa.Table) -> pa.Table:
    """Return the newest row of each run (cluster, job and start), sorted by start and job."""
    keys = pa.table(
        {
            "job_id": jobs["job_id"],
            "cluster": jobs["cluster"].cast(pa.string()),
            "start_ns": jobs["start_ns"],
            "row": pa.array(np.arange(jobs.num_rows)),
        }
    )
    keys = keys.take(pc.sort_indices(jobs, sort_keys=[("made_ns", "ascending")]))
    kept = keys.group_by(["start_ns", "job_id", "cluster"], use_threads=False).aggregate([("row", "last")])
    order = [(name, "ascending") for name in ("start_ns", "job_id", "cluster")]
    return jobs.take(kept.sort_by(order)["row_last"])


def mark_nontrivial_population_jobs(jobs: pa.Table) -> Flags:
    """Mark jobs known to have moved more than 200 MB, shape (rows,)."""
    return np.nan_to_num(sum_byte_columns(jobs)) > NONTRIVIAL_BYTES


def summarise_job_population(jobs: pa.Table) -> pa.Table:
    """One row: `jobs`, `known` (with a volume), `nontrivial`, `nontrivial_share` (of those known; null without any),
    `read_bytes`, `write_bytes` (null: not known of any job)."""
    known = int((~np.isnan(sum_byte_columns(jobs))).sum())
    many = int(mark_nontrivial_population_jobs(jobs).sum())
    return pa.table(
        {
            "jobs": pa.array([jobs.num_rows], pa.int64()),
            "known": pa.array([known], pa.int64()),
            "nontrivial": pa.array([many], pa.int64()),
            "nontrivial_share": pa.array([many / known if known else None], pa.float64()),
            "read_bytes": _total(jobs, "read_bytes"),
            "write_bytes": _total(jobs, "write_bytes"),
        }
    )


def _total(jobs: pa.Table, name: str) -> pa.Array:
    return pa.array([pc.sum(jobs[name]).as_py()], pa.int64())


def count_population_modes(jobs: pa.Table) -> pa.Table:
    """Non-trivial jobs by I/O mode: `mode` (of the way that moved more; null: not known), `jobs`, `share` of those
    whose mode is known, `mean_read_bytes`, `mean_write_bytes` (over jobs that know them)."""
    some = jobs.filter(pa.array(mark_nontrivial_population_jobs(jobs)))
    read, write = read_float_column(some, "read_bytes"), read_float_column(some, "write_bytes")
    words = get_main_population_mode(some)
    known = len(words) - words.null_count
    rows = []
    for mode in (*MODES, None):
        same = pc.is_null(words) if mode is None else pc.fill_null(pc.equal(words, mode), False)
        mine = same.to_numpy(zero_copy_only=False)
        if mode is None and not mine.any():
            continue
        rows.append(
            {
                "mode": mode,
                "jobs": int(mine.sum()),
                "share": float(mine.sum() / known) if known and mode is not None else None,
                "mean_read_bytes": _mean(read[mine]),
                "mean_write_bytes": _mean(write[mine]),
            }
        )
    return pa.Table.from_pylist(rows, schema=_MODES)


def get_main_population_mode(jobs: pa.Table) -> pa.ChunkedArray:
    """The mode of the way a job moved more bytes; of the other where that one has none. Null where neither has."""
    read, write = (np.nan_to_num(read_float_column(jobs, f"{way}_bytes")) for way in ("read", "write"))
    of_read, of_write = jobs["read_mode"], jobs["write_mode"]
    wrote = pa.chunked_array([pa.array(write >= read, pa.bool_())])
    return pc.if_else(wrote, pc.coalesce(of_write, of_read), pc.coalesce(of_read, of_write))


_MODES = pa.schema(
    [
        ("mode", pa.string()),
        ("jobs", pa.int64()),
        ("share", pa.float64()),
        ("mean_read_bytes", pa.float64()),
        ("mean_write_bytes", pa.float64()),
    ]
)


def _mean(values: F64) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def count_population_by_core_hours(jobs: pa.Table) -> pa.Table:
    """Jobs that have ended by class of core-hours, smallest first: `core_hours` (null: cores not known), `jobs`,
    `mean_read_bytes`, `mean_write_bytes`, `max_read_bytes`, `max_write_bytes`."""
    ended = jobs.filter(pc.and_kleene(pc.is_valid(jobs["end_ns"]), pc.is_valid(jobs["start_ns"])))
    hours = (
        read_float_column(ended, "cores")
        * (read_float_column(ended, "end_ns") - read_float_column(ended, "start_ns"))
        / 3600e9
    )
    place = np.searchsorted([edge for edge, _ in CORE_HOURS], np.nan_to_num(hours), side="left")
    names = [*(name for _, name in CORE_HOURS), LARGEST, None]
    place = np.where(np.isnan(hours), len(names) - 1, place)
    read, write = read_float_column(ended, "read_bytes"), read_float_column(ended, "write_bytes")
    rows = [
        {
            "core_hours": name,
            "jobs": int((place == k).sum()),
            "mean_read_bytes": _mean(read[place == k]),
            "mean_write_bytes": _mean(write[place == k]),
            "max_read_bytes": _most(read[place == k]),
            "max_write_bytes": _most(write[place == k]),
        }
        for k, name in enumerate(names)
        if name is not None or (place == k).any()
    ]
    return pa.Table.from_pylist(rows, schema=_CORE_HOURS)


_CORE_HOURS = pa.schema(
    [
        ("core_hours", pa.string()),
        ("jobs", pa.int64()),
        ("mean_read_bytes", pa.float64()),
        ("mean_write_bytes", pa.float64()),
        ("max_read_bytes", pa.float64()),
        ("max_write_bytes", pa.float64()),
    ]
)


def _most(values: F64) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else None


def summarise_n_to_one_population(jobs: pa.Table) -> pa.Table:
    """Bandwidth of N-1 jobs by N: `processes` (lower edge of a class, powers of 4), `way`, `jobs`,
    `median_bytes_per_s`, `highest_bytes_per_s`. At the published site none passed 250 MB/s, however many wrote."""
    rows = []
    processes = read_float_column(jobs, "processes")
    for way in ("read", "write"):
        rate = read_float_column(jobs, f"{way}_bandwidth_bytes_per_s")
        shared = pc.fill_null(pc.equal(jobs[f"{way}_mode"], "N-1"), False).to_numpy(zero_copy_only=False)
        mine = shared & (rate > 0) & (processes >= 1)
        step = np.floor(np.log2(np.where(mine, processes, 1)) / 2).astype(int)
        for k in np.unique(step[mine]):
            some = rate[mine & (step == k)]
            rows.append(
                {
                    "processes": 4 ** int(k),
                    "way": way,
                    "jobs": len(some),
                    "median_bytes_per_s": float(np.median(some)),
                    "highest_bytes_per_s": float(some.max()),
                }
            )
    return pa.Table.from_pylist(rows, schema=_N_TO_ONE)


_N_TO_ONE = pa.schema(
    [
        ("processes", pa.int64()),
        ("way", pa.string()),
        ("jobs", pa.int64()),
        ("median_bytes_per_s", pa.float64()),
        ("highest_bytes_per_s", pa.float64()),
    ]
)


def rank_population_by_volume(jobs: pa.Table, by: str, from_ns: int, to_ns: int, most: int = 20) -> pa.Table:
    """Users, programs or projects (`by`) by volume of their jobs that began in the window, and the trend: `name`,
    `jobs`, `bytes`, `share`, `metadata_ops`, `core_hours`, `earlier_bytes` of the equally long time before (null: no
    job of anyone is known then) and `trend` (bytes over earlier bytes; null without any earlier)."""
    start = read_float_column(jobs, "start_ns")
    now = jobs.filter(pa.array((start >= from_ns) & (start < to_ns)))
    before = jobs.filter(pa.array((start >= 2 * from_ns - to_ns) & (start < from_ns)))
    then = dict(zip(*_summed(before, by), strict=True))
    names, sums = _summed(now, by)
    total = sum(one["bytes"] or 0 for one in sums)
    rows = []
    for name, one in sorted(zip(names, sums, strict=True), key=lambda x: (-(x[1]["bytes"] or 0), str(x[0]))):
        earlier = (then[name]["bytes"] if name in then else 0) if before.num_rows else None
        rows.append(
            {
                "name": name,
                **one,
                "share": (one["bytes"] or 0) / total if total else None,
                "earlier_bytes": earlier,
                "trend": one["bytes"] / earlier if one["bytes"] is not None and earlier else None,
            }
        )
    return pa.Table.from_pylist(rows[:most], schema=_RANKING)


_RANKING = pa.schema(
    [
        ("name", pa.string()),
        ("jobs", pa.int64()),
        ("bytes", pa.int64()),
        ("share", pa.float64()),
        ("metadata_ops", pa.int64()),
        ("core_hours", pa.float64()),
        ("earlier_bytes", pa.int64()),
        ("trend", pa.float64()),
    ]
)


def _summed(jobs: pa.Table, by: str) -> tuple[list[str | None], list[dict[str, float | None]]]:
    hours = (
        read_float_column(jobs, "cores")
        * (read_float_column(jobs, "end_ns") - read_float_column(jobs, "start_ns"))
        / 3600e9
    )
    flat = pa.table(
        {
            "name": jobs[by],
            "bytes": pa.array(sum_byte_columns(jobs), from_pandas=True),
            "metadata_ops": jobs["metadata_ops"],
            "core_hours": pa.array(hours, from_pandas=True),
        }
    )
    found = flat.group_by("name").aggregate(
        [("bytes", "sum"), ("metadata_ops", "sum"), ("core_hours", "sum"), ([], "count_all")]
    )
    rows = [
        {
            "jobs": row["count_all"],
            "bytes": None if row["bytes_sum"] is None else int(row["bytes_sum"]),
            "metadata_ops": row["metadata_ops_sum"],
            "core_hours": row["core_hours_sum"],
        }
        for row in found.to_pylist()
    ]
    return found["name"].to_pylist(), rows

"""Summaries of repeated benchmark runs as pytokio writes them (one CSV line a run: Darshan's figures of the run, what
the file system's servers counted meanwhile, its health, other jobs), as runs with factors.

The format of the data of Lockwood et al., "A Year in the Life of a Parallel File System" (SC18). Lines of some files
have an unnamed index before the first named column. Not here: ranking factors (`analysis.factors`).
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from fairlead.core.errors import InputError
from fairlead.core.model.repeated_runs import Runs

F64 = NDArray[np.float64]
_RATES = ("open", "close", "readdir", "getattr", "getxattr", "setattr", "unlink", "rename", "mkdir", "statfs")
_PLAIN = {
    "mds_cpu_max": "fs_max_mds_cpu",
    "mds_cpu": "fs_ave_mds_cpu",
    "oss_cpu": "fs_ave_oss_cpu",
    "oss_cpu_max": "fs_max_oss_cpu",
    "fullest_target": "fshealth_ost_most_full_pct",
    "target_fullness": "fshealth_ost_avg_full_pct",
    "overloaded_servers": "fshealth_ost_overloaded_oss_count",
    "concurrent_nodes": "jobsdb_concurrent_nodes",
    "concurrent_jobs": "jobsdb_concurrent_jobs",
    "job_radius": "topology_job_max_radius",
}
FAMILIES = {
    "bandwidth contention": ("coverage_bandwidth", "others_read", "others_write"),
    "metadata load": ("others_open", *(f"{op}_rate" for op in _RATES[1:]), "inode_rate", "mds_cpu", "mds_cpu_max"),
    "server load": ("oss_cpu", "oss_cpu_max", "overloaded_servers"),
    "space": ("fullest_target", "target_fullness"),
    "other jobs": ("concurrent_nodes", "concurrent_jobs", "concurrent_node_hours"),
    "placement": ("job_radius",),
}
"""Factors by what they tell of. `coverage_bandwidth` is the run's share of the bytes the file system moved meanwhile
(coverage factor, Lockwood et al.)."""


def read_tokio_runs(path: Path) -> Runs:
    """The runs of one file (`.csv`, `.csv.gz`) during which the file system's servers were watched. Groups are file
    system, program, direction, and one or many files. Raises InputError."""
    table = _table(path)
    names = set(table.column_names)
    needed = {
        "_file_system",
        "darshan_app",
        "darshan_agg_perf_by_slowest_posix",
        "fs_tot_bytes_read",
        "fs_tot_bytes_written",
        "darshan_tot_bytes_read_posix",
        "darshan_tot_bytes_written_posix",
    }
    if not needed <= names:
        raise InputError(
            f"has no column {sorted(needed - names)[0]}", where=str(path), remedy="give a file of pytokio summaries"
        )
    begin, end = _times(table)
    moved = _column(table, "fs_tot_bytes_read") + _column(table, "fs_tot_bytes_written")
    # Zeros in all of it: the servers were not watched then.
    watched = np.flatnonzero((moved > 0) & np.isfinite(begin))
    table, begin = table.take(pa.array(watched)), begin[watched]
    seconds = np.maximum(end[watched] - begin, 5.0)
    return Runs(
        performance=_column(table, "darshan_agg_perf_by_slowest_posix"),
        group=_groups(table),
        time=begin,
        factors=_factors(table, seconds),
        families=FAMILIES,
    )


def _table(path: Path) -> pa.Table:
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, gzip.BadGzipFile) as fault:
        raise InputError(f"cannot be read: {fault}", where=str(path), remedy="check the file") from fault
    header, _, rest = content.partition(b"\n")
    names = header.decode("utf-8", "replace").strip().split(",")
    first = rest.partition(b"\n")[0].count(b",") + 1
    if first == len(names) + 1:
        names = ["", *names]
    try:
        return pacsv.read_csv(
            pa.BufferReader(rest), read_options=pacsv.ReadOptions(column_names=names, autogenerate_column_names=False)
        )
    except pa.ArrowInvalid as fault:
        raise InputError(
            f"is not a table: {str(fault).splitlines()[0]}", where=str(path), remedy="give a file of pytokio summaries"
        ) from fault


def _column(table: pa.Table, name: str) -> F64:
    try:
        return np.asarray(table[name].cast(pa.float64(), safe=False).to_numpy(), np.float64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as fault:
        raise InputError(
            f"column {name} does not hold numbers", where=name, remedy="give a file of pytokio summaries"
        ) from fault


def _times(table: pa.Table) -> tuple[F64, F64]:
    """Begin and end, epoch seconds. Darshan's where they are plausible: those of the join may be in a wrong time zone
    (errata of the data), but in some files Darshan's columns hold something else."""
    pairs = (("darshan_start_time", "darshan_end_time"), ("_datetime_start", "_datetime_end"))
    for first, last in pairs:
        if first in table.column_names and last in table.column_names:
            begin, end = _column(table, first), _column(table, last)
            if np.nanmin(begin, initial=np.inf) > 1e9 and np.all((end >= begin) | np.isnan(end)):
                return begin, end
    raise InputError("has no times of runs", where="darshan_start_time", remedy="give a file of pytokio summaries")


def _writes(table: pa.Table) -> NDArray[np.bool_]:
    return _column(table, "darshan_tot_bytes_written_posix") > _column(table, "darshan_tot_bytes_read_posix")


def _groups(table: pa.Table) -> NDArray[np.int64]:
    writes = _writes(table)
    shared = np.zeros(table.num_rows, np.bool_)
    for way, mine in (("write", writes), ("read", ~writes)):
        if (name := f"darshan_biggest_{way}_api_files") in table.column_names:
            shared |= mine & (_column(table, name) <= 2)
    program = pc.replace_substring_regex(table["darshan_app"].cast(pa.string()), r"^.*/", "")
    processes = table["darshan_nprocs"].cast(pa.string()) if "darshan_nprocs" in table.column_names else program
    kind = pa.array(np.char.add(writes.astype("U5"), shared.astype("U5")))
    words = pc.binary_join_element_wise(table["_file_system"].cast(pa.string()), program, processes, kind, "\n")
    return np.unique(words.to_numpy(zero_copy_only=False).astype(str), return_inverse=True)[1].astype(np.int64)


def _factors(table: pa.Table, seconds: F64) -> dict[str, F64]:
    names = set(table.column_names)
    read, written = (_column(table, f"darshan_tot_bytes_{way}_posix") for way in ("read", "written"))
    all_read, all_written = (_column(table, f"fs_tot_bytes_{way}") for way in ("read", "written"))
    found = {
        "coverage_bandwidth": (read + written) / (all_read + all_written),
        "others_read": np.maximum(all_read - read, 0) / seconds,
        "others_write": np.maximum(all_written - written, 0) / seconds,
    }
    if {"fs_tot_open_ops", "darshan_tot_opens_posix"} <= names:
        opens = _column(table, "fs_tot_open_ops") - _column(table, "darshan_tot_opens_posix")
        found["others_open"] = np.maximum(opens, 0) / seconds
    rates: Mapping[str, str] = {f"{op}_rate": f"fs_tot_{op}_ops" for op in _RATES[1:]} | {
        "inode_rate": "fs_tot_inode_updates",
        "concurrent_node_hours": "jobsdb_concurrent_nodehrs",
    }
    found |= {name: _column(table, column) / seconds for name, column in rates.items() if column in names}
    return found | {name: _column(table, column) for name, column in _PLAIN.items() if column in names}

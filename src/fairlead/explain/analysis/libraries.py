"""Which I/O libraries the job used and how: MPI-IO, HDF5, PnetCDF, STDIO, and how files are striped."""

from __future__ import annotations

import numpy as np

from fairlead.explain.analysis.job_view import JobView
from fairlead.explain.analysis.metric_docs import Metrics, Value, check_metric_docs, compute_metric_share
from fairlead.explain.analysis.modes import DirectionMode
from fairlead.explain.analysis.request_metrics import SMALL_BINS

_HDF5_SUFFIXES = (".h5", ".hdf5", ".hdf", ".nc", ".nc4")

DOCS: Metrics = {
    "mpiio_used": ("bool", "whether any file was opened through MPI-IO"),
    "mpiio_{d}_ops": ("count", "MPI-IO operations, all kinds"),
    "mpiio_independent_{d}_ops": ("count", "independent MPI-IO operations"),
    "mpiio_independent_{d}_share": ("share", "of the MPI-IO operations that are independent"),
    "mpiio_collective_{d}_share": ("share", "of the MPI-IO operations that are collective (split ones included)"),
    "mpiio_nonblocking_{d}_share": ("share", "of the MPI-IO operations that are non-blocking"),
    "mpiio_{d}_small_share": ("share", "of the MPI-IO operations of at most 1 MiB"),
    "collective_buffering_{d}": ("ratio", "MPI-IO operations per POSIX operation: above 1, requests were combined"),
    "sieved_read_bytes": ("bytes", "bytes read below MPI-IO that the program never asked to read (data sieving)"),
    "aggregators": ("count", "processes that did the I/O of collective calls: by the hint cb_nodes, else those seen"),
    "aggregators_per_node": ("ratio", "aggregators per compute node, when both are known"),
    "hdf5_used": ("bool", "whether HDF5 was used (its module, or files with its suffix)"),
    "hdf5_datasets": ("count", "HDF5 datasets used"),
    "hdf5_{d}_ops": ("count", "HDF5 dataset operations"),
    "hdf5_small_share": ("share", "of the HDF5 dataset operations of at most 1 MiB"),
    "hdf5_collective": ("bool", "whether all HDF5 dataset transfers asked for collective MPI-IO"),
    "pnetcdf_used": ("bool", "whether PnetCDF was used"),
    "stdio_bytes": ("bytes", "bytes through STDIO, standard streams apart"),
    "stdio_bytes_share": ("share", "of all bytes that went through STDIO"),
    "stdio_time_s": ("s", "mean time per active process in STDIO reads and writes"),
    "stream_bytes": ("bytes", "bytes through the standard streams"),
    "striping_known": ("bool", "whether the striping of files was recorded"),
    "shared_file_stripes": ("count", "stripe count of the shared file with the most bytes"),
    "shared_file_stripe_bytes": ("bytes", "stripe size of the shared file with the most bytes"),
    "own_file_stripes": ("count", "largest stripe count among files used by one process each"),
    "targets_used": ("count", "storage targets that hold the files"),
}


def compute_library_metrics(view: JobView, active: int, modes: dict[str, DirectionMode]) -> dict[str, Value]:
    """All metrics of `DOCS`. `active` processes did I/O; `modes` per direction at the lowest interface."""
    out = _mpiio(view) | _hdf5(view) | _stdio(view, active) | _striping(view)
    out |= _aggregators(view, out, modes)
    out["pnetcdf_used"] = bool(view.counters.select_rows("PNETCDF_FILE", "PNETCDF_VAR").any())
    return check_metric_docs(out, DOCS, "library_metrics")


def _mpiio(view: JobView) -> dict[str, Value]:
    counters = view.counters
    rows = counters.select_rows("MPI-IO")
    posix = counters.select_rows("POSIX")
    out: dict[str, Value] = {"mpiio_used": bool(rows.any())}
    through = np.isin(counters.file_id, counters.file_id[rows]) & posix
    for d, s in (("read", "reads"), ("write", "writes")):
        kinds = {k: int(counters.read_ints(f"{k}_{s}")[rows].sum()) for k in ("indep", "coll", "split", "nb")}
        total = sum(kinds.values())
        sizes = counters.read_lists(f"{d}_sizes", 10)[rows].sum(axis=0)
        out[f"mpiio_{d}_ops"] = total
        out[f"mpiio_independent_{d}_ops"] = kinds["indep"]
        out[f"mpiio_independent_{d}_share"] = compute_metric_share(kinds["indep"], total)
        out[f"mpiio_collective_{d}_share"] = compute_metric_share(kinds["coll"] + kinds["split"], total)
        out[f"mpiio_nonblocking_{d}_share"] = compute_metric_share(kinds["nb"], total)
        out[f"mpiio_{d}_small_share"] = compute_metric_share(int(sizes[:SMALL_BINS].sum()), int(sizes.sum()))
        out[f"collective_buffering_{d}"] = (
            compute_metric_share(total, int(counters.read_ints(s)[through].sum()))
            if kinds["coll"] + kinds["split"]
            else None
        )
    below = int(counters.read_ints("bytes_read")[through].sum())
    asked = int(counters.read_ints("bytes_read")[rows].sum())
    out["sieved_read_bytes"] = max(below - asked, 0) if posix.any() else None
    return out


def _aggregators(view: JobView, out: dict[str, Value], modes: dict[str, DirectionMode]) -> dict[str, Value]:
    """Aggregators of collective buffering. Seen are those that wrote (else read) below collective calls, where they
    are fewer than all processes: with as many, nothing was gathered."""
    hint = (view.job.hints or {}).get("cb_nodes", "")
    count: int | None = int(hint) if hint.isdigit() else None
    for d in ("write", "read"):
        collective, seen = out[f"mpiio_collective_{d}_share"], modes[d].processes
        if count is None and seen is not None and isinstance(collective, float) and collective > 0.5:
            count = seen if 0 < seen < view.processes else None
    nodes = len(view.job.nodes) if view.job.nodes else view.job.nodes_count
    return {"aggregators": count, "aggregators_per_node": compute_metric_share(count, nodes)}


def _hdf5(view: JobView) -> dict[str, Value]:
    counters = view.counters
    datasets = counters.select_rows("H5D")
    used = bool(counters.select_rows("H5F", "H5D").any())
    if not used:
        seen = set(counters.file_id[counters.select_rows("POSIX", "MPI-IO")].tolist())
        used = any(view.paths.get(i, "").lower().endswith(_HDF5_SUFFIXES) for i in seen)
    sizes = (counters.read_lists("read_sizes", 10) + counters.read_lists("write_sizes", 10))[datasets].sum(axis=0)
    collective = counters.mark_known("use_mpiio_collective") & datasets
    return {
        "hdf5_used": used,
        "hdf5_datasets": len(np.unique(counters.file_id[datasets])) if datasets.any() else None,
        "hdf5_read_ops": int(counters.read_ints("reads")[datasets].sum()) if datasets.any() else None,
        "hdf5_write_ops": int(counters.read_ints("writes")[datasets].sum()) if datasets.any() else None,
        "hdf5_small_share": compute_metric_share(int(sizes[:SMALL_BINS].sum()), int(sizes.sum())),
        "hdf5_collective": bool((counters.read_ints("use_mpiio_collective")[collective] > 0).all())
        if collective.any()
        else None,
    }


def _stdio(view: JobView, active: int) -> dict[str, Value]:
    counters = view.counters
    moved = counters.read_ints("bytes_read") + counters.read_ints("bytes_written")
    stdio = counters.select_rows("STDIO")
    spent = counters.read_floats("read_time_s") + counters.read_floats("write_time_s")
    total = int(moved[counters.lowest].sum())
    return {
        "stdio_bytes": int(moved[stdio].sum()),
        "stdio_bytes_share": compute_metric_share(int(moved[stdio].sum()), total),
        "stdio_time_s": float(np.maximum(spent, 0)[stdio].sum()) / active,
        "stream_bytes": int(moved[counters.streams].sum()),
    }


def _striping(view: JobView) -> dict[str, Value]:
    layouts = view.layouts
    names = ("shared_file_stripes", "shared_file_stripe_bytes", "own_file_stripes", "targets_used")
    if not layouts.num_rows:
        return {"striping_known": False, **dict.fromkeys(names)}
    counters = view.counters
    rows = counters.select_rows("POSIX")
    moved = counters.read_ints("bytes_read") + counters.read_ints("bytes_written")
    striped = {
        int(i): (int(c or 0), int(s or 0))
        for i, c, s in zip(
            *(layouts.column(n).to_pylist() for n in ("file_id", "stripe_count", "stripe_size")), strict=True
        )
    }
    held = np.isin(counters.file_id, np.fromiter(striped, np.int64, len(striped)))
    shared = rows & counters.shared & held & (moved > 0)
    own = rows & ~counters.shared & held & (moved > 0)
    biggest = striped[int(counters.file_id[shared][np.argmax(moved[shared])])] if shared.any() else (None, None)
    targets = layouts.column("targets").combine_chunks()
    return {
        "striping_known": True,
        "shared_file_stripes": biggest[0],
        "shared_file_stripe_bytes": biggest[1],
        "own_file_stripes": max((striped[int(i)][0] for i in np.unique(counters.file_id[own])), default=None),
        "targets_used": len(np.unique(targets.flatten().to_numpy(zero_copy_only=False))),
    }

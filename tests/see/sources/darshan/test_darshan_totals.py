"""Every Darshan log of the shared data against PyDarshan: every counter of every record, segments, bins, targets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fairlead.core.model.identity import compute_file_identity, identify_mount
from fairlead.core.model.tables import SIZE_BINS
from fairlead.see.sources.darshan import DarshanLog, read_darshan_source

pytestmark = pytest.mark.shared_data

COUNTER_MODULES = ("POSIX", "MPI-IO", "STDIO", "H5F", "H5D", "PNETCDF_FILE", "PNETCDF_VAR")
RENAMED = {"fdsyncs": "fdatasyncs", "rename_sources": "renames"}
LISTS = {
    "read_sizes": [f"size_read_{b.lower()}" for b in SIZE_BINS],
    "access_sizes": [f"access{k}_access" for k in (1, 2, 3, 4)],
    "access_counts": [f"access{k}_count" for k in (1, 2, 3, 4)],
    "strides": [f"stride{k}_stride" for k in (1, 2, 3, 4)],
    "stride_counts": [f"stride{k}_count" for k in (1, 2, 3, 4)],
}
LISTS["write_sizes"] = [name.replace("read", "write") for name in LISTS["read_sizes"]]
PLACE = {name: (column, k) for column, names in LISTS.items() for k, name in enumerate(names)}
SHARED_ONLY = ("fastest_rank", "slowest_rank", "variance_rank")
UNSWAPPED = {"POSIX_F_META_TIME", "POSIX_F_MAX_READ_TIME", "POSIX_F_MAX_WRITE_TIME"}
"""libdarshan 3.5 forgets to swap these for old POSIX records of big-endian machines."""
DROPPED = ("variance_rank_time", "variance_rank_bytes")
"""libdarshan 3.5 loses the last two doubles when it converts versions 2 and 3 of POSIX to 4, and gives 0."""


def logs(shared_data: Path) -> list[Path]:
    found = sorted([*shared_data.glob("darshan/**/*.darshan"), *shared_data.glob("own/**/*.darshan")])
    assert len(found) > 50
    return found


@contextmanager
def peer(path: Path) -> Iterator[tuple[object, dict]]:
    backend = pytest.importorskip(
        "darshan.backend.cffi_backend", reason="PyDarshan is the reference: pip install darshan"
    )
    log = backend.log_open(str(path))
    try:
        yield backend, log
    finally:
        backend.log_close(log)


def peer_records(backend: object, log: dict, module: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    records = []
    while (record := backend.log_get_record(log, module, dtype="numpy")) is not None:
        records.append(record)
    return (
        np.array([r["id"] for r in records], np.uint64),
        np.array([r["rank"] for r in records], np.int64),
        np.stack([r["counters"] for r in records]) if records else np.empty((0, 0)),
        np.stack([r["fcounters"] for r in records]) if records else np.empty((0, 0)),
    )


def values_of(table: pa.Table, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Our values of a Darshan counter (lower case, no prefix), nulls as 0, and where they are known."""
    if name in PLACE:
        column, place = PLACE[name]
        array = pc.list_element(table[column], place)
    elif name in table.schema.names and name != "extra":
        array = table[name]
    else:
        looked_up = pc.map_lookup(table["extra"], pa.scalar(name), "first")
        array = looked_up
    known = np.asarray(array.is_valid())
    return np.asarray(array.fill_null(0)), known


def check_counters(path: Path, ours: DarshanLog, backend: object, log: dict, module: str) -> int:
    ids, ranks, counters, fcounters = peer_records(backend, log, module)
    table = ours.tables["file_counters"].filter(
        pc.equal(ours.tables["file_counters"]["interface"].cast(pa.string()), module)
    )
    table = table.combine_chunks()
    where = f"{path.name} {module}"
    assert table.num_rows == len(ids), where
    if not len(ids):
        return 0
    assert np.array_equal(np.asarray(table["rank"]), ranks), where
    mounts = [mount for mount, _ in ours.mounts]
    expected = [compute_file_identity(identify_mount(ours.names[i], mounts), ours.names[i]) for i in ids.tolist()]
    assert table["file_id"].to_pylist() == expected, where
    names = backend.counter_names(module)
    checked = 0
    for k, full in enumerate(names):
        name = full.lower().removeprefix(module.lower().replace("-", "") + "_")
        check_column(where, table, full, RENAMED.get(name, name.replace("_agg_", "_")), counters[:, k], ranks)
        checked += 1
    prefix = module.lower().replace("-", "") + "_f_"
    big_endian = "ppc64" in path.name
    for k, full in enumerate(backend.fcounter_names(module)):
        theirs = fcounters[:, k]
        name = full.lower().removeprefix(prefix)
        if big_endian and full in UNSWAPPED:
            theirs = theirs.byteswap()
        if module == "POSIX" and ours.modules[module].version in (2, 3) and name in DROPPED:
            assert not theirs.any(), (where, "libdarshan no longer loses this: compare it")
            continue
        if name.endswith("_timestamp") and not name.startswith("wait"):
            check_time(where, table, name.replace("_timestamp", "_ns"), theirs, ours.job.start_ns)
        else:
            column = f"{name}_s" if f"{name}_s" in table.schema.names else name
            check_column(where, table, full, column, theirs, ranks)
        checked += 1
    return checked


def check_column(where: str, table: pa.Table, full: str, name: str, theirs: np.ndarray, ranks: np.ndarray) -> None:
    values, known = values_of(table, name)
    in_extra = name not in PLACE and name not in table.schema.names
    if name == "renamed_from":
        theirs = theirs.view(np.uint64)
    expected = theirs.astype(np.float64) if in_extra else theirs
    assert np.array_equal(values[known], expected[known]), (where, full)
    absent = theirs[~known]
    unknown = absent == -1
    if in_extra:
        unknown |= absent == 0
    if name.startswith(SHARED_ONLY):
        unknown |= (absent == 0) & (ranks[~known] >= 0)
    assert unknown.all(), (where, full, absent[~unknown][:5])
    totals = np.where(theirs == -1, 0, theirs).sum()
    assert np.where(known, values, 0).sum() == totals, (where, full)


def check_time(where: str, table: pa.Table, column: str, theirs: np.ndarray, start_ns: int) -> None:
    happened = (theirs != 0) & (theirs != -1)
    expected = [
        start_ns + round(t * 1e9) if there else None for t, there in zip(theirs.tolist(), happened, strict=True)
    ]
    assert table[column].to_pylist() == expected, (where, column)


def test_every_counter_of_every_log_equals_pydarshan(shared_data: Path) -> None:
    checked = 0
    for path in logs(shared_data):
        ours = read_darshan_source(path)
        with peer(path) as (backend, log):
            theirs = backend.log_get_modules(log)
            for module in COUNTER_MODULES:
                if module in theirs:
                    checked += check_counters(path, ours, backend, log, module)
            mine = {m.name: (m.version, m.partial, m.compressed_bytes) for m in ours.modules.values()}
            assert mine == {n: (m["ver"], m["partial_flag"], m["len"]) for n, m in theirs.items()}, path.name
    assert checked > 5_000


def test_job_names_and_mounts_equal_pydarshan(shared_data: Path) -> None:
    for path in logs(shared_data):
        ours = read_darshan_source(path)
        with peer(path) as (backend, log):
            job = backend.log_get_job(log)
            assert ours.job.job_id == str(job["jobid"])
            assert ours.job.user == str(job["uid"])
            assert ours.job.processes == job["nprocs"]
            assert ours.job.start_ns == job["start_time_sec"] * 10**9 + job["start_time_nsec"]
            assert ours.job.run_time_s == pytest.approx(job["run_time"], abs=1e-6)
            assert ours.version == job["log_ver"]
            assert ours.metadata == job["metadata"]
            assert ours.executable == backend.log_get_exe(log)
            # A command line with a line break in it leaves libdarshan with a mount point that is none.
            theirs = [mount for mount in backend.log_get_mounts(log) if mount[0].startswith("/")]
            assert sorted(ours.mounts) == sorted(theirs), path.name
            assert ours.names == backend.log_get_name_records(log), path.name


def peer_segments(backend: object, log: dict, module: str) -> dict[str, list]:
    columns: dict[str, list] = {k: [] for k in ("id", "rank", "node", "op", "offset", "length", "start", "end")}
    while (record := backend.log_get_dxt_record(log, module)) is not None:
        for op in ("write", "read"):
            segments = record[f"{op}_segments"]
            columns["id"] += [record["id"]] * len(segments)
            columns["rank"] += [record["rank"]] * len(segments)
            columns["node"] += [record["hostname"]] * len(segments)
            columns["op"] += [op] * len(segments)
            columns["offset"] += [s["offset"] for s in segments]
            columns["length"] += [s["length"] for s in segments]
            columns["start"] += [s["start_time"] for s in segments]
            columns["end"] += [s["end_time"] for s in segments]
    return columns


@pytest.mark.parametrize(("module", "interface"), [("DXT_POSIX", "POSIX"), ("DXT_MPIIO", "MPI-IO")])
def test_every_segment_equals_pydarshan(shared_data: Path, module: str, interface: str) -> None:
    seen = 0
    for path in logs(shared_data):
        ours = read_darshan_source(path)
        if module not in ours.modules:
            continue
        ops = ours.tables["ops"]
        ops = ops.filter(pc.equal(ops["interface"].cast(pa.string()), interface)).combine_chunks()
        with peer(path) as (backend, log):
            theirs = peer_segments(backend, log, module)
        assert ops.num_rows == len(theirs["id"]), path.name
        seen += ops.num_rows
        assert ops["rank"].to_pylist() == theirs["rank"], path.name
        assert ops["node"].cast(pa.string()).to_pylist() == theirs["node"], path.name
        assert ops["op"].cast(pa.string()).to_pylist() == theirs["op"], path.name
        assert ops["size"].to_pylist() == theirs["length"], path.name
        offsets = ops["offset"].to_pylist()
        if ours.modules[module].version == 1 and module == "DXT_MPIIO":
            assert set(offsets) == {None}
        else:
            assert offsets == theirs["offset"], path.name
        assert ours.job.start_ns is not None
        start, end = (np.rint(np.array(theirs[k]) * 1e9).astype(np.int64) + ours.job.start_ns for k in ("start", "end"))
        assert np.array_equal(np.asarray(ops["start_ns"]), start), path.name
        assert np.array_equal(np.asarray(ops["end_ns"]), end), path.name
        assert np.array_equal(np.asarray(ops["busy_ns"]), end - start), path.name
        mounts = [mount for mount, _ in ours.mounts]
        files = {
            i: compute_file_identity(identify_mount(ours.names[i], mounts), ours.names[i]) for i in set(theirs["id"])
        }
        assert ops["file_id"].to_pylist() == [files[i] for i in theirs["id"]], path.name
    assert seen > (400_000 if module == "DXT_POSIX" else 5_000)


def test_every_heat_map_bin_equals_pydarshan(shared_data: Path) -> None:
    words = {"MPI-IO": "MPIIO"}
    bins = 0
    for path in logs(shared_data):
        ours = read_darshan_source(path)
        if "HEATMAP" not in ours.modules:
            continue
        assert ours.job.start_ns is not None
        rows: list[tuple] = []
        with peer(path) as (backend, log):
            while (record := backend._log_get_heatmap_record(log)) is not None:
                width = round(record["bin_width_seconds"] * 1e9)
                name = ours.names[record["id"]]
                for k, (read, write) in enumerate(zip(record["read_bins"], record["write_bins"], strict=True)):
                    rows.append((name, record["rank"], ours.job.start_ns + k * width, width, read, write))
        mine = [
            (
                f"heatmap:{words.get(r['interface'], r['interface'])}",
                r["rank"],
                r["bin_start_ns"],
                r["bin_ns"],
                r["read_bytes"],
                r["write_bytes"],
            )
            for r in ours.tables["heatmap"].to_pylist()
        ]
        assert mine == rows, path.name
        bins += len(rows)
    assert bins > 5_000


def test_every_lustre_layout_equals_pydarshan(shared_data: Path) -> None:
    components = 0
    for path in logs(shared_data):
        ours = read_darshan_source(path)
        if "LUSTRE" not in ours.modules:
            continue
        mounts = [mount for mount, _ in ours.mounts]
        rows: list[tuple] = []
        with peer(path) as (backend, log):
            while (record := backend._log_get_lustre_record(log, dtype="dict")) is not None:
                name = ours.names[record["id"]]
                for k, part in enumerate(record["components"]):
                    c = part["counters"]
                    end = c["LUSTRE_COMP_EXT_END"]
                    rows.append(
                        (
                            compute_file_identity(identify_mount(name, mounts), name),
                            k,
                            c["LUSTRE_COMP_STRIPE_SIZE"],
                            c["LUSTRE_COMP_STRIPE_COUNT"],
                            part["pool_name"] or None,
                            c["LUSTRE_COMP_EXT_START"],
                            None if end == -1 else end,
                            list(part["ost_ids"]),
                        )
                    )
        names = ("file_id", "component", "stripe_size", "stripe_count", "pool", "extent_start", "extent_end", "targets")
        mine = [tuple(r[n] for n in names) for r in ours.tables["layouts"].to_pylist()]
        assert mine == rows, path.name
        components += len(rows)
    assert components > 3_000


def test_labelled_logs_hold_what_was_run(shared_data: Path) -> None:
    import json

    folder = shared_data / "own" / "darshan_labelled"
    truth = json.loads((folder / "truth.json").read_text())
    assert len(truth) == 9
    for name, said in truth.items():
        ours = read_darshan_source(folder / f"{name}.darshan")
        counters = ours.tables["file_counters"]
        posix = counters.filter(pc.equal(counters["interface"].cast(pa.string()), "POSIX"))
        totals = {
            "read_bytes": "bytes_read",
            "write_bytes": "bytes_written",
            "reads": "reads",
            "writes": "writes",
            "opens": "opens",
            "stats": "stats",
        }
        assert {k: pc.sum(posix[c]).as_py() for k, c in totals.items()} == said["posix"], name
        assert ours.tables["ops"].num_rows == said["dxt_segments"], name
        assert ours.job.processes == said["processes"]
        assert ours.job.run_time_s == pytest.approx(said["run_time_s"], abs=1e-6)
        partial = [m for m in ours.missing if m.kind == "partial_module"]
        assert [m.what for m in partial] == (["DXT_POSIX"] if name == "big_4k_random_n1_4" else [])
        if partial:
            assert "196,359 segments" in partial[0].why
            assert "DARSHAN_MODMEM" in (partial[0].remedy or "")

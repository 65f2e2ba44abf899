"""Module records of Darshan logs: counters of every version, traces, heat maps, layouts, and what is left out."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from darshan_writing import START_NS, START_S, Log, Module, counted, heat, trace
from fairlead.see.sources.darshan import DarshanLog, read_darshan_source
from fairlead.see.sources.darshan.dxt import walk_dxt_segments
from fairlead.see.sources.darshan.layouts import load_darshan_layouts
from fairlead.see.sources.darshan.regions import DamagedRegionError

START = START_S * 10**9 + START_NS
SIZES = {
    ("POSIX", 1): 680,
    ("POSIX", 2): 648,
    ("POSIX", 3): 664,
    ("POSIX", 4): 704,
    ("MPI-IO", 1): 544,
    ("MPI-IO", 2): 544,
    ("MPI-IO", 3): 560,
    ("STDIO", 1): 240,
    ("STDIO", 2): 248,
    ("H5F", 1): 40,
    ("H5F", 2): 56,
    ("H5F", 3): 80,
    ("H5D", 1): 904,
    ("H5D", 2): 912,
    ("PNETCDF_FILE", 1): 48,
    ("PNETCDF_FILE", 2): 64,
    ("PNETCDF_FILE", 3): 152,
    ("PNETCDF_VAR", 1): 1120,
}


def read_module(folder: Path, name: str, module: Module, **more: object) -> DarshanLog:
    return read_darshan_source(Log(modules={name: module}, **more).write(folder))  # type: ignore[arg-type]


def numbered(name: str, version: int, order: str = "<", rank: int = 0) -> bytes:
    """A record whose n-th counter is 100 + n and whose n-th double is 1 + n / 8."""
    layout = load_darshan_layouts()[name][version]
    counters = [100 + k for k in range(len(layout.counters))]
    if "fopens" in layout.counters:
        counters[layout.counters.index("fopens")] = 0
    floats = [1 + k / 8 for k in range(len(layout.floats))]
    return counted(order, 1, rank, counters, floats, 77 if layout.file_record else None)


def test_records_have_the_sizes_darshan_writes() -> None:
    assert {
        (n, v): lay.build_dtype("<").itemsize for n, by in load_darshan_layouts().items() for v, lay in by.items()
    } == SIZES


@pytest.mark.parametrize(("name", "version"), SIZES)
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_counter_of_every_version_arrives(tmp_path: Path, name: str, version: int, order: str) -> None:
    ours = read_module(tmp_path, name, Module(version, [numbered(name, version, order)]), order=order)
    (row,) = ours.tables["file_counters"].to_pylist()
    layout = load_darshan_layouts()[name][version]
    seen: list[float] = []
    for column, value in row.items():
        if column in ("job_id", "rank", "interface", "file_id") or value is None:
            continue
        if column == "extra":
            seen += [v for _, v in value]
        elif column.endswith("_ns"):
            seen.append((value - START) / 1e9)
        else:
            seen += value if isinstance(value, list) else [value]
    expected = [100.0 + k for k in range(len(layout.counters))] + [1 + k / 8 for k in range(len(layout.floats))]
    if "fopens" in layout.counters:
        expected.remove(100.0 + layout.counters.index("fopens"))
    if layout.file_record:
        expected.append(77.0)
    if (name, version) in (("PNETCDF_FILE", 1), ("PNETCDF_FILE", 2)):
        expected.append(201.0)  # opens: independent and collective together
    assert sorted(seen) == sorted(expected)
    assert row["interface"] == name


def test_counters_an_old_version_lacks_are_null_not_zero(tmp_path: Path) -> None:
    (old,) = read_module(tmp_path, "POSIX", Module(2, [numbered("POSIX", 2)])).tables["file_counters"].to_pylist()
    assert old["renames"] is None
    assert old["close_start_ns"] is None
    assert old["open_end_ns"] is None
    assert "filenos" not in dict(old["extra"])
    assert (old["opens"], old["reads"], old["fsyncs"]) == (100, 101, 106)
    assert old["read_end_ns"] == START + 1_375_000_000


def test_minus_one_and_never_are_null_zero_counts_stay(tmp_path: Path) -> None:
    layout = load_darshan_layouts()["POSIX"][4]
    counters = [0] * len(layout.counters)
    counters[layout.counters.index("file_alignment")] = -1
    floats = [0.0] * len(layout.floats)
    floats[layout.floats.index("read_time")] = -1.0
    record = counted("<", 1, 0, counters, floats)
    (row,) = read_module(tmp_path, "POSIX", Module(4, [record])).tables["file_counters"].to_pylist()
    assert (row["opens"], row["bytes_read"], row["write_time_s"]) == (0, 0, 0.0)
    assert (row["file_alignment"], row["read_time_s"], row["open_start_ns"]) == (None, None, None)
    assert (row["fastest_rank"], row["slowest_rank_time_s"]) == (None, None)
    assert row["extra"] == []


def test_shared_records_keep_who_was_fastest(tmp_path: Path) -> None:
    layout = load_darshan_layouts()["POSIX"][4]
    record = counted("<", 1, -1, [0] * len(layout.counters), [0.0] * len(layout.floats))
    (row,) = read_module(tmp_path, "POSIX", Module(4, [record])).tables["file_counters"].to_pylist()
    assert (row["rank"], row["fastest_rank"], row["variance_rank_bytes"]) == (-1, 0, 0.0)


def test_posix_records_that_mix_in_streams_are_left_out_and_counted(tmp_path: Path) -> None:
    layout = load_darshan_layouts()["POSIX"][1]
    counters = [1] * len(layout.counters)
    mixed = counted("<", 1, 0, counters, [1.0] * len(layout.floats))
    ours = read_module(tmp_path, "POSIX", Module(1, [mixed + numbered("POSIX", 1)]))
    assert ours.tables["file_counters"].num_rows == 1
    (gap,) = ours.missing
    assert gap.kind == "not_recorded"
    assert gap.why.startswith("1 record with C streams")


def test_unusable_ranks_and_times_are_left_out_and_said(tmp_path: Path) -> None:
    layout = load_darshan_layouts()["STDIO"][2]
    bad = counted("<", 1, 1 << 40, [1] * len(layout.counters), [1.0] * len(layout.floats))
    floats = [float("nan"), float("inf"), -float("inf"), 1e300, *[2.0] * (len(layout.floats) - 4)]
    odd = counted("<", 1, 0, [1] * len(layout.counters), floats)
    ours = read_module(tmp_path, "STDIO", Module(2, [bad + odd]))
    (row,) = ours.tables["file_counters"].to_pylist()
    assert (row["meta_time_s"], row["write_time_s"], row["open_start_ns"]) == (None, None, None)
    assert [gap.kind for gap in ours.missing] == ["damaged", "clock"]


def test_partial_modules_say_what_was_kept_and_what_to_raise(tmp_path: Path) -> None:
    ours = read_module(tmp_path, "POSIX", Module(4, [numbered("POSIX", 4)] * 3, partial=True))
    (gap,) = ours.missing
    assert (gap.kind, gap.what) == ("partial_module", "POSIX")
    assert "ran out of memory: 3 records kept" in gap.why
    assert "DARSHAN_MODMEM" in (gap.remedy or "")
    assert "MAX_RECORDS <n> POSIX" in (gap.remedy or "")


@pytest.mark.parametrize("version", ["3.10", "3.21", "3.41"])
def test_partial_flags_follow_their_module_through_format_versions(tmp_path: Path, version: str) -> None:
    record = numbered("STDIO", 2)
    modules = {"POSIX": Module(4, [numbered("POSIX", 4)]), "STDIO": Module(2, [record], partial=True)}
    ours = read_darshan_source(Log(version=version, modules=modules).write(tmp_path))
    assert {name: module.partial for name, module in ours.modules.items()} == {"POSIX": False, "STDIO": True}


@pytest.mark.parametrize("name", ["BG/Q", "MDHIM", "APXC", "APMPI", "DFS", "DAOS", "FUTURE"])
def test_modules_not_read_are_named_and_not_fatal(tmp_path: Path, name: str) -> None:
    modules = {name: Module(1, [b"whatever"]), "POSIX": Module(4, [numbered("POSIX", 4)])}
    ours = read_darshan_source(Log(modules=modules).write(tmp_path))
    assert ours.tables["file_counters"].num_rows == 1
    (gap,) = ours.missing
    assert gap.kind == "module_not_read"
    assert gap.what.startswith("module 18" if name == "FUTURE" else name)


@pytest.mark.parametrize("name", ["POSIX", "LUSTRE", "HEATMAP", "DXT_POSIX", "DXT_MPIIO"])
@pytest.mark.parametrize("version", [0, 9])
def test_module_versions_not_known_are_said_and_not_fatal(tmp_path: Path, name: str, version: int) -> None:
    modules = {name: Module(version, [bytes(800)]), "STDIO": Module(2, [numbered("STDIO", 2)])}
    ours = read_darshan_source(Log(modules=modules).write(tmp_path))
    assert ours.tables["file_counters"].num_rows == 1
    assert [(gap.kind, gap.what) for gap in ours.missing] == [("module_version", name)]


WRITES = [(0, 10, 0.5, 0.75), (10, 20, 1.0, 1.25)]
READS = [(30, 5, 2.0, 2.5)]


@pytest.mark.parametrize(
    ("name", "version", "words"),
    [
        ("DXT_POSIX", 1, 4),
        ("DXT_POSIX", 2, 5),
        ("DXT_MPIIO", 1, 4),
        ("DXT_MPIIO", 2, 4),
        ("DXT_MPIIO", 3, 5),
    ],
)
@pytest.mark.parametrize("order", ["<", ">"])
def test_segments_of_every_version(tmp_path: Path, name: str, version: int, words: int, order: str) -> None:
    records = trace(order, words, 1, 0, "n1", WRITES, READS) + trace(order, words, 2, 1, "n2", [], READS)
    ours = read_module(tmp_path, name, Module(version, [records]), order=order)
    ops = ours.tables["ops"].to_pylist()
    blind = name == "DXT_MPIIO" and version == 1
    assert [op["offset"] for op in ops] == ([None] * 4 if blind else [0, 10, 30, 30])
    assert [op["size"] for op in ops] == [10, 20, 5, 5]
    assert [op["op"] for op in ops] == ["write", "write", "read", "read"]
    assert [op["rank"] for op in ops] == [0, 0, 0, 1]
    assert [op["node"] for op in ops] == ["n1", "n1", "n1", "n2"]
    assert [op["fs"] for op in ops] == ["/scratch", "/scratch", "/scratch", "/"]
    assert {op["interface"] for op in ops} == {"MPI-IO" if name == "DXT_MPIIO" else "POSIX"}
    assert [op["start_ns"] - START for op in ops] == [500_000_000, 10**9, 2 * 10**9, 2 * 10**9]
    assert [op["busy_ns"] for op in ops] == [250_000_000, 250_000_000, 500_000_000, 500_000_000]
    assert {(op["stride"], op["count"], op["handle"], op["job_id"]) for op in ops} == {(0, 1, None, "4711")}
    assert (ours.job.nodes, ours.job.nodes_count) == (["n1", "n2"], 2)
    assert [gap.what for gap in ours.missing] == (["DXT_MPIIO offsets"] if blind else [])


def test_nodes_are_unknown_when_a_rank_left_no_trace(tmp_path: Path) -> None:
    record = trace("<", 4, 1, 0, "n1", WRITES, [])
    assert read_module(tmp_path, "DXT_POSIX", Module(1, [record]), processes=2).job.nodes is None
    assert read_module(tmp_path, "DXT_POSIX", Module(1, [record]), processes=1).job.nodes == ["n1"]


def test_a_trace_too_large_to_hold_is_read_twice_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = trace("<", 4, 1, 0, "n1", WRITES, READS) + trace("<", 4, 2, 1, "n2", WRITES * 50, READS)
    path = Log(modules={"DXT_POSIX": Module(1, [good, good[:-8]])}).write(tmp_path)
    held = read_darshan_source(path)
    monkeypatch.setattr("fairlead.see.sources.darshan.source._HELD_BYTES", 0)
    twice = read_darshan_source(path)
    assert twice.tables["ops"].equals(held.tables["ops"])
    assert twice.tables["ops"].num_rows == 207
    assert (twice.job, twice.missing) == (held.job, held.missing)
    assert [gap.kind for gap in held.missing] == ["truncated"]


def test_a_clock_that_runs_backwards_gives_no_duration(tmp_path: Path) -> None:
    record = trace("<", 4, 1, 0, "n1", [(0, 10, 2.0, 1.0), (0, 10, 1.0, 2.0)], [])
    ours = read_module(tmp_path, "DXT_POSIX", Module(1, [record]))
    ops = ours.tables["ops"].to_pylist()
    assert [(op["start_ns"] - START, op["end_ns"] - START, op["busy_ns"]) for op in ops] == [
        (2 * 10**9, 2 * 10**9, 0),
        (10**9, 2 * 10**9, 10**9),
    ]
    assert [(gap.kind, gap.what) for gap in ours.missing] == [("clock", "DXT_POSIX durations")]


def test_impossible_segment_counts_end_the_trace_with_a_word(tmp_path: Path) -> None:
    good = trace("<", 4, 1, 0, "n1", WRITES, READS)
    bad = struct.pack("<Qqq64sqq", 1, 0, 0, b"n1", 1 << 50, 0)
    ours = read_module(tmp_path, "DXT_POSIX", Module(1, [good + bad + good]))
    assert ours.tables["ops"].num_rows == 3
    (gap,) = ours.missing
    assert gap.kind == "truncated"
    assert "impossible number" in gap.why


@settings(deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6),
    cuts=st.lists(st.integers(0, 2000), max_size=12),
    lost=st.integers(0, 60),
)
def test_segments_do_not_depend_on_where_blocks_end(sizes: list[tuple[int, int]], cuts: list[int], lost: int) -> None:
    records = [
        trace(
            "<", 5, k, k, f"n{k}", [(k, 10 + j, 1.0, 2.0) for j in range(w)], [(k, 50 + j, 1.0, 2.0) for j in range(r)]
        )
        for k, (w, r) in enumerate(sizes)
    ]
    whole = b"".join(records)
    data = whole[: len(whole) - lost] if lost < len(whole) else whole
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    regions = [data[a:b] for a, b in pairwise(edges)]
    seen: list[tuple[int, int]] = []
    try:
        for block in walk_dxt_segments(regions, "<", 5):
            key = np.repeat(block.headers["id"], block.writes + block.reads)
            seen += zip(key.tolist(), block.segments[:, 1].tolist(), strict=True)
        complete = True
    except DamagedRegionError:
        complete = False
    expected = [(k, b + j) for k, (w, r) in enumerate(sizes) for b, n in ((10, w), (50, r)) for j in range(n)]
    assert seen == expected[: len(seen)]
    if data == whole:
        assert complete
        assert seen == expected
    else:
        assert len(expected) - len(seen) <= -(-lost // 40)


@pytest.mark.parametrize("order", ["<", ">"])
def test_heat_maps_are_bins_of_ranks_and_interfaces(tmp_path: Path, order: str) -> None:
    names = {7: "heatmap:POSIX", 8: "heatmap:MPIIO"}
    records = heat(order, 7, 0, 0.1, [1, 2, 3], [4, 5, 6]) + heat(order, 8, 1, 0.1, [7, 8], [9, 10])
    ours = read_module(tmp_path, "HEATMAP", Module(1, [records]), order=order, names=names)
    rows = ours.tables["heatmap"].to_pylist()
    assert [(r["interface"], r["rank"]) for r in rows] == [("POSIX", 0)] * 3 + [("MPI-IO", 1)] * 2
    assert [r["write_bytes"] for r in rows] == [1, 2, 3, 7, 8]
    assert [r["read_bytes"] for r in rows] == [4, 5, 6, 9, 10]
    assert [r["bin_start_ns"] - START for r in rows] == [0, 10**8, 2 * 10**8, 0, 10**8]
    assert {r["bin_ns"] for r in rows} == {10**8}
    assert ours.tables["files"].num_rows == 0


@pytest.mark.parametrize(("width", "bins"), [(0.1, 1 << 40), (0.1, -1), (float("nan"), 1), (0.0, 1), (1e9, 100)])
def test_absurd_heat_maps_end_with_a_word(tmp_path: Path, width: float, bins: int) -> None:
    good = heat("<", 7, 0, 0.1, [1], [2])
    bad = struct.pack("<Qqdq16x", 7, 0, width, bins)
    ours = read_module(tmp_path, "HEATMAP", Module(1, [good + bad]))
    assert ours.tables["heatmap"].num_rows == 1
    assert [gap.kind for gap in ours.missing] == ["truncated"]


def test_plain_striping(tmp_path: Path) -> None:
    records = struct.pack(">Q6q3q", 1, -1, 248, 1, 0, 1 << 20, 3, 5, 6, 7) + struct.pack(
        ">Q6q", 2, 0, 248, 1, 0, 4096, 0
    )
    ours = read_module(tmp_path, "LUSTRE", Module(1, [records]), order=">")
    rows = ours.tables["layouts"].to_pylist()
    assert [(r["stripe_size"], r["stripe_count"], r["targets"]) for r in rows] == [
        (1 << 20, 3, [5, 6, 7]),
        (4096, 0, []),
    ]
    assert [(r["component"], r["extent_start"], r["extent_end"], r["pool"]) for r in rows] == [(0, 0, None, None)] * 2


def component(size: int, count: int, start: int, end: int, pool: bytes) -> bytes:
    return struct.pack("<7q16s", size, count, 0, 0, start, end, 0, pool)


def test_composite_layouts_without_their_unused_components(tmp_path: Path) -> None:
    parts = component(64, 1, 0, 100, b"flash") + component(128, 2, 100, -1, b"") + component(-1, 3, 0, 0, b"")
    first = struct.pack("<Q3q", 1, -1, 3, 6) + parts + struct.pack("<6q", 4, 5, 6, 9, 9, 9)
    nothing = struct.pack("<Q3q", 2, -1, 0, 0)
    short = struct.pack("<Q3q", 2, -1, 1, 1) + component(256, 4, 0, -1, b"p") + struct.pack("<q", 8)
    ours = read_module(tmp_path, "LUSTRE", Module(2, [first + nothing + short]))
    rows = ours.tables["layouts"].to_pylist()
    assert [(r["component"], r["stripe_count"], r["targets"]) for r in rows] == [
        (0, 1, [4]),
        (1, 2, [5, 6]),
        (0, 4, [8]),
    ]
    assert [(r["extent_start"], r["extent_end"]) for r in rows] == [(0, 100), (100, None), (0, None)]
    assert [r["pool"] for r in rows] == ["flash", None, "p"]


@pytest.mark.parametrize("version", [1, 2])
def test_absurd_layouts_end_with_a_word(tmp_path: Path, version: int) -> None:
    bad = struct.pack("<Q6q", 1, -1, 1 << 50, 1 << 50, 0, 0, 1 << 50)
    ours = read_module(tmp_path, "LUSTRE", Module(version, [bad]))
    assert ours.tables["layouts"].num_rows == 0
    assert [gap.kind for gap in ours.missing] == ["truncated"]


def test_records_split_over_the_streams_of_processes(tmp_path: Path) -> None:
    whole = numbered("POSIX", 4) * 5
    streams = [whole[:100], whole[100:1700], whole[1700:]]
    ours = read_module(tmp_path, "POSIX", Module(4, streams))
    assert ours.tables["file_counters"]["opens"].to_pylist() == [100] * 5
    cut = read_module(tmp_path, "POSIX", Module(4, [whole[:-1]]))
    assert cut.tables["file_counters"].num_rows == 4
    assert [gap.kind for gap in cut.missing] == ["truncated"]

"""The DFTracer source on small traces of every version, and on what goes wrong with them."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from dftracer_writing import T0_US, Read, event, meta, read, text
from fairlead.core.errors import CorruptInputError, InputError, UnknownFormatError
from fairlead.core.model.identity import compute_file_identity
from fairlead.see.sources.dftracer import DFTracerSource, blocks

PATH, OTHER = "/scratch/a.dat", "/scratch/b.dat"
HEAD = [meta("HH", "node1", 11), meta("FH", PATH, 22), meta("FH", OTHER, 33), meta("PR", "rank", "4")]


@pytest.fixture(params=[False, True], ids=["json", "compiled"])
def compiled(request: pytest.FixtureRequest) -> bool:
    return request.param


def put(folder: Path, content: bytes, name: str = "t.pfw") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def read_events(folder: Path, events: list[dict[str, object] | str], *, compiled: bool) -> Read:
    return read(put(folder, text(events)), compiled=compiled)


def test_an_event_becomes_a_row(tmp_path: Path, compiled: bool) -> None:
    write = event("pwrite64", T0_US, 8, hhash=11, fhash=22, fd=9, count=100, ret=60, offset=4096)
    got = read_events(tmp_path, [*HEAD, write], compiled=compiled)
    assert got.rows == [
        {
            "start_ns": T0_US * 1000,
            "end_ns": (T0_US + 8) * 1000,
            "busy_ns": 8000,
            "node": "node1",
            "job_id": None,
            "rank": 4,
            "interface": "POSIX",
            "fs": None,
            "op": "write",
            "file_id": compute_file_identity("", PATH),
            "handle": 9,
            "offset": 4096,
            "size": 60,
            "stride": None,
            "count": 1,
            "gaps_ns": None,
            "durations_ns": None,
            "cluster": None,
        }
    ]
    assert got.files == {compute_file_identity("", PATH): PATH}
    assert got.missing == []


@pytest.mark.parametrize(
    ("name", "cat", "interface", "op"),
    [
        ("__fxstat64", "POSIX", "POSIX", "stat"),
        ("openat", "POSIX", "POSIX", "open"),
        ("creat64", "POSIX", "POSIX", "open"),
        ("remove", "POSIX", "POSIX", "unlink"),
        ("ftruncate", "POSIX", "POSIX", "truncate"),
        ("fcntl", "POSIX", "POSIX", "fcntl"),
        ("Fread", "POSIX", "POSIX", "read"),
        ("fopen64", "STDIO", "STDIO", "open"),
        ("fflush", "STDIO", "STDIO", "flush"),
        ("MPI_File_iwrite_at_all_c", "MPIIO", "MPI-IO", "write"),
        ("MPI_File_read_all_begin", "MPIIO", "MPI-IO", "read"),
        ("MPI_File_read_all_end", "MPIIO", "MPI-IO", "read_all_end"),
        ("MPI_File_sync", "MPIIO", "MPI-IO", "fsync"),
        ("MPI_Barrier", "collective", "APP", "MPI_Barrier"),
        ("H5Dwrite", "H5D", "H5D", "write"),
        ("H5Fcreate", "H5F", "H5F", "open"),
        ("H5Pset_alignment", "H5P", "H5", "h5pset_alignment"),
        ("compute step", "C_APP", "APP", "compute step"),
        ("read", "reader", "APP", "read"),
    ],
)
def test_words(tmp_path: Path, name: str, cat: str, interface: str, op: str) -> None:
    got = read_events(tmp_path, [*HEAD, event(name, T0_US, cat=cat, hhash=11)], compiled=False)
    assert (got.column("interface"), got.column("op")) == ([interface], [op])


@pytest.mark.parametrize(
    ("name", "cat", "args", "size"),
    [
        ("read", "POSIX", {"count": 100, "ret": 40}, 40),
        ("read", "POSIX", {"count": 100, "ret": 0}, 0),
        ("write", "POSIX", {"count": 100, "ret": -1}, 0),
        ("write", "POSIX", {"count": 100}, None),
        ("write", "POSIX", {"size": 70}, 70),
        ("write", "POSIX", {"ret": 18446744073709551615}, 0),
        ("readv", "POSIX", {"ret": "512"}, 512),
        ("fread", "STDIO", {"ret": 7, "size": 8, "count": 9}, 56),
        ("fread", "STDIO", {"ret": 7}, None),
        ("fgets", "STDIO", {"num": 80, "ret_len": 33}, 33),
        ("fputs", "STDIO", {"str_len": 12, "ret": 1}, 12),
        ("fgetc", "STDIO", {"ret": 65}, 1),
        ("fgetc", "STDIO", {"ret": -1}, 0),
        ("fprintf", "STDIO", {"ret": 5}, None),
        ("MPI_File_write", "MPIIO", {"count": 5, "ret": 0}, None),
        ("open", "POSIX", {"ret": 3}, None),
        ("fwrite", "STDIO", {"ret": 1 << 40, "size": 1 << 40}, None),
    ],
)
def test_size_is_what_was_moved(
    tmp_path: Path, compiled: bool, name: str, cat: str, args: dict[str, object], size: int | None
) -> None:
    got = read_events(tmp_path, [*HEAD, event(name, T0_US, cat=cat, hhash=11, fhash=22, **args)], compiled=compiled)
    assert got.column("size") == [size]
    assert ("sizes" in got.kinds) == (size is None and name != "open")


def test_first_versions_had_strings_for_numbers(tmp_path: Path, compiled: bool) -> None:
    line = (
        '{"id":"5","name":"write","cat":"POSIX","pid":"13","tid":"26","ts":"1698080323825066","dur":"106","ph":"X",'
        '"args":{"hostname":"corona237","ret":"3276800","count":"3276800","fname":"/p/f-40.bat","fd":18}}'
    )
    got = read_events(tmp_path, [line], compiled=compiled)
    (row,) = got.rows
    assert (row["node"], row["rank"], row["size"], row["handle"]) == ("corona237", 13, 3276800, 18)
    assert got.paths() == ["/p/f-40.bat"]
    assert (got.job.nodes, got.job.processes, "ranks_are_pids" in got.kinds) == (["corona237"], 1, True)


@pytest.mark.parametrize("form", [str, lambda text: int(text, 16)], ids=["hex", "unsigned"])
def test_long_hashes(tmp_path: Path, compiled: bool, form: object) -> None:
    host, file, rank = (form(word) for word in ("8e0caa2d595b2a4d", "fedcba9876543210", "0" * 15 + "1"))
    events = [
        meta("HH", "n1", host, hhash=host),
        meta("FH", PATH, file, hhash=host),
        meta("PR", "rank", "3", hhash=host),
        event("read", T0_US, hhash=host, fhash=file, ret=5),
        event("read", T0_US, hhash=host, fhash=rank, ret=5),
    ]
    got = read_events(tmp_path, events, compiled=compiled)
    assert got.paths() == [PATH, f"(unnamed file {rank})"]
    assert got.column("node") == ["n1", "n1"]
    assert got.column("rank") == [3, 3]
    assert "unknown_files" in got.kinds


def _current(name: str, phase: int, layer: int, arguments: str, cat: str = "dftracer", ts: int = T0_US) -> str:
    """A line of the current version: layers and phases are numbers, only complete events have a duration."""
    timed = {1: f'"ts":{ts},"dur":4,', 4: ""}.get(phase, f'"ts":{ts},')
    return (
        f'{{"name":"{name}","cat":"{cat}","type":{layer},"pid":9,"tid":9,{timed}"ph":{phase},"args":{{{arguments}}}}}'
    )


def test_current_version_numbers_its_phases(tmp_path: Path, compiled: bool) -> None:
    lines = [
        _current("HH", 4, 1, '"hhash":"aa","name":"n1","value":"aa"'),
        _current("PR", 4, 1, '"hhash":"aa","name":"core_affinity","value":[0,1]'),
        _current("start", 1, 1, '"hhash":"aa"'),
        _current("STEP", 1, 9, '"hhash":"aa"', "CPP_APP"),
        _current("cpu", 2, 7, '"hhash":"aa","user_pct":12.5', "sys"),
        _current("openat", 3, 3, '"hhash":"aa","dft_cnt":12,"dur_sum":3', "POSIX"),
        _current("end", 1, 1, '"cfg":{"posix":1}', ts=T0_US + 50),
    ]
    path = put(tmp_path, ("\n".join(lines) + "\n").encode())
    got = read(path, compiled=compiled)
    assert (got.column("interface"), got.column("op"), got.column("node")) == (["APP"], ["STEP"], ["n1"])
    assert {m.kind: m.what for m in got.missing if m.kind != "ranks_are_pids"} == {
        "aggregated_events": "12 calls",
        "counter_samples": "1 sample",
    }
    assert (got.job.start_ns, got.job.end_ns) == (T0_US * 1000, (T0_US + 50) * 1000)


def test_the_job_is_what_start_and_end_say(tmp_path: Path, compiled: bool) -> None:
    start = event("start", T0_US, 0, "dftracer", hhash=11, cmd_hash=5, exec_hash=6, version=100005)
    end = event("end", T0_US + 90, 0, "dftracer", hhash=11, num_events=8)
    strings = [meta("SH", "./cm1.exe", 5), meta("SH", "DEFAULT", 6), meta("CM", "SLURM_JOB_ID", "4711")]
    got = read_events(
        tmp_path, [*HEAD, *strings, start, event("close", T0_US + 5, hhash=11, fd=3), end], compiled=compiled
    )
    job = got.job
    assert (job.job_id, job.program, job.name, job.nodes, job.processes) == ("4711", "./cm1.exe", None, ["node1"], 1)
    assert job.run_time_s == pytest.approx(90e-6)
    assert got.missing == []


def test_a_process_without_operations_is_a_job(tmp_path: Path) -> None:
    got = read_events(
        tmp_path, [*HEAD, event("start", T0_US, 0, "dftracer"), event("end", T0_US, 0, "dftracer")], compiled=False
    )
    assert (got.ops.num_rows, got.job.run_time_s, got.job.processes) == (0, 0.0, 1)


def test_a_process_that_did_not_end_is_told(tmp_path: Path) -> None:
    events = [*HEAD, event("start", T0_US, 0, "dftracer"), event("close", T0_US, hhash=11)]
    assert "unfinished" in read_events(tmp_path, events, compiled=False).kinds


@pytest.mark.parametrize(
    ("unit_ns", "kind"), [(1, None), (1_000, None), (1_000_000, "coarse_times"), (10**9, "coarse_times")]
)
def test_units_of_time(tmp_path: Path, compiled: bool, unit_ns: int, kind: str | None) -> None:
    at = T0_US * 1000 // unit_ns
    got = read_events(tmp_path, [*HEAD, event("close", at, 3, hhash=11, fd=1)], compiled=compiled)
    assert got.column("start_ns") == [at * unit_ns]
    assert got.column("busy_ns") == [3 * unit_ns]
    assert got.kinds == ([kind] if kind else [])


def test_times_that_are_no_dates_count_from_zero(tmp_path: Path, compiled: bool) -> None:
    got = read_events(tmp_path, [*HEAD, event("close", 10, 60, hhash=11, fd=1)], compiled=compiled)
    assert (got.column("start_ns"), got.column("end_ns")) == ([10_000], [70_000])
    assert got.kinds == ["relative_times"]


def test_a_clock_that_runs_backwards(tmp_path: Path, compiled: bool) -> None:
    wrapped = event("close", T0_US, 0, hhash=11, fd=1) | {"dur": (1 << 64) - 7}
    impossible = event("close", 1 << 62, 1, hhash=11, fd=1)
    events = [*HEAD, event("close", T0_US, -4, hhash=11, fd=1), wrapped, impossible]
    got = read_events(tmp_path, events, compiled=compiled)
    assert got.column("busy_ns") == [0, 0]
    assert [m.what for m in got.missing] == ["durations of 2 operations", "1 operation"]
    assert got.kinds == ["clock", "clock"]


def test_ranks(tmp_path: Path, compiled: bool) -> None:
    """Told late, told for one of two processes of a pid on two nodes, and pids that are no ranks."""
    events = [
        meta("HH", "n1", 1, pid=5, hhash=1),
        event("close", T0_US, pid=5, hhash=1, fd=1),
        meta("PR", "rank", "9", pid=5, hhash=1),
        event("close", T0_US, pid=5, hhash=1, fd=1),
        meta("HH", "n2", 2, pid=5, hhash=2),
        event("close", T0_US, pid=5, hhash=2, fd=1),
        event("close", T0_US, pid=6, hhash=2, fd=1),
        event("close", T0_US, pid=6, hhash=1, fd=1),
        event("close", T0_US, pid=1 << 35, hhash=1, fd=1),
    ]
    got = read_events(tmp_path, events, compiled=compiled)
    ranks = got.column("rank")
    assert ranks[:4] == [9, 9, 5, 6]
    assert len(set(ranks[2:])) == 4
    assert got.job.processes == 5
    (missing,) = got.missing
    assert (missing.kind, missing.why.startswith("4 of 5 processes"), "2 share a pid" in missing.why) == (
        "ranks_are_pids",
        True,
        True,
    )


def test_positions_are_followed(tmp_path: Path, compiled: bool) -> None:
    common = {"hhash": 11, "fhash": 22, "fd": 9}
    events = [
        event("read", T0_US, **common, ret=10),
        event("open", T0_US, hhash=11, fhash=22, ret=9, flags=0),
        event("write", T0_US, **common, ret=10),
        event("pread", T0_US, **common, ret=10, offset=500),
        event("write", T0_US, **common, ret=-1),
        event("write", T0_US, **common, ret=5),
        event("lseek", T0_US, **common, ret=100, whence=2, offset=-3),
        event("read", T0_US, **common, ret=7),
        event("read", T0_US, **common, count=9),
        event("read", T0_US, **common, ret=7),
        event("close", T0_US, **common, ret=0),
        event("read", T0_US, **common, ret=7),
        event("open", T0_US, hhash=11, fhash=22, ret=9, flags=0o2001),
        event("write", T0_US, **common, ret=7),
    ]
    got = read_events(tmp_path, [*HEAD, *events], compiled=compiled)
    assert got.column("offset") == [None, None, 0, 500, 10, 10, None, 100, 107, None, None, None, None, None]
    assert got.column("handle") == [9] * 14
    (offsets,) = [m for m in got.missing if m.kind == "offsets"]
    assert "4 of 10" in offsets.why


def test_positions_without_a_descriptor(tmp_path: Path, compiled: bool) -> None:
    """Streams and current versions name the file only: one open at a time can be followed."""
    common = {"hhash": 11, "fhash": 22, "cat": "STDIO"}
    move = {"ret": 4, "size": 2, "count": 4}
    events = [
        event("fopen", T0_US, **common, mode="r"),
        event("fread", T0_US, **common, **move),
        event("fseek", T0_US, **common, whence=1, offset=-1, ret=0),
        event("fread", T0_US, **common, **move),
        event("fseek", T0_US, **common, whence=0, offset=64, ret=0),
        event("fread", T0_US, **common, **move),
        event("fopen", T0_US, **common, mode="r"),
        event("fread", T0_US, **common, **move),
        event("fclose", T0_US, **common),
        event("fread", T0_US, **common, **move),
        event("ftell", T0_US, **common, ret=1000),
        event("fread", T0_US, **common, **move),
        event("fclose", T0_US, **common),
        event("fopen", T0_US, **common, mode="ab"),
        event("fwrite", T0_US, **common, **move),
        event("rewind", T0_US, **common),
        event("fread", T0_US, **common, **move),
    ]
    got = read_events(tmp_path, [*HEAD, *events], compiled=compiled)
    moved = [row["offset"] for row in got.rows if row["op"] in ("read", "write")]
    assert moved == [0, 7, 64, None, None, 1000, None, 0]


def test_a_hash_of_two_paths_means_the_one_named_last(tmp_path: Path, compiled: bool) -> None:
    def use() -> dict[str, object]:
        return event("__xstat", T0_US, hhash=11, fhash=22)

    events = [*HEAD, use(), meta("FH", "/second", 22), use(), use(), meta("FH", PATH, 22), use()]
    got = read_events(tmp_path, events, compiled=compiled)
    assert got.paths() == [PATH, "/second", "/second", PATH]
    assert [m.kind for m in got.missing] == ["hash_collisions"]


def test_unreadable_lines_are_counted(tmp_path: Path, compiled: bool) -> None:
    broken = '{"id":1,"name":"read","cat":"POSIX","pid":7,"tid":7,"ts":17273{"id":2'
    no_time = '{"id":1,"name":"read","cat":"POSIX","pid":7,"tid":7,"dur":5,"ph":"X"}'
    events = [*HEAD, "", broken, event("close", T0_US, hhash=11, fd=1), no_time, "\0" * 40, "][", ","]
    got = read_events(tmp_path, events, compiled=compiled)
    assert got.ops.num_rows == 1
    (missing,) = got.missing
    assert (missing.kind, missing.what) == ("unreadable_lines", "3 lines")
    assert "line 7" in missing.why
    assert missing.where is not None


def test_a_line_without_end_is_passed_over(tmp_path: Path, compiled: bool) -> None:
    content = text([*HEAD, event("close", T0_US, hhash=11, fd=1)])
    long = b"x" * (2 * blocks.BLOCK_BYTES)
    path = put(tmp_path, content + b"\n" + long + b"\n" + text([event("close", T0_US, hhash=11, fd=1), "junk"]) + b"\n")
    got = read(path, compiled=compiled)
    assert got.ops.num_rows == 2
    (missing,) = got.missing
    assert (missing.what, "line 8" in missing.why) == ("2 lines", True)


def test_a_cut_last_line(tmp_path: Path, compiled: bool) -> None:
    whole = text([*HEAD, event("close", T0_US, hhash=11, fd=1), event("close", T0_US, hhash=11, fd=1)])
    got = read(put(tmp_path, whole[:-30]), compiled=compiled)
    assert got.ops.num_rows == 1
    (missing,) = got.missing
    assert (missing.kind, "line 7" in missing.why) == ("truncated", True)


def test_gzip_of_several_members_and_zeros_behind(tmp_path: Path, compiled: bool) -> None:
    lines = text([*HEAD, *[event("close", T0_US, hhash=11, fd=1)] * 50])
    packed = b"".join(gzip.compress(lines[i : i + 100]) for i in range(0, len(lines), 100)) + b"\0" * 512
    got = read(put(tmp_path, packed), compiled=compiled)
    assert (got.ops.num_rows, got.missing) == (50, [])


@pytest.mark.parametrize("harm", ["cut", "flipped", "garbage"])
def test_damaged_gzip(tmp_path: Path, compiled: bool, harm: str) -> None:
    lines = text([*HEAD, *[event("close", T0_US + i * 7919 % 1013, i % 89, hhash=11, fd=i % 7) for i in range(3000)]])
    packed = bytearray(gzip.compress(lines))
    if harm == "cut":
        del packed[len(packed) * 2 // 3 :]
    elif harm == "flipped":
        packed[len(packed) // 2] ^= 0x55
    else:
        packed += b"this is no gzip member"
    got = read(put(tmp_path, bytes(packed)), compiled=compiled)
    assert 300 < got.ops.num_rows <= 3000
    assert (got.ops.num_rows == 3000) == (harm == "garbage")
    assert got.kinds[0] == "truncated"


def test_content_without_events_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BARREN_BYTES", 32 << 20)
    good = text([*HEAD, event("close", T0_US, hhash=11, fd=1)])
    for filler in (b"\0", b"\n", b"x\n"):
        bomb = gzip.compress(good) + gzip.compress(filler * ((100 << 20) // len(filler)), 1)
        got = read(put(tmp_path, bomb), compiled=True)
        assert got.ops.num_rows == 1
        assert got.kinds[0] == "truncated"
        assert "have no event" in got.missing[0].why


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", UnknownFormatError),
        (b"\n\n", UnknownFormatError),
        (b"PK\3\4 something else\n" * 10, UnknownFormatError),
        (b'{"traceEvents": [\n', UnknownFormatError),
        (gzip.compress(b"", mtime=0), UnknownFormatError),
        (gzip.compress(text(HEAD), mtime=0)[:12], CorruptInputError),
        (text(HEAD), CorruptInputError),
        (text(['{"name":"read","ph":"X","pid":7,"oops'] * 3), CorruptInputError),
    ],
)
def test_nothing_to_read_is_an_error(tmp_path: Path, compiled: bool, content: bytes, error: type[InputError]) -> None:
    path = put(tmp_path, content)
    with pytest.raises(error) as caught:
        read(path, compiled=compiled)
    assert caught.value.where == str(path)
    assert caught.value.remedy


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.pfw", tmp_path):
        with pytest.raises(InputError) as caught:
            list(DFTracerSource().read(path))
        assert caught.value.remedy


def test_content_decides_not_the_name(tmp_path: Path) -> None:
    source = DFTracerSource()
    assert source.accepts(text([event("close", T0_US)]), tmp_path / "x.json")
    assert source.accepts(b'{"name":"HH","cat":"dftracer","type":1,"pid":9,"tid":9,"ph":4,"arg', tmp_path / "x")
    assert not source.accepts(b"JobID|User|State\n", tmp_path / "t.pfw")
    assert not source.accepts(b'{"jobs": [{"pid": 3, "name": "x"}]}\n', tmp_path / "t.pfw")


def test_names_that_are_no_utf8(tmp_path: Path, compiled: bool) -> None:
    line = text([event("close", T0_US, hostname="n", fname="/data/na\udcefve\tfile", fd=1)]).replace(
        b"\\udcef", b"\xef"
    )
    got = read(put(tmp_path, line.replace(b"\\t", b"\t")), compiled=compiled)
    assert got.paths() == ["/data/na\\xefve\tfile"]


def test_stopping_early_leaves_nothing_behind(tmp_path: Path) -> None:
    import threading

    lines = text([*HEAD, *[event("close", T0_US, hhash=11, fd=1)] * 400_000])
    path = put(tmp_path, gzip.compress(lines, 1))
    items = DFTracerSource(0).read(path)
    next(items)
    items.close()
    assert "gunzip" not in [thread.name for thread in threading.enumerate()]


def test_small_inputs_do_not_load_numba(tmp_path: Path) -> None:
    path = put(tmp_path, text([*HEAD, event("close", T0_US, hhash=11, fd=1)]))
    program = (
        "import sys; from pathlib import Path; from fairlead.see.sources.dftracer import DFTracerSource;"
        f"list(DFTracerSource().read(Path({str(path)!r}))); print('numba' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_large_inputs_come_in_batches_of_one_trace(tmp_path: Path) -> None:
    """Tokens, positions, ranks and files carry over from block to block."""
    events: list[dict[str, object] | str] = [*HEAD, event("open", T0_US, hhash=11, fhash=22, ret=9)]
    events += [event("write", T0_US + i, hhash=11, fhash=22, fd=9, ret=3) for i in range(90_000)]
    path = put(tmp_path, text([*events, meta("FH", "/late", 44), event("__xstat", T0_US, hhash=11, fhash=44)]))
    batches = [b for b in DFTracerSource().read(path) if hasattr(b, "schema") and "offset" in b.schema.names]
    assert len(batches) > 1
    got = read(path, compiled=True)
    assert got.column("offset") == [None, *range(0, 270_000, 3), None]
    assert set(got.column("rank")) == {4}
    assert got.files == {compute_file_identity("", p): p for p in (PATH, "/late")}
    assert got.missing == []


def test_a_lone_surrogate_is_a_name_like_any_other(tmp_path: Path, compiled: bool) -> None:
    odd = b'{"name":"read","cat":"POSIX","pid":7,"tid":7,"ts":1727387307000000,"dur":1,"ph":"X","args":{"fname":"/a\\ud800b","ret":10}}\n'  # noqa: E501
    got = read(put(tmp_path, odd), compiled=compiled)
    assert got.ops.num_rows == 1

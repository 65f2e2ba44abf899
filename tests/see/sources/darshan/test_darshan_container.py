"""Header, job record, names and regions of Darshan logs."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from darshan_writing import START_NS, START_S, Log, Module, counted, trace
from fairlead.core.errors import CorruptInputError, InputError, UnknownFormatError, UnsupportedVersionError
from fairlead.core.model.identity import compute_file_identity
from fairlead.see.sources.darshan import DarshanSource, read_darshan_source
from fairlead.see.sources.darshan.regions import limit_region_bytes

VERSIONS = ("3.00", "3.10", "3.20", "3.21", "3.41")
STDIO_2 = counted("<", 3, 0, [1, 0, 0, 2, *[0] * 10], [0.0] * 15)


def stdio(order: str) -> Module:
    return Module(2, [counted(order, 3, 0, [1, 0, 0, 2, *[0] * 10], [0.0] * 15)])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("compression", [0, 1, 2])
def test_every_format_version_order_and_compression(tmp_path: Path, version: str, order: str, compression: int) -> None:
    log = Log(version=version, order=order, compression=compression, modules={"STDIO": stdio(order)})
    path = log.write(tmp_path)
    assert DarshanSource().accepts(path.read_bytes()[:8192], path)
    ours = read_darshan_source(path)
    assert ours.version == version
    assert ours.names == log.names
    assert ours.metadata == {"lib_ver": "3.5.0", "h": "a=1;b=2"}
    assert ours.mounts == [("/scratch", "lustre"), ("/", "ext4")]
    assert (ours.job.job_id, ours.job.user, ours.job.program, ours.job.processes) == ("4711", "1000", "./app -x 1", 2)
    assert ours.tables["file_counters"]["writes"].to_pylist() == [2]
    files = {row["path"]: row for row in ours.tables["files"].to_pylist()}
    assert {path: row["fs"] for path, row in files.items()} == {
        "/scratch/a": "/scratch",
        "/home/b": "/",
        "<STDOUT>": "",
    }
    assert files["/scratch/a"]["file_id"] == compute_file_identity("/scratch", "/scratch/a")
    assert set(ours.modules) == {"STDIO"}
    assert {gap.kind for gap in ours.missing} == ({"known_defect"} if version == "3.20" else set())


def test_fine_times_come_with_341_and_a_whole_last_second_before(tmp_path: Path) -> None:
    fine = read_darshan_source(Log().write(tmp_path)).job
    assert (fine.start_ns, fine.end_ns) == (START_S * 10**9 + START_NS, (START_S + 10) * 10**9 + START_NS)
    whole = read_darshan_source(Log(version="3.21").write(tmp_path)).job
    assert (whole.start_ns, whole.end_ns) == (START_S * 10**9, (START_S + 11) * 10**9)


def test_a_job_without_names_or_modules(tmp_path: Path) -> None:
    ours = read_darshan_source(Log(names={}).write(tmp_path))
    assert ours.job.job_id == "4711"
    assert all(table.num_rows == 0 for table in ours.tables.values())
    assert ours.missing == []


def test_doubtful_clocks_are_said(tmp_path: Path) -> None:
    backwards = read_darshan_source(Log(end=(START_S - 5, 0)).write(tmp_path))
    assert [gap.what for gap in backwards.missing] == ["run time"]
    assert backwards.job.run_time_s is None
    none = read_darshan_source(Log(start=(0, 0), end=(1 << 60, 0)).write(tmp_path))
    assert (none.job.start_ns, none.job.end_ns) == (None, None)
    assert [gap.kind for gap in none.missing] == ["clock", "clock"]


def test_impossible_process_counts_are_unknown_and_cost_nothing(tmp_path: Path) -> None:
    record = trace("<", 4, 1, 0, "node1", [(0, 8, 0.1, 0.2)], [])
    modules = {"DXT_POSIX": Module(1, [record])}
    assert read_darshan_source(Log(processes=0, modules=modules).write(tmp_path)).job.processes is None
    many = read_darshan_source(Log(processes=1 << 23, modules=modules).write(tmp_path)).job
    assert (many.processes, many.nodes) == (1 << 23, None)
    huge = read_darshan_source(Log(processes=(1 << 23) + 1, modules=modules).write(tmp_path))
    assert (huge.job.processes, huge.job.nodes) == (None, None)
    assert [m.what for m in huge.missing] == ["number of processes"]


def test_a_command_line_with_lines_of_its_own_makes_no_mounts(tmp_path: Path) -> None:
    log = Log(executable="python -c import os\n\tprint('/')\nx\ty\n/a\t")
    ours = read_darshan_source(log.write(tmp_path))
    assert ours.executable == "python -c import os"
    assert ours.mounts == [("/scratch", "lustre"), ("/", "ext4")]


def test_names_that_are_no_utf8_stay_apart(tmp_path: Path) -> None:
    content = Log(compression=2, names={1: "/scratch/aX", 2: "/scratch/aY"}).pack()
    path = tmp_path / "log"
    path.write_bytes(content.replace(b"/aX", b"/a\xff").replace(b"/aY", b"/a\xfe"))
    assert sorted(read_darshan_source(path).tables["files"]["path"].to_pylist()) == [
        "/scratch/a\\xfe",
        "/scratch/a\\xff",
    ]


def test_a_mount_point_itself_lies_on_its_own_mount(tmp_path: Path) -> None:
    ours = read_darshan_source(Log(names={1: "/scratch", 2: "/scratchy/f"}).write(tmp_path))
    assert dict(zip(*(ours.tables["files"][k].to_pylist() for k in ("path", "fs")), strict=True)) == {
        "/scratch": "/scratch",
        "/scratchy/f": "/",
    }


@pytest.mark.parametrize(
    ("content", "kind", "says"),
    [
        (b"", CorruptInputError, "empty"),
        (b"hello, this is no log at all", UnknownFormatError, "magic"),
        (gzip.compress(Log().pack(), mtime=0), UnknownFormatError, "gzip"),
        (Log().pack()[:400], CorruptInputError, "header"),
        (Log().pack()[:1400], CorruptInputError, "job record"),
        (Log().pack().replace(b"3.41", b"4.00", 1), UnsupportedVersionError, "newer"),
        (Log().pack().replace(b"3.41", b"3.50", 1), UnsupportedVersionError, "newer"),
        (Log().pack().replace(b"3.41", b"2.06", 1), UnsupportedVersionError, "older"),
        (Log().pack().replace(b"3.41", b"x.yz", 1), CorruptInputError, "version"),
    ],
)
def test_unusable_files_say_what_where_and_what_next(
    tmp_path: Path, content: bytes, kind: type[InputError], says: str
) -> None:
    path = tmp_path / "some.log"
    path.write_bytes(content)
    with pytest.raises(InputError, match=says) as raised:
        list(DarshanSource().read(path))
    assert type(raised.value) is kind
    assert raised.value.where == str(path)
    assert raised.value.remedy


def test_what_cannot_be_opened_is_an_input_error(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    keep_open = os.open(pipe, os.O_RDWR)
    for path in (tmp_path, tmp_path / "none", pipe):
        with pytest.raises(InputError, match="cannot be read"):
            list(DarshanSource().read(path))
    os.close(keep_open)


def test_other_content_is_not_accepted(tmp_path: Path) -> None:
    assert not DarshanSource().accepts(b"", tmp_path)
    assert not DarshanSource().accepts(b'{"name": "open"}' * 10, tmp_path)


def test_damaged_names_leave_the_counters(tmp_path: Path) -> None:
    path = Log(modules={"STDIO": stdio("<")}).write(tmp_path)
    content = bytearray(path.read_bytes())
    at = content.find(Log()._names()) if Log().compression == 2 else int.from_bytes(content[32:40], "little") + 12
    content[at] ^= 0xFF
    path.write_bytes(bytes(content))
    ours = read_darshan_source(path)
    assert [gap.kind for gap in ours.missing] == ["truncated", "name_missing"]
    assert ours.tables["file_counters"]["file_id"].to_pylist() == [
        compute_file_identity("", "darshan:0000000000000003")
    ]
    assert ours.tables["files"]["path"].to_pylist() == ["darshan:0000000000000003"]


def test_the_limit_grows_with_content_and_processes_but_not_for_ever() -> None:
    assert limit_region_bytes(1_000, 1) == 64 << 20
    assert limit_region_bytes(10 << 20, 1) == 1000 << 20
    assert limit_region_bytes(1_000, 100) == 400 << 20
    assert limit_region_bytes(1 << 40, 1 << 30) == 4 << 30

"""Lustre's texts as versions 2.5 to 2.16 write them: times, buckets, job ids, dumps, what is damaged or refused."""

from __future__ import annotations

import io
import os
import stat
from array import array
from pathlib import Path
from typing import Any

import pytest

from fairlead.see.probes.base import AbsentError, ProbeResult
from fairlead.see.probes.lustre import PROBES
from fairlead.see.probes.lustre.histograms import (
    MODIFY,
    bin_byte_histogram,
    bin_flight_histogram,
    bin_page_histogram,
    bin_time_histogram,
    parse_histograms,
)
from fairlead.see.probes.lustre.job_ids import JobIds, unquote_job_id
from fairlead.see.probes.lustre.job_stats import Memory, scan_job_stats
from fairlead.see.probes.lustre.jobs import MDT_SHAPE, OST_SHAPE
from fairlead.see.probes.lustre.names import MDT_OPS
from fairlead.see.probes.lustre.parameters import Dump, ask_lctl_parameters
from fairlead.see.probes.lustre.stats_lines import parse_stats_lines, parse_stats_times
from lustre_writing import job_stats

NOW = 1_700_000_000 * 10**9


def put(root: Path, name: str, text: str, base: str = "proc/fs/lustre") -> None:
    path = root / base / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def rows(found: ProbeResult, at: int = 0) -> dict[Any, list[Any]]:
    return {key: list(values) for key, values in found.readings[at].rows.items()}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("snapshot_time             1510950459.772792457 secs.nsecs", 1510950459_772792457),
        ("snapshot_time             1438693238.20113 secs.usecs", 1438693238_020113_000),
        ("snapshot_time:         1510950459.796835534 (secs.nsecs)", 1510950459_796835534),
        ("snapshot_time:         1371052534:62532 (secs:usecs)", 1371052534_062532_000),
        ("  snapshot_time:   1510781837", 1510781837_000000000),
        ("  snapshot_time   : 1638540802.000000007 secs.nsecs", 1638540802_000000007),
        ("snapshot_time 99999999999999 secs.nsecs", None),
    ],
)
def test_times_of_all_versions(line: str, expected: int | None) -> None:
    times = parse_stats_times(line.encode() + b"\n")
    assert (times.snapshot_ns, times.lines) == (expected, 1)


def test_stats_of_a_new_version_tell_when_they_began() -> None:
    stats = parse_stats_lines(
        b"snapshot_time             1716290000.000000001 secs.nsecs\n"
        b"start_time                1716280000.500000000 secs.nsecs\n"
        b"elapsed_time              9999.500000001 secs.nsecs\n"
        b"read_bytes                3 samples [bytes] 4096 8192 16384 100663296\n"
        b"read                      3 samples [usecs] 10 30 60 1400\n"
        b"failed grab_cache_page    2 samples [pages]\n"
        b"a line of another world\n"
    )
    assert stats.times == (1716290000_000000001, 1716280000_500000000, 3)
    assert stats.counts == {"read_bytes": 3, "read": 3, "failed grab_cache_page": 2}
    assert stats.sums == {"read_bytes": 16384, "read": 60}
    assert (stats.unknown, stats.unknown_example) == (1, "a line of another world")


def test_a_counter_beyond_the_column_stays_there() -> None:
    stats = parse_stats_lines(b"open 99999999999999999999999999 samples [reqs]\n")
    assert stats.counts == {"open": (1 << 63) - 1}


BRW = b"""snapshot_time:            1716290000.1 secs.nsecs
start_time:               9538.4 secs.nsecs
elapsed_time:             3250.3 secs.nsecs

                           read      |     write
pages per bulk r/w     rpcs  % cum % |  rpcs        % cum %
1:                         5  50  50   |    1  10  10
2K:                        5  50 100   |    0   0 100

                           read      |     write
discontiguous pages    rpcs  % cum % |  rpcs        % cum %
0:                        10 100 100   |    1 100 100

                           read      |     write
disk fragmented I/Os   ios   % cum % |  ios         % cum %
1:                        10 100 100   |    1 100 100

                           read      |     write
I/O time (1/1000s)     ios   % cum % |  ios         % cum %
1:                         2 100 100   |    1 100 100
4K:                        3 100 100   |    0 100 100

                           read      |     write
disk I/O size          ios   % cum % |  ios         % cum %
4K:                        1  50  50   |    0   0   0
8K:                        2  50  50   |    0   0   0
1M:                        3  50 100   |    9 100 100
2G:                        4  50 100   |    0 100 100

                           read      |     write
block maps msec        maps  % cum % |  maps        % cum %
1:                        30 100 100   |    0   0   0
"""


def test_buckets_with_suffixes(tmp_path: Path) -> None:
    read = parse_histograms(BRW)
    assert read.unknown == 0, read.unknown_example
    assert read.tables["pages per bulk r/w"].reads == {1: 5, 2048: 5}
    assert bin_page_histogram(read.tables["pages per bulk r/w"].reads) == [5] + [0] * 10 + [5] + [0] * 4
    assert read.tables["disk i/o size"].reads == {4096: 1, 8192: 2, 1 << 20: 3, 2 << 30: 4}
    sizes = bin_byte_histogram(read.tables["disk i/o size"].reads)
    assert {place: count for place, count in enumerate(sizes) if count} == {0: 1, 1: 2, 8: 3, 15: 4}, (
        "the last is all above"
    )
    times = bin_time_histogram(read.tables["i/o time (1/1000s)"].reads, read.tables["i/o time (1/1000s)"].writes)
    assert {place: count for place, count in enumerate(times) if count} == {20: 3, 32: 3}, "4096 ms is 2^31.9 ns"
    put(tmp_path, "osd-ldiskfs/fs-OST0001/brw_stats", BRW.decode(), "sys/kernel/debug/lustre")
    found = PROBES["lustre_brw"](str(tmp_path), "oss").read(NOW)
    assert list(found.readings[0].rows) == [("fs-OST0001",)]
    assert found.readings[0].epochs == {("fs-OST0001",): 9538_000000_004}


def test_bulk_requests_stand_in_where_the_device_tells_no_sizes(tmp_path: Path) -> None:
    put(tmp_path, "obdfilter/fs-OST0001/brw_stats", BRW.decode().partition("disk I/O size")[0])
    (row,) = rows(PROBES["lustre_brw"](str(tmp_path), "oss").read(NOW)).values()
    assert row[0] == [5] + [0] * 10 + [5] + [0] * 4


def test_modifying_rpcs_are_apart_from_those_of_data_on_mdt() -> None:
    read = parse_histograms(
        b"snapshot_time:         1510950459.1 (secs.nsecs)\nmodify_RPCs_in_flight:  0\n\n\t\t\tmodify\n"
        b"rpcs in flight        rpcs   % cum %\n0:\t\t         0   0   0\n1:\t\t        90  45  45\n40:\t\t 7 1 1\n\n"
        b"read RPCs in flight:  1\nwrite RPCs in flight: 0\npending write pages:  0\npending read pages:   0\n"
        b"\n\t\t\tread\t\t\twrite\nrpcs in flight        rpcs   % cum % |       rpcs   % cum %\n"
        b"1:\t\t         3 100 100   |          4 100 100\n"
    )
    assert read.unknown == 0, read.unknown_example
    assert read.tables[MODIFY + "rpcs in flight"].reads == {0: 0, 1: 90, 40: 7}
    assert read.tables["rpcs in flight"] == ({1: 3}, {1: 4})
    assert bin_flight_histogram(read.tables[MODIFY + "rpcs in flight"].reads) == [0, 90] + [0] * 30 + [7]


def test_extents_of_a_client() -> None:
    read = parse_histograms(
        b"snapshot_time:            1716290000.1 secs.nsecs\n"
        b"                               read       |                write\n"
        b"      extents            calls    % cum%  |          calls    % cum%\n"
        b"   0K -    4K :              1   50   50  |              2  100  100\n"
        b"   4K -    8K :              1   50  100  |              0    0  100\n"
        b"   1M -    2M+:              5   50  100  |              0    0  100\n"
    )
    assert read.unknown == 0, read.unknown_example
    assert read.tables["extents"].reads == {4096: 1, 8192: 1, 2 << 20: 5}
    assert read.tables["extents"].writes[4096] == 2
    assert parse_histograms(b"disabled\n write anything to this file to activate\n").disabled


# -- job_stats ---------------------------------------------------------------------------------------------------------

OLD_JOB = b"""job_stats:
- job_id:          17
  snapshot_time:   1510781837
  read_bytes:      { samples:           2, unit: bytes, min:    4096, max:16777216, sum:            8192 }
  write_bytes:     { samples:           0, unit: bytes, min:       0, max:       0, sum:               0 }
  getattr:         { samples:           3, unit:  reqs }
  punch:           { samples:           1, unit:  reqs }
"""
NEW_JOB = (
    b'job_stats:\n- job_id:          "dd.0:a\\x20b"\n'
    b"  snapshot_time:   1716290000.000000001 secs.nsecs\n  start_time:      1716280000.500000000 secs.nsecs\n"
    b"  elapsed_time:    9999.500000001 secs.nsecs\n"
    b"  read_bytes:      { samples:           3, unit: bytes, min:     4096, max:     8192, sum:            16384, "
    b"sumsq:          100663296, hist: { 4K: 2, 8K: 1 } }\n"
    b"  write_bytes:     { samples:           0, unit: bytes, min:        0, max:        0, sum:                0, "
    b"sumsq:                  0 }\n"
    b"  read:            { samples:           3, unit: usecs, min:        1, max:        9, sum:               12, "
    b"sumsq:                 99 }\n"
    b"  getattr:         { samples:           5, unit: usecs, min:        1, max:        2, sum:                7, "
    b"sumsq:                 11 }\n"
)


def scanned(text: bytes, piece: int = 1 << 18, shape: Any = OST_SHAPE) -> tuple[list[Any], Any]:
    found: list[Any] = []
    pieces = (text[at : at + piece] for at in range(0, len(text), piece))
    read = scan_job_stats(pieces, shape, lambda job, start, values: found.append((job, start, list(values))))
    return found, read


@pytest.mark.parametrize("piece", [1, 7, 100, 1 << 18])
def test_old_and_new_entries(piece: int) -> None:
    found, read = scanned(OLD_JOB + NEW_JOB.partition(b"\n")[2], piece)
    assert found == [
        (b"17", None, [2, 0, 8192, 0, 4]),
        (b'"dd.0:a\\x20b"', 1716280000_500000000, [3, 0, 16384, 0, 5, 12_000, 0, 7_000]),
    ]
    assert (read.unknown, read.slow, read.timed) == (0, 2, True)


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("mdt", [True, False])
def test_jobs_read_by_one_regex_are_as_those_read_line_by_line(new: bool, mdt: bool) -> None:
    text = b"".join(job_stats(200, seed=3, mdt=mdt, new=new))
    shape = MDT_SHAPE if mdt else OST_SHAPE
    fast, read = scanned(text, shape=shape)
    assert (read.slow, read.fast, read.unknown) == (1, 199, 0)
    slow = []
    for job in text.split(b"\n- ")[1:]:  # a text of one job is always read line by line
        found, alone = scanned(b"- " + job, shape=shape)
        assert alone.fast == 0
        slow += found
    assert fast == slow
    assert 0 < len(fast) < 200, "jobs that did nothing are left out"


@pytest.mark.parametrize("mdt", [True, False])
def test_jobs_that_did_not_change_are_known_again(mdt: bool) -> None:
    shape = MDT_SHAPE if mdt else OST_SHAPE
    jobs = b"".join(job_stats(100, seed=3, mdt=mdt)).split(b"\n- ")
    other = b"".join(job_stats(100, seed=4, mdt=mdt)).split(b"\n- ")
    memory = Memory()
    for look in range(8):
        # A tenth changes each time, one goes, and an odd line comes and stays.
        now = [other[k] if k and (k + look) % 10 == 0 else job for k, job in enumerate(jobs) if k != 50 + look]
        if look > 4:
            now[7] += b"\n  no such line"
        text = b"\n- ".join(now)
        found: list[Any] = []
        pieces = (text[at : at + 5000] for at in range(0, len(text), 5000))

        def take(job: bytes, start: int | None, values: Any, into: list[Any] = found) -> None:
            into.append((job, start, list(values)))

        read = scan_job_stats(pieces, shape, take, memory)
        expected, alone = scanned(text, shape=shape)
        assert found == expected
        assert read.unknown == alone.unknown == (look > 4)
        assert read.same == 0 if look < 2 else 60 < read.same < 95


def test_an_operation_not_known_is_counted_and_the_others_are_read() -> None:
    strange = OLD_JOB + b"  teleport:        { samples:           6, unit:  reqs }\n"
    text = strange + OLD_JOB.partition(b"\n")[2] + strange.partition(b"\n")[2]
    found, read = scanned(text)
    assert [values for _, _, values in found] == [[2, 0, 8192, 0, 4]] * 3
    assert read.unknown == 2
    assert read.example == "teleport:        { samples:           6, unit:  reqs }"
    mdt, _ = scanned(strange, shape=MDT_SHAPE)
    assert dict(zip(MDT_OPS, mdt[0][2][4:], strict=True)) == {
        **dict.fromkeys(MDT_OPS, 0),
        "getattr": 3,
        "punch": 1,
        "other": 6,
    }


def test_a_text_cut_off_anywhere_gives_the_jobs_before() -> None:
    text = b"".join(job_stats(12, seed=5, idle=0, zero=0))
    whole, _ = scanned(text)
    for cut in range(0, len(text), 97):
        found, read = scanned(text[:cut])
        assert found[:-1] == whole[: max(len(found) - 1, 0)]
        assert read.unknown <= 1


def test_a_job_with_more_lines_than_the_ones_before_it_keeps_them_all() -> None:
    """Lustre prints an operation of the metadata server once it happened: a later job may have more lines."""
    few = b"- job_id: 1\n  snapshot_time: 7\n  open: { samples: 1, unit: reqs }\n  close: { samples: 2, unit: reqs }\n"
    more = few.replace(b"job_id: 1", b"job_id: 2") + b"  unlink: { samples: 5, unit: reqs }\n"
    found: dict[bytes, int] = {}
    read = scan_job_stats(
        [b"job_stats:\n" + few + few.replace(b"job_id: 1", b"job_id: 3") + more + few.replace(b": 1\n", b": 4\n")],
        MDT_SHAPE,
        lambda job, _, values: found.__setitem__(job.strip(), sum(values)),
    )
    assert (read.unknown, found) == (0, {b"1": 3, b"3": 3, b"2": 8, b"4": 3})


def test_a_job_without_end_takes_no_memory() -> None:
    def pieces() -> Any:
        yield b"job_stats:\n- job_id: 1\n"
        for _ in range(40):
            yield b"  no such line\n" * 4096

    read = scan_job_stats(pieces(), OST_SHAPE, lambda *_: None)
    assert read.unknown == 40 * 4096


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (b"43", "43"),
        (b"dd.0.node1", "dd.0.node1"),
        (b'"a b"', "a b"),
        (b'"a\\x20b\\x3A"', "a b:"),
        (b"100%", "100%"),
        (b'"', '"'),
        (b'"x\\040y"', "x y"),
        (b'"say \\"x\\""', 'say "x"'),
        (b"\xff", "\ufffd"),
    ],
)
def test_job_ids_are_written_in_many_ways(text: bytes, plain: str) -> None:
    assert unquote_job_id(text) == plain
    assert JobIds().find_job(text) == plain


@pytest.mark.parametrize(
    ("name", "text", "job"),
    [
        ("", b"43", "43"),
        ("", b"", None),
        ("%j", b"43", "43"),
        ("%e.%u", b"dd.0", "dd.0"),
        ("%j:%u:%H", b'"43:1000:n1"', "43"),
        ("%j:%u:%H", b'":1000:n1"', ":1000:n1"),
        ("%j:%u:%H", b"dd.0", "dd.0"),
        ("%e.%j.%h", b"a.out.77.n1.site.org", "77"),
        ("job-%j", b"job-9", "9"),
        ("%j%%%u", b"5%1000", "5"),
    ],
)
def test_the_job_of_a_string(name: str, text: bytes, job: str | None) -> None:
    if name == "%e.%j.%h":
        job = "out"  # the name of the program has a dot of its own: the template cannot tell, and the docs say so
    assert JobIds(name).find_job(text) == job


def test_several_entries_of_one_job_add_up_and_never_shrink(tmp_path: Path) -> None:
    def entry(job: str, count: int) -> str:
        head = f'- job_id:          "{job}"\n  snapshot_time:   1510781837\n'
        return f"{head}  read_bytes:      {{ samples: {count:>11}, unit: bytes, min: 1, max: 1, sum: {count} }}\n"

    put(tmp_path, "jobid_name", "%j:%u:%H\n", "sys/fs/lustre")
    where = "obdfilter/fs-OST0000/job_stats"
    probe = PROBES["lustre_ost_jobs"](str(tmp_path), "oss")
    put(tmp_path, where, "job_stats:\n" + entry("7:1:n1", 5) + entry("7:1:n2", 6) + entry("8:1:n1", 1))
    assert rows(probe.read(NOW)) == {("fs-OST0000", "7"): [11, 0, 11, 0, 0], ("fs-OST0000", "8"): [1, 0, 1, 0, 0]}
    # n1's entry went away, n2 went on, 8 began anew
    put(tmp_path, where, "job_stats:\n" + entry("7:1:n2", 9) + entry("8:1:n1", 0))
    found = rows(probe.read(NOW))
    assert found["fs-OST0000", "7"] == [14, 0, 14, 0, 0]
    assert rows(PROBES["lustre_ost_jobs"](str(tmp_path), "oss", jobid_name="").read(NOW)) == {
        ("fs-OST0000", "7:1:n2"): [9, 0, 9, 0, 0]
    }, "an option overrules the server's own setting"


def test_data_on_an_mdt_is_told_apart_from_its_operations(tmp_path: Path) -> None:
    put(tmp_path, "mdt/fs-MDT0000/job_stats", NEW_JOB.decode())
    found = PROBES["lustre_mdt_jobs"](str(tmp_path), "mds").read(NOW)
    assert [reading.table for reading in found.readings] == ["metadata", "target"]
    key = ("fs-MDT0000", "dd.0:a b")
    operations = dict(zip(MDT_OPS, found.readings[0].rows[key], strict=False))
    assert {op: count for op, count in operations.items() if count} == {"getattr": 5}
    times = dict(zip(MDT_OPS, found.readings[0].rows[key][len(MDT_OPS) :], strict=True))
    assert {op: busy_ns for op, busy_ns in times.items() if busy_ns} == {"getattr": 7_000}
    assert list(found.readings[1].rows[key]) == [3, 0, 16384, 0, 12_000, 0]
    assert found.readings[0].epochs == {key: 1716280000_500000000}
    assert isinstance(found.readings[0].rows[key], array)


# -- places ------------------------------------------------------------------------------------------------------------

DUMP = b"""health_check=healthy
mdt.fs-MDT0000.exports.10.73.20.12@tcp.stats=
snapshot_time             1716290000.000000001 secs.nsecs
open                      4 samples [reqs]
obdfilter.fs-OST0000.kbytestotal=1000
obdfilter.fs-OST0000.kbytesfree=400
obdfilter.fs-OST0000.stats=
snapshot_time             1716290000.000000001 secs.nsecs
write_bytes               5 samples [bytes] 1 1 50
obdfilter.fs-OST0000.exports.0@lo.stats=snapshot_time 1.2 secs.nsecs
mgc.MGC172.20.20.1@o2ib.state=
current_state: FULL"""


def test_a_dump_is_a_place_as_the_files_are() -> None:
    dump = Dump(io.BytesIO(DUMP))
    assert [one.stars for one in dump.find("mdt/*/exports/*/stats")] == [("fs-MDT0000", "10.73.20.12@tcp")]
    assert [one.stars for one in dump.find("obdfilter/*/stats")] == [("fs-OST0000",)], "not those of its exports"
    assert [one.stars for one in dump.find("mgc/*/state")] == [("MGC172.20.20.1@o2ib",)]
    assert dump.read(dump.find("mgc/*/state")[0]) == b"current_state: FULL"
    assert (dump.read_word("health_check"), dump.read_word("osd-*/*/stats")) == ("healthy", "")
    found = PROBES["lustre_ost"](node="oss", place=dump).read(NOW)
    assert rows(found) == {("fs-OST0000",): [0, 5, 0, 50, 0, None, None, None, None]}
    assert rows(PROBES["lustre_space"](node="oss", place=dump).read(NOW)) == {
        ("fs-OST0000",): [1024000, 614400, None, None]
    }
    assert list(PROBES["lustre_mdt_exports"](node="mds", place=dump).read(NOW).readings[0].rows) == [
        ("fs-MDT0000", "10.73.20.12@tcp")
    ]
    with pytest.raises(AbsentError, match="no Lustre client"):
        PROBES["lustre_llite"](place=dump).read(NOW)


def test_a_dump_larger_than_the_pieces_it_is_read_in() -> None:
    jobs = b"".join(job_stats(400, seed=2))
    dump = Dump(io.BytesIO(b"obdfilter.fs-OST0000.job_stats=\n" + jobs + DUMP))
    assert dump.read(dump.find("obdfilter/*/job_stats")[0]) == jobs
    assert dump.read_word("health_check") == "healthy"


@pytest.mark.parametrize("base", ["proc/fs/lustre", "sys/fs/lustre", "sys/kernel/debug/lustre"])
def test_a_file_may_be_in_any_of_three_trees(tmp_path: Path, base: str) -> None:
    put(tmp_path, "obdfilter/fs-OST0000/stats", "write_bytes 5 samples [bytes] 1 1 50\n", base)
    put(tmp_path, "obdfilter/fs-OST0000/num_exports", "3\n", "sys/fs/lustre")
    assert rows(PROBES["lustre_ost"](str(tmp_path), "oss").read(NOW)) == {
        ("fs-OST0000",): [0, 5, 0, 50, 0, None, None, None, None]
    }


def test_devices_that_come_and_go_are_seen(tmp_path: Path) -> None:
    put(tmp_path, "obdfilter/fs-OST0000/stats", "write_bytes 5 samples [bytes] 1 1 50\n")
    probe = PROBES["lustre_ost"](str(tmp_path), "oss")
    assert len(rows(probe.read(NOW))) == 1
    put(tmp_path, "obdfilter/fs-OST0001/stats", "write_bytes 6 samples [bytes] 1 1 60\n")
    assert len(rows(probe.read(NOW + 10**9))) == 1, "listed a second ago"
    assert len(rows(probe.read(NOW + 11 * 10**9))) == 2
    (tmp_path / "proc/fs/lustre/obdfilter/fs-OST0001/stats").unlink()
    (tmp_path / "proc/fs/lustre/obdfilter/fs-OST0001").rmdir()
    probe.read(NOW + 12 * 10**9)
    assert len(rows(probe.read(NOW + 13 * 10**9))) == 1, "what is gone is listed again at once"


def test_a_file_system_mounted_twice_is_one(tmp_path: Path) -> None:
    for mount in ("ffff88105db50000", "ffff88105db60000"):
        put(tmp_path, f"llite/fs-{mount}/stats", "read_bytes 2 samples [bytes] 1 9 10\nopen 1 samples [regs]\n")
    found = rows(PROBES["lustre_llite"](str(tmp_path), "c1").read(NOW))
    assert found == {("fs",): [4, 0, 20, 0, 2, *[None] * 6]}, "no read_ahead_stats: not known, not zero"


def test_a_client_that_does_not_tell_bytes_by_target(tmp_path: Path) -> None:
    where = "osc/fs-OST0000-osc-ffff88105db50000/stats"
    put(tmp_path, where, "ost_write 3 samples [usec] 1 2 4 6\nobd_ping 1 samples [usec] 1 1 1 1\n")
    (row,) = rows(PROBES["lustre_osc"](str(tmp_path), "c1").read(NOW)).values()
    assert row == [0, 3, *[None] * 6, 0, 4_000]
    put(tmp_path, where.replace("osc-ffff88105db50000", "osc-MDT0000"), "ost_write 3 samples [usec] 1 2 4 6\n")
    assert len(rows(PROBES["lustre_osc"](str(tmp_path), "c1").read(NOW))) == 1, "a server's own connection is no client"


def test_events_between_two_looks(tmp_path: Path) -> None:
    when = NOW // 10**9
    device = "osc/fs-OST0000-osc-ffff88105db50000"
    probe = PROBES["lustre_states"](str(tmp_path), "c1")
    put(tmp_path, "health_check", "healthy\n", "sys/fs/lustre")
    put(tmp_path, "obdfilter/fs-OST0007/num_exports", "100\n")
    put(tmp_path, "obdfilter/fs-OST0007/eviction_count", "3\n")
    put(tmp_path, f"{device}/state", f"current_state: FULL\nstate_history:\n - [ {when - 5}, FULL ]\n")
    put(
        tmp_path,
        f"{device}/import",
        "import:\n    state: FULL\n    current_connection: 10.0.0.1@tcp\n    timeouts: 1\n",
    )
    put(tmp_path, "obdfilter/fs-OST0007/recovery_status", "status: INACTIVE\n")
    assert not probe.read(NOW).events
    put(tmp_path, "health_check", "NOT HEALTHY\ndevice fs-OST0007 reported unhealthy\n", "sys/fs/lustre")
    put(tmp_path, "obdfilter/fs-OST0007/num_exports", "80\n")
    put(tmp_path, "obdfilter/fs-OST0007/eviction_count", "5\n")
    put(tmp_path, f"{device}/state", f"state_history:\n - [ {when - 5}, FULL ]\n - [ {when + 1}, EVICTED ]\n")
    put(
        tmp_path,
        f"{device}/import",
        "import:\n    state: FULL\n    current_connection: 10.0.0.2@tcp\n    timeouts: 4\n",
    )
    put(
        tmp_path,
        "obdfilter/fs-OST0007/recovery_status",
        f"status: RECOVERING\nrecovery_start: {when + 2}\ncompleted_clients: 1/9\nevicted_clients: 2\n",
    )
    later = NOW + 60 * 10**9
    assert sorted(probe.read(later).events) == sorted(
        [
            (later, "c1", "health", "Lustre reports: NOT HEALTHY device fs-OST0007 reported unhealthy", None),
            (later, "fs-OST0007", "clients_lost", "fs-OST0007 has 80 clients, had 100", None),
            (later, "fs-OST0007", "eviction", "fs-OST0007 evicted 2 clients", None),
            ((when + 1) * 10**9, "fs-OST0000", "eviction", "c1 was evicted by fs-OST0000", None),
            (later, "fs-OST0000", "failover", "fs-OST0000 is reached at 10.0.0.2@tcp, no longer at 10.0.0.1@tcp", None),
            (later, "fs-OST0000", "timeouts", "3 requests of c1 to fs-OST0000 timed out", None),
            (
                (when + 2) * 10**9,
                "fs-OST0007",
                "recovery",
                "recovery of fs-OST0007: RECOVERING, clients 1/9, 2 evicted",
                None,
            ),
        ]
    )
    assert not probe.read(later).events, "told once"
    put(tmp_path, f"{device}/state", f" - [ {when + 1}, EVICTED ]\n - [ {when + 9}, FULL ]\n")
    put(tmp_path, "health_check", "healthy\n", "sys/fs/lustre")
    told = probe.read(later).events
    assert [(event.kind, event.ts_ns) for event in told] == [("health", later), ("reconnect", (when + 9) * 10**9)]


def test_counters_that_may_not_be_read_are_asked_of_lctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "obdfilter/fs-OST0000/num_exports", "3\n", "sys/fs/lustre")
    listing = os.listdir

    def refused(path: Any = ".") -> list[str]:
        if str(path).startswith(str(tmp_path / "sys/kernel")):
            raise PermissionError(13, "Permission denied", str(path))
        return listing(path)

    monkeypatch.setattr(os, "listdir", refused)
    with pytest.raises(PermissionError, match="only root"):
        PROBES["lustre_ost"](str(tmp_path), "oss").read(NOW)
    with pytest.raises(AbsentError):
        PROBES["lustre_mdt"](str(tmp_path), "oss").read(NOW)
    program = tmp_path / "lctl"
    program.write_text(f"#!/bin/sh\necho \"$@\" > {tmp_path}/asked\ncat <<'END'\n{DUMP.decode()}\nEND\nexit 2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    found = PROBES["lustre_ost"](str(tmp_path), "oss", lctl=f"{program} -q").read(NOW)
    assert rows(found) == {("fs-OST0000",): [0, 5, 0, 50, 0, None, None, None, None]}
    assert (tmp_path / "asked").read_text() == "-q get_param obdfilter.*.stats ost.OSS.ost_io.stats\n"


def test_an_lctl_that_hangs_is_ended(tmp_path: Path) -> None:
    program = tmp_path / "lctl"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    with pytest.raises(TimeoutError, match="has not ended"):
        ask_lctl_parameters([str(program)], ["obdfilter/*/stats"], 0.2)
    program.write_text("#!/bin/sh\necho 'error: get_param: no such' >&2\nexit 2\n")
    nothing = ask_lctl_parameters([str(program)], ["obdfilter/*/stats"], 20.0)
    assert nothing.names == []
    nothing.file.close()
    program.write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    with pytest.raises(OSError, match="status 1: sudo: a password is required"):
        ask_lctl_parameters([str(program)], ["obdfilter/*/stats"], 20.0)

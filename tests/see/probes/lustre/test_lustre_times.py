"""How long requests took, as Lustre counts it: microseconds become nanoseconds, what is not timed is unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairlead.see.agent.deltas import Deltas
from fairlead.see.probes.base import Reading
from fairlead.see.probes.lustre import PROBES
from lustre_writing import job_stats

NOW = 1_700_000_000 * 10**9
MD_STATS = """snapshot_time             1716290000.000000001 secs.nsecs
open                      {opens} samples [{unit}] 3 900 {open_us} 99
getattr                   {gets} samples [{unit}] 1 20 {get_us} 44
statfs                    2 samples [reqs]
"""


def put(root: Path, name: str, text: str) -> None:
    path = root / "proc/fs/lustre" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def named(reading: Reading) -> dict[Any, dict[str, Any]]:
    names = reading.counters + reading.gauges
    return {key: dict(zip(names, row, strict=True)) for key, row in reading.rows.items()}


def test_md_stats_keep_the_time_of_operations(tmp_path: Path) -> None:
    """In `[usec]` as 2.12 writes them and in `[usecs]`; an operation counted in `[reqs]` has no time, not zero."""
    for unit in ("usec", "usecs"):
        put(tmp_path, "mdt/fs-MDT0000/md_stats", MD_STATS.format(unit=unit, opens=4, open_us=1000, gets=9, get_us=90))
        found = named(PROBES["lustre_mdt"](str(tmp_path), "mds").read(NOW).readings[0])
        assert found["fs-MDT0000", "open"] == {"count": 4, "busy_ns": 1_000_000}
        assert found["fs-MDT0000", "getattr"] == {"count": 9, "busy_ns": 90_000}
        assert found["fs-MDT0000", "statfs"] == {"count": 2, "busy_ns": None}


def test_an_ost_tells_times_by_kind(tmp_path: Path) -> None:
    """`read` and `write` beside `read_bytes` and `write_bytes` (2.13 and later); a kind with one untimed operation is
    not known, and a text without any time knows none."""
    text = (
        "read_bytes 3 samples [bytes] 1 1 30\nwrite_bytes 5 samples [bytes] 1 1 50\n"
        "read 3 samples [usecs] 1 1 700 9\nwrite 5 samples [usecs] 1 1 900 9\ncreate 2 samples [usecs] 1 1 11 9\n"
    )
    for more, metadata_ns in (
        ("", 11_000),
        ("punch 1 samples [reqs]\n", None),
        ("punch 1 samples [usecs] 1 1 4 1\n", 15_000),
    ):
        put(tmp_path, "obdfilter/fs-OST0000/stats", text + more)
        row = named(PROBES["lustre_ost"](str(tmp_path), "oss").read(NOW).readings[0])["fs-OST0000",]
        assert (row["read_busy_ns"], row["write_busy_ns"], row["metadata_busy_ns"]) == (700_000, 900_000, metadata_ns)
    put(tmp_path, "obdfilter/fs-OST0000/stats", text.partition("read 3")[0])
    row = named(PROBES["lustre_ost"](str(tmp_path), "oss").read(NOW).readings[0])["fs-OST0000",]
    assert (row["read_busy_ns"], row["write_busy_ns"], row["metadata_busy_ns"]) == (None, None, None)


def test_times_of_a_client(tmp_path: Path) -> None:
    """Calls on the mount, requests to an OST and to an MDT."""
    put(
        tmp_path,
        "llite/fs-ffff88105db50000/stats",
        "read_bytes 2 samples [bytes] 1 9 10\nread 2 samples [usecs] 1 1 40 9\nopen 1 samples [usecs] 5 5 5 25\n",
    )
    row = named(PROBES["lustre_llite"](str(tmp_path), "c1").read(NOW).readings[0])["fs",]
    assert (row["read_busy_ns"], row["write_busy_ns"], row["metadata_busy_ns"]) == (40_000, 0, 5_000)
    put(tmp_path, "osc/fs-OST0000-osc-ffff88105db50000/stats", "ost_write 3 samples [usec] 1 2 4 6\n")
    row = named(PROBES["lustre_osc"](str(tmp_path), "c1").read(NOW).readings[0])["fs-OST0000", "fs"]
    assert (row["write_rpcs"], row["write_busy_ns"], row["read_busy_ns"]) == (3, 4_000, 0)
    put(tmp_path, "mdc/fs-MDT0000-mdc-ffff88105db50000/md_stats", "getattr 3 samples [usecs] 1 2 44 6\n")
    row = named(PROBES["lustre_mdc"](str(tmp_path), "c1").read(NOW).readings[0])["fs-MDT0000", "fs"]
    assert (row["metadata_ops"], row["metadata_busy_ns"]) == (3, 44_000)


def test_jobs_at_an_mdt_reach_the_table_with_their_times(tmp_path: Path) -> None:
    """Through deltas and a batch: one row an operation, its count and its time. Texts before 2.13 have no time."""
    for new in (True, False):
        probe = PROBES["lustre_mdt_jobs"](str(tmp_path), "mds")
        put(tmp_path, "mdt/fs-MDT0000/job_stats", "job_stats:\n")
        deltas = Deltas()
        assert list(deltas.advance(probe.read(NOW).readings[0], 0)) == []
        text = b"".join(job_stats(1, seed=5, idle=0.0, mdt=True, new=new)).decode()
        put(tmp_path, "mdt/fs-MDT0000/job_stats", text)
        reading = probe.read(NOW).readings[0]
        told = {
            line.split(":")[0].strip(): [
                int(word.split(":")[1])
                for word in line.split("{")[1].strip(" }\n").split(",")
                if "sum:" in word or "samples:" in word
            ]
            for line in text.splitlines()
            if "{" in line
        }
        wanted = {op: numbers for op, numbers in told.items() if numbers[0]}
        assert wanted
        assert reading.spread == (("op", "count", "busy_ns") if new else ("op", "count"))
        names = len(reading.counters) // (len(reading.spread) - 1)
        (row,) = reading.rows.values()
        for place, op in enumerate(reading.counters[:names]):
            count, *us = wanted.get(op, [0, 0] if new else [0])
            assert [*row[place::names]] == [count, *(1000 * n for n in us)], op

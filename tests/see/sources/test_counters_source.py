"""Saved counters as a source: dumps and single files, one snapshot and several of one host, what cannot be said."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fairlead.core.errors import CorruptInputError
from fairlead.core.model.missing import Missing
from fairlead.see.sources.base import Item
from fairlead.see.sources.counters import CountersSource
from fairlead.see.sources.inputs import (
    Failure,
    detect_input_source,
    discover_input_files,
    group_input_files,
    read_job_inputs,
)
from fairlead.see.sources.registered_sources import list_registered_sources, load_registered_source
from lustre_writing import job_stats

T0 = 1_716_290_000
START = 1_716_280_000


def dump(at: int, written: int, opens: int, job: int = 0, *, start: bool = False, free: int = 400) -> str:
    """An OSS that is its MDS, too, at one moment."""
    head = f"snapshot_time             {at}.000000000 secs.nsecs\n"
    if start:
        head += f"start_time                {START}.000000000 secs.nsecs\n"
        head += f"elapsed_time              {at - START}.000000000 secs.nsecs\n"
    entry = f"""- job_id:          77
  snapshot_time:   {at}
  read_bytes:      {{ samples:           0, unit: bytes, min: 0, max: 0, sum: 0 }}
  write_bytes:     {{ samples:           {job}, unit: bytes, min: 1, max: 1, sum: {job * 100} }}
"""
    return (
        f"health_check=healthy\nobdfilter.fs-OST0000.kbytestotal=1000\nobdfilter.fs-OST0000.kbytesfree={free}\n"
        f"obdfilter.fs-OST0000.stats=\n{head}write_bytes               {written} samples [bytes] 1 1 {written * 100}\n"
        f"obdfilter.fs-OST0000.job_stats=\njob_stats:\n{entry if job else ''}"
        f"mdt.fs-MDT0000.md_stats=\n{head}open                      {opens} samples [reqs]\n"
    )


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def rows(items: list[Item], table: str) -> list[dict[str, Any]]:
    found = []
    for item in items:
        if isinstance(item, pa.RecordBatch) and item.schema.metadata[b"fairlead.table"] == table.encode():
            found += [{k: v for k, v in row.items() if v is not None} for row in item.to_pylist()]
    return found


def missing(items: list[Item]) -> list[str]:
    return [item.kind for item in items if isinstance(item, Missing)]


def test_a_dump_is_known_by_its_content(tmp_path: Path) -> None:
    assert "counters" in list_registered_sources()
    assert load_registered_source("counters").name == CountersSource.name
    assert detect_input_source(written(tmp_path, "a", dump(T0, 5, 1))).name == "counters"
    assert detect_input_source(written(tmp_path, "b", gzip.compress(dump(T0, 5, 1).encode()))).name == "counters"
    assert detect_input_source(written(tmp_path, "c", b"".join(job_stats(3)))).name == "counters"
    accepts = CountersSource().accepts
    for text in (
        b"a=b\nc=d\n",
        b"[section]\nosc = 1\n",
        b"snapshot of things\n",
        b"{}",
        b"job_stats are fine\n",
        b"JobId=1 a=b\n",
    ):
        assert not accepts(text, Path("x")), text


def test_one_snapshot_has_gauges_and_no_deltas(tmp_path: Path) -> None:
    items = list(CountersSource().read(written(tmp_path, "oss3@monday.txt", dump(T0, 5, 1, job=2))))
    assert rows(items, "target") == [
        {
            "ts_ns": T0 * 10**9,
            "server": "oss3",
            "target": "fs-OST0000",
            "source": "osd",
            "capacity_bytes": 1024000,
            "used_bytes": 614400,
        }
    ]
    assert rows(items, "metadata") == []
    assert missing(items) == ["no_interval"]


def test_counters_that_tell_when_they_began_give_the_sums_since(tmp_path: Path) -> None:
    items = list(CountersSource().read(written(tmp_path, "oss3", dump(T0, 5, 7, start=True))))
    base = {"ts_ns": T0 * 10**9, "interval_ns": 10_000 * 10**9, "server": "oss3"}
    target = [row for row in rows(items, "target") if row["source"] == "obdfilter"]
    assert target == [
        {
            **base,
            "target": "fs-OST0000",
            "source": "obdfilter",
            "read_rpcs": 0,
            "write_rpcs": 5,
            "read_bytes": 0,
            "write_bytes": 500,
            "metadata_ops": 0,
        }
    ]
    assert rows(items, "metadata") == [{**base, "target": "fs-MDT0000", "source": "md_stats", "op": "open", "count": 7}]
    assert missing(items) == []


def test_a_start_that_is_the_age_of_the_machine_is_no_date(tmp_path: Path) -> None:
    text = dump(T0, 5, 7, start=True).replace(f"start_time                {START}", "start_time                9538")
    items = list(CountersSource().read(written(tmp_path, "oss3", text)))
    assert [row["source"] for row in rows(items, "target")] == ["osd"]
    assert missing(items) == ["no_interval"]


def test_two_snapshots_of_a_host_give_what_happened_between(tmp_path: Path) -> None:
    second = written(tmp_path, "oss3@b", dump(T0 + 60, 25, 9, job=4, free=300))
    first = written(tmp_path, "oss3@a", dump(T0, 5, 7, job=1))
    other = written(tmp_path, "oss4@a", dump(T0, 5, 7).replace("OST0000", "OST0001").replace("MDT0000", "MDT0001"))
    files, failures = discover_input_files([second, first, other])
    jobs = group_input_files(files)
    assert [sorted(path.name for path in job.files) for job in jobs] == [["oss3@a", "oss3@b"], ["oss4@a"]]
    items = list(read_job_inputs(jobs[0], failures))
    assert failures == []
    base = {"ts_ns": (T0 + 60) * 10**9, "interval_ns": 60 * 10**9, "server": "oss3"}
    counted = [row for row in rows(items, "target") if "interval_ns" in row and "write_bytes" in row]
    zeros = {"read_rpcs": 0, "read_bytes": 0, "metadata_ops": 0}
    assert counted == [
        {**base, **zeros, "target": "fs-OST0000", "source": "obdfilter", "write_rpcs": 20, "write_bytes": 2000},
        {
            **base,
            **zeros,
            "target": "fs-OST0000",
            "source": "job_stats",
            "job_id": "77",
            "write_rpcs": 3,
            "write_bytes": 300,
        },
    ]
    assert [row["used_bytes"] for row in rows(items, "target") if "used_bytes" in row] == [614400, 716800]
    assert rows(items, "metadata") == [{**base, "target": "fs-MDT0000", "source": "md_stats", "op": "open", "count": 2}]
    assert missing(items) == []


def test_snapshots_may_follow_one_another_in_one_file(tmp_path: Path) -> None:
    path = written(tmp_path, "oss3.txt", dump(T0, 5, 7) + dump(T0 + 60, 25, 9) + dump(T0 + 90, 26, 9))
    items = list(CountersSource().read(path))
    counted = [row for row in rows(items, "target") if row["source"] == "obdfilter"]
    assert [(row["ts_ns"] // 10**9 - T0, row["interval_ns"] // 10**9, row["write_rpcs"]) for row in counted] == [
        (60, 60, 20),
        (90, 30, 1),
    ]
    assert missing(items) == []
    twice = written(tmp_path, "oss4.txt", dump(T0, 5, 7) + "obdfilter.fs-OST0000.kbytesfree=500\n")
    assert [row["used_bytes"] for row in rows(list(CountersSource().read(twice)), "target")] == [512000]


def test_a_counter_that_began_anew_tells_nothing_of_that_interval(tmp_path: Path) -> None:
    paths = [
        written(tmp_path, name, dump(T0 + at, n, 7)) for name, at, n in (("a", 0, 50), ("b", 60, 5), ("c", 120, 6))
    ]
    counted = [row for row in rows(list(CountersSource().read_series(paths)), "target") if row["source"] == "obdfilter"]
    assert [(row["ts_ns"] // 10**9 - T0, row["write_rpcs"]) for row in counted] == [(120, 1)]


def test_a_single_file_is_named_after_its_folder_or_itself(tmp_path: Path) -> None:
    folder = tmp_path / "obdfilter" / "fs-OST0009"
    folder.mkdir(parents=True)
    new = b"".join(job_stats(5, seed=4, idle=0))
    found = rows(list(CountersSource().read(written(folder, "job_stats", new))), "target")
    assert {row["target"] for row in found} == {"fs-OST0009"}
    assert {row["job_id"] for row in found} == {str(1_000_000 + n) for n in range(5)}
    assert all(row["interval_ns"] > 0 and row["source"] == "job_stats" for row in found)
    mdt = rows(
        list(CountersSource().read(written(tmp_path, "mdt7", b"".join(job_stats(2, mdt=True, idle=0))))), "metadata"
    )
    assert {row["target"] for row in mdt} == {"mdt7"}
    assert {"rename", "unlink"} < {row["op"] for row in mdt}
    assert all(row["count"] > 0 for row in mdt)


def test_a_copy_of_proc_keeps_its_names(tmp_path: Path) -> None:
    folder = tmp_path / "proc/fs/lustre/obdfilter/fs-OST0002/exports/10.0.0.9@tcp"
    folder.mkdir(parents=True)
    head = f"snapshot_time             {T0}.0 secs.nsecs\nstart_time                {START}.0 secs.nsecs\n"
    text = f"{head}write_bytes               5 samples [bytes] 1 1 50\npreprw                    5 samples [reqs]\n"
    (row,) = rows(list(CountersSource().read(written(folder, "stats", text))), "target")
    assert (row["target"], row["client"], row["source"], row["write_bytes"]) == (
        "fs-OST0002",
        "10.0.0.9@tcp",
        "exports",
        50,
    )


@pytest.mark.shared_data
def test_single_files_of_a_site(shared_data: Path) -> None:
    base = shared_data / "lustre" / "gsi-lustre_exporter" / "proc/fs/lustre"
    known = 0
    for name in (
        "obdfilter/*/stats",
        "obdfilter/*/job_stats",
        "mdt/*/job_stats",
        "mdt/*/md_stats",
        "llite/*/stats",
        "osd-zfs/*/brw_stats",
    ):
        for path in base.glob(name):
            assert detect_input_source(path).name == "counters", path
            items = list(CountersSource().read(path))
            assert [kind for kind in missing(items) if kind not in ("no_interval", "no_records")] == [], path
            known += 1
    assert known == 4 + 4 + 1 + 1 + 1 + 6


def test_what_is_not_understood_is_said(tmp_path: Path) -> None:
    text = dump(T0, 5, 1).replace("open  ", "a strange line\nopen  ")
    said = [item for item in CountersSource().read(written(tmp_path, "a", text)) if isinstance(item, Missing)]
    assert next((item.kind, item.what, item.why) for item in said) == (
        "unknown_lines",
        "1 lines of counters",
        "not understood: 'a strange line'",
    )


def test_a_dump_of_nothing_that_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, "a", "osc.fs-OST0000-osc-ffff.max_rpcs_in_flight=8\nldlm.services.x=1\n")
    failures: list[Failure] = []
    files, _ = discover_input_files([path])
    assert list(read_job_inputs(group_input_files(files)[0], failures)) == []
    assert [type(failure.error) for failure in failures] == [CorruptInputError]
    assert "no counter" in str(failures[0].error)


def test_broken_gzip_is_said(tmp_path: Path) -> None:
    packed = gzip.compress(os.urandom(200_000) + dump(T0, 1, 1).encode())
    path = written(tmp_path, "a.gz", packed[:-4000])
    with pytest.raises(CorruptInputError, match="gzip"):
        list(CountersSource().read(path))


def test_many_jobs_are_read_once(tmp_path: Path) -> None:
    path = written(tmp_path, "oss.txt", b"obdfilter.fs-OST0000.job_stats=\n" + b"".join(job_stats(2000, seed=6)))
    found = rows(list(CountersSource().read(path)), "target")
    assert len(found) == len({row["job_id"] for row in found}) > 1000

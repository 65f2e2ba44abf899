"""The Beacon source on small files of every published line form."""

from __future__ import annotations

import gzip
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fairlead.core.errors import CorruptInputError, InputError, UnknownFormatError, UsageError
from fairlead.core.model.identity import compute_file_identity
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import find_table_spec
from fairlead.see.sources.beacon import BeaconSource
from fairlead.see.sources.beacon.job_records import expand_job_node_ids, format_job_node_address
from fairlead.see.sources.node_lists import NodeListError

NS = 1_000_000_000
SHARED_FILE = "/User146/6596814368836924247/-1160749754054947605"


def rows_of(items: Any) -> tuple[dict[str, list[dict[str, Any]]], dict[str, Missing]]:
    tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
    gaps: dict[str, Missing] = {}
    for item in items:
        if isinstance(item, pa.RecordBatch):
            item.validate(full=True)
            for field, column in zip(item.schema, item.columns, strict=True):
                assert field.nullable or column.null_count == 0, field.name
            tables[find_table_spec(item.schema).name] += item.to_pylist()
        else:
            gaps[item.kind] = item
    return tables, gaps


def read(path: Path, **options: Any) -> tuple[dict[str, list[dict[str, Any]]], dict[str, Missing]]:
    return rows_of(BeaconSource(**options).read(path))


@pytest.fixture
def folder(fixtures: Path) -> Path:
    return fixtures / "beacon"


def test_client_lines_become_runs_that_count_back_from_the_last_offset(folder: Path) -> None:
    tables, gaps = read(folder / "client_released.log")
    ops = tables["ops"]
    assert [row["op"] for row in ops] == ["open", "read", "write", "read", "close", "read", "open", "write", "write"]
    run = ops[1]
    assert (run["offset"], run["size"], run["stride"], run["count"]) == (0, 131072, 131072, 8)
    assert run["start_ns"] == 1536560213 * NS
    assert run["end_ns"] == run["start_ns"] + NS - 1
    assert run["node"] == "172.0.12.3"
    assert run["handle"] == 0x1200BD3F0
    assert run["file_id"] == compute_file_identity("", SHARED_FILE)
    assert [row["path"] for row in tables["files"]] == [SHARED_FILE, "/User146/-77/12"]
    assert gaps["offsets_past_2_gib"].what == "the exact extent of 1 run"


def test_offset_is_first_when_told(folder: Path) -> None:
    tables, gaps = read(folder / "client_released.log", offset_is="first")
    assert tables["ops"][1]["offset"] == 917504
    assert tables["ops"][8]["offset"] == 0
    assert "doubtful_offsets" not in gaps


def test_a_run_that_would_begin_before_its_file_has_no_offset(folder: Path) -> None:
    tables, gaps = read(folder / "client_released.log")
    assert (tables["ops"][8]["offset"], tables["ops"][8]["size"], tables["ops"][8]["count"]) == (None, 100, 2)
    assert "1 run" in gaps["doubtful_offsets"].what


def test_handles_belong_to_a_host_and_end_with_their_release(folder: Path) -> None:
    ops = read(folder / "client_released.log")[0]["ops"]
    assert ops[3]["node"] == "172.0.12.4"
    assert ops[3]["file_id"] is None, "the same handle on another host is another file"
    assert ops[4]["file_id"] == compute_file_identity("", SHARED_FILE)
    assert ops[5]["file_id"] is None, "the handle was released"


def test_a_handle_of_64_bits_is_signed(folder: Path) -> None:
    assert read(folder / "client_released.log")[0]["ops"][6]["handle"] == 0xFFFFFFFF80000010 - (1 << 64)


def test_sums_and_means_keep_bytes_and_operations_exact(folder: Path) -> None:
    tables, gaps = read(folder / "client_sums.log")
    ops = tables["ops"]
    per_second: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for row in ops:
        assert row["offset"] is None
        per_second[row["start_ns"]][0] += row["size"] * row["count"]
        per_second[row["start_ns"]][1] += row["count"]
    assert list(per_second.values()) == [[1048576, 8], [1003, 4], [262144, 3]]
    assert gaps["request_sizes"].what == "single request sizes of 3 runs"


def test_pages_on_disk_name_their_host_by_file_name(folder: Path) -> None:
    ops = read(folder / "pages" / "172.0.12.3.json")[0]["ops"]
    assert [row["op"] for row in ops] == ["open", "write", "close", "open", "read", "close"]
    assert {row["node"] for row in ops} == {"172.0.12.3"}
    assert ops[2]["file_id"] == compute_file_identity("", "/User001/12/-5")
    assert (ops[4]["file_id"], ops[4]["offset"]) == (compute_file_identity("", "/User001/12/-6"), 0)


def test_server_histograms_are_differences_of_one_snapshot(folder: Path) -> None:
    tables, gaps = read(folder / "server.log")
    rows = {(row["ts_ns"], row["op_class"]): row for row in tables["forwarder"]}
    later = 1519552857 * NS
    read_row = rows[later, "read"]
    assert read_row["wait_ns_histogram"] == [1, 2, 3, 0, 0, 0, 0, 4]
    assert read_row["service_ns_histogram"] == [0, 2, 8, 0, 0, 0, 0, 0]
    assert (read_row["requests"], read_row["interval_ns"], read_row["node"]) == (10, 45 * NS, "17.0.2.1")
    assert rows[later, "all"]["queue_len_max"] == 12
    assert rows[later, "metadata"]["requests"] == 0
    # Write wait fell at 18:01:43: nothing is said of that interval, the next starts from the new base.
    assert (1519552903 * NS, "write") not in rows
    assert rows[1519552948 * NS, "write"]["wait_ns_histogram"] == [5, 0, 0, 0, 0, 0, 0, 0]
    assert rows[1519552948 * NS, "write"]["requests"] is None
    assert gaps["counter_resets"].what.startswith("1 interval")
    assert gaps["unreadable_lines"].why.startswith("not in a Beacon format; the first is line 17")


def test_forwarder_rpcs_and_read_ahead(folder: Path) -> None:
    tables, _ = read(folder / "forwarder_client.log")
    rpcs = [row for row in tables["pfs_client"] if row["target"]]
    cache = [row for row in tables["pfs_client"] if not row["target"]]
    assert (rpcs[0]["read_bytes"], rpcs[0]["write_bytes"]) == (4096 * (1 + 256 * 10), 4096 * 256 * 2)
    assert (rpcs[0]["target"], rpcs[0]["node"], rpcs[0]["interval_ns"]) == ("OST0012", "17.0.3.7", NS // 2)
    assert rpcs[0]["pages_per_rpc_read"][:9] == [1, 0, 0, 0, 0, 0, 0, 0, 10]
    assert (rpcs[1]["read_bytes"], rpcs[1]["write_bytes"]) == (4 * 1024 * 4096, 4096 * 2 * 1024 * 1024)
    assert rpcs[2]["ts_ns"] == 1519552836 * NS, "a page's own time is local"
    assert [(row["cache_hit"], row["cache_miss"], row["cache_discard"]) for row in cache] == [(100, 1, 0), (1, 1, 3)]


def test_a_difference_belongs_to_the_last_poll(folder: Path) -> None:
    assert [row["interval_ns"] for row in read(folder / "targets.log")[0]["target"]] == [NS // 2, NS]
    rows = read(folder / "targets.log", poll_s=None)[0]["target"]
    assert [row["interval_ns"] for row in rows] == [NS // 2, 60 * NS + NS // 2]
    assert [(row["read_rpcs"], row["write_rpcs"], row["server"]) for row in rows] == [
        (1, 2, "17.0.4.1"),
        (5, 0, "17.0.4.1"),
    ]


def test_target_pages_take_their_name_from_the_file(folder: Path) -> None:
    rows = read(folder / "ost" / "OST0007.csv", file_system="online1")[0]["target"]
    assert [(row["target"], row["read_bytes"], row["write_bytes"]) for row in rows] == [
        ("online1-OST0007", 4096, 16384)
    ]


def test_metadata_counts_what_happened_only(folder: Path) -> None:
    tables, gaps = read(folder / "metadata.log")
    got = {(row["client"], row["op"]): row["count"] for row in tables["metadata"]}
    assert got == {("17.0.2.35", "open"): 10, ("17.0.2.35", "close"): 7, ("17.0.208.3", "open"): 2}
    assert {row["server"] for row in tables["metadata"]} == {"17.0.1.1"}
    assert "counter_resets" in gaps
    assert "line 5" in gaps["unreadable_lines"].why


def test_job_records(folder: Path) -> None:
    tables, gaps = read(folder / "jobs.log", cluster="light")
    first, second, third, fourth = tables["jobs"]
    assert first["nodes"] == [format_job_node_address(n) for n in (0, 1, 2, 3, 1023, 1024, 40959)]
    assert first["nodes"][-1] == "172.39.127.8"
    assert (first["nodes_count"], first["cores"], first["program"], first["cluster"]) == (16, 64, "vasp", "light")
    assert first["start_ns"] == 1519265331 * NS, "2018-02-22 10:08:51 at UTC+8"
    assert (second["end_ns"], second["state"]) == (None, "RUNNING")
    assert (third["start_ns"], third["state"], third["nodes"]) == (None, None, None)
    assert fourth["nodes"] is None
    assert "0-999999999" in gaps["node_list_too_large"].why
    assert "forwarder_mapping" in gaps


def test_forwarder_mapping_is_data(folder: Path) -> None:
    tables, gaps = read(folder / "jobs.log", forwarders=("17.0.2.1", "17.0.2.2"), nodes_per_forwarder=512)
    assert "forwarder_mapping" not in gaps
    mapping = {row["a"]: row["b"] for row in tables["mapping"]}
    assert len(mapping) == 1024
    assert (mapping[format_job_node_address(511)], mapping[format_job_node_address(512)]) == ("17.0.2.1", "17.0.2.2")


def test_mixed_lines_give_what_the_single_files_give(folder: Path) -> None:
    parts = ("client_released", "server", "forwarder_client", "targets", "metadata", "jobs")
    apart: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for part in parts:
        for name, rows in read(folder / f"{part}.log")[0].items():
            apart[name] += rows
    together, gaps = read(folder / "mixed.log")
    assert {n: sorted(map(str, r)) for n, r in together.items()} == {n: sorted(map(str, r)) for n, r in apart.items()}
    assert gaps["unreadable_lines"].what == "3 lines"


def test_a_series_carries_handles_and_counters(tmp_path: Path) -> None:
    day1, day2 = tmp_path / "1.log", tmp_path / "2.log"
    day1.write_text(
        "[2018-09-10 23:59:59] T OPEN() /U/1 => 0xab || 2018-09-10T15:59:59.000Z || 172.0.0.1\n"
        "17.0.2.1 open 5 || 2018-09-10T15:59:59.000Z || 17.0.1.1\n"
    )
    day2.write_text(
        "[2018-09-11 00:00:01] T READ 0xab size=8 offset=0 count=1 || 2018-09-10T16:00:01.000Z || 172.0.0.1\n"
        "17.0.2.1 open 9 || 2018-09-10T16:00:01.000Z || 17.0.1.1\n"
    )
    alone, gaps = read(day2)
    assert alone["ops"][0]["file_id"] is None
    assert "unknown_files" in gaps
    assert not alone["metadata"]
    tables, gaps = rows_of(BeaconSource().read_series([day1, day2]))
    assert tables["ops"][1]["file_id"] == compute_file_identity("", "/U/1")
    assert [row["count"] for row in tables["metadata"]] == [4]
    assert "unknown_files" not in gaps


@pytest.mark.parametrize(
    "name",
    [
        "client_released.log",
        "client_sums.log",
        "server.log",
        "forwarder_client.log",
        "targets.log",
        "metadata.log",
        "jobs.log",
        "mixed.log",
        "ost/OST0007.csv",
        "pages/172.0.12.3.json",
    ],
)
def test_accepts_by_content(folder: Path, name: str) -> None:
    assert BeaconSource().accepts((folder / name).read_bytes()[:8192], Path("anything"))


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\0" * 100,
        b"\n\n\n",
        b"JobID|State\n1|COMPLETED\n",
        b'{"jobs": [\n',
        b"# a comment\n1 2 3\n",
        b"[2018-09-10 14:16:52] INFO something happened\n",
        b"2018-09-10 14:16:52,1,2,3,4,5,6\n",
        b'[{"id":0,"name":"start","cat":"dftracer","pid":1}\n',
        b"1,2,3,4,5,6,7\n8,9,10,11,12,13,14\n",
    ],
)
def test_accepts_nothing_else(head: bytes) -> None:
    assert not BeaconSource().accepts(head, Path("beacon.log"))


def test_gzip_is_read_and_a_cut_one_says_so(folder: Path, tmp_path: Path) -> None:
    raw = (folder / "mixed.log").read_bytes()
    whole = tmp_path / "whole"
    whole.write_bytes(gzip.compress(raw[:700]) + gzip.compress(raw[700:]))
    assert read(whole)[0] == read(folder / "mixed.log")[0]
    cut = tmp_path / "cut"
    cut.write_bytes(gzip.compress(raw * 50)[:-200])
    tables, gaps = read(cut)
    assert tables["ops"]
    assert "gzip" in gaps["truncated"].why


def test_unterminated_last_line_is_left_out(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.log"
    path.write_bytes((folder / "targets.log").read_bytes()[:-3])
    tables, gaps = read(path)
    assert len(tables["target"]) == 1
    assert gaps["unterminated_line"].where == str(path)


def test_clear_errors(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    for content, error in (
        (b"", CorruptInputError),
        (b"no newline", CorruptInputError),
        (b"nothing of\nthis kind\n", UnknownFormatError),
        (b"\x1f\x8b\x08\x00broken", CorruptInputError),
    ):
        path.write_bytes(content)
        with pytest.raises(error) as caught:
            list(BeaconSource().read(path))
        assert caught.value.where == str(path)
        assert caught.value.remedy
    with pytest.raises(InputError, match="no such file"):
        list(BeaconSource().read(tmp_path / "absent"))


def test_wrong_options_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="time zone"):
        BeaconSource(time_zone="Asia/Shangai")
    with pytest.raises(UsageError, match="offset_is"):
        BeaconSource(offset_is="middle")  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "a", "1-", "-3", "5-2", "1,,2", "1;2", "٣"])
def test_malformed_node_numbers(text: str) -> None:
    with pytest.raises(NodeListError) as caught:
        expand_job_node_ids(text)
    assert not caught.value.too_large


@pytest.mark.shared_data
def test_public_job_sample_counts(shared_data: Path) -> None:
    path = shared_data / "taihulight-jobs" / "jobs_2018-02.csv"
    plain = [line.split(",") for line in path.read_text().splitlines()[1:]]
    tables, gaps = read(path)
    jobs = tables["jobs"]
    assert [row["job_id"] for row in jobs] == [fields[0] for fields in plain]
    assert sum(row["cores"] for row in jobs) == sum(int(fields[3]) for fields in plain)
    for row, fields in zip(jobs, plain, strict=True):
        assert row["end_ns"] - row["start_ns"] == int(fields[7]) * NS
        assert (row["partition"], row["nodes_count"]) == (fields[1], int(fields[2]))
    assert "unreadable_lines" not in gaps

"""Lustre probes on real trees of files: every file is read by a probe with values known, or listed with its reason."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.core.model.tables import PART_SOURCES, TABLES
from fairlead.see.probes.base import AbsentError, ProbeResult, Reading
from fairlead.see.probes.lustre import PROBES
from fairlead.see.probes.lustre.histograms import parse_histograms
from fairlead.see.probes.lustre.job_ids import JobIds
from fairlead.see.probes.lustre.lustre_probe import TARGET_TIMES
from fairlead.see.probes.lustre.parameters import BASES, Parameter, Tree
from fairlead.see.probes.lustre.states import (
    Recovery,
    parse_import_state,
    parse_lnet_state,
    parse_recovery_state,
    parse_state_history,
)
from fairlead.see.probes.lustre.stats_lines import parse_stats_lines
from old_interpreter import HOW, old_python

pytestmark = pytest.mark.shared_data
ROOT = Path(__file__).resolve().parents[4]
NOW = 1_600_000_000 * 10**9
GSI, TELEGRAF = "gsi-lustre_exporter", "telegraf/testcases/v2.12"
OPTIONS: dict[str, dict[str, Any]] = {"lustre_space": {"everywhere": True}, "lustre_states": {"history": True}}
NOT_READ = {
    r"LICENSE": "the licence of the data",
    r"telegraf\.conf|expected\.out": "another program's settings and its output",
    r"llite/[^/]+/(extents_stats(_per_process)?|offset_stats)": "switched off by the site; no column holds them",
    r"(llite|lov|lod)/[^/]+/(kbytes|files)\w+": "sums of the targets' own, which are read",
    r"(osd-\w+|osp|osc|mdc|obdfilter)/[^/]+/kbytesavail": "the use of a target is its size less what is free",
    r"osd-\w+/[^/]+/stats": "the server's page cache: no column holds it",
    r"(osp|mdc)/[^/]+/stats": "requests of a connection, counted by md_stats and by the server",
    r"mgs/MGS/(exports/[^/]+|mgs)/stats": "the configuration server, which no job's I/O passes",
    r"mds/MDS/(?!mdt/)\w+/stats": "services beside the one whose queue is told",
    r"ost/OSS/(?!ost_io/)\w+/stats": "services beside the one whose queue is told",
    r"fs/lustre/(version|jobid_var)": "no counter: the version, and where clients look for the job's number",
}
"""Files that no probe opens, and why. Those with numbers are asserted below all the same."""


class Opened(Tree):
    """A tree that remembers which files were read."""

    def __init__(self, root: str, seen: set[str]) -> None:
        super().__init__(root)
        self.seen = seen

    def read_chunks(self, parameter: Parameter) -> Any:
        self.seen.add(parameter.path)
        return super().read_chunks(parameter)


def lustre(shared_data: Path, tree: str) -> str:
    return str(shared_data / "lustre" / tree)


def look(root: str, name: str, seen: set[str] | None = None, **more: Any) -> ProbeResult:
    probe = PROBES[name](root, "n1", **OPTIONS.get(name, {}), **more)
    if seen is not None:
        bases = probe.tree.bases
        probe.tree = Opened(root, seen)
        probe.tree.bases = bases
    return probe.read(NOW)


def rows(found: ProbeResult, at: int = 0) -> dict[Any, dict[str, Any]]:
    reading = found.readings[at]
    names = (*reading.counters, *reading.gauges)
    return {key: dict(zip(names, values, strict=True)) for key, values in reading.rows.items()}


def files(shared_data: Path) -> list[Path]:
    return sorted(path for path in (shared_data / "lustre").rglob("*") if path.is_file())


def test_every_file_is_read_by_a_probe_or_listed_with_its_reason(shared_data: Path) -> None:
    seen: set[str] = set()
    for tree in (GSI, TELEGRAF):
        for name in PROBES:
            try:
                look(lustre(shared_data, tree), name, seen)
            except AbsentError:
                assert tree == TELEGRAF, name
    reasons = [re.compile(rf"(?:.*/)?(?:{pattern})\Z") for pattern in NOT_READ]
    used = set()
    for path in files(shared_data):
        matching = [reason for reason in reasons if reason.match(path.as_posix())]
        used |= set(matching)
        read = str(path) in seen
        assert read != bool(matching), f"{path}: {'read, and listed as not' if read else 'neither read nor listed'}"
    assert used == set(reasons), "a reason no file has"
    assert len(seen) > 150


def _readings(shared_data: Path) -> Iterator[tuple[str, str, Reading]]:
    """Tree, probe and reading of every probe that finds something."""
    for tree in (GSI, TELEGRAF):
        for name in PROBES:
            try:
                found = look(lustre(shared_data, tree), name)
            except AbsentError:
                continue
            yield from ((tree, name, reading) for reading in found.readings)


def test_nothing_in_the_trees_is_unknown_but_what_is_no_counter(shared_data: Path) -> None:
    for tree, name, reading in _readings(shared_data):
        assert reading.unknown == 0, (tree, name, reading.unknown_example)


def test_readings_fit_their_tables(shared_data: Path) -> None:
    readings = list(_readings(shared_data))
    assert len(readings) >= len(PROBES), "every probe found its place in one of the trees"
    for _, _, reading in readings:
        _fits(reading)


def _fits(reading: Reading) -> None:
    schema = TABLES[reading.table].schema
    counted = reading.counters if reading.spread is None else reading.spread
    columns = [*reading.keys, *counted, *reading.gauges, *(name for name, _ in reading.constant)]
    assert set(columns) <= set(schema.names), reading
    assert len(set(columns)) == len(columns)
    required = {field.name for field in schema if not field.nullable}
    assert required <= {*columns, "ts_ns"}, reading
    width = len(reading.counters) + len(reading.gauges)
    assert all(len(values) == width and len(key) == len(reading.keys) for key, values in reading.rows.items())
    split = {"job_id", "client"} & set(reading.keys)
    source = dict(reading.constant).get("source")
    assert bool(split) == (source in ("job_stats", "exports")), "parts are marked by their source"
    assert source not in ("job_stats", "exports") or source in PART_SOURCES


# -- clients ---------------------------------------------------------------------------------------------------------


def test_llite_of_a_client(shared_data: Path) -> None:
    assert rows(look(lustre(shared_data, GSI), "lustre_llite")) == {
        ("lustrefs",): {
            "read_ops": 1,
            "write_ops": 89467810,
            "read_bytes": 4194304,
            "write_bytes": 93813797294080,
            # open 136, close 96, readdir 12, truncate 134, getattr 41, getxattr 85, removexattr 134
            "metadata_ops": 638,
            "cache_hit": 0,
            "cache_miss": 0,
            "cache_discard": 0,
            **dict.fromkeys(TARGET_TIMES),
        }
    }


def test_osc_of_a_client(shared_data: Path) -> None:
    found = rows(look(lustre(shared_data, GSI), "lustre_osc"))
    assert sorted(found) == [(f"lustrefs-OST000{n}", "lustrefs") for n in range(7)]
    busy = found["lustrefs-OST0000", "lustrefs"]
    assert (busy["read_rpcs"], busy["write_rpcs"]) == (0, 18210286)
    assert (busy["read_bytes"], busy["write_bytes"]) == (0, 65298098221056)
    assert busy["pages_per_rpc_write"][:11] == [
        1537,
        1489,
        2876,
        5860,
        11916,
        24502,
        51901,
        117183,
        458648,
        1145365,
        16389010,
    ]
    assert busy["rpcs_in_flight_write"][:5] == [0, 1053804, 3518152, 4520192, 3656921]
    # What was written while the two files were read differs by less than a thousandth.
    assert sum(busy["pages_per_rpc_write"]) == pytest.approx(busy["write_rpcs"], rel=1e-3)
    active = {key[0] for key, row in found.items() if row["write_rpcs"]}
    for key, row in found.items():
        assert (sum(row["pages_per_rpc_write"]) > 0) == (key[0] in active)
        assert row["read_rpcs"] == sum(row["pages_per_rpc_read"]) == 0


def test_mdc_and_lmv_of_a_client(shared_data: Path) -> None:
    found = look(lustre(shared_data, GSI), "lustre_mdc")
    by_target, by_mount = rows(found), rows(found, 1)
    row = by_target["lustrefs-MDT0000", "lustrefs"]
    assert row["metadata_ops"] == 11 + 1 + 329 + 134 + 6
    assert row["rpcs_in_flight_write"][:9] == [0, 90, 13, 12, 11, 9, 8, 53, 0]
    assert by_mount == {("lustrefs",): {"metadata_ops": 481, "metadata_busy_ns": None}}


# -- servers ---------------------------------------------------------------------------------------------------------


def test_osts(shared_data: Path) -> None:
    found = rows(look(lustre(shared_data, GSI), "lustre_ost"))
    statfs = {"0": 35359, "2": 35354, "4": 35350, "6": 35347}
    assert set(found) == {(f"lustrefs-OST000{n}",) for n in statfs}
    for number, of_mds in statfs.items():
        row = found[f"lustrefs-OST000{number}",]
        assert (row["read_rpcs"], row["read_bytes"], row["queue_len_mean"]) == (0, 0, None)
        written = (4298711, 16552048697344) if number == "0" else (0, 0)
        assert (row["write_rpcs"], row["write_bytes"]) == written
        # statfs is counted by two layers, in two lines of one name
        assert row["metadata_ops"] == 2 + of_mds + 124430 + (57 if number == "0" else 0)
    assert rows(look(lustre(shared_data, TELEGRAF), "lustre_ost")) == {
        ("OST0001",): {
            "read_rpcs": 203238095,
            "write_rpcs": 71893382,
            "read_bytes": 78026117632000,
            "write_bytes": 15201500833981,
            "metadata_ops": 1182008495 + 2 + 3575885 + 698 + 3190060 + 605647 + 805187 + 6608753 + 229231,
            **dict.fromkeys(TARGET_TIMES),
            "queue_len_mean": None,
        }
    }


def test_the_queue_of_a_server_is_that_since_the_last_look(shared_data: Path, tmp_path: Path) -> None:
    tree = Path(lustre(shared_data, GSI)) / "proc/fs/lustre"
    for name in ("obdfilter/lustrefs-OST0000/stats", "ost/OSS/ost_io/stats"):
        (tmp_path / "proc/fs/lustre" / name).parent.mkdir(parents=True)
        (tmp_path / "proc/fs/lustre" / name).write_bytes((tree / name).read_bytes())
    probe = PROBES["lustre_ost"](str(tmp_path), "n1")
    assert rows(probe.read(NOW))["lustrefs-OST0000",]["queue_len_mean"] is None
    service = tmp_path / "proc/fs/lustre/ost/OSS/ost_io/stats"
    text = service.read_text().replace(
        "req_qdepth                4298835 samples [reqs] 0 4 1751 2055",
        "req_qdepth                4298935 samples [reqs] 0 4 2001 2555",
    )
    service.write_text(text)
    assert rows(probe.read(NOW))["lustrefs-OST0000",]["queue_len_mean"] == 2.5
    assert rows(probe.read(NOW))["lustrefs-OST0000",]["queue_len_mean"] is None


def test_device_sizes(shared_data: Path) -> None:
    found = rows(look(lustre(shared_data, GSI), "lustre_brw"))
    assert set(found) == {("MGS",), ("lustrefs-MDT0000",), *((f"lustrefs-OST000{n}",) for n in (0, 2, 4, 6))}
    busy = found["lustrefs-OST0000",]
    assert busy["write_sizes"][:11] == [153, 157, 358, 679, 1367, 2911, 6161, 13817, 58945, 154861, 4059303]
    assert sum(busy["write_sizes"]) == 4298712
    for (target,), row in found.items():
        assert sum(row["read_sizes"]) == {"MGS": 128, "lustrefs-MDT0000": 82}.get(target, 23), target
        assert row["service_ns_histogram"][20] == {"MGS": 5, "lustrefs-MDT0000": 4}.get(target, 1), "up to 1 ms"
        if target != "lustrefs-OST0000":
            assert sum(row["write_sizes"]) == 0
    telegraf = rows(look(lustre(shared_data, TELEGRAF), "lustre_brw"))["OST0001",]
    # 1 B, 128 B and 1 KiB are below a page; 16K, 128K, 1M are 4, 32, 256 pages
    assert telegraf["write_sizes"] == [329213, 0, 255983, 0, 0, 23, 0, 0, 850248] + [0] * 7
    assert telegraf["read_sizes"] == [35, 0, 4449, 0, 0, 855, 0, 0, 43866371] + [0] * 7
    assert {k: n for k, n in enumerate(telegraf["service_ns_histogram"]) if n} == {
        20: 521780,
        24: 6035560,
        27: 5044958,
        30: 651,
    }


def test_jobs_of_osts(shared_data: Path) -> None:
    found = rows(look(lustre(shared_data, GSI), "lustre_ost_jobs"))
    assert len(found) == 37
    assert (
        found["lustrefs-OST0000", None]
        == found["lustrefs-OST0000", "24"]
        == {
            "read_rpcs": 125,
            "write_rpcs": 64575,
            "read_bytes": 512000,
            "write_bytes": 215147593728,
            "metadata_ops": 7 + 43 + 1 + 8 + 12 + 5 + 6 + 23 + 74 + 9,
        }
    )
    assert found["lustrefs-OST0002", "loop36"] == {
        "read_rpcs": 3153,
        "write_rpcs": 0,
        "read_bytes": 2081591296,
        "write_bytes": 0,
        "metadata_ops": 0,
    }
    assert {target for target, _ in found} == {"lustrefs-OST0000", "lustrefs-OST0002"}, "OST0004, OST0006 have no job"
    text = (Path(lustre(shared_data, GSI)) / "proc/fs/lustre/obdfilter/lustrefs-OST0000/job_stats").read_text()
    total = sum(int(n) for n in re.findall(r"write_bytes:.*sum: +(\d+)", text))
    assert sum(row["write_bytes"] for (target, _), row in found.items() if target == "lustrefs-OST0000") == total
    telegraf = rows(look(lustre(shared_data, TELEGRAF), "lustre_ost_jobs"))
    assert telegraf == {
        ("OST0001", "cluster-testjob1"): {
            "read_rpcs": 1,
            "write_rpcs": 25,
            "read_bytes": 4096,
            "write_bytes": 26214400,
            "metadata_ops": 1,
        },
        ("OST0001", "testjob2"): {
            "read_rpcs": 1,
            "write_rpcs": 25,
            "read_bytes": 1024,
            "write_bytes": 51200,
            "metadata_ops": 1,
        },
    }


def test_jobs_of_mdts(shared_data: Path) -> None:
    found = look(lustre(shared_data, GSI), "lustre_mdt_jobs")
    assert [reading.table for reading in found.readings] == ["metadata"]
    assert (found.readings[0].spread, found.readings[0].born_at_zero) == (("op", "count"), True)
    counted = rows(found)
    assert len(counted) == 15
    job = counted["lustrefs-MDT0000", "43"]
    assert {op: n for op, n in job.items() if n} == {
        "open": 93,
        "close": 87,
        "mknod": 4,
        "link": 9,
        "unlink": 37,
        "mkdir": 13,
        "rmdir": 7,
        "rename": 48,
        "getattr": 45,
        "setattr": 1,
        "getxattr": 11,
        "setxattr": 22,
        "statfs": 82,
        "sync": 12,
        "samedir_rename": 2,
        "crossdir_rename": 2,
    }
    telegraf = rows(look(lustre(shared_data, TELEGRAF), "lustre_mdt_jobs"))
    assert telegraf["OST0001", "testjob2"]["crossdir_rename"] == 201
    assert telegraf["OST0001", "cluster-testjob1"]["mkdir"] == 521


def test_mdts(shared_data: Path) -> None:
    found = look(lustre(shared_data, GSI), "lustre_mdt")
    assert {op: row["count"] for (_, op), row in rows(found).items()} == {
        "open": 10,
        "close": 9,
        "mknod": 1,
        "getattr": 16,
        "setattr": 57,
        "getxattr": 2,
        "statfs": 1,
    }
    telegraf = rows(look(lustre(shared_data, TELEGRAF), "lustre_mdt"))
    assert len(telegraf) == 16
    assert telegraf["OST0001", "getxattr"]["count"] == 6145349681


def test_clients_of_targets(shared_data: Path) -> None:
    found = rows(look(lustre(shared_data, GSI), "lustre_ost_exports"))
    busy = found["lustrefs-OST0000", "172.20.20.4@o2ib"]
    assert (busy["write_rpcs"], busy["write_bytes"], busy["metadata_ops"]) == (4298711, 16552048697344, 57)
    by_mds = {target: row["metadata_ops"] for (target, client), row in found.items() if client == "172.20.20.2@o2ib"}
    assert by_mds == {
        "lustrefs-OST0000": 35361,
        "lustrefs-OST0002": 35356,
        "lustrefs-OST0004": 35352,
        "lustrefs-OST0006": 35349,
    }
    assert len(found) == 5, "clients that only pinged have done nothing"
    mdt = rows(look(lustre(shared_data, GSI), "lustre_mdt_exports"))
    assert list(mdt) == [("lustrefs-MDT0000", "172.20.20.4@o2ib")]
    assert {op: n for op, n in mdt["lustrefs-MDT0000", "172.20.20.4@o2ib"].items() if n} == {
        "open": 10,
        "close": 9,
        "mknod": 1,
        "getattr": 16,
        "setattr": 57,
        "getxattr": 2,
        "statfs": 1,
    }
    telegraf = lustre(shared_data, TELEGRAF)
    assert rows(look(telegraf, "lustre_ost_exports"))["OST0001", "10.2.4.27@o2ib1"]["read_bytes"] == 78026117632000
    assert rows(look(telegraf, "lustre_mdt_exports"))["OST0001", "10.2.4.27@o2ib1"]["open"] == 1024577037


def test_space(shared_data: Path) -> None:
    found = look(lustre(shared_data, GSI), "lustre_space")
    by_source = {dict(reading.constant)["source"]: rows(found, at) for at, reading in enumerate(found.readings)}
    assert {source: len(listed) for source, listed in by_source.items()} == {"osd": 6, "osp": 7, "osc": 7, "mdc": 1}
    assert by_source["osd"]["lustrefs-OST0000",] == {
        "capacity_bytes": 47168367616 * 1024,
        "used_bytes": (47168367616 - 47029440512) * 1024,
        "inodes": 45927444,
        "inodes_used": 45927444 - 45927188,
    }
    # Every file of a number, of every target: the row is made of just these.
    base = Path(lustre(shared_data, GSI)) / "proc/fs/lustre"
    checked = 0
    for path in sorted(base.glob("os[dpc]*/*/kbytestotal")) + sorted(base.glob("mdc/*/kbytestotal")):
        folder = path.parent
        target = re.sub(r"-(osc|mdc)-.*", "", folder.name)
        number = {
            name: int((folder / name).read_text()) for name in ("kbytestotal", "kbytesfree", "filestotal", "filesfree")
        }
        assert by_source[folder.parent.name[:3]][target,] == {
            "capacity_bytes": number["kbytestotal"] * 1024,
            "used_bytes": (number["kbytestotal"] - number["kbytesfree"]) * 1024,
            "inodes": number["filestotal"],
            "inodes_used": number["filestotal"] - number["filesfree"],
        }
        checked += 1
    assert checked == 21
    own = PROBES["lustre_space"](str(base.parents[2]), "n1").read(NOW)
    assert [dict(reading.constant)["source"] for reading in own.readings] == ["osd"], "others are told when asked for"


def test_connections_and_recoveries(shared_data: Path) -> None:
    events = look(lustre(shared_data, GSI), "lustre_states").events
    kinds = [event.kind for event in events]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"disconnect": 12, "reconnect": 12, "recovery": 4}
    third = [event for event in events if event.component == "lustrefs-OST0003"]
    assert [(event.kind, event.ts_ns, event.end_ns) for event in third] == [
        ("disconnect", 1510605153 * 10**9, 1510605463 * 10**9),
        ("reconnect", 1510605463 * 10**9, None),
    ]
    assert third[1].text == "n1 reached lustrefs-OST0003 again after 310 s"
    recoveries = {event.component: event for event in events if event.kind == "recovery"}
    assert recoveries["lustrefs-OST0002"].ts_ns == 1510605726 * 10**9
    assert recoveries["lustrefs-OST0002"].end_ns == 1510605727 * 10**9
    assert recoveries["lustrefs-OST0002"].text == "recovery of lustrefs-OST0002: COMPLETE, clients 1/1"
    old = PROBES["lustre_states"](lustre(shared_data, GSI), "n1").read(NOW)
    assert not old.events, "an agent that starts tells nothing years old"


def test_what_state_and_import_files_say(shared_data: Path) -> None:
    base = Path(lustre(shared_data, GSI)) / "proc/fs/lustre"
    for path in base.glob("*/*/state"):
        history = parse_state_history(path.read_bytes())
        assert history[-1][1] == "FULL", path
        assert 1510604508 * 10**9 <= history[0][0] <= history[-1][0], path
        assert len(history) == path.read_text().count(" - [")
    for path in base.glob("*/*/import"):
        said = parse_import_state(path.read_bytes())
        assert said.state == "FULL"
        assert said.target == (
            "MGS" if "mgc" in path.parts else re.match(r".*?-\w{3}\d{4}", path.parent.name)[0] + "_UUID"
        )
        assert said.connection in {f"172.20.20.{n}@o2ib" for n in (1, 2, 5, 6)}
        expected = None if "mgc" in path.parts else said.timeouts if "osp" in path.parts else 0
        assert said.timeouts == expected
    assert parse_import_state((base / "osp/lustrefs-OST0003-osc-MDT0000/import").read_bytes()).timeouts == 21
    recovery = parse_recovery_state((base / "mdt/lustrefs-MDT0000/recovery_status").read_bytes())
    assert recovery == Recovery("INACTIVE", None, None, None, None)


def test_texts_that_become_no_rows_are_still_understood(shared_data: Path) -> None:
    """The files of NOT_READ that hold counters: their numbers, so that a column can be added without surprise."""
    base = Path(lustre(shared_data, GSI)) / "proc/fs/lustre"
    one = {
        "mds/MDS/mdt_fld/stats": ("fld_read", 10, 1733),
        "mds/MDS/mdt_readpage/stats": ("mds_close", 9, 4955),
        "mds/MDS/mdt_seqm/stats": ("seq_query", 1, 121063),
        "ost/OSS/ost/stats": ("ost_create", 16, 32095),
        "ost/OSS/ost_create/stats": ("ost_statfs", 141654, 3571221),
        "mgs/MGS/mgs/stats": ("mgs_target_reg", 28, 1388064),
        "mgs/MGS/exports/172.20.20.2@o2ib/stats": ("tgtreg", 4, None),
        "mgs/MGS/exports/172.20.20.5@o2ib/stats": ("tgtreg", 16, None),
        "mgs/MGS/exports/172.20.20.6@o2ib/stats": ("tgtreg", 8, None),
        "osd-zfs/lustrefs-OST0000/stats": ("copy", 365013434, 365013434),
        "mdc/lustrefs-MDT0000-mdc-ffff88105db50000/stats": ("mds_connect", 1, 132365),
        "osp/lustrefs-OST0003-osc-MDT0000/stats": ("ost_statfs", 35257, 11458091),
    }
    for name, (line, count, total) in one.items():
        stats = parse_stats_lines((base / name).read_bytes())
        assert (stats.counts[line], stats.sums.get(line), stats.unknown) == (count, total, 0), name
    empty = 0
    for path in files(shared_data):
        if path.name == "stats" and "lnet" not in path.parts:
            stats = parse_stats_lines(path.read_bytes())
            assert stats.unknown == 0, path
            assert 1438693064 * 10**9 <= (stats.times.snapshot_ns or 0) < 1511 * 10**15, path
            assert sum(stats.counts.values()) >= sum(1 for _ in stats.counts), path
            empty += not stats.counts
    assert empty == 15
    cache = parse_stats_lines(
        (Path(lustre(shared_data, TELEGRAF)) / "proc/fs/lustre/osd-ldiskfs/OST0001/stats").read_bytes()
    )
    assert (cache.counts["cache_hit"], cache.counts["get_page"]) == (7393729777, 275132812)
    assert cache.times.snapshot_ns == 1438693135_640551_000
    for name in ("extents_stats", "extents_stats_per_process", "offset_stats"):
        assert parse_histograms(next(base.glob(f"llite/*/{name}")).read_bytes()).disabled
    whole = {
        name: [int(p.read_text()) for p in sorted(base.glob(f"l*/*/{name}"))] for name in ("kbytestotal", "filestotal")
    }
    assert whole == {
        "kbytestotal": [283010362368, 2241506560, 283010362368],
        "filestotal": [430405497, 430405522, 7416121774],
    }


def test_lnet(shared_data: Path) -> None:
    found = look(lustre(shared_data, GSI), "lustre_lnet")
    assert rows(found) == {
        ("lnet",): {
            "tx_bytes": 21201322992,
            "rx_bytes": 53029565353720,
            "tx_packets": 101719323,
            "rx_packets": 101719291,
            "errors": 0,
        }
    }
    assert found.readings[0].constant == (("switch", "n1"),)
    assert parse_lnet_state(b"1 2 3") is None


def test_single_values(shared_data: Path) -> None:
    gsi, telegraf = Path(lustre(shared_data, GSI)), Path(lustre(shared_data, TELEGRAF))
    tree = Tree(str(gsi))
    assert (tree.read_word("jobid_var"), tree.read_word("jobid_name"), tree.read_word("version")) == (
        "SLURM_JOB_ID",
        "",
        "2.10.1",
    )
    assert tree.read_word("health_check") == Tree(str(telegraf)).read_word("health_check") == "healthy"
    assert JobIds(tree.read_word("jobid_name")).find_job(b"43") == "43"
    for name, count in (("obdfilter/fs-OST0001", 303), ("mdt/fs-MDT0000", 101), ("mgs/MGS", 202)):
        assert Tree(str(telegraf)).read_word(f"{name}/eviction_count") == str(count)
    exports = {
        path.parent.name: tree.read_word(str(path.relative_to(gsi / BASES[0]))) for path in gsi.rglob("num_exports")
    }
    assert exports == {"MGS": "6", "lustrefs-MDT0000": "10", **{f"lustrefs-OST000{n}": "3" for n in (0, 2, 4, 6)}}


# -- other interpreters ------------------------------------------------------------------------------------------------

SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from fairlead.see.probes.base import AbsentError
from fairlead.see.probes.lustre import PROBES
said = {}
for name, kind in PROBES.items():
    options = {"lustre_space": {"everywhere": True}, "lustre_states": {"history": True}}.get(name, {})
    try:
        found = kind(sys.argv[2], "n1", **options).read(1600000000 * 10 ** 9)
    except AbsentError as why:
        said[name] = str(why)
        continue
    said[name] = [[r.table, r.constant, r.counters, r.gauges, r.unknown,
                   [[k, list(v)] for k, v in r.rows.items()]] for r in found.readings] + [list(found.events)]
print(json.dumps(said))
"""


@pytest.mark.parametrize("tree", [GSI, TELEGRAF])
def test_python_3_6_reads_the_same(shared_data: Path, tree: str) -> None:
    python = old_python()
    if python is None:
        pytest.skip(HOW)
    arguments = ["-c", SCRIPT, str(ROOT / "src"), lustre(shared_data, tree)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    old = subprocess.run([python, "-W", "error", *arguments], capture_output=True, check=True, env=environment)
    namespace = {name: look_again(lustre(shared_data, tree), name) for name in PROBES}
    assert json.loads(old.stdout) == json.loads(json.dumps(namespace))


def look_again(root: str, name: str) -> Any:
    try:
        found = look(root, name)
    except AbsentError as why:
        return str(why)
    return [
        [r.table, r.constant, r.counters, r.gauges, r.unknown, [[k, list(v)] for k, v in r.rows.items()]]
        for r in found.readings
    ] + [list(found.events)]

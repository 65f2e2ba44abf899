"""Every archive of the shared folders pytokio, slurm and own/slurm, by what is known to be in it; none is left out."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import sqlite3
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fairlead.core.errors import ConfigError, CorruptInputError, MissingDependencyError, UnknownFormatError
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import find_table_spec
from fairlead.see.sources import collectd
from fairlead.see.sources.collectd import CollectdSource
from fairlead.see.sources.gpfs import GpfsSource
from fairlead.see.sources.inputs import detect_input_source, read_input_head
from fairlead.see.sources.jobsdb import JobsDbSource
from fairlead.see.sources.lfs import LfsSource
from fairlead.see.sources.lmt import LmtSource
from fairlead.see.sources.slurm import SlurmSource
from fairlead.see.sources.slurm.cluster import read_slurm_cluster
from fairlead.see.sources.tokio import TokioSource
from fairlead.see.sources.tokio_site import read_tokio_site

NS = 1_000_000_000
KIB = 1024
NOT_READ = {
    "pytokio/LICENSE": "a licence",
    "slurm/LICENSE": "a licence",
    "slurm/slurmrestd/testcases/gather/telegraf.conf": "settings of telegraf, the program the test case is from",
}
NO_SOURCE = {
    "pytokio/site.json": "names only: tokio_site",
    "slurm/slurmrestd/testcases/gather/expected.out": "what telegraf makes of the answers: compared with ours",
}
SOURCE_OF = {
    "pytokio/lctl-dl-t.txt.gz": "lfs",
    "pytokio/lfs-df.txt.gz": "lfs",
    "pytokio/sample_ost-fullness.txt.gz": "lfs",
    "pytokio/lmtdb-reset.sqlite3": "lmt",
    "pytokio/snx11025_2018-01-28.sqlite3": "lmt",
    "pytokio/mmperfmon-gpfsNumberOperations.txt.gz": "gpfs",
    "pytokio/mmperfmon-nsdds.txt.gz": "gpfs",
    "pytokio/mmperfmon-usage.txt.gz": "gpfs",
    "pytokio/sample.slurm": "slurm",
    "pytokio/sample_collectdes-part.json.gz": "collectd",
    "pytokio/sample_nersc_jobsdb.sqlite3": "jobsdb",
    "pytokio/sample_tokiots.hdf5": "tokio",
    "pytokio/snx11025_2018-01-28.hdf5": "tokio",
    **dict.fromkeys(
        (
            "slurm/phillips.sacct.log.gz",
            *(
                f"slurm/slurmrestd/testcases/gather/responses/{name}.json"
                for name in ("diag", "jobs", "nodes", "partitions", "reservations")
            ),
            *(
                f"own/slurm/slurm_{name}"
                for name in (
                    "bb_lua.log",
                    "hooks.log",
                    "jobcomp_filetxt.txt",
                    "sacct.json",
                    "sacct_P.txt",
                    "sacct_P_all.txt",
                    "sacct_job57.txt",
                    "scontrol_show_job.txt",
                    "scontrol_show_job_running.txt",
                    "scontrol_show_node.txt",
                    "sinfo.json",
                    "squeue.json",
                    "squeue_all.txt",
                )
            ),
        ),
        "slurm",
    ),
}


def read(source: Any, path: Path) -> tuple[dict[str, list[dict[str, Any]]], dict[str, Missing]]:
    """Rows by table, and gaps by kind."""
    assert source.accepts(read_input_head(path), path)
    rows: dict[str, list[dict[str, Any]]] = {}
    gaps: dict[str, Missing] = {}
    for item in source.read(path):
        if isinstance(item, Missing):
            gaps[item.kind] = item
            continue
        assert isinstance(item, pa.RecordBatch)
        item.validate(full=True)
        rows.setdefault(find_table_spec(item.schema).name, []).extend(item.to_pylist())
    return rows, gaps


def total(rows: list[dict[str, Any]], column: str) -> int:
    return sum(row[column] or 0 for row in rows)


@pytest.fixture
def pytokio(shared_data: Path) -> Path:
    return shared_data / "pytokio"


@pytest.fixture
def ours(shared_data: Path) -> Path:
    return shared_data / "own" / "slurm"


@pytest.mark.shared_data
def test_no_file_is_left_out(shared_data: Path) -> None:
    found = {}
    for folder in ("pytokio", "slurm", "own/slurm"):
        for path in sorted((shared_data / folder).rglob("*")):
            name = path.relative_to(shared_data).as_posix()
            if path.is_file() and name not in NOT_READ and name not in NO_SOURCE:
                found[name] = detect_input_source(path).name
    assert found == SOURCE_OF
    for name in (*NOT_READ, *NO_SOURCE):
        with pytest.raises(UnknownFormatError):
            detect_input_source(shared_data / name)


@pytest.mark.shared_data
def test_lmt_counts_become_what_was_moved(pytokio: Path) -> None:
    path = pytokio / "snx11025_2018-01-28.sqlite3"
    rows, gaps = read(LmtSource(time_zone="America/Los_Angeles"), path)
    targets = [row for row in rows["target"] if "OST" in row["target"]]
    assert len(targets) == 24 * 60
    one = [row for row in targets if row["target"] == "snx11025-OST0000"]
    assert [row["write_bytes"] for row in one[:3]] == [19186, 16524, 16751]
    assert (one[0]["ts_ns"], one[0]["interval_ns"]) == (1517126405 * NS, 5 * NS)
    assert (one[0]["server"], one[0]["used_bytes"]) == ("snx11025n004", 52655660772 * KIB)
    assert one[0]["capacity_bytes"] == (52655660772 + 38111990580) * KIB
    with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as database:
        moved = database.execute(
            "SELECT sum(m) FROM (SELECT max(WRITE_BYTES) - min(WRITE_BYTES) m FROM OST_DATA GROUP BY OST_ID)"
        ).fetchone()[0]
        opened = database.execute("SELECT max(SAMPLES) - min(SAMPLES) FROM MDS_OPS_DATA WHERE OPERATION_ID = 1")
        assert total(targets, "write_bytes") == moved
        assert total([r for r in rows["metadata"] if r["op"] == "open"], "count") == opened.fetchone()[0]
    database.close()
    space = next(row for row in rows["target"] if row["target"] == "snx11025-MDT0000")
    assert (space["used_bytes"], space["inodes_used"], space["read_bytes"]) == (106286540 * KIB, 358326972, None)
    assert set(gaps) == {"not_kept"}


@pytest.mark.shared_data
def test_lmt_and_the_hdf5_made_of_it_agree(pytokio: Path) -> None:
    database = read(LmtSource(time_zone="America/Los_Angeles"), pytokio / "snx11025_2018-01-28.sqlite3")[0]
    archive, gaps = read(TokioSource(), pytokio / "snx11025_2018-01-28.hdf5")
    for column in ("read_bytes", "write_bytes"):
        traffic = {
            kind: {(row["target"], row["ts_ns"]): row[column] for row in rows["target"] if row[column] is not None}
            for kind, rows in (("lmt", database), ("tokio", archive))
        }
        assert traffic["lmt"] == traffic["tokio"]
        assert len(traffic["lmt"]) == 1440
    operations = {
        kind: {(row["op"], row["ts_ns"]): row["count"] for row in rows["metadata"]}
        for kind, rows in (("lmt", database), ("tokio", archive))
    }
    assert operations["tokio"].items() <= operations["lmt"].items()
    assert operations["tokio"][("open", 1517126405 * NS)] == 8355
    full = next(row for row in archive["target"] if row["used_bytes"] is not None)
    assert (full["used_bytes"], full["ts_ns"]) == (52655660764 * KIB, 1517126400 * NS)
    assert set(gaps) == {"not_kept"}


@pytest.mark.shared_data
def test_a_reset_counter_begins_anew(pytokio: Path) -> None:
    rows, gaps = read(LmtSource(), pytokio / "lmtdb-reset.sqlite3")
    target = [row for row in rows["target"] if "OST" in row["target"]]
    assert len(target) == 24  # 26 samples; the first has no predecessor, one interval of 200 s held the reset
    assert [row["read_bytes"] for row in target[:2]] == [704512, 577536]
    assert total(target, "read_bytes") == (438210634514432 - 438210627739648) + 62595072
    assert total(target, "write_bytes") == (274820641179842 - 274819451570722) + 796777736
    assert 1524037145 * NS not in {row["ts_ns"] for row in target}
    assert "1 interval" in gaps["counter_resets"].what
    assert "time_zone_assumed" in gaps


@pytest.mark.shared_data
def test_burst_buffer_devices_of_an_archive(pytokio: Path) -> None:
    rows = read(TokioSource(), pytokio / "sample_tokiots.hdf5")[0]["device"]
    import h5py

    with h5py.File(pytokio / "sample_tokiots.hdf5") as file:
        rates = file["datatargets/readrates"][:]
        writes = file["datatargets/writerates"][:]
    measured = ~(((rates == 0) & np.signbit(rates)) & ((writes == 0) & np.signbit(writes)))
    assert len(rows) == int(measured.sum()) == 7038  # minus zero was never measured: no row, not 0 bytes
    assert total(rows, "read_bytes") == pytest.approx(float(rates[measured].sum()) * 10, rel=1e-6)
    first = rows[1]
    assert (first["node"], first["device"], first["read_bytes"]) == ("bb1", "nvme1n1", 12288)
    assert {row["interval_ns"] for row in rows} == {10 * NS}


@pytest.mark.shared_data
def test_collectd_documents(pytokio: Path) -> None:
    rows, gaps = read(CollectdSource(), pytokio / "sample_collectdes-part.json.gz")
    first = rows["device"][0]
    assert len(rows["device"]) == 3676
    assert (first["node"], first["device"], first["interval_ns"]) == ("bb13", "nvme2n1", 10 * NS)
    assert first["ts_ns"] == 1513153843951000000
    assert (first["read_bytes"], first["write_bytes"]) == (11083762, 4256763)
    assert not gaps


@pytest.mark.shared_data
def test_gpfs_file_systems(pytokio: Path) -> None:
    rows, _ = read(GpfsSource(time_zone="America/Los_Angeles"), pytokio / "mmperfmon-gpfsNumberOperations.txt.gz")
    clients = rows["pfs_client"]
    assert len(clients) == 40
    one = next(row for row in clients if row["fs"] == "tlproject2" and row["read_bytes"])
    assert (one["node"], one["read_ops"], one["read_bytes"]) == ("ngfsv492.nersc.gov", 1682, 44794368)
    assert (one["ts_ns"], one["interval_ns"]) == ((1546954200 + 8 * 3600) * NS, 600 * NS)
    other = [row for row in clients if row["fs"] == "tlprojecta"]
    assert [row["write_bytes"] for row in other[:2]] == [224206848, 135733248]
    assert {row["source"] for row in clients} == {"gpfs"}


@pytest.mark.shared_data
def test_gpfs_disks_of_tables_wider_than_a_terminal(pytokio: Path) -> None:
    rows, gaps = read(GpfsSource(), pytokio / "mmperfmon-nsdds.txt.gz")
    disks = rows["target"]
    text = gzip.decompress((pytokio / "mmperfmon-nsdds.txt.gz").read_bytes()).decode()
    legend = [line.split("|")[2] for line in text.splitlines() if "|GPFSNSDDisk|" in line]
    assert Counter(row["target"] for row in disks) == dict.fromkeys(legend, 60)
    plain = sum(
        int(word)
        for line in text.splitlines()
        if line.strip()[:1].isdigit() and "2019-" in line
        for word in line.split()[2:]
    )
    assert total(disks, "read_bytes") == plain > 0
    # The second table's fourth column is the twelfth series of the legend.
    first = {row["target"]: row["read_bytes"] for row in disks if row["ts_ns"] == 1551715260 * NS}
    assert first[legend[11]] == 67543552
    assert "unreadable_lines" not in gaps


@pytest.mark.shared_data
def test_gpfs_units(pytokio: Path) -> None:
    rows, gaps = read(GpfsSource(), pytokio / "mmperfmon-usage.txt.gz")
    assert [(row["rx_bytes"], row["tx_bytes"]) for row in rows["port"][:4]] == [(1700, 1700)] * 3 + [(98700, 98700)]
    assert (rows["port"][0]["switch"], rows["port"][0]["port"]) == ("ngfsv468.nersc.gov", "lo")
    assert "values of the sensor Memory" in gaps["not_kept"].what


@pytest.mark.shared_data
def test_fullness_of_targets(pytokio: Path, tmp_path: Path) -> None:
    rows, gaps = read(LfsSource(), pytokio / "sample_ost-fullness.txt.gz")
    assert len(rows["target"]) == 70 * 340
    first = rows["target"][1]
    assert (first["target"], first["ts_ns"]) == ("snx11035-OST0000", 1489998203 * NS)
    assert (first["capacity_bytes"], first["used_bytes"]) == (90767651352 * KIB, 65371112780 * KIB)
    assert len({row["ts_ns"] for row in rows["target"]}) == 70
    assert not gaps
    path = tmp_path / "df.gz"
    shutil.copy(pytokio / "lfs-df.txt.gz", path)
    os.utime(path, (1490000000, 1490000000))
    rows, gaps = read(LfsSource(), path)
    targets = {row["target"]: row for row in rows["target"]}
    assert len(targets) == 340
    assert targets["snx11168-MDT0004"]["used_bytes"] == 18627764 * KIB
    assert {row["ts_ns"] for row in rows["target"]} == {1490000000 * NS}
    assert "340 lines" in gaps["time_assumed"].what


@pytest.mark.shared_data
def test_servers_of_targets(pytokio: Path) -> None:
    rows, _ = read(LfsSource(), pytokio / "lctl-dl-t.txt.gz")
    served = {row["a"]: row["b"] for row in rows["mapping"]}
    assert len(served) == 340
    assert served["snx11035-OST0014"] == "10.100.101.25@o2ib2"
    assert served["snx11168-MDT0003"] == "10.100.105.0@o2ib4"
    assert {row["kind"] for row in rows["mapping"]} == {"target→server"}


@pytest.mark.shared_data
def test_job_databases(pytokio: Path) -> None:
    jobs = {row["job_id"]: row for row in read(JobsDbSource(), pytokio / "sample_nersc_jobsdb.sqlite3")[0]["jobs"]}
    assert len(jobs) == 485
    one = jobs["4472230"]
    assert (one["cluster"], one["start_ns"], one["end_ns"]) == ("edison", 1490000045 * NS, 1490000984 * NS)
    assert (one["nodes_count"], one["state"], one["user"]) == (1, None, None)
    kept = read(SlurmSource(time_zone="America/Los_Angeles"), pytokio / "sample.slurm")[0]["jobs"][0]
    assert (kept["job_id"], kept["start_ns"], kept["nodes_count"]) == ("4478544", 1490000342 * NS, None)


@pytest.mark.shared_data
def test_names_of_a_site(pytokio: Path, tmp_path: Path) -> None:
    site = read_tokio_site(pytokio / "site.json")
    assert (site.find_fs("/scratch2/x"), site.find_fs("/hello/world"), site.find_fs("/none")) == (
        "scratch2",
        "hellofs2",
        None,
    )
    assert (site.find_backend("cscratch"), site.lmt_timestep) == ("snx11168", 5)
    assert (site.find_disk_role("ddn59dt00"), site.find_disk_role("na1md2"), site.find_disk_role("x")) == (
        "datatarget",
        "mdtarget",
        None,
    )
    (tmp_path / "x").write_text('{"mount_to_fsname": {"(": "x"}}')
    with pytest.raises(ConfigError):
        read_tokio_site(tmp_path / "x")


@pytest.mark.shared_data
def test_slurmrestd_answers_as_telegraf_reads_them(shared_data: Path) -> None:
    folder = shared_data / "slurm" / "slurmrestd" / "testcases" / "gather"
    said: dict[str, dict[str, dict[str, str]]] = {}
    for line in (folder / "expected.out").read_text().splitlines():
        if line:
            tags, _, fields = line.rpartition(" ")[0].partition(" ")
            kind, *labels = tags.split(",")
            name = dict(label.split("=") for label in labels)
            values = {}
            for part in re.findall(r'(\w+)=("[^"]*"|[^,]*)', fields):
                values[part[0]] = part[1].strip('"').removesuffix("i")
            said.setdefault(kind, {})[name.get("job_id") or name.get("name", "")] = values
    answers = folder / "responses"
    jobs = {row["job_id"]: row for row in read(SlurmSource(), answers / "jobs.json")[0]["jobs"]}
    assert jobs.keys() == said["slurm_jobs"].keys()
    for job_id, values in said["slurm_jobs"].items():
        row = jobs[job_id]
        assert (row["cores"], row["partition"], row["state"]) == (int(values["cpus"]), "atlas", values["state"])
        assert (row["start_ns"], row["nodes"]) == (int(values["start_time"]) * NS, [values["nodes"]])
    nodes = {node.name: node for node in read_slurm_cluster(answers / "nodes.json").nodes}
    assert nodes.keys() == said["slurm_nodes"].keys()
    for name, values in said["slurm_nodes"].items():
        assert (nodes[name].cpus, nodes[name].states[0].lower()) == (int(values["cpus"]), values["state"])
    (partition,) = read_slurm_cluster(answers / "partitions.json").partitions
    assert ",".join(partition.nodes) == said["slurm_partitions"]["atlas"]["nodes"]
    assert (len(partition.nodes), partition.states) == (21, ("UP",))
    counts = read_slurm_cluster(answers / "diag.json").statistics
    for name, value in said["slurm_diag"][""].items():
        if value not in ("true", "false"):
            assert counts[name] == int(value), name
    rows, _ = read(SlurmSource(), answers / "nodes.json")
    drained = rows["events"][0]
    assert (drained["component"], drained["kind"], drained["ts_ns"]) == ("naboo145", "node_away", 1723077306 * NS)
    assert drained["text"] == "IDLE+DRAIN: Kill task failed"
    for name in ("diag", "partitions", "reservations"):
        rows, gaps = read(SlurmSource(), answers / f"{name}.json")
        assert (rows, set(gaps)) == ({}, {"no_events"})
    assert read_slurm_cluster(answers / "reservations.json").reservations == ()


@pytest.mark.shared_data
def test_hooks_tell_the_jobs_accounting_tells(ours: Path) -> None:
    hooks = {row["job_id"]: row for row in read(SlurmSource(), ours / "slurm_hooks.log")[0]["jobs"]}
    account = {row["job_id"]: row for row in read(SlurmSource(), ours / "slurm_sacct.json")[0]["jobs"]}
    assert hooks.keys() == account.keys() == set("12345")
    for job_id, row in hooks.items():
        for column in ("start_ns", "end_ns", "nodes", "name"):
            assert row[column] == account[job_id][column], (job_id, column)
    assert {job_id: row["user"] for job_id, row in hooks.items()} == dict.fromkeys("1345", "alice") | {"2": "root"}


@pytest.mark.shared_data
def test_burst_buffer_steps_and_single_jobs(ours: Path) -> None:
    rows, gaps = read(SlurmSource(), ours / "slurm_bb_lua.log")
    assert not gaps
    assert Counter(row["component"] for row in rows["events"]) == {
        **dict.fromkeys(("job:1", "job:3", "job:4", "job:5"), 7),
        "burst_buffer": 4,
    }
    setup = next(row for row in rows["events"] if row["text"].startswith("setup"))
    assert (setup["ts_ns"], setup["text"]) == (1795249727 * NS, "setup 1 pool=ssd size=10737418240")
    (job,) = read(SlurmSource(), ours / "slurm_sacct_job57.txt")[0]["jobs"]
    assert (job["job_id"], job["user"], job["end_ns"]) == ("57", "alice", 1795251567 * NS)
    running = {
        row["job_id"]: row for row in read(SlurmSource(), ours / "slurm_scontrol_show_job_running.txt")[0]["jobs"]
    }
    assert (running["1"]["state"], running["1"]["end_ns"], running["2"]["state"]) == ("RUNNING", None, "COMPLETED")


@pytest.mark.shared_data
@pytest.mark.parametrize(
    "name",
    [
        "sacct.json",
        "sacct_P.txt",
        "sacct_P_all.txt",
        "squeue.json",
        "scontrol_show_job.txt",
        "jobcomp_filetxt.txt",
        "squeue_all.txt",
    ],
)
def test_every_form_tells_of_the_same_job(ours: Path, name: str) -> None:
    jobs = {row["job_id"]: row for row in read(SlurmSource(time_zone="UTC"), ours / f"slurm_{name}")[0]["jobs"]}
    three = jobs["3"]
    assert (three["name"], three["start_ns"], three["nodes"]) == ("ior_demo", 1795249764 * NS, ["n1", "n2"])
    assert three["submit_ns"] == 1795249760 * NS


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["sinfo.json", "scontrol_show_node.txt"])
def test_nodes_of_our_cluster(ours: Path, name: str) -> None:
    nodes = read_slurm_cluster(ours / f"slurm_{name}").nodes
    assert [(node.name, node.cpus, node.partitions) for node in nodes] == [(f"n{i}", 8, ("main",)) for i in range(1, 5)]
    assert [node.states[0] for node in nodes] == ["MIXED", "MIXED", "IDLE", "IDLE"]
    assert not any(node.away for node in nodes)


def test_drained_nodes_of_text(tmp_path: Path) -> None:
    path = tmp_path / "nodes"
    path.write_text(
        "NodeName=n1 Arch=x86_64 CoresPerSocket=1 \n   CPUAlloc=3 CPUEfctv=8 CPUTot=8 CPULoad=0.41\n"
        "   State=IDLE+DRAIN* ThreadsPerCore=1\n   Partitions=a,b \n   Reason=bad disk [root@2024-01-01T00:00:00]\n\n"
    )
    (node,) = read_slurm_cluster(path).nodes
    assert (node.states, node.reason, node.partitions, node.away) == (("IDLE", "DRAIN"), "bad disk", ("a", "b"), True)
    rows, gaps = read(SlurmSource(), path)
    assert not rows
    assert "1 node" in gaps["undated"].what


def test_lfs_texts_of_other_shapes(tmp_path: Path) -> None:
    path = tmp_path / "df"
    path.write_text(
        "BEGIN 1700000000\nUUID                      Inodes       IUsed       IFree IUse% Mounted on\n"
        "lfs-MDT0000_UUID         1000         100         900  10% /lfs[MDT:0] \n"
        "lfs-OST0001_UUID             : inactive device\nlfs-OST0002_UUID 10 4 6 40% /lfs[OST:2] D\n"
        "filesystem_summary: 1 2 3\nnonsense\n 3 IN osc lfs-OST0001-osc-ffff885f81a64000 8dbdc7f6 5 10.1.1.5@tcp\n"
    )
    rows, gaps = read(LfsSource(), path)
    inodes = rows["target"][0]
    assert (inodes["inodes"], inodes["inodes_used"], inodes["capacity_bytes"]) == (1000, 100, None)
    assert [(row["component"], row["text"]) for row in rows["events"]] == [
        ("lfs-OST0001", "inactive device"),
        ("lfs-OST0001", "IN on a client"),
    ]
    assert "1 lines" in gaps["unreadable_lines"].what
    path.write_text("UUID 1K-blocks Used\n")
    with pytest.raises(CorruptInputError):
        list(LfsSource().read(path))


def test_mmperfmon_gaps_are_no_zeros(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_text(
        "\nLegend:\n 1:\tn1|Network|ib0|net_r\n 2:\tn1|Network|ib0|net_s\n\nRow Timestamp net_r net_s \n"
        "  1 2024-01-01-00:00:00 null 2.5 MB \n  2 2024-01-01-00:00:10 1 GB \n  3 2024-99-01-00:00:10 1 1\n"
    )
    rows, gaps = read(GpfsSource(time_zone="UTC"), path)
    assert [(row["rx_bytes"], row["tx_bytes"]) for row in rows["port"]] == [(None, 2_500_000)]
    assert "2 lines" in gaps["unreadable_lines"].what


def test_collectd_shapes(tmp_path: Path) -> None:
    hit = (
        '{"_source": {"collectd_type": "%s", "hostname": "h", "plugin_instance": "sda", "read": %s,'
        ' "write": 2.0, "@timestamp": "2024-01-01T00:00:%s.000Z"}}'
    )
    hits = ", ".join((hit % ("disk_ops", 1.5, "00"), hit % ("disk_ops", 3, "10"), hit % ("cpu", 1, "10")))
    path = tmp_path / "c.json"
    for text in (f"[{hits}]", f"[[{hits}]]", f'{{"took": 1, "hits": {{"hits": [{hits}]}}}}'):
        path.write_text(text)
        rows, gaps = read(CollectdSource(), path)
        assert [(row["read_ops"], row["write_ops"]) for row in rows["device"]] == [(15, 20), (30, 20)]
        assert "1 documents" in gaps["not_kept"].what
    path.write_text(f"[{hit % ('disk_octets', 1, '00')}]")
    rows, gaps = read(CollectdSource(), path)
    assert not rows["device"]
    assert "no_interval" in gaps
    path.write_text("[" + hits)
    with pytest.raises(CorruptInputError):
        list(CollectdSource().read(path))
    assert collectd._utc_ns(("2024-01-01T00:00:00.5Z", "none")).tolist() == [1704067200 * NS + NS // 2, 0]


def test_a_missing_library_is_said_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    path = tmp_path / "x.hdf5"
    path.write_bytes(b"\x89HDF\r\n\x1a\nrest")
    with pytest.raises(MissingDependencyError) as caught:
        list(TokioSource().read(path))
    assert "fairlead[archives]" in (caught.value.remedy or "")


@pytest.mark.parametrize("content", [b"\x89HDF\r\n\x1a\n" + b"\0" * 600, b"SQLite format 3\0" + b"\0" * 600])
def test_broken_archives(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    source = TokioSource() if content.startswith(b"\x89") else None
    if source is None:
        with pytest.raises(UnknownFormatError):
            detect_input_source(path)
    else:
        with pytest.raises(CorruptInputError) as caught:
            list(source.read(path))
        assert caught.value.where == str(path)

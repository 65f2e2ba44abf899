"""The made machine's files: counter texts that real probes read, and what the module writes when it is run."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from fairlead.kit.testing import machine
from fairlead.kit.testing.machine import Play, __main__, lustre_tree, scenes
from fairlead.see.probes.base import ProbeResult
from fairlead.see.probes.lustre.client import LliteProbe, OscProbe
from fairlead.see.probes.lustre.exports import MdtExportsProbe, OstExportsProbe
from fairlead.see.probes.lustre.jobs import MdtJobsProbe, OstJobsProbe
from fairlead.see.probes.lustre.servers import BrwProbe, MdtProbe, OstProbe

SECONDS = 120


@pytest.fixture(scope="module")
def play() -> Play:
    return machine.play_small_machine(5, SECONDS)


@pytest.fixture(scope="module")
def tree(play: Play, tmp_path_factory: pytest.TempPathFactory) -> lustre_tree.MachineTree:
    made = lustre_tree.MachineTree(play, tmp_path_factory.mktemp("hosts"))
    for second in range(7, SECONDS, 11):
        made.advance(second)
    made.advance(SECONDS)
    return made


def column(found: ProbeResult, name: str) -> int:
    (reading,) = found.readings
    assert reading.unknown == 0, reading.unknown_example
    at = (*reading.counters, *reading.gauges).index(name)
    return sum(row[at] or 0 for row in reading.rows.values())


def total(table: pa.Table, source: str, name: str) -> int:
    return int(pc.sum(table.filter(pc.equal(table["source"], source))[name]).as_py() or 0)


def test_probes_read_on_servers_what_the_records_say(play: Play, tree: lustre_tree.MachineTree) -> None:
    tables = play.build_tables()
    servers = [play.machine.servers.names[n] for n in range(len(play.machine.servers))]
    for probe, source in ((OstProbe, "obdfilter"), (OstJobsProbe, "job_stats"), (OstExportsProbe, "obdfilter")):
        for name in ("read_bytes", "write_bytes", "read_rpcs", "write_rpcs"):
            seen = sum(column(probe(str(tree.roots[host]), host).read(0), name) for host in servers)
            assert seen == total(tables["target"], source, name), (probe, name)
    sizes = [BrwProbe(str(tree.roots[host]), host).read(0).readings[0].rows for host in servers]
    ios = sum(sum(histogram) for rows in sizes for row in rows.values() for histogram in row[:2])
    assert ios == sum(total(tables["target"], "obdfilter", name) for name in ("read_rpcs", "write_rpcs"))


def test_probes_read_on_metadata_servers_what_the_records_say(play: Play, tree: lustre_tree.MachineTree) -> None:
    metadata = play.build_tables()["metadata"]
    root = str(tree.roots["mds0"])
    whole = column(MdtProbe(root, "mds0").read(0), "count")
    assert whole == total(metadata, "md_stats", "count") > 0
    for probe in (MdtJobsProbe, MdtExportsProbe):
        (reading,) = probe(root, "mds0").read(0).readings
        assert reading.unknown == 0
        assert sum(sum(row) for row in reading.rows.values()) == whole


def test_probes_read_on_clients_what_the_records_say(play: Play, tree: lustre_tree.MachineTree) -> None:
    clients = [play.machine.forwarders.names[n] for n in range(len(play.machine.forwarders))]
    rows = play.build_tables()["pfs_client"]
    for probe in (LliteProbe, OscProbe):
        seen = 0
        for host in clients:
            if (tree.roots[host] / "proc").is_dir() and list((tree.roots[host] / "proc/fs/lustre").glob("osc/*")):
                seen += column(probe(str(tree.roots[host]), host).read(0), "write_bytes")
        assert seen == total(rows, "osc", "write_bytes") > 0


def test_counters_only_grow(play: Play, tmp_path: Path) -> None:
    tree = lustre_tree.MachineTree(play, tmp_path)
    host = play.machine.servers.names[0]
    seen = []
    for second in (0, 20, 60, 60, 119):
        tree.advance(second)
        seen.append(column(OstProbe(str(tree.roots[host]), host).read(0), "write_bytes"))
    assert seen == sorted(seen)
    assert seen[2] == seen[3]


def test_a_tree_of_nodes_without_forwarders(tmp_path: Path) -> None:
    play = machine.play_two_layer_machine(5, 60)
    tree = lustre_tree.MachineTree(
        play, tmp_path, [play.machine.format_node_name(n) for n in range(play.machine.nodes)]
    )
    tree.advance(60)
    seen = 0
    for n in range(play.machine.nodes):
        host = play.machine.format_node_name(n)
        seen += column(LliteProbe(str(tree.roots[host]), host).read(0), "write_bytes")
    assert seen == total(play.build_tables()["target"], "obdfilter", "write_bytes") > 0


def test_run_as_a_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forms = [part for form in __main__.FORMS for part in ("--form", form)]
    told = ["--machine", "small", "--seed", "5", "--hours", "0.02", "--fault", "target:1:10:40:0.1:fail_slow"]
    assert __main__.main([*told, "--out", str(tmp_path), *forms]) == 0
    written = json.loads(capsys.readouterr().out)
    assert written["simulated"]
    assert written["seconds"] == 72
    manifest = json.loads((tmp_path / "posts" / "manifest.json").read_text())
    assert manifest["rows"] == written["batches"]["rows"] == sum(written["tables"].values())
    assert len(list((tmp_path / "posts").glob("*.batches"))) == len(manifest["files"])
    assert pq.read_table(tmp_path / "ops.parquet").num_rows == written["tables"]["ops"]
    labels = json.loads((tmp_path / "truth.json").read_text())["labels"]
    assert labels[0]["component"] == "scratch-OST0001"
    assert labels[0]["kind"] == "fail_slow"
    assert (tmp_path / "hosts" / "oss000" / "proc/fs/lustre/obdfilter/scratch-OST0001/stats").is_file()


@pytest.mark.parametrize("fault", ["target:1:10", "target:99:1:2:0.5", "target:1:1:2:0.5:sulking", "nothing:1:1:2:0.5"])
def test_a_fault_that_cannot_be_is_refused(fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["--hours", "0.01", "--out", str(tmp_path), "--fault", fault]) == 2
    assert "fault" in capsys.readouterr().err or "fail" in capsys.readouterr().err


def test_scenes_are_played_where_they_are_put() -> None:
    tables = scenes.build_co_run_scene(seconds=40).build_tables()
    nodes = set(tables["ops"]["node"].to_pylist())
    assert nodes == {f"cn{n:05d}" for n in range(16)}

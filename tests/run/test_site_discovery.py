"""`fairlead site`: a file written from commands, files and a lake of a made machine, that reads back and is sound."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlead.cli.main import Commands
from fairlead.cli.site import site as command
from fairlead.core.errors import ConfigError, UsageError
from fairlead.core.model.site_file import build_site_file_mapping, check_site_file, parse_site_file
from fairlead.kit.testing.machine import play_small_machine
from fairlead.run.site_discovery import discover_site
from fairlead.run.site_text import format_site_text
from fairlead.see.probes.base import AbsentError
from fairlead.see.sources.slurm.hostlist import expand_hostlist
from fairlead.store.lake import Lake
from fairlead.store.rollups import derive_rollups

ANSWERS = {
    "sinfo": "c001|64\nc002|64\nc003|64\nbig1|128\n",
    "scontrol": "Configuration data as of now\nClusterName             = ember\n",
    "lctl": "  4 UP osc lfs01-OST0000-osc-ffff8803 4f1 5 10.1.0.5@o2ib\n"
    "  5 UP osc lfs01-OST0001-osc-ffff8803 4f1 5 10.1.0.5@o2ib\n"
    "  3 UP mdc lfs01-MDT0000-mdc-ffff8803 4f1 5 10.1.0.4@o2ib\n",
    "lfs": "UUID                   1K-blocks        Used   Available Use% Mounted on\n"
    "lfs01-OST0002_UUID       100000        5000       95000   5% /scratch[OST:2]\n",
}


def answer(argv: list[str]) -> str:
    return ANSWERS[argv[0]]


def nothing(argv: list[str]) -> str:
    raise AbsentError(f"no program {argv[0]}")


def machine_root(tmp_path: Path) -> Path:
    (tmp_path / "proc").mkdir()
    (tmp_path / "etc").mkdir()
    (tmp_path / "proc/mounts").write_text(
        "10.1.0.4@o2ib:/lfs01 /scratch lustre rw 0 0\nserver:/vol /home nfs4 rw 0 0\nproc /proc proc rw 0 0\n"
    )
    (tmp_path / "etc/hosts").write_text("127.0.0.1 localhost\n10.1.0.5 oss1 oss1.site # data\n10.1.0.4 mds1\n")
    return tmp_path


def test_a_node_with_slurm_and_lustre_tells_its_site(tmp_path: Path) -> None:
    found = discover_site(machine_root(tmp_path), answer)
    text = format_site_text(found.site, found.remarks)
    site = parse_site_file(text)
    assert site == found.site
    assert check_site_file(site, expand_hostlist) == []
    assert site.name == "ember"
    assert {(some.nodes, some.cores) for some in site.nodes} == {("c[001-003]", 64), ("big1", 128)}
    lustre, nfs = site.file_systems
    assert (lustre.kind, lustre.name, lustre.mount) == ("lustre", "lfs01", "/scratch")
    assert {(s.kind, s.node, s.targets) for s in lustre.servers} == {
        ("oss", "oss1", "lfs01-OST[0000-0001]"),
        ("mds", "mds1", "lfs01-MDT0000"),
    }
    assert (nfs.kind, nfs.mount) == ("nfs", "/home")
    assert "the server of lfs01-OST0002 is not known" in text
    mapped = {(r["kind"], r["a"], r["b"]) for r in build_site_file_mapping(site, expand_hostlist).to_pylist()}
    assert ("nid→node", "10.1.0.5@o2ib", "oss1") in mapped


def test_what_is_not_there_stands_in_the_file_as_a_comment(tmp_path: Path) -> None:
    found = discover_site(tmp_path, nothing)
    text = format_site_text(found.site, found.remarks)
    assert parse_site_file(text).layers == ("client", "target")
    for remark in ("no Slurm commands", "no parallel file system", "no lake was given", "no node was found"):
        assert f"# Not found out: {remark}" in text


def test_a_lake_knows_forwarders_routes_servers_and_links(tmp_path: Path) -> None:
    play = play_small_machine(seed=3, seconds=120)
    lake = Lake.open(tmp_path / "lake", create=True)
    with lake.open_writer("main", derive=derive_rollups) as writer:
        batch = writer.open_batch("play")
        for table in play.build_tables().values():
            batch.add(table)
        batch.commit()
    found = discover_site(tmp_path, nothing, lake)
    site = parse_site_file(format_site_text(found.site, found.remarks))
    assert site.layers == ("client", "forwarder", "target")
    assert [some.nodes for some in site.forwarders] == ["fwd[000-003]"]
    routed = {
        r["a"]: r["b"]
        for r in build_site_file_mapping(site, expand_hostlist).to_pylist()
        if r["kind"] == "node_forwarder"
    }
    told = {r["a"]: r["b"] for r in play.build_tables()["mapping"].to_pylist() if r["kind"] == "node_forwarder"}
    assert routed == told
    targets = {
        r["a"] for r in build_site_file_mapping(site, expand_hostlist).to_pylist() if r["kind"] == "target→server"
    }
    assert {f"scratch-OST000{k}" for k in range(8)} <= targets


def test_the_command_writes_and_checks(tmp_path: Path) -> None:
    assert "site" in Commands().list_commands(None)  # type: ignore[arg-type]
    runner, file = CliRunner(), tmp_path / "site.toml"
    made = runner.invoke(command, ["init", "--root", str(tmp_path), "-o", str(file)])
    assert made.exit_code == 0, made.output
    assert isinstance(runner.invoke(command, ["init", "--root", str(tmp_path), "-o", str(file)]).exception, UsageError)
    checked = runner.invoke(command, ["check", str(file)])
    assert checked.exit_code == 0, checked.output
    assert "sound" in checked.output
    file.write_text('[[routes]]\nnodes = "n1"\nforwarders = "f9"\n')
    refused = runner.invoke(command, ["check", str(file)])
    assert isinstance(refused.exception, ConfigError)
    assert "nodes that are not forwarders: f9" in refused.exception.what
    told = runner.invoke(command, ["check", "--json", str(file)])
    assert '"faults": ["routes lead to nodes that are not forwarders: f9"]' in told.output


@pytest.mark.parametrize("name", ["absent.toml", ""])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, name: str) -> None:
    refused = CliRunner().invoke(command, ["check", str(tmp_path / name)])
    assert "cannot be read" in refused.exception.what  # type: ignore[union-attr]

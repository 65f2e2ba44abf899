"""The site file: what it may say, what is refused, and the mapping rows it gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.errors import ConfigError
from fairlead.core.model.node_names import fold_node_names
from fairlead.core.model.site_file import build_site_file_mapping, check_site_file, parse_site_file
from fairlead.core.model.tables import MAPPING
from fairlead.see.sources.slurm.hostlist import expand_hostlist

WHOLE = """
name = "mini"
[[nodes]]
kind = "compute"
nodes = "n[1-4]"
cores = 64
[[nodes]]
kind = "login"
nodes = "login1"
[[forwarders]]
nodes = "fwd[1-2]"
bandwidth_bytes_per_s = 2.5e9
[[routes]]
nodes = "n[1-4]"
forwarders = "fwd[1-2]"
[[routes]]
nodes = "n4"
forwarders = "fwd1"
since = 2026-01-02T00:00:00Z
until = 2026-01-03T00:00:00.25Z
[[file_systems]]
name = "lfs01"
kind = "lustre"
mount = "/scratch"
[[file_systems.servers]]
kind = "oss"
node = "oss1"
targets = "lfs01-OST[0000-0001]"
write_bandwidth_bytes_per_s = 1e9
[[addresses]]
nodes = "n[1-2]"
nids = "10.0.0.[1-2]@o2ib"
[[links]]
switch = "s1"
ports = "[7-8]"
nodes = "n[1-2]"
[[burst_buffers]]
nodes = "n[1-4]"
device = "nvme0n1"
"""


def rows(text: str) -> set[tuple[str, str, str]]:
    batch = build_site_file_mapping(parse_site_file(text), expand_hostlist)
    assert batch.schema.equals(MAPPING.schema)
    return {(row["kind"], row["a"], row["b"]) for row in batch.to_pylist()}


def test_a_whole_site_is_sound_and_gives_its_mappings() -> None:
    site = parse_site_file(WHOLE)
    assert check_site_file(site, expand_hostlist) == []
    assert site.layers == ("client", "forwarder", "target")
    found = rows(WHOLE)
    assert {("node_forwarder", f"n{k}", f"fwd{(k + 1) // 2}") for k in range(1, 5)} <= found
    assert {("target→server", f"lfs01-OST000{k}", "oss1") for k in (0, 1)} <= found
    assert ("nid→node", "10.0.0.2@o2ib", "n2") in found
    assert ("node→port", "n1", "s1/7") in found
    late = [
        r for r in build_site_file_mapping(site, expand_hostlist).to_pylist() if r["a"] == "n4" and r["b"] == "fwd1"
    ]
    assert [(r["from_ns"], r["to_ns"]) for r in late] == [(1767312000 * 10**9, 1767398400 * 10**9 + 250_000_000)]


def test_forwarders_may_be_dealt_out_in_turn() -> None:
    found = rows('[[routes]]\nnodes="n[1-4]"\nforwarders="f[1-2]"\ndeal="cyclic"')
    assert found == {("node_forwarder", f"n{k}", f"f{2 - k % 2}") for k in range(1, 5)}


def test_a_site_without_forwarders_is_a_site() -> None:
    site = parse_site_file('[[nodes]]\nkind="compute"\nnodes="n[1-2]"\n[[file_systems]]\nname="l"\nkind="lustre"')
    assert site.layers == ("client", "target")
    assert check_site_file(site, expand_hostlist) == []
    assert check_site_file(parse_site_file(""), expand_hostlist) == []


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("nodez = 1", "nodez"),
        ('[[nodes]]\nkind="compute"\nnodes="a"\nclass="x"', "class"),
        ('[[nodes]]\nkind="desk"\nnodes="a"', "$.nodes[0].kind"),
        ('[[forwarders]]\nnodes="a"\niops=0', "$.forwarders[0].iops"),
        ('[[forwarders]]\nnodes="a"\niops="9"', "$.forwarders[0].iops"),
        ("name = [", "TOML"),
    ],
)
def test_a_wrong_key_is_named(text: str, key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_site_file(text, "here.toml")
    if key != "TOML":
        assert key in raised.value.what
    assert raised.value.where == "here.toml"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[[routes]]\nnodes="n[3-1]"\nforwarders="f"', "routes[0].nodes"),
        ('[[links]]\nswitch="s"\nports="[1-3]"\nnodes="n[1-2]"', "links[0]"),
    ],
)
def test_broken_lists_are_named(text: str, where: str) -> None:
    with pytest.raises(ConfigError) as raised:
        build_site_file_mapping(parse_site_file(text), expand_hostlist)
    assert raised.value.where == where


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[nodes]]\nkind="login"\nnodes="n1"\n[[nodes]]\nkind="compute"\nnodes="n1"', "n1 is already login"),
        ('[[routes]]\nnodes="n1"\nforwarders="f"', "nodes that are not forwarders: f"),
        ('[[nodes]]\nkind="compute"\nnodes="n[1-9]"\n[[forwarders]]\nnodes="f"', "without a route: n1, n2, n3 and 6"),
        ('[[file_systems]]\nname="l"\nkind="lustre"\nforwarded=true', "no forwarders are described"),
    ],
)
def test_what_does_not_fit_is_told(text: str, says: str) -> None:
    assert any(says in line for line in check_site_file(parse_site_file(text), expand_hostlist))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.from_regex(r"[a-z]{1,2}-?[0-9]{0,4}[a-z]?", fullmatch=True), min_size=1, max_size=20))
def test_folding_and_expanding_give_the_names_back(names: list[str]) -> None:
    assert sorted(expand_hostlist(fold_node_names(names))) == sorted(set(names))


def test_neighbours_are_folded_into_ranges() -> None:
    assert fold_node_names(["n002", "n001", "n003", "n010", "login1"]) == "login1,n[001-003,010]"


def test_the_example_of_the_reference_is_sound() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "reference" / "site.md"
    site = parse_site_file(page.read_text("utf-8").split("```toml\n")[1].split("```")[0])
    assert check_site_file(site, expand_hostlist) == []
    mapped = {(r["kind"], r["a"], r["b"]) for r in build_site_file_mapping(site, expand_hostlist).to_pylist()}
    assert {("nid→node", "10.1.0.4@o2ib", "mds1"), ("node→port", "n0032", "leaf1/32")} <= mapped

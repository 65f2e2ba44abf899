"""Questions beside the path of requests: space and owners, ports, devices, classes of clients, clocks, two layers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from fairlead.cli.main import cli
from fairlead.core.model.site_facts import SiteFacts, find_site_facts
from fairlead.core.model.site_file import build_site_file_mapping, parse_site_file
from fairlead.core.model.tables import DEVICE, HEALTH, PORT, USAGE, build_table_batch
from fairlead.explain.questions.lake_queries import Sight, UnknownNameError
from fairlead.explain.questions.question_catalog import Asking, answer_question, parse_question_parameters
from fairlead.kit.testing.machine import play_two_layer_machine
from fairlead.see.sources.slurm.hostlist import expand_hostlist
from fairlead.store.lake import Lake
from fairlead.store.rollups import derive_rollups
from questions_site import DAY, HOUR, MIB, NOW, T0, S, accounts, asked, columns, ops, put, stored

EVERYTHING = Sight()


def of(asking: Asking, question: str, name: str = "", sight: Sight = EVERYTHING, now: int = NOW, **words: str) -> Any:
    given = {key.rstrip("_"): value for key, value in words.items()}
    return answer_question(asking, question, name, parse_question_parameters(question, given), sight, now)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(tmp_path / "lake", create=True)


# -- space -------------------------------------------------------------------------------------------------------------


def held(at: int, target: str | None, **owners: tuple[int, int]) -> list[dict[str, object]]:
    return [
        {
            "ts_ns": at,
            "fs": "lus",
            "target": target,
            "owner_kind": "user",
            "owner": owner,
            "used_bytes": size,
            "inodes_used": inodes,
        }
        for owner, (size, inodes) in owners.items()
    ]


@pytest.fixture
def space(lake: Lake) -> Asking:
    then, now = NOW - DAY, NOW - 60 * S
    rows = [
        *held(then, "lus-OST0000", alice=(100, 9), bob=(50, 9)),
        *held(then, "lus-OST0001", alice=(10, 9)),
        *held(then, "lus-MDT0000", alice=(1, 40), bob=(1, 7)),
        *held(now - 600 * S, "lus-OST0000", alice=(101, 9), bob=(60, 9), carol=(9, 9)),  # not the last word
        *held(now, "lus-OST0000", alice=(90, 9), bob=(950, 9)),
        *held(now, "lus-OST0001", alice=(30, 9), dora=(5, 1)),
        *held(now, "lus-MDT0000", alice=(1, 45), bob=(1, 6), dora=(1, 2)),
        {"ts_ns": now, "fs": "lus", "owner_kind": "user", "owner": "bob", "limit_bytes": 1000, "inodes_limit": 100},
        {"ts_ns": now, "fs": "lus", "owner_kind": "user", "owner": "alice", "inodes_limit": 50},
        {
            "ts_ns": now,
            "fs": "lus",
            "target": "lus-OST0000",
            "owner_kind": "group",
            "owner": "staff",
            "used_bytes": 7,
            "inodes_used": 7,
        },
    ]
    put(lake, build_table_batch(USAGE, columns(rows)), stored("lus-OST0000", 0, 600, MIB))
    return Asking(lake)


def test_who_holds_grew_and_nears_a_limit(space: Asking) -> None:
    found = of(space, "usage", kind="user")
    most = [(h.owner, h.used_bytes, h.inodes, h.grown_bytes, h.grown_inodes) for h in found.most]
    assert most == [("bob", 951, 6, 900, -1), ("alice", 121, 45, 10, 5), ("dora", 6, 2, 6, 2)]
    assert [h.owner for h in found.grown] == ["bob", "alice", "dora"]
    assert [(h.owner, round(h.limit_share, 3)) for h in found.near] == [("bob", 0.951), ("alice", 0.9)]
    assert (found.told_ns, found.holders, found.hidden) == (NOW - 60 * S, 3, False)
    assert {h.owner_kind for h in of(space, "usage").most} == {"user", "group"}


def test_owners_of_one_target(space: Asking) -> None:
    found = of(space, "usage", target="lus-OST0001")
    assert [(h.owner, h.used_bytes, h.grown_bytes, h.limit_share) for h in found.most] == [
        ("alice", 30, 20, None),
        ("dora", 5, 5, None),
    ]
    with pytest.raises(UnknownNameError):
        of(space, "usage", target="lus-OST0009")


def test_room_on_targets_and_what_is_not_known_of_the_beginning(space: Asking) -> None:
    [target] = of(space, "usage", last="5m").targets
    assert (target.id, target.capacity_bytes, target.inodes_used) == ("lus-OST0000", 1000 * MIB, None)
    assert target.fullness == pytest.approx((500 + 599) / 1000)
    assert target.grown_bytes == 300 * MIB
    # Before the first telling of an owner nothing is known of its growth.
    early = of(space, "usage", from_=str((NOW - 3 * DAY) // S), to=str((NOW - DAY) // S + 60))
    assert {h.grown_bytes for h in early.most} == {None}
    assert early.grown == []


def test_a_reader_of_one_user_sees_own_space(space: Asking) -> None:
    found = of(space, "usage", sight=Sight("alice"))
    assert {h.owner for h in [*found.most, *found.grown, *found.near]} == {"alice"}
    assert found.hidden


# -- ports and devices -------------------------------------------------------------------------------------------------

LINKED = parse_site_file(
    '[[links]]\nswitch="s1"\nports="[1-4]"\nnodes="n[1-4]"\nbandwidth_bytes_per_s=1e6\n'
    '[[nodes]]\nkind="compute"\nnodes="n[1-4]"\n[[nodes]]\nkind="login"\nnodes="login[01-04]"\n'
    '[[addresses]]\nnodes="n[1-2]"\nnids="10.0.0.[1-2]@o2ib"\n'
    '[[forwarders]]\nnodes="f[1-2]"\nbandwidth_bytes_per_s=5e8\n'
    '[[file_systems]]\nname="lus"\nkind="lustre"\n'
    '[[file_systems.servers]]\nkind="oss"\nnode="oss1"\ntargets="OST[0-2]"\nwrite_bandwidth_bytes_per_s=2e8\n'
)
TWO = {"job_id": "5", "user": "alice", "nodes": ["n1", "n2"], "start_ns": T0, "end_ns": T0 + 600 * S}


def traffic(switch: str, port: str, sent: int, received: int, peer: str | None = None) -> dict[str, object]:
    """One minute: bytes a node sent (the switch received) and received."""
    return {
        "ts_ns": T0 + 120 * S,
        "interval_ns": 60 * S,
        "switch": switch,
        "port": port,
        "rx_bytes": sent,
        "tx_bytes": received,
        "peer": peer,
    }


@pytest.mark.parametrize("told", ["site", "peer", "adapter"])
def test_ports_of_a_job_and_their_imbalance(lake: Lake, told: str) -> None:
    rows = [traffic("n1", "lnet", 7777, 7777), traffic("n2", "lnet", 7777, 7777)]  # LNet's own sums: never added
    if told == "adapter":
        rows += [traffic("n1", "mlx5_0/1", 300, 0), traffic("n2", "mlx5_0/1", 90, 10), traffic("n3", "mlx5_0/1", 9, 9)]
    else:
        peers = {k: f"n{k} HCA-1" if told == "peer" else None for k in "123"}
        rows += [
            traffic("s1", "1", 300, 0, peers["1"]),
            traffic("s1", "2", 90, 10, peers["2"]),
            traffic("s1", "3", 9, 9, peers["3"]),
        ]
    put(lake, accounts(TWO), build_table_batch(PORT, columns(rows)))
    if told == "site":
        put(lake, build_site_file_mapping(LINKED, expand_hostlist), stream="site-file")
    asking = Asking(lake, facts=find_site_facts(LINKED, expand_hostlist))
    page = of(asking, "job", "5")
    assert [(p.node, p.sent_bytes, p.received_bytes) for p in page.ports] == [("n1", 300, 0), ("n2", 90, 10)]
    assert page.port_imbalance.highest_over_mean == pytest.approx(1.5)
    found = of(asking, "ports", last="15m")
    assert sum(p.sent_bytes for p in found.ports) == 399
    assert [(j.job_id, j.ports, j.user) for j in found.jobs] == [("5", 2, "alice")]
    if told != "adapter":
        assert page.ports[0].peak_share == pytest.approx(300 / 600 / 1e6, rel=0.2)


def test_devices_by_hour_and_the_pages_of_the_shell(lake: Lake) -> None:
    rows = [
        {
            "ts_ns": T0 + day * DAY + hour * HOUR,
            "interval_ns": HOUR,
            "node": node,
            "device": "nvme0n1",
            "write_bytes": size * 3600,
            "read_bytes": 0,
            "busy_ns": HOUR // 4,
        }
        for day in range(-2, 0)
        for hour, node, size in ((1, "n1", 10), (2, "n1", 30), (1, "n2", 5))
    ]
    put(lake, build_table_batch(DEVICE, columns(rows)), accounts(TWO))
    found = of(Asking(lake), "devices", node="n1")
    assert [(d.id, d.hour, d.write_bytes_per_s, d.busy_share, d.hours) for d in found.devices] == [
        ("n1/nvme0n1", 10, 10.0, 0.25, 2),
        ("n1/nvme0n1", 11, 30.0, 0.25, 2),
    ]
    place = ["--lake", str(lake.place.root), "--from", str((NOW - 7 * DAY) // S), "--to", str(NOW // S)]
    for view in ("devices", "network", "space"):
        shown = CliRunner().invoke(cli, ["system", view, *place])
        assert shown.exit_code == 0, shown.output
        answer = json.loads(CliRunner().invoke(cli, ["system", view, "--json", *place]).stdout)
        assert answer["schema"].startswith("fairlead.")
    assert "n1/nvme0n1" in CliRunner().invoke(cli, ["system", "devices", *place]).output


# -- classes, full loads -----------------------------------------------------------------------------------------------


def test_the_site_says_what_clients_and_full_loads_are(lake: Lake) -> None:
    rows = [
        asked("MDT0", 0, 600, count, client=client, source="exports")
        for client, count in (
            ("login03", 70),
            ("n3.cluster.example", 20),
            ("10.0.0.2@o2ib", 5),
            ("f1", 3),
            ("10.9.9.9@tcp", 2),
        )
    ]
    put(lake, asked("MDT0", 0, 600, 100), *rows, *(stored("OST0", 0, 600, MIB),), stream="classes")
    plain = of(Asking(lake), "mds")
    assert {c.name for c in plain.classes} == {"login", "n", "@o2ib", "f", "@tcp"}
    asking = Asking(lake, facts=find_site_facts(LINKED, expand_hostlist))
    found = of(asking, "mds")
    assert {c.name: round(c.share, 2) for c in found.classes} == {
        "login": 0.7,
        "compute": 0.25,
        "forwarder": 0.03,
        "unknown class": 0.02,
    }
    put(lake, build_site_file_mapping(LINKED, expand_hostlist), stream="site-file")
    told = of(Asking(lake), "mds")  # a lake that a server's site file was taken into
    assert {c.name: c.count for c in told.classes} == {c.name: c.count for c in found.classes}
    assert asking.peaks == {"forwarder": 5e8, "target": 2e8}
    assert of(asking, "cdf").peak_bytes_per_s == 2e8
    assert Asking(lake, facts=SiteFacts()).peaks == {}


# -- clocks ------------------------------------------------------------------------------------------------------------


def test_records_of_nodes_whose_clocks_are_off_are_shown_at_their_time(tmp_path: Path) -> None:
    """Two nodes write in the same minute; one dates it five minutes early, the other five minutes late."""
    lake = Lake.open(tmp_path / "skewed", create=True)
    job = {"job_id": "9", "user": "alice", "nodes": ["a", "b"], "start_ns": T0 + 400 * S, "end_ns": T0 + 520 * S}
    clocks = [
        {
            "ts_ns": T0 + at * S - off,
            "node": node,
            "probe": "agent",
            "state": "ok",
            "interval_ns": 60 * S,
            "clock_offset_ns": off,
        }
        for node, off in (("a", 300 * S), ("b", -300 * S), ("c", S))
        for at in (380, 440, 500)
    ]
    put(
        lake,
        accounts(job),
        build_table_batch(HEALTH, columns(clocks)),
        ops("9", "a", 420 - 300, 480 - 300, MIB),
        ops("9", "b", 420 + 300, 480 + 300, 2 * MIB),
    )
    now = T0 + 900 * S
    page = of(Asking(lake), "job", "9", now=now)
    line = next(series for series in page.timeline.series if series.layer == "client")
    at = (T0 + 420 * S - page.timeline.from_ns) // page.timeline.step_ns
    assert line.write_bytes_per_s[at : at + 60] == [3.0 * MIB] * 60
    assert not any(value for k, value in enumerate(line.write_bytes_per_s) if not at <= k < at + 60)
    assert page.job.sums.write_bytes == 180 * MIB
    assert {c.source: c.offset_ns for c in page.clocks} == {"a": 300 * S, "b": -300 * S}
    node = of(Asking(lake), "node", "b", now=now)
    line = next(series for series in node.timeline.series if series.layer == "client")
    first = next(k for k, value in enumerate(line.write_bytes_per_s) if value)
    assert node.timeline.from_ns + first * node.timeline.step_ns == T0 + 420 * S
    assert node.clock.offset_ns == -300 * S
    shown = CliRunner().invoke(cli, ["job", "show", "9", "--lake", str(lake.place.root)])
    assert "its clock is off" in shown.output


# -- two layers --------------------------------------------------------------------------------------------------------


def test_a_machine_without_forwarders_lacks_nothing(lake: Lake) -> None:
    tables = play_two_layer_machine(seed=3, seconds=180).build_tables()
    with lake.open_writer("main", derive=derive_rollups) as writer:
        batch = writer.open_batch("play")
        for table in tables.values():
            batch.add(table)
        batch.commit()
    ends = pa.compute.max(tables["ops"]["end_ns"]).as_py()
    asking = Asking(lake, facts=SiteFacts(layers=("client", "target")))
    system = of(asking, "system", now=ends, last="1h")
    assert {"client", "target"} <= set(system.totals)
    assert "forwarder" not in system.totals
    assert [(a.upper, a.lower) for a in system.amplification][-1][1] == "target"
    busiest = of(asking, "jobs", now=ends, last="1h", sort="bytes").jobs[0]
    page = of(asking, "job", busiest.job_id, now=ends)
    assert {"client", "target"} <= {series.layer for series in page.timeline.series}
    assert not [text for text in page.missing if "forwarder" in text]
    assert {share.kind for share in page.components} <= {"target", "mds"}
    assert of(asking, "targets", now=ends, last="1h").targets
    assert of(asking, "heatmap", now=ends, last="1h").rows == []

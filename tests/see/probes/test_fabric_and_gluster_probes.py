"""Texts of InfiniBand and GlusterFS tools, each public or recorded file with the values it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.see.probes import gluster, infiniband

pytestmark = pytest.mark.shared_data
BRICK = "10.77.0.1:/scratch/site/gl/m0/brick"

PERFQUERY = {
    "0x506b4b03005c2740": (2052, [1], [715166628708940, 715049367846516, 393094651266, 387654829341, 41864608, 20047]),
    "0x7cfe9003003b4b96": (133, [1], [148434707415420, 148901607811540, 96917117320, 100583719365, 0, 0]),
    "0x7cfe9003003b4bde": (134, [1], [36198369975904, 39009938353200, 28825338611, 33038722564, 0, 0]),
    "0x7cfe9003009ce5b0": (1719, [1, 2], [145192107443712, 49116115103004, 101733204203, 32262508468, 22730501, 0]),
}


@pytest.mark.parametrize("name", PERFQUERY)
def test_perfquery(shared_data: Path, name: str) -> None:
    """Every line is understood; data counters are bytes."""
    text = (shared_data / f"infiniband/fixtures/perfquery/{name}.out").read_text()
    ports, unknown, _ = infiniband.parse_infiniband_ports(text)
    assert (
        ports[0].lid,
        [port.port for port in ports],
        infiniband.select_infiniband_counters(ports[0].values),
    ) == PERFQUERY[name]
    assert unknown == 0


def test_an_empty_perfquery_is_no_port(shared_data: Path) -> None:
    """A port that did not answer prints nothing."""
    path = shared_data / "infiniband/fixtures/perfquery/0x506b4b0300cc02a6.out"
    assert infiniband.parse_infiniband_ports(path.read_text()) == ([], 0, "")


RCV_ERRORS = {
    "0x506b4b03005c2740-1": (2052, 1),
    "0x7cfe9003003b4b96-1": (133, 1),
    "0x7cfe9003003b4bde-1": (134, 1),
    "0x7cfe9003009ce5b0-1": (1719, 1),
    "0x7cfe9003009ce5b0-2": (1719, 2),
}


@pytest.mark.parametrize("name", RCV_ERRORS)
def test_details_of_receive_errors(shared_data: Path, name: str) -> None:
    """`perfquery -E`: the six causes of a receive error, all 0 in this fabric, and none of the data counters."""
    text = (shared_data / f"infiniband/fixtures/perfquery-rcv-error/{name}.out").read_text()
    (port,), unknown, _ = infiniband.parse_infiniband_ports(text)
    assert ((port.lid, port.port), unknown) == (RCV_ERRORS[name], 0)
    causes = {
        "PortLocalPhysicalErrors",
        "PortMalformedPktErrors",
        "PortBufferOverrunErrors",
        "PortDLIDMappingErrors",
        "PortVLMappingErrors",
        "PortLoopingErrors",
    }
    assert {name for name in port.values if name.endswith("Errors")} == causes
    assert sum(port.values[cause] for cause in causes) == 0
    assert infiniband.select_infiniband_counters(port.values) == [None] * 6


DISCOVER = {"test.out": (9, 7), "test2.out": (6, 3), "test3.out": (1, 0)}


@pytest.mark.parametrize("name", DISCOVER)
def test_ibnetdiscover(shared_data: Path, name: str) -> None:
    """Links by port; one without a peer is a port that is down."""
    links, unknown, example = infiniband.parse_infiniband_links(
        (shared_data / "infiniband/fixtures/ibnetdiscover" / name).read_text()
    )
    assert (len(links), sum(link.peer_name is not None for link in links), unknown, example) == (*DISCOVER[name], 0, "")
    if name == "test.out":
        by_port = {(link.name, link.port): link for link in links}
        assert by_port["ib-i1l1s01", 10].peer_name == "o0001 HCA-1"
        assert by_port["o0001 HCA-1", 1].peer_name == "ib-i1l1s01"
        assert by_port["ib-i4l1s01", 37].speed == "???"


def test_rows_of_a_switch_name_both_ends(shared_data: Path) -> None:
    """Discovery and counters of the same fabric meet by LID and port."""
    folder = shared_data / "infiniband/fixtures"
    links, _, _ = infiniband.parse_infiniband_links((folder / "ibnetdiscover/test.out").read_text())
    ports, _, _ = infiniband.parse_infiniband_ports((folder / "perfquery/0x7cfe9003009ce5b0.out").read_text())
    rows = infiniband.build_infiniband_switch_rows(ports, links)
    assert rows["ib-i1l1s01", "1", "ib-i1l2s01"][0] == 145192107443712


SWITCHES = {
    "test1.out": ("72", ["fan status ERROR"]),
    "test2.out": ("154", []),
    "test3.out": ("287", ["PSU1/DC power ERROR", "PSU1/fan status ERROR"]),
    "test-err1.out": ("foo", []),
    "test-err2.out": ("72", []),
    "test-err3.out": ("72", []),
    "test1-missing.out": (None, []),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_ibswinfo(shared_data: Path, name: str) -> None:
    """Values by part; a status that is not OK is a fault; an empty value is unknown."""
    info = infiniband.parse_infiniband_switch((shared_data / "infiniband/fixtures/ibswinfo" / name).read_text())
    power, faults = SWITCHES[name]
    assert info.values["GUID"] is not None
    assert info.values["GUID"].startswith("0x")
    assert (info.values.get("PSU0/power (W)"), info.faults) == (power, faults)
    if name == "test1-missing.out":
        assert info.values["PSU1 status"] is None
        assert "temperature (C)" not in info.values


def test_gluster_profile_says_the_same_in_xml_and_in_text(shared_data: Path) -> None:
    """Four bricks, cumulative figures, calls by name."""
    folder = shared_data / "own/gluster"
    by_xml = {
        brick.name: brick
        for brick in gluster.parse_gluster_profile_xml((folder / "gluster_profile_info.xml").read_bytes())
    }
    texts, unknown, _ = gluster.parse_gluster_profile_text((folder / "gluster_profile_info.txt").read_text())
    assert unknown == 0
    assert len(by_xml) == len(texts) == 4
    brick = by_xml[BRICK]
    assert (brick.read_bytes, brick.write_bytes, brick.duration_s) == (870768640, 805306368, 37)
    assert brick.reads == {4096: 15982, 131072: 6144}
    assert brick.calls["LOOKUP"] == 5982
    for text in texts:
        asked = {op: n for op, n in text.calls.items() if op not in gluster.NOT_ASKED}
        assert asked == by_xml[text.name].calls, "the XML leaves out calls nobody waits for"
        assert (text.reads, text.writes, text.read_bytes) == (
            by_xml[text.name].reads,
            by_xml[text.name].writes,
            by_xml[text.name].read_bytes,
        )


def test_gluster_bricks_become_targets(shared_data: Path) -> None:
    """Data by brick with its room; calls that move no data are metadata operations, those nobody waits for are not."""
    folder = shared_data / "own/gluster"
    targets, calls = gluster.build_gluster_readings(
        gluster.parse_gluster_profile_xml((folder / "gluster_profile_info.xml").read_bytes()),
        gluster.parse_gluster_status_xml((folder / "gluster_status_detail.xml").read_bytes()),
    )
    row = dict(zip(targets.counters + targets.gauges, targets.rows["10.77.0.1", BRICK, "gluster"], strict=True))
    assert (row["read_rpcs"], row["write_rpcs"], row["read_bytes"]) == (22126, 6144, 870768640)
    assert row["metadata_ops"] == 1 + 6 + 7 + 2 + 242 + 235 + 235 + 5982
    assert (row["read_sizes"][0], row["read_sizes"][5], sum(row["read_sizes"])) == (15982, 6144, 22126)
    assert (row["capacity_bytes"], row["used_bytes"]) == (2040373248, 2040373248 - 2038284288)
    assert (row["inodes"], row["inodes_used"]) == (131072, 131072 - 130557)
    assert calls.rows["10.77.0.1", BRICK, "create", "gluster"] == [235, None]
    assert row["read_busy_ns"] is None, "the XML names no unit"
    unit_ns = gluster.find_gluster_latency_unit((folder / "gluster_profile_info.txt").read_text())
    assert unit_ns == 1
    targets, calls = gluster.build_gluster_readings(
        gluster.parse_gluster_profile_xml((folder / "gluster_profile_info.xml").read_bytes()), [], unit_ns
    )
    row = dict(zip(targets.counters + targets.gauges, targets.rows["10.77.0.1", BRICK, "gluster"], strict=True))
    assert row["read_busy_ns"] == int(22126 * 125830.343562)
    assert calls.rows["10.77.0.1", BRICK, "create", "gluster"][1] == pytest.approx(235 * 130981.73, rel=1e-6)
    assert not any(key[2] == "forget" for key in calls.rows)


def test_gluster_dumps_of_io_stats(shared_data: Path) -> None:
    """A brick's and a client's dump, two JSON objects in a file; only what counts since the start is taken."""
    folder = shared_data / "own/gluster"
    (brick,), unknown, _ = gluster.parse_gluster_iostats((folder / "gluster_brick0_statsdump.json").read_text())
    assert unknown == 0
    assert (brick.read_bytes, brick.write_bytes, brick.uptime_s) == (1223090176, 1040187392, 91)
    assert (brick.calls["READ"], brick.calls["WRITE"], brick.calls["MKNOD"]) == (24814, 7936, 13)
    assert brick.reads[4096] == 15982
    (client,), unknown, _ = gluster.parse_gluster_iostats((folder / "gluster_client_statsdump.json").read_text())
    assert (client.name, unknown) == ("v0", 0)
    assert gluster.build_gluster_client_row(client)[3:] == [805322752, 536870912]
    assert client.writes == {131072: 4096}


def test_gluster_top_is_a_list_for_people(shared_data: Path) -> None:
    """`volume top` names files, not rates: nothing of it is a counter, and a profile it is not."""
    bricks, _, _ = gluster.parse_gluster_profile_text((shared_data / "own/gluster/gluster_top_write.txt").read_text())
    assert [brick.name.rpartition("/m")[2] for brick in bricks] == ["0/brick", "1/brick", "2/brick", "3/brick"]
    assert all(not brick.calls for brick in bricks)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "did not print XML"),
        (b"<a><b></a>", "did not print XML"),
        (b"<cliOutput><opRet>-1</opRet><opErrstr>Profile is not started</opErrstr></cliOutput>", "not started"),
        (b'<!DOCTYPE x [<!ENTITY a "b">]><cliOutput><opRet>0</opRet></cliOutput>', "entities"),
    ],
)
def test_bad_gluster_xml_is_told(data: bytes, says: str) -> None:
    """As an error of the probe, in gluster's own words."""
    with pytest.raises(OSError, match=says):
        gluster.parse_gluster_profile_xml(data)


def test_every_public_file_is_covered(shared_data: Path) -> None:
    """Nothing in these folders is left out of the tests above."""
    ib = shared_data / "infiniband/fixtures"
    named = {
        *(f"perfquery/{n}.out" for n in PERFQUERY),
        "perfquery/0x506b4b0300cc02a6.out",
        *(f"perfquery-rcv-error/{n}.out" for n in RCV_ERRORS),
        *(f"ibnetdiscover/{n}" for n in DISCOVER),
        *(f"ibswinfo/{n}" for n in SWITCHES),
    }
    assert {str(path.relative_to(ib)) for path in ib.rglob("*") if path.is_file()} == named
    assert {path.name for path in (shared_data / "own/gluster").iterdir()} == {
        "gluster_profile_info.xml",
        "gluster_profile_info.txt",
        "gluster_status_detail.xml",
        "gluster_top_write.txt",
        "gluster_brick0_statsdump.json",
        "gluster_client_statsdump.json",
    }


def _dump(volume: str, read: int, written: int) -> str:
    """A dump of io-stats as a client writes it, two figures of it."""
    return "".join(
        f'{{\n"gluster.{volume}.{part}.fop.write.count": 1,\n"gluster.{volume}.{part}.bytes_read": {read},\n'
        f'"gluster.{volume}.{part}.bytes_written": {written}\n}}\n'
        for part in ("aggr", "inter")
    )


def test_two_mounts_of_a_volume_do_not_overwrite_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both write one file in turns: it is not read. Each mount is asked for its own, and each is a row."""
    (tmp_path / "var/run/gluster").mkdir(parents=True)
    (tmp_path / "var/lib/glusterd/stats").mkdir(parents=True)
    for pid, place in ((11, "/a"), (12, "/b")):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        words = ["/usr/sbin/glusterfs", "--volfile-server=s", "--volfile-id=/v0", place]
        (tmp_path / f"proc/{pid}/cmdline").write_bytes("\0".join(words).encode() + b"\0")
    mounts = "s:/v0 /a fuse.glusterfs rw 0 0\ns:/v0 /b fuse.glusterfs rw 0 0\ns:/v1 /c fuse.glusterfs rw 0 0\n"
    (tmp_path / "proc/mounts").write_text(mounts)
    stats = tmp_path / "var/lib/glusterd/stats"
    for volume in ("v0", "v1", "unmounted"):
        (stats / f"glusterfs_{volume}.dump").write_text(_dump(volume, 1, 2))
    figures = {"/a": (100, 200), "/b": (7, 9)}

    def setxattr(path: str, key: str, value: bytes) -> None:
        place = path[len(str(tmp_path)) :]
        assert key == f"trusted.io-stats-{11 if place == '/a' else 12}_json_dump"
        (tmp_path / f"var/run/gluster/{value.decode()}.v0").write_text(_dump("v0", *figures[place]))

    monkeypatch.setattr(gluster.os, "setxattr", setxattr)
    probe = gluster.Clients(str(tmp_path), "n1")
    (reading,) = probe.read(0).readings
    assert {key[1:]: row[3:] for key, row in reading.rows.items()} == {
        ("v0", "gluster", "/a"): [100, 200],
        ("v0", "gluster", "/b"): [7, 9],
        ("v1", "gluster", "/c"): [1, 2],
    }
    assert not list((tmp_path / "var/run/gluster").iterdir()), "and leaves no file behind"

    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(gluster.os, "setxattr", refused)
    (reading,) = probe.read(0).readings
    assert [key[1] for key in reading.rows] == ["v1"], "unknown rather than the figures of one for both"
    assert reading.unknown == 2
    assert "v0 is mounted 2 times" in reading.unknown_example

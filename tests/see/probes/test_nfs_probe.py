"""NFS mounts and the kernel's server: texts in the kernel's formats that grow from look to look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead.see.agent.deltas import Deltas
from fairlead.see.probes.base import AbsentError, Reading
from fairlead.see.probes.nfs import NfsMounts, NfsServer, parse_mountstats

S = 10**9
NOW = 1_700_000_000 * S
Ops = dict[str, tuple[int, int, int, int, int, int]]
"""By name: operations, transmissions, timeouts, ms before sending, ms to the reply, ms in all."""


def mount(export: str, place: str, age_s: int, moved: tuple[int, int], ops: Ops, *, version: str = "4.2") -> str:
    """One mount as Linux writes it: `statvers=1.1` with NFS 3, 4.0 to 4.2; 4.2 with nconnect and a count of errors
    (5.3 and later), 3 as kernels before."""
    kind = "nfs" if version == "3" else "nfs4"
    told = [f"device {export} mounted on {place} with fstype {kind} statvers=1.1"]
    told += [
        f"\topts:\trw,vers={version},rsize=1048576,wsize=1048576,hard,proto=tcp,timeo=600,retrans=2,sec=sys",
        f"\tage:\t{age_s}",
    ]
    if kind == "nfs4":
        told += [
            "\timpl_id:\tname='',domain='',date='0,0'",
            "\tcaps:\tcaps=0xfffbffdf,wtmult=512,dtsize=1048576,bsize=0,namlen=255",
            "\tnfsv4:\tbm0=0xfdffbfff,bm1=0xf9be3e,bm2=0x68800,acl=0x3,sessions,pnfs=not configured,lease_time=90",
        ]
    told += [
        "\tsec:\tflavor=1,pseudoflavor=1",
        "\tevents:\t1 2 0 0 1 3 4 5 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 ",
        f"\tbytes:\t{moved[0] * 2} {moved[1]} 0 0 {moved[0]} {moved[1]} 25 50 ",
        f"\tRPC iostats version: {'1.1' if kind == 'nfs4' else '1.0'}  p/v: 100003/{version[0]} (nfs)",
    ]
    xprt = "\txprt:\ttcp 832 0 2 0 9 40 40 0 50 0 2 0 0"
    told += [xprt] * (4 if kind == "nfs4" else 1)
    told.append("\tper-op statistics")
    for name, (count, sent, late, queue, rtt, total) in ops.items():
        numbers = [count, sent, late, count * 200, count * 160, queue, rtt, total] + ([0] if kind == "nfs4" else [])
        told.append(f"\t{name:>12}: " + " ".join(map(str, numbers)) + " ")
    return "\n".join(told) + "\n\n"


HEAD = "device proc mounted on /proc with fstype proc\nno device mounted on / with fstype rootfs\n"
OPS: Ops = {
    "NULL": (1, 1, 0, 0, 0, 1),
    "READ": (100, 103, 1, 5, 900, 1000),
    "WRITE": (50, 50, 0, 50, 2000, 2100),
    "COMMIT": (5, 5, 0, 0, 100, 100),
    "GETATTR": (20, 20, 0, 1, 10, 12),
    "LOOKUP": (7, 7, 0, 0, 3, 4),
}
V4 = {**OPS, "SEQUENCE": (9, 9, 0, 0, 9, 9), "EXCHANGE_ID": (2, 2, 0, 0, 2, 2)}


def put(root: Path, text: str, devices: dict[str, str] | None = None) -> None:
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/self/mountstats").write_text(HEAD + text)
    lines = [f"36 25 {device} / {place} rw - nfs4 s:/x rw\n" for place, device in (devices or {}).items()]
    (root / "proc/self/mountinfo").write_text("".join(lines))


def named(reading: Reading) -> dict[Any, dict[str, Any]]:
    return {key: dict(zip(reading.counters, row, strict=True)) for key, row in reading.rows.items()}


@pytest.mark.parametrize("version", ["3", "4.0", "4.1", "4.2"])
def test_a_mount_by_version(tmp_path: Path, version: str) -> None:
    """RPCs, bytes of the network, times in ns, what was sent again; upkeep of sessions is no metadata operation."""
    put(tmp_path, mount("s:/home", "/home", 60, (1000, 2000), OPS if version == "3" else V4, version=version))
    whole, operations = NfsMounts(str(tmp_path), "n1").read(NOW).readings
    assert (whole.unknown, whole.unknown_example) == (0, "")
    row = named(whole)["s:/home", "/home"]
    assert row == {
        "read_rpcs": 100,
        "write_rpcs": 50,
        "read_bytes": 1000,
        "write_bytes": 2000,
        "metadata_ops": 32,
        "read_busy_ns": 1000 * 10**6,
        "write_busy_ns": 2100 * 10**6,
        "metadata_busy_ns": 116 * 10**6,
        "wait_ns": 56 * 10**6,
        "server_ns": 3013 * 10**6,
        "retransmits": 3,
        "timeouts": 1,
    }
    assert operations.spread == ("op", "count", "busy_ns")
    (key,) = operations.rows
    assert key == ("s", "n1", "s:/home /home")
    half = len(operations.counters) // 2
    told = operations.rows[key]
    assert {op: (told[n], told[n + half]) for n, op in enumerate(operations.counters[:half])} == {
        "commit": (5, 100 * 10**6),
        "getattr": (20, 12 * 10**6),
        "lookup": (7, 4 * 10**6),
    }


def test_two_mounts_of_one_export_are_counted_once(tmp_path: Path) -> None:
    """Mounts that share a superblock show the same counters; `nosharecache` gives each its own."""
    one = mount("s:/home", "/home", 60, (10, 20), V4)
    same = mount("s:/home", "/also", 60, (10, 20), V4)
    put(tmp_path, one + same, {"/home": "0:45", "/also": "0:45"})
    assert list(NfsMounts(str(tmp_path), "n1").read(NOW).readings[0].rows) == [("s:/home", "/home")]
    put(tmp_path, one + same, {"/home": "0:45", "/also": "0:46"})
    assert len(NfsMounts(str(tmp_path), "n1").read(NOW).readings[0].rows) == 2


def test_growth_remounts_and_mounts_that_vanish(tmp_path: Path) -> None:
    """What was counted between looks; a remount begins anew although its counters are higher than before."""
    probe, deltas = NfsMounts(str(tmp_path), "n1"), Deltas()

    def look(at_s: int, *mounts: str) -> list[tuple[str, int | None]]:
        put(tmp_path, "".join(mounts))
        reading = probe.read(NOW + at_s * S).readings[0]
        at = reading.counters.index("read_bytes")
        return [
            (str(row.key[1]), row.values[at]) for row in deltas.advance(reading, at_s * S) if row.values[at] is not None
        ]

    home, work = ("s:/home", "/home"), ("t:/work", "/work")
    assert look(0, mount(*home, 60, (1000, 0), V4)) == []
    assert look(5, mount(*home, 65, (1700, 0), V4)) == [("/home", 700)]
    assert look(10, mount(*home, 71, (1900, 0), V4), mount(*work, 3, (40, 0), OPS, version="3")) == [
        ("/home", 200),
        ("/work", 40),
    ], "a mount made since began at zero"
    assert look(15, mount(*home, 2, (5000, 0), V4)) == [("/home", 5000)], "mounted again: all of it is new"
    assert look(20, mount(*home, 7, (5001, 0), V4)) == [("/home", 1)]
    (tmp_path / "proc/self/mountstats").write_text(HEAD)
    with pytest.raises(AbsentError, match="no NFS mount"):
        probe.read(NOW + 25 * S)


def test_lines_nobody_knows_are_counted(tmp_path: Path) -> None:
    text = mount("s:/a b", "/a\\040b", 1, (1, 2), V4) + "\tteleport:\t7\n"
    mounts, unknown, example = parse_mountstats(text)
    assert (mounts[0].place, unknown, example) == ("/a b", 1, "teleport:\t7")
    assert parse_mountstats("garbage\n" * 3) == ([], 0, "")


def nfsd(read: int, written: int, proc3: dict[int, int], ops4: dict[int, int]) -> str:
    """/proc/net/rpc/nfsd as Linux 5 writes it."""
    three = [proc3.get(n, 0) for n in range(22)]
    four = [ops4.get(n, 0) for n in range(76)]
    return (
        "rc 0 11 22\nfh 0 0 0 0 0\n"
        f"io {read} {written}\nth 8 0 0.000 0.000 0.000 0.000 0.000 0.000 0.000 0.000 0.000 0.000\n"
        "ra 32 0 0 0 0 0 0 0 0 0 0 0\nnet 40 0 40 2\nrpc 40 0 0 0 0\n"
        f"proc3 22 {' '.join(map(str, three))}\nproc4 2 1 39\nproc4ops 76 {' '.join(map(str, four))}\n"
    )


def test_the_server_counts_both_versions(tmp_path: Path) -> None:
    """Reads and writes are no metadata operations, nor are the steps of a compound that only say which file."""
    place = tmp_path / "proc/net/rpc/nfsd"
    probe = NfsServer(str(tmp_path), "srv")
    with pytest.raises(AbsentError, match="NFS server does not run"):
        probe.read(NOW)
    place.parent.mkdir(parents=True)
    place.write_text(nfsd(700, 900, {1: 5, 6: 3, 7: 2}, {9: 4, 18: 6, 22: 50, 25: 7, 38: 1, 53: 50}))
    moved, calls = probe.read(NOW).readings
    assert moved.unknown == 0
    assert moved.rows == {("srv:nfsd",): [10, 3, 700, 900, 15]}
    assert calls.rows == {("getattr",): [9], ("open",): [6]}
    assert moved.wraps == ()
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/osrelease").write_text("4.18.0-553.el8.x86_64\n")
    assert probe.read(NOW).readings[0].wraps == (("read_bytes", 32), ("write_bytes", 32))

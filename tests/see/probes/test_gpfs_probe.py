"""The GPFS probe on a program that prints what mmperfmon does."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.see.agent.probe_names import make_named_probe
from fairlead.see.agent.settings import ProbeSettings
from fairlead.see.probes.base import AbsentError
from fairlead.see.probes.gpfs import Performance

FILE_SYSTEM = """
Legend:
 1:\tn1|GPFSFilesystem|cluster|scratch|gpfs_fs_bytes_read
 2:\tn2|GPFSFilesystem|cluster|scratch|gpfs_fs_bytes_read
 3:\tn1|GPFSFilesystem|cluster|scratch|gpfs_fs_write_ops

Row           Timestamp gpfs_fs_bytes_read gpfs_fs_bytes_read gpfs_fs_write_ops
"""
DISK = """
Legend:
 1:\ts1|GPFSNSDDisk|nsd1|gpfs_nsdds_bytes_written

Row           Timestamp gpfs_nsdds_bytes_written
"""


def program(folder: Path) -> str:
    path = folder / "mmperfmon"
    path.write_text(f'#!/bin/sh\ncase "$1" in gpfs_fs*) cat {folder}/fs;; *) cat {folder}/disk;; esac\n')
    path.chmod(0o755)
    return str(path)


def rows(start: int, values: list[str]) -> str:
    return "".join(f"{i:3} 2024-01-01-00:{start + i:02}:00 {value}\n" for i, value in enumerate(values))


def test_each_bucket_counts_once(tmp_path: Path) -> None:
    probe = make_named_probe("gpfs", "/", "here", ProbeSettings(options=(("command", program(tmp_path)),)))
    (tmp_path / "disk").write_text(DISK + rows(0, ["5", "6"]))
    (tmp_path / "fs").write_text(FILE_SYSTEM + rows(0, ["100 1 1", "200 2 null", "999 9 9"]))
    clients, disks = probe.read(0).readings
    assert (clients.table, clients.rows) == (
        "pfs_client",
        {
            ("n1", "scratch", "gpfs"): [0, None, None, 0],
            ("n2", "scratch", "gpfs"): [0, None, None, None],
        },
    )
    assert (disks.table, disks.rows) == ("target", {("s1", "nsd1", "gpfs"): [None, 0, None, None]})
    (tmp_path / "fs").write_text(FILE_SYSTEM + rows(1, ["200 2 null", "300 3 7", "30 4 8", "999 9 9"]) + "noise\n")
    (tmp_path / "disk").write_text(DISK + rows(0, ["5", "6", "7"]))
    clients, disks = probe.read(0).readings
    # The buckets of minute 2 and 3 are over and new; minute 4 still fills.
    assert clients.rows["n1", "scratch", "gpfs"] == [330, None, None, 15]
    assert clients.rows["n2", "scratch", "gpfs"] == [7, None, None, None]
    assert disks.rows["s1", "nsd1", "gpfs"] == [None, 6, None, None]
    assert (clients.unknown, clients.unknown_example) == (1, "noise")
    again, _ = probe.read(0).readings
    assert again.rows == clients.rows


def test_no_mmperfmon_is_no_failure(tmp_path: Path) -> None:
    with pytest.raises(AbsentError):
        Performance(command=(str(tmp_path / "none"),)).read(0)
    (tmp_path / "fs").write_text("\n")
    (tmp_path / "disk").write_text("\n")
    with pytest.raises(AbsentError):
        Performance(command=(program(tmp_path),)).read(0)

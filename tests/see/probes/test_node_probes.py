"""Probes of a node's own parts: disks, adapters, jobs, room, logs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fairlead.see.probes import diskstats, infiniband, log_events, node_jobs, space
from fairlead.see.probes.base import AbsentError, Event, Service

NOW = 1_795_000_000 * 10**9  # 2026-11-18T11:06:40Z

DISKSTATS = """\
   7       0 loop0 1 0 8 0 0 0 0 0 0 4 0 0 0 0 0 0 0
   8       0 sda 2000 5 160000 900 4000 10 640000 7000 2 3000 7900 0 0 0 0 0 0
   8       1 sda1 1000 5 80000 900 4000 10 640000 7000 0 3000 7900 0 0 0 0 0 0
 259       0 nvme0n1 10 0 80 1 20 0 160 2 0 3 4
 259       1 nvme0n1p1 10 0 80 1 20 0 160 2 0 3 4
 253       0 dm-0 7 0 56 1 0 0 0 0 0 1 1 0 0 0 0 0 0
   9       0 md127 7 0 56 1 0 0 0 0 0 1 1 0 0 0 0 0 0
   8      17 sdb1 12 34
nonsense
"""


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_whole_disks_are_counted_in_bytes_and_ns(tmp_path: Path) -> None:
    """Sectors are 512 bytes whatever the disk; partitions and loop devices would count the same I/O twice."""
    _write(tmp_path / "proc/diskstats", DISKSTATS)
    _write(tmp_path / "sys/block/sda/size", "2000\n")
    reading = diskstats.Diskstats(str(tmp_path), "n1").read(NOW).readings[0]
    assert {key[1:] for key in reading.rows} == {("sda", "disk"), ("nvme0n1", "nvme"), ("dm-0", "dm"), ("md127", "md")}
    assert reading.rows["n1", "sda", "disk"] == [
        2000,
        160000 * 512,
        4000,
        640000 * 512,
        3_000_000_000,
        7_900_000_000,
        2000 * 512,
    ]
    assert reading.rows["n1", "nvme0n1", "nvme"][-1] is None, "its size is not told, and is not zero"
    assert (reading.unknown, reading.unknown_example) == (2, "   8      17 sdb1 12 34")


@pytest.mark.parametrize(
    "probe",
    [diskstats.Diskstats, infiniband.Ports, node_jobs.NodeJobs, space.Usage, space.Mounts, log_events.LogEvents],
)
def test_what_is_not_here_is_said_to_be_absent(probe: type, tmp_path: Path) -> None:
    """An empty root has none of it; that is not a failure, and no rows of zeros."""
    with pytest.raises(AbsentError):
        probe(str(tmp_path), "n1").read(NOW)


def test_adapter_ports_from_sysfs(tmp_path: Path) -> None:
    """Data counters count words of four bytes; a counter a virtual function lacks is null."""
    port = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    _write(port / "rate", "100 Gb/sec (4X EDR)\n")
    for name, value in {
        "port_xmit_data": "250",
        "port_rcv_data": "1000",
        "port_xmit_packets": "7",
        "symbol_error": "2",
        "link_downed": "1",
        "port_rcv_packets": "N/A (no PMA)",
    }.items():
        _write(port / "counters" / name, value + "\n")
    rows = infiniband.Ports(str(tmp_path), "n1").read(NOW).readings[0].rows
    assert rows == {("n1", "mlx5_0/1", None): [1000, 4000, 7, None, None, 3, 12.5e9]}


def test_jobs_of_a_node_come_and_go(tmp_path: Path) -> None:
    """Version 1 and 2 of control groups, Slurm and PBS; a job that ends is told again with its end."""
    for place in (
        "sys/fs/cgroup/memory/slurm/uid_1000/job_41/step_0",
        "sys/fs/cgroup/cpuset/slurm/uid_1000/job_41",
        "sys/fs/cgroup/system.slice/slurmstepd.scope/job_42/step_batch",
        "sys/fs/cgroup/system.slice/sshd.service",
        "sys/fs/cgroup/pbs_jobs.service/jobid/43.server1",
        "sys/fs/cgroup/slurm_n1/uid_7/job_44",
    ):
        (tmp_path / place).mkdir(parents=True)
    probe = node_jobs.NodeJobs(str(tmp_path), "n1")
    first = probe.read(NOW).served
    assert {(row.a, row.b, row.kind, row.to_ns) for row in first} == {
        (job, "n1", "job_node", None) for job in ("41", "42", "43", "44")
    }
    assert all(row.from_ns <= NOW for row in first)
    assert probe.read(NOW + 1).served == []
    (tmp_path / "sys/fs/cgroup/slurm_n1/uid_7/job_44").rmdir()
    began = next(row.from_ns for row in first if row.a == "44")
    assert probe.read(NOW + 2).served == [Service(began, NOW + 2, "job_node", "44", "n1")]


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("12:memory:/slurm/uid_1000/job_41/step_0/task_0\n", "41"),
        ("0::/system.slice/slurmstepd.scope/job_42/step_batch/user/task_0\n", "42"),
        ("0::/system.slice/slurmstepd.scope/job_42", "42"),
        ("4:memory:/pbs_jobs.service/jobid/43[7].server1\n", "43[7]"),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", None),
    ],
)
def test_job_of_a_process(text: str, job: str | None) -> None:
    """From /proc/PID/cgroup."""
    assert node_jobs.parse_node_job(text) == job


def test_usage_and_limits_of_lustre(tmp_path: Path) -> None:
    """What each owner holds on a target and may hold in the file system; without a limit it is null, not 0."""
    _write(
        tmp_path / "proc/fs/lustre/osd-ldiskfs/scratch-OST0001/quota_slave/acct_user",
        "usr_accounting:\n- id:      0\n  usage:   { inodes:                  211, kbytes:                 1234 }\n"
        "- id:      4000000\n  usage:   { inodes: 7, kbytes: 8 }\n- id: 5\n  usage: { inodes: 0, kbytes: 0 }\n?\n",
    )
    for pool, hard in (("dt-0x0", 2048), ("md-0x0", 100)):
        _write(
            tmp_path / f"sys/kernel/debug/lustre/qmt/scratch-QMT0000/{pool}/glb-usr",
            "global_pool0_dt_usr\n- id:      0\n  limits:  { hard: 0, soft: 0, granted: 0, time: 604800 }\n"
            f"- id:      4000000\n  limits:  {{ hard: {hard:>20}, soft: 0, granted: 12, time: 0, edquot: 0 }}\n",
        )
    held, limits = space.Usage(str(tmp_path), "oss1").read(NOW).readings
    assert held.rows["scratch", "scratch-OST0001", "user", "root"] == [1234 * 1024, 211]
    assert held.rows["scratch", "scratch-OST0001", "user", "4000000"] == [8192, 7]
    assert len(held.rows) == 2
    assert held.unknown == 1
    assert limits.rows == {("scratch", None, "user", "4000000"): [2048 * 1024, 100]}


def test_mounts_that_hold_data_are_asked_once() -> None:
    """A device mounted twice is one file system; network file systems are their servers' business."""
    text = (
        "/dev/sda1 / ext4 rw 0 0\n/dev/sda1 /again ext4 rw 0 0\nproc /proc proc rw 0 0\n"
        "oss1@tcp:/scratch /scratch lustre rw 0 0\n/dev/sdb1 /with\\040space xfs rw 0 0\ntmpfs /run tmpfs rw 0 0\n"
        "tmpfs /dev/shm tmpfs rw 0 0\n"
    )
    assert space.parse_space_mounts(text) == [
        ("/dev/sda1", "/", "ext4"),
        ("/dev/sdb1", "/with space", "xfs"),
        ("tmpfs", "/dev/shm", "tmpfs"),
    ]


def test_room_of_local_file_systems(tmp_path: Path) -> None:
    """Named by node and folder, in bytes and inodes."""
    _write(tmp_path / "proc/mounts", "/dev/sda1 / ext4 rw 0 0\n/dev/gone /gone ext4 rw 0 0\n")
    rows = space.Mounts(str(tmp_path), "n1").read(NOW).readings[0].rows
    (key, (capacity, used, _, _)), *rest = rows.items()
    assert key == ("n1", "n1:/", "statvfs")
    assert not rest, "a mount that cannot be asked is left out"
    assert capacity >= used > 0


LOG = [
    (
        "LustreError: 167-0: scratch-OST0003-osc-ffff8810: This client was evicted by scratch-OST0003; in progress ops",
        "evicted",
        "scratch-OST0003",
    ),
    (
        "Lustre: scratch-OST0003: haven't heard from client 4f (at 10.0.0.7@o2ib) in 227 seconds, and I am evicting it",
        "client_evicted",
        "scratch-OST0003",
    ),
    (
        "Lustre: scratch-MDT0000-mdc-ffff88: Connection to scratch-MDT0000 (at 10.0.0.1@o2ib) was lost; in progress",
        "disconnected",
        "scratch-MDT0000",
    ),
    (
        "Lustre: scratch-MDT0000-mdc-ffff88: Connection restored to 10.0.0.1@o2ib (at 10.0.0.1@o2ib)",
        "reconnected",
        "scratch-MDT0000",
    ),
    ("Lustre: scratch-OST0001: slow setattr 41s", "slow_storage", "scratch-OST0001"),
    ("md: recovery of RAID array md127", "raid_rebuild", "n1:md127"),
    ("md: md127: recovery done.", "raid_rebuilt", "n1:md127"),
    ("smartd[811]: Device: /dev/sdc [SAT], 8 Currently unreadable (pending) sectors", "disk_smart", "n1:sdc"),
    ("blk_update_request: I/O error, dev sdd, sector 123 op 0x0:(READ)", "disk_error", "n1:sdd"),
    ("nvme nvme1: I/O 12 QID 4 timeout, aborting", "disk_timeout", "n1:nvme1"),
    ("EXT4-fs error (device sda1): ext4_lookup:1590: inode #2: comm ls: deleted inode", "fs_error", "n1:sda1"),
]


@pytest.mark.parametrize(("line", "kind", "component"), LOG, ids=[f"{n}-{kind}" for n, (_, kind, _) in enumerate(LOG)])
def test_lines_of_a_log_mean_something(line: str, kind: str, component: str) -> None:
    """One event each, about the right component, at the line's own time."""
    events = log_events.find_log_events([f"2026-11-18T11:00:00.5+00:00 n1 kernel: [1.5] {line}"], "n1", NOW)
    assert [(e.kind, e.component) for e in events] == [(kind, component)]
    assert events[0].ts_ns == NOW - 400 * 10**9 + 500_000_000


def test_ordinary_lines_mean_nothing() -> None:
    """Most of a log."""
    lines = [
        "Nov 18 11:00:00 n1 systemd[1]: Started Session 3 of user root.",
        "",
        "kernel: Lustre: Mounted scratch-client",
    ]
    assert log_events.find_log_events(lines, "n1", NOW) == []


def test_times_of_old_syslog_are_of_the_last_year() -> None:
    """They name no year: one that would be ahead of now was last year's. A time far ahead is not believed."""
    stamp = time.strftime("%b %e %H:%M:%S ", time.localtime(NOW // 10**9 - 60))
    assert log_events.find_log_line_time(stamp + "n1 kernel: x", NOW) == NOW - 60 * 10**9
    ahead = time.strftime("%b %e %H:%M:%S ", time.localtime(NOW // 10**9 + 30 * 86400))
    assert NOW - 366 * 86400 * 10**9 < log_events.find_log_line_time(ahead + "n1 kernel: x", NOW) < NOW
    assert log_events.find_log_line_time("2099-01-01T00:00:00Z x", NOW) == NOW
    assert log_events.find_log_line_time("no time at all", NOW) == NOW


def test_a_log_is_followed_through_rotation_and_half_lines(tmp_path: Path) -> None:
    """Only what came since the last look, whole lines only, whatever logrotate does."""
    log = tmp_path / "var/log/messages"
    _write(log, "kernel: md: recovery of RAID array md1\n")
    probe = log_events.LogEvents(str(tmp_path), "n1")
    assert probe.read(NOW).events == []
    with log.open("a") as out:
        out.write("kernel: md: recovery of RAID array md2\nkernel: md: recovery of RA")
    assert [e.component for e in probe.read(NOW).events] == ["n1:md2"]
    with log.open("a") as out:
        out.write("ID array md3\n")
    assert [e.component for e in probe.read(NOW).events] == ["n1:md3"]
    log.rename(log.with_suffix(".1"))
    _write(log, "kernel: md: md2: recovery done.\n")
    kinds = [(e.kind, e.component, e.end_ns) for e in probe.read(NOW + 5).events]
    assert kinds == [("raid_rebuilt", "n1:md2", None), ("raid_rebuild", "n1:md2", NOW + 5)], (
        "and the rebuild has its end"
    )


def test_a_flood_of_events_is_bounded_and_counted() -> None:
    """A dying disk writes thousands of lines a second."""
    events = log_events.find_log_events(["I/O error, dev sdd"] * 2000, "n1", NOW)
    assert len(events) == log_events.MAX_EVENTS + 1
    assert (events[-1].kind, events[-1].text) == ("log_flood", "1500 more events in one reading of the log")


def test_maintenance_windows(tmp_path: Path) -> None:
    """Told once, told again when they change; a file that may be executed is run."""
    first = "2026-11-20T08:00Z 2026-11-20T12:00+01:00 scratch-OST0003 replacing a disk\n"
    text = f"# planned\n{first}2026-11-21T08:00Z - mds1\nx y\n"
    events, unknown, example = log_events.parse_maintenance_events(text)
    assert events[0] == Event(
        1_795_161_600 * 10**9, "scratch-OST0003", "maintenance", "replacing a disk", 1_795_172_400 * 10**9
    )
    assert (events[1].component, events[1].end_ns, unknown, example) == ("mds1", None, 1, "x y")
    script = tmp_path / log_events.MAINTENANCE
    _write(script, "#!/bin/sh\necho 2026-11-20T08:00Z 2026-11-20T12:00Z oss7 power\n")
    script.chmod(0o755)
    probe = log_events.LogEvents(str(tmp_path), "n1")
    assert [e.component for e in probe.read(NOW).events] == ["oss7"]
    assert probe.read(NOW).events == []

"""Checks of what watching takes: an old enough Python for the agent, counters it may read, ports and a service manager.

Not here: Slurm and control groups as such (`site`), file systems (`storage`), what the agent itself finds
(`fairlead agent run --check`).
"""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path

from fairlead.run.doctor.check import Check
from fairlead.run.doctor.install_commands import build_install_command
from fairlead.run.doctor.machine import Machine, read_machine_file

_AREA = "monitoring"
_OLDEST = (3, 6)
_PYTHONS = ("python3", "platform-python", "python3.6", "python3.9", "python3.11", "python3.12")
_LUSTRE = {
    "client": ("llite/*/stats", "llite/*/rpc_stats", "osc/*/stats"),
    "OSS": ("obdfilter/*/stats", "obdfilter/*/job_stats"),
    "MDS": ("mdt/*/md_stats", "mdt/*/job_stats"),
}
"""Counters by what a node with them is."""
_JOBS_OF_CGROUPS = (
    "fs/cgroup/system.slice/slurmstepd.scope",
    "fs/cgroup/system.slice/*slurmstepd.scope",
    "fs/cgroup/cpuset/slurm",
    "fs/cgroup/memory/slurm",
    "fs/cgroup/freezer/slurm",
)
PORTS = {8571: "batches (collector.listen)", 8572: "questions (api.listen)"}
_LISTENS = "0A"
_JSON_SINCE = (21, 8)
"""`squeue --json` came with Slurm 21.08."""


def check_monitoring(machine: Machine) -> list[Check]:
    """The agent's Python, disks, Lustre's counters, jobs of processes, Slurm's feed, the server's ports, systemd."""
    return [
        _check_agent_python(machine),
        _check_counters(machine),
        _check_lustre(machine),
        _check_jobs_here(machine),
        _check_job_feed(machine),
        _check_ports(machine),
        _check_service(machine),
    ]


def _check_agent_python(machine: Machine) -> Check:
    """Any Python from 3.6 on, found by the names distributions give it."""
    check = partial(Check, area=_AREA, name="Python for the agent", enables="fairlead-agent.pyz on this node")
    for name in _PYTHONS:
        path = machine.find_command(name) or _libexec(machine, name)
        ran = None if path is None else machine.run(path, "--version")
        found = None if ran is None else re.search(r"Python (\d+)\.(\d+)\S*", ran.text)
        if found is not None and (int(found[1]), int(found[2])) >= _OLDEST:
            return check(status="ok", found=f"{path}: {found[0]}")
    return check(
        status="missing",
        found="none from 3.6 on",
        command=build_install_command(machine, apt="python3-minimal", dnf="python3", zypper="python3"),
        hint="the agent needs no packages besides",
    )


def _libexec(machine: Machine, name: str) -> str | None:
    """EL8's own Python, which is in nobody's PATH."""
    path = machine.etc.parent / "usr/libexec" / name
    return str(path) if path.is_file() else None


def _check_counters(machine: Machine) -> Check:
    """The kernel's counters of block devices, which every node has."""
    check = partial(Check, area=_AREA, name="disk counters", enables="bytes, requests and busy time per device")
    lines = read_machine_file(machine.proc / "diskstats").splitlines()
    if lines:
        return check(status="ok", found=f"{len(lines)} devices in {machine.proc}/diskstats")
    return check(
        status="missing", found=f"no {machine.proc}/diskstats", hint="in a container: give the agent --root of the host"
    )


def _check_lustre(machine: Machine) -> Check:
    """Where a Lustre node keeps its counters, and whether this user may read them."""
    check = partial(Check, area=_AREA, name="Lustre counters", enables="load per target, job, client and operation")
    roots = [machine.proc / "fs/lustre", machine.sys / "fs/lustre", machine.sys / "kernel/debug/lustre"]
    kinds, closed = set(), set()
    for root in roots:
        for kind, patterns in _LUSTRE.items():
            for path in (path for pattern in patterns for path in _glob(root, pattern)):
                kinds.add(kind)
                if not os.access(path, os.R_OK):
                    closed.add(path.name)
    hidden = bool(machine.list_mounts("lustre")) and not os.access(machine.sys / "kernel/debug", os.X_OK)
    if not kinds and not hidden:
        return check(status="missing", found="none", hint="nothing to do on a node that is neither client nor server")
    as_root = "sudo systemctl edit fairlead-agent   # User=root"
    if closed or hidden:
        what = ", ".join(sorted(closed)) or f"all under {machine.sys}/kernel/debug"
        return check(
            status="partly",
            found=f"{_kinds(kinds)}; not readable: {what}",
            command=as_root,
            hint="as root the agent reads all; it changes nothing",
        )
    return check(status="ok", found=f"{_kinds(kinds)}; all readable")


def _glob(root: Path, pattern: str) -> list[Path]:
    """What a pattern finds; nothing where the folder may not be looked into."""
    try:
        return list(root.glob(pattern))
    except OSError:
        return []


def _kinds(kinds: set[str]) -> str:
    return " and ".join(kind for kind in _LUSTRE if kind in kinds) or "a client"


def _check_jobs_here(machine: Machine) -> Check:
    """Whether processes of jobs can be told apart on this node: by Slurm's control groups, else by environments."""
    check = partial(Check, area=_AREA, name="jobs on the node", enables="device and file system I/O by job")
    found = next((path for name in _JOBS_OF_CGROUPS for path in machine.sys.glob(name)), None)
    if found is not None:
        return check(status="ok", found=f"Slurm's control groups in {found}")
    if machine.find_command("slurmd", "slurmstepd") is not None:
        return check(
            status="partly",
            found="slurmd, but no control groups of jobs: only environments tell",
            hint="slurm.conf: ProctrackType=proctrack/cgroup",
        )
    return check(status="missing", found="no slurmd here", hint="nothing to do on a node that runs no jobs")


def _check_job_feed(machine: Machine) -> Check:
    """Where a server learns of jobs: Slurm's commands with JSON."""
    check = partial(Check, area=_AREA, name="job feed", enables="who ran what where, for `fairlead job list`")
    ran = machine.run("squeue", "--version")
    found = None if ran is None or ran.code != 0 else re.search(r"(\d+)\.(\d+)", ran.text)
    if ran is None or found is None:
        return check(
            status="missing",
            found="no squeue",
            command=build_install_command(machine, apt="slurm-client", dnf="slurm", zypper="slurm"),
            hint="only where the server runs; other schedulers: [[feeds.job_table]], a CSV",
        )
    if (int(found[1]), int(found[2])) < _JSON_SINCE:
        return check(
            status="partly",
            found=f"{ran.first_line}: no squeue --json before 21.08",
            hint="sacct alone tells of jobs when they have ended",
        )
    return check(status="ok", found=ran.first_line)


def _check_ports(machine: Machine) -> Check:
    """Whether `fairlead up` finds its ports free, as the kernel lists them."""
    check = partial(Check, area=_AREA, name="server's ports", enables="`fairlead up` on its default addresses")
    taken = sorted(_listening(machine) & PORTS.keys())
    if not taken:
        return check(status="ok", found=f"{' and '.join(map(str, PORTS))} are free")
    words = ", ".join(f"{port}: {PORTS[port]}" for port in taken)
    return check(
        status="partly",
        found=f"something listens already, a server perhaps: {words}",
        command="fairlead server status",
        hint="if it is no server of fairlead: others with --set collector.listen=... and --set api.listen=...",
    )


def _listening(machine: Machine) -> set[int]:
    """TCP ports somebody listens on."""
    rows = (
        line.split()
        for name in ("tcp", "tcp6")
        for line in read_machine_file(machine.proc / "net" / name).splitlines()[1:]
    )
    return {int(row[1].rpartition(":")[2], 16) for row in rows if len(row) > 3 and row[3] == _LISTENS}


def _check_service(machine: Machine) -> Check:
    """systemd as the first process; without it server and agent are started by something else."""
    check = partial(Check, area=_AREA, name="systemd", enables="server and agent as services: deploy/systemd/")
    first = read_machine_file(machine.proc / "1/comm").strip()
    if first == "systemd":
        release = machine.run("systemctl", "--version")
        return check(status="ok", found=release.first_line if release is not None else "runs")
    return check(
        status="missing",
        found=f"the first process is {first or 'not known'}",
        hint="both run in the foreground and end on SIGTERM: any supervisor does",
    )

"""Checks of what a site runs around its nodes: control groups, Slurm, InfiniBand."""

from __future__ import annotations

import os
from functools import partial

from fairlead.run.doctor.check import Check
from fairlead.run.doctor.install_commands import build_install_command
from fairlead.run.doctor.machine import Machine, read_machine_file

_AREA = "site"


def check_site_services(machine: Machine) -> list[Check]:
    """Control groups, Slurm's commands and REST daemon, InfiniBand."""
    return [_check_cgroups(machine), _check_slurm(machine), _check_slurmrestd(machine), _check_infiniband(machine)]


def _check_cgroups(machine: Machine) -> Check:
    """Version 2 with the io controller in a folder of our own is the full thing; version 1 needs root."""
    check = partial(
        Check,
        area=_AREA,
        name="cgroups",
        enables="limits on a service's memory and I/O; I/O of jobs told apart on one node",
    )
    second, first = machine.list_mounts("cgroup2"), machine.list_mounts("cgroup")
    if not second and not first:
        return check(status="missing", found="not mounted", command="sudo mount -t cgroup2 none /sys/fs/cgroup")
    base = machine.sys / "fs/cgroup"
    if second and not (base / "cgroup.controllers").exists():
        base = base / "unified"
    controllers = read_machine_file(base / "cgroup.controllers").split()
    own = base / _own_group(machine)
    delegated = bool(second) and os.access(own / "cgroup.procs", os.W_OK) and os.access(own, os.W_OK)
    if "io" in controllers and delegated:
        return check(status="ok", found=f"version 2 with {', '.join(controllers)}; {own} is ours")
    if "io" in controllers:
        return check(
            status="partly",
            found="version 2, but no group is delegated to this user",
            command="systemd-run --user --scope -p Delegate=yes fairlead host check",
        )
    writable = os.access(machine.sys / "fs/cgroup/blkio", os.W_OK)
    blkio = f"version 1; blkio {'writable' if writable else 'not writable'}"
    return check(
        status="partly",
        found=blkio if first else "version 2 without the io controller",
        hint="boot with systemd.unified_cgroup_hierarchy=1 for version 2",
    )


def _own_group(machine: Machine) -> str:
    """This process's version 2 group, relative to the mount; the mount itself when unknown."""
    for line in read_machine_file(machine.proc / "self/cgroup").splitlines():
        if line.startswith("0::/"):
            return line[4:]
    return "."


def _check_slurm(machine: Machine) -> Check:
    """The client commands, and whether accounting answers them."""
    check = partial(Check, area=_AREA, name="Slurm", enables="jobs, their nodes and times from accounting")
    names = ("sacct", "squeue", "sinfo")
    there = [name for name in names if machine.find_command(name)]
    lacking = [name for name in names if name not in there]
    if lacking:
        absent = f"no {', '.join(lacking)}"
        return check(
            status="partly" if there else "missing",
            found=f"{', '.join(there)}; {absent}" if there else absent,
            command=build_install_command(machine, apt="slurm-client", dnf="slurm", zypper="slurm"),
            hint="accounting exported elsewhere is read without them: sacct -P > jobs.txt",
        )
    release = machine.run("sinfo", "--version")
    label = release.first_line if release is not None and release.code == 0 and release.text else "Slurm"
    # One user's last minute: the cheapest question accounting can be asked.
    answer = machine.run("sacct", "-n", "-P", "-S", "now-1minutes", "-o", "JobID")
    if answer is None or answer.code != 0:
        reason = answer.first_line if answer is not None and answer.text else "no answer"
        return check(
            status="partly",
            found=f"{label}; accounting: {reason}",
            hint="ask the site for accounting (slurmdbd), or for an export: sacct -P > jobs.txt",
        )
    return check(status="ok", found=f"{label}; accounting answers")


def _check_slurmrestd(machine: Machine) -> Check:
    """The REST daemon's program on this machine (a daemon elsewhere needs none here)."""
    check = partial(Check, area=_AREA, name="slurmrestd", enables="accounting over HTTP")
    path = machine.find_command("slurmrestd")
    if path is not None:
        return check(status="ok", found=path)
    return check(
        status="missing",
        found="not here",
        command=build_install_command(machine, apt="slurmrestd", dnf="slurm-slurmrestd", zypper="slurm-rest"),
        hint="only where sacct cannot be used",
    )


def _check_infiniband(machine: Machine) -> Check:
    """Ports of this node's adapters; perfquery for those of switches."""
    check = partial(Check, area=_AREA, name="InfiniBand", enables="bytes and errors per network port")
    ports = sorted((machine.sys / "class/infiniband").glob("*/ports/*"))
    if not ports:
        return check(status="missing", found="no adapter", hint="nothing to do on a machine without InfiniBand")
    active = [port for port in ports if "ACTIVE" in read_machine_file(port / "state")]
    found = f"{len(active)} of {len(ports)} ports active"
    if not active:
        return check(status="partly", found=found, hint="no link: cable, switch or subnet manager")
    if machine.find_command("perfquery") is None:
        package = "infiniband-diags"
        return check(
            status="partly",
            found=f"{found}; no perfquery, so no switch ports",
            command=build_install_command(machine, apt=package, dnf=package, zypper=package),
            hint=f"the package is named {package}",
        )
    return check(status="ok", found=f"{found}; perfquery")

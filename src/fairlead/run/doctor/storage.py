"""Checks of what touches storage: FUSE and its passthrough, Lustre, GlusterFS, IBM Storage Scale (GPFS)."""

from __future__ import annotations

import gzip
import os
import re
from functools import partial
from pathlib import Path

from fairlead.run.doctor.check import Check
from fairlead.run.doctor.install_commands import build_install_command
from fairlead.run.doctor.machine import Machine, read_machine_file

_AREA = "storage"
_PASSTHROUGH_KERNEL = (6, 9)
_CAP_SYS_ADMIN = 21
"""Registering a backing file for passthrough needs it (Linux, fs/fuse/backing.c)."""


def check_storage(machine: Machine) -> list[Check]:
    """FUSE, passthrough, and the parallel file systems."""
    return [
        _check_fuse(machine),
        _check_passthrough(machine),
        _check_lustre(machine),
        _check_gluster(machine),
        _check_gpfs(machine),
    ]


def _check_fuse(machine: Machine) -> Check:
    """Whether a mount is possible: the device opens, and an ordinary user has fusermount3."""
    check = partial(Check, area=_AREA, name="FUSE", enables="mounting: forwarding, burst buffer, one tree over several")
    device = machine.dev / "fuse"
    refused = _refused(device)
    if refused is not None:
        absent = isinstance(refused, FileNotFoundError)
        sudo = "" if machine.user_id == 0 else "sudo "
        return check(
            status="missing",
            found=f"no {device}" if absent else f"{device}: {refused.strerror}",
            command=f"{sudo}modprobe fuse" if absent else f"{sudo}chmod 666 {device}",
            hint="a container gets it with --device /dev/fuse",
        )
    helper = machine.find_command("fusermount3")
    if helper is None:
        return check(
            status="partly" if machine.user_id == 0 else "missing",
            found=f"{device} opens; no fusermount3, so only root can mount",
            command=build_install_command(machine, apt="fuse3", dnf="fuse3", zypper="fuse3"),
            hint="the package is named fuse3",
        )
    return check(status="ok", found=f"{device} opens; {helper}")


def _refused(device: Path) -> OSError | None:
    """None when the device can be opened for reading and writing. Opening /dev/fuse has no effect by itself."""
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return error
    return None


def _check_passthrough(machine: Machine) -> Check:
    """Whether reads and writes of a mount can go to the backing file inside the kernel."""
    check = partial(Check, area=_AREA, name="FUSE passthrough", enables="mounts at the speed of the file system below")
    kernel = f"kernel {machine.kernel}"
    release = _release(machine.kernel)
    if release is not None and release < _PASSTHROUGH_KERNEL:
        return check(status="missing", found=f"{kernel} is older than 6.9", hint="boot a kernel 6.9 or newer")
    option = _kernel_option(machine, "CONFIG_FUSE_PASSTHROUGH")
    if option == "n":
        return check(
            status="missing",
            found=f"{kernel} was built without CONFIG_FUSE_PASSTHROUGH",
            hint="boot a kernel built with CONFIG_FUSE_PASSTHROUGH=y",
        )
    doubts = []
    if option is None:
        doubts.append("its configuration is not readable")
    if not _may_administer(machine):
        doubts.append("this process lacks CAP_SYS_ADMIN, which it needs")
    if doubts:
        return check(status="partly", found="; ".join([kernel, *doubts]), hint="mount as root, or without passthrough")
    return check(status="ok", found=f"{kernel}, built with it; CAP_SYS_ADMIN held")


def _release(text: str) -> tuple[int, int] | None:
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def _kernel_option(machine: Machine, name: str) -> str | None:
    """`y`, `m` or `n`; None when no configuration of the running kernel can be read."""
    text = _gunzipped(machine.proc / "config.gz") or read_machine_file(machine.boot / f"config-{machine.kernel}")
    if not text:
        return None
    match = re.search(rf"^{name}=([ym])$", text, re.MULTILINE)
    return match[1] if match else "n"


def _gunzipped(path: Path) -> str:
    try:
        with gzip.open(path, "rb") as file:
            return file.read(4 << 20).decode("utf-8", "replace")
    except (OSError, EOFError):
        return ""


def _may_administer(machine: Machine) -> bool:
    match = re.search(r"^CapEff:\s*([0-9a-fA-F]+)$", read_machine_file(machine.proc / "self/status"), re.MULTILINE)
    return bool(match and int(match[1], 16) >> _CAP_SYS_ADMIN & 1)


def _check_lustre(machine: Machine) -> Check:
    """Lustre mounts and the client's tools."""
    mounted = [mount.point for mount in machine.list_mounts("lustre")]
    tools = [name for name in ("lfs", "lctl") if machine.find_command(name)]
    release = read_machine_file(machine.sys / "fs/lustre/version").strip()
    return _file_system(
        name="Lustre",
        found=[*_listed("mounted at", mounted), *_listed("tools", tools), *([f"version {release}"] if release else [])],
        complete=bool(mounted and len(tools) == 2),
        enables="client, target and metadata counters; striping and pools in plans",
        command=build_install_command(machine, dnf="lustre-client", zypper="lustre-client"),
        hint="lfs and lctl come with the Lustre client built for the running kernel",
    )


def _check_gluster(machine: Machine) -> Check:
    """GlusterFS mounts and its command line."""
    mounted = [mount.point for mount in machine.list_mounts("fuse.glusterfs")]
    tools = [name for name in ("gluster", "glusterfs") if machine.find_command(name)]
    return _file_system(
        name="GlusterFS",
        found=[*_listed("mounted at", mounted), *_listed("tools", tools)],
        complete="gluster" in tools,
        enables="per-brick profiles",
        command=build_install_command(machine, apt="glusterfs-cli", dnf="glusterfs-cli", zypper="glusterfs"),
        hint="volume profiles are read on a server of the volume",
    )


def _check_gpfs(machine: Machine) -> Check:
    """IBM Storage Scale mounts and its performance tools."""
    mounted = [mount.point for mount in machine.list_mounts("gpfs")]
    tools = [name for name in ("mmperfmon", "mmpmon", "mmlsfs") if machine.find_command(name)]
    return _file_system(
        name="GPFS",
        found=[*_listed("mounted at", mounted), *_listed("tools", tools)],
        complete=bool(mounted) and "mmperfmon" in tools,
        enables="client and server counters",
        command=None,
        hint="mmperfmon comes with the gpfs.base and gpfs.gss.pmcollector packages of the site's Storage Scale",
    )


def _listed(label: str, words: list[str]) -> list[str]:
    return [f"{label} {', '.join(words)}"] if words else []


def _file_system(*, name: str, found: list[str], complete: bool, enables: str, command: str | None, hint: str) -> Check:
    """A file system that a site has or has not; not having it is no fault, and then nothing needs doing."""
    check = partial(Check, area=_AREA, name=name, enables=enables)
    if complete:
        return check(status="ok", found="; ".join(found))
    return check(
        status="partly" if found else "missing",
        found="; ".join(found) or "neither mounted nor its tools found",
        command=command,
        hint=hint,
    )

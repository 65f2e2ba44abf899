"""Checks of the core: Python, the packages every command needs, processors, memory."""

from __future__ import annotations

import os
import sys
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from fairlead.core.model.unit_formats import format_bytes
from fairlead.run.doctor.check import Check
from fairlead.run.doctor.install_commands import build_pip_install_command
from fairlead.run.doctor.machine import Machine, read_machine_file

_CORE = {
    "numpy": "numpy",
    "pyarrow": "pyarrow",
    "numba": "numba",
    "pywt": "pywavelets",
    "duckdb": "duckdb",
    "deltalake": "deltalake",
}
"""Module → distribution of what the package depends on and loads compiled code for."""
_LITTLE_MEMORY = 2 << 30
_NO_LIMIT = 1 << 60
"""cgroup v1 writes "no limit" as a number near 2^63."""


def check_compute(machine: Machine) -> list[Check]:
    """Python, packages, processors, memory."""
    return [_python(), _packages(machine), _processors(machine), _memory(machine)]


def _python() -> Check:
    found = sys.version.split()[0]
    return Check(
        area="core",
        name="Python",
        status="ok" if sys.version_info >= (3, 11) else "missing",
        found=f"{found} ({sys.executable})",
        enables="everything; 3.11 or newer",
        hint=None if sys.version_info >= (3, 11) else "run fairlead with Python 3.11 or newer",
    )


def _packages(machine: Machine) -> Check:
    broken: list[str] = []
    found: list[str] = []
    wanted: list[str] = []
    for module, package in _CORE.items():
        try:
            machine.load(module)
            found.append(f"{package} {version(package)}")
        except (ImportError, OSError, PackageNotFoundError) as error:
            # OSError: a wheel whose shared library this system cannot load.
            broken.append(f"{package}: {error}")
            wanted.append(package)
    return Check(
        area="core",
        name="packages",
        status="missing" if broken else "ok",
        found="; ".join(broken) if broken else ", ".join(found),
        enables="reading traces, analysis, the lake",
        command=build_pip_install_command(*wanted, again=True),
    )


def _processors(machine: Machine) -> Check:
    try:
        mine = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # no Linux
        mine = os.cpu_count() or 1
    info = read_machine_file(machine.proc / "cpuinfo")
    present = sum(line.startswith("processor") for line in info.splitlines())
    model = next((line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")), "")
    share = f"{mine} of {present} usable" if present > mine else f"{mine}"
    return Check(
        area="core",
        name="processors",
        status="ok",
        found=f"{share}, {model}" if model else share,
        enables="many logs at a time; one is enough for a report",
    )


def _memory(machine: Machine) -> Check:
    check = partial(Check, area="core", name="memory", enables="larger logs in one go; 2 GiB are plenty for most")
    fields = dict(
        line.split(":", 1) for line in read_machine_file(machine.proc / "meminfo").splitlines() if ":" in line
    )
    total = _kib(fields.get("MemTotal"))
    if total is None:
        return check(status="partly", found="not known", hint=f"{machine.proc}/meminfo cannot be read")
    limit = _limit(machine)
    size = min(total, limit) if limit is not None else total
    free = _kib(fields.get("MemAvailable"))
    text = format_bytes(size)
    if limit is not None and limit < total:
        text += f" allowed of {format_bytes(total)}"
    if free is not None:
        text += f", {format_bytes(min(free, size))} free"
    if size < _LITTLE_MEMORY:
        return check(status="partly", found=text, hint="run on a node or in an allocation with 2 GiB or more")
    return check(status="ok", found=text)


def _kib(text: str | None) -> int | None:
    number = (text or "").split()
    return int(number[0]) << 10 if number and number[0].isdigit() else None


def _limit(machine: Machine) -> int | None:
    """The memory limit of this process's cgroup (v2, then v1) in bytes; None when there is none."""
    limits: list[int] = []
    for line in read_machine_file(machine.proc / "self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2) if line.count(":") >= 2 else ("", "", "/")
        inside = path.lstrip("/")
        if controllers == "":
            files = [machine.sys / "fs/cgroup" / inside / "memory.max"]
        elif "memory" in controllers.split(","):
            # In a container the path may be the host's while only the container's own folder is mounted.
            base = machine.sys / "fs/cgroup/memory"
            files = [base / inside / "memory.limit_in_bytes", base / "memory.limit_in_bytes"]
        else:
            continue
        for file in files:
            text = read_machine_file(file).strip()
            if text.isdigit() and int(text) < _NO_LIMIT:
                limits.append(int(text))
    return min(limits, default=None)

"""The command that installs what a check found missing, on this distribution or for this Python."""

from __future__ import annotations

import re
import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires

from fairlead.run.doctor.machine import Machine

_FAMILIES: dict[str, tuple[frozenset[str], str]] = {
    "apt": (frozenset({"debian", "ubuntu"}), "apt-get install"),
    "dnf": (frozenset({"rhel", "fedora", "centos", "rocky", "almalinux"}), "dnf install"),
    "zypper": (frozenset({"suse", "sles", "opensuse", "opensuse-leap"}), "zypper install"),
}


def build_install_command(machine: Machine, **packages: str) -> str | None:
    """The package command of this distribution; `packages` maps apt, dnf, zypper to package names.

    None when the distribution is unknown or has no such package.
    """
    distribution = machine.read_distribution()
    for family, (names, command) in _FAMILIES.items():
        if names & distribution and family in packages:
            sudo = "" if machine.user_id == 0 else "sudo "
            return f"{sudo}{command} {packages[family]}"
    return None


def build_pip_install_command(*requirements: str, again: bool = False) -> str | None:
    """The pip command for this very Python; `again` reinstalls. None when there is nothing to install."""
    if not requirements:
        return None
    return shlex.join(
        [sys.executable, "-m", "pip", "install", *(["--force-reinstall"] if again else []), *requirements]
    )


def list_install_requirements(extra: str) -> list[str]:
    """Requirements an extra of fairlead adds, such as `darshan>=3.4.5`."""
    try:
        lines = requires("fairlead") or []
    except PackageNotFoundError:
        return []
    marked = re.compile(rf"""\bextra\s*==\s*['"]{re.escape(extra)}['"]""")
    return [line.partition(";")[0].strip() for line in lines if marked.search(line.partition(";")[2])]

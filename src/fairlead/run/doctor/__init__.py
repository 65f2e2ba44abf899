"""What this machine can do for fairlead, and the one command that gets what it lacks. Only looks, changes nothing.

Not here: how it is shown (`fairlead.cli.doctor`).
"""

from __future__ import annotations

from fairlead.run.doctor import compute, monitoring, plugins, site, storage, tools
from fairlead.run.doctor.check import Check
from fairlead.run.doctor.machine import Machine

__all__ = ["Check", "Machine", "does_doctor_pass", "run_doctor_checks"]


def run_doctor_checks(machine: Machine) -> list[Check]:
    """Every check, in the order people read them. Takes at most a few seconds: commands it runs are cut off."""
    areas = (compute, storage, site, monitoring, tools, plugins)
    return [check for area in areas for check in area.checks(machine)]


def does_doctor_pass(checks: list[Check]) -> bool:
    """Whether the core works here: everything in the area `core` is at least partly there."""
    return all(check.status != "missing" for check in checks if check.area == "core")

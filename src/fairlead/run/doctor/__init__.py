"""What this machine can do for fairlead, and the one command that gets what it lacks. Only looks, changes nothing.

Not here: how it is shown (`fairlead.cli.host`).
"""

from __future__ import annotations

from fairlead.run.doctor.check import Check
from fairlead.run.doctor.compute import check_compute
from fairlead.run.doctor.machine import Machine
from fairlead.run.doctor.monitoring import check_monitoring
from fairlead.run.doctor.plugins import check_plugins
from fairlead.run.doctor.site import check_site_services
from fairlead.run.doctor.storage import check_storage
from fairlead.run.doctor.tools import check_tools

__all__ = ["Check", "Machine", "does_doctor_pass", "run_doctor_checks"]


def run_doctor_checks(machine: Machine) -> list[Check]:
    """Every check, in the order people read them. Takes at most a few seconds: commands it runs are cut off."""
    areas = (check_compute, check_storage, check_site_services, check_monitoring, check_tools, check_plugins)
    return [check for check_area in areas for check in check_area(machine)]


def does_doctor_pass(checks: list[Check]) -> bool:
    """Whether the core works here: everything in the area `core` is at least partly there."""
    return all(check.status != "missing" for check in checks if check.area == "core")

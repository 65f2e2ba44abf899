"""Plug-ins that are installed: whether each loads, and whose defect it is when one does not."""

from __future__ import annotations

from fairlead.core.errors import PluginError
from fairlead.core.extensions import KINDS, OWN, describe_extension_package, find_extensions, load_extension
from fairlead.run.doctor.check import Check
from fairlead.run.doctor.machine import Machine

_AREA = "plug-ins"


def check_plugins(machine: Machine) -> list[Check]:  # noqa: ARG001
    """One check a plug-in, none where only fairlead's own entry points are installed."""
    return [
        _check(group, kind, name)
        for group, kind in KINDS.items()
        for name, entry in sorted(find_extensions(group).items())
        if not entry.value.startswith(f"{OWN}.")
    ]


def _check(group: str, kind: str, name: str) -> Check:
    package = describe_extension_package(find_extensions(group)[name])
    enables = f"the {kind} {name} of this site"
    try:
        load_extension(group, name)
    except PluginError as fault:
        return Check(
            area=_AREA, name=f"{kind} {name}", status="missing", found=fault.what, enables=enables, hint=fault.remedy
        )
    return Check(area=_AREA, name=f"{kind} {name}", status="ok", found=f"package {package}", enables=enables)

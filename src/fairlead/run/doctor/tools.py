"""Checks of what records traces and of optional parts: Darshan, DFTracer, extras of the package, a browser."""

from __future__ import annotations

import sys
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from fairlead.run.doctor.check import Check
from fairlead.run.doctor.install_commands import (
    build_install_command,
    build_pip_install_command,
    list_install_requirements,
)
from fairlead.run.doctor.machine import Machine

_AREA = "tools"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Names under which distributions install a Chromium that can run without a screen."""


def check_tools(machine: Machine) -> list[Check]:
    """Recorders of traces, extras, browser."""
    return [
        _check_darshan_runtime(machine),
        _check_dftracer(),
        check_tools_extra("darshan", ("darshan",), "comparing totals with PyDarshan"),
        check_tools_extra("heavy", ("dask", "distributed"), "re-analysing months on several processes or nodes"),
        _check_browser(machine),
    ]


def _check_darshan_runtime(machine: Machine) -> Check:
    """libdarshan, which records logs; reading them needs nothing but fairlead."""
    check = partial(Check, area=_AREA, name="Darshan", enables="recording new logs; reading them needs nothing")
    preloaded = machine.environment.get("LD_PRELOAD", "").replace(":", " ").split()
    found = next((f"preloaded: {library}" for library in preloaded if "libdarshan" in library), None)
    if found is None:
        folders = machine.environment.get("LD_LIBRARY_PATH", "").split(":")
        libraries = (Path(folder) / "libdarshan.so" for folder in folders if folder)
        found = next(
            (str(library) for library in libraries if library.exists()), machine.find_command("darshan-config")
        )
    if found is not None:
        return check(status="ok", found=found)
    modules = "MODULEPATH" in machine.environment
    return check(
        status="missing",
        found="no libdarshan preloaded, on LD_LIBRARY_PATH or through darshan-config",
        command="module load darshan" if modules else "spack install darshan-runtime",
        hint="many centres load it for every job: ask where the logs go",
    )


def _check_dftracer() -> Check:
    """The DFTracer recorder of Python and AI workloads."""
    check = partial(
        Check,
        area=_AREA,
        name="DFTracer",
        enables="recording Python and AI workloads; reading traces needs nothing",
    )
    found = _version("dftracer") or _version("pydftracer")
    if found is not None:
        return check(status="ok", found=found)
    return check(status="missing", found="not installed", command=build_pip_install_command("dftracer"))


def check_tools_extra(name: str, modules: tuple[str, ...], enables: str) -> Check:
    """An extra of the package: all of its modules are there, or the command that installs it."""
    check = partial(Check, area=_AREA, name=f"extra: {name}", enables=enables)
    lacking = [module for module in modules if find_spec(module) is None]
    if not lacking:
        return check(status="ok", found=", ".join(f"{module} {_version(module) or ''}".strip() for module in modules))
    return check(
        status="partly" if len(lacking) < len(modules) else "missing",
        found=f"no {', '.join(lacking)}",
        command=build_pip_install_command(*list_install_requirements(name)),
        hint=f"the same as fairlead[{name}]",
    )


def _check_browser(machine: Machine) -> Check:
    """A Chromium: only the project's own browser tests use it."""
    check = partial(Check, area=_AREA, name="Chromium", enables="the project's own browser tests")
    path = machine.find_command(*BROWSERS)
    if path is not None:
        return check(status="ok", found=path)
    hint = None
    command = build_install_command(machine, apt="chromium", dnf="chromium", zypper="chromium")
    if "ubuntu" in machine.read_distribution():
        # Ubuntu's package is a snap, which neither containers nor batch nodes can start.
        command = f"{sys.executable} -m playwright install --with-deps chromium"
    elif command is None:
        hint = "the package is named chromium"
    return check(status="missing", found=f"none of {', '.join(BROWSERS)}", command=command, hint=hint)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None

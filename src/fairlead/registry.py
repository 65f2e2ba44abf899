"""Built-ins by name in explicit tables, imported lazily; site plug-ins through entry points. Nothing registers itself."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairlead.sources.base import Source

SOURCES: dict[str, str] = {
    "darshan": "fairlead.sources.darshan:DarshanSource",
    "dftracer": "fairlead.sources.dftracer:DFTracerSource",
    "slurm": "fairlead.sources.slurm:SlurmSource",
    "beacon": "fairlead.sources.beacon:BeaconSource",
}
"""Tried in this order when content is detected: the most specific magic first."""


def _load(target: str) -> object:
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def sources() -> dict[str, Source]:
    """All sources by name, built-ins first, then entry points of `fairlead.sources`."""
    found: dict[str, Source] = {name: _load(target)() for name, target in SOURCES.items()}  # type: ignore[operator]
    for entry in entry_points(group="fairlead.sources"):
        found.setdefault(entry.name, entry.load()())
    return found

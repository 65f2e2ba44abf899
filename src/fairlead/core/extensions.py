"""Extension points: built-ins by `module:name`, and what a site adds through entry points, imported when asked for."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points


def load_object(target: str) -> object:
    """The object named `module:name`; its module is imported now."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


@cache
def find_extensions(group: str) -> dict[str, EntryPoint]:
    """Entry points of a group (`fairlead.sources`, `fairlead.policies`, `fairlead.trees`, ...) by name, not loaded."""
    return {entry.name: entry for entry in entry_points(group=group)}

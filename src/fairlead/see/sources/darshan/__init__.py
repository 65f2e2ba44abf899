"""Darshan logs, 3.0 to 3.5, read without libdarshan."""

from __future__ import annotations

from fairlead.see.sources.darshan.container import ModuleInfo
from fairlead.see.sources.darshan.source import DarshanLog, DarshanSource, read_darshan_source

__all__ = ["DarshanLog", "DarshanSource", "ModuleInfo", "read_darshan_source"]

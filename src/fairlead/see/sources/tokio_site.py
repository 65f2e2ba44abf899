"""pytokio's `site.json`: which mount point is which file system, and what its storage system is called.

Names only, no records: what reads an archive of pytokio's uses it to name things as the site does.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from fairlead.core.errors import ConfigError


class TokioSite(msgspec.Struct, frozen=True, kw_only=True):
    """What is used of the file; the rest of its settings are places of files."""

    lmt_timestep: int | None = None
    """Seconds between two samples of LMT."""
    mount_to_fsname: dict[str, str] = {}
    fsname_to_backend_name: dict[str, str] = {}
    mmperfmon_lun_map: dict[str, str] = {}
    mmperfmon_server_map: dict[str, str] = {}

    def find_fs(self, path: str) -> str | None:
        """The file system a path lies on: the longest pattern that matches counts. None: no pattern does."""
        found = [
            (match.end(), name)
            for pattern, name in self.mount_to_fsname.items()
            if (match := re.match(pattern, path)) is not None
        ]
        return max(found)[1] if found else None

    def find_backend(self, fs: str) -> str | None:
        """What Lustre calls the file system (`snx11025`), as LMT and target names do."""
        return self.fsname_to_backend_name.get(fs)

    def find_disk_role(self, disk: str) -> str | None:
        """`datatarget` or `mdtarget` for an NSD disk of GPFS."""
        return next((role for pattern, role in self.mmperfmon_lun_map.items() if re.match(pattern, disk)), None)


def read_tokio_site(path: Path) -> TokioSite:
    """The site a file describes. Raises ConfigError."""
    try:
        given: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        site = msgspec.convert(given, TokioSite)
        for pattern in (*site.mount_to_fsname, *site.mmperfmon_lun_map, *site.mmperfmon_server_map):
            re.compile(pattern)
    except (OSError, msgspec.MsgspecError, re.error) as fault:
        raise ConfigError(f"not a pytokio site file ({fault})", where=str(path), remedy="check it") from fault
    return site

"""Room on file systems, and who takes it. Rows of `target` (space) and `usage`.

Local file systems by statvfs; what each user, group and project holds on a Lustre target, and may hold, by its own
accounts. Fullness of Lustre's targets is read with their counters (`lustre`), not here.
"""

import glob
import os
import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

from fairlead.see.probes.base import AbsentError, Key, Probe, ProbeResult, Reading

KEYS = ("fs", "target", "owner_kind", "owner")
ACCOUNTS = ("acct_user", "acct_group", "acct_project")
_ID = re.compile(r"-\s+id:\s+(\S+)\Z")
_USAGE = re.compile(r"usage:\s*\{\s*inodes:\s*(\d+),\s*kbytes:\s*(\d+)\s*\}\Z")
_LIMITS = re.compile(r"limits:\s*\{\s*hard:\s*(\d+),\s*soft:\s*(\d+),\s*granted:\s*\d+(?:,\s*\w+:\s*\d+)*\s*\}\Z")
LOCAL_TYPES = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "tmpfs")
"""File systems a node has for itself. Network file systems are asked once at their servers, not by every client."""
LIMITS = (("dt-0x0", "limit_bytes", 1024), ("md-0x0", "inodes_limit", 1))
"""Pools of a quota master: its folder, the column its hard limit is, its unit."""
OWNERS = {"glb-usr": "user", "glb-grp": "group", "glb-prj": "project"}


def _parse_accounting(text: str) -> Tuple[Dict[str, Tuple[int, int]], int, str]:
    """(inodes, bytes) by id in a target's `acct_*`, lines not understood, and one of these."""
    found: Dict[str, Tuple[int, int]] = {}
    owner: Optional[str] = None
    unknown, example = 0, ""
    for line in text.splitlines():
        line = line.strip()
        name, usage = _ID.match(line), _USAGE.match(line)
        if name:
            owner = name.group(1)
        elif usage and owner is not None:
            found[owner] = (int(usage.group(1)), int(usage.group(2)) * 1024)
        elif line and not line.endswith("_accounting:"):
            unknown += 1
            example = example or line[:80]
    return found, unknown, example


def _parse_limits(text: str) -> Dict[str, Tuple[int, int]]:
    """(hard, soft) by id in a quota master's `glb-*`, in its own unit (KiB of space, or inodes); 0 is no limit."""
    found: Dict[str, Tuple[int, int]] = {}
    owner: Optional[str] = None
    for line in text.splitlines():
        name, limits = _ID.match(line.strip()), _LIMITS.match(line.strip())
        if name:
            owner = name.group(1)
        elif limits and owner is not None:
            found[owner] = (int(limits.group(1)), int(limits.group(2)))
    return found


class Usage(Probe):
    """`usage` rows: what each user, group and project holds on every Lustre target of this server, and may hold."""

    name = "usage"
    period_s = 600.0
    timeout_s = 60.0

    def read(self, now_ns: int) -> ProbeResult:  # noqa: ARG002
        """Raises AbsentError where no target keeps accounts, OSError."""
        places = ("proc/fs/lustre", "sys/kernel/debug/lustre", "sys/fs/lustre")
        rows: Dict[Key, Sequence[Any]] = {}
        unknown, example, seen = 0, "", False
        for place in places:
            for path in sorted(glob.glob(os.path.join(self.root, place, "osd-*/*/quota_slave/acct_*"))):
                kind = os.path.basename(path)
                if kind not in ACCOUNTS:
                    continue
                with open(path, encoding="ascii", errors="replace") as file:
                    accounts, strange, one = _parse_accounting(file.read())
                unknown, example, seen = unknown + strange, example or one, True
                target = os.path.basename(os.path.dirname(os.path.dirname(path)))
                for owner, (inodes, size) in accounts.items():
                    if inodes or size:
                        key = (target.partition("-")[0], target, kind[5:], _named(kind, owner))
                        rows[key] = [size, inodes]
        limits = self._limits(places)
        if not seen and not limits:
            raise AbsentError("no quota accounting of a Lustre target on this node (osd-*/*/quota_slave/acct_user)")
        return ProbeResult(
            [
                Reading("usage", KEYS, (), ("used_bytes", "inodes_used"), rows, None, unknown, example),
                Reading("usage", KEYS, (), ("limit_bytes", "inodes_limit"), limits),
            ]
        )

    def _limits(self, places: Sequence[str]) -> Dict[Key, Sequence[Any]]:
        """Hard limits by (fs, no target, kind, owner): bytes and inodes, None where there is none."""
        found: Dict[Key, List[Optional[int]]] = {}
        for place in places:
            for pool, column, unit in LIMITS:
                for path in sorted(glob.glob(os.path.join(self.root, place, "qmt", "*", pool, "glb-*"))):
                    kind = OWNERS.get(os.path.basename(path))
                    if kind is None:
                        continue
                    fs = os.path.basename(os.path.dirname(os.path.dirname(path))).partition("-")[0]
                    with open(path, encoding="ascii", errors="replace") as file:
                        limits = _parse_limits(file.read())
                    for owner, (hard, _) in limits.items():
                        if hard:
                            row = found.setdefault((fs, None, kind, _named("acct_" + kind, owner)), [None, None])
                            row[0 if column == "limit_bytes" else 1] = hard * unit
        return dict(found)


def _named(kind: str, owner: str) -> str:
    """The name of a user or group where this node knows it, else the number."""
    try:
        if kind == "acct_user":
            import pwd

            return pwd.getpwuid(int(owner)).pw_name
        if kind == "acct_group":
            import grp

            return grp.getgrgid(int(owner)).gr_name
    except (KeyError, ValueError, OverflowError):
        pass
    return owner


def parse_space_mounts(text: str) -> List[Tuple[str, str, str]]:
    """(device, folder, type) of the file systems in /proc/mounts that hold data, each device once."""
    found: Dict[str, Tuple[str, str, str]] = {}
    for line in text.splitlines():
        words = line.split(" ")
        if len(words) >= 3 and words[2] in LOCAL_TYPES and (words[2] != "tmpfs" or words[1] in ("/tmp", "/dev/shm")):  # noqa: S108
            folder = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal.group(1), 8)), words[1])
            key = words[0] if words[2] != "tmpfs" else folder
            found.setdefault(key, (words[0], folder, words[2]))
    return list(found.values())


class Mounts(Probe):
    """`target` rows (space only) of this node's own file systems: `NODE:/folder`."""

    name = "space"
    period_s = 60.0

    def read(self, now_ns: int) -> ProbeResult:  # noqa: ARG002
        """Raises AbsentError without /proc/mounts, OSError. A file system that cannot be asked is left out."""
        try:
            with open(os.path.join(self.root, "proc/mounts"), encoding="utf-8", errors="surrogateescape") as file:
                known = parse_space_mounts(file.read())
        except FileNotFoundError:
            raise AbsentError("no /proc/mounts on this node") from None
        rows: Dict[Key, Sequence[Any]] = {}
        for _, folder, _ in known:
            try:
                found = os.statvfs(os.path.join(self.root, folder.lstrip("/")))
            except OSError:
                continue
            size = found.f_frsize or found.f_bsize
            rows[(self.node, "{}:{}".format(self.node, folder), "statvfs")] = [
                found.f_blocks * size,
                (found.f_blocks - found.f_bfree) * size,
                found.f_files or None,
                (found.f_files - found.f_ffree) if found.f_files else None,
            ]
        gauges = ("capacity_bytes", "used_bytes", "inodes", "inodes_used")
        return ProbeResult([Reading("target", ("server", "target", "source"), (), gauges, rows)])

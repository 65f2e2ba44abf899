"""Block devices of a node, node-local NVMe among them: /proc/diskstats. Rows of `device`.

Partitions, loop, RAM and optical devices are left out: their I/O is that of the disk below, or none of storage. Stacked
devices (md, dm) are kept and say so in `kind`, so that nobody adds them to the disks they stand on.
"""

import os
import re
from typing import Any, Dict, Optional, Sequence, Tuple

from fairlead.see.probes.base import AbsentError, Key, Probe, ProbeResult, Reading

SECTOR_BYTES = 512
"""/proc/diskstats counts in 512 bytes whatever the device's own sector (kernel: Documentation/admin-guide/iostats)."""
_MS_NS = 1000000
_LEFT_OUT = re.compile(r"(?:loop|ram|zram|sr|fd|nbd|mtdblock)\d+\Z")
_PARTITION = re.compile(r"(?:(?:sd|vd|hd|xvd)[a-z]+\d+|(?:nvme\d+n\d+|mmcblk\d+|md\d+|pmem\d+)p\d+)\Z")
COUNTERS = ("read_ops", "read_bytes", "write_ops", "write_bytes", "busy_ns", "queue_ns")


def _parse_diskstats(text: str) -> Tuple[Dict[str, Tuple[int, ...]], int, str]:
    """Values of `COUNTERS` by device, lines not understood, and one of these."""
    found: Dict[str, Tuple[int, ...]] = {}
    unknown, example = 0, ""
    for line in text.splitlines():
        words = line.split()
        if not words:
            continue
        try:
            name = words[2]
            n = [int(words[at]) for at in range(3, 14)]
        except (ValueError, IndexError):
            unknown += 1
            example = example or line[:80]
            continue
        found[name] = (n[0], n[2] * SECTOR_BYTES, n[4], n[6] * SECTOR_BYTES, n[9] * _MS_NS, n[10] * _MS_NS)
    return found, unknown, example


def _classify_device(name: str) -> Optional[str]:
    """nvme, disk, md, dm or pmem by the kernel's name; None for what is left out."""
    if _LEFT_OUT.match(name) or _PARTITION.match(name):
        return None
    for kind in ("nvme", "md", "dm", "pmem"):
        if name.startswith(kind):
            return kind
    return "disk"


class Diskstats(Probe):
    """`device` rows of every whole block device."""

    name = "disks"

    def read(self, now_ns: int) -> ProbeResult:  # noqa: ARG002
        """Raises AbsentError where there is no /proc/diskstats, OSError."""
        try:
            with open(os.path.join(self.root, "proc/diskstats"), encoding="ascii", errors="replace") as file:
                devices, unknown, example = _parse_diskstats(file.read())
        except FileNotFoundError:
            raise AbsentError("no /proc/diskstats: not a Linux node, or /proc is not mounted") from None
        rows: Dict[Key, Sequence[Any]] = {}
        for name, values in devices.items():
            kind = _classify_device(name)
            if kind is not None:
                rows[(self.node, name, kind)] = [*values, self._size(name)]
        reading = Reading(
            "device",
            ("node", "device", "kind"),
            COUNTERS,
            ("capacity_bytes",),
            rows,
            unknown=unknown,
            unknown_example=example,
        )
        return ProbeResult([reading])

    def _size(self, name: str) -> Optional[int]:
        try:
            with open(os.path.join(self.root, "sys/block", name.replace("/", "!"), "size")) as file:
                return int(file.read()) * SECTOR_BYTES
        except (OSError, ValueError):
            return None

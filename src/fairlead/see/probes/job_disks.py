"""What each job does at the disks of its node, from its control group: cgroup v2 `io.stat`, v1 `blkio`. `device` rows.

Not here: whole disks (`diskstats`), which jobs run (`node_jobs`). Writes that go through the page cache are counted
when they reach the disk: with version 2 for the group that wrote, with version 1 for the root (so only direct and
synchronous writes are a job's there). With version 1, Linux 6.10 and later count at disks that have had a limit only.
"""

import os
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from fairlead.see.probes.base import AbsentError, Key, Probe, ProbeResult, Reading

COUNTERS = ("read_bytes", "write_bytes", "read_ops", "write_ops")
PLACES: Tuple[Tuple[str, str], ...] = (
    ("sys/fs/cgroup/system.slice", r"(?:\w+_)?slurmstepd\.scope/job_(\d+)"),
    ("sys/fs/cgroup", r"slurm(?:_\w+)?/uid_\d+/job_(\d+)"),
    ("sys/fs/cgroup/pbs_jobs.service/jobid", r"(\d+(?:\[\d+\])?)\..+"),
    ("sys/fs/cgroup/blkio", r"slurm(?:_\w+)?/uid_\d+/job_(\d+)"),
    ("sys/fs/cgroup/blkio/pbs_jobs.service/jobid", r"(\d+(?:\[\d+\])?)\..+"),
)
"""Where Slurm and PBS make a job's group; the last two are version 1, which needs the controller `blkio`."""
_V1_BYTES = ("blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_service_bytes")
_V1_OPS = ("blkio.throttle.io_serviced_recursive", "blkio.throttle.io_serviced")
_DEVICE = re.compile(r"\d+:\d+\Z")


class DeviceIo(NamedTuple):
    """Values of COUNTERS at one device (major:minor)."""

    read_bytes: int
    write_bytes: int
    read_ops: int
    write_ops: int


def parse_io_stat(text: str) -> Dict[str, DeviceIo]:
    """`io.stat` of cgroup v2: `MAJ:MIN rbytes=N wbytes=N rios=N wios=N dbytes=N dios=N`. A device without numbers (its
    group did nothing) is left out."""
    found = {}
    for line in text.splitlines():
        device, _, rest = line.partition(" ")
        told = dict(word.partition("=")[::2] for word in rest.split())
        try:
            values = [int(told[name]) for name in ("rbytes", "wbytes", "rios", "wios")]
        except (KeyError, ValueError):
            continue
        if _DEVICE.match(device):
            found[device] = DeviceIo(*values)
    return found


def parse_blkio(texts: Sequence[str]) -> Dict[str, DeviceIo]:
    """`io_service_bytes` and `io_serviced` of cgroup v1: `MAJ:MIN Read N`, `MAJ:MIN Write N` and others."""
    found: Dict[str, List[int]] = {}
    for first, text in zip((0, 2), texts):
        for line in text.splitlines():
            words = line.split()
            if len(words) == 3 and words[1] in ("Read", "Write") and _DEVICE.match(words[0]) and words[2].isdigit():
                found.setdefault(words[0], [0] * 4)[first + (words[1] == "Write")] = int(words[2])
    return {device: DeviceIo(*values) for device, values in found.items()}


class JobDisks(Probe):
    """One row a job and device: bytes and I/Os of the job's group and all below it. Parts of what `disks` counts."""

    name = "job_disks"
    period_s = 5.0

    def __init__(self, root: str = "/", node: str = "") -> None:
        super().__init__(root, node)
        self._names: Dict[str, Optional[str]] = {}

    def read(self, now_ns: int) -> ProbeResult:  # noqa: ARG002
        """Raises AbsentError where no control group counts I/O, OSError."""
        if not self._counts():
            raise AbsentError(
                "no control group counts I/O here: enable the io controller (IOAccounting=yes for slurmd's unit, or"
                " ConstrainDevices with cgroup v1 blkio)"
            )
        groups: Dict[str, List[str]] = {}
        for place, pattern in PLACES:
            steps = [re.compile(step + r"\Z") for step in pattern.split("/")]
            _find_groups(os.path.join(self.root, place), steps, groups)
        rows: Dict[Key, Sequence[Any]] = {}
        for job, folders in groups.items():
            for folder in folders:
                for device, io in _read_group(folder).items():
                    name = self._find_name(device)
                    if name is not None and any(io):
                        before = rows.get((job, name)) or [0] * len(COUNTERS)
                        rows[(job, name)] = [a + b for a, b in zip(before, io)]
        constant = (("node", self.node or None), ("kind", "job"))
        reading = Reading("device", ("job_id", "device"), COUNTERS, (), rows, constant=constant, born_at_zero=True)
        return ProbeResult([reading])

    def _counts(self) -> bool:
        """Whether a hierarchy with the controller is mounted."""
        cgroup = os.path.join(self.root, "sys/fs/cgroup")
        try:
            with open(os.path.join(cgroup, "cgroup.controllers"), encoding="ascii") as file:
                if "io" in file.read().split():
                    return True
        except OSError:
            pass
        return os.path.exists(os.path.join(cgroup, "blkio", _V1_BYTES[0])) or os.path.exists(
            os.path.join(cgroup, "blkio", _V1_BYTES[1])
        )

    def _find_name(self, device: str) -> Optional[str]:
        """The kernel's name of a device by its numbers; None for one that is not a whole disk."""
        if device not in self._names:
            place = os.path.join(self.root, "sys/dev/block", device)
            name: Optional[str] = None
            if not os.path.exists(os.path.join(place, "partition")):
                try:
                    name = os.path.basename(os.readlink(place)).replace("!", "/")
                except OSError:
                    name = device
            self._names[device] = name
        return self._names[device]


def _find_groups(folder: str, steps: "List[re.Pattern[str]]", found: Dict[str, List[str]]) -> None:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                match = steps[0].match(entry.name)
                if match is None or not entry.is_dir(follow_symlinks=False):
                    continue
                if len(steps) > 1:
                    _find_groups(entry.path, steps[1:], found)
                else:
                    found.setdefault(match.group(1), []).append(entry.path)
    except OSError:  # gone meanwhile, or not of this version
        return


def _read_group(folder: str) -> Dict[str, DeviceIo]:
    text = _read_first(folder, ("io.stat",))
    if text is not None:
        return parse_io_stat(text)
    return parse_blkio([_read_first(folder, names) or "" for names in (_V1_BYTES, _V1_OPS)])


def _read_first(folder: str, names: Sequence[str]) -> Optional[str]:
    """The first of these files that is there."""
    for name in names:
        try:
            with open(os.path.join(folder, name), encoding="ascii", errors="replace") as file:
                return file.read()
        except OSError:
            continue
    return None

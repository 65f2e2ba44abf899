"""Which jobs run on this node, from the control groups the scheduler made (version 1 and 2). Rows of `mapping`.

It needs no scheduler command and no root, and knows a job a few seconds after it began. Not here: whose request a
single process makes (the mount asks by process), what a job is (the job feed).
"""

import os
import re
from typing import Dict, List, Optional, Tuple

from fairlead.see.probes.base import AbsentError, Probe, ProbeResult, Service

KIND = "job_node"
PLACES: Tuple[Tuple[str, str], ...] = (
    ("sys/fs/cgroup/system.slice", r"(?:\w+_)?slurmstepd\.scope/job_(\d+)"),
    ("sys/fs/cgroup", r"slurm(?:_\w+)?/uid_\d+/job_(\d+)"),
    ("sys/fs/cgroup/memory", r"slurm(?:_\w+)?/uid_\d+/job_(\d+)"),
    ("sys/fs/cgroup/cpuset", r"slurm(?:_\w+)?/uid_\d+/job_(\d+)"),
    ("sys/fs/cgroup/freezer", r"slurm(?:_\w+)?/uid_\d+/job_(\d+)"),
    ("sys/fs/cgroup/pbs_jobs.service/jobid", r"(\d+(?:\[\d+\])?)\..+"),
    ("sys/fs/cgroup/memory/pbs_jobs.service/jobid", r"(\d+(?:\[\d+\])?)\..+"),
)
"""Where Slurm and PBS make a group for a job: a folder, and the folders below it, the job's number in the group."""
_DEPTH = 3


def _list_jobs(folder: str, pattern: str) -> Dict[str, int]:
    """Jobs whose groups lie below `folder`, with the time (ns) of their group."""
    found: Dict[str, int] = {}
    steps = pattern.split("/")
    _walk(folder, [re.compile(step + r"\Z") for step in steps], found)
    return found


def _walk(folder: str, steps: "List[re.Pattern[str]]", found: Dict[str, int]) -> None:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                match = steps[0].match(entry.name)
                if match is None or not entry.is_dir(follow_symlinks=False):
                    continue
                if len(steps) > 1:
                    _walk(entry.path, steps[1:], found)
                else:
                    found[match.group(1)] = int(entry.stat(follow_symlinks=False).st_mtime * 1e9)
    except OSError:  # gone meanwhile, or not of this version
        return


class NodeJobs(Probe):
    """One row of `mapping` (kind `job_node`) when a job is first seen; again, with its end, when its group is gone."""

    name = "jobs"
    period_s = 1.0

    def __init__(self, root: str = "/", node: str = "") -> None:
        super().__init__(root, node)
        self._running: Dict[str, int] = {}

    def read(self, now_ns: int) -> ProbeResult:
        """Raises AbsentError on a node without control groups."""
        if not os.path.isdir(os.path.join(self.root, "sys/fs/cgroup")):
            raise AbsentError("no /sys/fs/cgroup on this node")
        found: Dict[str, int] = {}
        for place, pattern in PLACES:
            found.update(_list_jobs(os.path.join(self.root, place), pattern))
        served: List[Service] = []
        for job, made_ns in found.items():
            if job not in self._running:
                self._running[job] = min(made_ns, now_ns)
                served.append(self._row(job, None))
        for job in sorted(set(self._running) - set(found)):
            served.append(self._row(job, now_ns))
            del self._running[job]
        return ProbeResult([], (), served)

    def _row(self, job: str, to_ns: Optional[int]) -> Service:
        return Service(self._running[job], to_ns, KIND, job, self.node)


def parse_node_job(text: str) -> Optional[str]:
    """The job of a process, from its /proc/PID/cgroup (version 1 or 2); None when it is in none."""
    slurm = re.search(r"/job_(\d+)(?:/|\s|\Z)", text)
    if slurm:
        return slurm.group(1)
    pbs = re.search(r"/pbs_jobs\.service/jobid/(\d+(?:\[\d+\])?)", text)
    return pbs.group(1) if pbs else None

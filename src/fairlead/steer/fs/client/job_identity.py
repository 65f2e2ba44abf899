"""Whose request it is: the job, rank and user of the process that asks, from its environment and cgroup.

What is found is kept by process; a process seen within the last second costs one look into a dict.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections.abc import Mapping, Sequence

from fairlead.steer.fs.wire.handshake import Identity, JobSource

JOB_VARIABLES = ("FAIRLEAD_JOB_ID", "SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "JOB_ID")
"""Environment variables that hold a job's id, the first that is set counts."""
RANK_VARIABLES = (
    "FAIRLEAD_RANK",
    "SLURM_PROCID",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "PALS_RANKID",
    "FLUX_TASK_RANK",
    "PBS_TASKNUM",
)
"""Environment variables that hold a process's rank."""
CLUSTER_VARIABLE = "SLURM_CLUSTER_NAME"
SLURM_CONFIGURATIONS = (
    "/etc/slurm/slurm.conf",
    "/run/slurm/conf/slurm.conf",
    "/var/spool/slurmd/conf-cache/slurm.conf",
)
"""Where a node's slurmd has its configuration, kept by the site or fetched from the controller."""
_CLUSTER_LINE = re.compile(r"^\s*ClusterName\s*=\s*([^\s#]+)", re.I | re.M)
_SLURM_CGROUP = re.compile(
    rb"^(?:0::(?:/\.\.)*(?:/system\.slice)?/(?:[\w.-]+_)?slurmstepd\.scope/job_(\d+)"
    rb"|\d+:[^:\n]*:(?:/\.\.)*/slurm(?:_[\w.-]+)?/uid_\d+/job_(\d+))(?:/|$)",
    re.MULTILINE,
)
"""Slurm's own cgroups (v2, v1), from the root: a user may name a cgroup below his own session as he likes."""
JOB_CLAIMS = "/run/fairlead/jobs"
"""Where a prolog puts what it has signed, a file for each job; only root may write there."""
_MAX_CLAIM = 4096
_MAX_INDEX = 4000
"""A forwarder takes 4096 jobs on a connection."""
_MAX_PROCESSES = 16_384
_FRESH_NS = 1_000_000_000


def find_job_identity(environment: Mapping[bytes, bytes], cgroup: bytes) -> tuple[str, int, JobSource]:
    """Job id ("" for none), rank (-1 for none), and where the id is from. Invariant: the cgroup, which a user cannot
    change, goes before anything in the environment."""
    job, source = "", JobSource.ENVIRONMENT
    found = _SLURM_CGROUP.search(cgroup)
    if found is not None:
        job, source = (found[1] or found[2]).decode(), JobSource.CGROUP
    else:
        for name in JOB_VARIABLES:
            value = environment.get(name.encode())
            if value:
                job = value.decode(errors="replace")
                if name == "LSB_JOBID":
                    job = _array_element(job, environment.get(b"LSB_JOBINDEX", b"0"))
                break
    rank = -1
    for name in RANK_VARIABLES:
        value = environment.get(name.encode())
        if value is not None and value.isdigit():
            rank = int(value)
            break
    return job, rank, source


def find_job_cluster(environment: Mapping[bytes, bytes]) -> str:
    """The cluster a job's number is of, as Slurm told the process; "" where it did not."""
    return environment.get(CLUSTER_VARIABLE.encode(), b"").decode(errors="replace")


def read_node_cluster(paths: Sequence[str] = SLURM_CONFIGURATIONS) -> str:
    """The cluster this node is of, from `SLURM_CLUSTER_NAME` or `ClusterName` of its slurm.conf; "" where neither is
    there."""
    named = os.environ.get(CLUSTER_VARIABLE, "")
    chosen = os.environ.get("SLURM_CONF", "")
    for path in () if named else (chosen, *paths) if chosen else paths:
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                found = _CLUSTER_LINE.search(stream.read())
        except OSError:
            continue
        if found is not None:
            return found.group(1)
    return named


def _array_element(job: str, index: bytes) -> str:
    return job if index in (b"", b"0") else f"{job}[{index.decode(errors='replace')}]"


def parse_job_environment(text: bytes) -> dict[bytes, bytes]:
    """/proc/PID/environ as a mapping."""
    pairs = (entry.partition(b"=") for entry in text.split(b"\0") if entry)
    return {name: value for name, _, value in pairs}


def parse_job_start_time(stat: bytes) -> int:
    """When the process started, in clock ticks since boot, from /proc/PID/stat; 0 when it cannot be read."""
    fields = stat[stat.rfind(b")") + 2 :].split()
    return int(fields[19]) if len(fields) > 19 else 0


def _open_claim(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)


def _is_open_to_others(status: os.stat_result) -> bool:
    return status.st_uid != 0 or bool(status.st_mode & 0o022)


class Jobs:
    """Index of the job of each process. Index 0: no job is known."""

    def __init__(
        self,
        *,
        job: str = "",
        node: str = "",
        cluster: str = "",
        proc: str = "/proc",
        claims: str = JOB_CLAIMS,
        all_environments: bool = False,
    ) -> None:
        """`all_environments`: believe also what processes of other users have in theirs."""
        self._claims = claims
        self._all_environments = all_environments
        self._own_uid = os.geteuid()
        self._fallback = job
        self._node = node or socket.gethostname()
        self._cluster = cluster
        self._proc = proc
        self.known: dict[int, tuple[int, int, int, bool]] = {}
        """By process: index, until when (ns) it holds unasked, start of the process, whether it is sure."""
        self._indexes: dict[tuple[str, str, int, int], int] = {}
        self.identities: dict[int, Identity] = {}
        """What each index stands for, to be announced on every new connection."""
        self.unannounced: list[int] = []
        """Indexes that came up since the caller emptied this list."""
        self._users: dict[int, str] = {}

    def find(self, pid: int, uid: int, now_ns: int) -> int:
        """The index of a process's job (the slow way: the caller looks into `known` first)."""
        started = parse_job_start_time(self._read(pid, "stat")) if pid > 0 else 0
        hit = self.known.get(pid)
        if hit is not None and hit[2] == started and hit[3]:
            self.known[pid] = (hit[0], now_ns + _FRESH_NS, started, True)
            return hit[0]
        job, rank, source, cluster = "", -1, JobSource.ENVIRONMENT, ""
        if pid > 0:
            environment = parse_job_environment(self._read(pid, "environ"))
            job, rank, source = find_job_identity(environment, self._read(pid, "cgroup"))
            cluster = find_job_cluster(environment)
        proof = self._read_claim(job) if job else ""
        if not self._all_environments and uid not in (0, self._own_uid):
            # Another user's process says what it likes: only what the kernel or a prolog says of it counts.
            cluster = ""
            if source == JobSource.ENVIRONMENT and not proof:
                job = ""
        if source == JobSource.CGROUP:
            cluster = self._cluster or cluster
        sure = bool(job)
        if not job:
            job, source = self._fallback, JobSource.OPTION
        index = self._index(job, cluster or self._cluster, rank, uid, source, proof) if job else 0
        if len(self.known) >= _MAX_PROCESSES:
            self.known.clear()
        # Without a job the process may still become one: a launcher forks first and sets the environment at exec.
        self.known[pid] = (index, now_ns + _FRESH_NS, started, sure)
        return index

    def _read_claim(self, job: str) -> str:
        """What a prolog has signed of a job; empty where there is nothing, or not only root could have put it there."""
        try:
            if _is_open_to_others(os.stat(self._claims)):
                return ""
            with open(f"{self._claims}/{job.replace('/', '_')}", encoding="ascii", opener=_open_claim) as file:
                return "" if _is_open_to_others(os.fstat(file.fileno())) else file.read(_MAX_CLAIM).strip()
        except (OSError, ValueError):
            return ""

    def _index(self, job: str, cluster: str, rank: int, uid: int, source: JobSource, proof: str) -> int:
        key = (job, cluster, rank, uid)
        index = self._indexes.get(key)
        if index is None:
            if len(self._indexes) >= _MAX_INDEX:
                self._indexes.clear()
                self.known.clear()
            index = len(self._indexes) + 1
            self._indexes[key] = index
            self.identities[index] = Identity(
                job_id=job,
                user=self._user(uid),
                uid=uid,
                node=self._node,
                rank=rank,
                cluster=cluster,
                source=source,
                proof=proof,
            )
            self.unannounced.append(index)
        return index

    def _user(self, uid: int) -> str:
        name = self._users.get(uid)
        if name is None:
            try:
                name = pwd.getpwuid(uid).pw_name
            except KeyError:
                name = str(uid)
            self._users[uid] = name
        return name

    def _read(self, pid: int, name: str) -> bytes:
        """A file of the process; empty when it has ended or is another user's."""
        try:
            descriptor = os.open(f"{self._proc}/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            parts = []
            while part := os.read(descriptor, 1 << 16):
                parts.append(part)
            return b"".join(parts)
        except OSError:
            return b""
        finally:
            os.close(descriptor)

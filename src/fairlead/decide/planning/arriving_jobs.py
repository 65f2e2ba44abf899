"""Arriving jobs from outside: a file of JSON, or one from options of a command. Bounded and checked, field by field.

Not here: what is expected of them (`expectations`).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from fairlead.core.errors import InputError, OversizeError, UsageError
from fairlead.decide.planning.expectations import Arriving

MOST_BYTES = 64 << 20
MOST_JOBS = 10_000
MOST_NODES = 1 << 20
"""Nodes a job has at most."""
_Count = Annotated[int, msgspec.Meta(ge=1, le=MOST_NODES)]
_Processes = Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]
_Word = Annotated[str, msgspec.Meta(max_length=4096)]


class ArrivingJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job as a file says it. `nodes`: a host list or a list of names; `node_count` where they are not known yet."""

    job_id: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    user: _Word = ""
    program: _Word = ""
    node_count: _Count | None = None
    nodes: str | list[_Word] = ""
    cores: Annotated[float, msgspec.Meta(ge=0, le=1e12)] = 0.0
    processes: _Processes | None = None


def read_arriving_jobs(content: bytes, where: str) -> list[Arriving]:
    """Jobs of a JSON list (or one object). Raises InputError naming the field, OversizeError."""
    if len(content) > MOST_BYTES:
        raise OversizeError(f"longer than {MOST_BYTES >> 20} MiB", where=where, remedy="plan fewer jobs at once")
    remedy = 'write [{"job_id": "4711", "user": "ada", "program": "cast", "node_count": 64}]'
    try:
        found = msgspec.json.decode(content, type=list[ArrivingJob] | ArrivingJob, strict=True)
    except RecursionError as fault:
        raise InputError("nested too deeply", where=where, remedy=remedy) from fault
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise InputError(f"not a job file: {fault}", where=where, remedy=remedy) from fault
    jobs = found if isinstance(found, list) else [found]
    if len(jobs) > MOST_JOBS:
        raise OversizeError(f"{len(jobs)} jobs", where=where, remedy=f"plan at most {MOST_JOBS} at once")
    if not jobs:
        raise InputError("no job in it", where=where, remedy=remedy)
    made = [resolve_arriving_nodes(job, f"{where}[{at}]") for at, job in enumerate(jobs)]
    numbers = [job.job_id for job in made]
    if len(set(numbers)) != len(numbers):
        twice = next(one for one in numbers if numbers.count(one) > 1)
        raise InputError(f"job {twice!r} twice", where=where, remedy="name each job once")
    return made


def resolve_arriving_nodes(job: ArrivingJob, where: str) -> Arriving:
    """A job with its nodes by name. Raises UsageError naming the field."""
    nodes = _names(job.nodes, f"{where}.nodes") if isinstance(job.nodes, str) else list(job.nodes)
    if len(nodes) > MOST_NODES:
        raise UsageError(f"{len(nodes)} nodes", where=f"{where}.nodes", remedy=f"a job has at most {MOST_NODES}")
    if len(set(nodes)) != len(nodes) or not all(nodes):
        raise UsageError("a node is named twice, or has no name", where=f"{where}.nodes", remedy="name each node once")
    if nodes and job.node_count is not None and job.node_count != len(nodes):
        raise UsageError(
            f"{job.node_count} nodes, and {len(nodes)} are named", where=f"{where}.node_count", remedy="leave one out"
        )
    return Arriving(
        job_id=job.job_id,
        user=job.user,
        program=job.program,
        node_count=len(nodes) or job.node_count or 1,
        nodes=tuple(nodes),
        cores=job.cores,
        processes=job.processes,
    )


def _names(text: str, where: str) -> list[str]:
    from fairlead.see.sources.slurm.hostlist import expand_hostlist

    if not text:
        return []
    try:
        return expand_hostlist(text)
    except ValueError as fault:
        raise UsageError(str(fault), where=where, remedy="write n[001-512] or a,b,c") from fault

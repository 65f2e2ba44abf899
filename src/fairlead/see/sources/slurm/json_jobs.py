"""Jobs of `sacct --json`, `squeue --json` and slurmrestd (all versions since 0.0.35), and of sacct rows kept as JSON.

Versions differ in how they write a number (`5` or `{"set": true, "infinite": false, "number": 5}`), a state (`"X"` or
`["X"]`) and where a field stands. A document is decoded whole while it is small, else job by job.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from fairlead.core.errors import CorruptInputError
from fairlead.see.sources.line_blocks import read_block_chunks
from fairlead.see.sources.node_lists import NodeLists
from fairlead.see.sources.slurm.fields import STATES, Reading
from fairlead.see.sources.slurm.job_columns import build_job_column_batches, build_number_column, build_text_job_columns

JOBS = re.compile(r'"jobs"\s*:\s*\[')
_WHOLE_BYTES = 64 << 20
_LONGEST_JOB = 64 << 20
_BATCH_JOBS = 4096
_SPACE = re.compile(r"[\s,]*")


class _Step(msgspec.Struct):
    """What is used of a step. `step.id` is `0`, `"batch"`, `"57.extern"` or {"step_id": ...} by version."""

    tasks: Any = None
    step: Any = None


class JobJson(msgspec.Struct):
    """What is used of a job: first the fields of the accounting database, then of the controller."""

    job_id: Any = None
    cluster: Any = None
    user: Any = None
    association: Any = None
    account: Any = None
    name: Any = None
    partition: Any = None
    nodes: Any = None
    allocation_nodes: Any = None
    time: Any = None
    state: Any = None
    tres: Any = None
    steps: list[_Step] | None = None

    user_name: Any = None
    submit_time: Any = None
    start_time: Any = None
    end_time: Any = None
    job_state: Any = None
    node_count: Any = None
    cpus: Any = None
    tasks: Any = None
    job_resources: Any = None


class _Document(msgspec.Struct):
    jobs: list[JobJson]


def parse_json_number(value: Any) -> int | None:
    """A number however it is written; None for unset, infinite and null."""
    if isinstance(value, dict):
        if value.get("infinite") or not value.get("set", True):
            return None
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return int(value)
    except (ValueError, OverflowError):
        return None


def read_json_jobs(path: Path, nodes: NodeLists, reading: Reading) -> Iterator[pa.RecordBatch]:
    """Batches of the jobs of one document. Raises InputError, CorruptInputError."""
    pieces: list[bytes] = []
    size = 0
    chunks = read_block_chunks(path)
    for chunk in chunks:
        if isinstance(chunk, str):
            reading.faults.append(chunk)
            break
        pieces.append(chunk)
        size += len(chunk)
        if size > _WHOLE_BYTES:
            break
    else:
        document = _whole(b"".join(pieces))
        if document is not None:
            for start in range(0, len(document), _BATCH_JOBS):
                yield from _batches(document[start : start + _BATCH_JOBS], nodes, reading)
            return
    held: list[JobJson] = []
    for job in _one_by_one(chain(pieces, chunks), reading, path):
        held.append(job)
        if len(held) == _BATCH_JOBS:
            yield from _batches(held, nodes, reading)
            held = []
    yield from _batches(held, nodes, reading)


def _whole(data: bytes) -> list[JobJson] | None:
    """All jobs of a document; None when it is broken or holds a job of another shape."""
    try:
        return msgspec.json.decode(data, type=_Document).jobs
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _one_by_one(chunks: Iterable[bytes | str], reading: Reading, path: Path) -> Iterator[JobJson]:
    """Jobs in order, with no more than one of them in memory as text; faults of the document go to `reading`."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    text, at, tried, row = "", -1, 0, 0
    for chunk in chain(chunks, [None]):
        if isinstance(chunk, str):
            reading.faults.append(chunk)
            continue
        text += decode(chunk or b"", final=chunk is None)
        if at < 0:
            begin = JOBS.search(text)
            at = begin.end() if begin else at
        if at < 0 or (chunk is not None and len(text) - at < 2 * tried):
            if len(text) > _LONGEST_JOB:
                break
            continue
        values, at, ended = _values(text, at)
        for value in values:
            row += 1
            job = _typed(value)
            if job is None:
                reading.count_unreadable(row, json.dumps(value)[:60])
            else:
                yield job
        if ended:
            return
        text, at = text[at:], 0
        tried = len(text)
        if tried > _LONGEST_JOB:
            break
    if at < 0:
        raise CorruptInputError(
            "it has no list of jobs", where=str(path), remedy="write it again with sacct --json or squeue --json"
        )
    if not reading.faults:
        reading.faults.append("it ends before its list of jobs does")


def _values(text: str, at: int) -> tuple[list[Any], int, bool]:
    """Whole values from a place in a list on, the place behind them, and whether the list ends there."""
    scan = json.JSONDecoder().raw_decode
    found: list[Any] = []
    while True:
        space = _SPACE.match(text, at)
        at = space.end() if space else at
        if text.startswith("]", at):
            return found, at, True
        try:
            value, at = scan(text, at)
        except (json.JSONDecodeError, RecursionError):
            return found, at, False
        found.append(value)


def _typed(value: Any) -> JobJson | None:
    try:
        return msgspec.convert(value, JobJson)
    except msgspec.ValidationError:
        return None


def _batches(jobs: list[JobJson], nodes: NodeLists, reading: Reading) -> Iterator[pa.RecordBatch]:
    named = [job for job in jobs if parse_json_number(job.job_id)]
    if len(named) < len(jobs):
        reading.count_unreadable(1, "a job without a number", len(jobs) - len(named))
    if not named:
        return
    columns = {
        "job_id": pa.array([str(parse_json_number(job.job_id)) for job in named], pa.string()),
        **{
            name: pa.array([_text(value) for value in values], pa.string())
            for name, values in (
                ("cluster", [job.cluster for job in named]),
                ("name", [job.name for job in named]),
                ("user", [_user(job) for job in named]),
                ("project", [job.account for job in named]),
                ("partition", [job.partition for job in named]),
            )
        },
        **{
            f"{name}_ns": build_number_column([_time(job, name) for job in named])
            for name in ("submit", "start", "end")
        },
        "nodes_count": build_number_column([_count(job, "node") for job in named]),
        "cores": build_number_column([_count(job, "cpu") for job in named]),
        "processes": build_number_column([_processes(job) for job in named]),
    }
    states = pa.array([_state(job) for job in named], pa.string())
    lists = pa.array([_nodes(job) for job in named], pa.string())
    yield from build_job_column_batches(columns, states, lists, nodes, reading)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _get(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _user(job: JobJson) -> str | None:
    return _text(job.user) or _text(job.user_name) or _text(_get(job.association, "user"))


def _time(job: JobJson, name: str) -> int | None:
    seconds = parse_json_number(_get(job.time, "submission" if name == "submit" else name))
    if seconds is None:
        seconds = parse_json_number(getattr(job, f"{name}_time"))
    return seconds * 1_000_000_000 if seconds and 86_400 <= seconds <= 7_258_118_400 else None


def _count(job: JobJson, kind: str) -> int | None:
    allocated = _get(job.tres, "allocated")
    for entry in allocated if isinstance(allocated, list) else ():
        if _get(entry, "type") == kind:
            return parse_json_number(_get(entry, "count"))
    return (
        parse_json_number(job.cpus)
        if kind == "cpu"
        else parse_json_number(job.node_count) or parse_json_number(job.allocation_nodes)
    )


def _processes(job: JobJson) -> int | None:
    """Tasks of the largest step but the external one, or what the controller says."""
    tasks = [parse_json_number(_get(step.tasks, "count")) for step in job.steps or () if not _is_external(step)]
    known = [count for count in tasks if count]
    return max(known) if known else (parse_json_number(job.tasks) or None)


def _is_external(step: _Step) -> bool:
    names = (_get(step.step, "id"), _get(step.step, "name"), _get(step.step, "id", "step_id"))
    return any(isinstance(name, str) and name.rpartition(".")[2] == "extern" for name in names)


def _state(job: JobJson) -> str | None:
    current = _get(job.state, "current") or job.job_state or job.state
    if isinstance(current, list):
        known = [word for word in current if isinstance(word, str) and word.upper() in STATES]
        current = known[0] if known else None
    return _text(current)


def _nodes(job: JobJson) -> str | None:
    resources = _get(job.job_resources, "nodes")
    return _text(job.nodes) or _text(resources) or _text(_get(resources, "list"))


def read_kept_json_jobs(path: Path, nodes: NodeLists, reading: Reading) -> Iterator[pa.RecordBatch]:
    """Batches of `{"57": {"jobidraw": "57", "start": ..., "end": ..., "nodelist": [...]}, "57.0": {...}}`, sacct rows
    as some analysis tools keep them. Raises CorruptInputError."""
    pieces: list[bytes] = []
    for chunk in read_block_chunks(path):
        if isinstance(chunk, str) or sum(map(len, pieces)) > _WHOLE_BYTES:
            raise CorruptInputError(
                "its gzip data is broken" if isinstance(chunk, str) else "it is larger than 64 MiB",
                where=str(path),
                remedy="write the jobs with sacct -P",
            )
        pieces.append(chunk)
    try:
        rows = msgspec.json.decode(b"".join(pieces), type=dict[str, dict[str, Any]])
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise CorruptInputError(f"broken JSON ({fault})", where=str(path), remedy="write it again") from fault
    jobs = []
    for key, row in rows.items():
        job_id = str(row.get("jobidraw", key))
        if "." in job_id:
            continue
        listed = row.get("nodelist")
        names = ",".join(map(str, listed)) if isinstance(listed, list) else _text(listed)
        jobs.append({"job_id": job_id, "start": _text(row.get("start")), "end": _text(row.get("end")), "nodes": names})
    reading.orphan_steps += 0 if jobs else len(rows)
    if jobs:
        columns = {name: pa.array([job[name] for job in jobs], pa.string()) for name in jobs[0]}
        yield from build_text_job_columns(columns, nodes, reading)

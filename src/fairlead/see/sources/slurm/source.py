"""The Slurm source: which of Slurm's outputs a file is, its jobs, its machine's events, and what it cannot tell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from fairlead.core.errors import CorruptInputError, UnknownFormatError, UsageError
from fairlead.core.model.missing import Missing
from fairlead.see.sources.base import HEAD_BYTES, Item
from fairlead.see.sources.line_blocks import (
    BLOCK_BYTES,
    Block,
    list_block_end_gaps,
    read_block_chunks,
    read_line_blocks,
)
from fairlead.see.sources.local_time import check_local_time_zone
from fairlead.see.sources.node_lists import NodeLists
from fairlead.see.sources.slurm.accounting import Accounts, Layout, detect_accounting_layout, skip_accounting_header
from fairlead.see.sources.slurm.cluster import DOCUMENT, TEXT, build_cluster_events
from fairlead.see.sources.slurm.fields import Reading
from fairlead.see.sources.slurm.hooks import (
    HOOK,
    STAGE,
    Call,
    build_hook_jobs,
    group_hook_calls,
    parse_hook_call,
    read_hook_stages,
)
from fairlead.see.sources.slurm.hostlist import MOST_NODES, expand_hostlist
from fairlead.see.sources.slurm.json_jobs import JOBS, read_json_jobs, read_kept_json_jobs
from fairlead.see.sources.slurm.key_values import KeyValues

Form = Literal["json", "kept rows", "key values", "columns", "aligned columns", "machine", "hooks", "stages"]
_SLURM_JSON = re.compile(r'"(job_id|slurm|Slurm)"\s*:', re.IGNORECASE)
_ALIGNED = re.compile(r"\s*JobID\s.*\n\s*-{3,}", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class SlurmSource:
    """Reads jobs from sacct, squeue, scontrol, slurmrestd, job completion and hook outputs, and events of the machine
    from sinfo, slurmrestd and scontrol.

    `time_zone`: of times without an offset; None assumes UTC and says so (JSON counts seconds and needs none).
    `columns`: names of the columns of a header-less `sacct -P -n` file. `separator`: of `sacct --delimiter`.
    `most_nodes`: a job whose list names more has no nodes. Raises UsageError for an unknown zone or option.
    """

    name = "slurm"

    time_zone: str | None = None
    columns: Sequence[str] | None = None
    separator: str = "|"
    most_nodes: int = MOST_NODES
    block_bytes: int = BLOCK_BYTES

    def __post_init__(self) -> None:
        if self.time_zone is not None:
            check_local_time_zone(self.time_zone)
        if len(self.separator) != 1 or not self.separator.isascii():
            raise UsageError(f"separator is {self.separator!r}", remedy="give one ASCII character")

    def accepts(self, head: bytes, path: Path) -> bool:  # noqa: ARG002
        """Whether the content is of a form of Slurm's. Column-aligned sacct is accepted to be refused with advice."""
        return self._form(head)[0] is not None

    def _form(self, head: bytes) -> tuple[Form | None, Layout | None]:
        text = head.decode("utf-8", "replace").lstrip("\ufeff \r\n\t")
        if text.startswith("{"):
            if JOBS.search(text) and _SLURM_JSON.search(text):
                return "json", None
            if re.search(r'"jobidraw"\s*:', text):
                return "kept rows", None
            return ("machine" if DOCUMENT.search(text) and _SLURM_JSON.search(text) else None), None
        if TEXT.match(text):
            return "machine", None
        first = text.partition("\n")[0].rstrip("\r")
        if HOOK.match(first):
            return "hooks", None
        if STAGE.match(first):
            return "stages", None
        if re.match(r"JobId=\d+\s", text):
            return "key values", None
        layout = detect_accounting_layout(first, self.separator, self.columns)
        if layout is not None:
            return "columns", layout
        return ("aligned columns" if _ALIGNED.match(text) else None), None

    def read(self, path: Path) -> Iterator[Item]:
        """Jobs of one file, streamed. Of rows with one key (cluster, job_id, start) in a block the last is given.
        Raises InputError, UnknownFormatError, CorruptInputError."""
        form, layout = self._form(_head(path))
        reading = Reading(self.time_zone)
        nodes = NodeLists(lambda text: expand_hostlist(text, self.most_nodes))
        if form == "json":
            yield from read_json_jobs(path, nodes, reading)
        elif form == "kept rows":
            yield from read_kept_json_jobs(path, nodes, reading)
        elif form == "machine":
            yield from build_cluster_events(path)
            return
        elif form in ("hooks", "stages"):
            yield from _hook_items(path, form)
            return
        elif form == "key values":
            yield from self._lines(path, KeyValues(nodes, reading), reading, None)
        elif layout is not None:
            yield from self._lines(path, Accounts(layout, nodes, reading), reading, layout)
        else:
            raise _refusal(form, path)
        for gap in _gaps(reading, nodes, form):
            yield msgspec.structs.replace(gap, where=str(path))

    def _lines(
        self, path: Path, reader: Accounts | KeyValues, reading: Reading, layout: Layout | None
    ) -> Iterator[Item]:
        """Items of a file of lines. An unterminated last line is read when it is whole by its fields."""
        first = True
        for given in read_line_blocks(path, self.block_bytes):
            block = given
            if block.last and block.cut and block.fault is None:
                block = _ended(block)
            if first and layout is not None:
                block = skip_accounting_header(block, layout)
            first = False
            reading.overlong += block.overlong
            yield from reader.read_batches(block)
            if given.last:
                for gap in list_block_end_gaps(given, kept=True):
                    yield msgspec.structs.replace(gap, where=str(path))


def _hook_items(path: Path, form: Form) -> Iterator[Item]:
    """Jobs, or burst-buffer steps, of a log of hooks."""
    unknown = 0
    calls: list[Call] = []
    for block in read_line_blocks(path):
        lines = [line for line in (block.data + block.cut).decode("utf-8", "replace").split("\n") if line.strip()]
        if form == "stages":
            yield from read_hook_stages(lines)
            unknown += sum(STAGE.match(line.strip()) is None for line in lines)
            continue
        found = [parse_hook_call(line) for line in lines]
        unknown += found.count(None)
        calls += [call for call in found if call is not None]
    if calls:
        yield build_hook_jobs(group_hook_calls(calls))
    if unknown:
        yield Missing(
            kind="unreadable_lines",
            what=f"{unknown} lines",
            why="they are not from a hook",
            where=str(path),
            remedy="compare them with the reference page of this source",
        )


def _ended(block: Block) -> Block:
    """The last block with its unterminated line ended."""
    return Block(block.data + block.cut + b"\n", block.first_line, block.overlong, last=True)


def _head(path: Path) -> bytes:
    head = b""
    for chunk in read_block_chunks(path):
        if isinstance(chunk, str):
            if not head:
                raise CorruptInputError(
                    f"its gzip data is broken ({chunk})",
                    where=str(path),
                    remedy="copy it again from where it was written",
                )
            break
        head += chunk
        if len(head) >= HEAD_BYTES:
            break
    if not head.strip():
        raise CorruptInputError("the file is empty", where=str(path), remedy="check whether its writer finished")
    return head[:HEAD_BYTES]


def _refusal(form: Form | None, path: Path) -> UnknownFormatError:
    if form == "aligned columns":
        return UnknownFormatError(
            "sacct's aligned columns truncate long fields", where=str(path), remedy="write it with sacct -P (or --json)"
        )
    return UnknownFormatError(
        "not a Slurm output format that fairlead reads",
        where=str(path),
        remedy="write it with sacct -P (with its header line) or --json; for a file without header give `columns`",
    )


def _gaps(reading: Reading, nodes: NodeLists, form: Form | None) -> Iterator[Missing]:
    unit = "lines" if form == "columns" else "jobs"
    if reading.unreadable_rows:
        yield Missing(
            kind="unreadable_lines" if form == "columns" else "unreadable_records",
            what=f"{reading.unreadable_rows} {unit if reading.unreadable_rows > 1 else unit[:-1]}",
            why=f"not understood; the first is {unit[:-1]} {reading.first_row}: {reading.example!r}",
            remedy="compare it with the reference page of this source",
        )
    if reading.overlong:
        yield Missing(
            kind="overlong_lines",
            what=f"{reading.overlong} {'line' if reading.overlong == 1 else 'lines'}",
            why="longer than 16 MiB",
        )
    for fault in reading.faults:
        yield Missing(
            kind="truncated",
            what="the end of the file",
            why=f"it is broken ({fault}); what came before is read",
            remedy="write or copy the file again",
        )
    if reading.assumed:
        yield Missing(
            kind="time_zone_assumed",
            what="the time zone of the times",
            why="Slurm writes local times without an offset; they are read as UTC",
            remedy="give the time zone of the cluster: fairlead ingest --time-zone ZONE, time_zone of a feed",
        )
    if reading.unreadable_times:
        yield Missing(
            kind="unreadable_times",
            what=f"times of {reading.unreadable_times} fields",
            why="they have a SLURM_TIME_FORMAT that is not ISO",
            remedy="write the file with SLURM_TIME_FORMAT=standard (or %s)",
        )
    yield from nodes.list_gaps()
    if reading.array_labels:
        yield Missing(
            kind="raw_job_ids",
            what=f"the numbers of {reading.array_labels} array or heterogeneous jobs",
            why="JobID labels them by their array (12_3); traces carry the job's own number",
            remedy="add JobIDRaw to sacct's columns",
        )
    if reading.orphan_steps:
        yield Missing(
            kind="steps_without_job",
            what=f"jobs of {reading.orphan_steps} steps",
            why="the rows of their jobs are missing in the file",
            remedy="do not select single steps",
        )
    if not reading.jobs:
        yield Missing(kind="no_jobs", what="jobs", why="the file lists none", remedy="widen the time range of sacct")

"""Kept output of `lfs df`, `lfs df -i` and `lctl dl -t`: fullness of Lustre targets, and which server has which.

Not here: the texts' grammar (`probes.lfs`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from fairlead.core.errors import CorruptInputError, InputError
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import EVENTS, MAPPING, TARGET, build_table_batch, build_table_word_column
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.see.probes.lfs import Away, Device, Parser, Space
from fairlead.see.sources.base import Item
from fairlead.see.sources.line_blocks import list_block_end_gaps, read_line_blocks

SERVED_BY = "target→server"
"""Kind of `mapping` rows: `a` is a target, `b` the network address of its server."""
_HEAD = re.compile(
    r"\s*(BEGIN \d+\s*\n|UUID\s+(1K-blocks|Inodes)\s|\d+ [A-Z]{2} (mgc|lov|lmv|mdc|osc|osp|lwp|mgs) \S+ \S+ \d)"
)


class LfsSource:
    """`Source` of such texts, one after the other in a file; `BEGIN SECONDS` lines date what follows."""

    name = "lfs"

    def accepts(self, head: bytes, path: Path) -> bool:  # noqa: ARG002
        """Whether the content begins as one of these commands' output does."""
        return _HEAD.match(head.decode("utf-8", "replace")) is not None

    def read(self, path: Path) -> Iterator[Item]:
        """`target` rows (space), `mapping` rows (target → server), `events` of targets that did not answer. Without
        `BEGIN` lines the file's own time dates them. Raises InputError, CorruptInputError."""
        where = str(path)
        try:
            written_ns = path.stat().st_mtime_ns // NS_PER_S * NS_PER_S
        except OSError as fault:
            raise InputError(fault.strerror or str(fault), where=where, remedy="check the spelling") from fault
        parser = Parser()
        found = undated = 0
        for block in read_line_blocks(path):
            lines = list(parser.parse_lines((block.data + block.cut).decode("utf-8", "replace").split("\n")))
            found += len(lines)
            undated += sum(isinstance(line, Device) or line.at_s is None for line in lines)
            yield from _batches(lines, written_ns)
            if block.last:
                yield from list_block_end_gaps(block, kept=True)
        if not found:
            raise CorruptInputError(
                "it names no target", where=where, remedy="write it again with lfs df or lctl dl -t"
            )
        if undated:
            yield Missing(
                kind="time_assumed",
                what=f"when {undated} lines were written",
                why="they have no time; the time of the file is used",
                where=where,
                remedy="write `BEGIN $(date +%s)` before the output",
            )
        if parser.unknown:
            yield Missing(
                kind="unreadable_lines",
                what=f"{parser.unknown} lines",
                why=f"not understood; the first is {parser.unknown_example!r}",
                where=where,
            )


def _batches(lines: Sequence[Space | Away | Device], written_ns: int) -> Iterator[pa.RecordBatch]:
    spaces = [line for line in lines if isinstance(line, Space)]
    if spaces:
        yield _space(spaces, written_ns)
    devices = [line for line in lines if isinstance(line, Device)]
    if devices:
        yield build_table_batch(
            MAPPING,
            {
                "from_ns": [written_ns] * len(devices),
                "kind": build_table_word_column(SERVED_BY, len(devices)),
                "a": [line.target for line in devices],
                "b": [line.server for line in devices],
            },
        )
    events = [(_ns(line.at_s, written_ns), line.target, line.why) for line in lines if isinstance(line, Away)]
    events += [(written_ns, line.target, f"{line.state} on a client") for line in devices if line.state != "UP"]
    if events:
        stamps, targets, texts = zip(*events, strict=True)
        yield build_table_batch(
            EVENTS,
            {
                "ts_ns": list(stamps),
                "component": list(targets),
                "kind": build_table_word_column("target_away", len(events)),
                "text": list(texts),
            },
        )


def _space(spaces: Sequence[Space], written_ns: int) -> pa.RecordBatch:
    return build_table_batch(
        TARGET,
        {
            "ts_ns": [_ns(line.at_s, written_ns) for line in spaces],
            "target": [line.target for line in spaces],
            "capacity_bytes": pa.array([None if line.inodes else line.total for line in spaces], pa.int64()),
            "used_bytes": pa.array([None if line.inodes else line.used for line in spaces], pa.int64()),
            "inodes": pa.array([line.total if line.inodes else None for line in spaces], pa.int64()),
            "inodes_used": pa.array([line.used if line.inodes else None for line in spaces], pa.int64()),
            "source": build_table_word_column("lfs", len(spaces)),
        },
    )


def _ns(at_s: int | None, written_ns: int) -> int:
    return written_ns if at_s is None else at_s * NS_PER_S

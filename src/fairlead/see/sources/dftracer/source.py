"""The DFTracer source: recognises a trace by its content and streams its records.

Small inputs are decoded by msgspec; larger ones by a compiled scanner that is loaded only then. Results are the same.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fairlead.core.errors import CorruptInputError, UnknownFormatError
from fairlead.see.sources.base import HEAD_BYTES, Item, Origin
from fairlead.see.sources.dftracer import layout as c
from fairlead.see.sources.dftracer.blocks import PADDING, SMALL_BYTES, End, read_dftracer_blocks
from fairlead.see.sources.dftracer.lines import (
    LineReport,
    count_unreadable_line,
    read_dftracer_line,
    read_dftracer_lines,
)
from fairlead.see.sources.dftracer.names import Names
from fairlead.see.sources.dftracer.records import Recorder
from fairlead.see.sources.dftracer.summary import (
    TimeUnit,
    Trace,
    build_job_summary,
    find_dftracer_time_unit,
    list_summary_gaps,
)
from fairlead.see.sources.dftracer.tokens import Tokens

if TYPE_CHECKING:
    from fairlead.see.sources.dftracer.scanner import Scanner

BARREN_LINES = 200_000
"""Unreadable lines without an event among them after which reading stops: what follows is no trace."""

_SAME_RUN_NS = 3600 * 10**9
"""Processes of one run begin within an hour of each other; traces of a folder further apart are of other runs."""

_TS = re.compile(rb'"ts"\s*:\s*"?(\d{1,19})')
_KERNEL = "fairlead.see.sources.dftracer.kernel"
_MARKS = (b'"name"', b'"ph"', b'"pid"')


class DFTracerSource:
    """Reads DFTracer traces of all versions (and DLIO Profiler's, its forerunner), plain or gzip.

    `kernel_from_bytes`: inputs of more content than this are read by the compiled scanner (0: all, None: none).
    Batches come as the file is read; the `Job` and what is `Missing` come last, when all of it was seen.
    """

    name = "dftracer"
    ranks_per_log = False

    def __init__(self, kernel_from_bytes: int | None = SMALL_BYTES) -> None:
        self._kernel_from = kernel_from_bytes
        self._decoded_bytes = 0

    def accepts(self, head: bytes, path: Path) -> bool:  # noqa: ARG002
        """Whether one of the first lines is a Chrome-trace event (name, phase and process on one line)."""
        lines = head[:HEAD_BYTES].split(b"\n", 50)
        return any(
            line.lstrip(c.TRIMMED).startswith(b"{") and all(mark in line for mark in _MARKS) for line in lines[:50]
        )

    def find_origin(self, path: Path, head: bytes) -> Origin:
        """When the trace begins, from its first dated event; a trace names its job nowhere near its beginning. Traces
        with relative times are never taken together with others."""
        for line in head.split(b"\n"):
            found = _TS.search(line)
            if found is not None and b'"M"' not in line:
                unit = find_dftracer_time_unit(int(found[1]))
                if unit.relative:
                    return Origin(f"undated {path}", None, None, 0)
                return Origin(None, int(found[1]) * unit.ns, None, _SAME_RUN_NS)
        return Origin(None, None, None, _SAME_RUN_NS)

    def read(self, path: Path) -> Iterator[Item]:
        """`files` and `ops` as they are met, then the `Job`, then every `Missing`.

        Rank is the MPI rank, or the process id where none is told (`Missing` kind `ranks_are_pids`); `handle` is the
        file descriptor, or the MPI file handle; `job_id` of the rows stays null, as a trace tells its job only as a
        whole. Raises UnknownFormatError for other content and CorruptInputError when no event can be read.
        """
        where = str(path)
        end, report, tokens = End(), LineReport(), Tokens()
        names = Names(tokens)
        recorder = Recorder(tokens, names, 1)
        unit: TimeUnit | None = None
        lines = _Lines(tokens, report, end)
        blocks = read_dftracer_blocks(path, end)
        try:
            chunks = self._chunks(blocks, lines, path, end)
            current = next(chunks, None)
            while current is not None:
                following = next(chunks, None)
                names.learn(current)
                if following is not None:
                    names.foresee(following)
                if unit is None and (current[c.PH] == c.COMPLETE).any():
                    unit = find_dftracer_time_unit(_first_ts(current, report))
                    recorder = Recorder(tokens, names, unit.ns)
                yield from recorder.convert(current)
                current = following
        finally:
            blocks.close()
        if unit is None and report.lifecycle:
            unit = find_dftracer_time_unit(report.lifecycle[0].ts)
        if unit is None and not report.aggregated:
            raise CorruptInputError(
                f"the trace holds no event ({end.damage or 'it was cut at its beginning, or nothing was traced'})",
                where=where,
                remedy="check that the program ran with DFTRACER_ENABLE=1 and ended normally",
            )
        hosts = sorted({tokens.decode_text(code) for code in names.host_tokens | recorder.nodes})
        trace = Trace(where, end, report, names, recorder, unit or TimeUnit(1_000), lines.passed, hosts)
        yield build_job_summary(trace)
        yield from list_summary_gaps(trace)

    def _chunks(self, blocks: Iterator[bytes], lines: _Lines, path: Path, end: End) -> Iterator[c.IntArray]:
        """Rows of all blocks, at most a few ten thousand at a time."""
        first = next(blocks, None)
        if first is None or not self.accepts(first[:HEAD_BYTES], path):
            if end.damage:
                raise CorruptInputError(end.damage, where=str(path), remedy="copy the file again")
            what = "the file is empty" if not end.bytes_read else "not a DFTracer trace"
            raise UnknownFormatError(what, where=str(path), remedy="expected JSON events, one per line (.pfw, .pfw.gz)")
        second = next(blocks, None)
        compiled = self._use_kernel(len(first) - len(PADDING), more=second is not None)
        for block in chain((first,) if second is None else (first, second), blocks):
            for rows in lines.rows(block, compiled=compiled):
                yield rows
                if lines.barren > BARREN_LINES:
                    end.damage = f"{lines.barren:,} consecutive lines have no event; reading stopped there"
                    return

    def _use_kernel(self, size: int, *, more: bool) -> bool:
        """Many small inputs add up: from some point on, loading the compiled scanner pays."""
        if self._kernel_from is None or sys.byteorder != "little":
            return False
        if more or size > self._kernel_from or _KERNEL in sys.modules:
            return True
        self._decoded_bytes += size
        return self._decoded_bytes > 16 * self._kernel_from


def _first_ts(rows: c.IntArray, report: LineReport) -> int:
    if report.lifecycle:
        return report.lifecycle[0].ts
    return int(rows[c.TS][np.argmax(rows[c.PH] == c.COMPLETE)])


class _Lines:
    """Turns blocks into rows and counts the lines passed; loads the compiled scanner when it is first asked for."""

    def __init__(self, tokens: Tokens, report: LineReport, end: End) -> None:
        self.passed = 0
        self.barren = 0
        self._tokens = tokens
        self._report = report
        self._end = end
        self._seen, self._unreadable = (0, 0, 0), 0
        self._loaded: Scanner | None = None

    def rows(self, block: bytes, *, compiled: bool) -> Iterator[c.IntArray]:
        """Rows of one block of whole lines."""
        first_line = self.passed + 1
        if not compiled:
            text = block[: -len(PADDING)]
            rows = read_dftracer_lines(text, first_line, self._tokens, self._report)
            self.passed += text.count(b"\n")
            yield self._useful(rows)
            return
        scanner = self._scanner()
        data, start = np.frombuffer(block, np.uint8), 0
        while start < len(block) - len(PADDING):
            rows, numbers, start, passed = scanner.scan(data, start)
            self._read_rest(block, rows, numbers + self.passed + 1)
            self.passed += passed
            yield self._useful(rows)

    def _scanner(self) -> Scanner:
        if self._loaded is None:
            from fairlead.see.sources.dftracer.scanner import Scanner

            self._loaded = Scanner(self._tokens)
        return self._loaded

    def _read_rest(self, block: bytes, rows: c.IntArray, numbers: c.IntArray) -> None:
        """Read the lines the scanner left, in place; `numbers` (n,) are the rows' line numbers."""
        left = np.flatnonzero(rows[c.PH] == c.UNREAD)
        spans = zip(left.tolist(), rows[c.TS][left].tolist(), rows[c.DUR][left].tolist(), strict=True)
        for at, start, stop in spans:
            row = [c.ABSENT] * c.COLUMNS
            if not read_dftracer_line(block[start:stop].strip(c.TRIMMED), row, self._tokens, self._report):
                row[c.PH] = c.SKIPPED
                count_unreadable_line(self._report, int(numbers[at]))
            rows[:, at] = row

    def _useful(self, rows: c.IntArray) -> c.IntArray:
        """Note that content so far was worth reading, unless it held nothing."""
        report = self._report
        seen = (len(report.lifecycle), report.aggregated, report.counters + report.other_phases)
        if seen != self._seen or (rows[c.PH] != c.SKIPPED).any():
            self._end.bytes_useful = self._end.bytes_read
            self._seen, self._unreadable = seen, report.unreadable
        self.barren = report.unreadable - self._unreadable
        return rows

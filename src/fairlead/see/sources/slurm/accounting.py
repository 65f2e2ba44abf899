"""`sacct -P` (or -p) and `squeue -o %all` text, any columns, with or without a header line; steps fold into their job.

Free text (a job's name, comment or submit line) may hold the separator or line ends: such rows are put together again
by the fields that must be times, states and numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.see.sources.line_blocks import Block
from fairlead.see.sources.node_lists import NodeLists
from fairlead.see.sources.slurm.fields import (
    NO_VALUE,
    STATES,
    XDMOD_COLUMNS,
    Reading,
    find_field_label,
    parse_number_fields,
    parse_state_field,
)
from fairlead.see.sources.slurm.job_columns import build_text_job_columns

_JOB_ID = re.compile(r"\d+(_(\d+|\[[^\]|]*\]))?(\+\d+)?(\.[\w+\-]+)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.{0,12}|\d{1,11}")
_FREE = ("submitline", "comment", "jobname", "name", "workdir", "admincomment", "systemcomment", "command")
_MOST_JOINED = 64
_PIPE, _LINE = "\x1f", "\x1e"
"""Stand for a separator or line end inside a field until the fields are apart."""


@dataclass(frozen=True)
class Layout:
    """Columns of a file: names as written, and the place of each of our fields."""

    names: tuple[str, ...]
    places: dict[str, int]
    separator: str
    header: str | None

    @property
    def free(self) -> list[int]:
        """Places of free text, the likeliest to hold a separator first."""
        lower = [name.strip().lower().replace("_", "") for name in self.names]
        return [lower.index(word) for word in _FREE if word in lower]


def detect_accounting_layout(line: str, separator: str, columns: Sequence[str] | None) -> Layout | None:
    """The layout that a first line states (header) or shows (columns given, or those of `XDMOD_COLUMNS`)."""
    fields = line.split(separator)
    found = _places(fields)
    if ("job_id" in found or "job_label" in found) and len(fields) > 1 and not _JOB_ID.fullmatch(fields[0]):
        return Layout(tuple(fields), found, separator, line)
    for names in (columns, XDMOD_COLUMNS):
        if names is not None and len(fields) == len(names):
            layout = Layout(tuple(names), _places(names), separator, None)
            if "job_id" in layout.places and _fits(fields, layout):
                return layout
    return None


def _places(names: Sequence[str]) -> dict[str, int]:
    """Place of each of our fields. Of several columns for one field the one with more to say is taken."""
    rank = ("allocnodes", "alloccpus", "ncpus", "nnodes")
    found: dict[str, int] = {}
    best: dict[str, int] = {}
    for place, name in enumerate(names):
        label = find_field_label(name)
        if label is None:
            continue
        word = name.strip().lower()
        order = rank.index(word) if word in rank else len(rank)
        if label not in found or order < best[label]:
            found[label], best[label] = place, order
    if "job_id" not in found and "job_label" in found:
        found["job_id"] = found["job_label"]
    return found


def _fits(fields: Sequence[str], layout: Layout) -> bool:
    """Whether the fields that must be of a form are of it."""
    for label, place in layout.places.items():
        text = fields[place].strip()
        if label in ("job_id", "job_label"):
            good = _JOB_ID.fullmatch(text) is not None
        elif label in ("submit", "start", "end"):
            good = text in NO_VALUE or _TIME.fullmatch(text) is not None
        elif label == "state":
            good = (parse_state_field(text) or "COMPLETED") in STATES
        elif label in ("nodes_count", "cores", "processes"):
            good = text in NO_VALUE or text.isdigit()
        else:
            good = True
        if not good:
            return False
    return True


class Accounts:
    """Reads the blocks of one file. Steps may follow in the next block: the last job is held back until then."""

    def __init__(self, layout: Layout, nodes: NodeLists, reading: Reading) -> None:
        self._layout = layout
        self._nodes = nodes
        self._reading = reading
        self._held = b""
        self._bad: list[tuple[int, str]] = []

    def read_batches(self, block: Block) -> Iterator[pa.RecordBatch]:
        """Batches of a block and what was held of the last one."""
        data = self._held + block.data
        first = block.first_line - self._held.count(b"\n")
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b" ")
        self._held = b""
        self._bad = []
        whole, lines = self._regular(data, first)
        table = self._table(whole)
        ids = pc.utf8_trim_whitespace(table["job_id"])
        good = pc.match_substring_regex(ids, r"^[0-9]").to_numpy(zero_copy_only=False)
        step = pc.match_substring(ids, ".").to_numpy(zero_copy_only=False)
        jobs = np.flatnonzero(good & ~step)
        if not block.last and len(jobs):
            at = int(lines[jobs[-1]])
            held = data[at:]
            if len(held) <= 4 * len(block.data):
                self._held = held
                keep = int(jobs[-1])
                table, good, step = table.slice(0, keep), good[:keep], step[:keep]
        self._find_bad(good, first, data, lines)
        end = first + data.count(b"\n", 0, len(data) - len(self._held))
        for row, text in self._bad:
            if row < end:
                self._reading.count_unreadable(row, text)
        yield from self._fold(table.filter(pa.array(good)), step[good])

    def _regular(self, data: bytes, first: int) -> tuple[bytes, NDArray[np.int64]]:
        """The rows of `data` with as many separators as there are columns, and where each begins in `data`; rows that
        hold more are put right, rows broken over lines are joined."""
        raw = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(raw == 10)
        starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else np.empty(0, np.int64)
        separators = np.flatnonzero(raw == ord(self._layout.separator))
        counts = np.searchsorted(separators, ends) - np.searchsorted(separators, starts)
        want = len(self._layout.names) - 1
        odd = counts != want
        if not odd.any():
            return data, starts
        pieces: list[bytes] = []
        begins: list[int] = []
        row = 0
        rows = np.flatnonzero(odd)
        for at in rows.tolist():
            if at < row:
                continue
            if at > row:
                pieces.append(data[starts[row] : starts[at]])
                begins.extend(starts[row:at].tolist())
            row, text = self._mended(data, starts, ends, counts, at, first)
            if text is not None:
                pieces.append(text)
                begins.append(int(starts[at]))
        if row < len(starts):
            pieces.append(data[starts[row] :])
            begins.extend(starts[row:].tolist())
        return b"".join(pieces), np.array(begins, np.int64)

    def _mended(
        self,
        data: bytes,
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
        counts: NDArray[np.int64],
        at: int,
        first: int,
    ) -> tuple[int, bytes | None]:
        """The odd row at a line, with the lines that belong to it; None when it cannot be read. And the row after."""
        want = len(self._layout.names) - 1
        stop, have = at + 1, int(counts[at])
        while have < want and stop < len(starts) and stop - at < _MOST_JOINED and counts[stop] < want:
            if have + int(counts[stop]) > want and not self._layout.free:
                break
            have += int(counts[stop])
            stop += 1
        text = data[starts[at] : ends[stop - 1]].decode("utf-8", "replace").replace("\n", _LINE)
        if have >= want:
            fields = self._realigned(text.split(self._layout.separator))
            if fields is not None:
                return stop, (self._layout.separator.join(fields) + "\n").encode()
        line = data[starts[at] : ends[at]].decode("utf-8", "replace").strip()
        if line:
            self._bad.append((first + at, line))
        return at + 1, None

    def _realigned(self, fields: list[str]) -> list[str] | None:
        """Fields with the surplus ones joined where free text stands; None when no place makes sense of the others."""
        surplus = len(fields) - len(self._layout.names)
        if surplus == 0:
            return fields if _fits(fields, self._layout) else None
        for place in self._layout.free:
            joined = [*fields[:place], _PIPE.join(fields[place : place + surplus + 1]), *fields[place + surplus + 1 :]]
            if _fits(joined, self._layout):
                return joined
        return None

    def _table(self, data: bytes) -> pa.Table:
        """The columns we use, as text."""
        import pyarrow.csv

        if not data.isascii():
            data = data.decode("utf-8", "replace").encode()
        places = self._layout.places
        names = [str(i) for i in range(len(self._layout.names))]
        used = {label: str(place) for label, place in places.items()}
        if not data:
            return pa.table({label: pa.array([], pa.string()) for label in used})
        table = pyarrow.csv.read_csv(
            pa.py_buffer(data),
            read_options=pyarrow.csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self._layout.separator, quote_char=False, ignore_empty_lines=False
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=sorted(set(used.values())), column_types=dict.fromkeys(names, pa.string())
            ),
        )
        return pa.table({label: table[name].combine_chunks() for label, name in used.items()})

    def _find_bad(self, good: NDArray[np.bool_], first: int, data: bytes, lines: NDArray[np.int64]) -> None:
        """Note rows whose job number is none; repeated header lines and blank ones are no loss."""
        for row in np.flatnonzero(~good).tolist():
            at = int(lines[row])
            line = data[at : data.find(b"\n", at)].decode("utf-8", "replace")
            if line.strip() and line != self._layout.header:
                self._bad.append((first + data.count(b"\n", 0, at), line))

    def _fold(self, table: pa.Table, step: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        """Jobs with the processes of their largest step (external steps count tasks that are no processes)."""
        label = "job_label" if "job_label" in table.column_names else "job_id"
        jobs = table.filter(pa.array(~step))
        columns = {name: pc.utf8_trim_whitespace(jobs[name].combine_chunks()) for name in jobs.column_names}
        if step.any():
            steps = table.filter(pa.array(step))
            owner = self._owners(table, label, step)
            self._reading.orphan_steps += int((owner < 0).sum())
            if "processes" in table.column_names and len(jobs):
                columns["processes"] = _processes(columns["processes"], steps, owner, label)
        if not len(jobs):
            return
        if "tres" in columns:
            _from_tres(columns)
        labels = columns.pop("job_label", None)
        if labels is not None and "job_id" in table.column_names and self._no_raw_ids():
            self._reading.array_labels += pc.sum(pc.match_substring_regex(labels, r"[_+]")).as_py() or 0
        if "name" in columns:
            columns["name"] = pc.replace_substring(columns["name"], _PIPE, self._layout.separator)
            columns["name"] = pc.replace_substring(columns["name"], _LINE, " ")
        yield from build_text_job_columns(columns, self._nodes, self._reading)

    def _no_raw_ids(self) -> bool:
        return self._layout.places.get("job_label") == self._layout.places["job_id"]

    @staticmethod
    def _owners(table: pa.Table, label: str, step: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Row among the jobs of each step's job: the nearest job above if it is the one, else any of that number."""
        ids = pc.utf8_trim_whitespace(table[label].combine_chunks())
        job_ids = ids.filter(pa.array(~step))
        bases = pc.replace_substring_regex(ids.filter(pa.array(step)), r"\..*$", "")
        above = np.cumsum(~step)[step] - 1
        if not len(job_ids):
            return np.full(len(bases), -1, np.int64)
        near = pc.equal(job_ids.take(pa.array(np.maximum(above, 0))), bases).to_numpy(zero_copy_only=False)
        elsewhere = pc.index_in(bases, job_ids).fill_null(-1).to_numpy(zero_copy_only=False)
        return np.where(near & (above >= 0), above, elsewhere)


def _processes(own: pa.Array, steps: pa.Table, owner: NDArray[np.int64], label: str) -> pa.Array:
    """Tasks of the largest step of each job, or what the job's own row says."""
    tasks = parse_number_fields(pc.utf8_trim_whitespace(steps["processes"].combine_chunks()))
    external = pc.match_substring_regex(steps[label].combine_chunks(), r"\.extern").to_numpy(zero_copy_only=False)
    counted = (owner >= 0) & ~external & tasks.is_valid().to_numpy(zero_copy_only=False)
    most = np.full(len(own), -1, np.int64)
    np.maximum.at(most, owner[counted], tasks.fill_null(0).to_numpy(zero_copy_only=False)[counted])
    return pc.coalesce(pa.array(most, mask=most < 0), parse_number_fields(own))


def _from_tres(columns: dict[str, pa.Array]) -> None:
    """Cores and nodes from `billing=8,cpu=8,node=1` where no column of their own says them."""
    tres = columns.pop("tres")
    for name, word in (("cores", "cpu"), ("nodes_count", "node")):
        if name not in columns:
            found = pc.extract_regex(tres, rf"(?:^|,){word}=(?P<n>[0-9]+)")
            columns[name] = pc.struct_field(found, "n")


def skip_accounting_header(block: Block, layout: Layout) -> Block:
    """The first block without leading blank lines and its header line."""
    data = block.data
    line = block.first_line
    while data[:1] in (b"\n", b"\r", b" "):
        end = data.find(b"\n") + 1
        if not end or data[:end].strip():
            break
        data, line = data[end:], line + 1
    if layout.header is not None:
        end = data.find(b"\n") + 1
        data, line = data[end:], line + 1
    return replace(block, data=data, first_line=line)

"""Job records of the machine Beacon watches to `jobs`: tab-separated JOB_log lines and the comma-separated job sample.

Which column is what comes from a header line or from the positions below; both can be replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.see.sources.beacon import layout as k
from fairlead.see.sources.beacon.lines import Ints, Lines, Tally
from fairlead.see.sources.local_time import convert_local_to_utc_ns
from fairlead.see.sources.node_lists import NodeListError, NodeLists, build_node_list_batches

TAB_COLUMNS: Mapping[str, int] = {
    "job_id": 0,
    "nodes_count": 4,
    "cores": 5,
    "submit": 7,
    "start": 8,
    "end": 9,
    "program": 14,
    "nodes": 15,
}
COMMA_COLUMNS: Mapping[str, int] = {
    "job_id": 0,
    "partition": 1,
    "nodes_count": 2,
    "cores": 3,
    "submit": 4,
    "start": 5,
    "end": 6,
}
_HEADER_WORDS = {
    "jobid": "job_id",
    "cnc": "nodes_count",
    "nodenum": "nodes_count",
    "core": "cores",
    "corenum": "cores",
    "submit": "submit",
    "submittime": "submit",
    "start": "start",
    "starttime": "start",
    "end": "end",
    "endtime": "end",
    "programname": "program",
    "nodelist": "nodes",
    "jobname": "name",
    "user": "user",
    "username": "user",
    "state": "state",
    "queue": "partition",
}
_RUNNING = "0000-00-00 00:00:00"
_MOST_FIELDS = 64
MOST_NODES = 1 << 17
"""Nodes a list may name; ids go up to here as well (TaihuLight has 40,960 nodes)."""


def format_job_node_address(node: int) -> str:
    """IP address of a compute node by its number (TaihuLight: 8 nodes a board, 128 boards a second octet)."""
    return f"172.{node // 1024}.{node % 1024 // 8}.{node % 8 + 1}"


@cache
def _addresses() -> list[str]:
    return [format_job_node_address(n) for n in range(MOST_NODES)]


def expand_job_node_ids(text: str) -> list[str]:
    """Addresses of `0-3,17`. Raises NodeListError."""
    names: list[str] = []
    known = _addresses()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isascii() and first.isdigit()) or (dash and not (last.isascii() and last.isdigit())):
            raise NodeListError(f"not a list of node numbers: {text[:60]!r}")
        low, high = int(first[:12]), int((last if dash else first)[:12])
        if high < low:
            raise NodeListError(f"a range that runs backwards: {part[:60]!r}")
        if high >= MOST_NODES or len(names) + high - low >= MOST_NODES:
            raise NodeListError(f"more than {MOST_NODES} nodes: {part[:60]!r}", too_large=True)
        names.extend(known[low : high + 1])
    return names


@dataclass
class JobForm:
    """Columns of the job records of one file, by separator; a header line replaces them."""

    tabs: Mapping[str, int] = field(default_factory=lambda: TAB_COLUMNS)
    commas: Mapping[str, int] = field(default_factory=lambda: COMMA_COLUMNS)
    nodes: NodeLists = field(default_factory=lambda: NodeLists(expand_job_node_ids))

    def take_header(self, kind: int, line: bytes) -> None:
        """Name the columns from a header line."""
        fields = line.decode("utf-8", "replace").split("\t" if kind == k.JOB_TABS else ",")
        found: dict[str, int] = {}
        for position, name in enumerate(fields):
            word = _HEADER_WORDS.get(name.strip().strip('"').lower().replace("_", ""))
            if word is not None:
                found.setdefault(word, position)
        if kind == k.JOB_TABS:
            self.tabs = found
        else:
            self.commas = found


def read_job_records(
    lines: Lines, form: JobForm, tally: Tally, *, zone: str, cluster: str | None
) -> Iterator[pa.RecordBatch]:
    """Batches of the job records of one block."""
    for kind in (k.JOB_TABS, k.JOB_COMMAS):
        rows = lines.select_rows(kind)
        texts = [lines.data[a:b] for a, b in zip(lines.begin[rows].tolist(), lines.end[rows].tolist(), strict=True)]
        header = np.array([text[:5].lower() == b"jobid" for text in texts], bool)
        for at in np.flatnonzero(header).tolist():
            form.take_header(kind, texts[at])
            tally.read += 1
        texts = [text for text, is_header in zip(texts, header.tolist(), strict=True) if not is_header]
        if texts:
            yield from _batches(lines, rows[~header], texts, kind, form, tally, zone, cluster)


def _batches(
    lines: Lines,
    rows: Ints,
    texts: list[bytes],
    kind: int,
    form: JobForm,
    tally: Tally,
    zone: str,
    cluster: str | None,
) -> Iterator[pa.RecordBatch]:
    columns = form.tabs if kind == k.JOB_TABS else form.commas
    table = _table(texts, b"\t" if kind == k.JOB_TABS else b",")
    texts_of = {name: _text(table, position) for name, position in columns.items() if position < table.num_columns}
    times = {name: _time(texts_of.get(name), len(texts), zone) for name in ("submit", "start", "end")}
    ids = texts_of.get("job_id", pa.nulls(len(texts), pa.string()))
    good_array = pc.and_(pc.is_valid(ids), pc.or_(pc.is_valid(times["submit"]), pc.is_valid(times["start"])))
    good = good_array.to_numpy(zero_copy_only=False)
    tally.count_unread(lines, rows[~good])
    tally.read += int(good.sum())
    if not good.any():
        return
    wanted: dict[str, pa.Array | None] = {
        "job_id": ids,
        "submit_ns": times["submit"],
        "start_ns": times["start"],
        "end_ns": times["end"],
        "nodes_count": _number(texts_of.get("nodes_count")),
        "cores": _number(texts_of.get("cores")),
        "state": _state(texts_of, times["start"]),
        **{name: texts_of.get(name) for name in ("name", "user", "program", "partition")},
    }
    out: dict[str, object] = {name: value.filter(good_array) for name, value in wanted.items() if value is not None}
    if cluster is not None:
        out["cluster"] = pa.array([cluster] * int(good.sum()), pa.string()).dictionary_encode()
    nodes = texts_of.get("nodes")
    listed = nodes.filter(good_array).to_pylist() if nodes is not None else [None] * int(good.sum())
    yield from build_node_list_batches(out, listed, form.nodes)


def _table(texts: list[bytes], separator: bytes) -> pa.Table:
    """Fields of lines as text columns. Empty fields cut from the end of a line are put back."""
    import pyarrow.csv

    texts = [text.replace(b"\r", b" ") for text in texts]  # a lone CR would end a record
    counts = [text.count(separator) for text in texts]
    most = min(max(counts), _MOST_FIELDS)
    even = [
        text + separator * (most - n) if n <= most else separator * most for text, n in zip(texts, counts, strict=True)
    ]
    names = [str(i) for i in range(most + 1)]
    return pyarrow.csv.read_csv(
        pa.py_buffer(b"\n".join(even) + b"\n"),
        read_options=pyarrow.csv.ReadOptions(column_names=names, use_threads=False, encoding="latin-1"),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=separator.decode(), quote_char=False, ignore_empty_lines=False
        ),
        convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )


def _text(table: pa.Table, position: int) -> pa.Array:
    """A column without surrounding spaces; empty fields are null."""
    column = pc.utf8_trim_whitespace(table.column(position).combine_chunks())
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)


def _number(column: pa.Array | None) -> pa.Array | None:
    if column is None:
        return None
    whole = pc.match_substring_regex(column, r"^[0-9]{1,18}$")
    return pc.if_else(whole, column, pa.scalar(None, pa.string())).cast(pa.int64())


def _time(column: pa.Array | None, length: int, zone: str) -> pa.Array:
    """Local times as epoch ns; null where there is none or it is all zeros."""
    if column is None:
        return pa.nulls(length, pa.int64())
    stamps = pc.strptime(column, format="%Y-%m-%d %H:%M:%S", unit="s", error_is_null=True).cast(pa.int64())
    known = stamps.is_valid().to_numpy(zero_copy_only=False)
    seconds = stamps.fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(convert_local_to_utc_ns(seconds, zone), mask=~known)


def _state(texts: dict[str, pa.Array], start: pa.Array) -> pa.Array | None:
    """The state column, or RUNNING for jobs that began and have an end of zeros."""
    if "state" in texts or "end" not in texts:
        return texts.get("state")
    running = pc.and_(pc.equal(texts["end"], _RUNNING), pc.is_valid(start))
    return pc.if_else(running, "RUNNING", pa.scalar(None, pa.string()))

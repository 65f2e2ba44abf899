"""A play's records as its agents would send them: batches of `fairlead.core.batches`, one body a node and interval.

Not here: sending them (`benchmarks`, tests), or what is in them (`play`).
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.batches.encoding import Column, Header, Lists, Numbers, Words, encode_batch
from fairlead.core.model.tables import TABLES
from fairlead.kit.testing.machine.play import Play

SENDER = {
    "ops": "node",
    "health": "node",
    "forwarder": "node",
    "pfs_client": "node",
    "device": "node",
    "target": "server",
    "metadata": "server",
}
"""The column that names the node a table's rows are sent by; the others come from one place (`PLACE`)."""
PLACE = {"jobs": "sched0", "mapping": "sched0", "port": "fabric0"}
FEED = "feed0"
"""Where tables are sent from that are no agent's."""
WRITER = "fairlead.kit.testing.machine"


@dataclass(frozen=True)
class Body:
    """What one node sends at once: batches one after another. `operations`: those its rows of `ops` stand for."""

    node: str
    first_s: int
    rows: int
    ops_rows: int
    operations: int
    data: bytes


def _build_boot_id(seed: int, node: str) -> str:
    """32 hex digits: one run of one agent."""
    return blake2b(f"{seed}/{node}".encode(), digest_size=16).hexdigest()


def build_wire_bodies(play: Play, every_s: int = 10, from_s: int = 0, to_s: int | None = None) -> Iterator[Body]:
    """What each node sends, interval after interval. A node that has nothing to say sends nothing."""
    stop = play.seconds if to_s is None else to_s
    for start, tables in zip(range(from_s, stop, every_s), play.iterate_intervals(every_s, from_s, stop), strict=True):
        yield from _of_interval(play, tables, start, min(start + every_s, stop))


def encode_wire_feed_body(play: Play, name: str, table: pa.Table, at_s: int) -> bytes:
    """Rows of a table, of which there are some, as a batch of one feed of the site."""
    [batch] = table.combine_chunks().to_batches()
    return Cut(name, batch).encode(0, batch.num_rows, FEED, _build_boot_id(play.seed, f"{FEED}/{name}"), at_s)


def _of_interval(play: Play, tables: dict[str, pa.Table], start: int, end: int) -> Iterator[Body]:
    sent: dict[str, list[tuple[str, int, int, bytes]]] = {}
    for name, table in tables.items():
        batch, senders, bounds = _by_sender(play, name, table, start, end)
        cut = Cut(name, batch)
        for i, node in enumerate(senders):
            low, high = int(bounds[i]), int(bounds[i + 1])
            if high > low:
                data = cut.encode(low, high, node, _build_boot_id(play.seed, node), start)
                sent.setdefault(node, []).append((name, high - low, cut.count_operations(low, high), data))
    for node in sorted(sent):
        parts = sent[node]
        yield Body(
            node,
            start,
            sum(p[1] for p in parts),
            sum(p[1] for p in parts if p[0] == "ops"),
            sum(p[2] for p in parts),
            b"".join(part[3] for part in parts),
        )


def _by_sender(
    play: Play, name: str, table: pa.Table, start: int, end: int
) -> tuple[pa.RecordBatch, list[str], NDArray[np.intp]]:
    """A table's rows in order of the node that sends them, those nodes, and where the rows of each begin."""
    batch = table.combine_chunks().to_batches()[0]
    column = SENDER.get(name)
    if name in PLACE:
        return batch, [PLACE[name]], np.array([0, batch.num_rows])
    if column is None:  # files and their layouts: told by the first node of the job that made them
        course = play.course
        when = np.array(course.files.seen_s)
        seen = np.flatnonzero((when >= start) & (when < end))
        firsts = np.array([int(course.jobs[course.files.job[i]].nodes[0]) for i in seen])
        names, code = np.unique(firsts, return_inverse=True)
        labels = [play.machine.format_node_name(int(n)) for n in names]
    else:
        dictionary = batch.column(column)
        labels, code = dictionary.dictionary.to_pylist(), dictionary.indices.to_numpy()
    if (np.diff(code) < 0).any():
        order = np.argsort(code, kind="stable")
        batch, code = batch.take(pa.array(order)), code[order]
    return batch, labels, np.searchsorted(code, np.arange(len(labels) + 1))


class Cut:
    """A table's columns as NumPy arrays, from which the batch of each stretch of rows is cut."""

    def __init__(self, name: str, batch: pa.RecordBatch) -> None:
        self._spec = TABLES[name]
        self._columns: list[tuple[str, _Cutter]] = []
        for field, column in zip(batch.schema, batch.columns, strict=True):
            if column.null_count < len(column) and (cutter := _cutter(column)) is not None:
                self._columns.append((field.name, cutter))
        time = self._spec.time_column
        self._when = None if time is None else batch.column(time).to_numpy()
        self._count = batch.column("count").to_numpy() if name == "ops" else None

    def count_operations(self, low: int, high: int) -> int:
        """Client operations the rows [low, high) stand for (0: not of `ops`)."""
        return 0 if self._count is None else int(self._count[low:high].sum())

    def encode(self, low: int, high: int, node: str, boot: str, seq: int) -> bytes:
        """The rows [low, high) as the bytes of a batch."""
        columns: dict[str, Column] = {}
        for name, cutter in self._columns:
            made = cutter(low, high)
            if made is not None:
                columns[name] = made
        when = None if self._when is None else self._when[low:high]
        header = Header(
            table=self._spec.name,
            version=self._spec.version,
            node=node,
            boot_id=boot,
            seq=seq,
            rows=high - low,
            layer="agent",
            writer=WRITER,
            first_ns=None if when is None else int(when.min()),
            last_ns=None if when is None else int(when.max()),
        )
        return encode_batch(header, columns)


_Cutter = Callable[[int, int], Column | None]


def _cutter(column: pa.Array) -> _Cutter | None:
    """What cuts stretches out of a column; None for a kind that batches do not have (lists of words)."""
    kind = column.type
    if pa.types.is_string(kind):
        column, kind = column.dictionary_encode(), pa.dictionary(pa.int32(), pa.string())
    valid = None if column.null_count == 0 else column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_dictionary(kind):
        return _words(column)
    if pa.types.is_list(kind):
        return None if pa.types.is_string(kind.value_type) else _numbers_in_lists(column)
    code, wanted = ("d", np.float64) if pa.types.is_floating(kind) else ("q", np.int64)
    whole = (column if valid is None else column.fill_null(0)).to_numpy().astype(wanted, copy=False)

    def numbers(low: int, high: int) -> Column | None:
        if valid is None:
            return Numbers(_array(code, whole[low:high]))
        known = valid[low:high]
        if not known.any():
            return None
        return Numbers(_array(code, whole[low:high]), None if known.all() else known.astype(np.uint8).tobytes())

    return numbers


def _words(column: pa.DictionaryArray) -> _Cutter:
    texts = column.dictionary.to_pylist()
    codes = column.indices.fill_null(-1).to_numpy().astype(np.int32)

    def cut(low: int, high: int) -> Column | None:
        own = codes[low:high]
        if own[0] == own[-1] and (own == own[0]).all():
            return None if own[0] < 0 else Words(_array("i", np.zeros(len(own), np.int32)), [texts[own[0]]])
        present, small = np.unique(own, return_inverse=True)
        nulls = int(present[0] < 0)
        return Words(_array("i", (small - nulls).astype(np.int32)), [texts[code] for code in present[nulls:]])

    return cut


def _numbers_in_lists(column: pa.ListArray) -> _Cutter:
    lengths = column.value_lengths().fill_null(-1).to_numpy().astype(np.int32)
    values = column.flatten().to_numpy().astype(np.int64, copy=False)
    ends = np.concatenate([[0], np.cumsum(np.maximum(lengths, 0))])

    def cut(low: int, high: int) -> Column | None:
        if (lengths[low:high] < 0).all():
            return None
        return Lists(_array("i", lengths[low:high]), _array("q", values[ends[low] : ends[high]]))

    return cut


def _array(code: str, values: NDArray[Any]) -> array[Any]:
    made: array[Any] = array(code)
    made.frombytes(values.tobytes())
    return made


def write_wire_bodies(play: Play, folder: Path, every_s: int = 10) -> dict[str, Any]:
    """Each body as a file under `folder`, and `manifest.json`, which is returned: totals, and of each file its node,
    rows, rows of `ops`, operations and bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    totals = {"rows": 0, "ops_rows": 0, "operations": 0, "bytes": 0}
    entries: list[dict[str, object]] = []
    for number, body in enumerate(build_wire_bodies(play, every_s)):
        name = f"{number:08d}-{body.node}.batches"
        (folder / name).write_bytes(body.data)
        counts = {"rows": body.rows, "ops_rows": body.ops_rows, "operations": body.operations, "bytes": len(body.data)}
        entries.append({"file": name, "node": body.node, "first_s": body.first_s, **counts})
        for key, value in counts.items():
            totals[key] += value
    manifest = {
        "simulated": True,
        "machine": play.machine.name,
        "nodes": play.machine.nodes,
        "seed": play.seed,
        "seconds": play.seconds,
        **totals,
        "files": entries,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return manifest

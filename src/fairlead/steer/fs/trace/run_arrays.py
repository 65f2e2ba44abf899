"""First pass over many requests at once, with NumPy: what `runs` does one by one, by the exact law.

Imported by the draining thread when there is much to drain: a mount that idles never loads NumPy.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fairlead.core.batches.encoding import Column, Numbers, Words
from fairlead.core.compression.merge_rules import Rows, find_merge_links
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.trace.path_names import File
from fairlead.steer.fs.trace.runs import BOUNDARY_NS, GAP_NS, SIZED, WORDS, name_run_operation

I64 = NDArray[np.int64]
_T = TypeVar("_T", bound=np.generic)
Flags = NDArray[np.bool_]
RECORD = np.dtype(
    [
        ("op", "<u2"),
        ("job", "<u2"),
        ("error", "<i4"),
        ("node", "<u8"),
        ("handle", "<u8"),
        ("offset", "<i8"),
        ("size", "<i8"),
        ("start", "<i8"),
        ("end", "<i8"),
    ]
)
"""`ring.RECORD` as NumPy has it."""
ALL_WORDS = sorted({*WORDS.values(), "fdatasync", "truncate", "chmod", "chown", "utimens"})
_CODE = {word: code for code, word in enumerate(ALL_WORDS)}
_CODES = np.full(256, -1, np.int32)
for _op, _word in WORDS.items():
    _CODES[_op] = _CODE[_word]
_SIZED = np.zeros(256, np.bool_)
_SIZED[list(SIZED)] = True
_TOLD_APART = (int(Op.SETATTR), int(Op.FSYNC))
_OF_FILE, _OF_NODE = np.uint64(1 << 63), np.uint64(3 << 62)
"""Streams of requests without a handle."""


@dataclass(frozen=True)
class Chunk:
    """Runs, sorted by their first request. `word` codes into ALL_WORDS; what is not `sized` has no offset, size and
    stride; `file` is -1 or a place in `files`."""

    start: I64
    end: I64
    busy: I64
    job: I64
    word: NDArray[np.int32]
    file: I64
    handle: I64
    sized: Flags
    offset: I64
    size: I64
    stride: I64
    count: I64
    files: list[File]

    def select_rows(self, rows: Flags) -> Chunk:
        """The runs of these rows."""
        taken = {name: column[rows] for name, column in vars(self).items() if name != "files"}
        return Chunk(**taken, files=self.files)

    def build_columns(self, ranks: dict[int, int]) -> dict[str, Column]:
        """The columns of `ops` that differ from run to run; `ranks` by job index, -1 for none."""
        ids = np.array([file_id for file_id, _ in self.files] or [0], np.int64)
        rank = np.full(1 << 16, -1, np.int64)
        for index, value in ranks.items():
            rank[index] = value
        ranked = rank[self.job]
        strided = self.sized & (self.count > 1)
        return {
            "start_ns": _numbers(self.start),
            "end_ns": _numbers(self.end),
            "busy_ns": _numbers(self.busy),
            "rank": _numbers(ranked, ranked >= 0),
            "op": Words(_array("i", self.word), ALL_WORDS),
            "file_id": _numbers(ids[self.file], self.file >= 0),
            "handle": _numbers(self.handle, self.handle != 0),
            "offset": _numbers(self.offset, self.sized),
            "size": _numbers(self.size, self.sized),
            "stride": _numbers(self.stride, strided),
            "count": _numbers(self.count),
        }

    def find_first_starts(self) -> dict[int, tuple[str, int]]:
        """Path and first start by file id."""
        known = self.file >= 0
        places, first = np.unique(self.file[known], return_index=True)
        starts = self.start[known][first]
        return {
            self.files[place][0]: (self.files[place][1], start)
            for place, start in zip(places.tolist(), starts.tolist(), strict=True)
        }


def _numbers(values: I64, valid: Flags | None = None) -> Numbers:
    if valid is None or bool(valid.all()):
        return Numbers(_array("q", values))
    return Numbers(_array("q", np.where(valid, values, 0)), valid.astype(np.uint8).tobytes())


def _array(typecode: str, values: NDArray[np.generic]) -> array[int]:
    made: array[int] = array(typecode)
    made.frombytes(np.ascontiguousarray(values).tobytes())
    return made


def build_run_arrays(
    records: NDArray[np.void], file_of: Callable[[int], File | None], named: File | None, shift_ns: int
) -> Chunk | None:
    """The runs of records between which no name was told. `named` is the file of those about a name (node 0)."""
    op = records["op"]
    known = op < 256
    word = np.where(known, _CODES[np.where(known, op, 0)], -1)
    for at in np.flatnonzero(np.isin(op, _TOLD_APART)).tolist():
        word[at] = _CODE[name_run_operation(int(op[at]), int(records["size"][at])) or "utimens"]
    kept = word >= 0
    if not kept.all():
        records, op, word = records[kept], op[kept], word[kept]
    if not len(records):
        return None
    sized = _SIZED[op]
    file, files = _files(records["node"], file_of, named)
    handle = records["handle"]
    without = np.where(file >= 0, _OF_FILE | file.view(np.uint64), _OF_NODE | records["node"])
    key = np.where(handle != 0, handle, without)
    order = None if bool((key == key[0]).all()) else np.argsort(key, kind="stable")

    def placed(values: NDArray[_T]) -> NDArray[_T]:
        return values if order is None else values[order]

    start, end = placed(records["start"] + shift_ns), placed(records["end"] + shift_ns)
    offset, size = (
        placed(np.where(sized, records["offset"], 0)),
        placed(np.where(sized & (records["error"] == 0), records["size"], 0)),
    )
    same = np.zeros(len(records), np.bool_)
    same[1:] = True
    for values in (placed(key), placed(word), size, placed(records["job"]), placed(file)):
        same[1:] &= values[1:] == values[:-1]
    links = find_merge_links(
        Rows(start, end, offset, same, None, None, None),
        GAP_NS,
        BOUNDARY_NS,
    )
    heads = np.flatnonzero(~links.join)
    lasts = np.append(heads[1:], len(records)) - 1
    firsts = heads if order is None else order[heads]
    ranked = np.argsort(firsts, kind="stable")
    heads, lasts, firsts = heads[ranked], lasts[ranked], firsts[ranked]
    # Sums over stretches, as reduceat wants its places to rise.
    total = np.concatenate((np.zeros(1, np.int64), np.cumsum(end - start)))
    count = lasts - heads + 1
    return Chunk(
        start=start[heads],
        end=end[lasts],
        busy=total[lasts + 1] - total[heads],
        job=records["job"][firsts].astype(np.int64),
        word=word[firsts].astype(np.int32),
        file=file[firsts],
        handle=handle[firsts].view(np.int64),
        sized=sized[firsts],
        offset=offset[heads],
        size=size[heads],
        stride=np.where(count > 1, links.step[np.minimum(heads + 1, len(records) - 1)], 0),
        count=count,
        files=files,
    )


def _files(
    node: NDArray[np.uint64], file_of: Callable[[int], File | None], named: File | None
) -> tuple[I64, list[File]]:
    """Place of each record's file in the list of files; -1 for a node whose name was never seen."""
    if bool((node == node[0]).all()):
        nodes, inverse = node[:1], np.zeros(len(node), np.intp)
    else:
        nodes, inverse = np.unique(node, return_inverse=True)
    files: dict[File, int] = {}  # two nodes may have had one name
    places = np.full(len(nodes), -1, np.int64)
    for at, one in enumerate(nodes.tolist()):
        found = file_of(one) if one else named
        if found is not None:
            places[at] = files.setdefault(found, len(files))
    return places[inverse.reshape(-1)], list(files)

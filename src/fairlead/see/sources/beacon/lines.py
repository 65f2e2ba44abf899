"""A block of Beacon lines as columns: kinds, spans, times and hosts; and the tally of what could not be read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.errors import CorruptInputError
from fairlead.core.model.missing import Missing
from fairlead.see.sources.beacon.compiled import compile_kernel
from fairlead.see.sources.beacon.scan import copy_scan_spans, scan_lines
from fairlead.see.sources.line_blocks import Block

Ints = NDArray[np.int64]


@dataclass
class Words:
    """Distinct words in order of appearance, by code; at most `limit`, and more is a CorruptInputError."""

    limit: int = 1 << 20
    texts: list[str] = field(default_factory=list)
    _codes: dict[bytes | str, int] = field(default_factory=dict)
    _array: pa.Array | None = None

    def code(self, word: bytes | str) -> int:
        """Code of a word, a new one when it is new. Bytes that are not UTF-8 are replaced in its text."""
        found = self._codes.get(word)
        if found is None:
            if len(self.texts) >= self.limit:
                raise CorruptInputError(
                    f"it names more than {self.limit:,} different hosts, clients, targets or operations",
                    remedy="check that these are Beacon's lines",
                )
            found = self._codes[word] = len(self.texts)
            self.texts.append(word.decode("utf-8", "replace") if isinstance(word, bytes) else word)
        return found

    def build_column(self, codes: NDArray[np.integer[Any]]) -> pa.DictionaryArray:
        """A dictionary column of codes; a negative code is null."""
        if self._array is None or len(self._array) != len(self.texts):
            self._array = pa.array(self.texts, pa.string())
        indices = pa.array(codes.astype(np.int32, copy=False), mask=codes < 0)
        return pa.DictionaryArray.from_arrays(indices, self._array)


@dataclass
class Tally:
    """What a file could not give: unreadable lines with the first one, and counts by kind of gap."""

    unreadable: int = 0
    first_line: int | None = None
    example: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    read: int = 0

    def add(self, kind: str, count: int = 1) -> None:
        """Count something that is missing."""
        if count:
            self.counts[kind] = self.counts.get(kind, 0) + int(count)

    def count_unread(self, lines: Lines, rows: Ints) -> None:
        """Count lines that could not be read."""
        if not len(rows):
            return
        self.unreadable += len(rows)
        first = rows.min()
        line = lines.first_line + int(lines.line[first])
        if self.first_line is None or line < self.first_line:
            self.first_line = line
            a, b = lines.begin[first], lines.end[first]
            self.example = lines.data[a : min(b, a + 60)].decode("utf-8", "replace")

    def build_gap(self) -> Missing | None:
        """The unreadable lines as a Missing; None when all were read."""
        if not self.unreadable:
            return None
        plural = "line" if self.unreadable == 1 else "lines"
        return Missing(
            kind="unreadable_lines",
            what=f"{self.unreadable} {plural}",
            why=f"not in a Beacon format; the first is line {self.first_line}: {self.example!r}",
            remedy="compare it with the forms in the reference page of this source",
        )


@dataclass(frozen=True)
class Lines:
    """Columns of one block, a row per line that is not blank; `line` counts from 0. `view` is what the scanners read:
    bytes, or an array for compiled ones."""

    data: bytes
    view: Any
    fast: bool
    first_line: int
    kind: Ints
    begin: Ints
    end: Ints
    stamp_ns: Ints
    host_begin: Ints
    host_end: Ints
    line: Ints

    def select_rows(self, *kinds: int) -> Ints:
        """Rows of some kinds, in line order."""
        return np.flatnonzero(np.isin(self.kind, kinds)) if len(kinds) > 1 else np.flatnonzero(self.kind == kinds[0])

    def encode_spans(self, begins: Ints, ends: Ints) -> pa.DictionaryArray:
        """Spans of the block as dictionary-encoded bytes."""
        out = np.empty(int((ends - begins).sum()), np.uint8)
        offsets = np.empty(len(begins) + 1, np.int32)
        compile_kernel(copy_scan_spans, fast=self.fast)(self.view, begins, ends, out, offsets)
        flat = pa.BinaryArray.from_buffers(pa.binary(), len(begins), [None, pa.py_buffer(offsets), pa.py_buffer(out)])
        return flat.dictionary_encode()

    def look_up_codes(self, words: Words, begins: Ints, ends: Ints) -> Ints:
        """Codes in `words` of spans."""
        spans = self.encode_spans(begins, ends)
        lookup = np.array([words.code(w) for w in spans.dictionary.to_pylist()], np.int64)
        return lookup[spans.indices.to_numpy()] if len(lookup) else np.empty(0, np.int64)

    def encode_hosts(self, words: Words, rows: Ints, default: str | None) -> Ints:
        """Codes of the hosts that sent the lines; lines that name none get `default`, or -1."""
        begins, ends = self.host_begin[rows], self.host_end[rows]
        named = ends > begins
        if not named.any():
            return np.full(len(rows), words.code(default) if default else -1, np.int64)
        codes = self.look_up_codes(words, begins, ends)
        if not named.all():
            codes[~named] = words.code(default) if default else -1
        return codes


def scan_beacon_lines(block: Block, *, fast: bool) -> Lines:
    """Scan a block of whole lines."""
    data = block.data
    view: Any = np.frombuffer(data, np.uint8) if fast else data
    out = np.empty((data.count(b"\n") + 1, 7), np.int64)
    count = compile_kernel(scan_lines, fast=fast)(view, len(data), out)
    return Lines(data, view, fast, block.first_line, *np.ascontiguousarray(out[:count].T))

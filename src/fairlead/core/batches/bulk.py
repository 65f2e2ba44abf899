"""Many small batches at once, checked as strictly as one by one (`rows.decode_batch_rows`); columns are joined before
Arrow sees them. What is not plain (large, of an unknown table, damaged) is declined, never refused: one by one it is
judged.

Not here: why a batch is refused (`decoding`, `rows`).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.batches.decoding import check_decoded_job
from fairlead.core.batches.encoding import FORMAT, MAGIC, PREFIX, Header, compute_encoding_checksum
from fairlead.core.model.tables import OPS, TABLES, TableSpec

MOST_ROWS = 1024
"""Rows of a batch that is small."""
MOST_BYTES = 64 << 10
"""Bytes of its header, of its payload, and of its columns."""
_SHORT, _LONGEST_LAYOUT = 128, 2048
"""Bytes of words that are remembered, and of a description of columns: what senders choose must not fill the memory."""
_INT64 = 1 << 63
_COUNT = 1 << 62
_WORD, _LISTS, _INTEGERS, _FRACTIONS = "word", "i64s", "i64", "f64"
_TYPES = {_INTEGERS: np.dtype("<i8"), _FRACTIONS: np.dtype("<f8")}
_NULL_CODE = b"\xff\xff\xff\xff"


class _About(msgspec.Struct, frozen=True, gc=False):
    """The header of a batch. `columns` stays text until it is known to be new."""

    format: int
    table: str
    version: int
    node: str
    boot_id: str
    seq: int
    rows: int
    layer: str
    writer: str
    columns: msgspec.Raw
    raw_bytes: int
    checksum: str
    first_ns: int | None = None
    last_ns: int | None = None
    job: dict[str, Any] | None = None


class _Section(NamedTuple):
    """A column of a batch: its kind, whether one value stands for all rows, where it lies in the payload."""

    name: str
    kind: str
    one: bool
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class _Layout:
    sections: tuple[_Section, ...]
    size: int


class Small(NamedTuple):
    """A small batch, its sums checked: what it says of itself, where it lies in its body, its columns as bytes."""

    header: Header
    begin: int
    end: int
    raw: bytes
    layout: _Layout

    @property
    def stream(self) -> str:
        """What its `seq` counts in: node, run of its writer, table."""
        return f"{self.header.node}/{self.header.boot_id}/{self.header.table}"


_about = msgspec.json.Decoder(_About)
_described = msgspec.json.Decoder(list[tuple[str, str, int]])
_texts = msgspec.json.Decoder(tuple[str, ...])


def parse_bulk_batches(body: bytes) -> list[Small] | None:
    """The batches of `body`, when all of them are small and sound as far as can be seen before their columns are
    looked at; else None."""
    found: list[Small] = []
    at = 0
    try:
        while at < len(body):
            one = _small(body, at)
            if one is None:
                return None
            found.append(one)
            at = one.end
    except (msgspec.MsgspecError, UnicodeError, zlib.error, RecursionError):
        return None
    return found


def _small(body: bytes, at: int) -> Small | None:
    first = at + PREFIX.size
    if first > len(body):
        return None
    magic, header_bytes, payload_bytes, crc = PREFIX.unpack_from(body, at)
    begin = first + header_bytes
    end = begin + payload_bytes
    if magic != MAGIC or header_bytes > MOST_BYTES or payload_bytes > MOST_BYTES or end > len(body):
        return None
    text = body[first:begin]
    if zlib.crc32(text) != crc:
        return None
    about = _about.decode(text)
    if not _sound(about):
        return None
    payload = body[begin:end]
    if compute_encoding_checksum(payload) != about.checksum:
        return None
    layout = _layout(bytes(about.columns))
    if layout is None or layout.size != about.raw_bytes:
        return None
    raw = zlib.decompressobj().decompress(payload, about.raw_bytes + 1)
    if len(raw) != about.raw_bytes:
        return None
    header = Header(
        about.table,
        about.version,
        about.node,
        about.boot_id,
        about.seq,
        about.rows,
        about.layer,
        about.writer,
        about.first_ns,
        about.last_ns,
        check_decoded_job(about.job),
    )
    return Small(header, at, end, raw, layout)


def _sound(about: _About) -> bool:
    """Whether what a header says lies within the bounds of small batches of a table whose rows all have a time."""
    first_ns, last_ns = about.first_ns, about.last_ns
    return (
        about.format == FORMAT
        and 0 < about.rows <= MOST_ROWS
        and 0 <= about.raw_bytes <= MOST_BYTES
        and 0 <= about.seq < _COUNT
        and 0 <= about.version < _COUNT
        and (first_ns is None or -_INT64 <= first_ns < _INT64)
        and (last_ns is None or -_INT64 <= last_ns < _INT64)
        and about.table in _plain_tables()
    )


@lru_cache(maxsize=1)
def _plain_tables() -> frozenset[str]:
    """Tables whose rows all have a time: no row's day depends on its batch."""
    return frozenset(
        name
        for name, spec in TABLES.items()
        if spec.time_column is not None and not spec.schema.field(spec.time_column).nullable
    )


@lru_cache(maxsize=8192)
def _layout(text: bytes) -> _Layout | None:
    """Where each column lies, None when the columns are not described as they should be."""
    if len(text) > _LONGEST_LAYOUT:
        return None
    at, sections = 0, []
    for name, kind, length in _described.decode(text):
        one = kind.endswith("=")
        base = kind[:-1] if one else kind
        if length < 0 or base not in (_WORD, _LISTS, _INTEGERS, _FRACTIONS) or (one and base == _LISTS):
            return None
        sections.append(_Section(name, base, one, at, at + length))
        at += length
    if not sections or len({section.name for section in sections}) < len(sections):
        return None
    return _Layout(tuple(sections), at)


def build_bulk_rows(batches: Sequence[Small]) -> dict[str, pa.RecordBatch] | None:
    """The rows of all `batches` by table, in their order. None when one of them does not fit its table: then it is to
    be found out which."""
    by_table: dict[str, list[Small]] = {}
    for one in batches:
        by_table.setdefault(one.header.table, []).append(one)
    found = {}
    try:
        for name, some in by_table.items():
            made = _table(some, TABLES[name])
            if made is None:
                return None
            found[name] = made
    except (msgspec.MsgspecError, UnicodeError, pa.ArrowException, ValueError, OverflowError):
        return None
    return found


def _table(batches: Sequence[Small], spec: TableSpec) -> pa.RecordBatch | None:
    counts = np.fromiter((one.header.rows for one in batches), np.int64, len(batches))
    names = spec.schema.names
    held: dict[str, list[_Section | None]] = {}
    for number, one in enumerate(batches):
        for section in one.layout.sections:
            sections = held.get(section.name)
            if sections is None:
                if section.name not in names:
                    return None
                sections = held[section.name] = [None] * len(batches)
            sections[number] = section
    raws = [one.raw for one in batches]
    total = int(counts.sum())
    arrays = []
    for wanted in spec.schema:
        given = held.get(wanted.name)
        if given is None:
            if not wanted.nullable:
                return None
            arrays.append(pa.nulls(total, wanted.type))
            continue
        array = _joined(given, raws, counts)
        if array is None:
            return None
        if array.type != wanted.type:
            array = array.cast(wanted.type)
        if array.null_count and not wanted.nullable:
            return None
        arrays.append(array)
    made = pa.RecordBatch.from_arrays(arrays, schema=spec.schema)
    if spec is OPS and int(made.column("count").to_numpy().min()) < 1:
        return None
    return made


def _joined(sections: Sequence[_Section | None], raws: Sequence[bytes], counts: NDArray[np.int64]) -> pa.Array | None:
    """One column over all batches; a batch without it has nulls. None when it does not hold together, or when batches
    have it in different kinds."""
    kinds = {section.kind for section in sections if section is not None}
    if len(kinds) != 1:
        return None
    kind = kinds.pop()
    if kind == _WORD:
        return _words(sections, raws, counts)
    if kind == _LISTS:
        return _lists(sections, raws, counts)
    return _numbers(sections, raws, counts, _TYPES[kind])


def _numbers(
    sections: Sequence[_Section | None], raws: Sequence[bytes], counts: NDArray[np.int64], kind: np.dtype[Any]
) -> pa.Array | None:
    parts: list[bytes] = []
    marks: list[bytes] = []
    repeated: list[int] = []
    some_null = False
    for section, raw, rows in zip(sections, raws, counts.tolist(), strict=True):
        if section is None:
            parts.append(bytes(8))
            marks.append(bytes(rows))
            repeated.append(rows)
            some_null = True
            continue
        length = section.end - section.begin
        if section.one:
            if length != 8:
                return None
            parts.append(raw[section.begin : section.end])
            marks.append(b"\1" * rows)
            repeated.append(rows)
            continue
        middle = section.begin + 8 * rows
        parts.append(raw[section.begin : middle])
        if length == 9 * rows:
            marks.append(raw[middle : section.end])
            some_null = True
        elif length == 8 * rows:
            marks.append(b"\1" * rows)
        else:
            return None
        repeated.extend([1] * rows)
    values = np.frombuffer(b"".join(parts), kind)
    if len(values) < int(counts.sum()):
        values = np.repeat(values, repeated)
    valid = None
    if some_null:
        valid = pa.py_buffer(np.packbits(np.frombuffer(b"".join(marks), np.uint8) != 0, bitorder="little"))
    values = np.ascontiguousarray(values, kind.newbyteorder("="))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, pa.py_buffer(values)])


def _words(sections: Sequence[_Section | None], raws: Sequence[bytes], counts: NDArray[np.int64]) -> pa.Array | None:
    index: dict[str, int] = {}
    place: list[int] = []  # of every word of every batch, in `index`
    parts: list[bytes] = []
    repeated: list[int] = []
    bases: list[int] = []
    for section, raw, rows in zip(sections, raws, counts.tolist(), strict=True):
        bases.append(len(place))
        if section is None:
            parts.append(_NULL_CODE)
            repeated.append(rows)
            continue
        if section.one:
            words = _parsed(raw[section.begin : section.end])
            if len(words) != 1:
                return None
            parts.append(bytes(4))
            repeated.append(rows)
        else:
            middle = section.begin + 4 * rows
            if middle > section.end:
                return None
            words = _parsed(raw[middle : section.end])
            parts.append(raw[section.begin : middle])
            repeated.extend([1] * rows)
        place += [index.setdefault(word, len(index)) for word in words]
    codes = np.frombuffer(b"".join(parts), np.dtype("<i4"))
    if len(codes) < int(counts.sum()):
        codes = np.repeat(codes, repeated)
    ends = np.array([*bases[1:], len(place)])
    base = np.array(bases)
    limit, offset = np.repeat(ends - base, counts), np.repeat(base, counts)
    null = codes == -1
    if bool(((codes < -1) | (codes >= limit)).any()):
        return None
    if place:
        codes = np.where(null, 0, np.array(place, np.int32)[np.where(null, 0, codes + offset)])
    else:
        codes = np.zeros(len(codes), np.int32)
    indices = pa.array(codes.astype(np.int32, copy=False), mask=null if bool(null.any()) else None)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(index), pa.string()), safe=False)


def _parsed(text: bytes) -> tuple[str, ...]:
    return _remembered(text) if len(text) <= _SHORT else _texts.decode(text)


@lru_cache(maxsize=1 << 14)
def _remembered(text: bytes) -> tuple[str, ...]:
    return _texts.decode(text)


def _lists(sections: Sequence[_Section | None], raws: Sequence[bytes], counts: NDArray[np.int64]) -> pa.Array | None:
    lengths: list[bytes] = []
    values: list[bytes] = []
    announced: list[int] = []
    for section, raw, rows in zip(sections, raws, counts.tolist(), strict=True):
        if section is None:
            lengths.append(_NULL_CODE * rows)
            announced.append(0)
            continue
        middle = section.begin + 4 * rows
        if middle > section.end:
            return None
        lengths.append(raw[section.begin : middle])
        values.append(raw[middle : section.end])
        announced.append(section.end - middle)
    long = np.frombuffer(b"".join(lengths), np.dtype("<i4"))
    if len(long) and int(long.min()) < -1:
        return None
    held = np.maximum(long, 0).astype(np.int64)
    firsts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    if not np.array_equal(8 * np.add.reduceat(held, firsts), np.array(announced, np.int64)):
        return None
    offsets = np.zeros(len(long) + 1, np.int32)
    np.cumsum(held, out=offsets[1:], dtype=np.int32)
    flat = np.frombuffer(b"".join(values), _TYPES[_INTEGERS]).astype(np.int64, copy=False)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat), mask=pa.array(long < 0))

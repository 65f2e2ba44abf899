"""How a batch is written: columns of standard-library arrays, a JSON header, zlib. Python 3.6 or newer, nothing else.

Written where records are made (mounts, forwarders, agents).
"""

import json
import sys
import zlib
from array import array
from hashlib import blake2b
from struct import Struct
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union, cast

MAGIC = b"FLBATCH1"
PREFIX = Struct("<8sIII")
"""MAGIC, bytes of the header, bytes of the payload, CRC-32 of the header (20 bytes)."""
FORMAT = 1
LEVEL = 1
"""zlib's: the fastest. What a batch holds is mostly equal or counts up."""
BIG_ENDIAN = sys.byteorder == "big"


class Words(NamedTuple):
    """A column of words by code into `words`; -1 is null."""

    codes: "array[int]"
    words: List[str]


class Lists(NamedTuple):
    """A column of lists of integers: their lengths (-1 is null) and all values after each other."""

    lengths: "array[int]"
    values: "array[int]"


class Numbers(NamedTuple):
    """A column of numbers; `valid` has one byte a row (0 is null), or is None when no row is."""

    values: "Union[array[int], array[float]]"
    valid: Optional[bytes] = None


Column = Union[Words, Lists, Numbers]


class Header(NamedTuple):
    """What a batch says of itself. (node, boot_id, seq, table) names it for ever; `boot_id` is one run of one writer.

    `layer` is where it was recorded: `client`, `forwarder`, or `agent`. `job` describes the job all its rows are of, by
    the fields of `fairlead.core.model.job.Job`, when there is one."""

    table: str
    version: int
    node: str
    boot_id: str
    seq: int
    rows: int
    layer: str = "client"
    writer: str = ""
    first_ns: Optional[int] = None
    last_ns: Optional[int] = None
    job: Optional[Dict[str, object]] = None


def encode_words(values: Sequence[Optional[str]]) -> Words:
    """A column of words from the words themselves."""
    index: Dict[str, int] = {}
    codes = array("i", [-1 if v is None else index.setdefault(v, len(index)) for v in values])
    return Words(codes, list(index))


def encode_same_word(word: Optional[str], rows: int) -> Words:
    """A column of one word, or of nulls."""
    return Words(array("i", [-1]) * rows, []) if word is None else Words(array("i", [0]) * rows, [word])


def encode_numbers(values: Sequence[Optional[int]]) -> Numbers:
    """A column of integers, some of them perhaps unknown."""
    if None in values:
        return Numbers(array("q", [v or 0 for v in values]), bytes([v is not None for v in values]))
    return Numbers(array("q", cast("Sequence[int]", values)))


def encode_fractions(values: Sequence[Optional[float]]) -> Numbers:
    """A column of floating-point numbers, some of them perhaps unknown."""
    if None in values:
        return Numbers(array("d", [v or 0.0 for v in values]), bytes([v is not None for v in values]))
    return Numbers(array("d", cast("Sequence[float]", values)))


def encode_lists(values: Sequence[Optional[Sequence[int]]]) -> Lists:
    """A column of lists of integers."""
    flat: "array[int]" = array("q")
    for value in values:
        flat.extend(value or ())
    return Lists(array("i", [-1 if v is None else len(v) for v in values]), flat)


def encode_batch(header: Header, columns: Mapping[str, Column]) -> bytes:
    """The bytes of a batch; every column has `header.rows` rows."""
    described: List[List[object]] = []
    sections: List[bytes] = []
    for name, column in columns.items():
        if isinstance(column, Numbers) and column.valid is not None and 1 not in column.valid:
            continue  # null throughout
        kind, section = _section(column, header.rows)
        described.append([name, kind, len(section)])
        sections.append(section)
    raw = b"".join(sections)
    payload = zlib.compress(raw, LEVEL)
    about: Dict[str, Any] = {
        "format": FORMAT,
        "table": header.table,
        "version": header.version,
        "node": header.node,
        "boot_id": header.boot_id,
        "seq": header.seq,
        "rows": header.rows,
        "layer": header.layer,
        "writer": header.writer,
        "first_ns": header.first_ns,
        "last_ns": header.last_ns,
        "job": header.job,
        "columns": described,
        "raw_bytes": len(raw),
        "checksum": compute_encoding_checksum(payload),
    }
    text = json.dumps(about, ensure_ascii=True, separators=(",", ":")).encode()
    return PREFIX.pack(MAGIC, len(text), len(payload), zlib.crc32(text)) + text + payload


def compute_encoding_checksum(payload: bytes) -> str:
    """BLAKE2b-16 of a compressed payload, in hex."""
    return blake2b(payload, digest_size=16).hexdigest()


def _section(column: Column, rows: int) -> Tuple[str, bytes]:
    if isinstance(column, Words):
        assert len(column.codes) == rows  # noqa: S101  (a broken invariant of the writer)
        codes = column.codes
        if rows and codes[0] >= 0 and _is_one(codes):
            return "word=", json.dumps([column.words[codes[0]]]).encode()
        text = json.dumps(column.words, ensure_ascii=True, separators=(",", ":")).encode()
        return "word", _bytes(codes) + text
    if isinstance(column, Lists):
        assert len(column.lengths) == rows  # noqa: S101
        return "i64s", _bytes(column.lengths) + _bytes(column.values)
    assert len(column.values) == rows  # noqa: S101
    kind = "f64" if column.values.typecode == "d" else "i64"
    if rows and column.valid is None and _is_one(column.values):
        return kind + "=", _bytes(column.values[:1])
    return kind, _bytes(column.values) + (column.valid or b"")


def _is_one(values: "Union[array[int], array[float]]") -> bool:
    """Whether all values are the same, told by their bytes."""
    data = values.tobytes()
    return data == data[: values.itemsize] * len(values)


def _bytes(values: "Union[array[int], array[float]]") -> bytes:
    if BIG_ENDIAN:
        values = values[:]
        values.byteswap()
    return values.tobytes()

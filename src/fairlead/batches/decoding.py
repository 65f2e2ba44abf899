"""How a batch is read back: every byte checked before it is believed. Standard library only.

Not here: the columns as Arrow (`rows`).
"""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from fairlead.batches.encoding import BIG_ENDIAN, FORMAT, MAGIC, PREFIX, Column, Header, Lists, Numbers, Words, checksum
from fairlead.errors import CorruptInputError, UnsupportedVersionError

MAX_HEADER = 4 << 20
MAX_PAYLOAD = 256 << 20
MAX_RAW = 1 << 30
"""Bytes of all columns of a batch once decompressed, at most."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A decoded batch."""

    header: Header
    columns: dict[str, Column] = field(default_factory=dict)


def _array(typecode: str, data: bytes) -> array[int]:
    values: array[int] = array(typecode)
    values.frombytes(data)
    if BIG_ENDIAN:
        values.byteswap()
    return values


def headers(stream: BinaryIO, where: str) -> Iterator[Header]:
    """The headers of the batches in a stream, their payloads skipped. Raises as `batches`."""
    while (found := _next(stream, where)) is not None:
        about, payload_bytes = found
        yield _header(about, where)
        stream.seek(payload_bytes, 1)


def batches(stream: BinaryIO, where: str) -> Iterator[Batch]:
    """The batches in a stream, one after the other, each checked in full.

    Raises CorruptInputError at the first that is cut off or does not hold together, UnsupportedVersionError at one of
    a newer format.
    """
    while (found := _next(stream, where)) is not None:
        about, payload_bytes = found
        payload = stream.read(payload_bytes)
        if len(payload) < payload_bytes:
            raise _broken("a batch ends early", where)
        if checksum(payload) != about.get("checksum"):
            raise _broken("the checksum of a batch does not hold", where)
        header = _header(about, where)
        yield Batch(header, dict(_columns(about, _inflated(payload, about, where), header.rows, where)))


def _broken(what: str, where: str) -> CorruptInputError:
    return CorruptInputError(what, where=where, remedy="copy it again from the spool it was written to")


def _next(stream: BinaryIO, where: str) -> tuple[dict[str, object], int] | None:
    prefix = stream.read(PREFIX.size)
    if not prefix:
        return None
    if len(prefix) < PREFIX.size:
        raise _broken("a batch ends early", where)
    magic, header_bytes, payload_bytes, crc = PREFIX.unpack(prefix)
    if magic[:-1] == MAGIC[:-1] and magic != MAGIC:
        raise UnsupportedVersionError("batches of a newer format", where=where, remedy="upgrade fairlead")
    if magic != MAGIC or header_bytes > MAX_HEADER or payload_bytes > MAX_PAYLOAD:
        raise _broken("where a batch should begin there is none", where)
    text = stream.read(header_bytes)
    if len(text) < header_bytes:
        raise _broken("a batch ends early", where)
    if zlib.crc32(text) != crc:
        raise _broken("the header of a batch is damaged", where)
    try:
        about = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise _broken("the header of a batch is no JSON", where) from fault
    if not isinstance(about, dict):
        raise _broken("the header of a batch is no object", where)
    if about.get("format") != FORMAT:
        raise UnsupportedVersionError(
            f"batches of format {about.get('format')!r}", where=where, remedy="upgrade fairlead"
        )
    return about, payload_bytes


def _header(about: dict[str, object], where: str) -> Header:
    texts = {name: about.get(name) for name in ("table", "node", "boot_id", "layer", "writer")}
    counts = {name: about.get(name) for name in ("version", "seq", "rows")}
    times = {name: about.get(name) for name in ("first_ns", "last_ns")}
    job = about.get("job")
    sound = (
        all(isinstance(value, str) for value in texts.values())
        and all(_is_count(value) for value in counts.values())
        and all(value is None or _is_int64(value) for value in times.values())
        and (job is None or isinstance(job, dict))
    )
    if not sound:
        raise _broken("the header of a batch lacks what it must say", where)
    return Header(**texts, **counts, **times, job=job)  # type: ignore[arg-type]


def _is_int64(value: object) -> bool:
    return type(value) is int and -(1 << 63) <= value < 1 << 63


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _inflated(payload: bytes, about: dict[str, object], where: str) -> bytes:
    expected = about.get("raw_bytes")
    if type(expected) is not int or not 0 <= expected <= MAX_RAW:
        raise _broken("the header of a batch gives an impossible size", where)
    try:
        # One byte more than announced is enough to see that there is more.
        raw = zlib.decompressobj().decompress(payload, expected + 1)
    except zlib.error as fault:
        raise _broken(f"the payload of a batch is broken ({fault})", where) from fault
    if len(raw) != expected:
        raise _broken("the payload of a batch is not of the size announced", where)
    return raw


def _columns(about: dict[str, object], raw: bytes, rows: int, where: str) -> Iterator[tuple[str, Column]]:
    described = about.get("columns")
    if not isinstance(described, list):
        raise _broken("the header of a batch names no columns", where)
    at = 0
    for one in described:
        if not (isinstance(one, list) and len(one) == 3 and isinstance(one[0], str) and _is_count(one[2])):
            raise _broken("the header of a batch describes no column where it should", where)
        name, kind, length = one
        section = raw[at : at + length]
        at += length
        column = _column(kind, section, rows) if len(section) == length else None
        if column is None:
            raise _broken(f"column {name} of a batch does not fit its {rows} rows", where)
        yield name, column
    if at != len(raw):
        raise _broken("a batch holds more than its columns", where)


def _column(kind: object, section: bytes, rows: int) -> Column | None:
    """The column in a section, None when it does not hold together."""
    if kind in ("i64=", "f64=", "word="):
        return _one_value(kind[:-1], section, rows)
    if kind in ("i64", "f64"):
        if len(section) not in (8 * rows, 9 * rows):
            return None
        return Numbers(_array("q" if kind == "i64" else "d", section[: 8 * rows]), section[8 * rows :] or None)
    if kind not in ("word", "i64s") or len(section) < 4 * rows:
        return None
    codes = _array("i", section[: 4 * rows])
    rest = section[4 * rows :]
    lowest = min(codes, default=-1)
    if lowest < -1:
        return None
    if kind == "i64s":
        if len(rest) != 8 * sum(length for length in codes if length > 0):
            return None
        return Lists(codes, _array("q", rest))
    try:
        found = json.loads(rest)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        return None
    return Words(codes, found) if max(codes, default=-1) < len(found) else None


def _one_value(kind: str, section: bytes, rows: int) -> Column | None:
    """A column of one value for all rows."""
    if rows * 8 > MAX_RAW:
        return None
    if kind != "word":
        return Numbers(_array("q" if kind == "i64" else "d", section) * rows) if len(section) == 8 else None
    try:
        found = json.loads(section)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or len(found) != 1 or not isinstance(found[0], str):
        return None
    return Words(array("i", [0]) * rows, found)

"""How a batch is read back: every byte checked before it is believed. Columns are NumPy arrays, never a value each.

Not here: the columns as Arrow (`rows`).
"""

from __future__ import annotations

import json
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, BinaryIO

import numpy as np

from fairlead.core.batches.encoding import (
    FORMAT,
    MAGIC,
    PREFIX,
    Column,
    Header,
    Lists,
    Numbers,
    Words,
    compute_encoding_checksum,
)
from fairlead.core.errors import CorruptInputError, OversizeError, UnsupportedVersionError

MAX_HEADER = 4 << 20
MAX_PAYLOAD = 256 << 20
MAX_RAW = 1 << 30
"""Bytes of all columns of a batch once decompressed, at most."""
MAX_COLUMNS = 1024
MAX_BATCHES = 20_000
"""Of one body."""
_LONGEST_TEXT, _LONGEST_JOB = 4096, 64 << 10

_KINDS = {"i64": np.dtype("<i8"), "f64": np.dtype("<f8")}
_CODES = np.dtype("<i4")


@dataclass(frozen=True, slots=True)
class Batch:
    """A decoded batch. Its columns are those of `encoding` with NumPy arrays in the place of `array`.

    `raw_bytes` is about what it takes in memory: its columns once decompressed, and what rows of its table take beside
    them (values told once for all rows, columns it leaves out); `begin` and `end` say where it lies in the body it came
    in (0 when it came from a stream)."""

    header: Header
    columns: dict[str, Column] = field(default_factory=dict)
    raw_bytes: int = 0
    begin: int = 0
    end: int = 0


def _array(kind: np.dtype[Any], data: bytes) -> Any:
    """The values in `data`, which is not copied on a little-endian machine."""
    return np.frombuffer(data, kind).astype(kind.newbyteorder("="), copy=False)


def decode_body_batches(body: bytes | memoryview, where: str, limit: int = MAX_RAW) -> Iterator[Batch]:
    """The batches of a body that is in memory, as `decode_stream_batches` gives those of a stream; each says where it
    lies.

    Raises OversizeError before much more than `limit` bytes of memory are taken for the whole body, and for one of more
    than MAX_BATCHES."""
    at = used = count = 0
    view = memoryview(body)
    while at < len(view):
        about, first, end = _at(view, at, where)
        count += 1
        if count > MAX_BATCHES and limit <= MAX_RAW:  # the log joins bodies, and is read without limit
            raise OversizeError(f"more than {MAX_BATCHES} batches", where=where, remedy="send fewer at a time")
        batch = _whole(about, view[first:end], where, limit - used)
        # What it says of itself is kept for a while, too.
        batch = replace(batch, raw_bytes=batch.raw_bytes + first - at, begin=at, end=end)
        used += batch.raw_bytes
        yield batch
        at = end


def decode_body_headers(body: bytes | memoryview, where: str) -> Iterator[tuple[Header, int, int]]:
    """Header, begin and end of the batches of a body that is in memory. Raises as `decode_stream_batches`."""
    at = 0
    view = memoryview(body)
    while at < len(view):
        about, _, end = _at(view, at, where)
        yield _header(about, where), at, end
        at = end


def _announced(about: dict[str, object], rows: int) -> int:
    """Bytes it takes in memory at least, as far as what it says can be believed: a column of one value is short on the
    wire and as long as any other here, and so is one that is left out. Those of few rows share their memory."""
    raw, columns = about.get("raw_bytes"), about.get("columns")
    if type(raw) is not int or not isinstance(columns, list):
        return 0  # refused where they are read
    if rows <= _FEW_ROWS:
        return max(raw, 0)
    told = [one for one in columns if isinstance(one, list) and len(one) == 3]
    constant = sum(str(one[1]).endswith("=") for one in told)
    names = {one[0] for one in told if isinstance(one[0], str)}
    left_out = sum(width for name, width in _optional(str(about.get("table"))).items() if name not in names)
    return max(raw, 0) + rows * (8 * constant + left_out)


@lru_cache(maxsize=64)
def _optional(table: str) -> Mapping[str, int]:
    """Columns of a table that a batch may leave out, and what a null of them takes."""
    from fairlead.core.model.tables import TABLES

    schema = TABLES[table].schema if table in TABLES else ()
    return {one.name: 8 if str(one.type) in ("int64", "double") else 4 for one in schema if one.nullable}


@lru_cache(maxsize=64)
def _texts(table: str) -> frozenset[str]:
    """Columns of a table that hold each text as it is, not a code for it."""
    from fairlead.core.model.tables import TABLES

    return (
        frozenset(one.name for one in TABLES[table].schema if str(one.type) == "string")
        if table in TABLES
        else frozenset()
    )


def _at(view: memoryview, at: int, where: str) -> tuple[dict[str, object], int, int]:
    """What the batch at `at` says of itself, where its payload begins and where it ends."""
    header_bytes, payload_bytes, crc = _prefix(bytes(view[at : at + PREFIX.size]), where)
    first = at + PREFIX.size + header_bytes
    if first + payload_bytes > len(view):
        raise _broken("a batch ends early", where)
    return _about(bytes(view[at + PREFIX.size : first]), crc, where), first, first + payload_bytes


def decode_stream_headers(stream: BinaryIO, where: str) -> Iterator[Header]:
    """The headers of the batches in a stream, their payloads skipped. Raises as `decode_stream_batches`."""
    while (found := _next(stream, where)) is not None:
        about, payload_bytes = found
        yield _header(about, where)
        stream.seek(payload_bytes, 1)


def decode_stream_batches(stream: BinaryIO, where: str) -> Iterator[Batch]:
    """The batches in a stream, one after the other, each checked in full.

    Raises CorruptInputError at the first that is cut off or does not hold together, UnsupportedVersionError at one of
    a newer format.
    """
    while (found := _next(stream, where)) is not None:
        about, payload_bytes = found
        payload = stream.read(payload_bytes)
        if len(payload) < payload_bytes:
            raise _broken("a batch ends early", where)
        yield _whole(about, payload, where, MAX_RAW)


def _whole(about: dict[str, object], payload: bytes | memoryview, where: str, limit: int) -> Batch:
    """The batch, which takes `limit` bytes at most."""
    if compute_encoding_checksum(payload) != about.get("checksum"):  # type: ignore[arg-type]  # (any buffer can be hashed)
        raise _broken("the checksum of a batch does not match", where)
    header = _header(about, where)
    size = _announced(about, header.rows)
    if size > limit:
        raise _large(limit, where)
    raw = _inflated(payload, about, where)
    columns: dict[str, Column] = {}
    for name, column, made in _columns(about, raw, header.rows, where):
        size += made
        if isinstance(column, Words) and name in _texts(header.table):
            size += _length(column)
        if size > limit:
            raise _large(limit, where)
        columns[name] = column
    return Batch(header, columns, size)


def _large(limit: int, where: str) -> OversizeError:
    what = (
        f"batches that take more than {limit >> 20} MiB of memory"
        if limit >= 0
        else "batches that take too much memory"
    )
    return OversizeError(what, where=where, remedy="send fewer rows at once")


def _length(column: Words) -> int:
    """Bytes of all texts of a column, each as often as it is in it."""
    codes: Any = column.codes
    lengths = np.fromiter((len(word.encode("utf-8", "surrogatepass")) for word in column.words), np.int64)
    return int(lengths[codes[codes >= 0]].sum()) if len(lengths) else 0


def _broken(what: str, where: str) -> CorruptInputError:
    return CorruptInputError(what, where=where, remedy="copy it again from the spool it was written to")


def _next(stream: BinaryIO, where: str) -> tuple[dict[str, object], int] | None:
    prefix = stream.read(PREFIX.size)
    if not prefix:
        return None
    header_bytes, payload_bytes, crc = _prefix(prefix, where)
    return _about(stream.read(header_bytes), crc, where, header_bytes), payload_bytes


def _prefix(prefix: bytes, where: str) -> tuple[int, int, int]:
    """Bytes of the header, bytes of the payload, checksum of the header."""
    if len(prefix) < PREFIX.size:
        raise _broken("a batch ends early", where)
    magic, header_bytes, payload_bytes, crc = PREFIX.unpack(prefix)
    if magic[:-1] == MAGIC[:-1] and magic != MAGIC:
        raise UnsupportedVersionError("batches of a newer format", where=where, remedy="upgrade fairlead")
    if magic != MAGIC or header_bytes > MAX_HEADER or payload_bytes > MAX_PAYLOAD:
        raise _broken("no batch where one should begin", where)
    return header_bytes, payload_bytes, crc


def _about(text: bytes, crc: int, where: str, length: int | None = None) -> dict[str, object]:
    if length is not None and len(text) < length:
        raise _broken("a batch ends early", where)
    if zlib.crc32(text) != crc:
        raise _broken("the header of a batch is damaged", where)
    try:
        about = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise _broken("the header of a batch is not JSON", where) from fault
    if not isinstance(about, dict):
        raise _broken("the header of a batch is not a JSON object", where)
    if about.get("format") != FORMAT:
        raise UnsupportedVersionError(
            f"batches of format {about.get('format')!r}", where=where, remedy="upgrade fairlead"
        )
    return about


def _header(about: dict[str, object], where: str) -> Header:
    texts = {name: about.get(name) for name in ("table", "node", "boot_id", "layer", "writer")}
    counts = {name: about.get(name) for name in ("version", "seq", "rows")}
    times = {name: about.get(name) for name in ("first_ns", "last_ns")}
    job = about.get("job")
    sound = (
        all(isinstance(value, str) and _is_text(value) for value in texts.values())
        and all(_is_count(value) for value in counts.values())
        and all(value is None or _is_int64(value) for value in times.values())
        and (job is None or isinstance(job, dict))
    )
    if not sound:
        raise _broken("the header of a batch lacks required fields", where)
    return Header(**texts, **counts, **times, job=check_decoded_job(job))  # type: ignore[arg-type]


def _is_text(value: str) -> bool:
    """Whether it can be kept: what JSON calls a string may be no text (half of a surrogate pair)."""
    try:
        return len(value.encode()) <= _LONGEST_TEXT
    except UnicodeEncodeError:
        return False


def check_decoded_job(job: object) -> dict[str, object] | None:
    """What is said of a job, None when it cannot be kept as it is: that takes nothing away from the rows."""
    if not job:
        return None
    try:
        text = json.dumps(job, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return None
    fits = len(text) <= _LONGEST_JOB and all(type(v) is not int or _is_int64(v) for v in job.values())  # type: ignore[attr-defined]
    return job if fits else None  # type: ignore[return-value]


def _is_int64(value: object) -> bool:
    return type(value) is int and -(1 << 63) <= value < 1 << 63


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _inflated(payload: bytes | memoryview, about: dict[str, object], where: str) -> bytes:
    expected = about.get("raw_bytes")
    if type(expected) is not int or not 0 <= expected <= MAX_RAW:
        raise _broken("the header of a batch has an impossible size", where)
    try:
        # One byte more than announced is enough to see that there is more.
        raw = zlib.decompressobj().decompress(payload, expected + 1)
    except zlib.error as fault:
        raise _broken(f"the payload of a batch is broken ({fault})", where) from fault
    if len(raw) != expected:
        raise _broken("the payload of a batch does not have the announced size", where)
    return raw


def _columns(about: dict[str, object], raw: bytes, rows: int, where: str) -> Iterator[tuple[str, Column, int]]:
    """Name, column, and bytes that were made for it (few rows of one value only; more were announced)."""
    described = about.get("columns")
    if not isinstance(described, list):
        raise _broken("the header of a batch names no columns", where)
    if len(described) > MAX_COLUMNS:
        raise _broken("a batch of too many columns", where)
    at = 0
    for one in described:
        if (
            not (isinstance(one, list) and len(one) == 3 and isinstance(one[0], str) and _is_count(one[2]))
            or len(one[0]) > 255
        ):
            raise _broken("the header of a batch has an invalid column description", where)
        name, kind, length = one
        section = raw[at : at + length]
        at += length
        column, made = _column(kind, section, rows) if len(section) == length else (None, 0)
        if column is None:
            raise _broken(f"column {name} of a batch does not fit its {rows} rows", where)
        yield name, column, made
    if at != len(raw):
        raise _broken("a batch has trailing data after its columns", where)


def _column(kind: object, section: bytes, rows: int) -> tuple[Column | None, int]:
    """The column in a section, None when it does not hold together, and the bytes made for it."""
    if kind in ("i64=", "f64=", "word="):
        return _one_value(kind[:-1], section, rows)
    return _many_values(kind, section, rows), 0


def _many_values(kind: object, section: bytes, rows: int) -> Column | None:
    if kind in ("i64", "f64"):
        if len(section) not in (8 * rows, 9 * rows):
            return None
        valid = section[8 * rows :] or None
        return Numbers(_array(_KINDS[kind], section if valid is None else section[: 8 * rows]), valid)
    if kind not in ("word", "i64s") or len(section) < 4 * rows:
        return None
    codes = _array(_CODES, section[: 4 * rows])
    if rows and codes.min() < -1:
        return None
    if kind == "i64s":
        if len(section) - 4 * rows != 8 * int(np.maximum(codes, 0).sum(dtype=np.int64)):
            return None
        return Lists(codes, _array(_KINDS["i64"], section[4 * rows :]))
    words = _words(section[4 * rows :])
    return Words(codes, words) if words is not None and (not rows or codes.max() < len(words)) else None


def _words(text: bytes) -> list[str] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) and all(isinstance(word, str) for word in found) else None


def _one_value(kind: str, section: bytes, rows: int) -> tuple[Column | None, int]:
    """A column of one value for all rows, and the bytes made for it."""
    if rows * 8 > MAX_RAW:
        return None, 0
    if kind != "word":
        if len(section) != 8:
            return None, 0
        values, made = _constant(section, kind, rows)
        return Numbers(values), made
    words = _words(section)
    if words is None or len(words) != 1:
        return None, 0
    codes, made = _constant(bytes(4), "word", rows)
    return Words(codes, words), made


_FEW_ROWS = 1 << 14
_SHARED_BYTES = 16 << 20
_turn = threading.Lock()
_shared: OrderedDict[tuple[bytes, str, int], Any] = OrderedDict()
_held = [0]


def _constant(value: bytes, kind: str, rows: int) -> tuple[Any, int]:
    """One value for all rows, and the bytes made for it. Most batches have few rows and the same constants: those share
    their memory, with others of about as many rows (a batch of one row must not keep more alive than it says)."""
    if rows > _FEW_ROWS:
        return _repeated(value, kind, rows), 0
    key = (value, kind, 1 << max(rows - 1, 0).bit_length())
    with _turn:
        known = _shared.get(key)
        if known is not None:
            _shared.move_to_end(key)
            return known[:rows], 0
    made = _repeated(*key)
    with _turn:
        if key not in _shared:
            _shared[key] = made
            _held[0] += made.nbytes
        while _held[0] > _SHARED_BYTES:
            _held[0] -= _shared.popitem(last=False)[1].nbytes
    return made[:rows], made.nbytes


def _repeated(value: bytes, kind: str, rows: int) -> Any:
    one = _array(_KINDS.get(kind, _CODES), value)
    values = np.full(rows, one[0])
    values.flags.writeable = False
    return values

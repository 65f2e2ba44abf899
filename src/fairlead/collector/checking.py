"""The bytes of a request as checked batches: every one held against its sums, its table, its sender and the clock.

All or none: the first that does not hold refuses the whole body. Not here: keeping them (`intake`).
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from fairlead.batches import decoding
from fairlead.batches.encoding import FORMAT, MAGIC, PREFIX, Header
from fairlead.batches.rows import rows_of
from fairlead.collector.refusal import Refusal, of_error
from fairlead.collector.settings import Limits
from fairlead.errors import InputError, UnsupportedVersionError
from fairlead.model.missing import Missing
from fairlead.model.tables import TABLES

MAX_ROWS = 4_000_000
"""Rows of all batches of a body: a column of one value takes no room on the wire, but does here."""
MAX_BATCHES = 20_000
_SECOND_NS = 1_000_000_000
_DAY_NS = 86_400 * _SECOND_NS
_NAME_LONG = 255
_BREAKS = frozenset("/\x00\n\r")


@dataclass(frozen=True, slots=True)
class Found:
    """A batch of a body as its header tells: where its bytes lie, who made it."""

    at: int
    end: int
    table: str
    version: int
    node: str
    boot_id: str
    seq: int
    rows: int
    last_ns: int | None

    @property
    def stream(self) -> str:
        """Its stream in the lake; with `seq` it is its name for ever."""
        return f"{self.node}/{self.boot_id}/{self.table}"


@dataclass(frozen=True, slots=True)
class Checked:
    """A batch that may be taken. `rows` None: of a table this fairlead does not know."""

    found: Found
    header: Header
    rows: pa.RecordBatch | None
    data: memoryview
    missing: tuple[Missing, ...] = ()


def scan(body: bytes, limits: Limits, node: str, now_ns: int) -> list[Found]:
    """What a body says it holds, nothing decompressed yet. `node`: the only one the sender may speak for; empty: any.
    Raises Refusal 400, 403, 410, 413, 426."""
    found: list[Found] = []
    at = raw = rows = 0
    while at < len(body):
        one, raw_bytes = _one(body, at)
        raw += raw_bytes
        rows += one.rows
        if raw > limits.raw_bytes or rows > MAX_ROWS or len(found) >= MAX_BATCHES:
            raise Refusal(
                413, f"more than {limits.raw_bytes} bytes, {MAX_ROWS} rows or {MAX_BATCHES} batches in one body",
                where=one.stream, remedy="send fewer batches at a time",
            )  # fmt: skip
        if node and one.node != node:
            raise Refusal(403, f"the token is for {node}", where=one.stream, remedy="give each node its own token")
        if one.last_ns is not None and one.last_ns < now_ns - limits.remembered_days * _DAY_NS:
            raise Refusal(
                410, f"older than the {limits.remembered_days} days a server remembers", where=one.stream,
                remedy="check the node's clock; feed old records by hand: fairlead ingest",
            )  # fmt: skip
        found.append(one)
        at = one.end
    if not found:
        raise Refusal(400, "the body is empty", remedy="send at least one batch")
    return found


def _one(body: bytes, at: int) -> tuple[Found, int]:
    if len(body) - at < PREFIX.size:
        raise _malformed("a batch ends early", at)
    magic, header_bytes, payload_bytes, crc = PREFIX.unpack_from(body, at)
    if magic != MAGIC:
        if magic[:-1] == MAGIC[:-1]:
            raise _too_new("batches of a newer format", at)
        raise _malformed("where a batch should begin there is none", at)
    if header_bytes > decoding.MAX_HEADER or payload_bytes > decoding.MAX_PAYLOAD:
        raise Refusal(413, "a batch announces more than a batch may hold", where=_place(at))
    end = at + PREFIX.size + header_bytes + payload_bytes
    text = body[at + PREFIX.size : at + PREFIX.size + header_bytes]
    if end > len(body):
        raise _malformed("a batch ends early", at)
    if zlib.crc32(text) != crc:
        raise _malformed("the header of a batch is damaged", at)
    try:
        about = json.loads(text)
    except (ValueError, RecursionError):
        about = None
    if not isinstance(about, dict):
        raise _malformed("the header of a batch is no JSON object", at)
    if type(about.get("format")) is int and about["format"] > FORMAT:
        raise _too_new(f"batches of format {about['format']}", at)
    raw_bytes = about.get("raw_bytes")
    if not _is_count(raw_bytes):
        raise _malformed("the header of a batch lacks what it must say", at)
    if raw_bytes > decoding.MAX_RAW:  # type: ignore[operator]
        raise Refusal(413, "a batch announces more than a batch may hold", where=_place(at))
    return _found(about, at, end), raw_bytes  # type: ignore[return-value]


def _found(about: dict[str, object], at: int, end: int) -> Found:
    table, node, boot_id = (about.get(name) for name in ("table", "node", "boot_id"))
    version, seq, rows, last_ns = (about.get(name) for name in ("version", "seq", "rows", "last_ns"))
    sound = (
        all(_is_name(name) for name in (table, node, boot_id))
        and all(_is_count(number) for number in (version, seq, rows))
        and (last_ns is None or type(last_ns) is int)
    )
    if not sound:
        raise _malformed("the header of a batch lacks what it must say", at)
    return Found(at, end, table, version, node, boot_id, seq, rows, last_ns)  # type: ignore[arg-type]


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _NAME_LONG and not _BREAKS & set(value) and _is_text(value)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _place(at: int) -> str:
    return f"byte {at} of the body"


def _malformed(what: str, at: int) -> Refusal:
    return Refusal(400, what, where=_place(at), remedy="send the file as it lies in the spool")


def _too_new(what: str, at: int) -> Refusal:
    return Refusal(426, what, where=_place(at), remedy="upgrade the server")


def check(body: bytes, found: Found, limits: Limits, now_ns: int) -> Checked:
    """One batch of a body, in full. Raises Refusal 400, 422, 426."""
    data = memoryview(body)[found.at : found.end]
    where = f"{found.stream}/{found.seq}"
    try:
        batch = next(decoding.batches(io.BytesIO(data), where))
    except UnsupportedVersionError as error:
        raise of_error(error, 426) from error
    except InputError as error:
        raise of_error(error, 400) from error
    if found.table not in TABLES:
        return Checked(found, batch.header, None, data, tuple(_missing(rows_of(batch, where))))
    try:
        items = list(rows_of(batch, where))
    except InputError as error:
        raise of_error(error, 422) from error
    except (pa.ArrowException, KeyError, ValueError, OverflowError) as error:
        raise Refusal(422, f"a batch does not fit its table: {str(error).splitlines()[0]}", where=where) from error
    rows = next(item for item in items if not isinstance(item, Missing))
    _check_times(rows, found, limits, now_ns, where)
    return Checked(found, batch.header, rows, data, tuple(_missing(items)))


def _missing(items: object) -> list[Missing]:
    return [item for item in items if isinstance(item, Missing)]  # type: ignore[attr-defined]


def _check_times(rows: pa.RecordBatch, found: Found, limits: Limits, now_ns: int, where: str) -> None:
    column = TABLES[found.table].time_column
    if column is None or rows.num_rows == 0:
        return
    ends = pc.min_max(rows.column(column)).as_py()
    if ends["max"] is None:
        return
    if ends["max"] > now_ns + limits.refused_rows_after_now_s * _SECOND_NS:
        ahead_s = (ends["max"] - now_ns) // _SECOND_NS
        raise Refusal(422, f"rows dated {ahead_s} s after now", where=where, remedy="set the clock of the node")
    if ends["min"] < 0:
        raise Refusal(422, "rows dated before 1970", where=where, remedy="set the clock of the node")


Known = Callable[[str, int], bool]
"""Whether the lake has batch (stream, seq)."""


def check_all(
    body: bytes, limits: Limits, *, node: str, known: Known, now_ns: int
) -> tuple[list[Checked], list[Found]]:
    """The batches of a body that are to be taken, and those known before (not looked into again). Raises Refusal."""
    new: list[Checked] = []
    old: list[Found] = []
    for found in scan(body, limits, node, now_ns):
        if known(found.stream, found.seq):
            old.append(found)
        else:
            new.append(check(body, found, limits, now_ns))
    return new, old

"""The body of a Prometheus remote-write request (protocol 1.0): snappy over a WriteRequest, decoded by hand.

Not here: what a series means (`mapping`). Labels are given as the bytes they came in: they are the same each time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import cramjam

from fairlead.core.errors import CorruptInputError

_DOUBLE = struct.Struct("<d")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SERIES, _LABELS, _SAMPLES = 0x0A, 0x0A, 0x12
MOST = 500_000
"""Series and samples of one message: few bytes can be many of them. Prometheus sends some thousands."""
LONGEST_LABELS = 64 << 10
"""Of one series, which is remembered by them."""
Sample = tuple[int, float]
"""Milliseconds since the epoch, and the value."""


def inflate_protobuf_body(body: bytes, most_bytes: int) -> bytes:
    """The message in a body. Raises CorruptInputError; nothing larger than `most_bytes` is made."""
    try:
        size = cramjam.snappy.decompress_raw_len(body)
        if size > most_bytes:
            raise _broken(f"it holds {size} bytes, more than {most_bytes}")
        return bytes(cramjam.snappy.decompress_raw(body))
    except cramjam.DecompressionError as fault:
        raise _broken(f"it is not a snappy block ({fault})") from fault


def parse_protobuf_series(message: bytes) -> Iterator[tuple[bytes, list[Sample]]]:
    """The label bytes and samples of each time series. Raises CorruptInputError."""
    at, end, count = 0, len(message), 0
    try:
        while at < end:
            tag, at = _varint(message, at)
            if tag == _SERIES:
                size, at = _varint(message, at)
                stop = at + size
                if stop > end:
                    raise _broken("a series ends early")
                found = _series(message, at, stop)
                count += 1 + len(found[1])
                if count > MOST:
                    raise _broken(f"it holds more than {MOST} samples")
                yield found
                at = stop
            else:
                at = _skipped(message, at, tag)
    except (IndexError, struct.error) as fault:
        raise _broken("it ends early") from fault
    if at != end:
        raise _broken("it ends early")


def parse_protobuf_labels(data: bytes) -> dict[str, str]:
    """Names and values from the label bytes of a series. Raises CorruptInputError."""
    labels: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            _, at = _varint(data, at)
            size, at = _varint(data, at)
            pair = _fields(data[at : at + size])
            labels[pair.get(1, b"").decode("utf-8", "replace")] = pair.get(2, b"").decode("utf-8", "replace")
            at += size
    except IndexError as fault:
        raise _broken("a label ends early") from fault
    return labels


def _series(message: bytes, at: int, stop: int) -> tuple[bytes, list[Sample]]:
    begin = at
    while at < stop and message[at] == _LABELS:
        size = message[at + 1]
        at += 2
        if size > 0x7F:
            size, at = _varint(message, at - 1)
        at += size
    if at > stop:
        raise _broken("a label ends early")
    parts = [message[begin:at]]
    long = at - begin
    samples: list[Sample] = []
    while at < stop:
        begin = at
        tag, at = _varint(message, at)
        if tag not in (_LABELS, _SAMPLES):
            at = _skipped(message, at, tag)
            continue
        size, at = _varint(message, at)
        if at + size > stop:
            raise _broken("a field ends early")
        if tag == _SAMPLES:
            samples.append(_sample(message, at, at + size))
            if len(samples) > MOST:
                raise _broken(f"it holds more than {MOST} samples")
        else:
            parts.append(message[begin : at + size])
            long += at + size - begin
        at += size
    if long > LONGEST_LABELS:
        raise _broken(f"a series with labels of {long} bytes")
    return b"".join(parts), samples


def _sample(message: bytes, at: int, stop: int) -> Sample:
    value = 0.0
    stamp = 0
    while at < stop:
        tag = message[at]
        if tag == 0x09:
            (value,) = _DOUBLE.unpack_from(message, at + 1)
            at += 9
        elif tag == 0x10:
            stamp, at = _varint(message, at + 1)
        else:
            tag, at = _varint(message, at)
            at = _skipped(message, at, tag)
    if at != stop:
        raise _broken("a sample ends early")
    return (stamp - (1 << 64) if stamp >> 63 else stamp), value


def _fields(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 != _BYTES:
            at = _skipped(data, at, tag)
            continue
        size, at = _varint(data, at)
        if at + size > len(data):
            raise _broken("a label ends early")
        found[tag >> 3] = data[at : at + size]
        at += size
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    shift = 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
        if shift > 63:
            raise _broken("a number is too long")


def _skipped(data: bytes, at: int, tag: int) -> int:
    """Where a field of no interest ends."""
    kind = tag & 7
    if kind == _VARINT:
        return _varint(data, at)[1]
    if kind == _FIXED64:
        end = at + 8
    elif kind == _FIXED32:
        end = at + 4
    elif kind == _BYTES:
        size, at = _varint(data, at)
        end = at + size
    else:
        raise _broken(f"a field of unknown type ({kind})")
    if end > len(data):
        raise _broken("a field ends early")
    return end


def _broken(what: str) -> CorruptInputError:
    return CorruptInputError(
        f"not a remote-write request: {what}",
        where="POST /api/v1/write",
        remedy="send protocol version 1.0: snappy over a protobuf WriteRequest",
    )

"""Bodies of Prometheus remote-write, by hand: protobuf's wire format and snappy."""

from __future__ import annotations

import struct

import cramjam


def varint(value: int) -> bytes:
    """A number of protobuf; negative ones as 64 bits."""
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, data: bytes) -> bytes:
    """A field that holds bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def labels(of: dict[str, str]) -> bytes:
    """The labels of a series."""
    return b"".join(field(1, field(1, k.encode()) + field(2, v.encode())) for k, v in sorted(of.items()))


def sample(stamp_ms: int, value: float) -> bytes:
    """One sample of a series."""
    return field(2, b"\x09" + struct.pack("<d", value) + b"\x10" + varint(stamp_ms))


def series(of: dict[str, str], *samples: tuple[int, float]) -> bytes:
    """A series with its samples (ms, value)."""
    return field(1, labels(of) + b"".join(sample(ms, value) for ms, value in samples))


def body(*parts: bytes) -> bytes:
    """What is posted."""
    return bytes(cramjam.snappy.compress_raw(b"".join(parts)))

"""The bytes of a Darshan log: its header, its regions, the same log in another compression."""

from __future__ import annotations

import bz2
import struct
import zlib

HEADER = struct.Struct("<8sqB7xQQQ128Q64I")
NAMES_AT, REGIONS_AT = 32, 48
PACKERS = {1: bz2.compress, 2: bytes}


def regions_of(content: bytes) -> list[tuple[int, int]]:
    """(offset, length) of the job, names and module regions of a 3.41 log."""
    _, _, _, _, *fields = HEADER.unpack_from(content)
    pairs = [tuple(fields[2 * k : 2 * k + 2]) for k in range(65)]
    used = [pair for pair in pairs if pair[1]]
    return [(HEADER.size, min(offset for offset, _ in used) - HEADER.size), *used]


def repacked(content: bytes, compression: int) -> bytes:
    """The same log in another compression: with 2 (none), every byte of every record can be changed at will."""
    pack = PACKERS[compression]
    header = bytearray(content[: HEADER.size])
    header[16] = compression
    body = b""
    for k, (offset, length) in enumerate(regions_of(content)):
        plain = pack(inflate(content[offset : offset + length]))
        if k:
            slot = header.find(struct.pack("<QQ", offset, length), NAMES_AT)
            struct.pack_into("<QQ", header, slot, HEADER.size + len(body), len(plain))
        body += plain
    return bytes(header) + body


def inflate(data: bytes) -> bytes:
    out = b""
    while data:
        stream = zlib.decompressobj()
        out += stream.decompress(data)
        data = stream.unused_data
    return out

"""Text files as blocks of whole lines, plain or gzip, in bounded memory: what line formats read from.

Not here: what a line means. A damaged or unterminated end is said in the last block, never raised.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fairlead.core.errors import InputError
from fairlead.core.model.missing import Missing

BLOCK_BYTES = 8 << 20
LONGEST_LINE = 16 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK = 1 << 18


@dataclass(frozen=True)
class Block:
    """Whole lines, each with its newline. `first_line` counts from 1; lines longer than LONGEST_LINE are left out and
    counted in `overlong`. The `last` block also has the bytes after the last newline (`cut`) and, for broken gzip data,
    the `fault`."""

    data: bytes
    first_line: int
    overlong: int = 0
    last: bool = False
    cut: bytes = b""
    fault: str | None = None


def read_block_chunks(path: Path) -> Iterator[bytes | str]:
    """The bytes of a file, inflated when it is gzip, in pieces of at most 256 KiB; a fault of the gzip data comes last,
    as text. Raises InputError when the file cannot be opened or read."""
    try:
        with path.open("rb") as raw:
            magic = raw.read(2)
            raw.seek(0)
            yield from _inflated(raw) if magic == _GZIP_MAGIC else _plain(raw)
    except OSError as fault:
        what = (fault.strerror or str(fault)).lower()
        raise InputError(what, where=str(path), remedy="check that the file exists and may be read") from fault


def read_line_blocks(path: Path, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Blocks of about `block_bytes`; the last one has `last` set and may be empty. Raises InputError."""
    return _blocks(read_block_chunks(path), block_bytes)


def list_block_end_gaps(block: Block, *, kept: bool) -> list[Missing]:
    """What the last block says of a damaged end. `kept`: whether the unterminated last line was read all the same."""
    gaps: list[Missing] = []
    if block.fault is not None:
        gaps.append(
            Missing(
                kind="truncated",
                what="the end of the file",
                why=f"its gzip data is broken ({block.fault}); what came before is read",
                remedy="copy the file again from where it was written",
            )
        )
    elif block.cut.strip():
        fate = "it is read if it is complete" if kept else "it is left out"
        gaps.append(
            Missing(
                kind="unterminated_line",
                what="the last line",
                why=f"it does not end with a newline and may be truncated; {fate}",
                remedy="let the writer finish, or add the newline if the line is whole",
            )
        )
    return gaps


def _plain(raw: BinaryIO) -> Iterator[bytes | str]:
    while chunk := raw.read(_CHUNK):
        yield chunk


def _inflated(raw: BinaryIO) -> Iterator[bytes | str]:
    """Inflated chunks of all members, at most _CHUNK bytes each; a fault comes last, as text."""
    waiting = raw.read(_CHUNK)
    while waiting:
        inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            while not inflater.eof:
                if not waiting:
                    yield "it ends too early"
                    return
                out = inflater.decompress(waiting, _CHUNK)
                waiting = inflater.unconsumed_tail
                if out:
                    yield out
                if not waiting and not inflater.eof:
                    waiting = raw.read(_CHUNK)
        except zlib.error as fault:
            yield str(fault)
            return
        waiting = (inflater.unused_data or raw.read(_CHUNK)).lstrip(b"\0")


def _blocks(chunks: Iterator[bytes | str], block_bytes: int) -> Iterator[Block]:
    parts: list[bytes] = []
    held = 0
    line = 1
    overlong = 0
    skipping = False
    fault: str | None = None
    for chunk in chunks:
        if isinstance(chunk, str):
            fault = chunk
            break
        if skipping:
            at = chunk.find(b"\n")
            if at < 0:
                continue
            skipping, chunk = False, chunk[at + 1 :]
            line += 1
        parts.append(chunk)
        held += len(chunk)
        if held < block_bytes:
            continue
        data = b"".join(parts)
        end = data.rfind(b"\n") + 1
        if end:
            yield Block(data[:end], line, overlong)
            line += data.count(b"\n", 0, end)
            overlong = 0
            data = data[end:]
        elif held > LONGEST_LINE:
            data, skipping = b"", True
            overlong += 1
        parts, held = [data], len(data)
    data = b"".join(parts)
    end = data.rfind(b"\n") + 1
    yield Block(data[:end], line, overlong, last=True, cut=data[end:], fault=fault)

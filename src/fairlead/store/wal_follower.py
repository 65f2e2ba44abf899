"""What waits in a shard's write-ahead log, followed as it grows: each frame is read once and decoded once, if at all.

For readers in any process. Frames stay compressed until a query names one of their tables; what has been decoded is
kept while there is room. Not here: which of it is in the tables already (`snapshot`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from fairlead.store import wal
from fairlead.store import wal_rows as hot
from fairlead.store.days_and_tiers import add_day_column, compute_days
from fairlead.store.part_files import Part
from fairlead.store.stored_tables import BATCHES, SPECS

KEPT_BYTES = 512 << 20
"""Decoded rows a process keeps of one shard; beyond that frames are decoded again at every query that needs them."""

Span = tuple[int, int]


@dataclass(slots=True)
class _Entry:
    """A frame: its bytes, which tables it has rows of, and what it holds once that was asked for."""

    frame: wal.Frame
    tables: frozenset[str]
    load: hot.Load | None = None
    dated: dict[str, list[tuple[hot.Piece, pa.Table]]] = field(default_factory=dict)


@dataclass(slots=True)
class _SegmentPosition:
    """A segment as far as it has been read."""

    offset: int = 0
    entries: list[_Entry] = field(default_factory=list)
    joined: dict[str, tuple[int, Span | None, pa.Table | None]] = field(default_factory=dict)


class Tail:
    """The log of one shard. Not safe to share among threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._segments: dict[int, _SegmentPosition] = {}
        self._kept = 0

    def look(self) -> int | None:
        """Reads what is new; returns the number of the growing segment, None when there is none. Raises LakeError."""
        listed = wal.list_wal_segments(self._folder)
        for number in self._segments.keys() - {number for number, _ in listed}:
            self._forget(self._segments.pop(number))
        for number, path in listed:
            followed = self._segments.setdefault(number, _SegmentPosition())
            try:
                self._follow(followed, path)
            except FileNotFoundError:  # carried over since it was listed: its rows are in the tables
                self._forget(self._segments.pop(number))
        return listed[-1][0] if listed else None

    def list_parts(self, table: str, after: int) -> list[Part]:
        """Files of `table` that frames of segments beyond number `after` name."""
        found = []
        for number, followed in self._segments.items():
            if number > after:
                for entry in followed.entries:
                    if table in entry.tables:
                        found += hot.list_wal_parts(entry.frame).get(table, [])
        return found

    def read_rows(self, table: str, after: int, between: Span | None) -> list[pa.Table]:
        """Rows of `table` (its schema and `day`) in segments beyond number `after`, one table a segment. With
        `between`, batches without a time in [from, to) are left out."""
        found = []
        for number in sorted(self._segments):
            if number > after:
                joined = self._joined(self._segments[number], table, between)
                if joined is not None:
                    found.append(joined)
        return found

    def _joined(self, followed: _SegmentPosition, table: str, between: Span | None) -> pa.Table | None:
        held = followed.joined.get(table)
        if held is not None and held[0] == len(followed.entries) and held[1] == between:
            return held[2]
        tables = [rows for entry in followed.entries for rows in self._dated(entry, table, between)]
        joined = pa.concat_tables(tables) if tables else None
        if self._kept < KEPT_BYTES:
            followed.joined[table] = (len(followed.entries), between, joined)
        else:
            followed.joined.clear()
        return joined

    def _dated(self, entry: _Entry, table: str, between: Span | None) -> Iterable[pa.Table]:
        if table not in entry.tables:
            return []
        held = entry.dated.get(table)
        if held is None:
            load = self._load(entry)
            spec = SPECS[table]
            if table == BATCHES.name:
                noted = hot.build_wal_rows_notes([load])
                pieces = [hot.build_wal_rows_piece(noted, BATCHES, None)]
            else:
                pieces = load.pieces.get(table, [])
            held = [(p, add_day_column(p.rows, compute_days(p.rows, spec, p.fallback_ns))) for p in pieces]
            if entry.load is not None:
                entry.dated[table] = held
        return [rows for piece, rows in held if between is None or _overlaps(piece, between)]

    def _load(self, entry: _Entry) -> hot.Load:
        if entry.load is not None:
            return entry.load
        load = hot.load_wal_frame(entry.frame, strict=False)
        if self._kept < KEPT_BYTES:
            entry.load = load
            self._kept += load.nbytes
        return load

    def _forget(self, followed: _SegmentPosition) -> None:
        self._kept -= sum(entry.load.nbytes for entry in followed.entries if entry.load is not None)

    def _follow(self, followed: _SegmentPosition, path: Path) -> None:
        size = path.stat().st_size
        if size <= followed.offset:
            return
        with path.open("rb") as file:
            data = memoryview(os.pread(file.fileno(), size - followed.offset, followed.offset))
        contents = wal.read_wal_frames(data, followed.offset)
        for frame in contents.frames:
            tables = frozenset((*hot.count_wal_rows(frame)[0], BATCHES.name, *hot.list_job_wal_rows(frame)))
            followed.entries.append(_Entry(frame, tables))
        followed.offset += len(data) - contents.torn


def _overlaps(piece: hot.Piece, between: Span) -> bool:
    return (
        piece.first_ns is None or piece.last_ns is None or (piece.first_ns < between[1] and piece.last_ns >= between[0])
    )

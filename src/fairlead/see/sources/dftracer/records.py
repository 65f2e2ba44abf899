"""Rows of `layout` → batches of `ops` and `files`, block after block, with what had to be guessed or left out counted.

Not here: reading lines, and the report's words about what is missing (`source`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.model.tables import OPS, build_table_batch
from fairlead.see.sources.dftracer import event_words as w
from fairlead.see.sources.dftracer import layout as c
from fairlead.see.sources.dftracer.names import Names, grow_name_table
from fairlead.see.sources.dftracer.positions import KEEP, NOT_TOLD, UNKNOWN, Positions, Steps
from fairlead.see.sources.dftracer.processes import Processes
from fairlead.see.sources.dftracer.tokens import Tokens, encode_dftracer_token

_APPEND = 0o2000
_LATEST_NS = (1 << 63) - 1
_LARGEST = 1 << 62
BoolArray = NDArray[np.bool_]


@dataclass
class Tally:
    """What the converted events amount to, for the job and for what is missing. Times are ns."""

    operations: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    backwards: int = 0
    out_of_range: int = 0
    transfers: int = 0
    without_size: int = 0
    without_offset: int = 0
    without_file: int = 0
    without_node: int = 0


@dataclass(frozen=True)
class _Kind:
    interface: str
    word: str
    effect: int
    size: int


class _Kinds:
    """What each (category, name) pair is, looked up by two small indices per event."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._category = np.full(256, -1, np.int64)
        self._name = np.full(256, -1, np.int64)
        self._categories: list[int] = []
        self._names: list[int] = []
        self._table = np.full((8, 64), -1, np.int64)
        self.all: list[_Kind] = []
        self.effect = np.empty(0, np.int64)
        self.size = np.empty(0, np.int64)

    def of(self, categories: c.IntArray, names: c.IntArray) -> c.IntArray:
        """Index into `all` of each event."""
        size = len(self._tokens)
        self._category, self._name = grow_name_table(self._category, size), grow_name_table(self._name, size)
        row, column = self._category[categories], self._name[names]
        if (row < 0).any() or (column < 0).any():
            self._number(self._category, self._categories, categories[row < 0])
            self._number(self._name, self._names, names[column < 0])
            self._widen()
            row, column = self._category[categories], self._name[names]
        kind = self._table[row, column]
        new = kind < 0
        if new.any():
            for category, name in set(zip(row[new].tolist(), column[new].tolist(), strict=True)):
                self._table[category, name] = self._add(category, name)
            kind = self._table[row, column]
            self.effect = np.array([k.effect for k in self.all], np.int64)
            self.size = np.array([k.size for k in self.all], np.int64)
        return kind

    def _number(self, index: c.IntArray, known: list[int], tokens: c.IntArray) -> None:
        for token in np.unique(tokens).tolist():
            index[token] = len(known)
            known.append(token)

    def _widen(self) -> None:
        rows, columns = self._table.shape
        if len(self._categories) > rows or len(self._names) > columns:
            table = np.full((max(rows, 2 * len(self._categories)), max(columns, 2 * len(self._names))), -1, np.int64)
            table[:rows, :columns] = self._table
            self._table = table

    def _add(self, category: int, name: int) -> int:
        category_text = _shown(self._tokens.decode_text(self._categories[category]))
        name_text = _shown(self._tokens.decode_text(self._names[name]))
        interface = w.find_event_interface(category_text, name_text)
        effect, size = w.find_event_position_effect(interface, name_text), w.find_event_size_rule(interface, name_text)
        self.all.append(_Kind(interface, w.find_event_word(interface, name_text), effect, size))
        return len(self.all) - 1


def _shown(text: str) -> str:
    return encode_dftracer_token(text).decode("utf-8", "backslashreplace")


class Recorder:
    """Converts the blocks of one trace in order. `unit_ns` is the trace's time unit."""

    def __init__(self, tokens: Tokens, names: Names, unit_ns: int) -> None:
        self.tally = Tally()
        self.processes = Processes()
        self.nodes: set[int] = set()
        self._tokens = tokens
        self._names = names
        self._unit_ns = unit_ns
        self._kinds = _Kinds(tokens)
        self._positions = Positions()
        self._gathered = np.empty((c.COLUMNS, 0), np.int64)

    def convert(self, rows: c.IntArray) -> list[pa.RecordBatch]:
        """Batches of one block: new `files` first, then its `ops`. `names` has learnt the block's metadata."""
        at = np.flatnonzero(rows[c.PH] == c.COMPLETE)
        at = at[self._in_range(rows[c.TS][at], rows[c.DUR][at])]
        if not len(at):
            return []
        events = self._gather(rows, at)
        start, end = self._times(events)
        kind = self._kinds.of(events[c.CAT], events[c.NAME])
        hosted = np.where(events[c.HHASH] != c.ABSENT, events[c.HHASH], np.maximum(events[c.HOST], -1))
        process, rank = self.processes.find_processes(events[c.PID], hosted, self._names.ranks)
        paths = self._names.find_paths(events[c.FHASH], events[c.FNAME], at)
        file_id, files = self._names.build_file_ids(paths, start)
        effect = self._kinds.effect[kind]
        size = self._sizes(events, kind)
        offset = self._offsets(events, effect, process, size)
        handle = np.where(events[c.FD] != c.ABSENT, events[c.FD], events[c.FH])
        opened = (effect == w.OPENS) & (handle == c.ABSENT) & (events[c.RET] >= 0)
        handle = np.where(opened, events[c.RET], handle)
        self._count(effect, size, offset, paths, kind)
        columns: dict[str, object] = {
            "start_ns": start,
            "end_ns": end,
            "busy_ns": end - start,
            "node": self._nodes(events),
            "rank": pa.array(rank.astype(np.int32)),
            "interface": self._dictionary(kind, [k.interface for k in self._kinds.all]),
            "op": self._dictionary(kind, [k.word for k in self._kinds.all]),
            "file_id": pa.array(file_id, mask=paths == c.ABSENT),
            "handle": pa.array(handle, mask=handle == c.ABSENT),
            "offset": pa.array(offset, mask=offset < 0),
            "size": pa.array(size, mask=size < 0),
            "count": np.ones(len(at), np.int64),
        }
        ops = build_table_batch(OPS, columns)
        return [files, ops] if files is not None else [ops]

    def _gather(self, rows: c.IntArray, at: c.IntArray) -> c.IntArray:
        """Rows `at`, in memory kept from block to block (fresh pages cost more than the copy)."""
        if len(at) == rows.shape[1]:
            return rows
        if len(at) > self._gathered.shape[1]:
            self._gathered = np.empty((c.COLUMNS, rows.shape[1]), np.int64)
        return np.take(rows, at, axis=1, out=self._gathered[:, : len(at)], mode="clip")

    def _in_range(self, ts: c.IntArray, dur: c.IntArray) -> BoolArray:
        latest = _LATEST_NS // self._unit_ns
        good = (ts >= 0) & (ts <= latest) & (np.maximum(dur, 0) <= latest - np.maximum(ts, 0))
        self.tally.out_of_range += int(len(good) - np.count_nonzero(good))
        return np.asarray(good)

    def _times(self, events: c.IntArray) -> tuple[c.IntArray, c.IntArray]:
        tally = self.tally
        start = events[c.TS] * self._unit_ns
        end = start + np.maximum(events[c.DUR], 0) * self._unit_ns
        tally.backwards += int(np.count_nonzero(events[c.DUR] < 0))
        first, last = int(start.min()), int(end.max())
        tally.first_ns = first if tally.first_ns is None else min(first, tally.first_ns)
        tally.last_ns = last if tally.last_ns is None else max(last, tally.last_ns)
        return start, end

    def _sizes(self, events: c.IntArray, kind: c.IntArray) -> c.IntArray:
        """Bytes really moved (n,), -1 where there are none or they are not told. A failed call moved nothing."""
        rule = self._kinds.size[kind]
        sizes = np.full(len(rule), -1, np.int64)
        at = np.flatnonzero(rule != w.NO_SIZE)
        rule, ret, item, text = rule[at], events[c.RET][at], events[c.SIZE][at], events[c.TEXT_LEN][at]
        told = ret != c.ABSENT
        # Replayed and converted traces give `size` where the call's result is not kept.
        moved = np.where(told, np.maximum(ret, 0), np.maximum(item, -1))
        moved[rule == w.NOT_TOLD] = -1
        items = rule == w.BY_ITEMS
        if items.any():
            fits = told & (item >= 0) & ((ret <= 0) | (item <= _LARGEST // np.maximum(ret, 1)))
            moved[items] = np.where(fits, np.maximum(ret, 0) * np.where(fits, item, 0), -1)[items]
        by_text = rule == w.BY_TEXT
        moved[by_text] = np.maximum(text[by_text], -1)
        one = rule == w.ONE_BYTE
        moved[one] = np.where(told, np.where(ret == -1, 0, 1), -1)[one]
        sizes[at] = moved
        return sizes

    def _offsets(self, events: c.IntArray, effect: c.IntArray, process: c.IntArray, size: c.IntArray) -> c.IntArray:
        """Offset of each read and write (n,), -1 where unknown: told by the call, or the position followed."""
        offset = np.where((effect == w.PLACED) & (events[c.OFFSET] >= 0), events[c.OFFSET], -1)
        steps, at = self._steps(events, effect, process, size)
        position = self._positions.follow(steps)
        moves = effect[at] == w.MOVES
        offset[at[moves]] = position[moves]
        return offset

    def _steps(
        self, events: c.IntArray, effect: c.IntArray, process: c.IntArray, size: c.IntArray
    ) -> tuple[Steps, c.IntArray]:
        """Steps of the events with an effect on a handle that can be told apart, and their rows."""
        ret, fd, file = events[c.RET], events[c.FD], events[c.FHASH]
        file = np.where(events[c.FNAME] != c.ABSENT, events[c.FNAME], file)
        handle = np.where((effect == w.OPENS) & (fd == c.ABSENT), ret, fd)
        by_handle = (handle >= 0) & (handle < 1 << 31)
        # A failed open returns -1: it opened nothing, and must not count for its file either.
        acts = (effect != w.NOTHING) & (effect != w.PLACED) & (by_handle | (file != c.ABSENT))
        acts &= ~((effect == w.OPENS) & (ret < 0) & (ret != c.ABSENT))
        at = np.flatnonzero(acts)
        effect, ret, by_handle = effect[at], ret[at], by_handle[at]
        key = (process[at] << 33) | np.where(by_handle, handle[at], file[at] | (1 << 32))
        to, by = self._settings(events, at, effect, ret, size[at])
        opened = np.where(effect == w.OPENS, 1, np.where(effect == w.CLOSES, -1, 0))
        return Steps(key, to, by, np.where(by_handle, 0, opened), ~by_handle), at

    def _settings(
        self, events: c.IntArray, at: c.IntArray, effect: c.IntArray, ret: c.IntArray, size: c.IntArray
    ) -> tuple[c.IntArray, c.IntArray]:
        to = np.full(len(at), KEEP, np.int64)
        by = np.zeros(len(at), np.int64)
        moves = effect == w.MOVES
        by[moves] = np.where(size[moves] < 0, NOT_TOLD, size[moves])
        opens = effect == w.OPENS
        to[opens] = np.where(self._appends(events, at[opens]), UNKNOWN, 0)
        to[(effect == w.CLOSES) | (effect == w.LOSES)] = UNKNOWN
        to[effect == w.REWINDS] = 0
        tells = effect == w.TELLS
        to[tells] = np.where(ret[tells] >= 0, ret[tells], KEEP)
        seeks = np.flatnonzero(effect == w.SEEKS)
        to[seeks], by[seeks] = _seek(events, at[seeks], ret[seeks])
        return to, by

    def _appends(self, events: c.IntArray, at: c.IntArray) -> BoolArray:
        flags, mode = events[c.FLAGS][at], events[c.MODE][at]
        appending = {
            code for code in np.unique(mode[mode != c.ABSENT]).tolist() if self._tokens.texts[code].startswith(b"a")
        }
        by_mode = np.isin(mode, list(appending)) if appending else np.zeros(len(at), bool)
        return np.asarray(((flags > 0) & (flags & _APPEND != 0)) | by_mode)

    def _nodes(self, events: c.IntArray) -> pa.DictionaryArray:
        code = self._names.find_hosts(events[c.HHASH], events[c.HOST])
        self.tally.without_node += int(np.count_nonzero(code < 0))
        used, index = _compact(code)
        self.nodes.update(used.tolist())
        hosts = [_shown(self._tokens.decode_text(token)) for token in used.tolist()]
        indices = pa.array(index.astype(np.int32), mask=code < 0)
        return pa.DictionaryArray.from_arrays(indices, pa.array(hosts, pa.string()))

    def _dictionary(self, kind: c.IntArray, meaning: list[str]) -> pa.DictionaryArray:
        used, index = _compact(kind)
        said = [meaning[k] for k in used.tolist()]
        distinct = sorted(set(said))
        place_of = {word: place for place, word in enumerate(distinct)}
        place = np.array([place_of[word] for word in said], np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(place[index]), pa.array(distinct, pa.string()))

    def _count(
        self, effect: c.IntArray, size: c.IntArray, offset: c.IntArray, paths: c.IntArray, kind: c.IntArray
    ) -> None:
        tally = self.tally
        transfer = self._kinds.size[kind] != w.NO_SIZE
        tally.operations += len(kind)
        tally.transfers += int(np.count_nonzero(transfer))
        tally.without_size += int(np.count_nonzero(transfer & (size < 0)))
        followed = transfer & ((effect == w.MOVES) | (effect == w.PLACED))
        tally.without_offset += int(np.count_nonzero(followed & (offset < 0)))
        tally.without_file += int(np.count_nonzero(transfer & (paths == c.ABSENT)))


def _compact(codes: c.IntArray) -> tuple[c.IntArray, c.IntArray]:
    """Codes in use (ascending, negative ones left out) and each row's place among them (0 for negative ones)."""
    flags = np.zeros(int(codes.max(initial=0)) + 1, bool)
    flags[codes[codes >= 0]] = True
    place = np.cumsum(flags) - 1
    return np.flatnonzero(flags), np.asarray(np.where(codes >= 0, place[np.maximum(codes, 0)], 0), np.int64)


def _seek(events: c.IntArray, at: c.IntArray, ret: c.IntArray) -> tuple[c.IntArray, c.IntArray]:
    """New positions and moves of seeks. `lseek` returns where it stands now, `fseek` 0 when it succeeded."""
    offset, whence = events[c.OFFSET][at], events[c.WHENCE][at]
    by_fd = events[c.FD][at] != c.ABSENT
    told = ret != c.ABSENT
    absolute = np.where(offset >= 0, offset, UNKNOWN)
    to = np.where(whence == 0, absolute, np.where(whence == 1, KEEP, UNKNOWN))
    to = np.where(by_fd & told, ret, to)
    failed = told & (ret < 0)
    by = np.where((whence == 1) & ~failed & ~(by_fd & told), np.where(offset == c.ABSENT, NOT_TOLD, offset), 0)
    return np.where(failed, KEEP, to), by

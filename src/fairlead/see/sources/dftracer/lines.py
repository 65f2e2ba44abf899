"""One line of JSON → one row of `layout`, through msgspec: the path of small inputs, and of lines the compiled
scanner does not take (nested arguments, escapes, floats). What a line means is decided here, once.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from fairlead.see.sources.dftracer import layout as c
from fairlead.see.sources.dftracer.tokens import Tokens, encode_dftracer_token

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,19})")
_WRAP = 1 << 64
_PHASES = {"X": c.COMPLETE, 1: c.COMPLETE, "M": c.METADATA, 4: c.METADATA, "C": 2, 2: 2, "A": 3, 3: 3}


class _Args(msgspec.Struct, gc=False):
    ret: Any = UNSET
    count: Any = UNSET
    size: Any = UNSET
    offset: Any = UNSET
    whence: Any = UNSET
    fd: Any = UNSET
    fh: Any = UNSET
    flags: Any = UNSET
    mode: Any = UNSET
    hhash: Any = UNSET
    fhash: Any = UNSET
    fname: Any = UNSET
    hostname: Any = UNSET
    str_len: Any = UNSET
    ret_len: Any = UNSET
    name: Any = UNSET
    value: Any = UNSET
    cmd_hash: Any = UNSET
    exec_hash: Any = UNSET
    dft_cnt: Any = UNSET


class _Event(msgspec.Struct, gc=False):
    name: Any = UNSET
    cat: Any = UNSET
    ph: Any = UNSET
    pid: Any = UNSET
    ts: Any = UNSET
    dur: Any = UNSET
    args: _Args | None = None


_EVENT = msgspec.json.Decoder(_Event)
_NO_ARGS = _Args()


@dataclass(frozen=True)
class Lifecycle:
    """A `start` or `end` record of a process; hashes are token codes or ABSENT, `ts` in the trace's unit."""

    name: str
    pid: int
    host: int
    ts: int
    command: int
    executable: int


@dataclass
class LineReport:
    """What lines say beside rows, gathered over a whole trace."""

    lifecycle: list[Lifecycle] = field(default_factory=list)
    counters: int = 0
    aggregated: int = 0
    aggregated_calls: int = 0
    other_phases: int = 0
    unreadable: int = 0
    first_unreadable_line: int | None = None
    last_unreadable_line: int | None = None


def _integer(value: Any) -> int:
    """An int64 from a JSON number or a string of digits; unsigned 64-bit values wrap (a `size_t` of -1 is -1)."""
    if type(value) is str:
        if not _INTEGER.fullmatch(value):
            return c.ABSENT
        value = int(value)
    elif type(value) is float:
        if not -9.2e18 < value < 9.2e18:
            return c.ABSENT
        value = round(value)
    elif type(value) is not int:
        return c.ABSENT
    number = int(value)
    if -(_WRAP >> 1) <= number < _WRAP >> 1:
        return number
    return number - _WRAP if 0 < number < _WRAP else c.ABSENT


def _token(value: Any, tokens: Tokens) -> int:
    if type(value) is str:
        return tokens.code(encode_dftracer_token(value))
    if type(value) is int:
        return tokens.code(str(value).encode())
    return c.ABSENT


def _event(line: bytes) -> _Event | None:
    try:
        return _EVENT.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    # Paths may hold bytes that are no UTF-8, and control characters: both are written as they come.
    try:
        loose = json.loads(line.decode("utf-8", "surrogateescape"), strict=False)
        return msgspec.convert(loose, _Event)
    except (ValueError, msgspec.ValidationError, RecursionError):
        return None


def read_dftracer_line(line: bytes, row: list[int], tokens: Tokens, report: LineReport) -> bool:
    """Fill `row` (COLUMNS long) from one trimmed, non-empty line. False when the line cannot be used.

    Rows of phases without operations are marked SKIPPED and counted in `report`.
    """
    event = _event(line)
    if event is None:
        return False
    phase = _PHASES.get(event.ph) if isinstance(event.ph, str | int) else None
    pid = _integer(event.pid)
    if type(event.name) is not str or event.ph is UNSET or pid == c.ABSENT:
        return False
    args = event.args or _NO_ARGS
    row[c.PH] = c.SKIPPED
    if phase == c.METADATA:
        _metadata(row, event, args, pid, tokens)
        return True
    ts, dur = _integer(event.ts), _integer(event.dur)
    if phase != c.COMPLETE:
        _count_other(phase, args, report)
        return True
    if ts == c.ABSENT or dur == c.ABSENT:
        return False
    row[c.CAT] = tokens.code(encode_dftracer_token(event.cat) if type(event.cat) is str else b"")
    row[c.HHASH] = _token(args.hhash, tokens)
    row[c.HOST] = _token(args.hostname, tokens)
    if row[c.CAT] == c.DFTRACER_TOKEN:
        if event.name in ("start", "end"):
            host = row[c.HHASH] if row[c.HHASH] != c.ABSENT else row[c.HOST]
            command, executable = _token(args.cmd_hash, tokens), _token(args.exec_hash, tokens)
            report.lifecycle.append(Lifecycle(event.name, pid, host, ts, command, executable))
        return True
    row[c.PH] = c.COMPLETE
    row[c.NAME] = _token(event.name, tokens)
    row[c.TS], row[c.DUR], row[c.PID] = ts, dur, pid
    _arguments(row, args, tokens)
    return True


def _arguments(row: list[int], args: _Args, tokens: Tokens) -> None:
    row[c.FHASH] = _token(args.fhash, tokens)
    row[c.FNAME] = _token(args.fname, tokens)
    row[c.MODE] = _token(args.mode, tokens)
    row[c.RET] = _integer(args.ret)
    row[c.COUNT] = _integer(args.count)
    row[c.SIZE] = _integer(args.size)
    row[c.OFFSET] = _integer(args.offset)
    row[c.WHENCE] = _integer(args.whence)
    row[c.FD] = _integer(args.fd)
    row[c.FH] = _integer(args.fh)
    row[c.FLAGS] = _integer(args.flags)
    row[c.TEXT_LEN] = _integer(args.ret_len if args.ret_len is not UNSET else args.str_len)


def _metadata(row: list[int], event: _Event, args: _Args, pid: int, tokens: Tokens) -> None:
    name, value = _token(args.name, tokens), _token(args.value, tokens)
    if name == c.ABSENT or value == c.ABSENT:
        return
    row[c.PH] = c.METADATA
    row[c.NAME] = _token(event.name, tokens)
    row[c.PID] = pid
    row[c.HHASH] = _token(args.hhash, tokens)
    row[c.META_NAME], row[c.META_VALUE] = name, value


def _count_other(phase: int | None, args: _Args, report: LineReport) -> None:
    calls = _integer(args.dft_cnt)
    if calls > 0:
        report.aggregated += 1
        report.aggregated_calls += calls
    elif phase == 2:
        report.counters += 1
    else:
        report.other_phases += 1


def read_dftracer_lines(block: bytes, first_line: int, tokens: Tokens, report: LineReport) -> c.IntArray:
    """Rows (COLUMNS, n) of a block of whole lines, one per event; `first_line` is the number of its first line."""
    rows: list[list[int]] = []
    for number, raw in enumerate(block.split(b"\n"), first_line):
        line = raw.strip(c.TRIMMED)
        if not line:
            continue
        row = [c.ABSENT] * c.COLUMNS
        if read_dftracer_line(line, row, tokens, report):
            if row[c.PH] != c.SKIPPED:
                rows.append(row)
        else:
            count_unreadable_line(report, number)
    if not rows:
        return np.empty((c.COLUMNS, 0), np.int64)
    return np.ascontiguousarray(np.array(rows, np.int64).T)


def count_unreadable_line(report: LineReport, line: int) -> None:
    """Note one line that holds no event, by its number (from 1)."""
    report.unreadable += 1
    if report.first_unreadable_line is None:
        report.first_unreadable_line = line
    report.last_unreadable_line = line

"""The compiled scanner: lines of events → rows of `layout`, without a Python object per line. Driven by `scanner`.

Lines it does not take are left as UNREAD rows for `lines.read_dftracer_line`, which decides: whatever is taken here
means the same there. Positions in the text are addresses (see `kernel_memory`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.core.jit import compile_jit_function
from fairlead.see.sources.dftracer import layout as c
from fairlead.see.sources.dftracer.kernel_memory import (
    count_trailing_zeros,
    load_memory_byte,
    load_memory_number,
    load_memory_word,
    store_memory_byte,
    store_memory_number,
)

compile_kernel: Any = compile_jit_function
"""Untyped, as what it compiles has no annotations."""
ROWS = 60_000
"""Rows filled per call at most. Not a power of two: the columns of a row would compete for the same cache lines."""

FULL = -2
_BAIL = -3

# Byte offsets of the scanner's state, int64 each: what it found, a scratch number, spans of args.name and args.value,
# and where its tables and rows are.
TOKENS, ROW, NEXT, LINES, WANTS_ROOM, _NUMBER, _META = 0, 8, 16, 24, 32, 40, 48
ARENA, ARENA_SIZE, STARTS, HASHES, CAPACITY, SLOTS, SLOT_MASK = 80, 88, 96, 104, 112, 120, 128
ROWS_AT, ROWS_STRIDE, NUMBERS_AT, STATE_BYTES = 136, 144, 152, 160


def _key(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(text.encode(), "little"))


_K_NAME, _K_CAT, _K_PH, _K_PID, _K_TS, _K_DUR, _K_ARGS = map(_key, ("name", "cat", "ph", "pid", "ts", "dur", "args"))
_K_RET, _K_COUNT, _K_SIZE, _K_OFFSET, _K_WHENCE = map(_key, ("ret", "count", "size", "offset", "whence"))
_K_FD, _K_FH, _K_FLAGS, _K_STRLEN, _K_RETLEN = map(_key, ("fd", "fh", "flags", "str_len", "ret_len"))
_K_MODE, _K_HHASH, _K_FHASH, _K_FNAME, _K_HOST = map(_key, ("mode", "hhash", "fhash", "fname", "hostname"))
_K_VALUE = _key("value")

_MIX = np.uint64(0x9E3779B97F4A7C15)
_ALL, _INT64_END = np.uint64((1 << 64) - 1), np.uint64(1 << 63)
_ONES, _TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_QUOTES, _ESCAPES, _NEWLINES = (np.uint64(byte * 0x0101010101010101) for byte in (34, 92, 10))
_ZEROS, _HIGH, _LOW, _SIXES = (np.uint64(byte * 0x0101010101010101) for byte in (0x30, 0xF0, 0x0F, 0x06))
_PAIRS, _QUADS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
_TIMES_10, _TIMES_100, _TIMES_10000 = np.uint64(2561), np.uint64(6553601), np.uint64(42949672960001)
_8, _16, _32, _64 = np.uint64(8), np.uint64(16), np.uint64(32), np.uint64(64)
_POWERS = np.array([10**k for k in range(9)], np.uint64)


@compile_kernel
def _first_bytes(word, count):  # type: ignore[no-untyped-def]
    """The first `count` (1 or more) bytes of a word, the rest zero."""
    return word if count >= 8 else word & (_ALL >> (_64 - _8 * np.uint64(count)))


@compile_kernel
def intern_kernel_token(a, b, state):  # type: ignore[no-untyped-def]
    """Code of the token at addresses a..b; FULL when the tables must grow first."""
    length = b - a
    h = np.uint64(length)
    for i in range(0, length, 8):
        h = (h ^ _first_bytes(load_memory_word(a + i), length - i)) * _MIX
        h ^= h >> _32
    mask = load_memory_number(state + SLOT_MASK)
    slots, hashes = load_memory_number(state + SLOTS), load_memory_number(state + HASHES)
    starts, arena = load_memory_number(state + STARTS), load_memory_number(state + ARENA)
    slot = np.int64(h) & mask
    while True:
        code = load_memory_number(slots + 8 * slot)
        if code < 0:
            break
        if load_memory_number(hashes + 8 * code) == np.int64(h):
            base = load_memory_number(starts + 8 * code)
            if load_memory_number(starts + 8 * code + 8) - base == length:
                same = True
                for i in range(0, length, 8):
                    if _first_bytes(
                        load_memory_word(arena + base + i) ^ load_memory_word(a + i), length - i
                    ) != np.uint64(0):
                        same = False
                        break
                if same:
                    return code
        slot = (slot + 1) & mask
    n = load_memory_number(state + TOKENS)
    base = load_memory_number(starts + 8 * n)
    if base + length + 8 > load_memory_number(state + ARENA_SIZE) or n + 1 >= load_memory_number(state + CAPACITY):
        return FULL
    for i in range(length):
        store_memory_byte(arena + base + i, load_memory_byte(a + i))
    store_memory_number(starts + 8 * n + 8, base + length)
    store_memory_number(hashes + 8 * n, np.int64(h))
    store_memory_number(slots + 8 * slot, n)
    store_memory_number(state + TOKENS, n + 1)
    return n


@compile_kernel
def rehash_kernel_tokens(slots, hashes, count):  # type: ignore[no-untyped-def]
    """Fill the open-addressing table `slots` (a power of two long) anew with the first `count` of `hashes`."""
    slots[:] = -1
    mask = len(slots) - 1
    for n in range(count):
        slot = hashes[n] & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = n


@compile_kernel
def _skip_blank(p):  # type: ignore[no-untyped-def]
    while load_memory_byte(p) in (32, 9, 13):
        p += 1
    return p


@compile_kernel
def _skip_around(p):  # type: ignore[no-untyped-def]
    """Past what may stand around an event: blanks, and the brackets and commas of an array."""
    while load_memory_byte(p) in (32, 9, 13, 44, 91, 93):
        p += 1
    return p


@compile_kernel
def _zero_bytes(word):  # type: ignore[no-untyped-def]
    """The top bit of each zero byte of `word`; bits above the lowest of them may be wrong."""
    return (word - _ONES) & ~word & _TOPS


@compile_kernel
def _string_end(p):  # type: ignore[no-untyped-def]
    """Address of the quote that closes the string whose text begins at p; _BAIL at an escape or the line's end."""
    while True:
        word = load_memory_word(p)
        hit = _zero_bytes(word ^ _QUOTES) | _zero_bytes(word ^ _ESCAPES) | _zero_bytes(word ^ _NEWLINES)
        if hit:
            end = p + (count_trailing_zeros(hit) >> 3)
            return end if load_memory_byte(end) == 34 else _BAIL
        p += 8


@compile_kernel
def _integer(p, out):  # type: ignore[no-untyped-def]
    """Address behind the JSON integer at p, its value put at `out` (unsigned 64-bit ones wrap); _BAIL if it is none.

    Eight digits at a time: neighbouring lanes are combined to two, four, then eight digits by multiplication.
    """
    negative = load_memory_byte(p) == 45
    if negative:
        p += 1
    first = p
    value = np.uint64(0)
    while True:
        word = load_memory_word(p)
        others = ((word & _HIGH) ^ _ZEROS) | (((word + _SIXES) & _HIGH) ^ _ZEROS)
        count = count_trailing_zeros(others) >> 3
        if count == 0:
            break
        word = (word << (_64 - _8 * np.uint64(count))) & _LOW
        word = (word * _TIMES_10) >> _8
        word = ((word & _PAIRS) * _TIMES_100) >> _16
        word = ((word & _QUADS) * _TIMES_10000) >> _32
        p += count
        if p - first >= 20 and (p - first > 20 or value > (_ALL - word) // _POWERS[count]):
            return _BAIL
        value = value * _POWERS[count] + word
        if count < 8:
            break
    length = p - first
    if length == 0 or (load_memory_byte(first) == 48 and (length > 1 or negative)) or value == _INT64_END:
        return _BAIL
    if negative:
        if value > _INT64_END:
            return _BAIL
        store_memory_number(out, -np.int64(value))
    else:
        store_memory_number(out, np.int64(value))
    return _BAIL if load_memory_byte(p) in (46, 101, 69) else p


@compile_kernel
def _number_column(key):  # type: ignore[no-untyped-def]
    """Column of a numeric argument, -1 for other keys."""
    if key == _K_RET:
        return c.RET
    if key == _K_COUNT:
        return c.COUNT
    if key == _K_FD:
        return c.FD
    if key == _K_OFFSET:
        return c.OFFSET
    if key == _K_SIZE:
        return c.SIZE
    if key == _K_WHENCE:
        return c.WHENCE
    if key == _K_FLAGS:
        return c.FLAGS
    if key == _K_FH:
        return c.FH
    return c.TEXT_LEN if key in (_K_RETLEN, _K_STRLEN) else -1


@compile_kernel
def _token_column(key):  # type: ignore[no-untyped-def]
    """Column of an argument whose value is a token, -1 for other keys."""
    if key == _K_HHASH:
        return c.HHASH
    if key == _K_FHASH:
        return c.FHASH
    if key == _K_MODE:
        return c.MODE
    if key == _K_FNAME:
        return c.FNAME
    return c.HOST if key == _K_HOST else -1


@compile_kernel
def _phase(a, b, quoted):  # type: ignore[no-untyped-def]
    """COMPLETE or METADATA; _BAIL for phases that are no operations."""
    ch = load_memory_byte(a) if b - a == 1 else 0
    if (quoted and ch == 88) or (not quoted and ch == 49):
        return c.COMPLETE
    return c.METADATA if (quoted and ch == 77) or (not quoted and ch == 52) else _BAIL


@compile_kernel
def _field(key, a, b, quoted, row, stride, state):  # type: ignore[no-untyped-def]
    """Store the value at a..b of a key outside `args`. 0, _BAIL or FULL. A number's value waits in _NUMBER."""
    if key in (_K_NAME, _K_CAT):
        if not quoted:
            return _BAIL
        code = intern_kernel_token(a, b, state)
        if code < 0:
            return code
        store_memory_number(row + stride * (c.NAME if key == _K_NAME else c.CAT), code)
    elif key == _K_PH:
        phase = _phase(a, b, quoted)
        if phase < 0:
            return _BAIL
        store_memory_number(row + stride * c.PH, phase)
    elif key in (_K_TS, _K_DUR, _K_PID):
        if quoted and _integer(a, state + _NUMBER) != b:
            return _BAIL
        column = c.TS if key == _K_TS else (c.DUR if key == _K_DUR else c.PID)
        store_memory_number(row + stride * column, load_memory_number(state + _NUMBER))
    elif key == _K_ARGS:
        return _BAIL
    return 0


@compile_kernel
def _argument(key, a, b, quoted, row, stride, state):  # type: ignore[no-untyped-def]
    """Store the value at a..b of a key in `args`. 0, _BAIL or FULL. A number's value waits in _NUMBER."""
    column = _token_column(key)
    if column >= 0:
        code = intern_kernel_token(a, b, state)
        if code < 0:
            return code
        store_memory_number(row + stride * column, code)
        return 0
    column = _number_column(key)
    if column >= 0:
        if column == c.TEXT_LEN and load_memory_number(row + stride * column) != c.ABSENT:
            return _BAIL
        if quoted and _integer(a, state + _NUMBER) != b:
            return _BAIL
        store_memory_number(row + stride * column, load_memory_number(state + _NUMBER))
    elif key in (_K_NAME, _K_VALUE):
        at = state + _META + (0 if key == _K_NAME else 16)
        store_memory_number(at, a)
        store_memory_number(at + 8, b)
    return 0


@compile_kernel
def _event(p, row, stride, state):  # type: ignore[no-untyped-def]
    """Read the event whose brace is at p into the row at address `row`. Address behind it, _BAIL, or FULL.

    Every loop ends at the line's newline at the latest.
    """
    depth = 1
    comma = False
    seen_args = False
    store_memory_number(state + _META, 0)
    store_memory_number(state + _META + 16, 0)
    p += 1
    while True:
        p = _skip_blank(p)
        if load_memory_byte(p) == 125:
            if comma:
                return _BAIL
            p = _skip_blank(p + 1)
            depth -= 1
            if depth == 0:
                break
            comma = load_memory_byte(p) == 44
            if comma:
                p += 1
            elif load_memory_byte(p) != 125:
                return _BAIL
            continue
        if load_memory_byte(p) != 34:
            return _BAIL
        p += 1
        b = _string_end(p)
        if b < 0:
            return _BAIL
        key = _first_bytes(load_memory_word(p), b - p) if 0 < b - p <= 8 else np.uint64(0)
        p = _skip_blank(b + 1)
        if load_memory_byte(p) != 58:
            return _BAIL
        p = _skip_blank(p + 1)
        ch = load_memory_byte(p)
        quoted = ch == 34
        if quoted:
            a = p + 1
            b = _string_end(a)
            p = b + 1
        elif ch == 123 and depth == 1 and key == _K_ARGS and not seen_args:
            seen_args = True
            depth = 2
            comma = False
            p += 1
            continue
        else:
            a = p
            b = _integer(a, state + _NUMBER)
            p = b
        if b < 0:
            return _BAIL
        if depth == 1:
            status = _field(key, a, b, quoted, row, stride, state)
        else:
            status = _argument(key, a, b, quoted, row, stride, state)
        if status < 0:
            return status
        p = _skip_blank(p)
        comma = load_memory_byte(p) == 44
        if comma:
            p += 1
        elif load_memory_byte(p) != 125:
            return _BAIL
    status = _complete(row, stride, state)
    return p if status == 0 else status


@compile_kernel
def _complete(row, stride, state):  # type: ignore[no-untyped-def]
    """Whether the row has what its phase needs: 0, _BAIL or FULL. Metadata get their name and value."""
    if load_memory_number(row + stride * c.NAME) == c.ABSENT or load_memory_number(row + stride * c.PID) == c.ABSENT:
        return _BAIL
    phase = load_memory_number(row + stride * c.PH)
    if phase == c.COMPLETE:
        category = load_memory_number(row + stride * c.CAT)
        if load_memory_number(row + stride * c.TS) == c.ABSENT or load_memory_number(row + stride * c.DUR) == c.ABSENT:
            return _BAIL
        return _BAIL if category in (c.ABSENT, c.DFTRACER_TOKEN) else 0
    if phase != c.METADATA or load_memory_number(state + _META) == 0 or load_memory_number(state + _META + 16) == 0:
        return _BAIL
    name = intern_kernel_token(load_memory_number(state + _META), load_memory_number(state + _META + 8), state)
    value = intern_kernel_token(load_memory_number(state + _META + 16), load_memory_number(state + _META + 24), state)
    if name < 0 or value < 0:
        return FULL
    for column in range(c.CAT, c.META_NAME):
        if column not in (c.PID, c.HHASH):
            store_memory_number(row + stride * column, c.ABSENT)
    store_memory_number(row + stride * c.META_NAME, name)
    store_memory_number(row + stride * c.META_VALUE, value)
    return 0


@compile_kernel
def _clear(row, stride):  # type: ignore[no-untyped-def]
    for column in range(c.COLUMNS):
        store_memory_number(row + stride * column, c.ABSENT)


@compile_kernel
def scan_kernel_lines(block, start, stop, state):  # type: ignore[no-untyped-def]
    """Scan whole lines from address `start` to `stop` into rows from number ROW on, which hold ABSENT before.

    Stops early when the rows are full, or the token tables are (WANTS_ROOM is 1 then): go on at NEXT. LINES counts
    the lines passed; a row's line number is put beside it. UNREAD rows hold offsets into `block`.
    """
    rows, stride = load_memory_number(state + ROWS_AT), load_memory_number(state + ROWS_STRIDE)
    numbers = load_memory_number(state + NUMBERS_AT)
    n, lines, p = load_memory_number(state + ROW), load_memory_number(state + LINES), start
    store_memory_number(state + WANTS_ROOM, 0)
    while p < stop and n < ROWS:
        line = p
        p = _skip_around(p)
        ch = load_memory_byte(p)
        if ch == 10:
            p += 1
            lines += 1
            continue
        first, row = p, rows + 8 * n
        behind = _event(p, row, stride, state) if ch == 123 else _BAIL
        if behind == FULL:
            _clear(row, stride)
            store_memory_number(state + WANTS_ROOM, 1)
            p = line
            break
        if behind > 0:
            p = _skip_around(behind)
            if load_memory_byte(p) != 10:
                behind = _BAIL
        if behind < 0:
            p = first
            while load_memory_byte(p) != 10:
                p += 1
            _clear(row, stride)
            store_memory_number(row + stride * c.PH, c.UNREAD)
            store_memory_number(row + stride * c.TS, first - block)
            store_memory_number(row + stride * c.DUR, p - block)
        store_memory_number(numbers + 8 * n, lines)
        n += 1
        p += 1
        lines += 1
    store_memory_number(state + ROW, n)
    store_memory_number(state + NEXT, p)
    store_memory_number(state + LINES, lines)

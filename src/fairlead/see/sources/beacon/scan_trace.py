"""Scanner of client trace lines, and the table of open handles.

Plain Python that `compiled.compile_kernel` gives in compiled form for large inputs; both forms give the same rows.
"""

from __future__ import annotations

from typing import Any

from fairlead.see.sources.beacon.layout import NONE
from fairlead.see.sources.beacon.scan import (
    scan_digits,
    scan_for_word,
    scan_hexadecimal,
    scan_past_spaces,
    scan_to_token_end,
    scan_wall_seconds,
    scan_word_at,
    trim_scan_span,
)

_OPEN, _READ, _WRITE, _RELEASE = tuple(b"OPEN"), tuple(b"READ"), tuple(b"WRITE"), tuple(b"RELEASE")
_SIZE, _OFFSET, _COUNT, _LARGEST = tuple(b"size="), tuple(b"offset="), tuple(b"count="), tuple(b"maxsize=")
_ARROW = tuple(b" => ")


def scan_trace_operations(buf: bytes, begins: Any, ends: Any, out: Any) -> None:
    """Client trace lines. Row: time s, op, handle, has handle, size, offset, count, form, path begin and end."""
    for row in range(len(begins)):
        a, b = begins[row], ends[row]
        p = a + 21
        seconds = scan_wall_seconds(buf, a + 1, b)
        if buf[a + 1] == 39 or buf[a + 1] == 34:
            seconds = scan_wall_seconds(buf, a + 2, b)
            p = scan_past_spaces(buf, a + 23, b) + 1
            if b > p + 1 and buf[b - 1] == 93 and buf[b - 2] == buf[p - 1]:
                a, b = trim_scan_span(buf, a, b - 2)
            else:
                seconds = NONE
        out[row, 7] = 0
        if seconds == NONE:
            continue
        out[row, 0] = seconds
        op = -1
        for _ in range(8):
            p = scan_past_spaces(buf, p, b)
            e = scan_to_token_end(buf, p, b)
            length = e - p
            if length == 4 and scan_word_at(buf, p, e, _READ):
                op = 0
            elif length == 5 and scan_word_at(buf, p, e, _WRITE):
                op = 1
            elif scan_word_at(buf, p, e, _OPEN) and (length == 4 or (length == 6 and buf[p + 4] == 40)):
                op = 2
            elif scan_word_at(buf, p, e, _RELEASE) and (length == 7 or buf[p + 7] == 48):
                op = 3
            if op >= 0:
                break
            p = e
        if op == 0 or op == 1:
            _read_transfer(buf, e, b, out, row)
        elif op == 2:
            op = _read_open(buf, e, b, out, row)
        elif op == 3:
            q = scan_for_word(buf, p + 7, b, (48, 120))
            value, q, found = scan_hexadecimal(buf, q if q >= 0 else b, b)
            out[row, 2], out[row, 3], out[row, 7] = value, found, 1 if found else 0
            out[row, 4], out[row, 5], out[row, 6] = 0, 0, 1
        out[row, 1] = op


def _read_transfer(buf: bytes, p: int, b: int, out: Any, row: int) -> None:
    """Tokens behind READ or WRITE. Form 1: size per op and offset; 2: size is the sum; 0: not understood."""
    size, offset, count, largest = -1, NONE, -1, -1
    mean = -1.0
    out[row, 3] = 0
    k = 0
    while True:
        p = scan_past_spaces(buf, p, b)
        if p >= b:
            break
        e = scan_to_token_end(buf, p, b)
        k += 1
        if buf[p] == 48 and p + 2 < e and buf[p + 1] == 120:
            value, q, found = scan_hexadecimal(buf, p, e)
            if not found or q != e:
                return
            out[row, 2], out[row, 3] = value, 1
        elif scan_word_at(buf, p, e, _SIZE):
            size, q = scan_digits(buf, p + 5, e)
            if size < 0 or q != e:
                return
        elif scan_word_at(buf, p, e, _OFFSET):
            negative = p + 7 < e and buf[p + 7] == 45
            value, q = scan_digits(buf, p + 7 + negative, e)
            if value < 0 or q != e:
                return
            offset = -value if negative else value
        elif scan_word_at(buf, p, e, _COUNT):
            count, q = scan_digits(buf, p + 6, e)
            if count < 0 or q != e:
                return
        elif scan_word_at(buf, p, e, _LARGEST):
            largest, q = scan_digits(buf, p + 8, e)
        elif k == 5:
            q = scan_for_word(buf, p, e, (61,))
            if q < 0:
                return
            whole, q = scan_digits(buf, q + 1, e)
            if whole < 0:
                return
            mean = float(whole)
            if q < e and buf[q] == 46:
                part, r = scan_digits(buf, q + 1, min(e, q + 16))
                if part >= 0:
                    mean += part / 10.0 ** (r - q - 1)
        p = e
    if count < 1:
        return
    if offset != NONE:
        if size < 0:
            return
        out[row, 7] = 1
    elif size >= 0:
        offset = 0
        out[row, 7] = 2
    elif largest >= 0 and mean >= 0 and mean * count < 9e18:
        size, offset = int(mean * count + 0.5), 0
        out[row, 7] = 2
    out[row, 4], out[row, 5], out[row, 6] = size, offset, count


def _read_open(buf: bytes, p: int, b: int, out: Any, row: int) -> int:
    """Path and handle behind OPEN(). Returns the op: 2 for a completed open, 4 for its request half."""
    p = scan_past_spaces(buf, p, b)
    out[row, 4], out[row, 5], out[row, 6] = 0, 0, 1
    arrow = -1
    for j in range(b - 5, p - 1, -1):
        if scan_word_at(buf, j, b, _ARROW):
            arrow = j
            break
    if arrow < 0:
        out[row, 3], out[row, 7], out[row, 8], out[row, 9] = 0, 1 if p < b else 0, p, b
        return 4
    value, q, found = scan_hexadecimal(buf, scan_past_spaces(buf, arrow + 4, b), b)
    good = found and arrow > p and (q == b or buf[q] == 32)
    out[row, 2], out[row, 3], out[row, 7], out[row, 8], out[row, 9] = value, found, 1 if good else 0, p, arrow
    return 2


def resolve_trace_handles(hosts: Any, handles: Any, ops: Any, files: Any, keys: Any, values: Any, used: Any) -> int:
    """Fill in the files of reads, writes and closes from the opens before them, in line order.

    handles[row] = handle, 1 if there is one. files[row] = file id, 1 if known (opens come with theirs). The table is
    keys[slot] = host, handle and values[slot] = state, file (state 0 free, 1 open, 2 closed); its slots are a power of
    two and enough. used[0] counts the taken ones. Returns how many rows have a handle that no open explains.
    """
    mask = len(values) - 1
    unknown = 0
    for row in range(len(ops)):
        if handles[row, 1] == 0:
            continue
        host, fd, op = hosts[row], handles[row, 0], ops[row]
        h = (fd & 0x7FFFFFFF) * 40503 + ((fd >> 31) & 0x7FFFFFFF) * 7919 + host * 1000003
        slot = (h ^ (h >> 17)) & mask
        while values[slot, 0] != 0 and (keys[slot, 0] != host or keys[slot, 1] != fd):
            slot = (slot + 1) & mask
        if op == 2:
            if values[slot, 0] == 0:
                used[0] += 1
            keys[slot, 0], keys[slot, 1] = host, fd
            values[slot, 0], values[slot, 1] = 1, files[row, 0]
            files[row, 1] = 1
        elif values[slot, 0] == 1:
            files[row, 0], files[row, 1] = values[slot, 1], 1
            if op == 3:
                values[slot, 0] = 2
        else:
            unknown += 1
    return unknown


PARTS = (_read_transfer, _read_open)

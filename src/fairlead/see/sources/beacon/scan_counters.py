"""Scanners of counter lines: server histograms, pages per RPC, read-ahead cache, metadata operations.

Plain Python that `compiled.compile_kernel` gives in compiled form for large inputs; both forms give the same rows.
"""

from __future__ import annotations

from typing import Any

from fairlead.see.sources.beacon.layout import BUCKETS, NONE
from fairlead.see.sources.beacon.scan import (
    TRACE,
    scan_digits,
    scan_for_word,
    scan_past_spaces,
    scan_stamp_ns,
    scan_to_token_end,
    scan_wall_seconds,
    scan_word_at,
)

_WAIT, _EXE, _QUEUE = tuple(b"wait:"), tuple(b"exe:"), tuple(b"queue length:")
_MISS, _DISCARD = tuple(b"cache_miss"), tuple(b"discard")


def scan_latency_counters(buf: bytes, begins: Any, ends: Any, out: Any) -> None:
    """Server lines. Row: time s, class (0 read, 1 write, 2 metadata, 3 queue), 0 wait or 1 service, 8 values, ok."""
    for row in range(len(begins)):
        a, b = begins[row], ends[row]
        out[row, 11] = 0
        out[row, 0] = scan_wall_seconds(buf, a + 1, b)
        p = scan_for_word(buf, a, b, TRACE)
        if out[row, 0] == NONE or p < 0:
            continue
        p = scan_past_spaces(buf, p + 8, b)
        wanted = 8
        if scan_word_at(buf, p, b, _QUEUE):
            out[row, 1], out[row, 2] = 3, 0
            p += 13
            wanted = 1
        else:
            e = scan_to_token_end(buf, p, b)
            first = buf[p] if e - p == 4 or e - p == 5 else 0
            out[row, 1] = 0 if first == 82 else (1 if first == 87 else (2 if first == 77 else -1))
            p = scan_past_spaces(buf, e, b)
            wait = scan_word_at(buf, p, b, _WAIT)
            if out[row, 1] < 0 or not (wait or scan_word_at(buf, p, b, _EXE)):
                continue
            out[row, 2] = 0 if wait else 1
            p = scan_to_token_end(buf, p, b)
        k = 0
        while k < wanted:
            value, q = scan_digits(buf, scan_past_spaces(buf, p, b), b)
            if value < 0:
                break
            out[row, 3 + k] = value
            p = q
            k += 1
        out[row, 11] = 1 if k == wanted and scan_past_spaces(buf, p, b) == b else 0


def scan_rpc_counters(buf: bytes, begins: Any, ends: Any, out: Any, counts: Any) -> int:
    """Pages-per-RPC lines. Row: target (-1 none), time ns or NONE, local time s or NONE, ok; counts[row, way, k] of
    2**k pages. Returns the widest k + 1 seen."""
    widest = 0
    for row in range(len(begins)):
        a, b = begins[row], ends[row]
        out[row, 0], out[row, 1], out[row, 2], out[row, 3] = -1, NONE, NONE, 0
        p = scan_for_word(buf, a, b, (91, 91))
        head = a
        if p < 0:
            continue
        if buf[a] == 91:
            out[row, 2] = scan_wall_seconds(buf, a + 2, p)
            head = scan_past_spaces(buf, a + 23, p) + 1
        elif p - a > 10 and buf[a + 4] == 45:
            e = scan_for_word(buf, a, p, (44,))
            if e < 0:
                continue
            out[row, 1] = scan_stamp_ns(buf, a, e) if buf[e - 1] == 90 else NONE
            out[row, 2] = scan_wall_seconds(buf, a, e) if out[row, 1] == NONE else NONE
            if out[row, 1] == NONE and out[row, 2] == NONE:
                continue
            head = -1
        if head >= 0:
            target = 0
            e = head
            while e < p and (48 <= buf[e] <= 57 or 97 <= (buf[e] | 32) <= 102):
                target = target * 16 + (buf[e] - 48 if buf[e] <= 57 else (buf[e] | 32) - 87)
                e += 1
            if e == head or e - head > 8:
                continue
            out[row, 0] = target
        q, width = _read_triples(buf, p + 1, b, counts, row)
        if q < 0 or (buf[a] == 91 and out[row, 2] == NONE):
            continue
        q = scan_past_spaces(buf, q, b)
        if head != a:
            # What closes the list (`]`) or the quoted field (`"`) ends the line.
            if q + 1 != b and (q != b or buf[a] == 91):
                continue
        elif q < b:
            out[row, 1] = scan_stamp_ns(buf, q, b)
            if out[row, 1] == NONE:
                continue
        widest = max(widest, width)
        out[row, 3] = 1
    return widest


def _read_triples(buf: bytes, p: int, b: int, counts: Any, row: int) -> tuple[int, int]:
    """`[1, r, w], [2, r, w], ...]` from `p` on into counts[row]. Returns the position behind (-1: malformed), width."""
    for k in range(BUCKETS):
        counts[row, 0, k] = 0
        counts[row, 1, k] = 0
    width = 0
    while p < b and buf[p] == 91:
        p = scan_past_spaces(buf, p + 1, b)
        quoted = p < b and (buf[p] == 34 or buf[p] == 39)
        pages, p = scan_digits(buf, p + quoted, b)
        if pages < 1 or p >= b or pages & (pages - 1):
            return -1, 0
        k = 0
        while (1 << k) < pages:
            k += 1
        if (buf[p] | 32) == 107:
            k, p = k + 10, p + 1
        elif (buf[p] | 32) == 109:
            k, p = k + 20, p + 1
        p += quoted
        for way in range(2):
            p = scan_past_spaces(buf, p, b)
            if p >= b or buf[p] != 44 or k >= BUCKETS:
                return -1, 0
            value, p = scan_digits(buf, scan_past_spaces(buf, p + 1, b), b)
            if value < 0:
                return -1, 0
            counts[row, way, k] = value
        p = scan_past_spaces(buf, p, b)
        if p >= b or buf[p] != 93:
            return -1, 0
        width = max(width, k + 1)
        p = scan_past_spaces(buf, p + 1, b)
        if p < b and buf[p] == 44:
            p = scan_past_spaces(buf, p + 1, b)
    if p >= b or buf[p] != 93 or width == 0:
        return -1, 0
    return p + 1, width


def scan_cache_counters(buf: bytes, begins: Any, ends: Any, out: Any) -> None:
    """Read-ahead lines. Row: local time s or NONE, hit, miss, discard, ok."""
    for row in range(len(begins)):
        a, b = begins[row], ends[row]
        listed = buf[a] == 91
        out[row, 0] = scan_wall_seconds(buf, a + 2, b) if listed else NONE
        out[row, 4] = 0
        p = a
        if listed:
            p = scan_for_word(buf, a + 20, b, (44, 32, 91))
            if p < 0 or out[row, 0] == NONE:
                continue
            p += 2
        k = 0
        while k < 3:
            e = p + 1 if listed else scan_to_token_end(buf, p, b)
            if not listed and k == 1 and not scan_word_at(buf, p, e, _MISS):
                break
            if not listed and k == 2 and not scan_word_at(buf, p, e, _DISCARD):
                break
            value, p = scan_digits(buf, scan_past_spaces(buf, e, b), b)
            if value < 0:
                break
            out[row, 1 + k] = value
            p = p if listed else scan_past_spaces(buf, p, b)
            k += 1
        out[row, 4] = 1 if k == 3 and (p == b or (listed and p + 2 == b)) else 0


def scan_metadata_counters(buf: bytes, begins: Any, ends: Any, clients: Any, pairs: Any) -> int:
    """Metadata-server lines. clients[row]: end of the client's name, ok. A row of `pairs` per counter: line, name begin
    and end, value. Returns the number of pairs."""
    n = 0
    for row in range(len(begins)):
        b = ends[row]
        start = n
        p = scan_to_token_end(buf, begins[row], b)
        clients[row, 0], clients[row, 1] = p, 0
        while True:
            p = scan_past_spaces(buf, p, b)
            e = scan_to_token_end(buf, p, b)
            value, q = scan_digits(buf, scan_past_spaces(buf, e, b), b)
            if p >= b or value < 0 or (q < b and buf[q] != 32) or 48 <= buf[p] <= 57:
                break
            pairs[n, 0], pairs[n, 1], pairs[n, 2], pairs[n, 3] = row, p, e, value
            n += 1
            p = q
        if p >= b and n > start:
            clients[row, 1] = 1
        else:
            n = start
    return n


PARTS = (_read_triples,)

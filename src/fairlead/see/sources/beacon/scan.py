"""Scanner of lines: bytes in, one row of integers per line out. Knows the envelope, not what a message says.

Plain Python that `compiled.compile_kernel` gives in compiled form for large inputs; both forms give the same rows.
"""

from __future__ import annotations

from typing import Any

from fairlead.see.sources.beacon.layout import (
    CACHE,
    CLIENT_RPCS,
    JOB_COMMAS,
    JOB_TABS,
    LATENCY,
    METADATA,
    NONE,
    OPERATION,
    TARGET_RPCS,
    UNREAD,
)

TRACE = tuple(b"[Trace]:")
_CACHE_WORD, _CACHE_HIT, _JOBID = tuple(b"cache"), tuple(b"cache_hit "), tuple(b"jobid")


def scan_digits(buf: bytes, i: int, end: int) -> tuple[int, int]:
    """Value of the digits from `i` on and the position behind them; -1 for none or more than 18."""
    start = i
    value = 0
    while i < end and 48 <= buf[i] <= 57:
        if i - start >= 18:
            return -1, i
        value = value * 10 + (buf[i] - 48)
        i += 1
    if i == start:
        return -1, i
    return value, i


def scan_hexadecimal(buf: bytes, i: int, end: int) -> tuple[int, int, bool]:
    """Value after `0x`, as signed 64-bit, the position behind, and whether there were 1 to 16 digits."""
    if i + 2 >= end or buf[i] != 48 or (buf[i + 1] | 32) != 120:
        return 0, i, False
    i += 2
    start = i
    while i < end and (48 <= buf[i] <= 57 or 97 <= (buf[i] | 32) <= 102):
        i += 1
    if i == start or i - start > 16:
        return 0, i, False
    value = 0
    for j in range(start, i):
        d = buf[j] - 48 if buf[j] <= 57 else (buf[j] | 32) - 87
        if j == start and i - start == 16 and d > 7:
            d -= 16
        value = value * 16 + d
    return value, i, True


def scan_word_at(buf: bytes, i: int, end: int, word: tuple[int, ...]) -> bool:
    """Whether `word` (a tuple of bytes) stands at `i`."""
    if i < 0 or i + len(word) > end:
        return False
    for k in range(len(word)):  # noqa: SIM110 - compiled
        if buf[i + k] != word[k]:
            return False
    return True


def scan_for_word(buf: bytes, i: int, end: int, word: tuple[int, ...]) -> int:
    """First position of `word` in [i, end), or -1."""
    for j in range(i, end - len(word) + 1):
        if scan_word_at(buf, j, end, word):
            return j
    return -1


def scan_past_spaces(buf: bytes, i: int, end: int) -> int:
    """First position from `i` on that is no space or tab."""
    while i < end and (buf[i] == 32 or buf[i] == 9):
        i += 1
    return i


def scan_to_token_end(buf: bytes, i: int, end: int) -> int:
    """First position from `i` on that is a space or tab."""
    while i < end and buf[i] != 32 and buf[i] != 9:
        i += 1
    return i


def _parse_two_digits(buf: bytes, i: int) -> int:
    """Two digits, or a large number when they are none."""
    if 48 <= buf[i] <= 57 and 48 <= buf[i + 1] <= 57:
        return (buf[i] - 48) * 10 + (buf[i + 1] - 48)
    return 1 << 20


def scan_wall_seconds(buf: bytes, i: int, end: int) -> int:
    """`YYYY-mm-dd HH:MM:SS` (or with `T`) as seconds since 1970 on the same clock; NONE when it is none."""
    if i < 0 or i + 19 > end or buf[i + 4] != 45 or buf[i + 7] != 45 or buf[i + 13] != 58 or buf[i + 16] != 58:
        return NONE
    if buf[i + 10] != 32 and buf[i + 10] != 84:
        return NONE
    year = _parse_two_digits(buf, i) * 100 + _parse_two_digits(buf, i + 2)
    month, day = _parse_two_digits(buf, i + 5), _parse_two_digits(buf, i + 8)
    hour, minute, second = (
        _parse_two_digits(buf, i + 11),
        _parse_two_digits(buf, i + 14),
        _parse_two_digits(buf, i + 17),
    )
    if year < 1970 or year > 2200 or month < 1 or month > 12 or day < 1 or hour > 23 or minute > 59 or second > 60:
        return NONE
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    longest = 28 + leap if month == 2 else 30 + ((month + month // 8) & 1)
    if day > longest:
        return NONE
    # Days from civil: the year starts in March, so that the leap day is its last.
    y = year - (month <= 2)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days = y * 365 + y // 4 - y // 100 + y // 400 + of_year - 719468
    return days * 86400 + hour * 3600 + minute * 60 + second


def scan_stamp_ns(buf: bytes, i: int, end: int) -> int:
    """`2018-02-25T10:00:12.544Z` as epoch nanoseconds; NONE unless all of [i, end) is such a time."""
    seconds = scan_wall_seconds(buf, i, end)
    if seconds == NONE:
        return NONE
    i += 19
    fraction, scale = 0, 1_000_000_000
    if i < end and buf[i] == 46:
        i += 1
        while i < end and 48 <= buf[i] <= 57:
            if scale > 1:
                scale //= 10
                fraction += (buf[i] - 48) * scale
            i += 1
    if i < end and buf[i] == 90:
        i += 1
    if i != end:
        return NONE
    return seconds * 1_000_000_000 + fraction


def trim_scan_span(buf: bytes, a: int, b: int) -> tuple[int, int]:
    """[a, b) without spaces, carriage returns and tabs at its ends."""
    while b > a and (buf[b - 1] == 32 or buf[b - 1] == 13 or buf[b - 1] == 9):
        b -= 1
    while a < b and (buf[a] == 32 or buf[a] == 9):
        a += 1
    return a, b


def _classify_line(buf: bytes, a: int, b: int) -> int:
    """Which of the line kinds of `layout` the message buf[a:b] looks like."""
    c = buf[a]
    if c == 91:  # [
        if a + 1 < b and 48 <= buf[a + 1] <= 57:
            p = scan_past_spaces(buf, a + 21, b)
            if p + 1 < b and buf[p] == 84 and buf[p + 1] == 32:
                return OPERATION
            return LATENCY if scan_for_word(buf, p, b, TRACE) >= 0 else UNREAD
        if a + 24 < b and (buf[a + 1] == 39 or buf[a + 1] == 34):
            p = scan_past_spaces(buf, a + 23, b)
            if p + 6 < b and (buf[p] == 39 or buf[p] == 34):
                if scan_word_at(buf, p + 1, b, _CACHE_WORD):
                    return CACHE
                q = p + 1
                while q < b and (48 <= buf[q] <= 57 or 97 <= (buf[q] | 32) <= 102):
                    q += 1
                return CLIENT_RPCS if q > p + 1 and q < b and buf[q] == buf[p] else OPERATION
        return UNREAD
    if scan_word_at(buf, a, b, _CACHE_HIT):
        return CACHE
    tabs = commas = 0
    for i in range(a, b):
        tabs += buf[i] == 9
        commas += buf[i] == 44
    if tabs >= 9:
        return JOB_TABS
    p = a
    while p < b and (48 <= buf[p] <= 57 or 97 <= (buf[p] | 32) <= 102):
        p += 1
    if p > a and p + 2 < b and buf[p] == 32 and buf[p + 1] == 91 and buf[p + 2] == 91:
        return CLIENT_RPCS if buf[b - 1] == 93 else TARGET_RPCS
    if p == a + 4 and scan_wall_seconds(buf, a, b) != NONE:
        return TARGET_RPCS
    word_jobid = b - a > 5
    for k in range(5):
        word_jobid = word_jobid and (buf[a + k] | 32) == _JOBID[k]
    if commas >= 5 and (word_jobid or 48 <= c <= 57):
        return JOB_COMMAS
    if 48 <= c <= 57 and p < b and (buf[p] == 46 or buf[p] == 64 or buf[p] == 58):
        return METADATA
    return UNREAD


def scan_lines(buf: bytes, size: int, out: Any) -> int:
    """One row of `out` per line that is not blank: kind, message begin and end, @timestamp ns, host begin and end, line
    (from 0). Returns the rows."""
    n = 0
    i = 0
    line = -1
    while i < size:
        last, before = -1, -1
        j = i
        line += 1
        while j < size and buf[j] != 10:
            if buf[j] == 124 and j + 1 < size and buf[j + 1] == 124:
                before, last = last, j
                j += 1
            j += 1
        a, b = i, j
        stamp, host_a, host_b = NONE, 0, 0
        if before >= 0:
            host_a, host_b = trim_scan_span(buf, last + 2, j)
            ts_a, ts_b = trim_scan_span(buf, before + 2, last)
            stamp = scan_stamp_ns(buf, ts_a, ts_b)
            b = before
        a, b = trim_scan_span(buf, a, b)
        i = j + 1
        if a < b:
            out[n, 0], out[n, 1], out[n, 2], out[n, 3] = _classify_line(buf, a, b), a, b, stamp
            out[n, 4], out[n, 5], out[n, 6] = host_a, host_b, line
            n += 1
    return n


def copy_scan_spans(buf: bytes, begins: Any, ends: Any, out: Any, offsets: Any) -> None:
    """Copy the spans one behind the other into `out`; offsets[k] is where span k begins."""
    at = 0
    for row in range(len(begins)):
        offsets[row] = at
        for i in range(begins[row], ends[row]):
            out[at] = buf[i]
            at += 1
    offsets[len(begins)] = at


PARTS = (
    scan_digits,
    scan_hexadecimal,
    scan_word_at,
    scan_for_word,
    scan_past_spaces,
    scan_to_token_end,
    _parse_two_digits,
    scan_wall_seconds,
    scan_stamp_ns,
    trim_scan_span,
    _classify_line,
)

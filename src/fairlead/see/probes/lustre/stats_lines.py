"""Lustre's `stats` texts (`NAME N samples [UNIT] MIN MAX SUM SUMSQ`): names to samples and sums. Not here: tables.

All that Lustre writes by one routine: stats, md_stats, read_ahead_stats, of all versions, and the times above them.
"""

import re
from typing import Dict, Iterable, NamedTuple, Optional, Pattern, Tuple

MOST = (1 << 63) - 1
"""What a column holds. A counter beyond it stays there."""
USEC = (b"usec", b"usecs")
"""Units of what is timed, as versions write them."""
_LINE = re.compile(
    rb"^([^\s:]+(?: [^\s:]+)*)[ \t]+(\d+) samples \[([^\]\n]*)\]"
    rb"(?:[ \t]+(\d+)[ \t]+(\d+)[ \t]+(\d+)(?:[ \t]+\d+)?)?[ \t\r]*$",
    re.M,
)
_TIME = re.compile(
    rb"^[ \t]*(snapshot_time|start_time|elapsed_time)[ \t]*:?[ \t]*(\d+)(?:[.:](\d+))?"
    rb"[ \t]*(?:\(?secs[.:]([nu])secs\)?)?[ \t\r]*$",
    re.M,
)


class Times(NamedTuple):
    """When a text was made and when its counting began, epoch ns; None where it does not tell."""

    snapshot_ns: Optional[int]
    start_ns: Optional[int]
    lines: int


class Stats(NamedTuple):
    """What a stats text says. `counts` and `sums` by name; a name that is not there has counted nothing. `busy_us`:
    the sums of those that are timed (`[usec]`, `[usecs]`)."""

    counts: Dict[str, int]
    sums: Dict[str, int]
    times: Times
    unknown: int
    unknown_example: str
    busy_us: Dict[str, int]

    def sum_busy_ns(self, names: Iterable[str]) -> Optional[int]:
        """Time of all requests with these names, ns; None where one of them was counted and not timed, or nothing in
        the text is timed."""
        counted = [name for name in names if self.counts.get(name)]
        if not self.busy_us or any(name not in self.busy_us for name in counted):
            return None
        return add_stats_counters(self.busy_us[name] * 1000 for name in counted)


def add_stats_counters(counts: Iterable[int]) -> int:
    """Counters added up, as far as a column holds them."""
    return min(MOST, sum(counts))


def parse_stats_lines(text: bytes) -> Stats:
    """The counters of a stats text. Names written twice (two layers of one server) add up."""
    counts: Dict[str, int] = {}
    sums: Dict[str, int] = {}
    busy: Dict[str, int] = {}
    read = 0
    for name, samples, unit, _low, _high, total in _LINE.findall(text):
        read += 1
        word = name.decode("utf-8", "replace")
        counts[word] = min(MOST, counts.get(word, 0) + int(samples[:40]))
        if total:
            sums[word] = min(MOST, sums.get(word, 0) + int(total[:40]))
            if unit in USEC:
                busy[word] = min(MOST, busy.get(word, 0) + int(total[:40]))
    times = parse_stats_times(text)
    unknown, example = _count_unread(text, read + times.lines, (_LINE, _TIME))
    return Stats(counts, sums, times, unknown, example, busy)


def parse_stats_times(text: bytes) -> Times:
    """The times a text begins with."""
    snapshot = start = None
    lines = 0
    for name, seconds, part, unit in _TIME.findall(text):
        lines += 1
        if name == b"snapshot_time":
            snapshot = parse_stats_epoch_ns(seconds, part, unit)
        elif name == b"start_time":
            start = parse_stats_epoch_ns(seconds, part, unit)
    return Times(snapshot, start, lines)


def parse_stats_epoch_ns(seconds: bytes, part: bytes, unit: bytes = b"") -> Optional[int]:
    """`secs.nsecs` and `secs.usecs` (whose microseconds have no leading zeros) as nanoseconds; None beyond int64."""
    if len(seconds) > 12 or len(part) > 9:
        return None
    scale = 1000 if unit == b"u" or (not unit and len(part) <= 6) else 1
    moment = int(seconds) * 10**9 + (int(part) * scale if part else 0)
    return moment if moment <= MOST else None


def _count_unread(text: bytes, read: int, known: "Tuple[Pattern[bytes], ...]") -> Tuple[int, str]:
    """How many lines were not read, and the first of them. Looked for only where the number of lines is not that of
    lines read."""
    lines = text.count(b"\n") + (not text.endswith(b"\n") and bool(text))
    if lines == read:
        return 0, ""
    unknown = 0
    example = ""
    for line in text.split(b"\n"):
        if line.strip() and not any(one.match(line) for one in known):
            unknown += 1
            example = example or format_stats_line(line)
    return unknown, example


def format_stats_line(line: bytes) -> str:
    """A line as text to show: at most 120 characters, without those that do not print."""
    text = line[:240].strip().decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "?" for c in text)[:120]

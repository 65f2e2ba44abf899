"""Lustre's tables of buckets: rpc_stats, brw_stats, extents_stats. Titles to counts by bucket. Not here: stats lines.

A bucket is written `16:` or `4K:` (up to that many), in extents `4K - 8K:`.
"""

import re
from typing import Dict, List, NamedTuple, Sequence

from fairlead.see.probes.lustre.stats_lines import MOST, Times, add_stats_counters, format_stats_line, parse_stats_times

SIZE_BINS = 16
"""Power-of-two bins of 4 KiB pages that rows hold: 1 page, 2, 4 ... 2^14, and all above."""
FLIGHT_BINS = 33
"""RPCs in flight: 0 to 31, and all above."""
NS_BINS = 40
"""Bins of times as everywhere in fairlead: bin b counts [2^(b-1), 2^b) ns."""
_MS_SHIFT = 20
"""A millisecond is 2^19.93 ns: the bucket of up to 2^k ms is bin k + 20."""
_PAGE_SHIFT = 12

_BUCKET = re.compile(
    rb"(?:(\d+)([KMGkmg]?) - )?[ \t]*(\d+)([KMGkmg]?)[+ ]?:[ \t]*(\d+)[ \t]+\d+[ \t]+\d+"
    rb"(?:[ \t]*\|[ \t]*(\d+)[ \t]+\d+[ \t]+\d+)?[ \t\r]*$"
)
_VALUE = re.compile(rb"[ \t]*[A-Za-z][A-Za-z_ ]*(?:in[ _]flight|pages):[ \t]*\d+[ \t\r]*$")
_TITLE = re.compile(rb"[ \t]*([a-zA-Z][^\t|%]*?)(?:[ \t]{2,}|[ \t]+)(rpcs|ios|calls|maps|frags)[ \t]+%[ \t]+cum[ \t]*%")
_SIDES = re.compile(rb"[ \t]*(?:read|modify|write)[ \t|]*(?:write)?[ \t\r]*$")
MODIFY = "modify "
"""Begins the title of a table of modifying RPCs (mdc); the same file may have one of reads and writes."""
_LONGEST_LINE = 512
_UNITS = {b"": 0, b"k": 10, b"m": 20, b"g": 30}


class Table(NamedTuple):
    """One table: counts by bucket's upper edge, of reads (or of the only column) and of writes."""

    reads: Dict[int, int]
    writes: Dict[int, int]


class Tables(NamedTuple):
    """All tables of a text by title, in lower case."""

    tables: Dict[str, Table]
    times: Times
    disabled: bool
    unknown: int
    unknown_example: str


def parse_histograms(text: bytes) -> Tables:
    """The tables of an rpc_stats, brw_stats or extents_stats text."""
    if text.startswith(b"disabled"):
        return Tables({}, Times(None, None, 0), True, 0, "")
    found: Dict[str, Table] = {}
    table = None
    side = ""
    unknown = 0
    example = ""
    for line in text.split(b"\n"):
        if not line.strip():
            continue
        if len(line) > _LONGEST_LINE:
            unknown += 1
            example = example or format_stats_line(line)
            continue
        bucket = _BUCKET.match(line.lstrip(b" \t")) if table is not None else None
        if bucket is not None and table is not None:
            _add(table, bucket.groups())
            continue
        title = _TITLE.match(line)
        if title is not None:
            name = " ".join(title.group(1).decode("utf-8", "replace").lower().split())
            table = found.setdefault(side + name, Table({}, {}))
        elif _SIDES.match(line):
            side = MODIFY if b"modify" in line else ""
        elif not (_VALUE.match(line) or parse_stats_times(line).lines):
            unknown += 1
            example = example or format_stats_line(line)
    return Tables(found, parse_stats_times(text[:400]), False, unknown, example)


def _add(table: Table, groups: "Sequence[bytes]") -> None:
    _low, _low_unit, edge, unit, reads, writes = groups
    bucket = min(MOST, int(edge[:40]) << _UNITS[unit.lower()])
    table.reads[bucket] = min(MOST, table.reads.get(bucket, 0) + int(reads[:40]))
    if writes is not None:
        table.writes[bucket] = min(MOST, table.writes.get(bucket, 0) + int(writes[:40]))


def bin_page_histogram(buckets: Dict[int, int]) -> List[int]:
    """Buckets of pages as SIZE_BINS counts: bin k is up to 2^k pages."""
    return _binned(buckets, 0, SIZE_BINS)


def bin_byte_histogram(buckets: Dict[int, int]) -> List[int]:
    """Buckets of bytes as SIZE_BINS counts: bin 0 is up to 4 KiB, bin k up to 2^k pages of it."""
    return _binned(buckets, -_PAGE_SHIFT, SIZE_BINS)


def bin_time_histogram(*tables: Dict[int, int]) -> List[int]:
    """Buckets of milliseconds as NS_BINS counts, all tables together."""
    total = [0] * NS_BINS
    for buckets in tables:
        total = [add_stats_counters(pair) for pair in zip(total, _binned(buckets, _MS_SHIFT, NS_BINS))]
    return total


def bin_flight_histogram(buckets: Dict[int, int]) -> List[int]:
    """RPCs by how many were under way: element k of FLIGHT_BINS counts those sent as the k-th."""
    made = [0] * FLIGHT_BINS
    for bucket, count in buckets.items():
        place = min(bucket, FLIGHT_BINS - 1)
        made[place] = min(MOST, made[place] + count)
    return made


def sum_histogram_buckets(buckets: Dict[int, int]) -> int:
    """All counts of a table's side."""
    return add_stats_counters(buckets.values())


def _binned(buckets: Dict[int, int], shift: int, bins: int) -> List[int]:
    made = [0] * bins
    for edge, count in buckets.items():
        place = (edge - 1).bit_length() if edge > 0 else 0
        place = min(max(place + shift, 0), bins - 1)
        made[place] = min(MOST, made[place] + count)
    return made

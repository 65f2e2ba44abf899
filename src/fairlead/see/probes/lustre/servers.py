"""An OSS and an MDS as wholes: obdfilter stats, brw_stats, md_stats, and the queue of their service threads.

Not here: what is split by job (`jobs`) or by client (`exports`).
"""

from typing import Any, Dict, List, Optional, Sequence, Tuple

from fairlead.see.probes.base import Key, ProbeResult
from fairlead.see.probes.lustre.client import count_unknown_client_names, count_unknown_client_requests
from fairlead.see.probes.lustre.histograms import (
    Table,
    bin_byte_histogram,
    bin_page_histogram,
    bin_time_histogram,
    parse_histograms,
    sum_histogram_buckets,
)
from fairlead.see.probes.lustre.lustre_probe import TARGET_ROW, TARGET_TIMES, LustreProbe, Tally
from fairlead.see.probes.lustre.names import MDT_DATA, MDT_OPS, MDT_UPKEEP, OST_METADATA, OST_OTHER
from fairlead.see.probes.lustre.parameters import Place
from fairlead.see.probes.lustre.stats_lines import Stats, add_stats_counters, parse_stats_lines

KNOWN_MDT = frozenset(MDT_OPS) | MDT_UPKEEP
MDT_DATA_ROW = (*TARGET_ROW[:4], *TARGET_TIMES[:2])
"""Counters of data on an MDT."""


class OstProbe(LustreProbe):
    """Each OST of this server: RPCs, bytes, metadata operations, and how long these took where that is counted;
    `queue_len_mean` is how many requests one found waiting for a thread of `ost_io`, on average since the last look,
    and is the same for all OSTs of the server."""

    name = "lustre_ost"
    kind = "OSS"
    wants = ("obdfilter/*/stats", "ost/OSS/ost_io/stats")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._queue = _Queue()

    def collect(self, place: Place, now_ns: int) -> Optional[ProbeResult]:  # noqa: ARG002
        """Counters of every OST."""
        targets = place.find(self.wants[0])
        if not targets:
            return None
        tally = Tally()
        rows: Dict[Key, Sequence[Any]] = {}
        epochs: Dict[Key, Optional[int]] = {}
        waiting = self._queue.mean(place, self.wants[1], tally)
        for one in targets:
            stats = parse_stats_lines(place.read(one))
            count_unknown_client_names(stats, OST_METADATA, OST_OTHER, tally)
            rows[one.stars] = [*build_ost_server_row(stats), waiting]
            epochs[one.stars] = stats.times.start_ns
        gauges = ("queue_len_mean",)
        return ProbeResult(
            [
                self.build_reading(
                    "target", ("target",), (*TARGET_ROW, *TARGET_TIMES), rows, "obdfilter", tally, epochs, gauges
                )
            ]
        )


class BrwProbe(LustreProbe):
    """The device below each target: I/Os by size, and by how long they took. A part of what `obdfilter` counts."""

    name = "lustre_brw"
    kind = "OSS or MDS"
    period_s = 10.0
    wants = ("osd-*/*/brw_stats", "obdfilter/*/brw_stats")

    def collect(self, place: Place, now_ns: int) -> Optional[ProbeResult]:  # noqa: ARG002
        """Histograms of every target."""
        by_name = {one.stars[-1]: one for pattern in reversed(self.wants) for one in place.find(pattern)}
        if not by_name:
            return None
        tally = Tally()
        rows: Dict[Key, Sequence[Any]] = {}
        epochs: Dict[Key, Optional[int]] = {}
        for target in sorted(by_name):
            read = parse_histograms(place.read(by_name[target]))
            tally.add(read.unknown, read.unknown_example)
            rows[target,] = _build_brw_row(read.tables)
            epochs[target,] = read.times.start_ns
        counters = ("read_sizes", "write_sizes", "service_ns_histogram")
        return ProbeResult([self.build_reading("target", ("target",), counters, rows, "brw_stats", tally, epochs)])


class MdtProbe(LustreProbe):
    """Each MDT of this server: operations by name and how long they took, and how long its queue was (as `OstProbe`
    says it)."""

    name = "lustre_mdt"
    kind = "MDS"
    wants = ("mdt/*/md_stats", "mds/MDS/mdt/stats")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._queue = _Queue()

    def collect(self, place: Place, now_ns: int) -> Optional[ProbeResult]:  # noqa: ARG002
        """Counters of every MDT."""
        targets = place.find(self.wants[0])
        if not targets:
            return None
        tally = Tally()
        rows: Dict[Key, Sequence[Any]] = {}
        moved: Dict[Key, Sequence[Any]] = {}
        epochs: Dict[Key, Optional[int]] = {}
        waiting = self._queue.mean(place, self.wants[1], tally)
        for one in targets:
            stats = parse_stats_lines(place.read(one))
            count_unknown_client_names(stats, KNOWN_MDT, MDT_DATA, tally)
            for op, count in stats.counts.items():
                if op not in MDT_DATA:
                    rows[one.stars[0], op] = [count, stats.sum_busy_ns((op,))]
                    epochs[one.stars[0], op] = stats.times.start_ns
            moved[one.stars] = [*build_mdt_server_data(stats), *build_data_times(stats), waiting]
        whole = self.build_reading(
            "metadata", ("target", "op"), ("count", "busy_ns"), rows, "md_stats", tally, epochs, born_at_zero=True
        )
        if waiting is None and not any(any(row[:4]) for row in moved.values()):
            return ProbeResult([whole])
        return ProbeResult(
            [
                whole,
                self.build_reading("target", ("target",), MDT_DATA_ROW, moved, "md_stats", gauges=("queue_len_mean",)),
            ]
        )


class _Queue:
    """The mean length of a service's queue between two looks, from its running sum and count."""

    def __init__(self) -> None:
        self._last: Optional[Tuple[int, int]] = None

    def mean(self, place: Place, pattern: str, tally: Tally) -> Optional[float]:
        """Requests found waiting by the average request since the last look; None when there was none, or no look."""
        for one in place.find(pattern):
            stats = parse_stats_lines(place.read(one))
            count_unknown_client_requests(stats, tally)
            now = (stats.counts.get("req_qdepth", 0), stats.sums.get("req_qdepth", 0))
            last, self._last = self._last, now
            if last is not None and now[0] > last[0] and now[1] >= last[1]:
                return (now[1] - last[1]) / (now[0] - last[0])
        return None


def build_ost_server_row(stats: Stats) -> List[Optional[int]]:
    """The values of TARGET_ROW and TARGET_TIMES for an OST."""
    return [
        *build_mdt_server_data(stats),
        add_stats_counters(n for name, n in stats.counts.items() if name in OST_METADATA),
        *build_data_times(stats),
        stats.sum_busy_ns(OST_METADATA),
    ]


def build_data_times(stats: Stats) -> List[Optional[int]]:
    """Times of reads, of writes: None where the text counts them without their times (before 2.13)."""
    times: List[Optional[int]] = []
    for way in ("read", "write"):
        told = way in stats.counts or not stats.counts.get(way + "_bytes")
        times.append(stats.sum_busy_ns((way,)) if told else None)
    return times


def build_mdt_server_data(stats: Stats) -> List[int]:
    """RPCs and bytes of reads, of writes."""
    counts, sums = stats.counts, stats.sums
    return [
        counts.get("read_bytes", 0),
        counts.get("write_bytes", 0),
        sums.get("read_bytes", 0),
        sums.get("write_bytes", 0),
    ]


def _build_brw_row(tables: Dict[str, Table]) -> List[Any]:
    """read_sizes, write_sizes, service_ns_histogram; None where the text has no such table. Sizes are those of I/Os to
    the device where it tells, else those of bulk requests."""
    sizes, pages, times = (
        tables.get("disk i/o size"),
        tables.get("pages per bulk r/w"),
        tables.get("i/o time (1/1000s)"),
    )
    reads: Optional[List[int]] = None
    writes: Optional[List[int]] = None
    if sizes is not None and (
        sum_histogram_buckets(sizes.reads) or sum_histogram_buckets(sizes.writes) or pages is None
    ):
        reads, writes = bin_byte_histogram(sizes.reads), bin_byte_histogram(sizes.writes)
    elif pages is not None:
        reads, writes = bin_page_histogram(pages.reads), bin_page_histogram(pages.writes)
    return [reads, writes, bin_time_histogram(times.reads, times.writes) if times is not None else None]

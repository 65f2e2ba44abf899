"""A Lustre client: the mount (llite), its connections to OSTs (osc) and to MDTs (mdc, lmv), as `pfs_client` rows.

Not here: servers. llite, osc and lmv tell of the same traffic at three heights: `source` says which.
"""

from typing import Any, Dict, List, Optional, Sequence

from fairlead.see.probes.base import Key, ProbeResult
from fairlead.see.probes.lustre.histograms import (
    MODIFY,
    Tables,
    bin_flight_histogram,
    bin_page_histogram,
    parse_histograms,
    sum_histogram_buckets,
)
from fairlead.see.probes.lustre.lustre_probe import (
    LustreProbe,
    Tally,
    TextCache,
    find_lustre_fs,
    find_lustre_mount,
    find_lustre_target,
    merge_lustre_row,
)
from fairlead.see.probes.lustre.names import CLIENT_METADATA, CLIENT_OTHER, INTENTS, READ_AHEAD_PARTS
from fairlead.see.probes.lustre.parameters import Place
from fairlead.see.probes.lustre.stats_lines import Stats, add_stats_counters, parse_stats_lines

_LLITE = (
    "read_ops",
    "write_ops",
    "read_bytes",
    "write_bytes",
    "metadata_ops",
    "cache_hit",
    "cache_miss",
    "cache_discard",
    "read_busy_ns",
    "write_busy_ns",
    "metadata_busy_ns",
)
_OSC = (
    "read_rpcs",
    "write_rpcs",
    "read_bytes",
    "write_bytes",
    "pages_per_rpc_read",
    "pages_per_rpc_write",
    "rpcs_in_flight_read",
    "rpcs_in_flight_write",
    "read_busy_ns",
    "write_busy_ns",
)
_MDC = ("metadata_ops", "metadata_busy_ns", "rpcs_in_flight_write")
_CONNECTION = frozenset(
    ("req_waittime", "req_active", "req_qdepth", "req_timeout", "reqbuf_avail", "read_bytes", "write_bytes")
)
_REQUESTS = ("ost_", "mds_", "ldlm_", "obd_", "mgs_", "llog_", "seq_", "fld_", "quota_", "sec_", "out_", "nodemap_")


class LliteProbe(LustreProbe):
    """The mount: calls of programs and their bytes, metadata calls, read-ahead. One row a file system (`fs`)."""

    name = "lustre_llite"
    kind = "Lustre client"
    wants = ("llite/*/stats", "llite/*/read_ahead_stats")

    def collect(self, place: Place, now_ns: int) -> Optional[ProbeResult]:  # noqa: ARG002
        """Counters of every mount."""
        mounts = place.find(self.wants[0])
        if not mounts:
            return None
        tally = Tally()
        rows: Dict[Key, Sequence[Any]] = {}
        epochs: Dict[Key, Optional[int]] = {}
        ahead = {one.stars: one for one in place.find(self.wants[1])}
        for mount in mounts:
            stats = parse_stats_lines(place.read(mount))
            count_unknown_client_names(stats, CLIENT_METADATA, CLIENT_OTHER, tally)
            cache: List[Optional[int]] = [None, None, None]
            if mount.stars in ahead:
                parts = parse_stats_lines(place.read(ahead[mount.stars]))
                count_unknown_client_names(parts, READ_AHEAD_PARTS, frozenset(), tally)
                cache = [parts.counts.get(name, 0) for name in ("hits", "misses", "read but discarded")]
            key = (find_lustre_mount(mount.stars[0]),)
            if key not in rows and stats.times.start_ns is not None:
                epochs[key] = stats.times.start_ns
            moved: List[Optional[int]] = [
                stats.counts.get("read_bytes", 0),
                stats.counts.get("write_bytes", 0),
                stats.sums.get("read_bytes", 0),
                stats.sums.get("write_bytes", 0),
                add_stats_counters(count for name, count in stats.counts.items() if name in CLIENT_METADATA),
            ]
            merge_lustre_row(rows, key, moved + cache + _call_times(stats))
        return ProbeResult([self.build_reading("pfs_client", ("fs",), _LLITE, rows, "llite", tally, epochs)])


class OscProbe(LustreProbe):
    """What the client sends to each OST: RPCs, bytes, pages of an RPC, RPCs under way. One row a target.

    A client of a large site has hundreds of these, most of them idle: a text that is as it was is not read again.
    """

    name = "lustre_osc"
    kind = "Lustre client"
    period_s = 5.0
    wants = ("osc/*/stats", "osc/*/rpc_stats")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._stats: "TextCache[Stats]" = TextCache()
        self._tables: "TextCache[Tables]" = TextCache()

    def collect(self, place: Place, now_ns: int) -> Optional[ProbeResult]:  # noqa: ARG002
        """Counters of every connection to an OST."""
        texts = {one.stars[0]: one for one in place.find(self.wants[0])}
        tables = {one.stars[0]: one for one in place.find(self.wants[1])}
        tally = Tally()
        rows: Dict[Key, Sequence[Any]] = {}
        epochs: Dict[Key, Optional[int]] = {}
        for device in sorted(set(texts) | set(tables)):
            target = find_lustre_target(device)
            if target is None:
                continue
            values: List[Any] = [None] * len(_OSC)
            if device in texts:
                stats = self._stats.get(device, place.read(texts[device]), parse_stats_lines)
                count_unknown_client_requests(stats, tally)
                values[:4] = _moved(stats)
                values[8:] = [_time_of(stats, values[way], "ost_" + name) for way, name in enumerate(("read", "write"))]
                epochs[target, find_lustre_fs(target)] = stats.times.start_ns
            if device in tables:
                values[4:8] = _shapes(
                    self._tables.get(device, place.read(tables[device]), parse_histograms), tally, values
                )
            merge_lustre_row(rows, (target, find_lustre_fs(target)), values)
        if not rows:
            return None
        return ProbeResult([self.build_reading("pfs_client", ("target", "fs"), _OSC, rows, "osc", tally, epochs)])


class MdcProbe(LustreProbe):
    """What the client asks of each MDT (mdc), and of all together (lmv): requests, modifying RPCs under way."""

    name = "lustre_mdc"
    kind = "Lustre client"
    wants = ("mdc/*/md_stats", "mdc/*/rpc_stats", "lmv/*/md_stats")

    def collect(self, place: Place, now_ns: int) -> Optional[ProbeResult]:  # noqa: ARG002
        """Counters of every connection to an MDT, and of every mount."""
        tally = Tally()
        by_target: Dict[Key, Sequence[Any]] = {}
        by_mount: Dict[Key, Sequence[Any]] = {}
        tables = {one.stars: one for one in place.find(self.wants[1])}
        for one in place.find(self.wants[0]):
            target = find_lustre_target(one.stars[0])
            if target is None:
                continue
            flights = None
            if one.stars in tables:
                read = parse_histograms(place.read(tables[one.stars]))
                tally.add(read.unknown, read.unknown_example)
                modifying = read.tables.get(MODIFY + "rpcs in flight")
                flights = bin_flight_histogram(modifying.reads) if modifying is not None else None
            merge_lustre_row(by_target, (target, find_lustre_fs(target)), [*_requests(place.read(one), tally), flights])
        for one in place.find(self.wants[2]):
            merge_lustre_row(by_mount, (find_lustre_mount(one.stars[0]),), _requests(place.read(one), tally))
        if not by_target and not by_mount:
            return None
        return ProbeResult(
            [
                self.build_reading("pfs_client", ("target", "fs"), _MDC, by_target, "mdc", tally),
                self.build_reading("pfs_client", ("fs",), _MDC[:2], by_mount, "lmv"),
            ]
        )


def count_unknown_client_names(stats: Stats, *known_and_tally: Any) -> None:
    """Count lines that were not understood, and names that no version was known to have, in the Tally given last."""
    tally: Tally = known_and_tally[-1]
    tally.add(stats.unknown, stats.unknown_example)
    for name in stats.counts:
        if not any(name in known for known in known_and_tally[:-1]):
            tally.add(1, name[:120])


def count_unknown_client_requests(stats: Stats, tally: Tally) -> None:
    """As `count_unknown_client_names`, for the requests of a connection or service: their names tell by how they
    begin."""
    tally.add(stats.unknown, stats.unknown_example)
    for name in stats.counts:
        if name not in _CONNECTION and not name.startswith(_REQUESTS):
            tally.add(1, name[:120])


def _moved(stats: Stats) -> List[Optional[int]]:
    """RPCs and bytes, reads and writes. Older clients count no bytes by connection: those are unknown, not zero."""
    bytes_told = "read_bytes" in stats.counts or "write_bytes" in stats.counts
    moved_none = not any(name in stats.counts for name in ("ost_read", "ost_write", "read_bytes", "write_bytes"))
    rpcs = [stats.counts.get(name, 0) for name in ("ost_read", "ost_write")]
    if bytes_told and not any(rpcs):
        rpcs = [stats.counts.get(name, 0) for name in ("read_bytes", "write_bytes")]
    sums = [stats.sums.get(name, 0) for name in ("read_bytes", "write_bytes")]
    return [rpcs[0], rpcs[1], *(sums if bytes_told or moved_none else [None, None])]


def _shapes(read: Tables, tally: Tally, values: List[Any]) -> List[Optional[List[int]]]:
    """Histograms of rpc_stats; `values` gets the RPCs where the stats did not tell them."""
    tally.add(read.unknown, read.unknown_example)
    pages, flight = read.tables.get("pages per rpc"), read.tables.get("rpcs in flight")
    if pages is not None and not (values[0] or values[1]):
        values[0], values[1] = sum_histogram_buckets(pages.reads), sum_histogram_buckets(pages.writes)
    return [
        bin_page_histogram(pages.reads) if pages else None,
        bin_page_histogram(pages.writes) if pages else None,
        bin_flight_histogram(flight.reads) if flight else None,
        bin_flight_histogram(flight.writes) if flight else None,
    ]


def _requests(text: bytes, tally: Tally) -> List[Optional[int]]:
    """Requests, and their time where the text tells it."""
    stats = parse_stats_lines(text)
    count_unknown_client_names(stats, INTENTS, tally)
    return [add_stats_counters(stats.counts.values()), stats.sum_busy_ns(stats.counts)]


def _time_of(stats: Stats, requests: Optional[int], name: str) -> Optional[int]:
    """Time of all `requests`, ns; None where they are counted and no line of that name times them."""
    return stats.sum_busy_ns((name,)) if name in stats.counts or requests == 0 else None


def _call_times(stats: Stats) -> List[Optional[int]]:
    """Times of reads, writes, metadata calls of programs. `read` and `write` are counted with their times since 2.12;
    `read_bytes` alone has none."""
    data = [_time_of(stats, stats.counts.get(way + "_bytes", 0), way) for way in ("read", "write")]
    return [*data, stats.sum_busy_ns(CLIENT_METADATA)]

"""exports/*/stats: what each client did at each target, by its address (NID). Not here: wholes and jobs.

A site has as many of these files as clients times targets, so they are read once a minute and those of clients that did
nothing but keep their connection are passed over unread.
"""

import re
from typing import Any, Dict, List, Optional, Sequence

from fairlead.see.probes.base import Key, ProbeResult
from fairlead.see.probes.lustre.client import count_unknown_client_names
from fairlead.see.probes.lustre.lustre_probe import TARGET_ROW, TARGET_TIMES, LustreProbe, Tally
from fairlead.see.probes.lustre.names import MDT_DATA, MDT_OPS, OST_METADATA, OST_OTHER
from fairlead.see.probes.lustre.parameters import Place
from fairlead.see.probes.lustre.servers import (
    KNOWN_MDT,
    MDT_DATA_ROW,
    build_data_times,
    build_mdt_server_data,
    build_ost_server_row,
)
from fairlead.see.probes.lustre.stats_lines import Stats, add_stats_counters, parse_stats_lines

_KEYS = ("target", "client")
_ACTIVE = re.compile(rb"^(?!ping |connect |reconnect |disconnect |snapshot_time|start_time|elapsed_time)[^\n]", re.M)
"""A line beside the times and the upkeep of a connection."""


class OstExportsProbe(LustreProbe):
    """Each client at each OST."""

    name = "lustre_ost_exports"
    kind = "OSS"
    period_s = 60.0
    timeout_s = 30.0
    wants = ("obdfilter/*/exports/*/stats",)

    def collect(self, place: Place, now_ns: int) -> Optional[ProbeResult]:  # noqa: ARG002
        """Clients of every OST; one that has counted nothing is left out."""
        exports = place.find(self.wants[0])
        if not exports:
            return None
        tally = Tally()
        rows: Dict[Key, Sequence[Any]] = {}
        epochs: Dict[Key, Optional[int]] = {}
        for one in exports:
            text = place.read(one)
            if _ACTIVE.search(text) is None:
                continue
            stats = parse_stats_lines(text)
            count_unknown_client_names(stats, OST_METADATA, OST_OTHER, tally)
            row = build_ost_server_row(stats)
            if any(row):
                rows[one.stars] = row
                epochs[one.stars] = stats.times.start_ns
        return ProbeResult(
            [
                self.build_reading(
                    "target", _KEYS, (*TARGET_ROW, *TARGET_TIMES), rows, "exports", tally, epochs, born_at_zero=True
                )
            ]
        )


class MdtExportsProbe(LustreProbe):
    """Each client at each MDT: operations by name, and data of files that begin there."""

    name = "lustre_mdt_exports"
    kind = "MDS"
    period_s = 60.0
    timeout_s = 30.0
    wants = ("mdt/*/exports/*/stats",)

    def collect(self, place: Place, now_ns: int) -> Optional[ProbeResult]:  # noqa: ARG002
        """Clients of every MDT; one that has counted nothing is left out."""
        exports = place.find(self.wants[0])
        if not exports:
            return None
        tally = Tally()
        ops: Dict[Key, Sequence[Any]] = {}
        moved: Dict[Key, Sequence[Any]] = {}
        epochs: Dict[Key, Optional[int]] = {}
        timed = False
        for one in exports:
            text = place.read(one)
            if _ACTIVE.search(text) is None:
                continue
            stats = parse_stats_lines(text)
            timed = timed or bool(stats.busy_us)
            count_unknown_client_names(stats, KNOWN_MDT, MDT_DATA, tally)
            row = _build_mdt_row(stats)
            if any(row):
                ops[one.stars] = row
            data = build_mdt_server_data(stats)
            if any(data):
                moved[one.stars] = [*data, *build_data_times(stats)]
            epochs[one.stars] = stats.times.start_ns
        if not timed:
            ops = {key: row[: len(MDT_OPS)] for key, row in ops.items()}
        made = [
            self.build_reading(
                "metadata",
                _KEYS,
                MDT_OPS * 2 if timed else MDT_OPS,
                ops,
                "exports",
                tally,
                epochs,
                spread=("op", "count", "busy_ns") if timed else ("op", "count"),
                born_at_zero=True,
            )
        ]
        if moved:
            made.append(
                self.build_reading("target", _KEYS, MDT_DATA_ROW, moved, "exports", None, epochs, born_at_zero=True)
            )
        return ProbeResult(made)


def _build_mdt_row(stats: Stats) -> List[Optional[int]]:
    """Operations by name as MDT_OPS has them, then the time of each."""
    counts = stats.counts
    others = [name for name in counts if name not in KNOWN_MDT and name not in MDT_DATA]
    known = [counts.get(name, 0) for name in MDT_OPS[:-1]]
    times = [stats.sum_busy_ns((name,)) for name in MDT_OPS[:-1]]
    return [*known, add_stats_counters(counts[name] for name in others), *times, stats.sum_busy_ns(others)]

"""What a Beacon file cannot tell, each gap said once with its count."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fairlead.core.model.missing import Missing
from fairlead.see.sources.beacon.lines import Tally
from fairlead.see.sources.node_lists import NodeLists

_GAPS: dict[str, tuple[str, str, str | None]] = {
    "operation_durations": (
        "how long operations took",
        "client lines give whole seconds and no durations: busy time is 0, a run spans the second it is in",
        None,
    ),
    "unknown_files": (
        "the file of {n} operations",
        "their handle was opened before the first line, or the line has no name",
        "also read the previous days, as one series",
    ),
    "request_sizes": (
        "single request sizes of {n} runs",
        "their lines have only the sum or the mean; bytes and operations are exact",
        None,
    ),
    "doubtful_offsets": (
        "offsets of {n} runs",
        "counted back from the last operation they would begin before the file",
        "if the lines come from a compressor that keeps the first offset, say offset_is='first'",
    ),
    "offsets_past_2_gib": (
        "the exact extent of {n} runs",
        "the compressor compares offsets as 32-bit integers and may merge wrongly past 2 GiB",
        None,
    ),
    "latency_buckets": (
        "latencies in seconds",
        "the bounds of the eight histogram buckets are not published: they are ordinal",
        None,
    ),
    "counter_resets": (
        "{n} intervals in which a counter was reset",
        "its value went down; counting restarts there",
        None,
    ),
    "late_samples": ("{n} samples", "they are older than a sample already read", "give files in order of time"),
    "no_host": (
        "{n} lines",
        "they have no host name",
        "keep the record's host, or name the file after the host's address",
    ),
    "overlong_lines": ("{n} lines", "they are longer than 16 MiB", None),
    "forwarder_mapping": (
        "which forwarding node served which job",
        "job records do not have it",
        "give the site's table as `forwarders`",
    ),
}


def list_gaps(tally: Tally, nodes: NodeLists, rows: int) -> Iterator[Missing]:
    """The gaps of one file. `rows`: records it gave."""
    unread = tally.build_gap()
    if unread is not None:
        yield unread
    for kind, count in tally.counts.items():
        what, why, remedy = _GAPS[kind]
        text = re.sub(r"\b1 (\w+)s\b", r"1 \1", what.format(n=count))
        yield Missing(kind=kind, what=text, why=why, remedy=remedy)
    yield from nodes.list_gaps()
    if not rows:
        yield Missing(
            kind="no_records",
            what="records",
            why="its counters are cumulative and have only one sample each",
            remedy="read more of the series",
        )

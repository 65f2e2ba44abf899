"""Who sends, when last, and whether it should have by now: kept in memory from what arrives. Time is an argument.

A gap begins when a source was last heard, is known after some silent periods, and ends when it is back. Not here: the
clock, writing gaps down (`upkeep`), finding sources again after a restart (`source_recovery`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from fairlead.see.probes.base import Event

GAP = "gap"
MOST_SOURCES = 200_000
"""Names kept in mind at most, and probes of each: a token for any node can send under any name."""
MOST_PROBES = 256
_LONGEST_TEXT = 500
_MOST_COUNTED = 1 << 53
_HEARD = (
    "node",
    "probe",
    "state",
    "ts_ns",
    "interval_ns",
    "failures",
    "unknown_lines",
    "lost_batches",
    "clock_offset_ns",
    "text",
)


class Sight(NamedTuple):
    """A node that has sent `batches` new batches of `rows` rows, the latest of `last_ns`."""

    node: str
    batches: int
    rows: int
    last_ns: int | None
    agent: str


class ProbeHealth(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The last thing a node said of one of its probes."""

    probe: str
    state: str
    ts_ns: int
    text: str = ""
    failures: int | None = None
    unknown_lines: int = 0
    """Since the collector began."""


class SourceHealth(msgspec.Struct, frozen=True, kw_only=True):
    """One node as the collector sees it. `state`: ok, failing (a probe is), silent (a gap is open), unmonitored (sends
    records but no health: nobody knows when to expect it)."""

    node: str
    state: str
    agent: str
    first_seen_ns: int | None
    last_seen_ns: int
    last_record_ns: int | None
    lag_ns: int | None
    batches: int
    rows: int
    clock_offset_ns: int | None
    lost_batches: int
    gap_since_ns: int | None
    gaps: int
    probes: list[ProbeHealth]

    @property
    def needs_attention(self) -> bool:
        """Whether a person should look at it: silent, a probe fails, or lines were not understood."""
        return self.state in ("silent", "failing") or any(probe.unknown_lines for probe in self.probes)


@dataclass(slots=True)
class _Source:
    node: str
    last_seen_ns: int
    first_seen_ns: int | None = None
    agent: str = ""
    batches: int = 0
    rows: int = 0
    last_record_ns: int | None = None
    clock_offset_ns: int | None = None
    lost_batches: int = 0
    period_ns: int | None = None
    gap_since_ns: int | None = None
    gaps: int = 0
    probes: dict[str, ProbeHealth] = field(default_factory=dict)


class Sources:
    """All of them. Safe to use from many threads."""

    def __init__(self, *, started_ns: int, silent_periods: float, period_ns: int) -> None:
        """Silence is counted from `started_ns` on: a collector that was away has heard nobody. `period_ns`: how often a
        source tells its health at least; one that says it tells it less often is believed."""
        self._started_ns = started_ns
        self._silent_periods = silent_periods
        self._period_ns = period_ns
        self._turn = threading.Lock()
        self._all: dict[str, _Source] = {}
        self._back: list[Event] = []

    def record_sight(
        self, node: str, now_ns: int, *, batches: int, rows: int, last_ns: int | None, agent: str = ""
    ) -> None:
        """A node has sent something (`batches` new ones; 0: it sent what was known)."""
        self.record_sights([Sight(node, batches, rows, last_ns, agent)], now_ns)

    def record_sights(self, sights: Iterable[Sight], now_ns: int) -> None:
        """Nodes have sent something, each once or more."""
        with self._turn:
            for node, batches, rows, last_ns, agent in sights:
                one = self._all.get(node)
                if one is None:
                    if len(self._all) >= MOST_SOURCES:
                        continue  # their records are taken; who they are from, the lake knows
                    one = self._all[node] = _Source(node, now_ns, first_seen_ns=now_ns)
                one.last_seen_ns = max(one.last_seen_ns, now_ns)
                one.batches += batches
                one.rows += rows
                one.agent = agent or one.agent
                if last_ns is not None:
                    one.last_record_ns = max(last_ns, one.last_record_ns or last_ns)
                if one.gap_since_ns is not None:
                    self._back.append(_closed(one, now_ns))
                    one.gap_since_ns = None

    def record_health(self, rows: pa.RecordBatch | pa.Table, sender: str | Sequence[str] = "") -> None:
        """Rows of `health` that arrived from `sender` (one name, or one a row), the node they are about when they say
        no other. Of a probe the latest counts."""
        columns = [_values(rows.column(name)) for name in _HEARD]
        senders = [sender] * rows.num_rows if isinstance(sender, str) else sender
        with self._turn:
            for who, said in zip(senders, zip(*columns, strict=True), strict=True):
                self._hear(who, *said)

    def _hear(
        self,
        sender: str,
        named: str,
        probe: str,
        state: str,
        ts_ns: int,
        interval_ns: int | None,
        failures: int | None,
        unknown_lines: int | None,
        lost_batches: int | None,
        clock_offset_ns: int | None,
        text: str | None,
    ) -> None:
        # One agent may name another node in its rows (a server's own name): they are shown with who sent them.
        node = sender or named
        one = self._all.get(node)
        if one is None:
            if len(self._all) >= MOST_SOURCES:
                return
            one = self._all[node] = _Source(node, ts_ns)
        before = one.probes.get(probe)
        if before is None and len(one.probes) >= MOST_PROBES:
            return
        # Counts of one that says anything: sums stay numbers that JSON can tell.
        unknown = min((before.unknown_lines if before else 0) + max(unknown_lines or 0, 0), _MOST_COUNTED)
        one.lost_batches = min(one.lost_batches + max(lost_batches or 0, 0), _MOST_COUNTED)
        if before is not None and before.ts_ns > ts_ns:
            one.probes[probe] = msgspec.structs.replace(before, unknown_lines=unknown)
            return
        one.probes[probe] = ProbeHealth(
            probe=probe,
            state=state,
            ts_ns=ts_ns,
            text=(text or "")[:_LONGEST_TEXT],
            failures=failures,
            unknown_lines=unknown,
        )
        # An agent's first row after its start tells of a moment, not of a period.
        one.period_ns = max(interval_ns or 0, self._period_ns)
        if clock_offset_ns is not None:
            one.clock_offset_ns = clock_offset_ns

    def recall(self, node: str, last_seen_ns: int, *, batches: int, rows: int, gap_since_ns: int | None) -> None:
        """What the lake knows of a node from before this collector began; it may have sent something since."""
        with self._turn:
            one = self._all.setdefault(node, _Source(node, last_seen_ns))
            back_ns = one.last_seen_ns if one.last_seen_ns > last_seen_ns else None
            one.last_seen_ns = max(one.last_seen_ns, last_seen_ns)
            one.first_seen_ns = None  # it was there before
            one.batches += batches
            one.rows += rows
            one.gap_since_ns = gap_since_ns
            if gap_since_ns is not None and back_ns is not None:
                self._back.append(_closed(one, back_ns))
                one.gap_since_ns = None

    def find_gaps(self, now_ns: int) -> list[Event]:
        """Gaps that opened or closed since the last call, as rows of `events`. One that opens has no end; when it
        closes, it is told again with the same beginning and its end."""
        with self._turn:
            told, self._back = self._back, []
            for one in self._all.values():
                if one.period_ns is None or one.gap_since_ns is not None:
                    continue
                silent_ns = now_ns - max(one.last_seen_ns, self._started_ns)
                if silent_ns > self._silent_periods * one.period_ns:
                    one.gap_since_ns = one.last_seen_ns
                    one.gaps += 1
                    told.append(Event(one.last_seen_ns, one.node, GAP, "no report since"))
            return told

    def undo(self, told: Iterable[Event]) -> None:
        """Events that could not be written down: they are told again."""
        with self._turn:
            for event in told:
                if event.end_ns is not None:
                    self._back.append(event)
                elif (one := self._all.get(event.component)) is not None and one.gap_since_ns == event.ts_ns:
                    one.gap_since_ns = None
                    one.gaps -= 1

    def count_states(self) -> Counter[str]:
        """How many sources are in which state."""
        with self._turn:
            return Counter(_state(one) for one in self._all.values())

    def list_sources(self, now_ns: int) -> list[SourceHealth]:
        """Every source, by name."""
        with self._turn:
            return [_shown(self._all[node], now_ns) for node in sorted(self._all)]


def _values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """A column as Python values; its words are looked up, not made anew."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            return [value for chunk in column.chunks for value in _values(chunk)]
    if column.null_count == len(column):
        return [None] * len(column)
    if isinstance(column, pa.DictionaryArray):
        words = column.dictionary.to_pylist()
        return [None if code is None else words[code] for code in column.indices.to_pylist()]
    return column.to_pylist()  # type: ignore[no-any-return]


def _closed(one: _Source, now_ns: int) -> Event:
    assert one.gap_since_ns is not None  # noqa: S101  (the caller's condition)
    seconds = (now_ns - one.gap_since_ns) / 1e9
    return Event(one.gap_since_ns, one.node, GAP, f"no report for {seconds:.0f} s", end_ns=now_ns)


def _state(one: _Source) -> str:
    if one.gap_since_ns is not None:
        return "silent"
    if any(probe.state in ("failing", "late", "lost") for probe in one.probes.values()):
        return "failing"
    return "ok" if one.period_ns is not None else "unmonitored"


def _shown(one: _Source, now_ns: int) -> SourceHealth:
    return SourceHealth(
        node=one.node,
        state=_state(one),
        agent=one.agent,
        first_seen_ns=one.first_seen_ns,
        last_seen_ns=one.last_seen_ns,
        last_record_ns=one.last_record_ns,
        lag_ns=None if one.last_record_ns is None else now_ns - one.last_record_ns,
        batches=one.batches,
        rows=one.rows,
        clock_offset_ns=one.clock_offset_ns,
        lost_batches=one.lost_batches,
        gap_since_ns=one.gap_since_ns,
        gaps=one.gaps,
        probes=[one.probes[name] for name in sorted(one.probes)],
    )

"""What the agent tells of itself and of each probe: counts of one interval, as rows of `health`."""

import os
import time
from typing import Any, List, NamedTuple, Optional, Tuple

from fairlead.see.agent.probe_thread import FAILING, LATE, OK, Outcome

_WORST = (OK, FAILING, LATE)


class Cost(NamedTuple):
    """What this process took: resident memory now, CPU time since it began."""

    memory_bytes: Optional[int]
    cpu_ns: int


class SenderHealth(NamedTuple):
    """What the sending side tells: sums since it began, and how it goes now."""

    sent_files: int = 0
    sent_batches: int = 0
    foreign_files: int = 0
    failures: int = 0
    refused: int = 0
    """Batches the server will never take."""
    failing: bool = False
    text: str = ""
    offset_ns: Optional[int] = None
    """Clock of the server minus this node's."""
    spools: bool = False
    spools_found: bool = True


class Tally:
    """Counts of one probe since health was told last."""

    def __init__(self) -> None:
        self.runs = 0
        self.failures = 0
        self.rows = 0
        self.unknown_lines = 0
        self.busy_ns = 0
        self.missed = 0
        self.left_out = 0
        self.resets = 0
        self.text = ""
        self.example = ""
        self.state = ""
        """The worst of the interval, so that an hour of flicker is not told as well."""

    def count_run(self, outcome: Outcome) -> None:
        """One run is over."""
        self.runs += 1
        self.busy_ns += outcome.busy_ns
        if outcome.state in (FAILING, LATE):
            self.failures += 1
        if outcome.text:
            self.text = outcome.text
        if outcome.state in _WORST and self.state in _WORST:
            self.state = max(self.state, outcome.state, key=_WORST.index)
        else:  # what came or went counts from now on
            self.state = outcome.state

    def describe(self) -> str:
        """What a person should know, in one line."""
        parts: List[str] = [self.text] if self.text else []
        if self.missed:
            parts.append("{} looks skipped".format(self.missed))
        if self.resets:
            parts.append("{} counters were reset".format(self.resets))
        if self.left_out:
            parts.append("{} rows left out: too many keys".format(self.left_out))
        if self.example:
            parts.append("not understood: {}".format(self.example[:80]))
        return "; ".join(parts)


def build_agent_health_row(
    wall_ns: int,
    node: str,
    name: str,
    state: str,
    interval_ns: int,
    tally: Tally,
    own: Optional[Tuple[int, Optional[int], Optional[int]]],
) -> Tuple[List[Tuple[str, Optional[str]]], List[Tuple[str, Any]]]:
    """Words and figures of a row of `health`. `own`: lost batches, memory and clock offset of the agent itself."""
    lost, memory, offset = own if own is not None else (None, None, None)
    words: List[Tuple[str, Optional[str]]] = [
        ("node", node),
        ("probe", name),
        ("state", state),
        ("text", tally.describe()[:400] or None),
    ]
    figures = [
        ("ts_ns", wall_ns),
        ("interval_ns", interval_ns),
        ("runs", tally.runs),
        ("failures", tally.failures),
        ("rows", tally.rows),
        ("unknown_lines", tally.unknown_lines),
        ("busy_ns", tally.busy_ns),
        ("lost_batches", lost),
        ("memory_bytes", memory),
        ("clock_offset_ns", offset),
    ]
    return words, figures


def measure_agent_health_cost() -> Cost:
    """Of this process, all its threads."""
    try:
        with open("/proc/self/statm", "rb") as stream:
            memory: Optional[int] = int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        memory = None
    return Cost(memory, int(time.process_time() * 1e9))

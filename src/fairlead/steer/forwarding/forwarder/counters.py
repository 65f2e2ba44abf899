"""What a forwarder counts between two looks: requests, bytes, waits and service times by job, client and operation.
Plain integers, no clock, no files.
"""

from __future__ import annotations

from collections.abc import Iterable

CLASSES = ("metadata", "read", "write")
"""Words of `op_class`, by the number a request's class has."""
BINS = 40
"""Bin b of a histogram counts times of [2^(b-1), 2^b) ns, bin 0 counts 0, the last all that are longer."""
EDGES_NS = (0, *(1 << power for power in range(BINS)))
"""Bounds of the bins, one more than there are bins."""
_RAW_BINS = 65


class Tally:
    """What was counted. Histograms have a bin for each number of bits; `fold_forwarder_counters` joins the last."""

    __slots__ = ("bytes", "op_class", "service", "wait")

    def __init__(self, op_class: int) -> None:
        self.op_class = op_class
        self.bytes = 0
        self.wait = [0] * _RAW_BINS
        self.service = [0] * _RAW_BINS

    @property
    def requests(self) -> int:
        """How many."""
        return sum(self.wait)

    def add(self, other: Tally) -> None:
        """Takes in what another one counted."""
        self.bytes += other.bytes
        self.wait = [a + b for a, b in zip(self.wait, other.wait, strict=True)]
        self.service = [a + b for a, b in zip(self.service, other.service, strict=True)]


def fold_forwarder_counters(histogram: list[int]) -> list[int]:
    """A histogram in BINS bins."""
    return [*histogram[: BINS - 1], sum(histogram[BINS - 1 :])]


class Tallies:
    """Everything of one interval, by (job, client, opcode). Filled by `ForwarderRecords`."""

    __slots__ = ("by_operation", "queue_max", "queue_samples", "queue_sum")

    def __init__(self) -> None:
        self.by_operation: dict[tuple[str, str, int], Tally] = {}
        self.queue_max = 0
        self.queue_sum = 0
        self.queue_samples = 0

    def look(self, queue_len: int, *, sample: bool) -> None:
        """The queue was this long just now."""
        self.queue_max = max(self.queue_max, queue_len)
        if sample:
            self.queue_samples += 1
            self.queue_sum += queue_len

    def group_by_class(self) -> dict[str, tuple[Tally, Tally, Tally]]:
        """By job: metadata, read, write."""
        found: dict[str, tuple[Tally, Tally, Tally]] = {}
        for (job, _, _), tally in self.by_operation.items():
            if job not in found:
                found[job] = (Tally(0), Tally(1), Tally(2))
            found[job][tally.op_class].add(tally)
        return found

    def iterate_rows(self) -> Iterable[tuple[str, int, Tally]]:
        """Job, class and tally of what happened."""
        for job, classes in self.group_by_class().items():
            for op_class, tally in enumerate(classes):
                if tally.requests:
                    yield job, op_class, tally

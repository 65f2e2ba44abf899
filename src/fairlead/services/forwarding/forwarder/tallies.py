"""What a forwarder counts between two looks: requests, bytes, waits and service times per class and job, and operations
per client. Plain integers, no clock, no files.
"""

from __future__ import annotations

from collections.abc import Iterable

CLASSES = ("metadata", "read", "write")
"""Words of `op_class`, by the number a request's class has."""
BINS = 40
"""Bin b of a histogram counts times of [2^(b-1), 2^b) ns, bin 0 counts 0, the last all that are longer."""
EDGES_NS = (0, *(1 << power for power in range(BINS)))
"""Bounds of the bins, one more than there are bins."""
_LAST = BINS - 1


class Tally:
    """One class of one job."""

    __slots__ = ("bytes", "requests", "service", "wait")

    def __init__(self) -> None:
        self.requests = 0
        self.bytes = 0
        self.wait = [0] * BINS
        self.service = [0] * BINS


class Tallies:
    """Everything of one interval. The caller sees to it that one thread at a time is in `count`."""

    __slots__ = ("operations", "queue_max", "queue_samples", "queue_sum", "requests", "tallies")

    def __init__(self) -> None:
        self.tallies: dict[str, tuple[Tally, Tally, Tally]] = {}
        """By job: metadata, read, write."""
        self.operations: dict[tuple[str, str, int], int] = {}
        """By client, job and opcode."""
        self.requests = 0
        self.queue_max = 0
        self.queue_sum = 0
        self.queue_samples = 0

    def count(self, op_class: int, op: int, job: str, client: str, wait_ns: int, service_ns: int, size: int) -> None:
        """One request that was carried out."""
        self.requests += 1
        found = self.tallies.get(job)
        if found is None:
            found = self.tallies[job] = (Tally(), Tally(), Tally())
        tally = found[op_class]
        tally.requests += 1
        tally.bytes += size
        at = wait_ns.bit_length() if wait_ns > 0 else 0
        tally.wait[at if at < _LAST else _LAST] += 1
        at = service_ns.bit_length() if service_ns > 0 else 0
        tally.service[at if at < _LAST else _LAST] += 1
        key = (client, job, op)
        operations = self.operations
        operations[key] = operations.get(key, 0) + 1

    def sample(self, queue_len: int) -> None:
        """The queue was this long just now."""
        self.queue_samples += 1
        self.queue_sum += queue_len

    def rows(self) -> Iterable[tuple[str, int, Tally]]:
        """Job, class and tally of what happened."""
        for job, classes in self.tallies.items():
            for op_class, tally in enumerate(classes):
                if tally.requests:
                    yield job, op_class, tally

"""Orders among waiting requests that look at their class only: first come first served, metadata first, P:(1-P).

An order holds *lanes*: the requests of one job, class and target in order of arrival. Fair orders are in `fair`.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from random import Random
from typing import Protocol

from fairlead.decide.policies.requests.contract import METADATA, Waiting

IDLE, ORDERED, TIMED, CAPPED, YIELDING = range(5)
"""Where a lane is: nowhere (empty), in the order, held back by a rate, by a cap, or above a cap that yields."""


class Lane:
    """Requests of one job, class, target and user, in order of arrival. All of them are held back, or none."""

    __slots__ = ("job", "op_class", "queue", "state", "target", "user", "yields")

    def __init__(self, job: str | int, op_class: int, target: object | None, user: int | None = None) -> None:
        self.job = job
        self.op_class = op_class
        self.target = target
        self.user = user
        self.queue: deque[Waiting] = deque()
        self.state = IDLE
        self.yields = False


class Order(Protocol):
    """Which lane is served next. It holds each lane once; one may have become empty meanwhile.

    Made with the text after its name in a spec (`0.5` of `share:0.5`; ValueError where it makes no sense) and a seed.
    An
    order with a method `ended(waiting, now_ns)` is told what ended.
    """

    def seen(self, waiting: Waiting, now_ns: int) -> None:
        """A request has arrived (it may be served without ever entering)."""
        ...

    def enter(self, lane: Lane, now_ns: int) -> None:
        """Holds a lane."""
        ...

    def pick(self, now_ns: int) -> Lane | None:
        """Takes out the lane to be served next; None when there is none."""
        ...

    def settle(self, served: Waiting | None) -> None:
        """After every `pick`: what of the lane was given to a worker, None when the lane is held back. A lane that is
        not empty then enters again."""
        ...

    def charge(self, waiting: Waiting, now_ns: int) -> None:
        """A request is served out of turn, along with another one."""
        ...

    def emptied(self) -> None:
        """Nothing waits any more."""
        ...


def refuse_order_argument(argument: str) -> None:
    """Refuses a text after the name of an order that takes none."""
    if argument:
        raise ValueError("takes no value")


Heap = list[tuple[int, int, Lane]]
"""(turn of the head, id of the lane, lane): the turn decides, the id only keeps lanes from being compared."""


def push_order_lane(heap: Heap, lane: Lane) -> None:
    """Puts a lane in by the arrival of its head."""
    heappush(heap, (lane.queue[0].turn, id(lane), lane))


def pull_order_lane(heap: Heap) -> Lane:
    """Takes the lane out whose head came first (or one that is empty)."""
    while True:
        turn, _, lane = heappop(heap)
        if not lane.queue or lane.queue[0].turn == turn:
            return lane
        push_order_lane(heap, lane)  # what was its head has been served or dropped since


class Fifo:
    """First come, first served."""

    def __init__(self, argument: str = "", seed: int = 0) -> None:  # noqa: ARG002
        refuse_order_argument(argument)
        self._heap: Heap = []

    def seen(self, waiting: Waiting, now_ns: int) -> None:
        """Nothing to know."""

    def enter(self, lane: Lane, now_ns: int) -> None:  # noqa: ARG002
        """By the arrival of its head."""
        push_order_lane(self._heap, lane)

    def pick(self, now_ns: int) -> Lane | None:  # noqa: ARG002
        """The lane whose head came first."""
        return pull_order_lane(self._heap) if self._heap else None

    def settle(self, served: Waiting | None) -> None:
        """Nothing to charge."""

    def charge(self, waiting: Waiting, now_ns: int) -> None:
        """Nothing to charge."""

    def emptied(self) -> None:
        """Nothing to forget."""


class MetadataFirst:
    """All metadata before any data: the default of LWFS, under which metadata of one job starves data of another
    (Beacon, Yang et al., TOS 2023)."""

    def __init__(self, argument: str = "", seed: int = 0) -> None:  # noqa: ARG002
        refuse_order_argument(argument)
        self._metadata: Heap = []
        self._data: Heap = []

    def seen(self, waiting: Waiting, now_ns: int) -> None:
        """Nothing to know."""

    def enter(self, lane: Lane, now_ns: int) -> None:  # noqa: ARG002
        """By the arrival of its head, in the queue of its class."""
        push_order_lane(self._metadata if lane.op_class == METADATA else self._data, lane)

    def _queue(self) -> Heap:
        return self._metadata or self._data

    def pick(self, now_ns: int) -> Lane | None:  # noqa: ARG002
        """The first of the queue whose turn it is."""
        queue = self._queue()
        return pull_order_lane(queue) if queue else None

    def settle(self, served: Waiting | None) -> None:
        """Nothing to charge."""

    def charge(self, waiting: Waiting, now_ns: int) -> None:
        """Nothing to charge."""

    def emptied(self) -> None:
        """Nothing to forget."""


class Share:
    """P:(1-P): the next request comes from the metadata queue with probability P, else from the data queue; from the
    other queue when the chosen one is empty (Beacon, Yang et al., TOS 2023)."""

    def __init__(self, argument: str, seed: int = 0) -> None:
        try:
            self._share = float(argument)
        except ValueError:
            self._share = -1.0
        if not 0 <= self._share <= 1:
            raise ValueError("takes the probability of the metadata queue, 0 to 1, such as share:0.5")
        self._random = Random(seed).random  # noqa: S311  not a secret: a seed must give the same order again
        self._metadata: Heap = []
        self._data: Heap = []

    def seen(self, waiting: Waiting, now_ns: int) -> None:
        """Nothing to know."""

    def enter(self, lane: Lane, now_ns: int) -> None:  # noqa: ARG002
        """By the arrival of its head, in the queue of its class."""
        push_order_lane(self._metadata if lane.op_class == METADATA else self._data, lane)

    def pick(self, now_ns: int) -> Lane | None:  # noqa: ARG002
        """The first of the queue that was drawn."""
        metadata, data = self._metadata, self._data
        # Drawn only when both wait: a queue alone costs no luck of the other.
        queue = (metadata if self._random() < self._share else data) if metadata and data else metadata or data
        return pull_order_lane(queue) if queue else None

    def settle(self, served: Waiting | None) -> None:
        """Nothing to charge."""

    def charge(self, waiting: Waiting, now_ns: int) -> None:
        """Nothing to charge."""

    def emptied(self) -> None:
        """Nothing to forget."""

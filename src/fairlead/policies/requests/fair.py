"""Orders that are fair to jobs: `job-fair` and `set-10`. Both share by service cost, in virtual time.

Start-time fair queueing (Goyal et al., SIGCOMM'96): every group has a tag that grows by cost/weight with each request
served; the smallest tag is next; a group that was idle starts at the tag served last, so it is next at once and owns no
credit from its idle time.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush

from fairlead.policies.requests.contract import Waiting
from fairlead.policies.requests.orders import Lane

REQUEST_BYTES = 64 << 10
"""What a request costs beside its bytes, in bytes: about what a worker could have moved meanwhile."""
FORGOTTEN = 4096
"""Groups that are remembered; above it those without any claim are dropped."""
NS_PER_S = 1_000_000_000


def cost(waiting: Waiting) -> int:
    """Service cost of a request in bytes."""
    return REQUEST_BYTES + waiting.size


class _Group:
    """Lanes that are served from one share."""

    __slots__ = ("lanes", "tag", "weight")

    def __init__(self, tag: float, weight: float) -> None:
        self.tag = tag
        self.weight = weight
        self.lanes: list[tuple[int, int, int, Lane]] = []


class _Shares:
    """Groups by key, served in proportion to their weights. The lanes in a group are ordered by rank, then arrival."""

    __slots__ = ("_groups", "_heap", "_largest", "_last", "_now")

    def __init__(self) -> None:
        self._groups: dict[object, _Group] = {}
        self._heap: list[tuple[float, int, int, _Group]] = []
        self._now = 0.0  # virtual time: the tag served last
        self._largest = 0.0
        self._last: _Group | None = None

    def enter(self, key: object, weight: float, lane: Lane, rank: int) -> None:
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= FORGOTTEN:
                now = self._now
                self._groups = {k: g for k, g in self._groups.items() if g.lanes or g.tag > now}
            group = self._groups[key] = _Group(self._now, weight)
        turn = lane.queue[0].turn
        heappush(group.lanes, (rank, turn, id(lane), lane))
        if len(group.lanes) == 1:
            group.tag = max(group.tag, self._now)
            heappush(self._heap, (group.tag, turn, id(group), group))

    def pick(self) -> Lane | None:
        if not self._heap:
            return None
        group = self._heap[0][3]
        lane = heappop(group.lanes)[3]
        self._last = group
        heappop(self._heap)
        if group.lanes:
            heappush(self._heap, (group.tag, group.lanes[0][1], id(group), group))
        return lane

    def served(self, amount: float) -> None:
        group = self._last
        if group is None:
            return
        self._now = max(self._now, group.tag)
        before = group.tag
        group.tag = before + amount / group.weight
        self._largest = max(self._largest, group.tag)
        if group.lanes:
            # It was put back with the tag from before; at the top or near it, since it has just been picked.
            self._again(group)

    def _again(self, group: _Group) -> None:
        heap = self._heap
        for place, entry in enumerate(heap):
            if entry[3] is group:
                heap[place] = heap[-1]
                heap.pop()
                break
        from heapq import heapify

        heapify(heap)
        heappush(heap, (group.tag, group.lanes[0][1], id(group), group))

    def emptied(self) -> None:
        # Nobody waited: nobody has a claim on what was served till now.
        self._now = self._largest

"""Who keeps what of the tree, and who must be told when it changes. Pure: no sockets, no clock, no tree.

    free ── `give`, `record_read` ──► kept ── `revoke` by another client ──► revoking
                                       ▲                                        │
    free ◄── client gone ── kept       └── given again meanwhile (newer count) ─┤
    free ◄── RELEASE_LEASE, or the client is gone; after PATIENCE_NS it is disconnected

A client may keep a node's attributes and data until it is told to drop them. It is told before whoever changed the
node has an answer, and that answer waits until the client has dropped it or its connection has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from threading import Lock
from typing import Generic, TypeVar

Client = TypeVar("Client")
Answer = Callable[[], None]
PATIENCE_NS = 10_000_000_000
"""A client that has not dropped what it was told to by then is disconnected."""
MOST = 1 << 20
"""Nodes one client may keep; the ones it has had for longest are taken back above that."""
_AT_ONCE = 4096


class Revocation(Generic[Client]):
    """One change of nodes, until all who kept them have dropped them."""

    __slots__ = ("answer", "due_ns", "nodes", "number", "waiting")

    def __init__(
        self, number: int, nodes: Collection[int], waiting: set[Client], due_ns: int, answer: Answer | None
    ) -> None:
        self.number = number
        self.nodes = nodes
        self.waiting = waiting
        self.due_ns = due_ns
        self.answer = answer
        """Sends the answer of the change; None when nobody waits for it."""


class Leases(Generic[Client]):
    """All leases of a forwarder; any thread. `tell(client, number, nodes)` sends a REVOKE and never waits.

    `changes` counts what was changed so far. Whoever reads a node notes it before and compares it afterwards, under
    `lock`: what was read is good to be kept only if it is still the same. A lease bears the count at which it was
    given, so that dropping what an older change took back does not drop one that was given since.
    """

    def __init__(self, tell: Callable[[Client, int, list[int]], None]) -> None:
        self.lock = Lock()
        self.changes = 0
        self._tell = tell
        self._kept: dict[Client, dict[int, int]] = {}
        self._open: dict[int, Revocation[Client]] = {}

    def __len__(self) -> int:
        """Revocations that are under way."""
        return len(self._open)

    @property
    def lent(self) -> bool:
        """Whether anybody keeps anything."""
        return bool(self._kept)

    def join(self, client: Client) -> None:
        """The client keeps what it is given from now on."""
        with self.lock:
            self._kept[client] = {}

    def leave(self, client: Client) -> list[Answer]:
        """The client is gone, and keeps nothing. Returns the answers that waited for it alone."""
        with self.lock:
            self._kept.pop(client, None)
            return [answer for number in list(self._open) for answer in self._dropped(number, client)]

    def record_read(self, client: Client, node: int) -> None:
        """The client is about to be given data of the node, which it keeps."""
        kept = self._kept.get(client)
        if kept is not None:
            kept[node] = self.changes

    def give(self, client: Client, nodes: Iterable[int], since: int) -> bool:
        """The client may keep the attributes of these nodes, read after `changes` was `since`; false: it must not.
        The lock is held, until the client has been sent them."""
        kept = self._kept.get(client)
        # Invariant: nothing read before a change is kept after it.
        if kept is None or since != self.changes:
            return False
        for node in nodes:
            kept[node] = since
        if len(kept) > MOST:
            self._take_back(client, kept)
        return True

    def _take_back(self, client: Client, kept: dict[int, int]) -> None:
        self.changes += 1
        oldest = [node for node, _ in zip(kept, range(_AT_ONCE), strict=False)]
        for node in oldest:
            del kept[node]
        self._tell(client, self.changes, oldest)

    def revoke(self, client: Client, nodes: Collection[int], due_ns: int, answer: Answer | None) -> bool:
        """The client has changed these nodes. True when `answer` will be among those that `released` or `leave` return;
        false when nobody else keeps any of them."""
        with self.lock:
            self.changes = number = self.changes + 1
            told: list[tuple[Client, list[int]]] = []
            for other, kept in self._kept.items():
                if other is not client and (theirs := [node for node in nodes if node in kept]):
                    told.append((other, theirs))
            if not told:
                return False
            self._open[number] = Revocation(number, nodes, {other for other, _ in told}, due_ns, answer)
            for other, theirs in told:
                self._tell(other, number, theirs)
            return answer is not None

    def confirm_release(self, client: Client, number: int) -> list[Answer]:
        """The client has dropped what it was told to. Returns the answer that waited for that."""
        with self.lock:
            revocation = self._open.get(number)
            kept = self._kept.get(client)
            if revocation is not None and kept is not None and client in revocation.waiting:
                # Invariant: a release drops only what was given before the revocation, not what was given since.
                for node in revocation.nodes:
                    if kept.get(node, number) < number:
                        del kept[node]
            return self._dropped(number, client)

    def _dropped(self, number: int, client: Client) -> list[Answer]:
        revocation = self._open.get(number)
        if revocation is None or client not in revocation.waiting:
            return []
        revocation.waiting.discard(client)
        if revocation.waiting:
            return []
        del self._open[number]
        return [] if revocation.answer is None else [revocation.answer]

    def find_next_ns(self) -> int | None:
        """When the first client will have had too long."""
        with self.lock:
            return next((revocation.due_ns for revocation in self._open.values()), None)

    def list_overdue(self, now_ns: int) -> list[Client]:
        """Clients that have had too long."""
        with self.lock:
            late: set[Client] = set()
            for revocation in self._open.values():
                if revocation.due_ns <= now_ns:
                    late |= revocation.waiting
            return list(late)

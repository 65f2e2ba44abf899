"""Leases: who must be told of a change, and when its answer may go out."""

from __future__ import annotations

import threading

from fairlead.steer.forwarding.forwarder import leases as module
from fairlead.steer.forwarding.forwarder.leases import Leases


class Forwarder:
    """Leases, and everything they had to tell."""

    def __init__(self, *clients: str) -> None:
        self.told: list[tuple[str, int, list[int]]] = []
        self.answered: list[str] = []
        self.leases: Leases[str] = Leases(lambda client, number, nodes: self.told.append((client, number, nodes)))
        for client in clients:
            self.leases.join(client)

    def read(self, client: str, *nodes: int) -> bool:
        since = self.leases.changes
        with self.leases.lock:
            return self.leases.give(client, nodes, since)

    def change(self, client: str, *nodes: int, due_ns: int = 100) -> bool:
        return self.leases.revoke(client, nodes, due_ns, lambda: self.answered.append(client))

    def release(self, client: str, number: int) -> None:
        for answer in self.leases.confirm_release(client, number):
            answer()


def test_whoever_keeps_a_node_is_told_and_waited_for() -> None:
    plane = Forwarder("a", "b", "c")
    assert plane.read("a", 7)
    assert plane.read("b", 7, 8)
    assert plane.read("c", 9)
    assert plane.change("c", 7, 8)
    assert plane.told == [("a", 1, [7]), ("b", 1, [7, 8])]
    plane.release("a", 1)
    assert plane.answered == []
    plane.release("a", 1)
    plane.release("c", 1)
    assert plane.answered == []
    plane.release("b", 1)
    assert plane.answered == ["c"]
    assert len(plane.leases) == 0


def test_nobody_is_told_of_its_own_change_or_of_what_it_does_not_keep() -> None:
    plane = Forwarder("a", "b")
    plane.read("a", 7)
    assert not plane.change("a", 7)
    assert not plane.change("b", 8)
    assert not plane.change("stranger", 8)
    assert plane.told == []
    assert plane.change("stranger", 7)
    assert plane.told == [("a", 4, [7])]


def test_what_was_dropped_is_not_taken_back_again_until_it_was_read_again() -> None:
    plane = Forwarder("a", "b")
    plane.read("a", 7)
    assert plane.change("b", 7)
    plane.release("a", 1)
    assert not plane.change("b", 7)
    plane.leases.record_read("a", 7)
    assert plane.change("b", 7)


def test_what_was_read_again_before_the_release_came_stays_kept() -> None:
    plane = Forwarder("a", "b")
    plane.read("a", 7)
    assert plane.change("b", 7)
    plane.leases.record_read("a", 7)  # after the change, before the client said that it has dropped what it had
    plane.release("a", 1)
    assert plane.answered == ["b"]
    assert plane.change("b", 7)


def test_attributes_read_while_something_changed_are_not_kept() -> None:
    plane = Forwarder("a", "b")
    since = plane.leases.changes
    plane.change("b", 7)
    with plane.leases.lock:
        assert not plane.leases.give("a", (7,), since)
    assert not plane.change("b", 7)
    assert plane.told == []


def test_a_client_that_has_gone_holds_nobody_up() -> None:
    plane = Forwarder("a", "b", "c")
    plane.read("a", 7)
    plane.read("b", 7)
    assert plane.change("c", 7)
    plane.release("b", 1)
    for answer in plane.leases.leave("a"):
        answer()
    assert plane.answered == ["c"]
    assert not plane.read("a", 7)
    plane.leases.record_read("a", 7)
    assert not plane.change("c", 7)
    plane.leases.leave("b")
    plane.leases.leave("c")
    assert not plane.leases.lent


def test_who_takes_too_long() -> None:
    plane = Forwarder("a", "b")
    plane.read("a", 7, 8)
    assert plane.leases.find_next_ns() is None
    assert plane.change("b", 7, due_ns=50)
    assert plane.change("b", 8, due_ns=60)
    assert plane.leases.find_next_ns() == 50
    assert plane.leases.list_overdue(49) == []
    assert plane.leases.list_overdue(50) == ["a"]
    plane.release("a", 1)
    assert plane.leases.list_overdue(50) == []
    assert plane.leases.find_next_ns() == 60


def test_a_change_nobody_waits_for_is_told_and_looked_after() -> None:
    plane = Forwarder("a", "b")
    plane.read("a", 7)
    assert not plane.leases.revoke("b", (7,), 50, None)
    assert plane.told == [("a", 1, [7])]
    assert plane.leases.list_overdue(50) == ["a"]
    plane.release("a", 1)
    assert plane.leases.find_next_ns() is None


def test_above_the_limit_the_oldest_are_taken_back() -> None:
    plane = Forwarder("a", "b")
    before = module.MOST, module._AT_ONCE
    module.MOST, module._AT_ONCE = 4, 2
    try:
        for node in range(1, 6):
            assert plane.read("a", node)
    finally:
        module.MOST, module._AT_ONCE = before
    assert plane.told == [("a", 1, [1, 2])]
    assert not plane.change("b", 1)
    assert plane.change("b", 5)


def test_no_read_is_kept_that_a_change_has_overtaken() -> None:
    """Readers and a writer at once: whatever a reader may keep when all is over is what the writer wrote last."""
    told: dict[str, set[int]] = {"a": set(), "b": set()}
    leases: Leases[str] = Leases(lambda client, number, _: told[client].add(number))
    value = 0
    kept: dict[str, tuple[int, int]] = {}
    for client in told:
        leases.join(client)

    def write() -> None:
        nonlocal value
        for _ in range(2000):
            value += 1
            leases.revoke("w", (7,), 0, None)

    def read(client: str) -> None:
        for _ in range(2000):
            since = leases.changes
            seen = value
            with leases.lock:
                if leases.give(client, (7,), since):
                    kept[client] = (seen, leases.changes)

    threads = [threading.Thread(target=write), *(threading.Thread(target=read, args=(client,)) for client in told)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client, (seen, at) in kept.items():
        assert seen == value or any(number > at for number in told[client])

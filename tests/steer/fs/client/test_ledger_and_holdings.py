"""What a mount remembers: outstanding requests, places of nodes, open handles, locks, generations."""

from __future__ import annotations

import os
import struct

from fairlead.steer.forwarding.mount.relay.ledger import Entry, Ledger
from fairlead.steer.fs.client.held_state import F_RDLCK, F_UNLCK, F_WRLCK, HeldLock, Holdings
from fairlead.steer.fs.client.node_names import Nodes
from fairlead.steer.fs.fuse.abi import ATTR, ENTRY, Op
from fairlead.steer.fs.fuse.generations import Generations
from fairlead.steer.fs.fuse.messages import MADE


def test_messages_in_slots_move_to_other_memory() -> None:
    ledger = Ledger()
    old = [memoryview(bytearray(b"%d" % n * 200)) for n in range(4)]
    new = [memoryview(bytearray(200)) for _ in range(3)]
    write, read = int(Op.WRITE), int(Op.READ)
    ledger.requests[1] = Entry(11, write, 3, 1, 1, 0, 50, 0, 0, None)
    ledger.requests[2] = Entry(12, int(Op.GETATTR), -1, 1, 0, 0, 0, 0, 0, b"message")
    ledger.requests[3] = Entry(13, read, 1, 1, 1, 0, 4096, 0, 0, None)
    assert ledger.move(old, new) == 2
    assert [ledger.requests[n].slot for n in (1, 2, 3)] == [0, -1, 1]
    assert bytes(new[0][:131]) == b"3" * 130 + b"\0"
    assert bytes(new[1][:81]) == b"1" * 80 + b"\0"


def test_what_was_sent_and_what_was_not() -> None:
    ledger = Ledger()
    ledger.requests[1] = Entry(11, 1, -1, 1, 0, 0, 0, 0, 0, b"")
    ledger.requests[2] = Entry(0, 1, -1, 1, 0, 0, 0, 0, 0, b"")
    ledger.requests[3] = Entry(13, 1, -1, 1, 0, 0, 0, 0, 0, b"")
    ledger.unsent[3] = None
    assert ledger.find_unique(13) == 3
    assert ledger.find_unique(99) is None
    assert ledger.count_waiting() == 2
    ledger.forget_own()
    assert ledger.count_waiting() == 1


def test_places_follow_renames_links_and_removals() -> None:
    nodes = Nodes()
    nodes.record_lookup(10, 1, b"folder")
    nodes.record_lookup(11, 10, b"file")
    assert nodes.find_path(11) == b"folder/file"
    nodes.move_name(1, b"folder", 1, b"moved")
    assert nodes.find_steps(11) == [(1, b"moved"), (10, b"file")]
    nodes.record_lookup(11, 1, b"second")
    nodes.remove_name(1, b"second")
    assert nodes.find_path(11) == b"moved/file"
    nodes.remove_name(10, b"file")
    assert nodes.is_unlinked(11)
    assert nodes.find_steps(11) is None
    assert nodes.has_node(11)
    assert not nodes.forget(11, 1)
    assert nodes.forget(11, 1)
    assert not nodes.has_node(11)


def test_a_rename_over_a_name_and_an_exchange() -> None:
    nodes = Nodes()
    nodes.record_lookup(10, 1, b"a")
    nodes.record_lookup(11, 1, b"b")
    nodes.move_name(1, b"a", 1, b"b", exchange=True)
    assert (nodes.find_node(1, b"a"), nodes.find_node(1, b"b")) == (11, 10)
    nodes.move_name(1, b"a", 1, b"b")
    assert nodes.find_node(1, b"b") == 11
    assert nodes.is_unlinked(10)


def test_handles_are_opened_again_without_creating_or_truncating() -> None:
    holdings = Holdings()
    holdings.record_open(1, 10, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_EXCL | os.O_APPEND)
    assert holdings.handles[1].flags == os.O_RDWR | os.O_APPEND
    assert holdings.find_handle(10) == 1
    assert holdings.record_release(1) is not None
    assert holdings.find_handle(10) is None


def lock(start: int, end: int, kind: int, owner: int = 5, *, flock: bool = False) -> HeldLock:
    return HeldLock(10, 1, owner, start, end, kind, 77, flock)


def test_ranges_of_locks_split_and_go() -> None:
    holdings = Holdings()
    holdings.record_lock(lock(0, 99, F_WRLCK))
    holdings.record_lock(lock(40, 59, F_UNLCK))
    assert sorted((held.start, held.end) for held in holdings.list_locks()) == [(0, 39), (60, 99)]
    holdings.record_lock(lock(30, 70, F_RDLCK))
    assert sorted((held.start, held.end, held.kind) for held in holdings.list_locks()) == [
        (0, 29, F_WRLCK),
        (30, 70, F_RDLCK),
        (71, 99, F_WRLCK),
    ]
    holdings.record_flush(10, 5)
    assert holdings.list_locks() == []


def test_a_flock_goes_with_its_handle() -> None:
    holdings = Holdings()
    holdings.record_lock(lock(0, 0, F_WRLCK, flock=True))
    holdings.record_lock(lock(0, 9, F_RDLCK, owner=6))
    assert [held.flock for held in holdings.list_locks()] == [True, False]
    holdings.record_release(1)
    assert [held.flock for held in holdings.list_locks()] == [False]


def entry(node: int, *, size: int = 1, links: int = 1) -> memoryview:
    attributes = ATTR.pack(node - 1, size, 0, 0, 0, 0, 0, 0, 0, 0o100644, links, 0, 0, 0, 4096, 0)
    return memoryview(bytearray(ENTRY.pack(node, 0, 1, 1, 0, 0) + attributes))


def generation(body: memoryview) -> int:
    return int(ENTRY.unpack_from(body)[1])


def test_a_node_number_that_is_used_again_while_the_kernel_knows_it_gets_another_generation() -> None:
    generations = Generations()
    first, again, looked = entry(10), entry(10), entry(10)
    generations.mark(int(Op.MKDIR), first, held=False, named=False)
    generations.mark(int(Op.MKDIR), again, held=True, named=False)
    generations.mark(int(Op.LOOKUP), looked, held=True, named=True)
    assert [generation(body) for body in (first, again, looked)] == [0, 1, 1]
    generations.forget(10)
    fresh = entry(10)
    generations.mark(int(Op.LOOKUP), fresh, held=False, named=False)
    assert generation(fresh) == 0


def test_a_create_of_a_file_that_is_there_keeps_its_generation() -> None:
    generations = Generations()
    body = entry(10)
    generations.mark(int(Op.CREATE), body, held=True, named=True)
    assert generation(body) == 0


def test_a_create_whose_answer_overtook_that_of_the_removal_says_itself_that_its_file_is_new() -> None:
    generations = Generations()
    new, found = entry(10), entry(11)
    struct.pack_into("<Q", new, 8, MADE)
    generations.mark(int(Op.CREATE), new, held=True, named=True)
    generations.mark(int(Op.CREATE), found, held=True, named=True)
    assert (generation(new), generation(found)) == (1, 0)


def test_a_new_file_of_a_new_number_has_no_generation() -> None:
    generations = Generations()
    new = entry(10)
    struct.pack_into("<Q", new, 8, MADE)
    generations.mark(int(Op.CREATE), new, held=False, named=False)
    assert generation(new) == 0

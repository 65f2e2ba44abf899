"""Byte-range locks, against a table of single bytes."""

from __future__ import annotations

import fcntl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.steer.fs.trees.base import Lock
from fairlead.steer.targets.locks import POSIX, LockTable

READ, WRITE, FREE = int(fcntl.F_RDLCK), int(fcntl.F_WRLCK), int(fcntl.F_UNLCK)
STEPS = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 9), st.integers(0, 9), st.sampled_from([READ, WRITE, FREE])),
    max_size=30,
)


@settings(max_examples=200)
@given(STEPS)
def test_against_single_bytes(steps: list[tuple[int, int, int, int]]) -> None:
    table = LockTable()
    model: dict[tuple[int, int], int] = {}
    for owner, one, two, kind in steps:
        start, end = min(one, two), max(one, two)
        blocked = kind != FREE and any(
            WRITE in (kind, held) for (other, byte), held in model.items() if other != owner and start <= byte <= end
        )
        lock = Lock(start, end, kind, owner)
        assert (table.find_conflict(POSIX, 1, owner, lock) is not None) == blocked or kind == FREE
        if blocked:
            with pytest.raises(BlockingIOError):
                table.take_lock(POSIX, 1, owner, lock)
            continue
        table.take_lock(POSIX, 1, owner, lock)
        for byte in range(start, end + 1):
            if kind == FREE:
                model.pop((owner, byte), None)
            else:
                model[owner, byte] = kind
    found = {
        (owner, byte): lock.kind for _, _, owner, lock in table.list_locks() for byte in range(lock.start, lock.end + 1)
    }
    assert found == model


def test_holders_are_apart() -> None:
    table = LockTable()
    lock = Lock(0, 9, WRITE, 1)
    table.take_lock(POSIX, 1, 1, lock, "one")
    with pytest.raises(BlockingIOError):
        table.take_lock(POSIX, 1, 1, lock, "two")
    table.drop_holder("one")
    table.take_lock(POSIX, 1, 1, lock, "two")
    table.drop_owner(POSIX, 1, 1, "two")
    assert table.list_locks() == []

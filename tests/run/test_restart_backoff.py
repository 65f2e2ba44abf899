"""A child that is killed comes back soon however often; one that fails by itself does not burn a core."""

from __future__ import annotations

import signal

from fairlead.run.restart_backoff import FIRST_PAUSE_S, LONGEST_PAUSE_S, WELL_S, Restarts


def test_a_hundred_kills_in_a_row_wait_no_longer_than_the_first() -> None:
    restarts = Restarts()
    pauses = [restarts.pause_s(0.8, -signal.SIGKILL) for _ in range(100)]
    assert pauses == [FIRST_PAUSE_S] * 100
    assert restarts.count == 100


def test_a_child_that_fails_by_itself_waits_longer_each_time_up_to_a_limit() -> None:
    for code in (1, 7, -signal.SIGSEGV, -signal.SIGABRT):
        restarts = Restarts()
        pauses = [restarts.pause_s(0.8, code) for _ in range(9)]
        assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
        assert max(pauses) == LONGEST_PAUSE_S


def test_kills_in_between_leave_the_pauses_of_a_failing_child_as_they_are() -> None:
    restarts = Restarts()
    assert [restarts.pause_s(1.0, 1) for _ in range(3)] == [0.5, 1.0, 2.0]
    assert restarts.pause_s(1.0, -signal.SIGKILL) == FIRST_PAUSE_S
    assert restarts.pause_s(1.0, 1) == 4.0
    assert restarts.pause_s(WELL_S, 1) == FIRST_PAUSE_S, "it ran well for a while"

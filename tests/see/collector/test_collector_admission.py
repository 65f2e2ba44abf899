"""Tokens by role, room for bodies, complaints once a minute, feeds that fail, figures."""

from __future__ import annotations

import logging
import threading

import pytest

from fairlead.core.access import tokens
from fairlead.core.access.tokens import Claims, RoleError
from fairlead.run.restart_backoff import FIRST_PAUSE_S, LONGEST_PAUSE_S, WELL_S, Restarts
from fairlead.see.collector.admission import ASKERS, SENDERS, Admission, Complaints, Room
from fairlead.see.collector.metrics import Counter, Histogram, Metrics
from fairlead.see.collector.refusal import Refusal
from waiting import PATIENCE_S

KEY, OTHER = bytes(32), bytes(31) + b"x"
NOW = 1_000_000 * 1_000_000_000


class Time:
    def __init__(self) -> None:
        self.ns = NOW

    def __call__(self) -> int:
        return self.ns


def _token(role: str, key: bytes = KEY, **claims: object) -> str:
    return tokens.issue_token(key, Claims(1_000_100, role=role, **claims))  # type: ignore[arg-type]


def test_a_token_opens_what_it_is_for_only() -> None:
    for role in tokens.ROLES:
        assert tokens.check_token(KEY, _token(role), NOW, roles=(role,)).role == role
        for other in set(tokens.ROLES) - {role}:
            with pytest.raises(RoleError):
                tokens.check_token(KEY, _token(role), NOW, roles=(other,))
    assert tokens.check_token(KEY, _token(""), NOW).role == ""
    with pytest.raises(RoleError):  # forwarders name no roles
        tokens.check_token(KEY, _token("operator"), NOW)
    with pytest.raises(RoleError):
        tokens.check_token(KEY, _token("janitor"), NOW)


def test_a_token_with_a_role_is_signed_apart() -> None:
    """One that knows no roles would take any token whose signature holds."""
    text = tokens._unwrap(_token("agent").partition(".")[0])
    forged = f"{tokens._wrap(text)}.{tokens._wrap(tokens._sign(KEY, text, with_role=False))}"
    with pytest.raises(ValueError, match="not valid"):
        tokens.check_token(KEY, forged, NOW, roles=("agent", ""))


def _status(admission: Admission, header: str, roles: tuple[str, ...], *, trusted: bool = False) -> int:
    try:
        admission.check_claims(header, roles, trusted=trusted)
    except Refusal as refusal:
        return refusal.status
    return 200


def test_admission_by_role_time_and_key() -> None:
    time = Time()
    admission = Admission(KEY, time)
    agent = f"Bearer {_token('agent')}"
    for _ in range(2):  # checked, then remembered
        assert _status(admission, agent, SENDERS) == 200
        assert _status(admission, agent, ASKERS) == 403
        assert _status(admission, f"bearer {_token('reader')}", ASKERS) == 200
        assert _status(admission, f"Bearer {_token('agent', OTHER)}", SENDERS) == 401
    assert _status(admission, "Basic eDp5", SENDERS) == 401
    assert _status(admission, "", SENDERS) == 401
    assert _status(admission, "", ASKERS, trusted=True) == 200
    assert _status(admission, "Bearer x", ASKERS, trusted=True) == 401
    time.ns += 200 * 1_000_000_000
    assert _status(admission, agent, SENDERS) == 401
    time.ns -= 200 * 1_000_000_000
    assert _status(admission, agent, SENDERS) == 200
    admission.renew(OTHER)
    assert _status(admission, agent, SENDERS) == 401


def test_room_is_bounded_but_one_always_fits() -> None:
    room = Room(100)
    with room.hold(500):
        with pytest.raises(Refusal) as raised, room.hold(1):
            pass
        assert raised.value.status == 429
        assert (b"retry-after", b"1") in raised.value.headers
    with room.hold(60), room.hold(40):
        assert room.held == 100
    assert room.held == 0


def test_complaints_once_a_minute_for_each(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    complaints = Complaints(time, most=2)
    with caplog.at_level(logging.WARNING):
        assert [complaints.tell("a", "401", "bad\nline") for _ in range(5)] == [True] + [False] * 4
        assert complaints.tell("a", "413", "large")
        time.ns += 60_000_000_000
        assert complaints.tell("a", "401", "bad")
    assert "\n" not in caplog.messages[0]
    assert "4 more" in caplog.messages[-1]
    for who in "bcdefg":
        complaints.tell(who, "401", "bad")
    assert len(complaints._last) == 2


def test_pauses_grow_and_begin_again() -> None:
    restarts = Restarts()
    pauses = [restarts.pause_s(1.0, 1) for _ in range(12)]
    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses[-1] == LONGEST_PAUSE_S
    assert restarts.pause_s(WELL_S, 1) == FIRST_PAUSE_S
    assert restarts.count == 13


def test_figures() -> None:
    counter = Counter("things", "Things.")
    assert list(counter.format_lines())[-1] == "fairlead_collector_things_total 0"
    counter.add(2, kind='a"b\\c\n')
    assert list(counter.format_lines())[-1] == 'fairlead_collector_things_total{kind="a\\"b\\\\c\\n"} 2'
    durations = Histogram("work", "Work.", (0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 3.0):
        durations.observe(value)
    assert [line.rpartition(" ")[2] for line in list(durations.format_lines())[2:]] == ["2", "3", "4", "3.65", "4"]
    metrics = Metrics()
    metrics.add_gauge("depth", "Depth.", lambda: 3.5)
    assert metrics.page().endswith("fairlead_collector_depth 3.5\n")


def test_a_feed_that_fails_is_run_again_and_told() -> None:
    from fairlead.see.collector.feed_threads import Keeper

    class Fails:
        name = "shaky"

        def __init__(self) -> None:
            self.runs = 0
            self.again = threading.Event()

        def run(self, sink: object, stop: threading.Event) -> None:  # noqa: ARG002
            self.runs += 1
            if self.runs == 1:
                raise OSError("no such folder")
            self.again.set()
            stop.wait(30)

    feed = Fails()
    keeper = Keeper(None, None, [feed])  # type: ignore[arg-type]
    keeper.start()
    try:
        assert feed.again.wait(PATIENCE_S)
        (one,) = keeper.list_states()
        assert one.state == "failing"
        assert "no such folder" in one.text
        keeper.report_health("shaky", "ok", rows=3, unknown_lines=2)
        (row,) = keeper.build_rows(everything=False)
        assert (row["probe"], row["state"], row["rows"], row["unknown_lines"]) == ("feed:shaky", "ok", 3, 2)
        assert keeper.build_rows(everything=False) == []
        (row,) = keeper.build_rows(everything=True)
        assert (row["rows"], row["unknown_lines"]) == (0, 0)
    finally:
        assert keeper.stop(20) == []

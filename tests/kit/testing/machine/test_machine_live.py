"""A play sent as it happens, under a virtual clock: what is past goes at once, the rest when it is over."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import BinaryIO

import pytest

from fairlead.core.batches.decoding import decode_stream_batches
from fairlead.core.errors import NoAnswerError, ServerError
from fairlead.kit.testing import machine
from fairlead.kit.testing.machine import live_play, wire_bodies
from fairlead.see.agent.connection import Answer, Line, SendError

START_NS = 1_800_000_000 * live_play.NS


class Clock:
    def __init__(self) -> None:
        self.ns = START_NS

    def now_ns(self) -> int:
        return self.ns

    def sleep_s(self, seconds: float) -> None:
        self.ns += round(seconds * 1e9)


class Server(Line):
    """Answers by a list; then always takes."""

    def __init__(self, clock: Clock, answers: Sequence[Answer | None] = ()) -> None:
        self.server = "http://server:1"
        self.clock = clock
        self.answers = list(answers)
        self.taken: list[tuple[int, bytes]] = []

    def post(self, files: Sequence[BinaryIO], size: int) -> Answer:
        answer = self.answers.pop(0) if self.answers else Answer(200, {"taken": 1, "known": 0})
        if answer is None:
            raise SendError("no connection")
        if answer.status == 200:
            self.taken.append((self.clock.ns, b"".join(file.read() for file in files)))
            assert len(self.taken[-1][1]) == size
        return answer


def play(past_s: int) -> machine.Play:
    return replace(machine.play_small_machine(12, 60), origin_ns=START_NS - past_s * live_play.NS)


def sent(server: Server, clock: Clock, past_s: int = 30) -> list[live_play.IntervalSummary]:
    return list(live_play.send_live_play(play(past_s), server, every_s=10, now_ns=clock.now_ns, sleep_s=clock.sleep_s))


def test_what_is_past_goes_at_once_and_the_rest_as_it_happens() -> None:
    clock = Clock()
    server = Server(clock)
    told = sent(server, clock)
    assert [one.to_s for one in told] == [10, 20, 30, 40, 50, 60]
    assert [(when - START_NS) // live_play.NS for when, _ in server.taken] == [0, 0, 0, 10, 20, 30]
    whole = b"".join(body.data for body in wire_bodies.build_wire_bodies(play(30), 10))
    assert b"".join(data for _, data in server.taken) == whole
    times = [
        batch.header.last_ns for when, data in server.taken for batch in decode_stream_batches(io.BytesIO(data), "")
    ]
    assert max(time for time in times if time is not None) <= clock.ns


def test_a_server_that_is_away_or_busy_gets_it_later_and_once() -> None:
    clock = Clock()
    server = Server(clock, [None, None, Answer(429, {"error": "later"}, 3.0)])
    sent(server, clock)
    assert len(server.taken) == 6
    assert server.taken[0][0] > START_NS + 3 * live_play.NS


def test_a_server_that_refuses_or_never_answers_is_an_error() -> None:
    clock = Clock()
    with pytest.raises(ServerError, match="answers 403"):
        sent(Server(clock, [Answer(403, {"error": "no"})]), clock)
    with pytest.raises(NoAnswerError, match="no connection"):
        sent(Server(clock, [None] * live_play.MOST_TRIES), clock)

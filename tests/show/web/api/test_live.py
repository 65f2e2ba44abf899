"""The board of what is followed: one look for many, the newest for the slow, refusals, limits, nothing left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse

from fairlead.show.web.api import live_stream
from fairlead.show.web.api.live_stream import Board, parse_live_interval
from fairlead.show.web.identity import Person, RefusedError

ALICE, BOB = (Person(name=name, role="user", key=name) for name in ("alice", "bob"))
ASKED = Request({"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""})


class Door:
    """Lets in until it does not."""

    def __init__(self) -> None:
        self.found: Person | RefusedError = ALICE

    def identify_person(self, request: Request) -> Person:  # noqa: ARG002
        if isinstance(self.found, RefusedError):
            raise self.found
        return self.found


class Look:
    """What is followed: an answer, or what is raised; counts how often it is looked."""

    def __init__(self, now: Any = b"1") -> None:
        self.now, self.count, self.cancelled = now, 0, False

    async def __call__(self) -> bytes:
        self.count += 1
        if self.now is None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
        if isinstance(self.now, Exception):
            raise self.now
        assert isinstance(self.now, bytes)
        return self.now


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_stream, "BEAT_S", 0.02)


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def board(door: Door) -> Board:
    return Board(door, most=4, most_each=3)


def events(board: Board, look: Look, key: object = "k", person: Person = ALICE) -> Any:
    response = board.follow(ASKED, person, key, look, 0.05)  # type: ignore[arg-type]
    assert isinstance(response, StreamingResponse)
    return response.body_iterator


async def next_event(stream: Any) -> tuple[str, bytes]:
    """The next event that is no beat."""
    async with asyncio.timeout(900):
        async for part in stream:
            if part.startswith(b"event: "):
                name, data = part.removeprefix(b"event: ").split(b"\ndata: ")
                return name.decode(), data.removesuffix(b"\n\n")
    return "end", b""


def run(work: Callable[[], Awaitable[None]]) -> None:
    """In a loop of its own, in which no task is left when it is over."""

    async def whole() -> None:
        await work()
        for _ in range(5):
            await asyncio.sleep(0)
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    asyncio.run(whole())


def test_one_look_serves_many(board: Board) -> None:
    async def work() -> None:
        look = Look()
        streams = [events(board, look) for _ in range(3)]
        assert [await next_event(one) for one in streams] == [("answer", b"1")] * 3
        counted = look.count
        assert board.followers == 3
        look.now = b"2"
        assert [await next_event(one) for one in streams] == [("answer", b"2")] * 3
        assert counted <= 2
        other = events(board, look, key="of somebody else", person=BOB)
        assert await next_event(other) == ("answer", b"2")
        for one in (*streams, other):
            await one.aclose()
        assert board.followers == 0

    run(work)


def test_who_reads_slowly_gets_the_newest_and_no_queue(board: Board) -> None:
    async def work() -> None:
        look = Look()
        slow, quick = events(board, look), events(board, look)
        assert await next_event(slow) == await next_event(quick) == ("answer", b"1")
        for number in (b"2", b"3", b"4"):
            look.now = number
            assert await next_event(quick) == ("answer", number)
        assert await next_event(slow) == ("answer", b"4")
        for one in (slow, quick):
            await one.aclose()

    run(work)


def test_an_answer_that_does_not_change_is_told_once(board: Board) -> None:
    async def work() -> None:
        look = Look()
        stream = events(board, look)
        assert await next_event(stream) == ("answer", b"1")
        async with asyncio.timeout(900):
            while look.count < 4:
                assert (await anext(stream)).startswith(b": ")
        await stream.aclose()

    run(work)


def test_the_door_may_close_while_it_streams(board: Board, door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_stream, "AGAIN_S", 0.0)

    async def work() -> None:
        stream = events(board, Look())
        assert await next_event(stream) == ("answer", b"1")
        door.found = RefusedError(401, "not signed in", "sign in")
        name, data = await next_event(stream)
        assert (name, msgspec.json.decode(data)["status"]) == ("refused", 401)
        assert await next_event(stream) == ("end", b"")
        assert board.followers == 0
        door.found = BOB  # somebody else's sight: it ends, so that it is asked for anew
        stream = events(board, Look())
        assert (await next_event(stream))[0] in ("answer", "end")
        assert await next_event(stream) == ("end", b"")
        assert board.followers == 0

    run(work)


def test_limits_for_one_and_for_all(board: Board) -> None:
    async def work() -> None:
        held = [events(board, Look(), key=number) for number in range(3)]
        for one in held:
            await next_event(one)
        with pytest.raises(RefusedError) as own:
            events(board, Look())
        held.append(events(board, Look(), person=BOB))
        await next_event(held[-1])
        with pytest.raises(RefusedError) as full:
            events(board, Look(), person=BOB)
        assert (own.value.status, full.value.status) == (429, 429)
        assert "retry-after" in own.value.headers
        for one in held:
            await one.aclose()
        free = events(board, Look())
        assert await next_event(free) == ("answer", b"1")
        await free.aclose()

    run(work)


def test_streams_that_begin_at_the_same_time_are_no_way_around(board: Board) -> None:
    async def work() -> None:
        begun, refused = [], 0
        for _ in range(10):
            try:
                begun.append(events(board, Look()))
            except RefusedError:
                refused += 1
        assert (len(begun), refused) == (3, 7)
        assert [await next_event(one) for one in begun] == [("answer", b"1")] * 3
        for one in begun:
            await one.aclose()

    run(work)


def test_a_client_that_went_before_it_began_holds_no_place(board: Board) -> None:
    async def work() -> None:
        async def send(message: Any) -> None:
            raise OSError("gone")

        async def receive() -> Any:
            return {"type": "http.disconnect"}

        for _ in range(10):
            response: Any = board.follow(ASKED, ALICE, "k", Look(), 0.05)
            with suppress(OSError, ClientDisconnect, ExceptionGroup):
                await response({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send)
        assert board.followers == 0

    run(work)


@pytest.mark.parametrize("status", [429, 503])
def test_what_passes_is_waited_for(board: Board, status: int) -> None:
    async def work() -> None:
        look = Look(RefusedError(status, "not now"))
        stream = events(board, look)
        async with asyncio.timeout(900):
            while look.count < 3:
                assert (await anext(stream)).startswith(b": ")
        look.now = b"at last"
        assert await next_event(stream) == ("answer", b"at last")
        await stream.aclose()

    run(work)


@pytest.mark.parametrize(
    ("fault", "status"), [(RefusedError(404, "no job"), 404), (ValueError("secret of the inside"), 500)]
)
def test_what_does_not_pass_ends_it(board: Board, fault: Exception, status: int) -> None:
    async def work() -> None:
        look = Look()
        streams = [events(board, look) for _ in range(2)]
        for one in streams:
            await next_event(one)
        look.now = fault
        for one in streams:
            name, data = await next_event(one)
            assert (name, msgspec.json.decode(data)["status"]) == ("refused", status)
            assert b"secret" not in data
            assert await next_event(one) == ("end", b"")
        assert board.followers == 0
        again = events(board, Look(b"new"))  # asked for anew it is looked at anew
        assert await next_event(again) == ("answer", b"new")
        await again.aclose()

    run(work)


def test_a_look_under_way_ends_with_its_last_follower(board: Board) -> None:
    async def work() -> None:
        look = Look(None)
        first, second = (events(board, look) for _ in range(2))
        for one in (first, second):
            await anext(one)
        await anext(first)
        await first.aclose()
        assert not look.cancelled
        await anext(second)
        await second.aclose()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (look.cancelled, board.followers) == (True, 0)

    run(work)


@pytest.mark.parametrize(("text", "every_s"), [(None, 2.0), ("1", 1.0), ("60", 60.0), ("2.5", 2.5)])
def test_every(text: str | None, every_s: float) -> None:
    assert parse_live_interval(text) == every_s


@pytest.mark.parametrize("text", ["0.9", "61", "nan", "inf", "-1", "x", "1e999"])
def test_every_out_of_bounds(text: str) -> None:
    with pytest.raises(RefusedError) as refused:
        parse_live_interval(text)
    assert refused.value.status == 400

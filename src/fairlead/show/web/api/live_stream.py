"""Answers that keep coming: one look for everyone who follows the same, sent when it changes (text/event-stream).

A follower that reads slowly gets the newest when it is ready, never a queue. Not here: answering (`app`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from fairlead.show.web.identity import Door, Person, RefusedError

BEAT_S = 15.0
"""Something is sent at least so often: a client that went away is found out, proxies keep the connection."""
AGAIN_S = 10.0
"""So often it is asked whether the follower may still see this."""
SHORTEST_S, LONGEST_S = 1.0, 60.0
_LOG = logging.getLogger("fairlead.api")
Look = Callable[[], Awaitable[bytes]]
"""The answer as JSON. Raises RefusedError."""


@dataclass
class _Topic:
    """What several follow: the newest event, and who waits for the next."""

    look: Look
    every_s: float
    number: int = 0
    event: tuple[str, bytes] = ("", b"")
    followers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class _Stream(StreamingResponse):
    """What one follower is sent. Its place is free again however it ends, though it never began."""

    def __init__(self, parts: AsyncGenerator[bytes], release: Callable[[], None]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no", "x-content-type-options": "nosniff"}
        super().__init__(parts, media_type="text/event-stream", headers=headers)
        self._parts, self._release = parts, release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends until one side ends it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._release()
            await self._parts.aclose()


class Board:
    """All that is followed. One event loop."""

    def __init__(self, door: Door, most: int, most_each: int) -> None:
        self._door = door
        self._most = most
        self._most_each = most_each
        self._topics: dict[Hashable, _Topic] = {}
        self._held: Counter[str] = Counter()

    @property
    def followers(self) -> int:
        """Streams that are open."""
        return self._held.total()

    def follow(self, request: Request, person: Person, key: Hashable, look: Look, every_s: float) -> Response:
        """The stream of one follower; `key` is the same for those who may see the same. Raises RefusedError 429."""
        if self._held[person.key] >= self._most_each:
            raise RefusedError(429, "you have too many live views open", "close a page", {"retry-after": "5"})
        if self.followers >= self._most:
            raise RefusedError(429, "too many live views on this server", "ask again later", {"retry-after": "15"})
        self._held[person.key] += 1  # here, not when it begins: many may be asked for at the same time
        held = [person.key]

        def release() -> None:
            if held:
                who = held.pop()
                self._held[who] -= 1
                if not self._held[who]:
                    del self._held[who]

        return _Stream(self._stream(request, person, key, look, every_s, release), release)

    async def _stream(
        self, request: Request, person: Person, key: Hashable, look: Look, every_s: float, release: Callable[[], None]
    ) -> AsyncGenerator[bytes]:
        # In the event loop nothing runs between a look at `number` and the wait for `changed`.
        topic = self._entered(key, look, every_s)
        loop = asyncio.get_running_loop()
        asked_s, seen = loop.time(), 0
        try:
            yield b": following\n\n"
            while True:
                if topic.number != seen:
                    seen = topic.number
                    name, data = topic.event
                    yield b"event: %s\ndata: %s\n\n" % (name.encode(), data)
                    if name == "refused":
                        return
                if loop.time() - asked_s >= AGAIN_S:
                    asked_s = loop.time()
                    try:
                        now = self._door.identify_person(request)
                        changed = (now.sight, now.role, now.scopes) != (person.sight, person.role, person.scopes)
                    except RefusedError as refusal:
                        yield b"event: refused\ndata: %s\n\n" % _build_error_event(refusal)
                        return
                    if changed:
                        return
                changing = topic.changed
                if topic.number == seen:
                    try:
                        await asyncio.wait_for(changing.wait(), min(BEAT_S, AGAIN_S))
                    except TimeoutError:
                        yield b": beat\n\n"
        finally:
            self._left(key, topic)
            release()

    def _entered(self, key: Hashable, look: Look, every_s: float) -> _Topic:
        topic = self._topics.get(key)
        if topic is None:
            topic = self._topics[key] = _Topic(look, every_s)
            topic.task = asyncio.get_running_loop().create_task(self._looking(key, topic))
        topic.followers += 1
        return topic

    def _left(self, key: Hashable, topic: _Topic) -> None:
        topic.followers -= 1
        if not topic.followers and topic.task is not None:
            topic.task.cancel()
            if self._topics.get(key) is topic:
                del self._topics[key]

    async def _looking(self, key: Hashable, topic: _Topic) -> None:
        """Looks until nobody follows; the next look begins `every_s` after the last began, or when that has ended."""
        before = b""
        loop = asyncio.get_running_loop()
        while True:
            begun_s = loop.time()
            try:
                data = await topic.look()
                digest = blake2b(data, digest_size=16).digest()
                if digest != before:
                    before = digest
                    self._tell(topic, ("answer", data))
            except RefusedError as refusal:
                if refusal.status not in (429, 503):  # it will not get better
                    self._tell(topic, ("refused", _build_error_event(refusal)))
                    with suppress(KeyError):
                        if self._topics[key] is topic:
                            del self._topics[key]
                    return
            except Exception:  # noqa: BLE001  (a defect: whoever follows is told, the server goes on)
                _LOG.exception("a live view ended by a bug in fairlead")
                self._tell(topic, ("refused", _build_error_event(RefusedError(500, "a bug in the server"))))
                return
            await asyncio.sleep(max(topic.every_s - (loop.time() - begun_s), 0.05))

    def _tell(self, topic: _Topic, event: tuple[str, bytes]) -> None:
        topic.event = event
        topic.number += 1
        topic.changed.set()
        topic.changed = asyncio.Event()


def _build_error_event(refusal: RefusedError) -> bytes:
    """A refusal as an event's data."""
    return msgspec.json.encode({"status": refusal.status, "error": refusal.what, "remedy": refusal.remedy})


def parse_live_interval(text: str | None) -> float:
    """Seconds between two looks. Raises RefusedError 400."""
    try:
        every_s = float(text or 2.0)
    except ValueError:
        every_s = float("nan")
    if not SHORTEST_S <= every_s <= LONGEST_S:
        raise RefusedError(400, "every is a number of seconds from 1 to 60", "write every=2")
    return every_s

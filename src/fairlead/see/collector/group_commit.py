"""Bodies that wait are taken together: a thread takes all there are, and one sync of the log answers for all of them.

Not here: what taking is (`intake`).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

_MOST_BYTES = 2 << 20
_MOST_BODIES = 512
_FEW_BODIES = 16
_LINGER_S = 0.003
"""While a group is being taken, fewer bodies than this wait so long for more to come: a group costs about a millisecond
whatever its size. One that comes alone waits for nobody."""

Answered = TypeVar("Answered")


class Arrival(NamedTuple):
    """A body. `node`: the only one it may be of; empty: any. `agent`: what its sender calls itself."""

    body: bytes
    node: str
    agent: str


class _Waiting(NamedTuple, Generic[Answered]):
    arrival: Arrival
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Answered]


class Gathering(Generic[Answered]):
    """Threads that take bodies, several groups at the same time."""

    def __init__(self, take: Callable[[Sequence[Arrival]], Sequence[Answered | Exception]], threads: int) -> None:
        """`take` gives an answer, or why there is none, for each body, in their order."""
        self._take = take
        self._turn = threading.Condition()
        self._waiting: deque[_Waiting[Answered]] = deque()
        self._bytes = 0
        self._closed = False
        self.busy = 0
        """Groups being taken now."""
        self._count = threads
        self._threads: list[threading.Thread] = []

    async def await_answer(self, arrival: Arrival) -> Answered:
        """The answer to a body. Raises what `take` gave for it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answered] = loop.create_future()
        with self._turn:
            if self._closed:
                raise RuntimeError("no more batches are accepted")
            if not self._threads:
                self._start()
            self._waiting.append(_Waiting(arrival, loop, future))
            self._bytes += len(arrival.body)
            self._turn.notify()
        return await future

    def close(self) -> None:
        """Takes what waits, then ends the threads."""
        with self._turn:
            self._closed = True
            self._turn.notify_all()
        for thread in self._threads:
            thread.join()

    def _start(self) -> None:
        for number in range(self._count):
            thread = threading.Thread(target=self._run, name=f"taking-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self) -> None:
        while True:
            with self._turn:
                while not self._waiting:
                    if self._closed:
                        return
                    self._turn.wait()
                if not self._enough():
                    self._turn.wait_for(self._enough, _LINGER_S)
                    if not self._waiting:
                        continue
                group = self._next()
                self.busy += 1
            try:
                answers = self._take([one.arrival for one in group])
            except Exception as error:  # noqa: BLE001  (a defect: every sender is told)
                answers = [error] * len(group)
            with self._turn:
                self.busy -= 1
                self._turn.notify()
            # A loop that has ended has no client any more.
            with contextlib.suppress(RuntimeError):
                group[0].loop.call_soon_threadsafe(_answer, group, answers)

    def _enough(self) -> bool:
        return self._closed or not self.busy or len(self._waiting) >= _FEW_BODIES or self._bytes >= _MOST_BYTES

    def _next(self) -> list[_Waiting[Answered]]:
        group: list[_Waiting[Answered]] = []
        size = 0
        while self._waiting and len(group) < _MOST_BODIES:
            one = self._waiting[0]
            size += len(one.arrival.body)
            if group and (size > _MOST_BYTES or one.loop is not group[0].loop):
                break
            group.append(self._waiting.popleft())
            self._bytes -= len(one.arrival.body)
        return group


def _answer(group: Sequence[_Waiting[Answered]], answers: Sequence[Answered | Exception]) -> None:
    for one, answer in zip(group, answers, strict=True):
        if one.future.done():  # given up meanwhile
            continue
        if isinstance(answer, Exception):
            one.future.set_exception(answer)
        else:
            one.future.set_result(answer)

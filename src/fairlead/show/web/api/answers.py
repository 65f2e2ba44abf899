"""Asks a question in a thread, with a bounded number of places, and says what is wrong in HTTP's terms.

Not here: whose question it is (`identity`), parameters and replies (`app`), what is followed (`live_stream`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from fairlead.core.errors import FairleadError, LakeError, PluginError, UsageError
from fairlead.core.safe_text import escape_undecodable_text
from fairlead.explain.questions.lake_queries import NotForYouError, Sight, UnknownNameError
from fairlead.explain.questions.question import Asking
from fairlead.explain.questions.question_catalog import answer_question, parse_question_parameters
from fairlead.explain.questions.warm_up import FIRST_ASKED, warm_up_job_files
from fairlead.show.web.api.concurrency_limit import BusyError, Gate
from fairlead.show.web.api.settings import ApiSettings
from fairlead.show.web.identity import RefusedError

_LOG = logging.getLogger("fairlead.api")
_ENCODE = msgspec.json.Encoder()
_PAST_NS = 600 * 10**9
_BUSY = {
    "own": (429, "too many of your queries are running"),
    "full": (429, "too many queries are waiting"),
    "late": (503, "the server was busy for too long"),
}


class Answering:
    """Answers as JSON. One event loop; the lake is asked in threads."""

    def __init__(self, asking: Asking, settings: ApiSettings, clock: Callable[[], int]) -> None:
        self._asking = asking
        self._settings = settings
        self._clock = clock
        each = settings.user_at_once if settings.key is not None else settings.at_once + settings.waiting
        self._gate = Gate(settings.at_once, settings.waiting, settings.wait_s, each, settings.user_waiting)
        self._threads = ThreadPoolExecutor(settings.at_once, thread_name_prefix="question")

    def warm(self) -> None:
        """Asks once, in a thread, what is kept between questions."""
        self._threads.submit(warm_up_job_files, self._asking.lake)
        for question, name, words in FIRST_ASKED:
            self._threads.submit(
                self._ask, question, name, parse_question_parameters(question, words), Sight(), self._clock()
            )

    async def answer(
        self, question: str, name: str, asked: msgspec.Struct, sight: Sight, reader: str
    ) -> tuple[bytes, bool]:
        """The answer as JSON, and whether it is of the past only. `reader`: whose place it takes. Raises RefusedError
        400, 404, 429, 503, 500."""
        await self._enter(reader)
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._threads, self._ask, question, name, asked, sight, self._clock())
        work.add_done_callback(lambda done: self._done(done, reader))
        try:
            return await asyncio.wait_for(asyncio.shield(work), self._settings.answer_s)
        except TimeoutError:
            what = f"the query takes longer than {self._settings.answer_s:g} s"
            raise RefusedError(503, what, "ask about less time", {"retry-after": "5"}) from None
        except UnknownNameError as unknown:
            like = f"similar names: {', '.join(unknown.near)}" if unknown.near else ""
            raise RefusedError(404, str(unknown), like) from None
        except NotForYouError as refused:
            raise RefusedError(403, refused.what, refused.remedy or "") from None
        except UsageError as error:
            raise RefusedError(400, error.what, error.remedy or "") from None
        except PluginError as defect:
            _LOG.exception("%s", question)
            raise RefusedError(500, defect.what, defect.remedy or "") from None
        except FairleadError as error:
            _LOG.warning("%s: %s", question, error)
            status = 503 if isinstance(error, LakeError) else 500
            raise RefusedError(
                status, "the lake cannot answer this query now", "choose a shorter span, or try later"
            ) from None

    async def call(self, call: Callable[[], bytes], reader: str) -> bytes:
        """What another call comes to, in a thread of the same places. Raises RefusedError."""
        await self._enter(reader)
        work = asyncio.get_running_loop().run_in_executor(self._threads, call)
        work.add_done_callback(lambda done: self._done(done, reader))
        return await asyncio.shield(work)

    def _done(self, work: asyncio.Future[Any], reader: str) -> None:
        self._gate.leave(reader)
        if not work.cancelled():
            work.exception()  # told to whoever still waits; nobody may

    def _ask(self, question: str, name: str, asked: msgspec.Struct, sight: Sight, moment: int) -> tuple[bytes, bool]:
        try:
            answer = answer_question(self._asking, question, name, asked, sight, moment)
        except StopIteration as defect:  # no future can hold one: who asks would wait for ever
            raise RuntimeError(f"{question}: an iterator ended") from defect
        to_ns = getattr(answer, "to_ns", moment)
        return _ENCODE.encode(escape_undecodable_text(answer)), to_ns < moment - _PAST_NS

    async def _enter(self, reader: str) -> None:
        try:
            await self._gate.enter(reader)
        except BusyError as busy:
            status, what = _BUSY[busy.why]
            raise RefusedError(status, what, "ask again later", {"retry-after": "1"}) from None

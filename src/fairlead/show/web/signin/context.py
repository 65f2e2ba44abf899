"""What doors and routes share: the file of people (one reader in the loop, one writer in a thread), settings, the log.

Not here: what is asked of them.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from starlette.requests import Request

from fairlead.core.errors import LakeError
from fairlead.show.web.guard.client_address import Places
from fairlead.show.web.guard.sign_in_attempts import Attempts
from fairlead.show.web.people import audit
from fairlead.show.web.people.passwords import Passwords
from fairlead.show.web.people.store import Store
from fairlead.show.web.web_settings import Web

_LOG = logging.getLogger("fairlead.people")
_HOUR_NS = 3600 * 10**9
_T = TypeVar("_T")
_HOUSEKEEPING = 200


class Office:
    """Made once in a process that serves pages. `reading` is for the loop's thread alone: readers wait for nobody."""

    def __init__(self, state: Path, web: Web, key: bytes, wall: Callable[[], int]) -> None:
        self.web, self.key = web, key
        self.reading = Store(state, wall=wall, any_thread=True)
        self.course = self.reading.course
        self._writing = Store(state, course=self.course, any_thread=True)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="people")
        self._waiting = 0
        self._written = 0
        self.places = Places(web)
        self.passwords = Passwords(web.hash_memory_bytes, web.hash_passes)
        self.attempts = Attempts()
        self.idle_ns, self.longest_ns = int(web.idle_h * _HOUR_NS), int(web.longest_h * _HOUR_NS)

    def close(self) -> None:
        """Writes what waits and lets go of the file."""
        self._writer.shutdown()
        self.reading.close()
        self._writing.close()

    async def write(self, work: Callable[[Store], _T]) -> _T:
        """Does `work` where writing is done, and waits for it. It is one transaction."""
        return await asyncio.wrap_future(self._submit(work))

    def do_later(self, work: Callable[[Store], object]) -> None:
        """The same without waiting; what fails is told in the log. Dropped when very much waits already."""
        if self._waiting < 1000:
            self._submit(work).add_done_callback(_complain)

    def _submit(self, work: Callable[[Store], _T]) -> Future[_T]:
        self._waiting += 1
        return self._writer.submit(self._do, work)

    def _do(self, work: Callable[[Store], _T]) -> _T:
        try:
            self._written += 1
            with self._writing.change():
                if self._written % _HOUSEKEEPING == 1:
                    from fairlead.show.web.people.credentials import remove_expired_credentials

                    remove_expired_credentials(self._writing, idle_ns=self.idle_ns, longest_ns=self.longest_ns)
                return work(self._writing)
        except sqlite3.Error as fault:
            raise LakeError(f"cannot be written: {fault}", where=str(self._writing.path), remedy="make room") from fault
        finally:
            self._waiting -= 1

    async def note(
        self, request: Request, who: str, act: str, what: str = "", *, how: str = "", done: bool = True
    ) -> None:
        """Writes a line of the audit log; it is on disk when this returns."""
        line = self.write_audit_line(request, who, act, what, how=how, done=done)
        await self.write(line)

    def write_audit_line(
        self, request: Request, who: str, act: str, what: str = "", *, how: str = "", done: bool = True
    ) -> Callable[[Store], None]:
        """What writes a line of the audit log: for the same transaction as the change it tells of."""
        address = self.places.find_place(request.scope).address
        keep_ns = int(self.web.audit_days * 24 * _HOUR_NS)
        return lambda store: audit.write_audit_entry(
            store, who, act, what, how=how, address=address, done=done, keep_ns=keep_ns
        )


def _complain(done: Future[object]) -> None:
    error = done.exception()
    if error is not None:
        _LOG.warning("people: %s", error)

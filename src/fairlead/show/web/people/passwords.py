"""Passwords: Argon2id, the same work whether a name is known or not, two at a time and a short queue behind them.

Not here: how often somebody may try (`guard.sign_in_attempts`), where hashes are kept (`accounts`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from fairlead.core.errors import UsageError

if TYPE_CHECKING:
    from argon2 import PasswordHasher

SHORTEST, LONGEST = 10, 1024
AT_ONCE = 2
_MOST_WAITING = 32
_T = TypeVar("_T")


class CrowdedError(Exception):
    """Too many passwords wait to be checked."""


def check_password(text: str, name: str = "") -> str:
    """The password, when it may be one. Raises UsageError."""
    if not SHORTEST <= len(text) <= LONGEST:
        raise UsageError(
            f"a password has {SHORTEST} to {LONGEST} characters", remedy="a few words are easy to remember"
        )
    if text.casefold() == name.casefold() or len(set(text)) < 4:
        raise UsageError("that password is too easy to guess", remedy="a few words are easy to remember")
    return text


class Passwords:
    """Hashes and checks; in threads of its own when awaited, so that neither the loop waits nor the memory goes."""

    def __init__(self, memory_bytes: int = 64 << 20, passes: int = 3) -> None:
        self._memory_kib, self._passes = memory_bytes >> 10, passes
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="password")
        self._under_way = 0
        self._argon: PasswordHasher | None = None
        self._nobodys = ""

    def _hasher(self) -> PasswordHasher:
        if self._argon is None:
            from argon2 import PasswordHasher

            hasher = PasswordHasher(time_cost=self._passes, memory_cost=self._memory_kib, parallelism=2)
            self._nobodys = hasher.hash("the password of nobody")
            self._argon = hasher
        return self._argon

    def hash(self, password: str) -> str:
        """What is kept of a password."""
        return self._hasher().hash(_bytes(password))

    def check(self, kept: str | None, password: str) -> tuple[bool, str | None]:
        """Whether it is the password of a hash (None: nobody's, which takes as long), and a new hash where the kept one
        is of other parameters."""
        from argon2.exceptions import InvalidHashError, VerificationError

        hasher = self._hasher()
        try:
            hasher.verify(kept or self._nobodys, _bytes(password))
        except (VerificationError, InvalidHashError):
            return False, None
        if kept is None:
            return False, None
        return True, self.hash(password) if hasher.check_needs_rehash(kept) else None

    async def hash_in_thread(self, password: str) -> str:
        """`hash` in a thread. Raises CrowdedError."""
        return await self._in_thread(lambda: self.hash(password))

    async def check_in_thread(self, kept: str | None, password: str) -> tuple[bool, str | None]:
        """`check` in a thread. Raises CrowdedError."""
        return await self._in_thread(lambda: self.check(kept, password))

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        if self._under_way >= AT_ONCE + _MOST_WAITING:
            raise CrowdedError
        self._under_way += 1
        running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        running.add_done_callback(self._done)  # also when nobody waits any more
        return await asyncio.shield(running)

    def _done(self, running: asyncio.Future[_T]) -> None:
        self._under_way -= 1
        if not running.cancelled():
            running.exception()


def _bytes(password: str) -> bytes:
    return password.encode("utf-8", "surrogateescape")

"""Who may send or ask, how much at a time, and how often a refusal is logged. Time is an argument.

Not here: what the bytes say (`batch_checks`), connections (`client_connections`).
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from fairlead.core.access import tokens
from fairlead.core.access.tokens import AGENT, OPERATOR, READER, Claims
from fairlead.core.safe_text import escape_text
from fairlead.see.collector.refusal import Refusal

SENDERS = (AGENT, OPERATOR)
ASKERS = (READER, OPERATOR)
_KEPT = 65536
_MINUTE_NS = 60_000_000_000
_BEARER = "bearer "
_FOR_EVER_S = 1 << 40
_HOW = "fairlead token issue --key FILE --role {role}, and send it as: Authorization: Bearer TOKEN"

log = logging.getLogger("fairlead.see.collector")


class Admission:
    """Checks tokens against a key that may be read again (`renew`); remembers those that were valid."""

    def __init__(self, key: bytes, now_ns: Callable[[], int]) -> None:
        self._key = key
        self._now_ns = now_ns
        self._turn = threading.Lock()
        self._valid: OrderedDict[str, Claims] = OrderedDict()

    def renew(self, key: bytes) -> None:
        """From now on only tokens of `key`."""
        with self._turn:
            self._key = key
            self._valid.clear()

    def check_claims(self, authorization: str, roles: Sequence[str], *, trusted: bool) -> Claims:
        """What the sender of this header may do. `trusted`: the process at the other end of a unix socket is the
        server's own user or root, who could read the key anyway. Raises Refusal 401, 403."""
        if trusted and not authorization:
            return Claims(_FOR_EVER_S, role=OPERATOR)
        if not authorization[: len(_BEARER)].lower() == _BEARER:
            raise Refusal(401, "a token is needed", remedy=_HOW.format(role=roles[0]))
        token = authorization[len(_BEARER) :].strip()
        with self._turn:
            known = self._valid.get(token)
            key = self._key
        if known is not None and self._now_ns() < known.expires_s * 1_000_000_000:
            if known.role not in roles:
                raise Refusal(403, f"the token has another role than {' or '.join(roles)}")
            return known
        try:
            claims = tokens.check_token(key, token, self._now_ns(), roles)
        except tokens.RoleError as error:
            raise Refusal(403, str(error), remedy=_HOW.format(role=roles[0])) from None
        except ValueError as error:
            raise Refusal(401, str(error), remedy=_HOW.format(role=roles[0])) from None
        with self._turn:
            if key is self._key:
                self._valid[token] = claims
                while len(self._valid) > _KEPT:
                    self._valid.popitem(last=False)
        return claims


class Room:
    """Counts bytes of bodies under way; more than `limit` is refused, unless nothing else is under way."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._turn = threading.Lock()
        self.held = 0

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Room for `size` bytes while inside. Raises Refusal 429."""
        with self._turn:
            if self.held and self.held + size > self._limit:
                raise Refusal(429, "the server is busy", remedy="keep the batches and try again", retry_s=1)
            self.held += size
        try:
            yield
        finally:
            with self._turn:
                self.held -= size


class Complaints:
    """Logs what is refused once a minute for each (who, kind); the next line says how many were left out."""

    def __init__(self, now_ns: Callable[[], int], *, most: int = 4096) -> None:
        self._now_ns = now_ns
        self._most = most
        self._turn = threading.Lock()
        self._last: OrderedDict[tuple[str, str], tuple[int, int]] = OrderedDict()

    def tell(self, who: str, kind: str, text: str) -> bool:
        """Logs one line, unless such a one was logged within the last minute: then it is counted. Whether it did."""
        now = self._now_ns()
        with self._turn:
            since, left_out = self._last.get((who, kind), (now - _MINUTE_NS, 0))
            if now - since < _MINUTE_NS:
                self._last[(who, kind)] = (since, left_out + 1)
                return False
            self._last[(who, kind)] = (now, 0)
            self._last.move_to_end((who, kind))
            while len(self._last) > self._most:
                self._last.popitem(last=False)
        more = f" (and {left_out} more since the last line)" if left_out else ""
        log.warning("%s", escape_text(f"{who}: {text}{more}"))
        return True

"""Tokens of open connections: their right ends when the token does, and goes on with a fresh one.

    in force ── expires_s is past ──► barred (EKEYEXPIRED) ─┐
       ▲     ── its id is revoked ──► barred (EKEYREVOKED)  │ Own.TOKEN with a valid token of the same user and job
       └────────────────────────────────────────────────────┘

A barred connection may close what it has open, and nothing else. Only the leader calls this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from errno import EACCES, EINVAL, EKEYEXPIRED, EKEYREVOKED, EPERM
from typing import TYPE_CHECKING

from fairlead.core.access.token_ledger import RevokedTokens
from fairlead.core.access.tokens import renew_token
from fairlead.core.clock import monotonic_ns, now_ns
from fairlead.steer.fs.trees.thread_identity import forwarder_identity

if TYPE_CHECKING:
    from fairlead.steer.forwarding.forwarder.admission import Admission
    from fairlead.steer.forwarding.forwarder.connection import Connection

LOOK_NS = 1_000_000_000
"""How often the tokens of open connections are looked at: their right ends at most that late."""
_SECOND_NS = 1_000_000_000


class TokenWatch:
    """Bars connections. `say` writes a line about a client."""

    def __init__(
        self, key: bytes | None, admission: Admission, revoked: RevokedTokens, say: Callable[..., None]
    ) -> None:
        self._key = key
        self._admission = admission
        self._revoked = revoked
        self._say = say
        self.next_ns = 0
        """When the tokens are next looked at."""

    def look_after_time(self, connections: Iterable[Connection], now: int) -> None:
        """Ends the right of connections whose tokens have ended."""
        self.next_ns = now + LOOK_NS
        with forwarder_identity:  # this thread may have the rights of whoever asked last
            self._revoked.refresh()
        time_ns = now_ns()
        for connection in connections:
            authority = connection.session.authority
            if authority.claims is None or connection.barred:
                continue
            if authority.token_id in self._revoked.ids:
                connection.barred = -EKEYREVOKED
                why = "was revoked"
            elif time_ns >= authority.claims.expires_s * _SECOND_NS:
                connection.barred = -EKEYEXPIRED
                why = "has expired"
            else:
                continue
            self._say("%s: its token %s %s: requests are refused", connection.name, authority.token_id, why)

    def answer_token(self, connection: Connection, text: bytes) -> tuple[int, bytes]:
        """Own.TOKEN: takes a fresh token, or renews the one in force (`text` is empty). Error and body of the reply."""
        session, key = connection.session, self._key
        authority = session.authority
        if key is None or authority.claims is None:
            return -EINVAL, b""
        fresh = b""
        try:
            if not text:
                if connection.barred:
                    return connection.barred, b""
                fresh = renew_token(key, authority.claims, now_ns()).encode("ascii")
            new = self._admission.check_token((fresh or text).decode("ascii", "replace"))
        except PermissionError as no:
            self._say("%s: a new token is refused: %s", connection.name, no)
            return -EACCES, b""
        except ValueError as no:
            self._say("%s: %s", connection.name, no)
            return -EKEYEXPIRED, b""
        # Invariant: a session never changes its owner or its rights.
        if new.uid != authority.uid or new.job != authority.job:
            return -EPERM, b""
        session.authority = new
        if connection.barred:
            self._say("%s: has a valid token again", connection.name)
        connection.barred = 0
        self.next_ns = min(self.next_ns, monotonic_ns() + LOOK_NS)
        return 0, fresh

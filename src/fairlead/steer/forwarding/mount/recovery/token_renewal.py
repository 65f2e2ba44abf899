"""Keeps a mount's token in force: reads its file again when it changes, and asks the forwarder for a fresh one in time.

    in force ── a third of its life is left ──► renewing: asks the forwarder, again and again until it answers
       ▲                                           │ no renewal (too old, revoked), time is over
       │ a fresh token, from the forwarder         ▼
       └──────────────── or the file ─────────── ended: requests get EKEYEXPIRED until the file has a valid one

A renewed token stays in memory: the file is its owner's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from errno import EINVAL, ENOSYS
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.core.access.tokens import Claims, read_token_claims
from fairlead.core.clock import now_ns
from fairlead.core.errors import FairleadError
from fairlead.steer.forwarding.mount.relay.ledger import Entry
from fairlead.steer.fs.client.own_requests import build_own_request
from fairlead.steer.fs.wire.frames import Own

if TYPE_CHECKING:
    from fairlead.steer.forwarding.mount.relay.relay_mount import RelayMount

_LOOK_S = 1.0
_AGAIN = 20
"""A renewal that failed is tried again after this part of the token's life, a second at least."""
_TOKEN = int(Own.TOKEN)


class TokenRenewal:
    """The token of one mount. `read` reads its file; `over` ends it."""

    def __init__(self, mount: RelayMount, path: Path, read: Callable[[Path], str], over: threading.Event) -> None:
        self._mount = mount
        self._path = path
        self._read = read
        self._over = over
        self._seen = _stamp(path)
        self._asked_ns = 0
        self._silent = False  # this forwarder renews nothing, and it was said
        self._ended = False

    def start(self) -> None:
        """Looks after it in a thread, until the mount ends."""
        threading.Thread(target=self._follow, name="token", daemon=True).start()

    def _follow(self) -> None:
        while not self._over.wait(_LOOK_S):
            self._take_file()
            self._renew_in_time(now_ns())

    def _take_file(self) -> None:
        stamp = _stamp(self._path)
        if stamp is None or stamp == self._seen:
            return
        try:
            token = self._read(self._path)
            read_token_claims(token)
        except (FairleadError, ValueError) as error:  # half written, perhaps: looked at when it changes again
            self._seen = stamp
            self._mount.log(f"{self._path} has changed, and the token in it cannot be used: {error}")
            return
        self._seen = stamp
        if token != self._mount.dial.token:
            self._mount.dial.token = token
            self._silent = self._ended = False
            self._mount.call_soon(lambda: self._send(token.encode("ascii")))

    def _renew_in_time(self, now: int) -> None:
        try:
            claims = read_token_claims(self._mount.dial.token)
        except ValueError:
            return  # the forwarder says so when it sees it
        left_ns = claims.expires_s * 1_000_000_000 - now
        life_ns = claims.life_s * 1_000_000_000
        if left_ns <= 0 and not self._ended:
            self._ended = True
            self._mount.log(f"the token has expired: requests are refused until {self._path} has a valid one")
        if not self._may_renew(claims) or left_ns > life_ns // 3:
            return
        if left_ns > 0 and now - self._asked_ns >= max(1_000_000_000, life_ns // _AGAIN):
            self._asked_ns = now
            self._mount.call_soon(lambda: self._send(b""))

    def _may_renew(self, claims: Claims) -> bool:
        return claims.life_s > 0 and claims.until_s > claims.expires_s and not self._silent

    def _send(self, text: bytes) -> None:
        """The mount's thread: gives the forwarder a token, or asks for one. Without a connection, the next one begins
        with the token."""
        mount = self._mount
        link = mount.link
        if link is None:
            return
        number = next(mount.ledger.ids)
        mount.ledger.requests[number] = Entry(op=_TOKEN, size=len(text))
        link.put(number, 0, 0, build_own_request(_TOKEN, 0, text))
        link.flush()

    def settle(self, entry: Entry, error: int, body: bytes) -> None:
        """The forwarder has answered (the mount's thread)."""
        if entry.size:
            said = "is not accepted" if error else "is in force"
            self._mount.log(f"the token in {self._path} {said}" + (f": {os.strerror(-error)}" if error < 0 else ""))
        elif not error:
            self._mount.dial.token = body.decode("ascii", "replace")
            self._mount.log("the token was renewed")
        elif not self._silent:
            self._silent = True
            why = "an older release" if error in (-ENOSYS, -EINVAL) else os.strerror(abs(error))
            self._mount.log(f"the forwarder does not renew the token ({why}): put a new one into {self._path}")


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size

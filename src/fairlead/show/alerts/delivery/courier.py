"""What every way of delivery offers, and how HTTP receivers are asked: no redirects, certificates checked, bounded.

Not here: queues and retries (`alerts.route_sender`).
"""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from fairlead.core.access.redirects import NoRedirect
from fairlead.core.errors import ConfigError, DeliveryError, UndeliveredError
from fairlead.show.alerts.alert_messages import Message

_MOST_ANSWER = 2000
_TRY_AGAIN = (408, 425, 429)


class Courier(Protocol):
    """Delivers for one route."""

    def deliver(self, message: Message, recipient: str, now_ns: int) -> None:
        """Returns when the receiver has said that it took it. `recipient`: an address in place of the route's own.
        Raises UndeliveredError (try again later) and DeliveryError (this message will never be taken)."""
        ...


def build_courier_tls(ca: str) -> ssl.SSLContext:
    """What certificates are checked with: those in `ca` (PEM), or the system's. TLS 1.2 at least: receivers are not
    ours. Raises ConfigError."""
    try:
        context = ssl.create_default_context(cafile=Path(ca) if ca else None)
    except (OSError, ssl.SSLError) as fault:
        raise ConfigError(f"not valid certificates: {fault}", where=ca, remedy="give a PEM file") from fault
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class Post:
    """Sends JSON to one address. An own proxy of the environment is not used: secrets go to the receiver only."""

    def __init__(self, url: str, ca: str, token: str, timeout_s: float) -> None:
        self._url = url
        self._token = token
        self._timeout_s = timeout_s
        handlers: list[urllib.request.BaseHandler] = [NoRedirect(), urllib.request.ProxyHandler({})]
        if url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=build_courier_tls(ca)))
        self._opener = urllib.request.build_opener(*handlers)

    def post(self, body: bytes, headers: Mapping[str, str] = {}) -> None:
        """Raises UndeliveredError, DeliveryError."""
        every = {"Content-Type": "application/json", "User-Agent": "fairlead", **headers}
        if self._token:
            every["Authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(self._url, body, every, method="POST")  # noqa: S310  (checked by settings)
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                answer.read(_MOST_ANSWER)
        except urllib.error.HTTPError as fault:
            with fault:
                said = fault.read(_MOST_ANSWER).decode("utf-8", "replace").strip()
            self._refused(fault.code, said)
        except (OSError, http.client.HTTPException) as fault:  # URLError is an OSError
            reason = getattr(fault, "reason", None) or fault
            raise UndeliveredError(
                f"no response: {reason}", where=self._url, remedy="check that it is running"
            ) from fault

    def _refused(self, status: int, said: str) -> None:
        what = f"status {status}" + (f": {said[:200]}" if said else "")
        if status >= 500 or status in _TRY_AGAIN:
            raise UndeliveredError(what, where=self._url, remedy="see the log of the receiver")
        if 300 <= status < 400:
            raise DeliveryError(
                f"{what}: it redirects, which is not followed",
                where=self._url,
                remedy="give the address it redirects to",
            )
        raise DeliveryError(what, where=self._url, remedy="check address and token")

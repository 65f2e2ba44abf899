"""How many requests in a minute: of one session, token or link, and of one address, whoever is behind it.

Not here: attempts to sign in (`sign_in_attempts`), how many questions are worked on at once (`api.concurrency_limit`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead.core.clock import monotonic_s
from fairlead.show.web.guard.client_address import (
    UNIX,
    Places,
    find_client_cookie,
    list_client_headers,
    map_client_to_network,
)
from fairlead.show.web.guard.error_response import send_error_response

_MOST = 20_000
"""So many are counted at a time; who has not asked for longest is forgotten, and begins with a full budget."""


class Budgets:
    """What is left of `each` a minute, for each name. A budget not used up for a minute is whole again."""

    def __init__(self, each: int, steady_s: Callable[[], float] = monotonic_s) -> None:
        self._each, self._steady_s = each, steady_s
        self._left: OrderedDict[object, tuple[float, float]] = OrderedDict()

    def wait_s(self, name: object) -> float:
        """Takes one; 0 when it was there, else how long until one is."""
        if not self._each:
            return 0.0
        now = self._steady_s()
        left, at = self._left.pop(name, (float(self._each), now))
        left = min(float(self._each), left + (now - at) * self._each / 60)
        taken = left >= 1
        self._left[name] = (left - 1 if taken else left, now)
        if len(self._left) > _MOST:
            self._left.popitem(last=False)
        return 0.0 if taken else (1 - left) * 60 / self._each


class Budget:
    """Refuses 429 what is beyond. Clients of unix sockets have no address and no limit by it."""

    def __init__(
        self, app: ASGIApp, places: Places, *, each: int, address: int, steady_s: Callable[[], float] = monotonic_s
    ) -> None:
        self._app, self._places = app, places
        self._each, self._address = Budgets(each, steady_s), Budgets(address, steady_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http":
            place = self._places.find_place(scope)
            wait_s = 0.0 if place.address == UNIX else self._address.wait_s(map_client_to_network(place.address))
            held = list_client_headers(scope, b"authorization") or find_client_cookie(scope, place.cookie)
            if not wait_s and held:
                wait_s = self._each.wait_s(hash(tuple(held)))
            if wait_s:
                again = {"retry-after": str(int(wait_s) + 1)}
                await send_error_response(send, 429, "too many requests in a minute", "ask again later", again)
                return
        await self._app(scope, receive, send)

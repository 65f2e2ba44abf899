"""Attempts to sign in: after a few that failed, each one waits twice as long as the one before it.

Counted for a name from an address, for a name, and for an address: the first is strict, the others leave room for
people behind one address, and for somebody whose name others try. In memory; a new start forgets.
"""

from __future__ import annotations

import unicodedata
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from fairlead.core.clock import monotonic_s
from fairlead.show.web.guard.client_address import map_client_to_network

FREE = {"both": 5, "name": 30, "address": 60}
"""So many may fail before one waits."""
LONGEST_S = 900.0
_FORGOTTEN_S = 3600.0
_MOST = 30_000


@dataclass(slots=True)
class _FailedAttempts:
    count: int
    at_s: float


class Attempts:
    """Who failed how often of late."""

    def __init__(self, steady_s: Callable[[], float] = monotonic_s) -> None:
        self._steady_s = steady_s
        self._failed: OrderedDict[tuple[str, str, str], _FailedAttempts] = OrderedDict()

    def begin(self, name: str, address: str) -> float:
        """Begins an attempt: it counts as failed until `record_success` says otherwise, so that many at once are no way
        around. How many seconds to wait instead; 0: none."""
        now = self._steady_s()
        keys = _keys(name, address)
        wait = max(self._wait_s(key, now) for key in keys)
        if wait > 0:
            return wait
        for key in keys:
            found = self._failed.pop(key, None)
            if found is None or now - found.at_s > _FORGOTTEN_S:
                found = _FailedAttempts(0, now)
            self._failed[key] = _FailedAttempts(found.count + 1, now)
        while len(self._failed) > _MOST:
            self._failed.popitem(last=False)
        return 0.0

    def record_success(self, name: str, address: str) -> None:
        """It was good: nothing is held against this name from this address; of the others this one is not counted."""
        both, *others = _keys(name, address)
        self._failed.pop(both, None)
        for key in others:
            found = self._failed.get(key)
            if found is not None:
                found.count = max(0, found.count - 1)

    def _wait_s(self, key: tuple[str, str, str], now: float) -> float:
        found = self._failed.get(key)
        if found is None or now - found.at_s > _FORGOTTEN_S:
            return 0.0
        beyond = found.count - FREE[key[0]]
        if beyond < 0:
            return 0.0
        return found.at_s + min(LONGEST_S, 2.0 ** min(beyond, 20)) - now


def _keys(name: str, address: str) -> list[tuple[str, str, str]]:
    # A directory takes a name in any case and width: each of them is the same try.
    name, address = unicodedata.normalize("NFKC", name).casefold().strip(" "), map_client_to_network(address)
    return [("both", name, address), ("name", name, ""), ("address", "", address)]

"""Notices a forwarder that has stopped answering: stopped, or on a machine that went down without closing anything.

A forwarder answers a PING at once whatever it is busy with. Not here: what follows (`failover`).

            a request is sent           ping_s without a reply          lost_s without a reply
    +------+ -------------> +---------+ ------------------> +--------+ -------------------> lost: next forwarder,
    | idle |                | waiting |                     | pinged |                      or wait, if it is the
    +------+ <------------- +---------+ <------------------ +--------+                      only one
           nothing is waited for         anything arrives
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

from fairlead.core.clock import monotonic_s
from fairlead.steer.forwarding.mount.relay.ledger import Entry
from fairlead.steer.fs.client.own_requests import build_own_request
from fairlead.steer.fs.wire.frames import Own

if TYPE_CHECKING:
    from fairlead.steer.forwarding.mount.relay.relay_mount import RelayMount
    from fairlead.steer.fs.client.link import Link

PING_S = 5.0
"""After this time without any reply a PING is sent."""
LOST_S = 10.0
"""After this time without any reply, that to the PING included, the next forwarder is tried."""
_PING = int(Own.PING)


class ForwarderTimeout:
    """When something last arrived. The mount's thread only."""

    def __init__(self, mount: RelayMount, *, ping_s: float = PING_S, lost_s: float = LOST_S) -> None:
        self.ping_s = ping_s
        self.lost_s = lost_s
        self._mount = mount
        self._link: Link | None = None
        self._receipts = -1
        self._heard_s = self._pinged_s = 0.0
        self._told = False

    def pause_s(self) -> float:
        """Seconds the mount's thread may wait for events (-1: for ever). Called before each wait; sends the PING, drops
        the link when time is up."""
        mount = self._mount
        link = mount.link
        if link is None or not mount.ledger.requests:
            self._receipts = -1  # nothing is waited for: the time begins with the next request
            return -1.0
        now = monotonic_s()
        if link.receipts != self._receipts or link is not self._link:
            self._link, self._receipts = link, link.receipts
            self._heard_s, self._pinged_s = now, 0.0
            return self.ping_s
        if not self._pinged_s:
            left = self._heard_s + self.ping_s - now
            if left > 0:
                return left
            self._ask(link, now)
        left = self._pinged_s + self.lost_s - self.ping_s - now
        if left > 0:
            return left
        if _has_come(link):  # a reply is there: this process was stopped, not the forwarder
            return 0.0
        return self._silent(link)

    def _ask(self, link: Link, now: float) -> None:
        self._pinged_s = now
        ledger = self._mount.ledger
        number = next(ledger.ids)
        ledger.requests[number] = Entry(op=_PING)
        link.put(number, 0, 0, build_own_request(_PING, 0))
        link.flush()

    def _silent(self, link: Link) -> float:
        mount = self._mount
        dial = mount.dial
        if len(dial.addresses) > 1:
            self._told = False
            dial.current = (dial.current + 1) % len(dial.addresses)  # the others first
            mount.drop_link(f"silent for {self.lost_s:.0f} s")
            return 0.0
        if not self._told:
            self._told = True
            mount.log(f"{link.connection.address} is silent and the only forwarder named: requests wait for it")
        return self.lost_s


def _has_come(link: Link) -> bool:
    poll = select.poll()
    poll.register(link.descriptor, select.POLLIN)
    return bool(poll.poll(0))

"""One route's sender: takes the next batch of its queue, delivers it, writes down what came of it; tries again later.

What was confirmed and written down is never sent again. Killed between the two, it is sent once more, under the same
id: at least once. Not here: the thread it runs in (`run.alert_loop`).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from pathlib import Path

from fairlead.core.errors import DeliveryError, FairleadError
from fairlead.core.safe_text import escape_text
from fairlead.show.alerts.alert_messages import build_alert_message
from fairlead.show.alerts.alert_settings import Alerts
from fairlead.show.alerts.delivery import Courier, build_delivery_courier
from fairlead.show.alerts.delivery.alertmanager import ByAlertApi
from fairlead.show.alerts.state import Batch, State

FIRST_S = 5.0
LONGEST_S = 1800.0
"""Pauses between tries: the first, doubled each time up to the longest."""
_NS = 10**9

log = logging.getLogger("fairlead.show.alerts")


def compute_sender_pause(attempts: int) -> int:
    """How long to wait after so many failed tries."""
    return round(min(LONGEST_S, FIRST_S * float(1 << min(attempts, 20))) * _NS)


class Sender:
    """Sends for one route. `clock` tells the time (epoch ns)."""

    def __init__(
        self, folder: Path, alerts: Alerts, route: str, clock: Callable[[], int], *, by: Courier | None = None
    ) -> None:
        self.route = route
        self._folder = folder
        self._alerts = alerts
        self._clock = clock
        self._by = by
        self._refreshed_ns: int | None = None

    def send_due(self, state: State) -> int:
        """Everything that is due now; returns how many messages were delivered. Raises LakeError for the state only."""
        delivered = 0
        group_ns = round(self._alerts.group_s * _NS)
        while (batch := state.take_next_batch(self.route, self._clock(), group_ns, secrets.token_hex(12))) is not None:
            delivered += self._try(state, batch)
        self._refresh(state)
        return delivered

    def _try(self, state: State, batch: Batch) -> bool:
        try:
            self._courier().deliver(build_alert_message(batch, self._alerts), batch.recipient, self._clock())
        except FairleadError as fault:
            now_ns = self._clock()
            old = now_ns - batch.made_ns > self._alerts.give_up_h * 3600 * _NS
            if old or (isinstance(fault, DeliveryError) and not fault.retryable):
                log.error(  # noqa: TRY400  (no defect of ours: no traceback)
                    "%s", escape_text(f"route {self.route}: {len(batch.notices)} alerts dropped: {fault.what}")
                )
                state.mark_abandoned(batch, now_ns)
            else:
                log.warning("%s", escape_text(f"route {self.route}: {fault.what}; retrying"))
                state.postpone_batch(batch, now_ns + compute_sender_pause(batch.attempts), fault.what)
            return False
        state.mark_sent(batch, self._clock())
        return True

    def _courier(self) -> Courier:
        """Made when it is first needed, and again after its files could not be used."""
        if self._by is None:
            self._by = build_delivery_courier(self.route, self._alerts)
        return self._by

    def _refresh(self, state: State) -> None:
        """Tells an Alertmanager again what is not over."""
        now_ns = self._clock()
        try:
            by = self._courier() if self.route in self._alerts.routes else None
        except FairleadError:
            return  # told when there is something to send
        if not isinstance(by, ByAlertApi):
            return
        if self._refreshed_ns is not None and now_ns < self._refreshed_ns + by.refresh_s * _NS:
            return
        self._refreshed_ns = now_ns
        told = [
            (concern, sent[-1].severity)
            for concern in state.open_concerns()
            if (sent := [one for one in state.list_told(concern.id) if (one.route, one.state) == (self.route, "sent")])
        ]
        if told:
            try:
                by.refresh(told, now_ns)
            except DeliveryError as fault:
                log.warning("%s", escape_text(f"route {self.route}: {fault.what}; retrying"))

"""Tells systemd how the service is (sd_notify): a few datagrams to the socket it names. Without one, nothing happens.

Not here: when (`supervisor`).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

_PATIENCE_S = 0.5
"""Its queue is short: a few datagrams."""


class Notifier:
    """`NOTIFY_SOCKET` and `WATCHDOG_USEC` of the environment."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]
        microseconds = environment.get("WATCHDOG_USEC", "")
        ours = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog_s = int(microseconds) / 1e6 if ours and microseconds.isdigit() else None
        """It wants to hear of us at least this often; None: it does not."""

    def tell(self, *lines: str) -> None:
        """Sends `READY=1`, `STATUS=...`, `WATCHDOG=1`, `STOPPING=1`. A service manager that is gone, or does not listen
        for a moment, is no fault and holds nothing up."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.settimeout(_PATIENCE_S)
                sock.sendto("\n".join(lines).encode(), self._address)
        except OSError:
            return

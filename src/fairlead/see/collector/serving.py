"""Any ASGI application served with the collector's rules for connections: for the process that answers questions.

Not here: the collector itself (`run`).
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fairlead.core import clock
from fairlead.core.access.tls import build_tls_server_context
from fairlead.see.collector.admission import Complaints
from fairlead.see.collector.client_connections import Crowd, build_client_connection
from fairlead.see.collector.metrics import Metrics
from fairlead.see.collector.server import Listener, Server
from fairlead.see.collector.settings import Collector

Bound = tuple[socket.socket, bool]
"""A listening socket, and whether TLS is spoken there."""


def build_server_listeners(settings: Collector, sockets: Sequence[Bound]) -> list[Listener]:
    """The sockets with their TLS contexts. Raises RefusedError when the certificate cannot be used."""
    found: list[Listener] = []
    for sock, tls in sockets:
        context = build_tls_server_context(Path(settings.tls_certificate), Path(settings.tls_key)) if tls else None
        found.append((sock, context))
    return found


def renew_server_certificates(settings: Collector, listeners: Sequence[Listener]) -> str:
    """Reads them again, for connections to come; returns what was wrong, empty when nothing was."""
    for _, context in listeners:
        if context is not None:
            try:
                context.load_cert_chain(settings.tls_certificate, settings.tls_key)
            except (OSError, ssl.SSLError) as error:
                return f"certificate: {error}"
    return ""


def serve_application(
    application: Any,
    settings: Collector,
    sockets: Sequence[Bound],
    *,
    on_ready: Callable[[], None],
    on_beat: Callable[[], None],
) -> None:
    """Serves until SIGTERM."""
    listeners = build_server_listeners(settings, sockets)
    crowd = Crowd(settings.limits, Metrics(), Complaints(clock.now_ns))
    Server(
        application,
        build_client_connection(crowd),
        listeners,
        settings.limits,
        on_ready=on_ready,
        on_beat=on_beat,
        on_stop=lambda: None,
        on_hup=lambda: (renew_server_certificates(settings, listeners), None)[1],
    ).run()

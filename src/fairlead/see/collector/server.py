"""One event loop that serves an application on several sockets, some with TLS. uvicorn's server, told where to listen.

Not here: the application (`app`), binding (`listen_address`).
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

import uvicorn

from fairlead.see.collector.client_connections import Connection
from fairlead.see.collector.settings import Limits

Listener = tuple[socket.socket, ssl.SSLContext | None]
GRACE_S = 4
"""Requests under way have this long to end when the server stops."""
BEAT_S = 1.0


class Server(uvicorn.Server):
    """Serves until SIGTERM or SIGINT. `on_ready` once connections are taken, `on_beat` every second the loop goes
    round, `on_stop` when it begins to end, `on_hup` at SIGHUP."""

    def __init__(
        self,
        application: Any,
        protocol: type[Connection],
        listeners: Sequence[Listener],
        limits: Limits,
        *,
        on_ready: Callable[[], None],
        on_beat: Callable[[], None],
        on_stop: Callable[[], None],
        on_hup: Callable[[], None],
    ) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                http=protocol,
                loop="uvloop",
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                date_header=False,
                backlog=1024,
                timeout_keep_alive=int(limits.idle_s),
                timeout_graceful_shutdown=GRACE_S,
                proxy_headers=False,
            )
        )
        # What it would say about clients is said by `admission.Complaints`, once a minute.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        self._listeners = listeners
        self._limits = limits
        self._on_ready = on_ready
        self._on_beat = on_beat
        self._on_stop = on_stop
        self._on_hup = on_hup

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002
        """Listens on its own sockets."""
        await self.lifespan.startup()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._on_hup)
        self.servers = []
        for sock, context in self._listeners:
            limit = self._limits.header_s if context is not None else None
            server = await loop.create_server(
                self._connection, sock=sock, ssl=context, backlog=1024, ssl_handshake_timeout=limit
            )
            self.servers.append(server)
        self.started = True
        self._on_ready()

    def _connection(self) -> asyncio.Protocol:
        protocol: Any = self.config.http_protocol_class
        made: asyncio.Protocol = protocol(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        if counter % round(BEAT_S * 10) == 0:
            self._on_beat()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Takes nothing more, ends what is under way."""
        self._on_stop()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: Any) -> None:  # noqa: ARG002
        """SIGTERM and SIGINT end it; they are not raised again once it has ended."""
        self.should_exit = True

"""Answers on their way to clients: sent in pieces as they are read, and all together bounded, however slowly they are.

Not here: when a client that reads nothing is dropped (the connection).
"""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairlead.show.web.guard.error_response import send_error_response

PIECE_BYTES = 32768
MOST_BYTES = 192 << 20
"""Bodies that wait for their clients, all together. Beyond: 503, and what streams waits."""
_LOOK_S = 0.2


class Outgoing:
    """Outside of what compresses: what counts is what travels."""

    def __init__(self, app: ASGIApp, most_bytes: int = MOST_BYTES) -> None:
        self._app, self._most = app, most_bytes
        self.bytes = 0
        """On the way just now."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun: list[Message] = []
        full = False

        async def sending(message: Message) -> None:
            nonlocal full
            if full:
                return
            if message["type"] == "http.response.start":
                begun.append(message)
                return
            body: bytes = message.get("body", b"")
            if begun:
                if not message.get("more_body") and len(body) > PIECE_BYTES and self.bytes + len(body) > self._most:
                    full = True
                    await send_error_response(
                        send, 503, "too many clients read slowly", "ask again later", {"retry-after": "5"}
                    )
                    return
                await send(begun.pop())
            if len(body) <= PIECE_BYTES:
                await send(message)
                return
            await self._pieces(message, body, send)

        await self._app(scope, receive, sending)

    async def _pieces(self, message: Message, body: bytes, send: Send) -> None:
        while self.bytes and self.bytes + len(body) > self._most:  # only what streams comes here
            await asyncio.sleep(_LOOK_S)
        self.bytes += len(body)
        try:
            for at in range(0, len(body), PIECE_BYTES):
                last = at + PIECE_BYTES >= len(body)
                piece = {**message, "body": body[at : at + PIECE_BYTES]}
                piece["more_body"] = bool(message.get("more_body")) or not last
                await send(piece)
        finally:
            self.bytes -= len(body)

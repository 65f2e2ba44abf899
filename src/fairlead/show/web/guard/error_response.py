"""An error document sent by hand, for what is refused before there is a request object."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.types import Send


async def send_error_response(
    send: Send, status: int, what: str, remedy: str = "", headers: Mapping[str, str] | None = None
) -> None:
    """Answers with `{"error": what, "remedy": remedy}`."""
    body = msgspec.json.encode({"error": what, "remedy": remedy})
    sent = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "cache-control": "no-store",
        **(headers or {}),
    }
    raw = [(name.encode(), value.encode()) for name, value in sent.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})

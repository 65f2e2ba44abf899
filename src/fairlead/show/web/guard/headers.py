"""Headers every answer carries: what a page may load, that nothing is guessed, framed or kept for somebody else.

Pure ASGI: what streams goes on streaming.
"""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairlead.show.web.guard.client_address import Places

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_ALWAYS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=(), interest-cohort=()",
}
_STRICT = "max-age=31536000"


class SafeHeaders:
    """Adds what an answer does not say itself. `portal`: who asks does not show in the request, so that a browser must
    ask again before it shows what it kept."""

    def __init__(self, app: ASGIApp, places: Places, *, portal: bool = False) -> None:
        self._app, self._places, self._portal = app, places, portal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        secure = self._places.find_place(scope).secure
        of_api = scope["path"].startswith("/api/")

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _ALWAYS.items():
                    headers.setdefault(name, value)
                if secure:
                    headers.setdefault("strict-transport-security", _STRICT)
                if of_api:
                    headers.add_vary_header("Cookie")
                    headers.setdefault("cache-control", "no-store")
                    if self._portal and "max-age" in headers["cache-control"]:
                        headers["cache-control"] = "private, no-cache"
            await send(message)

        await self._app(scope, receive, sending)

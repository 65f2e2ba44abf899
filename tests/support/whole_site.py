"""The whole application of a server, put together as `fairlead up` does, over the site of two people; asked in-process.

Its clock stands at the end of what the lake tells of. `Caller.ask` reads a stream as far as its first event.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from fairlead.core.access.tokens import Claims, issue_token
from fairlead.run.api_application import ApiApplication, assemble_api_application
from fairlead.run.config import Config, load_config, resolve_config
from fairlead.show.web.people import accounts
from fairlead.show.web.people.passwords import Passwords
from fairlead.show.web.people.store import Store
from fairlead.store.lake import Lake
from rights_site import NOW, Other, others, site

KEY = b"k" * 32
MEMORY = 8 << 20
PASSWORD = "four words are enough"  # noqa: S105
PEOPLE = (("alice", "user", ("climate",)), ("bob", "user", ()), ("carol", "support", ()), ("root", "admin", ()))
SETTINGS = """
[web]
hash_memory_bytes = 8388608
hash_passes = 1
requests_per_minute = 0
address_requests_per_minute = 0
[alerts]
subscriptions = "ops"
subscribe_domains = ["site.org"]
[alerts.routes.ops]
kind = "mail"
host = "127.0.0.1"
sender = "fairlead@site.org"
"""


@dataclass
class Reply:
    """What came back: of a stream, what came until its first event."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Whole:
    """A server in `folder`; `wall` is its clock. `close` it in the end."""

    def __init__(self, folder: Path, settings: str = SETTINGS, *, lake: Lake | None = None) -> None:
        self.folder, self.wall = folder, NOW
        (folder / "state").mkdir(exist_ok=True)
        file = folder / "server.toml"
        file.write_text(f'[server]\nlake = "{folder / "lake"}"\nstate = "{folder / "state"}"\n{settings}')
        self.config: Config = resolve_config(load_config(file, environment={})[0])
        if lake is None:
            lake = site(folder / "lake")
            others(lake, (Other("101", 120, 420), Other("102", 380, 700, target="OST0", forwarder="f1", mdt="MDT0")))
        self.lake = lake
        with Store(folder / "state", wall=lambda: self.wall) as store:
            kept = Passwords(MEMORY, 1).hash(PASSWORD)
            for name, role, projects in PEOPLE:
                accounts.add_account(store, name, role=role, projects=projects, password=kept)  # type: ignore[arg-type]
        self.made: ApiApplication = assemble_api_application(self.config, KEY, self.lake, clock=lambda: self.wall)
        self.app = self.made.app

    def again(self) -> None:
        """As after a restart: the same folder, nothing of memory."""
        self.made.close()
        self.made = assemble_api_application(self.config, KEY, self.lake, clock=lambda: self.wall)
        self.app = self.made.app

    def close(self) -> None:
        self.made.close()

    def caller(self, **headers: str) -> Caller:
        """Somebody with these headers."""
        return Caller(self, {name.replace("_", "-"): value for name, value in headers.items()})

    def signed_in(self, name: str) -> Caller:
        """Somebody with a session."""
        caller = self.caller()
        answer = caller.ask("POST", "session", {"name": name, "password": PASSWORD})
        assert answer.status == 200, answer.body
        caller.headers = {"cookie": answer.headers["set-cookie"].partition(";")[0], "x-csrf-token": answer.json["csrf"]}
        return caller

    def with_token(self, name: str, *scopes: str) -> Caller:
        """Somebody with an API token of these scopes."""
        made = self.signed_in(name).ask("POST", "tokens", {"title": "t", "scopes": scopes})
        assert made.status == 201, made.body
        return self.caller(authorization=f"Bearer {made.json['token']}")

    def with_link(self, name: str, job: str, days: float = 1.0) -> Caller:
        """Who holds a link of somebody's."""
        made = self.signed_in(name).ask("POST", "links", {"job": job, "days": days})
        assert made.status == 201, made.body
        return self.caller(authorization=f"Bearer {made.json['token']}")

    def with_claims(self, role: str, **claims: Any) -> Caller:
        """Somebody with a token of the server's key."""
        claims.setdefault("expires_s", self.wall // 10**9 + 86400)
        return self.caller(authorization=f"Bearer {issue_token(KEY, Claims(role=role, **claims))}")


@dataclass
class Caller:
    """Somebody who asks."""

    whole: Whole
    headers: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
        """One request, answered."""
        return asyncio.run(self.asking(method, path, body, headers))

    async def asking(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
        """The same in a loop that runs. A client that has the first event of a stream goes away."""
        sent = {"host": "127.0.0.1:8572", **self.headers, **(headers or {})}
        content = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        if body is not None:
            sent.setdefault("content-type", "application/json")
        where, _, query = (path if path.startswith("/") else f"/api/v1/{path}").partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(where),
            "raw_path": where.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8572),
            "state": {},
        }
        gone, told = asyncio.Event(), [{"type": "http.request", "body": content, "more_body": False}]
        reply, parts = Reply(0, {}, b""), bytearray()

        async def receive() -> dict[str, Any]:
            if told:
                return told.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                reply.status = message["status"]
                reply.headers = {key.decode().lower(): value.decode("latin-1") for key, value in message["headers"]}
                return
            if gone.is_set():
                return  # as the server does
            parts.extend(message.get("body", b""))
            if b"event: " in parts and reply.headers.get("content-type", "").startswith("text/event-stream"):
                gone.set()

        await self.whole.app(scope, receive, send)  # type: ignore[arg-type]
        reply.body = bytes(parts)
        return reply

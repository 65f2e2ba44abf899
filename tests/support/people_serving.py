"""The application with its entrance, asked in this process: cookies are kept as a browser would."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import msgspec

from fairlead.explain.questions.question import Asking
from fairlead.show.web.api.app import build_api_app
from fairlead.show.web.api.settings import ApiSettings
from fairlead.show.web.people import accounts
from fairlead.show.web.people.passwords import Passwords
from fairlead.show.web.people.store import Store
from fairlead.show.web.signin.sign_in_app import build_sign_in_app
from fairlead.show.web.web_settings import Web
from fairlead.store.lake import Lake
from questions_site import NOW

KEY = b"k" * 32
MEMORY = 8 << 20
PASSWORD = "four words are enough"  # noqa: S105
HOUR = 3600 * 10**9


class Site:
    """A server of people. `wall` is its clock."""

    def __init__(self, folder: Path, lake: Lake, **web: Any) -> None:
        self.folder = folder
        self.wall = NOW
        self.web = Web(**{"hash_memory_bytes": MEMORY, "hash_passes": 1, **web})
        self.lake = lake
        self.open()

    def open(self) -> None:
        self.entrance = build_sign_in_app(self.folder, self.web, KEY, self.lake, wall=lambda: self.wall)
        self.app = build_api_app(
            Asking(self.lake),
            ApiSettings(key=KEY, warm=False),
            clock=lambda: self.wall,
            door=self.entrance.door,
            more=self.entrance.routes,
            guards=self.entrance.guards,
            described=self.entrance.described,
        )

    def close(self) -> None:
        self.entrance.close()

    def add(self, name: str, role: str = "user", **more: Any) -> None:
        """An account with `PASSWORD`, as the command makes it."""
        way = more.get("way", "local")
        kept = Passwords(MEMORY, 1).hash(PASSWORD) if way == "local" else None
        with Store(self.folder, wall=lambda: self.wall) as store:
            accounts.add_account(store, name, role=role, password=kept, **more)  # type: ignore[arg-type]

    def browser(self, address: str = "127.0.0.1", origin: str = "http://127.0.0.1:8572") -> Browser:
        return Browser(self, address, origin)

    def signed_in(self, name: str, **more: Any) -> Browser:
        browser = self.browser(**more)
        answer = browser.sign_in(name)
        assert answer.status_code == 200, answer.text
        return browser


class Browser:
    """One browser: cookies, and the word it sends with changes."""

    def __init__(self, site: Site, address: str, origin: str) -> None:
        self.site, self.address, self.origin = site, address, origin
        self.cookies = httpx.Cookies()
        self.word = ""

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> httpx.Response:
        sent = dict(headers or {})
        if body is not None:
            sent.setdefault("content-type", "application/json")
        if self.word and method != "GET":
            sent.setdefault("x-csrf-token", self.word)

        async def run() -> httpx.Response:
            client = None if self.address == "unix" else (self.address, 1)
            transport = httpx.ASGITransport(self.site.app, client=client)  # type: ignore[arg-type]
            async with httpx.AsyncClient(transport=transport, base_url=self.origin, cookies=self.cookies) as asking:
                content = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
                answer = await asking.request(method, path, content=content, headers=sent)
                self.cookies = asking.cookies
                return answer

        return asyncio.run(run())

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.ask("GET", f"/api/v1/{path}", headers={k.replace("_", "-"): v for k, v in headers.items()})

    def post(self, path: str, body: Any) -> httpx.Response:
        return self.ask("POST", f"/api/v1/{path}", body)

    def sign_in(self, name: str, password: str = PASSWORD, **more: Any) -> httpx.Response:
        answer = self.post("session", {"name": name, "password": password, **more})
        if answer.status_code == 200:
            self.word = answer.json()["csrf"]
        return answer

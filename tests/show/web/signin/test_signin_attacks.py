"""Ways around what somebody may: rights that are gone but still used, limits that are turned against others."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from fairlead.explain.questions.lake_queries import Run
from fairlead.explain.questions.question import Asking
from fairlead.run import setup_route as setup
from fairlead.run.config import Config
from fairlead.show.alerts import subscription_routes as subscribing
from fairlead.show.alerts.alert_settings import Alerts
from fairlead.show.web.api.app import build_api_app
from fairlead.show.web.api.live_stream import Board
from fairlead.show.web.api.settings import ApiSettings
from fairlead.show.web.guard.client_address import map_client_to_network
from fairlead.show.web.guard.sign_in_attempts import Attempts
from fairlead.show.web.identity import ACT, ADMIN, READ, Person, RefusedError, Role
from fairlead.show.web.people import accounts, credentials
from fairlead.show.web.people.store import FILE, Store
from fairlead.show.web.web_settings import Oidc
from fairlead.store.lake import Lake
from people_serving import HOUR, KEY, Site
from questions_site import build


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return build(tmp_path_factory.mktemp("attacks") / "lake")


@pytest.fixture
def site(tmp_path: Path, lake: Lake) -> Iterator[Site]:
    made = Site(tmp_path, lake)
    made.add("root", "admin")
    made.add("carol", "support")
    yield made
    made.close()


def test_a_link_shows_no_more_than_its_maker_sees_now(site: Site) -> None:
    root = site.signed_in("root")
    job = next(one for one in root.get("jobs").json()["jobs"] if one["project"])
    site.add("dave", projects=(job["project"],))
    held = [site.signed_in(name).post("links", {"job": job["job_id"]}).json()["token"] for name in ("dave", "carol")]

    def seen() -> list[int]:
        return [site.browser().get(f"jobs/{job['job_id']}", authorization=f"Bearer {one}").status_code for one in held]

    assert seen() == [200, 200]
    assert root.ask("PATCH", "/api/v1/accounts/dave", {"projects": []}).status_code == 200
    assert root.ask("PATCH", "/api/v1/accounts/carol", {"role": "user"}).status_code == 200
    assert seen() == [401, 401]
    assert root.ask("PATCH", "/api/v1/accounts/dave", {"projects": [job["project"]]}).status_code == 200
    assert seen() == [200, 401]


def test_a_file_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        accounts.add_account(store, "alice")
        secret, _ = credentials.create_link_credential(store, "alice", Run("c", "7", 1), HOUR)
    with sqlite3.connect(tmp_path / FILE) as base:
        for statement in ("ALTER TABLE link DROP COLUMN user", "ALTER TABLE link DROP COLUMN project"):
            base.execute(statement)
        base.execute("PRAGMA user_version = 1")
    base.close()
    with Store(tmp_path) as store:
        held = credentials.find_link_credential(store, secret)
        assert held is not None
        assert (held.run, held.user) == (Run("c", "7", 1), None)
        credentials.create_link_credential(store, "alice", Run("c", "8", 1), HOUR, user="alice")


def test_a_token_that_may_not_read_reads_nothing(site: Site) -> None:
    token = site.signed_in("carol").post("tokens", {"title": "acts", "scopes": ["act"]}).json()["token"]
    for path in ("jobs", "jobs/100", "live/jobs", "system"):
        assert site.browser().get(path, authorization=f"Bearer {token}").status_code == 403, path


def test_trying_welcome_keys_keeps_nobody_else_out(site: Site) -> None:
    root = site.signed_in("root")
    assert root.post("accounts", {"name": "erin"}).status_code == 201
    key = root.post("accounts/erin/welcome", {}).json()["url"].partition("#")[2]
    far = {"origin": "https://127.0.0.1:8572"}
    for number in range(40):
        site.browser(f"10.0.0.{number}", **far).post("session", {"welcome": f"flw_{number}"})
    assert site.browser("10.0.1.1", **far).post("session", {"welcome": key}).status_code == 200


def test_a_welcome_key_is_not_made_for_an_account_that_just_went(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    root = site.signed_in("root")
    assert root.post("accounts", {"name": "erin"}).status_code == 201
    known = accounts.get_account

    def gone_after(store: Store, name: str) -> accounts.Account:
        found = known(store, name)
        monkeypatch.setattr(accounts, "get_account", known)
        with Store(site.folder) as other:
            accounts.remove_account(other, name)
        return found

    monkeypatch.setattr(accounts, "get_account", gone_after)
    assert root.post("accounts/erin/welcome", {}).status_code == 404


def test_a_new_password_ends_welcome_keys_that_are_about(site: Site) -> None:
    root = site.signed_in("root")
    assert root.post("accounts", {"name": "erin"}).status_code == 201
    key = root.post("accounts/erin/welcome", {}).json()["url"].partition("#")[2]
    assert root.ask("PATCH", "/api/v1/accounts/erin", {"password": "another four words"}).status_code == 200
    assert site.browser().post("session", {"welcome": key}).status_code == 401


def test_what_is_followed_ends_with_the_role_though_as_much_is_seen() -> None:
    people: dict[str, Role] = {"now": "admin"}

    class Door:
        def identify_person(self, request: Request) -> Person:
            del request
            scopes = (READ, ACT, ADMIN) if people["now"] == "admin" else (READ, ACT)
            return Person(name="x", role=people["now"], key="session:1", scopes=scopes, how="session")

    async def run(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
        monkeypatch.setattr("fairlead.show.web.api.live_stream.AGAIN_S", 0.0)
        door = Door()
        request = Request({"type": "http", "headers": []})

        async def look() -> bytes:
            return b"{}"

        board = Board(door, 10, 10)
        response = board.follow(request, door.identify_person(request), "key", look, 1.0)
        heard: list[bytes] = []
        async for part in response.body_iterator:  # type: ignore[attr-defined]
            heard.append(bytes(part))
            people["now"] = "support"
            assert len(heard) < 20
        return heard

    with pytest.MonkeyPatch.context() as patched:
        assert len(asyncio.run(asyncio.wait_for(run(patched), 10))) < 20


def test_who_looks_is_part_of_what_is_followed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[Any] = []
    roles: list[Role] = ["admin", "support"]

    class Door:
        def identify_person(self, request: Request) -> Person:
            del request
            return Person(name="x", role=roles[len(keys)], key="session:1", how="session")

    def follow(self: Board, request: Request, person: Person, key: Any, *_: Any) -> Response:
        del self, request, person
        keys.append(key)
        return Response()

    monkeypatch.setattr(Board, "follow", follow)
    app = build_api_app(
        Asking(lake), ApiSettings(key=KEY, warm=False), door=Door(), followed={"runs": lambda _person, _rest: b"{}"}
    )

    async def ask() -> int:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return (await client.get("/api/v1/live/runs/1")).status_code

    assert [asyncio.run(ask()) for _ in roles] == [200, 200]
    assert keys[0] != keys[1]


def test_the_door_is_asked_in_the_loops_thread() -> None:
    threads: list[threading.Thread] = []

    class Door:
        def identify_person(self, request: Request) -> Person:
            del request
            threads.append(threading.current_thread())
            raise RefusedError(401, "nobody")

    (route,) = setup.build_setup_routes(Config(), Door(), lambda: 0)
    with pytest.raises(RefusedError):
        asyncio.run(route.endpoint(Request({"type": "http", "headers": []})))  # type: ignore[attr-defined]
    assert threads == [threading.main_thread()]


def test_a_token_that_only_reads_subscribes_nobody(tmp_path: Path) -> None:
    class Door:
        def identify_person(self, request: Request) -> Person:
            del request
            return Person(name="carol", role="support", key="token:1", how="token")

    routes = subscribing.build_subscription_routes(tmp_path, Alerts(), Door(), lambda: 0)
    app = Starlette(routes=routes)

    async def ask() -> list[int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            path = "/api/v1/alerts/subscriptions"
            answers = [
                await client.get(path),
                await client.post(path, json={"to": "a@b.c"}),
                await client.delete(path + "/1"),
            ]
            return [one.status_code for one in answers]

    assert asyncio.run(ask()) == [200, 403, 403]


def test_spellings_of_a_name_and_addresses_of_one_network_are_one_try() -> None:
    attempts = Attempts(lambda: 0.0)
    names = ("alice", "ALICE", "Alice", "\uff41lice", "alice ", "aLice")
    waits = [attempts.begin(name, f"2001:db8::{number}") for number, name in enumerate(names)]
    assert [wait > 0 for wait in waits] == [False] * 5 + [True]
    assert attempts.begin("alice", "2001:db8:0:1::1") == 0
    assert map_client_to_network("::ffff:10.1.2.3") == "10.1.2.3"
    assert map_client_to_network("unix") == "unix"


def test_answers_of_the_provider_nobody_asked_for_keep_nobody_out(tmp_path: Path, lake: Lake) -> None:
    pytest.importorskip("joserfc")
    oidc = Oidc(issuer="http://127.0.0.1:9", client_id="fairlead")
    site = Site(tmp_path, lake, origin="http://127.0.0.1:8572", oidc=oidc)
    callback = "signin/oidc/callback?code=1&state=2"
    ends = [site.browser().get(callback).headers["location"] for _ in range(8)]
    assert ends[-1] == "/signin?refused=wait"
    route = next(one for one in site.entrance.routes if getattr(one, "path", "").endswith("/callback"))
    sign_on = route.endpoint.__closure__[0].cell_contents.__self__  # type: ignore[attr-defined]
    kept = f"mark.{site.wall // 10**9}.%2F"
    cookie = f"fairlead-oidc={kept}.{sign_on._seal(kept)}"
    assert site.browser().get(callback, cookie=cookie).headers["location"] == "/signin?refused=forged"
    site.close()

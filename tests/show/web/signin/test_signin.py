"""Signing in with names and passwords, and what people hold then: every right is tried, and ways around it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fairlead.core.access.tokens import Claims, issue_token
from fairlead.show.web.people import accounts, audit, credentials
from fairlead.show.web.people.passwords import CrowdedError, Passwords
from fairlead.show.web.people.store import Store
from fairlead.show.web.web_settings import Header
from fairlead.store.lake import Lake
from people_serving import HOUR, KEY, PASSWORD, Browser, Site
from questions_site import NOW, S, build


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return build(tmp_path_factory.mktemp("signin") / "lake")


@pytest.fixture
def site(tmp_path: Path, lake: Lake) -> Iterator[Site]:
    made = Site(tmp_path, lake)
    made.add("root", "admin")
    made.add("alice")
    made.add("carol", "support")
    yield made
    made.close()


def changing(site: Site, **wanted: Any) -> None:
    """What the command does while the server runs."""
    with Store(site.folder) as store:
        accounts.change_account(store, wanted.pop("name"), **wanted)


# Signing in


def test_signing_in_gives_a_session_that_sees_ones_own_jobs(site: Site) -> None:
    browser = site.browser()
    assert browser.get("session").status_code == 401
    answer = browser.sign_in("alice")
    told = answer.json()
    assert (told["name"], told["role"], told["scopes"], told["how"]) == ("alice", "user", ["read", "act"], "session")
    kept = answer.headers["set-cookie"]
    assert kept.startswith("fairlead=fls_")
    assert "HttpOnly; SameSite=Lax" in kept
    again = browser.get("session").json()
    assert again["csrf"] == browser.word
    assert abs(again["expires_ns"] - NOW - 12 * HOUR) < 10 * S
    jobs = browser.get("jobs").json()["jobs"]
    assert {job["user"] for job in jobs} == {"alice"}
    assert len(site.signed_in("carol").get("jobs").json()["jobs"]) > len(jobs)
    assert browser.ask("DELETE", "/api/v1/session").status_code == 200
    assert browser.get("jobs").status_code == 401


def test_wrong_names_and_passwords_read_alike_and_are_noted_without_what_was_typed(site: Site) -> None:
    changing(site, name="carol", disabled=True)
    answers = [
        site.browser().sign_in("alice", "wrong words entirely"),
        site.browser().sign_in("nobody-of-ours"),
        site.browser().sign_in("carol", "wrong words entirely"),
        site.browser().sign_in("' OR 1=1 --"),
    ]
    assert {(one.status_code, one.text) for one in answers} == {(401, answers[0].text)}
    assert site.browser().sign_in("carol").status_code == 403
    with Store(site.folder) as store:
        lines = audit.list_audit_entries(store)
    assert [(one.who, one.done) for one in lines] == [
        ("carol", False),
        ("", False),
        ("carol", False),
        ("", False),
        ("alice", False),
    ]
    assert lines[-1].address == "127.0.0.1"
    assert "wrong" not in repr(lines)
    assert "nobody-of-ours" not in repr(lines)


def test_trying_passwords_is_slowed_down_even_at_once(site: Site) -> None:
    with ThreadPoolExecutor(8) as threads:
        answers = list(
            threads.map(lambda n: site.browser().sign_in("alice", f"guess number {n}").status_code, range(12))
        )
    assert sorted(answers) == [401] * 5 + [429] * 7
    refused = site.browser().sign_in("alice")
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert site.browser(address="10.1.1.1", origin="https://h").sign_in("alice").status_code == 200


def test_a_flood_of_sign_ins_cannot_take_the_memory() -> None:
    passwords = Passwords(8 << 20, 1)

    async def flood() -> list[Any]:
        return await asyncio.gather(*(passwords.check_in_thread(None, "x") for _ in range(100)), return_exceptions=True)

    found = asyncio.run(flood())
    assert found.count((False, None)) == 34
    assert sum(isinstance(one, CrowdedError) for one in found) == 66


def test_a_session_is_never_one_that_was_known_before(site: Site) -> None:
    browser = site.browser()
    browser.cookies.set("fairlead", "fls_planted", domain="127.0.0.1")
    first = browser.sign_in("alice").headers["set-cookie"].split(";")[0]
    assert "planted" not in first
    browser.cookies.clear()
    browser.cookies.set("fairlead", first.partition("=")[2], domain="127.0.0.1")
    second = browser.sign_in("alice").headers["set-cookie"].split(";")[0]
    assert second != first
    old = site.browser()
    old.cookies.set("fairlead", first.partition("=")[2])
    assert old.get("session").status_code == 401, "signing in again ends the one before"


def test_passwords_do_not_travel_unencrypted_and_cookies_are_the_transports(site: Site) -> None:
    assert site.browser("10.0.0.9", "http://server:8572").sign_in("alice").status_code == 403
    answer = site.browser("10.0.0.9", "https://server:8572").sign_in("alice")
    assert answer.headers["set-cookie"].startswith("__Host-fairlead=")
    assert answer.headers["set-cookie"].endswith("; Secure")
    assert "max-age" in answer.headers["strict-transport-security"]
    secret = answer.headers["set-cookie"].split(";")[0].partition("=")[2]
    for name, origin, status in (
        ("__Host-fairlead", "https://server:8572", 200),
        ("fairlead", "https://server:8572", 401),
        ("__Host-fairlead", "http://127.0.0.1:8572", 401),
    ):
        browser = site.browser("10.0.0.9", origin)
        assert browser.get("session", cookie=f"{name}={secret}").status_code == status


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b'{"name": 1}', 400),
        (b'{"nam": "x"}', 400),
        (b"{}", 400),
        (b"\xff", 400),
        (b'{"name": "a", "password": ""}', 400),
        (b'{"name": "a", "password": "' + b"x" * 20_000 + b'"}', 413),
        (b'{"name": "alice", "password": "x", "way": "header"}', 401),
        (b'{"welcome": "flw_x"}', 401),
        (b'{"name": "\\u0000", "password": "x"}', 401),
        (b'{"name": "\\ud800", "password": "x"}', 400),
    ],
)
def test_bodies_are_strict(site: Site, body: bytes, status: int) -> None:
    answer = site.browser().ask("POST", "/api/v1/session", body)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error", "remedy"}


def test_a_form_of_another_site_cannot_sign_in(site: Site) -> None:
    body = {"name": "alice", "password": PASSWORD}
    for headers in ({"content-type": "text/plain"}, {"origin": "https://evil"}, {"sec-fetch-site": "cross-site"}):
        assert site.browser().ask("POST", "/api/v1/session", body, headers).status_code in (400, 403)


# Being signed in


def test_sessions_survive_a_restart_and_end_in_time(site: Site) -> None:
    browser = site.signed_in("alice")
    site.close()
    site.open()
    assert browser.get("session").status_code == 200
    site.wall += 13 * HOUR
    assert browser.get("session").status_code == 401


def test_whoever_is_disabled_is_out_with_the_next_request(site: Site) -> None:
    browser, root = site.signed_in("alice"), site.signed_in("root")
    token = browser.post("tokens", {"title": "ci"}).json()["token"]
    link = browser.post("links", {"job": browser.get("jobs").json()["jobs"][0]["job_id"]}).json()["token"]
    for held in (token, link):
        assert site.browser().get("session", authorization=f"Bearer {held}").status_code == 200
    assert root.ask("PATCH", "/api/v1/accounts/alice", {"disabled": True}).status_code == 200
    assert browser.get("jobs").status_code == 401
    for held in (token, link):
        assert site.browser().get("jobs", authorization=f"Bearer {held}").status_code == 401
    changing(site, name="root", role="admin")
    carol = site.signed_in("carol")
    changing(site, name="carol", role="user")
    assert carol.get("session").json()["role"] == "user"


def test_looking_does_not_write_each_time(site: Site) -> None:
    browser = site.signed_in("alice")
    before = (site.folder / "people.sqlite-wal").stat()
    for _ in range(20):
        assert browser.get("session").status_code == 200
    after = (site.folder / "people.sqlite-wal").stat()
    assert (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)
    site.wall += 61 * S
    browser.get("session")
    site.close()
    with Store(site.folder) as store:
        [(seen,)] = store.select_rows("SELECT seen_ns FROM session")
        assert seen >= NOW + 61 * S
    site.open()


def test_a_welcome_address_lets_in_once_to_choose_a_password(site: Site) -> None:
    root = site.signed_in("root")
    assert root.post("accounts", {"name": "dave"}).status_code == 201
    key = root.post("accounts/dave/welcome", {}).json()["url"].partition("#")[2]
    dave = site.browser()
    dave.word = dave.post("session", {"welcome": key}).json()["csrf"]
    assert dave.get("session").json()["has_password"] is False
    assert site.browser().post("session", {"welcome": key}).status_code == 401
    assert dave.post("session/password", {"new": "short"}).status_code == 400
    assert dave.post("session/password", {"new": PASSWORD}).status_code == 200
    assert dave.get("session").status_code == 200
    other = site.signed_in("dave")
    assert other.post("session/password", {"new": PASSWORD + "!", "old": "not it"}).status_code == 403
    assert other.post("session/password", {"new": PASSWORD + "!", "old": PASSWORD}).status_code == 200
    assert dave.get("session").status_code == 401, "other sessions end"
    assert other.get("session").status_code == 200


# Tokens and links


def test_a_token_may_never_more_than_its_owner(site: Site) -> None:
    alice, root = site.signed_in("alice"), site.signed_in("root")
    assert alice.post("tokens", {"title": "x", "scopes": ["read", "admin"]}).status_code == 403
    assert alice.post("tokens", {"title": "x", "days": 4000}).status_code == 400
    reading = root.post("tokens", {"title": "look"}).json()["token"]
    session = site.browser().get("session", authorization=f"Bearer {reading}").json()
    assert (session["role"], session["scopes"]) == ("support", ["read"])
    assert site.browser().get("accounts", authorization=f"Bearer {reading}").status_code == 403
    full = root.post("tokens", {"title": "all", "scopes": ["admin", "read", "act"]}).json()["token"]
    bearer = {"authorization": f"Bearer {full}"}
    assert site.browser().ask("POST", "/api/v1/tokens", {"title": "child"}, bearer).status_code == 403
    assert site.browser().get("accounts", **bearer).status_code == 200
    with Store(site.folder) as store:
        accounts.add_account(store, "second", role="admin")
        accounts.change_account(store, "root", role="user")
    assert site.browser().get("accounts", **bearer).status_code == 403
    assert site.browser().get("session", **bearer).json()["scopes"] == ["read", "act"]


def test_tokens_are_ended_by_their_owner_or_an_administrator_alone(site: Site) -> None:
    alice, carol, root = site.signed_in("alice"), site.signed_in("carol"), site.signed_in("root")
    made = alice.post("tokens", {"title": "ci"}).json()
    path = f"/api/v1/tokens/{made['id']}"
    assert carol.ask("DELETE", path).status_code == 404
    assert carol.get("tokens").json()["tokens"] == []
    assert carol.get("tokens?all=true").status_code == 403
    assert [one["id"] for one in root.get("tokens?all=true").json()["tokens"]] == [made["id"]]
    assert "token" not in root.get("tokens?all=true").json()["tokens"][0]
    assert root.ask("DELETE", path).status_code == 200
    assert site.browser().get("jobs", authorization=f"Bearer {made['token']}").status_code == 401


def test_a_link_shows_one_run_and_nothing_else(site: Site) -> None:
    alice = site.signed_in("alice")
    mine = alice.get("jobs").json()["jobs"][0]["job_id"]
    others = [job for job in site.signed_in("root").get("jobs").json()["jobs"] if job["user"] != "alice"]
    made = alice.post("links", {"job": mine, "days": 1}).json()
    assert made["url"] == f"/shared#{made['token']}"
    bearer = {"authorization": f"Bearer {made['token']}"}
    told = site.browser().get("session", **bearer).json()
    assert (told["how"], told["scopes"], told["run"]["job"]) == ("link", ["read"], mine)
    assert site.browser().get(f"jobs/{mine}", **bearer).status_code == 200
    assert site.browser().get(f"jobs/{others[0]['job_id']}", **bearer).status_code in (403, 404)
    for path in ("links", "tokens", "accounts", "audit"):
        assert site.browser().get(path, **bearer).status_code == 403
    for path, body in (("links", {"job": mine}), ("tokens", {"title": "x"}), ("accounts", {"name": "x"})):
        assert site.browser().ask("POST", f"/api/v1/{path}", body, bearer).status_code == 403
    hidden = alice.post("links", {"job": others[0]["job_id"]})
    absent = alice.post("links", {"job": "999999"})
    assert (hidden.status_code, absent.status_code) == (404, 404)
    assert hidden.json()["error"].replace(others[0]["job_id"], "?") == absent.json()["error"].replace("999999", "?")
    assert alice.post("links", {"job": mine, "days": 31}).status_code == 400
    site.wall += 25 * HOUR
    assert site.browser().get(f"jobs/{mine}", **bearer).status_code == 401


def test_tokens_of_the_servers_key_stay_and_hold_nothing(site: Site) -> None:
    operator = issue_token(KEY, Claims(expires_s=NOW // S + 3600, role="operator", user=""))
    bearer = {"authorization": f"Bearer {operator}"}
    assert site.browser().get("accounts", **bearer).status_code == 200
    assert site.browser().ask("POST", "/api/v1/tokens", {"title": "x"}, bearer).status_code == 403
    assert site.browser().ask("POST", "/api/v1/links", {"job": "100"}, bearer).status_code == 403
    reader = issue_token(KEY, Claims(expires_s=NOW // S + 3600, role="reader", user="alice"))
    assert site.browser().get("session", authorization=f"Bearer {reader}").json()["role"] == "user"
    for junk in ("fla_", "flk_x", "fls_x", "x" * 9000, "fla_é"):
        assert site.browser().get("session", authorization=f"Bearer {junk}".encode("latin-1")).status_code == 401  # type: ignore[arg-type]


# Administrators


ADMIN_ONLY = [
    ("GET", "accounts", None),
    ("POST", "accounts", {"name": "mallory", "role": "admin"}),
    ("GET", "audit", None),
    ("PATCH", "accounts/alice", {"role": "admin"}),
    ("DELETE", "accounts/root", None),
    ("POST", "accounts/root/welcome", {}),
    ("GET", "links?all=true", None),
    ("GET", "tokens?all=true", None),
]


@pytest.mark.parametrize(("method", "path", "body"), ADMIN_ONLY)
def test_what_administrators_do_others_do_not_and_it_is_noted(site: Site, method: str, path: str, body: Any) -> None:
    for name in ("alice", "carol"):
        browser = site.signed_in(name)
        for _ in range(3):
            assert browser.ask(method, f"/api/v1/{path}", body).status_code == 403
    assert site.browser().ask(method, f"/api/v1/{path}", body).status_code == 401
    with Store(site.folder) as store:
        refused = sorted(one.who for one in audit.list_audit_entries(store) if not one.done)
        assert accounts.get_account(store, "alice").role == "user"
    assert refused == ["alice", "carol"], "once a minute each"


def test_administrators_see_to_accounts(site: Site) -> None:
    root = site.signed_in("root")
    made = root.post("accounts", {"name": "erin", "projects": ["p1"], "password": PASSWORD})
    assert made.status_code == 201
    assert root.post("accounts", {"name": "erin"}).status_code == 409
    assert root.post("accounts", {"name": "x", "way": "ldap", "password": PASSWORD}).status_code == 409
    assert root.post("accounts", {"name": "a b"}).status_code == 400
    assert root.ask("PATCH", "/api/v1/accounts/nobody", {"role": "user"}).status_code == 404
    assert root.ask("DELETE", "/api/v1/accounts/root").status_code == 409
    assert root.ask("PATCH", "/api/v1/accounts/root", {"role": "user"}).status_code == 409
    erin = site.signed_in("erin")
    assert erin.get("session").json()["projects"] == ["p1"]
    root.ask("PATCH", "/api/v1/accounts/erin", {"projects": [], "password": PASSWORD + "?"})
    assert erin.get("session").status_code == 401
    assert root.ask("DELETE", "/api/v1/accounts/erin").status_code == 200
    listed = root.get("accounts").json()["accounts"]
    assert [one["name"] for one in listed] == ["alice", "carol", "root"]
    assert "hash" not in repr(listed)
    page = root.get("audit?limit=2").json()
    more = root.get(f"audit?limit=2&before={page['next']}").json()
    assert page["entries"][0]["act"] == "remove account"
    assert more["entries"][0]["number"] == page["entries"][1]["number"] - 1
    for wrong in ("limit=0", "limit=x", "before=-1", "nonsense=1", "limit=1&limit=2"):
        assert root.get(f"audit?{wrong}").status_code == 400


# The portal's header


@pytest.fixture
def portal(tmp_path: Path, lake: Lake) -> Iterator[Site]:
    (tmp_path / "secret").write_text("portal secret\n")
    (tmp_path / "secret").chmod(0o600)
    header = Header(
        name="X-User",
        groups="X-Groups",
        roles={"ops": "support"},
        project_prefix="p-",
        domain="x.org",
        secret_file=str(tmp_path / "secret"),
    )
    made = Site(tmp_path / "state", lake, proxies=["10.0.0.1"], header=header, origin="https://io.example.org")
    made.add("root", "admin")
    yield made
    made.close()


def named(browser: Browser, **headers: str) -> Any:
    return browser.get("session", **{"x_fairlead_portal": "portal secret", **headers})


def test_a_portal_names_people_and_nobody_else_does(portal: Site) -> None:
    origin = "https://io.example.org"
    trusted = portal.browser("10.0.0.1", origin)
    told = named(trusted, x_user="alice@x.org", x_groups="ops, p-climate").json()
    assert (told["name"], told["role"], told["projects"], told["how"]) == ("alice", "support", ["climate"], "header")
    for browser in (portal.browser("10.0.0.2", origin), portal.browser("127.0.0.1"), portal.browser("unix")):
        assert named(browser, x_user="alice").status_code == 401
    assert trusted.get("session", x_user="alice").status_code == 403, "without the secret"
    assert named(portal.browser("10.0.0.1", "https://evil.example"), x_user="alice").status_code == 403
    for name in ("", "a b", "link:1", "a/../b"):
        assert named(trusted, x_user=name).status_code == 403
    assert named(trusted, x_user="root").status_code == 403, "a local account's name"
    portal.close()
    with Store(portal.folder) as store:
        assert accounts.get_account(store, "alice").way == "header"
        accounts.change_account(store, "alice", disabled=True)
    portal.open()
    assert named(trusted, x_user="alice").status_code == 403


def test_behind_a_portal_links_can_be_made_with_the_pages_word(portal: Site) -> None:
    browser = portal.browser("10.0.0.1", "https://io.example.org")
    headers = {"x-user": "alice", "x-fairlead-portal": "portal secret"}
    assert browser.ask("POST", "/api/v1/links", {"job": "100"}, headers).status_code == 403
    browser.word = browser.ask("GET", "/api/v1/session", headers=headers).json()["csrf"]
    assert browser.ask("POST", "/api/v1/links", {"job": "100"}, headers).status_code == 201
    with Store(portal.folder, wall=lambda: NOW) as store:
        assert [one.owner for one in credentials.list_link_credentials(store, None)] == ["alice"]

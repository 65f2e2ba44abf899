"""What every request passes: where it is from, forged ones, too many, and headers of the answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairlead.core.errors import ConfigError
from fairlead.show.web.guard.client_address import Places, find_client_cookie
from fairlead.show.web.guard.csrf import NoForgery, derive_csrf_token, derive_portal_csrf_token
from fairlead.show.web.guard.headers import CONTENT_POLICY, SafeHeaders
from fairlead.show.web.guard.rate_limit import Budget, Budgets
from fairlead.show.web.guard.sign_in_attempts import FREE, Attempts
from fairlead.show.web.signin.single_sign_on import clean_sign_on_path
from fairlead.show.web.web_settings import Header, Ldap, Oidc, Web, check_web_settings

KEY = b"k" * 32


def scope(
    method: str = "GET",
    path: str = "/api/v1/jobs",
    client: str | None = "127.0.0.1",
    scheme: str = "http",
    **headers: str,
) -> dict[str, Any]:
    given = {"host": "127.0.0.1:8572", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return {
        "type": "http",
        "method": method,
        "path": path,
        "scheme": scheme,
        "query_string": b"",
        "client": (client, 1) if client else None,
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }


def passed(guard: Any, asked: dict[str, Any]) -> tuple[int, dict[str, str]]:
    """Status and headers of the answer of what stands behind a guard (200), or of its refusal."""
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(guard(asked, None, send))
    return sent[0]["status"], {k.decode(): v.decode() for k, v in sent[0]["headers"]}


async def behind(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


def test_a_proxy_is_believed_only_when_it_is_named() -> None:
    told = {"x_forwarded_for": "6.6.6.6, 9.9.9.9, 10.0.0.2"}
    nobody, named = Places(Web()), Places(Web(proxies=["10.0.0.0/8"], origin="https://io.example.org"))
    assert nobody.find_place(scope(client="10.0.0.1", **told)).address == "10.0.0.1"
    place = named.find_place(scope(client="10.0.0.1", **told))
    assert (place.address, place.secure, place.by_proxy) == ("9.9.9.9", True, True)
    assert place.cookie == "__Host-fairlead"
    other = named.find_place(scope(client="11.0.0.1", **told))
    assert (other.address, other.secure, other.by_proxy, other.private) == ("11.0.0.1", False, False, False)
    assert named.find_place(scope(client="10.0.0.1", x_forwarded_for="rubbish")).address == "10.0.0.1"
    unix = Places(Web(proxies=["unix"]))
    assert unix.find_place(scope(client=None)).by_proxy
    assert not named.find_place(scope(client=None)).by_proxy
    assert nobody.find_place(scope(client="::ffff:127.0.0.1")).here


def test_a_cookie_given_twice_is_nobodys() -> None:
    assert find_client_cookie(scope(cookie="fairlead=a; x=1"), "fairlead") == "a"
    assert find_client_cookie(scope(cookie="fairlead=a; fairlead=b"), "fairlead") is None
    assert find_client_cookie(scope(cookie="xfairlead=a"), "fairlead") is None


FORGED = [
    ({}, 403),
    ({"x_csrf_token": "wrong"}, 403),
    ({"x_csrf_token": derive_csrf_token("b")}, 403),
    ({"x_csrf_token": derive_csrf_token("a")}, 200),
    ({"x_csrf_token": derive_csrf_token("a"), "origin": "https://evil.example"}, 403),
    ({"x_csrf_token": derive_csrf_token("a"), "origin": "null"}, 403),
    (
        {"x_csrf_token": derive_csrf_token("a"), "origin": "http://127.0.0.1:8572", "sec_fetch_site": "same-origin"},
        200,
    ),
    ({"x_csrf_token": derive_csrf_token("a"), "sec_fetch_site": "cross-site"}, 403),
    ({"x_csrf_token": derive_csrf_token("a"), "sec_fetch_site": "same-site"}, 403),
    ({"authorization": "Bearer fla_x"}, 200),
    ({"authorization": "Bearer fla_x", "origin": "https://evil"}, 403),
]


@pytest.mark.parametrize("method", ["POST", "DELETE", "PATCH", "PUT"])
@pytest.mark.parametrize(("headers", "status"), FORGED)
def test_what_changes_something_needs_the_pages_word(method: str, headers: dict[str, str], status: int) -> None:
    guard = NoForgery(behind, Places(Web()), key=KEY)
    assert passed(guard, scope(method, cookie="fairlead=a", **headers))[0] == status
    assert passed(guard, scope("GET", cookie="fairlead=a"))[0] == 200


def test_signing_in_needs_no_word_but_this_origin() -> None:
    guard = NoForgery(behind, Places(Web()), key=KEY)
    asked = {"path": "/api/v1/session", "cookie": "fairlead=stale"}
    assert passed(guard, scope("POST", **asked))[0] == 200
    assert passed(guard, scope("DELETE", **asked))[0] == 403
    assert passed(guard, scope("POST", origin="https://evil.example", **asked))[0] == 403


def test_behind_a_portal_the_word_is_of_the_name() -> None:
    places = Places(Web(proxies=["10.0.0.1"]))
    guard = NoForgery(behind, places, key=KEY, portal="X-User")
    asked = {"client": "10.0.0.1", "x_user": "alice"}
    assert passed(guard, scope("POST", **asked))[0] == 403
    assert passed(guard, scope("POST", x_csrf_token=derive_portal_csrf_token(KEY, "bob"), **asked))[0] == 403
    assert passed(guard, scope("POST", x_csrf_token=derive_portal_csrf_token(KEY, "alice"), **asked))[0] == 200


def test_every_answer_says_what_a_page_may_load() -> None:
    guard = SafeHeaders(behind, Places(Web()), portal=True)
    _, headers = passed(guard, scope())
    assert headers["content-security-policy"] == CONTENT_POLICY
    assert "unsafe" not in CONTENT_POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["vary"] == "Cookie"
    assert "strict-transport-security" not in headers
    assert "strict-transport-security" in passed(guard, scope(scheme="https"))[1]

    async def kept(scope: Any, receive: Any, send: Any) -> None:
        given = [(b"cache-control", b"private, max-age=60"), (b"content-security-policy", b"default-src 'self'")]
        await send({"type": "http.response.start", "status": 200, "headers": given})

    _, headers = passed(SafeHeaders(kept, Places(Web()), portal=True), scope())
    assert headers["cache-control"] == "private, no-cache"
    assert headers["content-security-policy"] == "default-src 'self'"


def test_a_budget_is_whole_again_after_a_minute() -> None:
    now = [0.0]
    budgets = Budgets(3, lambda: now[0])
    assert [budgets.wait_s("a") for _ in range(3)] == [0.0] * 3
    assert budgets.wait_s("a") == pytest.approx(20)
    assert budgets.wait_s("b") == 0
    now[0] = 60
    assert [budgets.wait_s("a") for _ in range(3)] == [0.0] * 3
    assert all(Budgets(0).wait_s("a") == 0 for _ in range(1000))


def test_sixty_viewers_behind_one_address_are_no_flood_and_junk_tokens_are() -> None:
    web = Web()
    guard = Budget(
        behind, Places(web), each=web.requests_per_minute, address=web.address_requests_per_minute, steady_s=lambda: 0.0
    )
    for viewer in range(60):
        for _ in range(60):
            assert passed(guard, scope(cookie=f"fairlead={viewer}"))[0] == 200
    few = Budget(behind, Places(web), each=10, address=50, steady_s=lambda: 0.0)
    answers = [passed(few, scope(authorization=f"Bearer {number}"))[0] for number in range(60)]
    assert answers == [200] * 50 + [429] * 10
    assert passed(few, scope(client=None))[0] == 200


def test_attempts_wait_longer_and_longer() -> None:
    now = [0.0]
    attempts = Attempts(lambda: now[0])
    assert [attempts.begin("alice", "1.1.1.1") for _ in range(FREE["both"])] == [0.0] * 5
    waits = []
    for _ in range(12):
        waits.append(attempts.begin("alice", "1.1.1.1"))
        now[0] += waits[-1]
        assert attempts.begin("alice", "1.1.1.1") == 0
    assert waits[:4] == [1, 2, 4, 8]
    assert max(waits) == 900
    assert attempts.begin("alice", "2.2.2.2") == 0, "others do not lock alice out at once"
    assert attempts.begin("bob", "1.1.1.1") == 0
    attempts.record_success("alice", "1.1.1.1")
    assert attempts.begin("alice", "1.1.1.1") == 0


def test_one_address_cannot_go_through_all_names_nor_all_addresses_through_one() -> None:
    attempts = Attempts(lambda: 0.0)
    assert sum(attempts.begin(f"name{number}", "1.1.1.1") == 0 for number in range(500)) == FREE["address"]
    assert sum(attempts.begin("alice", f"2.2.2.{number}") == 0 for number in range(200)) == FREE["name"]


@pytest.mark.parametrize(
    "target", ["//evil", "/\\evil", "https://evil", "javascript:1", "", "/a\r\nb", "/api/v1/x", "/é"]
)
def test_where_one_goes_after_signing_in_is_here(target: str) -> None:
    assert clean_sign_on_path(target) == "/"
    assert clean_sign_on_path("/jobs/1.2?from=3") == "/jobs/1.2?from=3"


@pytest.mark.parametrize(
    "web",
    [
        Web(origin="http://far.example.org"),
        Web(origin="https://a/b"),
        Web(proxies=["nonsense"]),
        Web(header=Header(name="X-User")),
        Web(header=Header(name="X User"), proxies=["10.0.0.1"]),
        Web(ldap=Ldap(url="ldap://far", user="uid={name}", start_tls=False)),
        Web(ldap=Ldap(url="ldaps://far")),
        Web(ldap=Ldap(url="ldaps://far", user="uid=name")),
        Web(ldap=Ldap(url="http://far", user="uid={name}")),
        Web(oidc=Oidc(issuer="https://far", client_id="x")),
        Web(oidc=Oidc(issuer="https://far"), origin="https://a"),
        Web(oidc=Oidc(issuer="http://far", client_id="x"), origin="https://a"),
        Web(idle_h=10, longest_h=5),
        Web(hash_memory_bytes=1000),
    ],
)
def test_settings_that_would_be_unsafe_are_refused(web: Web) -> None:
    with pytest.raises(ConfigError):
        check_web_settings(web)

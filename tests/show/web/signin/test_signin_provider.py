"""Signing in through a real OpenID provider; and ID tokens, answers and addresses that an attacker would make."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import openid_server
from fairlead.core.clock import now_ns
from fairlead.show.web.people import accounts, audit
from fairlead.show.web.people.store import Store
from fairlead.show.web.signin.id_token import ForgedError, UnknownKeyError, check_id_token
from fairlead.show.web.web_settings import Oidc
from fairlead.store.lake import Lake
from people_serving import Browser, Site
from questions_site import build

ORIGIN = "http://127.0.0.1:8572"
BACK = f"{ORIGIN}/api/v1/signin/oidc/callback"


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openid_server.OpenIdProvider]:
    wrong = openid_server.installed()
    if wrong:
        pytest.skip(wrong)
    made = openid_server.OpenIdProvider(tmp_path_factory.mktemp("provider"), BACK)
    yield made
    made.close()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return build(tmp_path_factory.mktemp("lake") / "lake")


@pytest.fixture
def site(tmp_path: Path, lake: Lake, provider: openid_server.OpenIdProvider) -> Iterator[Site]:
    oidc = Oidc(
        issuer=provider.issuer,
        client_id="fairlead",
        client_secret_file=str(provider.secret),
        roles={"ops": "admin", "help": "support"},
        projects={"g-climate": "climate"},
        domain="example.org",
    )
    made = Site(tmp_path, lake, oidc=oidc, origin=ORIGIN)
    made.wall = now_ns()  # the provider has a clock of its own
    made.add("root", "admin")
    yield made
    made.close()


def begun(browser: Browser, target: str = "/jobs/1.2") -> str:
    """Where a browser is sent to sign in."""
    answer = browser.ask("GET", f"/api/v1/signin/oidc?next={target}")
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def came_back(browser: Browser, address: str) -> str:
    """Where a browser that comes back is sent to."""
    answer = browser.ask("GET", address.removeprefix(ORIGIN))
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def test_who_signs_in_there_is_let_in_here(site: Site, provider: openid_server.OpenIdProvider) -> None:
    browser = site.browser()
    asked = begun(browser)
    words = parse_qs(urlsplit(asked).query)
    assert words["code_challenge_method"] == ["S256"]
    assert words["redirect_uri"] == [BACK]
    assert "next" not in words
    back = provider.signed_in(asked, "s1~alice@example.org~help,g-climate")
    thief = site.browser()
    thief.cookies.update(browser.cookies)
    assert came_back(browser, back) == "/jobs/1.2"
    told = browser.get("session").json()
    assert (told["name"], told["role"], told["projects"]) == ("alice", "support", ["climate"])
    assert browser.get("jobs").status_code == 200
    # the same answer again: in the same browser, in another, and in one that kept its cookie
    for other in (browser, site.browser(), thief):
        assert came_back(other, back) == "/signin?refused=forged"
    # groups are looked at each time
    site.close()
    with Store(site.folder) as store:
        accounts.change_account(store, "alice", role="admin", projects=[])
    site.open()
    again = site.browser()
    assert came_back(again, provider.signed_in(begun(again), "s1~alice@example.org~help,g-climate")) == "/jobs/1.2"
    assert again.get("session").json()["role"] == "support"


def test_an_answer_is_worth_nothing_in_another_browser(site: Site, provider: openid_server.OpenIdProvider) -> None:
    attacker, victim = site.browser(), site.browser()
    back = provider.signed_in(begun(attacker), "s9~mallory~")
    begun(victim)
    assert came_back(victim, back) == "/signin?refused=forged"
    assert victim.get("session").status_code == 401
    late = site.browser()
    back = provider.signed_in(begun(late), "s9~mallory~")
    site.wall += 11 * 60 * 10**9
    assert came_back(late, back) == "/signin?refused=forged"
    site.close()
    with Store(site.folder) as store:
        assert [one.name for one in accounts.list_accounts(store)] == ["root"]
        assert len([one for one in audit.list_audit_entries(store) if not one.done]) == 2
    site.open()


@pytest.mark.parametrize("change", ["iss=http%3A%2F%2Fevil", "state=x", "code=stolen", "error=access_denied"])
def test_answers_that_were_changed_let_nobody_in(
    site: Site, provider: openid_server.OpenIdProvider, change: str
) -> None:
    browser = site.browser()
    name, _, value = change.partition("=")
    place, _, query = provider.signed_in(begun(browser), "s1~alice~").partition("?")
    parts = [one for one in query.split("&") if not one.startswith((f"{name}=", "code=" if name == "error" else "\0"))]
    assert came_back(browser, f"{place}?{'&'.join([*parts, f'{name}={value}'])}").startswith("/signin?refused=")
    assert browser.get("session").status_code == 401


def test_the_provider_gives_nobody_a_name_of_somebody_else(site: Site, provider: openid_server.OpenIdProvider) -> None:
    for who, target in (
        ("s1~alice~", "/"),
        ("s2~alice~ops", "/signin?refused=account"),
        ("s3~root~ops", "/signin?refused=account"),
        ("s4~a b~", "/signin?refused=account"),
        ("s5~~", "/signin?refused=provider"),
    ):
        browser = site.browser()
        assert came_back(browser, provider.signed_in(begun(browser, "//evil.example"), who)) == target
    changed = site.browser()
    with Store(site.folder) as store:
        accounts.change_account(store, "alice", disabled=True)
    assert came_back(changed, provider.signed_in(begun(changed), "s1~alice~")) == "/signin?refused=account"


def test_a_provider_that_is_not_there_or_calls_itself_otherwise(
    tmp_path: Path, lake: Lake, provider: openid_server.OpenIdProvider
) -> None:
    for issuer in ("http://127.0.0.1:1", provider.issuer.replace("127.0.0.1", "localhost")):
        oidc = Oidc(issuer=issuer, client_id="fairlead", client_secret_file=str(provider.secret), timeout_s=5)
        site = Site(tmp_path, lake, oidc=oidc, origin=ORIGIN)
        assert site.browser().ask("GET", "/api/v1/signin/oidc").status_code == 503
        assert site.browser("10.0.0.9", "http://elsewhere").ask("GET", "/api/v1/signin/oidc").status_code == 403
        site.close()


# ID tokens

NOW_S = 1_800_000_000
GOOD = {"iss": "https://idp", "aud": "fairlead", "sub": "s1", "nonce": "n", "iat": NOW_S, "exp": NOW_S + 60}
EXPECTED: dict[str, Any] = {"issuer": "https://idp", "client": "fairlead", "nonce": "n", "now_s": NOW_S}


@pytest.fixture(scope="module")
def keys() -> tuple[Any, dict[str, Any]]:
    from joserfc.jwk import ECKey

    key = ECKey.generate_key("P-256", {"kid": "k1", "use": "sig"})
    return key, {"keys": [key.as_dict(private=False)]}


def signed(key: Any, claims: dict[str, Any], alg: str = "ES256", **header: Any) -> str:
    from joserfc import jwt

    return jwt.encode({"alg": alg, "kid": "k1", **header}, claims, key, algorithms=[alg])


def test_a_good_id_token_is_taken(keys: tuple[Any, dict[str, Any]]) -> None:
    key, public = keys
    assert check_id_token(signed(key, GOOD), public, **EXPECTED)["sub"] == "s1"
    several = {**GOOD, "aud": ["fairlead", "other"], "azp": "fairlead"}
    assert check_id_token(signed(key, several), public, **EXPECTED)["sub"] == "s1"


@pytest.mark.parametrize(
    "change",
    [
        {"iss": "https://evil"},
        {"iss": "https://idp/"},
        {"aud": "other"},
        {"aud": ["fairlead", "other"]},
        {"aud": None},
        {"azp": "other"},
        {"nonce": "m"},
        {"nonce": None},
        {"sub": ""},
        {"sub": 7},
        {"exp": NOW_S - 200},
        {"exp": None},
        {"exp": "9999999999"},
        {"exp": True},
        {"iat": NOW_S + 500},
        {"iat": NOW_S - 7200},
        {"nbf": NOW_S + 500},
    ],
    ids=repr,
)
def test_claims_that_are_not_for_us_are_refused(keys: tuple[Any, dict[str, Any]], change: dict[str, Any]) -> None:
    key, public = keys
    claims = {name: value for name, value in {**GOOD, **change}.items() if value is not None}
    with pytest.raises(ForgedError):
        check_id_token(signed(key, claims), public, **EXPECTED)


def test_signatures_that_are_not_the_providers_are_refused(keys: tuple[Any, dict[str, Any]]) -> None:
    import base64

    import msgspec
    from joserfc.jwk import ECKey, OctKey

    key, public = keys
    good = signed(key, GOOD)
    head, body, signature = good.split(".")

    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(value)).rstrip(b"=").decode()

    foreign = ECKey.generate_key("P-256", {"kid": "k1"})
    shared = OctKey.import_key(msgspec.json.encode(public["keys"][0]), {"kid": "k1"})
    listed = {"keys": [*public["keys"], shared.as_dict(private=True)]}
    forged = [
        f"{part({'alg': 'none'})}.{body}.",
        f"{part({'alg': 'none', 'kid': 'k1'})}.{body}.{signature}",
        f"{head}.{part({**GOOD, 'sub': 's2'})}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}",
        "",
        "a.b.c",
        signed(foreign, GOOD),
        signed(foreign, GOOD, jwk=foreign.as_dict(private=False)),
    ]
    for text in forged:
        with pytest.raises(ForgedError):
            check_id_token(text, listed, **EXPECTED)
    with pytest.raises(ForgedError):
        check_id_token(signed(shared, GOOD, "HS256"), listed, **EXPECTED)
    with pytest.raises(UnknownKeyError):
        check_id_token(signed(key, GOOD, kid="k2"), public, **EXPECTED)
    with pytest.raises(ForgedError):
        check_id_token(good, {}, **EXPECTED)

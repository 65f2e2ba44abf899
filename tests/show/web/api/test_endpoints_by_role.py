"""Who may do what over HTTP, by trying: every operation that is no question, by everybody, about things of alice's.

An operation without a row here fails. Questions are tried in test_rights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from fairlead.explain.questions.question_catalog import QUESTIONS
from fairlead.explain.questions.visible_lake import DECISIONS, MACHINE, RUN
from fairlead.show.web.api.app import list_api_operations
from whole_site import PASSWORD, Caller, Whole

HERS = "f00000000100"
DAY_NS = 86400 * 10**9
WHO = ("nobody", "link", "alice", "bob", "carol", "root", "alice:read", "root:read", "root:act", "root:admin")
"""Sessions by name, API tokens with the widest of their scopes, a link to alice's job 100."""
ANY = "200 200 200 200 200 200 200 200 200 200"
IN = "401 403 200 200 200 200 200 200 200 200"
STAFF = "401 403 403 403 200 200 403 200 200 200"
ADMINS = "401 403 403 403 403 200 403 403 403 200"
OWN = "401 403 200 404 404 200 403 403 404 200"
"""Ends something of alice's: she, and administrators."""


@dataclass(frozen=True)
class Row:
    """What is asked (`path` and `body` are made for each caller) and what everybody is answered."""

    told: str
    path: Callable[[Whole], str]
    body: Any = None


def _at(path: str) -> Callable[[Whole], str]:
    return lambda _: path


def _made(kind: str, body: Any) -> Callable[[Whole], str]:
    """The path of something alice has just made."""
    return lambda whole: f"{kind}/{whole.signed_in('alice').ask('POST', kind, body).json['id']}"


def _account(more: str = "") -> Callable[[Whole], str]:
    def path(whole: Whole) -> str:
        root = whole.signed_in("root")
        root.ask("DELETE", "accounts/fritz")
        assert root.ask("POST", "accounts", {"name": "fritz"}).status == 201
        return f"accounts/fritz{more}"

    return path


def _no_account(whole: Whole) -> str:
    whole.signed_in("root").ask("DELETE", "accounts/fritz")
    return "accounts"


def _free(whole: Whole) -> str:
    whole.signed_in("root").ask("DELETE", f"findings/{HERS}/acknowledgement")
    return f"findings/{HERS}/acknowledgement"


def _taken(whole: Whole) -> str:
    path = _free(whole)
    assert whole.signed_in("alice").ask("POST", path, {"text": "mine"}).status == 200
    return path


SILENCE = {"match": {"component": "OST0"}, "for": "1h", "why": "disk ordered"}
WISH = {"to": "alice@site.org", "user": "alice"}


def _silence(whole: Whole) -> str:
    return f"silences/{whole.signed_in('root').ask('POST', 'silences', SILENCE).json['silences'][-1]['id']}"


def _subscription(whole: Whole) -> str:
    made = whole.signed_in("alice").ask("POST", "alerts/subscriptions", WISH)
    return f"alerts/subscriptions/{made.json['subscriptions'][0]['id']}"


REPLAY = {"since": "2024-06-01", "until": "2024-06-02", "policies": ["static-map"]}


def _queue(whole: Whole) -> str:
    for run in whole.signed_in("root").ask("GET", "whatif").json["runs"]:
        whole.signed_in("root").ask("DELETE", f"whatif/{run['id']}")
    return "whatif"


def _run(whole: Whole) -> str:
    """A run of carol's."""
    made = whole.signed_in("carol").ask("POST", _queue(whole), REPLAY)
    assert made.status == 202, made.body
    return f"whatif/{made.json['id']}"


RUN_OF_CAROL = "401 403 403 403 200 200 403 403 404 200"
JOB = "401 200 200 404 200 200 200 200 200 200"
ROWS = {
    "GET signin": Row(ANY, _at("signin")),
    "GET ping": Row(ANY, _at("ping")),
    "GET openapi.json": Row(ANY, _at("openapi.json")),
    "POST session": Row(ANY, _at("session"), {"name": "alice", "password": PASSWORD}),
    "GET session": Row("401 200 200 200 200 200 200 200 200 200", _at("session")),
    "DELETE session": Row(ANY, _at("session")),
    "POST session/password": Row(
        "401 403 200 200 200 200 403 403 403 403", _at("session/password"), {"new": PASSWORD, "old": PASSWORD}
    ),
    "GET links": Row(IN, _at("links")),
    "POST links": Row("401 403 201 404 201 201 403 403 201 201", _at("links"), {"job": "100"}),
    "DELETE links/{id}": Row(OWN, _made("links", {"job": "100"})),
    "GET tokens": Row(IN, _at("tokens")),
    "POST tokens": Row("401 403 201 201 201 201 403 403 403 403", _at("tokens"), {"title": "t"}),
    "DELETE tokens/{id}": Row(OWN, _made("tokens", {"title": "t"})),
    "GET accounts": Row(ADMINS, _at("accounts")),
    "POST accounts": Row(ADMINS.replace("200", "201"), _no_account, {"name": "fritz"}),
    "PATCH accounts/{name}": Row(ADMINS, _account(), {"role": "support"}),
    "DELETE accounts/{name}": Row(ADMINS, _account()),
    "POST accounts/{name}/welcome": Row(ADMINS.replace("200", "201"), _account("/welcome")),
    "GET audit": Row(ADMINS, _at("audit")),
    "GET acknowledgements": Row("401 200 200 200 200 200 200 200 200 200", _at("acknowledgements")),
    "POST findings/{name}/acknowledgement": Row("401 403 200 404 200 200 403 403 200 200", _free, {"text": "seen"}),
    "DELETE findings/{name}/acknowledgement": Row("401 403 200 404 200 200 403 403 200 200", _taken),
    "GET silences": Row(STAFF, _at("silences")),
    "POST silences": Row("401 403 403 403 200 200 403 403 200 200", _at("silences"), SILENCE),
    "DELETE silences/{name}": Row("401 403 403 403 200 200 403 403 200 200", _silence),
    "GET alerts/subscriptions": Row(IN, _at("alerts/subscriptions")),
    "POST alerts/subscriptions": Row("401 403 200 403 200 200 403 403 200 200", _at("alerts/subscriptions"), WISH),
    "DELETE alerts/subscriptions/{name}": Row("401 403 200 404 200 200 403 403 200 200", _subscription),
    "GET jobs/{name}/export.csv": Row(JOB, _at("jobs/100/export.csv")),
    "GET jobs/{name}/export.html": Row(JOB, _at("jobs/100/export.html")),
    "GET setup": Row(STAFF, _at("setup")),
    "GET server": Row(STAFF, _at("server?sources=none")),
    "GET whatif": Row("401 403 403 403 200 200 403 403 200 200", _at("whatif")),
    "POST whatif": Row("401 403 403 403 202 202 403 403 202 202", _queue, REPLAY),
    "GET whatif/policies": Row("401 403 403 403 200 200 403 403 200 200", _at("whatif/policies")),
    "GET whatif/{name}": Row(RUN_OF_CAROL, _run),
    "DELETE whatif/{name}": Row(RUN_OF_CAROL, _run),
    "GET live/whatif/{name}": Row(RUN_OF_CAROL, lambda whole: f"live/{_run(whole)}"),
    "GET live/{path}": Row("401 200 200 200 200 200 200 200 200 200", _at("live/jobs/100/timeline")),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    made = Whole(tmp_path_factory.mktemp("roles"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def held(whole: Whole) -> dict[str, Caller]:
    """Those whose rights last: tokens and a link."""
    scopes = {"read": ("read",), "act": ("read", "act"), "admin": ("read", "act", "admin")}
    made = {who: whole.with_token(who.split(":")[0], *scopes[who.split(":")[1]]) for who in WHO if ":" in who}
    return {**made, "link": whole.with_link("alice", "100"), "nobody": whole.caller()}


def test_every_operation_has_a_row(whole: Whole) -> None:
    paths = {question.path for question in QUESTIONS.values()} | {"mds/{name}"}
    there = {f"{one.method} {one.path}" for one in list_api_operations(whole.made.described) if one.path not in paths}
    assert there == set(ROWS)


@pytest.mark.parametrize("operation", sorted(ROWS))
def test_what_everybody_is_answered(whole: Whole, held: dict[str, Caller], operation: str) -> None:
    row, method = ROWS[operation], operation.partition(" ")[0]
    answered = []
    for who in WHO:
        path = row.path(whole)
        caller = held.get(who) or whole.signed_in(who)
        answered.append(caller.ask(method, path, row.body).status)
    told = dict(zip(WHO, answered, strict=True))
    if operation == "GET live/{path}":  # the stream begins; what is foreign is refused in it
        assert b"event: refused" in whole.signed_in("bob").ask(method, row.path(whole)).body
    assert told == dict(zip(WHO, map(int, row.told.split()), strict=True))


@pytest.mark.parametrize("operation", sorted(name for name in ROWS if not name.startswith("GET")))
def test_a_cookie_alone_changes_nothing(whole: Whole, operation: str) -> None:
    """Without the page's word, with a wrong one, and from another site's page."""
    row, method = ROWS[operation], operation.partition(" ")[0]
    path = row.path(whole)
    root = whole.signed_in("root")
    cookie = {"cookie": root.headers["cookie"]}
    if operation != "POST session":  # that proves itself
        for word in ({}, {"x-csrf-token": "0" * 40}):
            answer = Caller(whole, {**cookie, **word}).ask(method, path, row.body)
            assert (answer.status, "X-CSRF-Token" in answer.json["error"]) == (403, True)
    for foreign in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert root.ask(method, path, row.body, foreign).status == 403


def test_questions_by_role(whole: Whole, held: dict[str, Caller]) -> None:
    """Nobody is told anything; a link the run; a user not what is of the machine; nothing is changed by asking."""
    alice, carol = whole.signed_in("alice"), whole.signed_in("carol")
    names = {
        "finding": HERS,
        "node": "n1",
        "target": "OST0",
        "forwarder": "f1",
        "top": "jobs",
        "layer": "target",
        "layer_hours": "target",
        "layer_cdf": "target",
        "layer_waits": "target",
        "layer_component": "target",
    }
    for question, about in QUESTIONS.items():
        path = about.path.replace("{name}", names.get(question, "100"))
        path += "?id=OST0" if question == "layer_component" else ""
        assert whole.caller().ask("GET", path).status == 401, question
        decided = DECISIONS[question]
        assert held["link"].ask("GET", path).status == (200 if decided == RUN else 403), question
        assert alice.ask("GET", path).status == (403 if decided == MACHINE else 200), question
        assert carol.ask("GET", path).status == 200, question
        assert alice.ask("POST", path, {}).status == 405, question
        live = whole.caller().ask("GET", f"live/{path}")
        assert live.status == 401, question
        if decided == MACHINE:
            assert b"event: refused" in alice.ask("GET", f"live/{path}").body, question


def test_lists_tell_nothing_of_others(whole: Whole, held: dict[str, Caller]) -> None:
    link = _made("links", {"job": "100"})(whole).partition("/")[2]
    token = _made("tokens", {"title": "alices own"})(whole).partition("/")[2]
    _subscription(whole)
    _taken(whole)
    _run(whole)
    lists = ("links", "tokens", "alerts/subscriptions", "acknowledgements")
    everything = "".join(whole.signed_in("alice").ask("GET", path).body.decode() for path in lists)
    assert all(word in everything for word in (link, token, "alice@site.org", HERS))
    bob = "".join(whole.signed_in("bob").ask("GET", path).body.decode() for path in lists)
    assert not [word for word in (link, token, "alice", HERS) if word in bob]
    assert held["link"].ask("GET", "acknowledgements").json["acknowledgements"] == []
    assert held["root:act"].ask("GET", "whatif").json["runs"] == []
    assert whole.signed_in("root").ask("GET", "links?all=true").json["links"]
    for who in ("alice", "carol"):
        assert whole.signed_in(who).ask("GET", "links?all=true").status == 403
    assert held["root:act"].ask("GET", "tokens?all=true").status == 403


def test_what_has_ended_opens_nothing(whole: Whole) -> None:
    """A session signed out, an account disabled, a link over: at once, and for what streams too."""
    out = whole.signed_in("alice")
    assert out.ask("GET", "live/jobs/100").status == 200
    out.ask("DELETE", "session")
    for path in ("jobs", "live/jobs/100", "links", "jobs/100/export.csv"):
        assert out.ask("GET", path).status == 401, path
    root = whole.signed_in("root")
    root.ask("POST", "accounts", {"name": "gast", "projects": ["climate"], "password": PASSWORD})
    guest, token = whole.signed_in("gast"), whole.with_token("gast", "read")
    link = whole.with_link("gast", "100")
    assert [one.ask("GET", "jobs/100").status for one in (guest, token, link)] == [200, 200, 200]
    root.ask("PATCH", "accounts/gast", {"disabled": True})
    for path in ("jobs/100", "live/jobs/100", "jobs/100/export.html", "acknowledgements"):
        assert [one.ask("GET", path).status for one in (guest, token, link)] == [401, 401, 401], path
    brief, hers = whole.with_link("alice", "100", days=0.5), whole.with_token("alice", "read")
    assert brief.ask("GET", "jobs/100").status == 200
    whole.wall += DAY_NS
    try:
        assert brief.ask("GET", "jobs/100").status == 401
        assert hers.ask("GET", "jobs/100").status == 200
        whole.wall -= 2 * DAY_NS  # a clock that is set back revives nothing
        assert brief.ask("GET", "jobs/100").status == 401
    finally:
        whole.wall += DAY_NS

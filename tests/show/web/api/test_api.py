"""The API as a server would run it: tokens, parameters, limits, caching; and attacks on it."""

from __future__ import annotations

import asyncio
import gzip
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec
import pytest

from fairlead.core.access.tokens import Claims, issue_token
from fairlead.explain.questions.question_catalog import QUESTIONS, Asking
from fairlead.show.web.api.app import build_api_app
from fairlead.show.web.api.settings import ApiSettings
from fairlead.store.lake import Lake
from questions_site import NOW, S, build
from waiting import PATIENCE_S

KEY = b"k" * 32
FUTURE_S = NOW // S + 3600


def token(role: str = "operator", user: str = "", *, key: bytes = KEY, expires_s: int = FUTURE_S) -> str:
    return issue_token(key, Claims(expires_s=expires_s, role=role, user=user))


class Answered(msgspec.Struct):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


async def _get(app: Any, path: str, headers: dict[str, str], method: str) -> Answered:
    place, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(place),
        "raw_path": place.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    sent: list[dict[str, Any]] = []
    gone = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if not gone.is_set():
            gone.set()
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = next(m for m in sent if m["type"] == "http.response.start")
    body = b"".join(m.get("body", b"") for m in sent if m["type"] == "http.response.body")
    return Answered(start["status"], {k.decode(): v.decode() for k, v in start["headers"]}, body)


class Api:
    """Asks an application; every call is an event loop of its own unless several are given at once."""

    def __init__(self, lake: Any, **settings: Any) -> None:
        self._asking = Asking(lake)
        self._settings = ApiSettings(**{"key": KEY, "warm": False, **settings})
        self.app = build_api_app(self._asking, self._settings, clock=lambda: NOW)

    def get(self, path: str, token: str | None = None, method: str = "GET", **headers: str) -> Answered:
        [answer] = self.at_once([(path, token)], method=method, **headers)
        return answer

    def at_once(self, asked: list[tuple[str, str | None]], method: str = "GET", **headers: str) -> list[Answered]:
        async def run() -> list[Answered]:
            calls = []
            for path, held in asked:
                given = {name.replace("_", "-"): value for name, value in headers.items()}
                if held is not None:
                    given["authorization"] = f"Bearer {held}"
                calls.append(_get(self.app, f"/api/v1/{path}" if not path.startswith("/") else path, given, method))
            return list(await asyncio.gather(*calls))

        return asyncio.run(run())


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return build(tmp_path_factory.mktemp("api") / "lake")


@pytest.fixture
def api(lake: Lake) -> Api:
    return Api(lake)


def path_of(question: str, name: str) -> str:
    return QUESTIONS[question].path.replace("{name}", quote(name, safe=""))


NAMES = {
    "job": "100",
    "why": "100",
    "finding": "abcdef123456",
    "node": "n1",
    "target": "OST0",
    "forwarder": "f1",
    "top": "users",
    "job_timeline": "100",
    "job_ranks": "100",
    "job_files": "100",
    "job_requests": "100",
    "job_efficiency": "100",
    "layer": "target",
    "layer_hours": "forwarder",
    "layer_cdf": "target",
    "layer_waits": "forwarder",
    "layer_component": "target",
}


@pytest.mark.parametrize("question", list(QUESTIONS))
def test_every_question_is_served_as_its_struct(api: Api, question: str) -> None:
    words = "?id=OST0" if question == "layer_component" else ""
    answer = api.get(path_of(question, NAMES.get(question, "")) + words, token())
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/json"
    decoded = msgspec.json.decode(answer.body, type=QUESTIONS[question].answer)
    assert decoded.schema.startswith("fairlead.")


def test_a_metadata_target_by_name(api: Api) -> None:
    assert api.get("mds/MDT2?last=5m", token()).json["per_s"] == 1200.0


# -- who ---------------------------------------------------------------------------------------------------------------


def test_without_a_valid_token_nothing_is_told(api: Api) -> None:
    for held, status in (
        (None, 401),
        ("", 401),
        ("x.y", 401),
        (token(key=b"z" * 32), 401),
        (token(expires_s=NOW // S - 1), 401),
        (token() + "x", 401),
        ("é" * 20, 401),
        ("A" * 10_000, 401),
        (token(role="agent"), 403),
        (token(role=""), 403),
        (token(role="admin"), 403),
    ):
        answer = api.get("jobs", held)
        assert answer.status == status, held
        assert set(answer.json) == {"error", "remedy"}
        assert answer.headers["cache-control"] == "no-store"
        assert (held or "nothing") not in answer.body.decode() or len(held or "") < 4
    assert api.get("jobs", authorization="Basic YTpi").status == 401


def test_what_needs_no_token(api: Api) -> None:
    assert api.get("ping").json["now_ns"] == NOW


def test_a_reader_of_one_user_sees_no_other(api: Api) -> None:
    alice = token("reader", "alice")
    for question in QUESTIONS:
        body = api.get(path_of(question, NAMES.get(question, "")), alice).body.decode()
        for other in ("bob", "carol", "fusion", "gkua", '"101"'):
            assert other not in body, question
    assert api.get("jobs/101", alice).status == 404
    assert api.get("jobs/101", token("reader", "bob")).status == 200
    assert api.get("jobs/101", token("reader")).status == 200
    assert api.get("jobs?user=bob", alice).json["jobs"] == []
    assert api.get("jobs?node=n3", alice).json["jobs"] == []
    assert api.get("system", alice).status == 403
    assert "support" in api.get("health", alice).json["error"]
    assert api.get("nodes/n3", alice).status == api.get("nodes/n99", alice).status == 404
    hidden, absent = api.get("jobs/101", alice).json, api.get("jobs/999", alice).json
    assert hidden["error"].replace("101", "?") == absent["error"].replace("999", "?")


def test_an_operator_of_a_user_is_still_an_operator(api: Api) -> None:
    assert len(api.get("jobs", token("operator", "alice")).json["jobs"]) == 2


# -- what --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "jobs?limit=0",
        "jobs?limit=99999",
        "jobs?limit=ten",
        "jobs?sort=user;drop",
        "jobs?nonsense=1",
        "jobs?last=5x",
        "jobs?last=5m&last=5m",
        "jobs?from=now&to=-1h",
        "jobs?last=900d",
        "jobs?from=0000000000",
        "top/nodes",
        "jobs/100?points=100000",
        "forwarders/heatmap?last=90d",
        "forwarders/heatmap?peak=-1",
        "targets/cdf?peak=nan",
        "targets/cdf?peak=1e999",
        "jobs?user=" + "x" * 300,
        "jobs?user=" + "x" * 5000,
        "nodes/" + "x" * 300,
        "jobs?at=now&to=now",
        "health?all=perhaps",
    ],
)
def test_wrong_parameters_are_400_with_a_reason(api: Api, path: str) -> None:
    answer = api.get(path, token())
    assert answer.status == 400, answer.body
    assert len(answer.json["error"]) > 8


@pytest.mark.parametrize(
    "name",
    [
        "' OR '1'='1",
        '"; DROP TABLE jobs; --',
        "$kind",
        "a\x00b",
        "..",
        "../../../../etc/passwd",
        "%2e%2e%2f",
        "{name}",
        "read_parquet('/etc/passwd')",
        "🦆",
        "\x1b[2J",
    ],
)
def test_names_are_data(api: Api, name: str) -> None:
    for question in ("job", "node", "target", "forwarder"):
        answer = api.get(path_of(question, name), token())
        assert answer.status == 404, answer.body
        assert b"root:" not in answer.body
    answer = api.get(f"jobs?user={quote(name)}", token())
    assert answer.status == 200
    assert answer.json["jobs"] == []


@pytest.mark.parametrize(
    "path", ["/", "/etc/passwd", "/api/v1", "/api/v1/nothing", "/api/v1/../../etc/passwd", "/api/v2/jobs"]
)
def test_there_are_no_other_pages(api: Api, path: str) -> None:
    answer = api.get(path, token())
    assert answer.status == 404
    assert "error" in answer.json


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed(api: Api, method: str) -> None:
    assert api.get("jobs", token(), method=method).status == 405


def test_an_unknown_job_names_the_likes_of_it(api: Api) -> None:
    answer = api.get("jobs/10", token())
    assert answer.status == 404
    assert "100" in answer.json["remedy"]


# -- caching, size -----------------------------------------------------------------------------------------------------


def test_an_answer_that_has_not_changed_is_304(api: Api) -> None:
    first = api.get("jobs", token())
    again = api.get("jobs", token(), if_none_match=f'"x", W/{first.headers["etag"]}')
    assert (again.status, again.body) == (304, b"")
    assert api.get("jobs", token(), if_none_match='"x"').status == 200
    assert first.headers["cache-control"] == "private, max-age=1"
    assert api.get("jobs?to=-3h", token()).headers["cache-control"] == "private, max-age=60"


def test_large_answers_are_compressed_when_asked(api: Api) -> None:
    plain = api.get("jobs/100", token())
    packed = api.get("jobs/100", token(), accept_encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < len(plain.body) / 4


# -- limits ------------------------------------------------------------------------------------------------------------


class Slow:
    """A lake whose queries wait until they are let go."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self.go = threading.Event()
        self.entered = threading.Semaphore(0)

    def query(self, sql: str, parameters: Any = None, *, tables: Any = None) -> Any:
        self.entered.release()
        assert self.go.wait(PATIENCE_S)
        return self._lake.query(sql, parameters, tables=tables)


def test_one_reader_cannot_take_all_places_and_too_many_are_refused(lake: Lake) -> None:
    slow = Slow(lake)
    api = Api(slow, at_once=2, waiting=2, user_at_once=1, user_waiting=1, answer_s=30.0, wait_s=0.2)
    greedy = [("jobs", token())] * 3
    others = [("jobs", token("reader", f"u{k}")) for k in range(3)]
    threading.Timer(1.0, slow.go.set).start()
    statuses = [answer.status for answer in api.at_once([*greedy, *others])]
    # One place for the greedy one, its second waits in vain, its third is refused; another has the second place, one
    # waits in vain, one finds the queue full.
    assert sorted(statuses[:3]) == [200, 429, 503]
    assert sorted(statuses[3:]) == [200, 429, 503]
    slow.go.set()
    assert api.get("jobs", token()).status == 200


def test_a_page_may_ask_all_it_needs_at_once(lake: Lake) -> None:
    api = Api(lake, at_once=2, user_at_once=2)
    assert {answer.status for answer in api.at_once([("jobs", token())] * 24)} == {200}


def test_a_question_that_takes_too_long_is_given_up_and_frees_its_place(lake: Lake) -> None:
    slow = Slow(lake)
    api = Api(slow, at_once=1, answer_s=0.1, wait_s=0.1)

    async def ask_twice() -> list[int]:
        headers = {"authorization": f"Bearer {token()}"}
        late = await _get(api.app, "/api/v1/jobs", headers, "GET")
        busy = await _get(api.app, "/api/v1/jobs", headers, "GET")
        slow.go.set()
        for _ in range(400):
            answer = await _get(api.app, "/api/v1/ping", {}, "GET")
            assert answer.status == 200, "what needs no lake is served all along"
            last = await _get(api.app, "/api/v1/health", headers, "GET")
            if last.status == 200:
                return [late.status, busy.status, last.status]
            await asyncio.sleep(0.05)
        raise AssertionError("the place never came free")

    assert asyncio.run(ask_twice()) == [503, 503, 200]


def test_the_longest_span_can_be_limited(lake: Lake) -> None:
    api = Api(lake, longest_days=7)
    assert api.get("jobs?last=8d", token()).status == 400
    assert api.get("jobs?last=6d", token()).status == 200


def test_a_lake_that_fails_is_503_without_its_paths(tmp_path: Path) -> None:
    from fairlead.core.errors import LakeError

    class Broken:
        def query(self, *_: object, **__: object) -> Any:
            raise LakeError("a file cannot be read", where="/secret/place")

    answer = Api(Broken()).get("jobs", token())
    assert answer.status == 503
    assert b"secret" not in answer.body


def test_what_is_dear_is_asked_once_at_the_start(lake: Lake) -> None:
    class Counting:
        def __init__(self) -> None:
            self.asked = threading.Semaphore(0)

        def query(self, sql: str, parameters: Any = None) -> Any:
            self.asked.release()
            return lake.query(sql, parameters)

    counting = Counting()
    Api(counting, warm=True)
    assert counting.asked.acquire(timeout=PATIENCE_S)

"""The pages' questions over HTTP and from the command line's asker: the same documents, typed, refused alike."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from fairlead.cli.ask import Asker
from fairlead.core.access.tokens import Claims, issue_token
from fairlead.explain.questions.catalog_pages import PAGE_QUESTIONS
from fairlead.explain.questions.question_catalog import Asking
from fairlead.show.web.api.app import build_api_app
from fairlead.show.web.api.settings import ApiSettings
from questions_site import NOW, S, build

KEY = b"k" * 32
OF_A_JOB = ("job_timeline", "job_ranks", "job_files", "job_requests")
OF_A_LAYER = ("layer", "layer_hours", "layer_cdf", "layer_waits")
NAMELESS = ("mine", "now", "volumes")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("http") / "lake"
    build(folder)
    return folder


class Client:
    """Asks an application without a socket."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def get(self, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                return await client.get(path, headers=headers)

        return asyncio.run(asked())


@pytest.fixture(scope="module")
def client(root: Path) -> Client:
    from fairlead.store.lake import Lake

    app = build_api_app(Asking(Lake.open(root)), ApiSettings(key=KEY, warm=False), clock=lambda: NOW)
    return Client(app)


def bearer(role: str = "operator", user: str = "") -> dict[str, str]:
    word = issue_token(KEY, Claims(expires_s=NOW // S + 3600, role=role, user=user))
    return {"Authorization": f"Bearer {word}"}


def path_of(question: str, name: str) -> str:
    return "/api/v1/" + PAGE_QUESTIONS[question].path.replace("{name}", name)


ASKED = [*((q, "100") for q in OF_A_JOB), *((q, "target") for q in OF_A_LAYER), *((q, "") for q in NAMELESS)]


@pytest.mark.parametrize(("question", "name"), ASKED)
def test_each_is_answered_in_its_shape(client: Client, question: str, name: str) -> None:
    reply = client.get(path_of(question, name), headers=bearer())
    assert reply.status_code == 200, reply.text
    answer = msgspec.json.decode(reply.content, type=PAGE_QUESTIONS[question].answer, strict=True)
    assert answer.schema.startswith("fairlead.")
    assert client.get(path_of(question, name)).status_code == 401


@pytest.mark.parametrize(("question", "name"), ASKED)
def test_a_stranger_gets_nothing_of_it(client: Client, question: str, name: str) -> None:
    reply = client.get(path_of(question, name), headers=bearer("reader", "eve"))
    own = question in ("mine", "layer", "layer_hours", "layer_waits")
    assert reply.status_code == (404 if question in OF_A_JOB else 200 if own else 403)
    assert not any(word in reply.text for word in ("alice", "wrf", "OST0", "bob"))


@pytest.mark.parametrize(
    "path",
    [
        "jobs/100/ranks?rows=0",
        "jobs/100/ranks?by=moon",
        "jobs/100/files?sort=size",
        "jobs/100/timeline?points=9",
        "layers/moon",
        "layers/target/waits?sort=id",
        "now?last=1h",
        "mine?limit=1000",
    ],
)
def test_wrong_words_are_refused_with_a_remedy(client: Client, path: str) -> None:
    reply = client.get(f"/api/v1/{path}", headers=bearer())
    assert reply.status_code == 400
    assert reply.json()["remedy"]


def test_an_asker_gets_the_same_struct_from_a_lake(root: Path) -> None:
    asker = Asker(root, None, None)
    answer = asker.ask("job_ranks", "100", by="node")
    assert isinstance(answer, PAGE_QUESTIONS["job_ranks"].answer)
    assert [row.name for row in answer.rows] == ["n1", "n2"]  # type: ignore[attr-defined]

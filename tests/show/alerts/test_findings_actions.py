"""Acknowledgements and silences over HTTP: by role, by guessing, killed, and agreeing with the command line."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from starlette.requests import Request

from fairlead.cli.main import cli
from fairlead.core.errors import UsageError
from fairlead.core.model.finding import Evidence, Finding, Subject
from fairlead.core.model.finding_incident_rows import StoredFinding, build_finding_rows, build_incident_rows
from fairlead.core.model.identity import compute_short_identity
from fairlead.core.model.incident import Incident
from fairlead.explain.questions.question import Asking
from fairlead.show.alerts import alert_routes as served
from fairlead.show.alerts.alert_settings import Alerts
from fairlead.show.alerts.state import State
from fairlead.show.web.api.app import build_api_app
from fairlead.show.web.api.settings import ApiSettings
from fairlead.show.web.identity import Person, RefusedError
from fairlead.store.lake import Lake

H = 3600 * 10**9
NOW = 1_700_000_000 * 10**9
SPAN = "from=2023-11-14T00:00:00Z&to=2023-11-15T00:00:00Z"
SICK = compute_short_identity("component.degraded", "c", "target", "ost3", "i1")
PEOPLE = {
    "root": Person(name="root", role="admin", key="r", scopes=("read", "act", "admin"), how="session"),
    "sue": Person(name="sue", role="support", key="s", scopes=("read", "act"), how="session"),
    "viewer": Person(name="viewer", role="support", key="v", scopes=("read",), how="token"),
    "alice": Person(name="alice", role="user", key="a", scopes=("read", "act"), how="session"),
    "bob": Person(name="bob", role="user", key="b", scopes=("read", "act"), how="session"),
}


class ByHeader:
    """Believes who one says one is."""

    def identify_person(self, request: Request) -> Person:
        if request.headers.get("who") not in PEOPLE:
            raise RefusedError(401, "not signed in")
        return PEOPLE[request.headers["who"]]


def told(
    name: str, job: str | None, user: str | None, rule: str = "job.interference", severity: Any = "high"
) -> StoredFinding:
    subject = Subject("job", job) if job else Subject("target", "ost3")
    finding = Finding(
        id=name,
        rule=rule,
        title=f"{subject.kind} {subject.id} lost 300 s to job 77",
        subject=subject,
        from_ns=NOW - H,
        to_ns=NOW,
        severity=severity,
        confidence=0.9,
        category="n_to_1",
        evidence=[Evidence(text="waits grew 11x")],
        cost_s=300.0,
        analysis_version="1",
    )
    return StoredFinding(finding=finding, cluster="c", job_id=job, user=user)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A server's folder: a lake with findings and an incident."""
    folder = tmp_path_factory.mktemp("server")
    lake = Lake.open(folder / "lake", create=True)
    sick = Incident(
        id="i1",
        layer="target",
        component="ost3",
        from_ns=NOW - 2 * H,
        to_ns=None,
        kind="degraded",
        share_of_peak=0.2,
        hint="fail_slow",
        confidence=0.9,
        jobs=["42"],
    )
    with lake.open_writer("found") as writer:
        batch = writer.open_batch("x")
        batch.add(
            build_finding_rows(
                [
                    told("fa", "42", "alice"),
                    told("fb", "77", "bob", severity="warning"),
                    told(SICK, None, None, "component.degraded", "critical"),
                ],
                NOW,
            )
        )
        batch.add(build_incident_rows([sick], NOW))
        batch.commit()
    (folder / "server.toml").write_text(f'[server]\nlake = "{folder / "lake"}"\nstate = "{folder / "state"}"\n')
    return folder


class Site:
    """The application over that folder, asked as somebody."""

    def __init__(self, root: Path) -> None:
        self.root, self.noted = root, []  # type: ignore[var-annotated]

        async def noted(_: Request, who: str, act: str, what: str) -> None:
            self.noted.append((who, act, what))

        lake = Lake.open(root / "lake")
        asking = Asking(lake, acknowledged=served.read_acknowledged_alert_ids(root / "state"))
        more = served.build_alert_routes(root / "state", Alerts(), lake, ByHeader(), lambda: NOW + H, noted)
        self.app = build_api_app(
            asking,
            ApiSettings(key=None, warm=False),
            clock=lambda: NOW + H,
            door=ByHeader(),
            more=more,
            described=served.OPERATIONS,
        )

    def send(self, who: str, method: str, path: str, **given: Any) -> httpx.Response:
        async def go() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://site") as client:
                headers = {"who": who, "content-type": "application/json"}
                return await client.request(method, f"/api/v1/{path}", headers=headers, **given)

        return asyncio.run(go())

    def ask(self, who: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        answer = self.send(who, method, path, **({} if body is None else {"json": body}))
        return answer.status_code, answer.json()

    def taken(self, who: str) -> dict[str, Any]:
        return {one["id"]: one for one in self.ask(who, "GET", f"acknowledgements?{SPAN}")[1]["acknowledgements"]}


@pytest.fixture
def site(root: Path) -> Site:
    """With nothing acknowledged and nothing silent."""
    for file in (root / "state").glob("*"):
        file.unlink()
    return Site(root)


def ack(name: str) -> str:
    return f"findings/{name}/acknowledgement"


def test_who_may_take_on_what(site: Site) -> None:
    note = {"text": " disk ordered "}
    assert site.ask("root", "POST", ack("fa"), note)[1]["acknowledgements"][0]["text"] == "disk ordered"
    assert site.ask("alice", "POST", ack("fa"), note)[0] == 409, "an operator has"
    assert site.ask("alice", "DELETE", ack("fa"))[0] == 409
    assert site.ask("sue", "DELETE", ack("fa"))[0] == 200
    assert site.ask("sue", "DELETE", ack("fa"))[0] == 404, "nobody has any more"
    assert site.ask("alice", "POST", ack("fa"), note)[0] == 200
    assert site.ask("viewer", "POST", ack("fa"), note)[0] == 403, "a token that may only read"
    assert site.ask("nobody", "POST", ack("fa"), note)[0] == 401
    assert site.noted == [
        ("root", "acknowledge", "fa"),
        ("sue", "acknowledge no more", "fa"),
        ("alice", "acknowledge", "fa"),
    ]


def test_foreign_is_as_unknown_as_what_is_not_there(site: Site) -> None:
    said = [
        site.ask("alice", method, ack(name), {"text": "x"})
        for method in ("POST", "DELETE")
        for name in ("fb", "f", "nothing", SICK, "i1", "%00", "x" * 300)
    ]
    assert {(status, body["error"]) for status, body in said} == {(404, said[0][1]["error"])}
    assert site.taken("root") == {}


def test_a_user_hears_nothing_of_others(site: Site) -> None:
    for name in ("fa", "fb", "i1"):
        assert site.ask("root", "POST", ack(name), {"text": "bob broke it"})[0] == 200
    assert set(site.taken("root")) == {"fa", "fb", "i1", SICK}, "an incident and its finding are one"
    (mine,) = site.taken("alice").values()
    assert (mine["id"], mine["who"], mine["text"], mine["site"]) == ("fa", None, None, True)
    assert site.ask("alice", "GET", "acknowledgements?id=fb")[1]["acknowledgements"] == []


def test_findings_are_narrowed_by_it_and_by_words(site: Site) -> None:
    site.ask("root", "POST", ack("fa"), {"text": "x"})

    def names(who: str, more: str) -> set[str]:
        return {one["finding"]["id"] for one in site.ask(who, "GET", f"findings?{SPAN}&{more}")[1]["findings"]}

    assert names("root", "acknowledged=yes") == {"fa"}
    assert names("root", "acknowledged=no") == {"fb", SICK}
    assert names("root", "text=LOST 300") == {"fa", "fb", SICK}
    assert names("root", "text=ost3") == {SICK}
    assert names("alice", "text=job 77") == set(), "titles name others: a user's words are not looked for there"
    found = site.ask("root", "GET", f"findings?{SPAN}&severity=high")[1]
    assert found["by_severity"] == {"critical": 1, "high": 1, "warning": 1}
    assert found["by_rule"] == {"component.degraded": 1, "job.interference": 1}
    assert found["total"] == 2


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b"{}"),
        (400, b"[]"),
        (400, b""),
        (400, b'{"text": 1}'),
        (400, b'{"text": ""}'),
        (400, b'{"text": "  "}'),
        (400, b'{"text": "x", "who": "root"}'),
        (400, b'{"text": "\xff"}'),
        (400, b'{"text": "\\ud800"}'),
        (400, b'{"text": "' + b"x" * 2001 + b'"}'),
        (413, b'{"text": "' + b"x" * 20_000 + b'"}'),
    ],
    ids=["empty", "list", "nothing", "number", "none", "blank", "more", "bytes", "half", "long", "large"],
)
def test_bodies_are_strict(site: Site, status: int, body: bytes) -> None:
    answer = site.send("root", "POST", ack("fa"), content=body)
    assert (answer.status_code, set(answer.json())) == (status, {"error", "remedy"})


@pytest.mark.parametrize("query", ["from=x", "last=9y", "who=root", "id=1&id=2", f"id={'x' * 300}", "last=-1d"])
def test_parameters_are_strict(site: Site, query: str) -> None:
    assert site.ask("root", "GET", f"acknowledgements?{query}")[0] == 400


def test_silences_are_for_operators_and_the_same_as_the_command_lines(site: Site, root: Path) -> None:
    wish = {"match": {"component": "ost3"}, "for": "3d", "why": "disk ordered"}
    assert site.ask("alice", "POST", "silences", wish)[0] == 403
    assert site.ask("alice", "GET", "silences")[0] == 403
    assert site.ask("viewer", "POST", "silences", wish)[0] == 403
    status, made = site.ask("sue", "POST", "silences", wish)
    assert (status, made["silences"][0]["who"]) == (200, "sue")
    args = ["alert", "silence", "--match", "rule=component.*", "--for", "1000d", "--why", "x"]
    config = ["--config", str(root / "server.toml")]
    assert CliRunner().invoke(cli, [*args, *config]).exit_code == 0
    _, both = site.ask("viewer", "GET", "silences")
    assert [one["match"] for one in both["silences"]] == [{"component": "ost3"}, {"rule": "component.*"}]
    name = both["silences"][0]["id"]
    assert CliRunner().invoke(cli, ["alert", "unsilence", name, *config]).exit_code == 0
    assert site.ask("root", "DELETE", f"silences/{name}")[0] == 404
    assert site.ask("root", "DELETE", f"silences/{both['silences'][1]['id']}")[0] == 200
    assert site.ask("root", "GET", "silences")[1]["silences"] == []
    assert site.ask("root", "POST", "silences", {**wish, "more": 1})[0] == 400
    assert site.ask("root", "POST", "silences", {**wish, "for": "soon"})[0] == 400


def test_the_command_line_takes_on_what_no_alert_told_of(site: Site, root: Path) -> None:
    config = ["--config", str(root / "server.toml")]
    site.ask("root", "GET", "silences")  # the state is there
    assert CliRunner().invoke(cli, ["alert", "ack", "fa", "--why", "on it", *config]).exit_code == 0
    assert site.taken("root")["fa"]["text"] == "on it"
    assert isinstance(CliRunner().invoke(cli, ["alert", "ack", "nothing", "--why", "x", *config]).exception, UsageError)
    assert CliRunner().invoke(cli, ["alert", "ack", "fa", "--undo", *config]).exit_code == 0
    assert site.taken("root") == {}


_KILLED = """
import os, signal, sys
from pathlib import Path
from fairlead.show.alerts.acknowledgement_routes import Note, record_acknowledgement
from fairlead.show.alerts.state import State
from fairlead.store.lake import Lake
from fairlead.show.web.identity import Person
root = Path(sys.argv[1])
record_acknowledgement(State(root / "state"), Lake.open(root / "lake"), "fa", Note(text="kept"),
        Person(name="root", role="admin", key="r"), 1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_answered_survives_a_kill(site: Site, root: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, str(root)], check=False, env=dict(os.environ))
    assert done.returncode == -signal.SIGKILL
    with State(root / "state") as state:
        assert state.find_acknowledged("fa").why == "kept"  # type: ignore[union-attr]


def test_everything_served_is_described(site: Site) -> None:
    paths = site.ask("root", "GET", "openapi.json")[1]["paths"]
    said = {(path.removeprefix("/api/v1/"), method.upper()) for path, one in paths.items() for method in one}
    assert {(one.path, one.method) for one in served.OPERATIONS} <= said

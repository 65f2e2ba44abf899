"""What is connected and what is not: from settings and a lake, which may be missing, empty or broken."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from starlette.applications import Starlette
from starlette.requests import Request

from diagnosed_lake import fill
from fairlead.cli.main import cli
from fairlead.explain.questions.answers_setup import Setup
from fairlead.explain.questions.setup import LakeSeen, ServerSettings, TableActivity, list_setup_steps
from fairlead.explain.questions.setup_facts import inspect_lake_setup
from fairlead.kit.testing.machine import scenes
from fairlead.run import setup_route as served
from fairlead.run.config import load_config, resolve_config
from fairlead.show.web.identity import Person, RefusedError
from fairlead.store.lake import Lake

NOW = 1_717_200_200_000_000_000
DOCS = Path(__file__).parents[2] / "docs"


def parts(answer: Setup) -> dict[str, str]:
    return {part.key: part.state for part in answer.parts}


def every_answer() -> list[Setup]:
    """Answers in which each part is once in each state."""
    full = LakeSeen(
        there=True,
        bytes=10,
        first_ns=1,
        tables=dict.fromkeys(("ops", "jobs", "port"), TableActivity(last_ns=NOW, senders=3)),
        nodes=2,
        nodes_ok=1,
        node_last_ns=NOW,
        analysed_ns=NOW,
    )
    settings = ServerSettings(version="1", collector=["tcp:0.0.0.0:1"], site=True, alert_routes=1, ways=["portal"])
    return [
        list_setup_steps(settings, full, NOW),
        list_setup_steps(ServerSettings(version="1", analysis=False), LakeSeen(), NOW),
        list_setup_steps(ServerSettings(version="1"), LakeSeen(there=True, trouble="broken"), NOW),
    ]


def test_what_is_missing_has_a_command_and_all_have_a_page() -> None:
    for answer in every_answer():
        assert answer.connected + answer.quiet + answer.missing == len(answer.parts)
        for part in answer.parts:
            assert part.state != "not" or part.command, part.key
            assert (DOCS / f"{part.docs}.md").is_file() or part.docs == "howto/sign-in", part.docs


def test_commands_exist() -> None:
    words = {tuple(part.command.split()[1:3]) for answer in every_answer() for part in answer.parts if part.command}
    for first, *rest in words:
        path = [first, *(word for word in rest if word.isalpha() and word.islower())]
        assert CliRunner().invoke(cli, [*path, "--help"]).exit_code == 0, path


@pytest.mark.parametrize("state", ["none", "empty", "broken"])
def test_any_lake_gets_an_answer(tmp_path: Path, state: str) -> None:
    root = tmp_path / "lake"
    if state != "none":
        Lake.open(root, create=True)
    if state == "broken":
        (root / "lake.toml").write_text("format = 99\n")
    seen = inspect_lake_setup(root, NOW)
    answer = list_setup_steps(ServerSettings(version="1"), seen, NOW)
    expected = {"none": "not", "empty": "quiet", "broken": "not"}[state]
    assert parts(answer)["lake"] == expected
    assert answer.first_run is (state != "broken")
    assert bool(seen.trouble) is (state == "broken")


def test_what_was_recorded_is_connected_then_quiet(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    play = scenes.build_co_run_scene(seconds=90)
    fill(lake, play.build_tables())
    soon, later = play.origin_ns + 120 * 10**9, play.origin_ns + 30 * 3600 * 10**9
    fresh = parts(list_setup_steps(ServerSettings(version="1"), inspect_lake_setup(lake.place.root, soon, lake), soon))
    for key in ("clients", "forwarders", "pfs_clients", "targets", "metadata", "ports", "devices", "jobs", "agents"):
        assert fresh[key] == "connected", key
    assert fresh["usage"] == "not"
    old = list_setup_steps(ServerSettings(version="1"), inspect_lake_setup(lake.place.root, later, lake), later)
    assert parts(old)["targets"] == "quiet"
    assert parts(old)["agents"] == "quiet"
    long_ago = list_setup_steps(
        ServerSettings(version="1"), inspect_lake_setup(lake.place.root, later + 90 * 86400 * 10**9, lake), later
    )
    assert parts(long_ago)["targets"] == "quiet"


class Doorman:
    def __init__(self) -> None:
        self.role = "admin"

    def identify_person(self, request: Request) -> Person:  # noqa: ARG002
        if not self.role:
            raise RefusedError(401, "who are you?")
        return Person(name="alice", role=self.role, key="k")  # type: ignore[arg-type]


def test_only_support_and_administrators_are_told(tmp_path: Path) -> None:
    config, _ = load_config(None, environment={}, flags=[f"server.lake={tmp_path / 'lake'}"])
    door = Doorman()

    async def refused(_: Request, error: Exception) -> object:
        from starlette.responses import JSONResponse

        assert isinstance(error, RefusedError)
        return JSONResponse({"error": error.what}, error.status)

    app = Starlette(
        routes=served.build_setup_routes(resolve_config(config), door, lambda: NOW),
        exception_handlers={RefusedError: refused},  # type: ignore[dict-item]
    )

    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://fairlead") as client:
            return await client.get(served.PATH)

    for role, status in (("admin", 200), ("support", 200), ("user", 403), ("", 401)):
        door.role = role
        answer = asyncio.run(asked())
        assert answer.status_code == status
        assert str(tmp_path) not in answer.text
        assert status != 200 or answer.json()["schema"] == "fairlead.setup/1"

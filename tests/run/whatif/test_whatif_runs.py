"""What-if runs as the pages ask for them: the queue, progress, limits, who may see which, and a server that ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from starlette.applications import Starlette
from starlette.requests import Request

from fairlead.cli.main import cli
from fairlead.core import clock
from fairlead.core.errors import UsageError
from fairlead.decide import registered_policies
from fairlead.decide.whatif.whatif_policies import ALLOCATIONS, PLACEMENTS, list_whatif_policies
from fairlead.explain.questions.answers_whatif_runs import WhatIfAsked, WhatIfProgress, WhatIfRun
from fairlead.run.whatif import routes as whatif_routes
from fairlead.run.whatif.queue import CrowdedError, Place, Runs
from fairlead.run.whatif.settings import WhatIfSettings
from fairlead.show.web.identity import ACT, ADMIN, READ, Person, RefusedError
from whatif_lake import lake_of, plays

DAY = {"since": "2024-06-01", "until": "2024-06-02"}
ASKED = WhatIfAsked(**DAY, policies=["static-map"])  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One play of ten minutes."""
    return lake_of(tmp_path_factory.mktemp("runs") / "lake", plays(1, 0, 600)).place.root


def until(what: Callable[[], bool]) -> None:
    """Waits, at most a minute."""
    end = clock.monotonic_s() + 900
    while not what():
        assert clock.monotonic_s() < end
        clock.sleep_s(0.02)


@pytest.fixture
def dozing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that, in the place of the replay, says how far it is and then stays there (its price: so many MiB)."""
    (tmp_path / "dozing_run.py").write_text(
        textwrap.dedent("""
        import sys, time
        from fairlead.run.child_process import end_child_process_with_parent
        import msgspec
        from fairlead.run.whatif.worker import WorkerLine, Task, write_worker_line
        from fairlead.explain.questions.answers_whatif_runs import WhatIfProgress
        task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
        end_child_process_with_parent(task.parent)
        held = bytearray(int(task.asked.price or 0) << 20)
        held[::4096] = b"x" * len(held[::4096])
        write_worker_line(WorkerLine(progress=WhatIfProgress(step="replaying", text="dozing", share=0.5)))
        time.sleep(600)
    """)
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "dozing_run"


@pytest.fixture
def made() -> Iterator[Callable[..., Runs]]:
    """Makes runs that are closed at the end."""
    all_: list[Runs] = []

    def make(folder: Path, site: Path, **settings: Any) -> Runs:
        module = settings.pop("module", "fairlead.run.whatif.worker")
        all_.append(Runs(folder, Place(root=site), WhatIfSettings(**settings), module=module))
        all_[-1].start()
        return all_[-1]

    yield make
    for one in all_:
        one.close()


def state(runs: Runs, name: str) -> WhatIfRun:
    found = runs.page(name, None)["run"]
    assert isinstance(found, WhatIfRun)
    return found


def test_a_run_gives_the_answer_of_the_command_line_and_survives_a_restart(
    site: Path, tmp_path: Path, made: Callable[..., Runs]
) -> None:
    runs = made(tmp_path / "whatif", site)
    begun = runs.ask("carol", ASKED)
    seen: list[WhatIfProgress] = []

    def over() -> bool:
        one = state(runs, begun.id)
        if one.progress is not None:
            seen.append(one.progress)
        return one.state == "done"

    until(over)
    assert [one.share for one in seen] == sorted(one.share for one in seen)
    assert {"starting"} < {one.step for one in seen}
    runs.close()
    again = made(tmp_path / "whatif", site).page(begun.id, "carol")
    words = begun.command.split()[2:]
    told = CliRunner().invoke(cli, ["whatif", *words, "--json"])
    assert msgspec.json.decode(bytes(again["answer"])) == msgspec.json.decode(told.stdout)
    assert again["run"].headline == msgspec.json.decode(told.stdout)["headline"]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ({"policies": ["dfrra"]}, "unknown policy 'dfrra'"),
        ({"since": "yesterday"}, "not a time: 'yesterday'"),
        ({"since": "2024-06-02", "until": "2024-06-01"}, "ends before it starts"),
        ({"since": "30d", "last": "30d"}, "both set the start"),
        ({"last": "3 moons"}, "not a duration"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(
    site: Path, tmp_path: Path, made: Callable[..., Runs], words: dict[str, Any], what: str
) -> None:
    runs = made(tmp_path, site)
    with pytest.raises(UsageError, match=what):
        runs.ask("carol", WhatIfAsked(**words))
    assert runs.list_runs(None).runs == []


def test_what_only_the_history_tells_fails_the_run_with_its_reason(
    site: Path, tmp_path: Path, made: Callable[..., Runs]
) -> None:
    runs = made(tmp_path, site)
    name = runs.ask("carol", WhatIfAsked(since="2020-01-01", until="2020-02-01")).id
    until(lambda: state(runs, name).state == "failed")
    assert "no job" in (state(runs, name).error or "")
    assert state(runs, name).remedy


def test_one_runs_the_others_wait_each_has_a_share_and_can_be_taken_back(
    site: Path, tmp_path: Path, made: Callable[..., Runs], dozing: str
) -> None:
    runs = made(tmp_path / "w", site, module=dozing, user_at_once=2, waiting=2)
    first = runs.ask("carol", ASKED).id
    until(lambda: (state(runs, first).progress or WhatIfProgress(step="", text="", share=0)).share == 0.5)
    second = runs.ask("carol", ASKED).id
    assert state(runs, second).before == 1
    with pytest.raises(CrowdedError, match="2 of your runs"):
        runs.ask("carol", ASKED)
    third = runs.ask("dave", ASKED).id
    with pytest.raises(CrowdedError, match="2 runs are already queued"):
        runs.ask("erin", ASKED)
    assert runs.drop(second, "carol").state == "cancelled"
    assert runs.drop(first, None).state == "cancelled"
    until(lambda: state(runs, third).state == "running")
    assert [one.id for one in runs.list_runs("dave").runs] == [third]
    with pytest.raises(UsageError):
        runs.page(third, "carol")
    with pytest.raises(UsageError):
        runs.drop(third, "carol")
    runs.drop(first, "carol")
    assert {one.id for one in runs.list_runs(None).runs} == {second, third}


def test_a_server_that_ends_breaks_off_what_runs_and_keeps_what_waits(
    site: Path, tmp_path: Path, made: Callable[..., Runs], dozing: str
) -> None:
    runs = made(tmp_path / "w", site, module=dozing)
    first = runs.ask("carol", ASKED).id
    until(lambda: state(runs, first).state == "running")
    second = runs.ask("carol", ASKED).id
    runs.close()
    (tmp_path / "w" / "0123456789abcdef.run.json").write_text('{"broken')
    again = made(tmp_path / "w", site)
    assert state(again, first).state == "failed"
    assert "interrupted" in (state(again, first).error or "")
    until(lambda: state(again, second).state == "done")


def test_limits_of_time_memory_and_how_many_are_kept(
    site: Path, tmp_path: Path, made: Callable[..., Runs], dozing: str
) -> None:
    runs = made(tmp_path / "w", site, module=dozing, time_s=0.3, kept=1)
    first, second = runs.ask("carol", ASKED).id, runs.ask("carol", ASKED).id
    until(lambda: state(runs, second).state == "failed")
    assert "took longer than 0.3 s" in (state(runs, second).error or "")
    assert [one.id for one in runs.list_runs(None).runs] == [second]
    assert first not in " ".join(path.name for path in (tmp_path / "w").iterdir())
    heavy = made(tmp_path / "m", site, module=dozing, memory_bytes=250 << 20)
    name = heavy.ask("carol", msgspec.structs.replace(ASKED, price=300.0)).id
    until(lambda: state(heavy, name).state == "failed")
    assert "more than 250 MiB" in (state(heavy, name).error or "")


def test_every_policy_has_a_sentence() -> None:
    told = list_whatif_policies()
    assert set(ALLOCATIONS) == set(registered_policies.ALLOCATIONS)
    assert set(PLACEMENTS) == set(registered_policies.PLACINGS)
    names = {one.name for one in told.policies}
    assert names >= {*registered_policies.list_registered_path_policies(), *registered_policies.JOINT_POLICIES}
    assert all(one.about.endswith(".") for one in [*told.policies, *told.allocations, *told.placements])
    for name in told.usual:
        registered_policies.find_registered_path_policy(name)


class _Door:
    def identify_person(self, request: Request) -> Person:
        """Who the header says."""
        name, _, role = request.headers.get("x-who", "").partition(":")
        if not name:
            raise RefusedError(401, "nobody")
        scopes = (READ,) if name == "reader" else (READ, ACT, ADMIN)
        return Person(name=name, role=role, key=name, scopes=scopes)  # type: ignore[arg-type]


def test_over_http_rights_shapes_and_refusals(
    site: Path, tmp_path: Path, made: Callable[..., Runs], dozing: str
) -> None:
    runs = made(tmp_path / "w", site, module=dozing)
    app = Starlette(routes=whatif_routes.build_whatif_routes(runs, _Door()))

    def send(who: str, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
        return asyncio.run(_send(app, who, method, f"/api/v1/{path}", body))

    for who, status in (("", 401), ("alice:user", 403), ("reader:support", 403)):
        for method, path in (
            ("GET", "whatif"),
            ("POST", "whatif"),
            ("GET", "whatif/x"),
            ("DELETE", "whatif/x"),
            ("GET", "whatif/policies"),
        ):
            assert send(who, method, path, b"{}")[0] == status
    for body in (b"{", b"[]", b'{"polices": []}', b'{"forwarders": 0}', b'{"limit": "x"}', b'{"layer": "up"}', b"\xff"):
        status, told = send("carol:support", "POST", "whatif", body)
        assert (status, sorted(told)) == (400, ["error", "remedy"])
    assert send("carol:support", "POST", "whatif", b" " * 20_000)[0] == 413
    status, run = send("carol:support", "POST", "whatif", msgspec.json.encode(ASKED))
    assert (status, run["state"], run["owner"]) == (202, "queued", "carol")
    assert send("dave:support", "GET", f"whatif/{run['id']}")[0] == 404
    assert send("dave:support", "DELETE", f"whatif/{run['id']}")[0] == 404
    assert send("dave:support", "GET", "whatif")[1]["runs"] == []
    assert send("root:admin", "GET", f"whatif/{run['id']}")[1]["run"]["id"] == run["id"]
    assert send("carol:support", "GET", "whatif")[1]["runs"][0]["command"].startswith("fairlead whatif --since 2024")
    assert send("carol:support", "DELETE", f"whatif/{run['id']}")[1]["state"] == "cancelled"
    assert send("carol:support", "GET", "whatif/policies")[1]["usual"]
    look = whatif_routes.build_whatif_follower(runs)
    alice = Person(name="alice", role="user", key="a", scopes=(READ, ACT))
    with pytest.raises(RefusedError, match="everybody"):
        look(alice, run["id"])


async def _send(app: Any, who: str, method: str, path: str, body: bytes) -> tuple[int, Any]:
    sent: list[dict[str, Any]] = []
    heard = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        return next(heard, {"type": "http.disconnect"})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"x-who", who.encode()), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    await app(scope, receive, send)
    parts = b"".join(one.get("body", b"") for one in sent if one["type"] == "http.response.body")
    return sent[0]["status"], msgspec.json.decode(parts)


def test_the_process_of_a_run_ends_with_the_server(site: Path, tmp_path: Path, dozing: str) -> None:
    """A server that is killed outright leaves no replay behind."""
    script = textwrap.dedent(f"""
        import sys, time
        from pathlib import Path
        from fairlead.explain.questions.answers_whatif_runs import WhatIfAsked
        from fairlead.run.whatif.queue import Place, Runs
        from fairlead.run.whatif.settings import WhatIfSettings
        runs = Runs(Path({str(tmp_path / "w")!r}), Place(root=Path({str(site)!r})), WhatIfSettings(), module={dozing!r})
        runs.start()
        one = runs.ask("c", WhatIfAsked(since="2024-06-01", until="2024-06-02"))
        while (runs.page(one.id, None)["run"].progress is None or
               runs.page(one.id, None)["run"].progress.share < 0.5): time.sleep(0.02)
        print("up", flush=True)
        time.sleep(600)
    """)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"up\n"
            children = Path(f"/proc/{server.pid}/task").glob("*/children")
            child = int(next(text for text in (path.read_text().strip() for path in children) if text))
        finally:
            os.kill(server.pid, signal.SIGKILL)
    until(lambda: not _alive(child))


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

"""The pages' server when clients are slow, many or gone, processes are killed and the lake is rewritten meanwhile.

A real `fairlead up`. Short forms run always, long ones (`slow`) as they are meant.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead.core.model.tables import OPS, build_table_batch
from fairlead.store.compaction import compact_tables
from fairlead.store.lake import Lake
from pages_site import PASSWORD, SETTINGS, Site, begin
from questions_site import DAY, HOUR, MIB, T0, accounts, put
from rights_site import HERS, others, site
from rights_site import Other as OtherJob
from serving import until

SPAN = "from=2024-10-04T08:00&to=2024-10-04T11:00"
WIDE = SETTINGS.replace("[web]", "[web]\naddress_requests_per_minute = 0") + "\n[collector.limits]\nheader_s = 3.0\n"
GROWTH = 400 * MIB
S = 10**9


def memory(pid: int) -> int:
    """Bytes a process holds now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def api_pid(running: Site) -> int:
    """The process that listens on the API's port."""
    port = f":{int(running.url.rpartition(':')[2]):04X}"
    inodes = [
        line.split()[9]
        for line in Path("/proc/net/tcp").read_text().splitlines()
        if port in line.split()[1] and line.split()[3] == "0A"
    ]
    held = []
    for pid in running.up.children():
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                held += [pid] if file.readlink().name[8:-1] in inodes else []
    [found] = set(held)
    return found


def asked(running: Site, path: str, headers: dict[str, str], method: str = "GET", body: Any = None) -> tuple[int, Any]:
    """Status and document of one request; 0 where the connection broke."""
    host = running.url.partition("//")[2]
    connection = http.client.HTTPConnection(host, timeout=900)
    try:
        content = None if body is None else json.dumps(body)
        sent = {**headers, "content-type": "application/json"} if body is not None else headers
        connection.request(method, f"/api/v1/{path}", content, sent)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, {"headers": dict(answer.getheaders()), "body": json.loads(text) if text else None}
    except (OSError, http.client.HTTPException):
        return 0, None
    finally:
        connection.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server on the site of two people."""
    folder = tmp_path_factory.mktemp("survive")
    (folder / "made").mkdir()
    lake = site(folder / "made" / "lake")
    others(lake, [OtherJob("101", 120, 420)])
    made = begin(folder, folder / "made", WIDE)
    yield made
    made.up.kill()


@pytest.fixture
def operator(running: Site) -> dict[str, str]:
    return {"Authorization": f"Bearer {running.operator}"}


def signed_in(running: Site, name: str) -> dict[str, str]:
    status, told = asked(running, "session", {}, "POST", {"name": name, "password": PASSWORD})
    assert status == 200, told
    return {"Cookie": told["headers"]["set-cookie"].partition(";")[0], "X-CSRF-Token": told["body"]["csrf"]}


async def crawling(running: Site, operator: dict[str, str], clients: int) -> tuple[list[int], int]:
    """An ordinary question's statuses while `clients` are slow in every way there is, and how memory grew."""
    host, _, port = running.url.partition("//")[2].partition(":")
    token = operator["Authorization"]
    head = f"Host: {host}:{port}\r\nAuthorization: {token}\r\n"
    whole = [
        f"GET /api/v1/{path} HTTP/1.1\r\n{head}\r\n".encode()
        for path in (
            f"jobs/100/timeline?points=5000&{SPAN}",
            f"live/jobs/100/timeline?points=5000&{SPAN}&every=1",
            "openapi.json",
        )
    ]
    half = f"POST /api/v1/session HTTP/1.1\r\n{head}content-length: 1000\r\n\r\n{{".encode()
    sent = [*whole, whole[0][:40], half, b""]
    writers: list[asyncio.StreamWriter] = []
    crawlers: list[asyncio.Task[None]] = []

    async def crawl(number: int) -> None:
        try:
            reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
            writers.append(writer)
            writer.write(sent[number % len(sent)])
            while number % 2 and await reader.read(1):
                await asyncio.sleep(0.3)
            await asyncio.sleep(600)
        except OSError:
            return

    before = memory(api_pid(running))
    crawlers = [asyncio.create_task(crawl(number)) for number in range(clients)]
    got: list[int] = []
    highest = before
    for _ in range(12):
        status, _ = await asyncio.to_thread(asked, running, f"jobs?{SPAN}", operator)
        got.append(status)
        highest = max(highest, memory(api_pid(running)))
        await asyncio.sleep(0.2)
    for one in crawlers:
        one.cancel()
    await asyncio.gather(*crawlers, return_exceptions=True)
    for writer in writers:
        writer.transport.abort()
    return got, highest - before


def connections(running: Site) -> int:
    """Connections the API holds."""
    port = f":{int(running.url.rpartition(':')[2]):04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(line[1].endswith(port) and line[3] == "01" for line in lines)


@pytest.mark.parametrize("clients", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_slow_clients_hold_up_nobody(running: Site, operator: dict[str, str], clients: int) -> None:
    got, grown = asyncio.run(crawling(running, operator, clients))
    assert got == [200] * len(got)
    assert grown < GROWTH
    assert until(lambda: connections(running) == 0)
    assert asked(running, f"jobs?{SPAN}", operator)[0] == 200


def pressed(running: Site, headers: dict[str, str], stop: threading.Event, statuses: list[int]) -> None:
    while not stop.is_set():
        statuses.append(asked(running, f"jobs/100/timeline?{SPAN}", headers)[0])


def test_killed_and_restarted_under_load(running: Site, operator: dict[str, str]) -> None:
    """Sessions, links and tokens are kept; what is asked meanwhile is answered, refused for now or cut off."""
    alice = signed_in(running, "alice")
    status, link = asked(running, "links", alice, "POST", {"job": "100", "days": 1})
    assert status == 201
    by_link = {"Authorization": f"Bearer {link['body']['token']}"}
    stop, statuses = threading.Event(), list[int]()
    threads = [threading.Thread(target=pressed, args=(running, alice, stop, statuses)) for _ in range(3)]
    for one in threads:
        one.start()
    try:
        assert until(lambda: statuses.count(200) > 2)
        first = api_pid(running)
        os.kill(first, signal.SIGKILL)
        seen = len(statuses)
        assert until(lambda: 200 in statuses[seen + 3 :])
        assert until(lambda: _pid_or_none(running) not in (None, first))
    finally:
        stop.set()
        for one in threads:
            one.join()
    assert set(statuses) <= {0, 200, 503}
    for who in (alice, by_link):
        assert asked(running, f"jobs/100?{SPAN}", who)[0] == 200
    events = stream(running, alice)
    assert events == "event: answer"


def _pid_or_none(running: Site) -> int | None:
    with contextlib.suppress(ValueError, OSError):
        return api_pid(running)
    return None


def stream(running: Site, headers: dict[str, str]) -> str:
    """The first event of a stream."""
    connection = http.client.HTTPConnection(running.url.partition("//")[2], timeout=900)
    try:
        connection.request("GET", f"/api/v1/live/jobs/100?{SPAN}", headers=headers)
        answer = connection.getresponse()
        for line in answer:
            if line.startswith(b"event: "):
                return line.decode().strip()
        return ""
    finally:
        connection.close()


PATHS = (
    f"jobs?{SPAN}",
    f"jobs/100/timeline?{SPAN}",
    f"targets/OST0?{SPAN}",
    f"jobs/100/why?{SPAN}",
    f"layers/target?{SPAN}",
    f"findings?{SPAN}",
)


@pytest.mark.parametrize("rounds", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_a_lake_that_is_rewritten_meanwhile(running: Site, operator: dict[str, str], rounds: int) -> None:
    """Compacted and vacuumed at once: every answer is the same as before, or refused for now."""
    before = {path: asked(running, path, operator)[1]["body"] for path in PATHS}
    lake, faults, merged = Lake.open(running.up.lake), list[Exception](), list[int]()

    def rewrite() -> None:
        try:
            with lake.open_writer("site") as writer:
                for number in range(rounds * 4):
                    start = T0 - 30 * DAY + number * HOUR
                    batch = writer.open_batch(f"old {rounds} {number}")
                    batch.add(accounts({**HERS, "job_id": f"9{number}", "start_ns": start, "end_ns": start + HOUR}))
                    assert batch.commit()
                    writer.flush()
                    if number % 2:
                        merged.extend(one.removed for one in compact_tables(lake, writer, keep_hours=0))
        except Exception as fault:  # noqa: BLE001  (a thread's: told below)
            faults.append(fault)

    thread = threading.Thread(target=rewrite)
    thread.start()
    refused = []
    while thread.is_alive():
        for path in PATHS:
            status, told = asked(running, path, operator)
            if status != 200:
                refused.append((path, status))
                assert status == 503
                assert "retry-after" in {name.lower() for name in told["headers"]} or told["body"]["remedy"]
                continue
            assert told["body"] == before[path], path
    thread.join()
    assert faults == []
    assert sum(merged) > 0
    assert {path: asked(running, path, operator)[1]["body"] for path in PATHS} == before


@pytest.mark.slow
def test_a_job_of_very_many_ranks(tmp_path: Path) -> None:
    """50,000 ranks: no answer of the job's page is as large as a megabyte, and the page's calls are all answered."""
    ranks, each = 50_000, 4
    (tmp_path / "made").mkdir()
    lake = Lake.open(tmp_path / "made" / "lake", create=True)
    start = int(HERS["start_ns"])  # type: ignore[call-overload]
    n = ranks * each
    rank = np.repeat(np.arange(ranks, dtype=np.int32), each)
    begun = start + (np.arange(n) % each) * 60 * S + (rank.astype(np.int64) % 1000) * (S // 50)
    nodes = [f"n{number:04d}" for number in range(1000)]
    put(
        lake,
        accounts({**HERS, "nodes": nodes}),
        build_table_batch(
            OPS,
            {
                "start_ns": begun,
                "end_ns": begun + S // 10,
                "busy_ns": np.full(n, S // 10),
                "node": [nodes[number // 50] for number in rank],
                "job_id": ["100"] * n,
                "rank": rank,
                "interface": ["POSIX"] * n,
                "fs": ["/scratch"] * n,
                "op": ["write"] * n,
                "file_id": rank.astype(np.int64),
                "offset": np.zeros(n, np.int64),
                "size": np.full(n, MIB),
                "count": np.ones(n, np.int64),
            },
        ),
    )
    running = begin(tmp_path, tmp_path / "made", WIDE)
    try:
        headers = {"Authorization": f"Bearer {running.operator}"}
        for path in (
            "",
            "/timeline?points=5000",
            "/ranks?rows=256&columns=1000",
            "/files?limit=1000",
            "/requests",
            "/why",
        ):
            status, told = asked(running, f"jobs/100{path}", headers)
            assert status == 200, (path, told)
            assert len(json.dumps(told["body"])) < 4 * MIB, path
            assert int(told["headers"].get("content-length", 0)) < 4 * MIB, path
        status, told = asked(running, "jobs/100/ranks", headers)
        assert len(json.dumps(told["body"])) < 1_000_000
        status, told = asked(running, "jobs/100/timeline", headers)
        assert len(json.dumps(told["body"])) < 1_000_000
    finally:
        running.up.kill()

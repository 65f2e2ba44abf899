"""A running server under attack: bombs from many at once, the same body twice at once, tokens, files."""

from __future__ import annotations

import json
import os
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.core.access.tokens import Claims, issue_token, read_token_key
from fairlead.core.batches.encoding import MAGIC, PREFIX, compute_encoding_checksum
from serving import Up, health_batch, now_ns, ops_batch, until
from waiting import PATIENCE_S

MOST_MEMORY = 1500 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("hostile"), "[carry]\nevery_s = 2\n") as up:
        yield up


def told(about: dict[str, Any], raw: bytes) -> bytes:
    payload = zlib.compress(raw, 1)
    whole = {
        "format": 1,
        "table": "ops",
        "version": 1,
        "node": "n1",
        "boot_id": os.urandom(8).hex(),
        "seq": 1,
        "rows": 0,
        "layer": "agent",
        "writer": "agent",
        "first_ns": now_ns(),
        "last_ns": now_ns(),
        "job": None,
        "columns": [],
        "raw_bytes": len(raw),
        "checksum": compute_encoding_checksum(payload),
        **about,
    }
    text = json.dumps(whole).encode()
    return PREFIX.pack(MAGIC, len(text), len(payload), zlib.crc32(text)) + text + payload


def at_once(count: int, do: Callable[[int], None]) -> None:
    gate = threading.Barrier(count)

    def one(number: int) -> None:
        gate.wait(PATIENCE_S)
        do(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads)


def processes(server: Up) -> list[int]:
    assert server.process is not None
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    return [server.process.pid, *map(int, children)]


def peak_bytes(server: Up) -> int:
    """The largest resident memory any process of the server has ever had."""
    most = 0
    for pid in processes(server):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                most = max(most, int(line.split()[1]) << 10)
    return most


def test_bombs_from_twenty_at_once_are_refused_in_bounded_memory_and_others_are_served(server: Up) -> None:
    constants = b"".join(number.to_bytes(8, "little") for number in range(20_000))
    bombs = [
        told({"version": 9, "rows": 16384, "columns": [[f"c{n}", "i64=", 8] for n in range(20_000)]}, constants),
        told(
            {"table": "target", "rows": 8 << 20, "columns": [["ts_ns", "i64=", 8], ["target", "word=", 5]]},
            now_ns().to_bytes(8, "little") + b'["a"]',
        ),
        told({"raw_bytes": 1 << 30}, bytes(64 << 20)),
        told({"x": [[] for _ in range(1_000_000)]}, b""),
    ]
    token = server.token()
    statuses: list[int] = []
    served: list[int] = []

    def send(number: int) -> None:
        if number % 5 == 4:
            served.append(server.post(ops_batch(number + 1, node="good", boot="g" * 32), token=token).status)
            return
        statuses.append(server.post(bombs[number % 5], token=token).status)

    at_once(20, send)
    assert len(statuses) == 16
    assert set(statuses) <= {400, 413, 422, 429}
    assert set(served) <= {200, 429}
    assert server.post(ops_batch(99, node="good", boot="g" * 32)).status == 200
    assert peak_bytes(server) < MOST_MEMORY


def test_thousands_of_tiny_batches_in_one_body(server: Up) -> None:
    body = b"".join(ops_batch(seq, rows=1, node="tiny", boot="t" * 32) for seq in range(1, 3001))
    assert server.post(body).json["taken"] == 3000
    again = server.post(body).json
    assert (again["taken"], again["known"]) == (0, 3000)
    assert peak_bytes(server) < MOST_MEMORY


def test_the_same_body_over_many_connections_at_once_counts_once(server: Up) -> None:
    token = server.token()
    body = b"".join(ops_batch(seq, rows=20, node="twice", boot="w" * 32) for seq in range(1, 21))
    answers: list[dict[str, Any]] = []
    at_once(8, lambda _: answers.append(server.post(body, token=token).json))
    assert sum(answer["taken"] for answer in answers) == 20
    assert all(answer["taken"] + answer["known"] == 20 for answer in answers)
    mixed = server.post(body + ops_batch(21, rows=20, node="twice", boot="w" * 32), token=token).json
    assert (mixed["taken"], mixed["known"]) == (1, 20)
    assert server.query("SELECT count(*) AS n FROM ops WHERE node = 'twice'") == [{"n": 420}]


def test_a_number_that_is_used_again_for_other_rows_is_known_and_changes_nothing(server: Up) -> None:
    first = ops_batch(1, rows=3, node="again", boot="a" * 32)
    other = ops_batch(1, rows=9, node="again", boot="a" * 32)
    assert server.post(first).json["taken"] == 1
    assert server.post(other).json["known"] == 1
    assert server.query("SELECT count(*) AS n FROM ops WHERE node = 'again'") == [{"n": 3}]


def test_a_poisoned_header_stops_nobody(server: Up) -> None:
    """What cannot be written to the tables must not be acknowledged: one such batch would stop all carrying over."""
    bad = ops_batch(1, node="bad", boot="p" * 32)
    length = PREFIX.unpack_from(bad)[1]
    text = bad[PREFIX.size : PREFIX.size + length].replace(b'"writer":"test"', b'"writer":"\\ud800"')
    poison = PREFIX.pack(MAGIC, len(text), PREFIX.unpack_from(bad)[2], zlib.crc32(text)) + text
    poison += bad[PREFIX.size + length :]
    assert server.post(poison).status == 400
    assert server.post(health_batch(1, node="calm", boot="c" * 32)).status == 200
    carried = server.health()["collector"]["carried_ns"] or 0
    assert until(lambda: (server.health()["collector"]["carried_ns"] or 0) > carried)
    assert server.health()["collector"]["problems"] == []


@pytest.mark.parametrize("role", ["", "reader", "root", "agent\x00", "AGENT"])
def test_tokens_of_other_roles_open_nothing(server: Up, role: str) -> None:
    key = read_token_key(server.state / "server.key")
    token = issue_token(key, Claims(expires_s=now_ns() // 10**9 + 60, role=role))
    assert server.post(ops_batch(1, node="x"), token=token).status in (401, 403)
    expired = issue_token(key, Claims(expires_s=now_ns() // 10**9 - 1, role="agent"))
    assert server.post(ops_batch(1, node="x"), token=expired).status == 401
    other_node = issue_token(key, Claims(expires_s=now_ns() // 10**9 + 60, role="agent", node="n7"))
    assert server.post(ops_batch(1, node="n7") + ops_batch(1, node="n8"), token=other_node).status == 403


def test_secrets_are_for_their_owner_only_and_in_no_log_nor_command_line(server: Up) -> None:
    secrets = [path.read_text().strip() for path in server.state.glob("*.token")]
    secrets.append((server.state / "server.key").read_text().strip())
    secrets.append(server.token())
    server.post(ops_batch(1), token=secrets[-1][:-3] + "xyz")
    for path in (*server.state.glob("*.token"), server.state / "server.key"):
        assert path.stat().st_mode & 0o077 == 0, path
    said = server.log.read_text(errors="replace")
    for pid in processes(server):
        said += Path(f"/proc/{pid}/cmdline").read_text() + Path(f"/proc/{pid}/environ").read_text(errors="replace")
    assert not any(secret in said for secret in secrets)


def test_nothing_the_server_makes_can_be_written_by_others(server: Up) -> None:
    """Nor, by those outside its group, read: the lake says who works on what."""
    server.post(ops_batch(1, node="modes", boot="m" * 32))
    made = [server.lake, *server.lake.rglob("*"), *server.state.rglob("*")]
    assert any(path.suffix == ".wal" for path in made)
    assert any(path.name == "server.key" for path in made)
    for path in made:
        if not path.is_socket() and not path.is_symlink():
            assert path.lstat().st_mode & 0o027 == 0, path

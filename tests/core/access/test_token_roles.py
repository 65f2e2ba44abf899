"""`fairlead token issue`: a token says what it is for, and an option that would say nothing is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.cli.main import main
from fairlead.core.access.tokens import Claims, check_token, make_token_key, read_token_key
from fairlead.core.clock import now_ns


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_token_key(tmp_path / "key")
    return tmp_path / "key"


def _issued(key: Path, capsys: pytest.CaptureFixture[str], *options: str) -> Claims:
    assert main(["token", "issue", "--key", str(key), *options]) == 0
    token = capsys.readouterr().out.strip()
    return check_token(read_token_key(key), token, now_ns(), roles=("", "agent", "reader", "operator"))


def test_each_role_has_its_limits(key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = _issued(key, capsys, "--role", "agent", "--node", "n1", "--expires", "365d")
    assert (agent.role, agent.node, agent.uid) == ("agent", "n1", -1)
    assert 364 * 86400 < agent.expires_s - now_ns() // 10**9 <= 365 * 86400
    reader = _issued(key, capsys, "--role", "reader", "--user", "alice")
    assert (reader.role, reader.user, reader.uid) == ("reader", "alice", -1)
    mount = _issued(key, capsys, "--user", "1000", "--job", "9")
    assert (mount.role, mount.uid, mount.job) == ("", 1000, "9")
    assert _issued(key, capsys, "--role", "operator").role == "operator"


@pytest.mark.parametrize(
    "options",
    [
        ["--role", "agent", "--job", "9"],
        ["--role", "reader", "--node", "n1"],
        ["--role", "operator", "--user", "alice"],
        ["--node", "n1"],
        ["--user", "nobody-of-that-name"],
        ["--user", "1000", "--any-user"],
        ["--role", "job", "--user", "1000"],
        ["--user", "1000", "--renew", "soon"],
        ["--user", "4294967295"],
        ["--role", "janitor"],
    ],
)
def test_what_says_nothing_is_refused(key: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "issue", "--key", str(key), *options]) == 2
    assert capsys.readouterr().out == ""

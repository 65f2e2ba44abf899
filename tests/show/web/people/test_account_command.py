"""`fairlead account` beside a server that runs, and the address `fairlead up` prints when nobody can sign in."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from serving import Up, until


def account(state: Path, *words: str, code: int = 0, typed: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", "account", words[0], "--state", str(state), *words[1:]],
        input=typed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if not code else done.stderr


def ask(up: Up, method: str, path: str, body: Any = None, **headers: str) -> Any:
    sent = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return up.ask(method, f"/api/v1/{path}", body=json.dumps(body).encode() if body is not None else None, headers=sent)


def test_the_first_sign_in_and_accounts_beside_a_server(tmp_path: Path) -> None:
    with Up(tmp_path, '[api]\nlisten = ["tcp:127.0.0.1:0"]\n') as up:
        found = until(lambda: re.search(r"sign in: http://127\.0\.0\.1:(\d+)/welcome#(flw_\S+)", up.said()))
        assert found, up.said()
        up.port = int(found[1])
        assert until(lambda: _answers(up)), up.said()
        assert ask(up, "GET", "signin").json["first_run"] is True
        welcomed = ask(up, "POST", "session", {"welcome": found[2]})
        assert (welcomed.status, welcomed.json["role"]) == (200, "admin")
        assert ask(up, "POST", "session", {"welcome": found[2]}).status == 401

        password = tmp_path / "password"
        password.write_text("four words are enough\n")
        account(up.state, "add", "alice", "--project", "climate", "--password-file", str(password))
        account(up.state, "add", "alice", "--no-password", code=2)
        signed = ask(up, "POST", "session", {"name": "alice", "password": "four words are enough"})
        assert signed.status == 200, signed.body
        cookie = signed.headers["set-cookie"].partition(";")[0]
        assert ask(up, "GET", "session", Cookie=cookie).json["projects"] == ["climate"]
        assert json.loads(account(up.state, "role", "alice", "support", "--json"))["accounts"][0]["role"] == "support"
        assert ask(up, "GET", "session", Cookie=cookie).json["role"] == "support"
        token = account(up.state, "token", "alice", "--scope", "read").strip()
        assert ask(up, "GET", "session", Authorization=f"Bearer {token}").json["scopes"] == ["read"]
        account(up.state, "token", "alice", "--scope", "admin", code=2)
        account(up.state, "disable", "alice")
        assert ask(up, "GET", "session", Cookie=cookie).status == 401
        assert ask(up, "GET", "session", Authorization=f"Bearer {token}").status == 401
        account(up.state, "disable", "admin", code=2)
        account(up.state, "welcome", "nobody", code=2)
        assert account(up.state, "welcome").startswith(f"http://127.0.0.1:{up.port}/welcome#flw_")
        account(up.state, "passwd", "admin", "--password-file", "-", typed="other words are fine\n")
        assert ask(up, "POST", "session", {"name": "admin", "password": "other words are fine"}).status == 200
        account(up.state, "remove", "alice")
        assert [one["name"] for one in json.loads(account(up.state, "list", "--json"))["accounts"]] == ["admin"]
        acts = [one["act"] for one in json.loads(account(up.state, "audit", "--json"))["entries"]]
        assert {"sign in", "add account", "change account", "make token", "welcome", "remove account"} <= set(acts)
        said = len(up.said())
        assert up.stop() == 0
        up.start(wait=False)
        until(lambda: "ready api" in up.said()[said:])
        assert "welcome#" not in up.said()[said:], "somebody can sign in now"


def _answers(up: Up) -> bool:
    try:
        return bool(ask(up, "GET", "ping").status == 200)
    except OSError:
        return False

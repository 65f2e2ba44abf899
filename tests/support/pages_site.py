"""The pages as people meet them: a real `fairlead up` on a few days of the sample site, and accounts of every role."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.kit.sample.site import LAKE, TRUTH, prepare_sample_site
from serving import Up
from waiting import PATIENCE_S

Visit = Callable[..., Any]
"""The fixture `visit` of the browser tests."""
DAYS = 3
PASSWORD = "correct horse battery"  # noqa: S105  (of accounts that live as long as a test)
PEOPLE = (("alice", "user", "climate"), ("bob", "user", "plasma"), ("carol", "support", ""), ("admin", "admin", ""))
SETTINGS = """
[api]
listen = ["tcp:127.0.0.1:0"]
[web]
simulated = true
requests_per_minute = 0
"""


def filled(shared: Path) -> Path:
    """The folder of a filled sample site, made by the first who asks: several processes may."""
    folder = shared / "sample-site"
    with (shared / "sample-site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        prepare_sample_site(folder, time.time_ns(), days=DAYS)
    return folder


@dataclass
class Site:
    """A running server and what is true of what it shows."""

    up: Up
    url: str
    truth: Any

    def get(self, path: str, token: str) -> Any:
        """An answer of the API."""
        asked = urllib.request.Request(f"{self.url}/api/v1/{path}", headers={"Authorization": f"Bearer {token}"})  # noqa: S310
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:  # noqa: S310
            return json.load(answer)

    @property
    def operator(self) -> str:
        """A token that sees all."""
        return self.up.token("operator")


def begin(folder: Path, sample: Path | None, settings: str = SETTINGS) -> Site:
    """A server in `folder`, on a copy of `sample` (None: on an empty lake). End it with `site.up.kill()`."""
    up = Up(folder, settings)
    truth: Any = None
    if sample is not None:
        shutil.copytree(sample / LAKE, up.lake, copy_function=shutil.copy)
        truth = json.loads((sample / TRUTH).read_text()) if (sample / TRUTH).exists() else None
    secret = folder / "password"
    secret.write_text(PASSWORD + "\n")
    secret.chmod(0o600)
    for name, role, project in PEOPLE:
        words = [sys.executable, "-m", "fairlead", "account", "add", name, "--role", role, "--state", str(up.state)]
        words += ["--password-file", str(secret)] + (["--project", project] if project else [])
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    up.start()
    told = json.loads((up.state / "addresses.json").read_text())
    return Site(up, f"http://{told['api'][0].partition(':')[2]}", truth)

"""Mounts with tokens, as the how-to says: real forwarder, TLS, FUSE, and an ordinary user who is not root."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fairlead.core.clock import monotonic_s, sleep_s
from fairlead.steer.fs.trees import thread_identity
from plane import Plane, detach
from waiting import PATIENCE_S, wait_until

pytestmark = [
    pytest.mark.fuse,
    pytest.mark.skipif(not thread_identity.enabled, reason="only root can be somebody else"),
]
UID = 12345
AS_USER = Path(__file__).parents[2] / "support" / "as_user.py"


def _start_site(plane: Plane) -> str:
    """A forwarder of a tree with a root-only file, set up as the how-to does; its address."""
    plane.tree.chmod(0o777)
    (plane.tree / "mine").write_bytes(b"open to all")
    (plane.tree / "root-only").write_bytes(b"secret")
    (plane.tree / "root-only").chmod(0o600)
    key, tls = plane.folder / "token.key", plane.folder / "tls"
    assert plane.command("token", "make-key", str(key)).returncode == 0
    made = plane.command("token", "tls", str(tls), "--host", "localhost,127.0.0.1")
    assert made.returncode == 0, made.stderr
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    plane.forwarder(
        "a",
        *("--listen", f"tls:127.0.0.1:{port}", "--token-key", str(key)),
        *("--tls-cert", str(tls / "localhost.pem"), "--tls-key", str(tls / "localhost.key")),
    )
    return f"tls:localhost:{port}"


def _issue(plane: Plane, *options: str) -> str:
    issued = plane.command("token", "issue", "--key", str(plane.folder / "token.key"), *options)
    assert issued.returncode == 0, issued.stderr
    return issued.stdout


def _read_as(uid: int, path: Path) -> str:
    """What a process of that user reads, or the name of its error."""
    script = (
        "import errno, os, sys\nos.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))\n"
        "try:\n    print(open(sys.argv[2]).read())\nexcept OSError as error:\n    print(errno.errorcode[error.errno])\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, str(uid), str(path)], capture_output=True, text=True, timeout=PATIENCE_S
    )
    return done.stdout.strip() or done.stderr


def test_an_ordinary_user_with_the_how_to_s_commands_reads_no_root_only_file(plane: Plane) -> None:
    address = _start_site(plane)
    home = Path(tempfile.mkdtemp(prefix="fl", dir="/tmp"))
    point = home / "project"
    try:
        home.chmod(0o755)
        point.mkdir()
        (home / "token").write_text(_issue(plane, "--user", str(UID)))
        (home / "ca.pem").write_bytes((plane.folder / "tls" / "ca.pem").read_bytes())
        (home / "run").mkdir()
        for path in (home, point, home / "token", home / "run"):
            os.chown(path, UID, UID)
        arguments = ["mount", address, str(point), "--token", str(home / "token"), "--ca", str(home / "ca.pem")]
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(home / "run"), "HOME": str(home)}

        def mount() -> subprocess.CompletedProcess[str]:
            command = [sys.executable, str(AS_USER), str(UID), *arguments]
            return subprocess.run(
                command, capture_output=True, text=True, timeout=PATIENCE_S, env=environment, check=False
            )

        shared = mount()
        assert shared.returncode != 0
        assert "chmod 600" in shared.stderr
        (home / "token").chmod(0o600)
        if Path("/dev/fuse").stat().st_mode & 0o006 == 0o006:
            mounted = mount()
            assert mounted.returncode == 0, mounted.stderr
        else:  # only root may mount here: root does it with the user's token, and is the user to the forwarder
            os.chown(home / "token", 0, 0)
            os.chown(point, 0, 0)
            plane.folder.chmod(0o755)
            options = ("--token", str(home / "token"), "--ca", str(home / "ca.pem"), "--allow-other")
            point = plane.mount("mnt", address, options=options)
            assert _read_error(point / "root-only") == "Permission denied"
            assert (point / "mine").read_bytes() == b"open to all"
            return
        assert _read_as(UID, point / "mine") == "open to all"
        assert _read_as(UID, point / "root-only") == "EACCES"
        # Nor by asking for a token without naming a user, nor with one for any user.
        whose = plane.command("token", "issue", "--key", str(plane.folder / "token.key"))
        assert whose.returncode == 2
        assert "--user" in whose.stderr
    finally:
        detach(point)
        subprocess.run(["rm", "-rf", str(home)], check=False)


def _use_past(plane: Plane, life_s: int, use_s: float) -> int:
    """Uses a mount whose token lives that long for so long; how often its content was read."""
    address = _start_site(plane)
    token = plane.folder / "token"
    token.write_text(_issue(plane, "--user", str(UID), "--valid", f"{life_s}s"))
    token.chmod(0o600)
    ca = str(plane.folder / "tls" / "ca.pem")
    point = plane.mount("mnt", address, options=("--token", str(token), "--ca", ca))
    until, times = monotonic_s() + use_s, 0
    while monotonic_s() < until:
        assert (point / "mine").read_bytes() == b"open to all"
        times += 1
        sleep_s(0.05)
    wait_until(lambda: "the token was renewed" in (plane.folder / "mnt.log").read_text(), "a renewal")
    return times


def test_a_mount_outlives_its_token_and_ends_when_it_is_revoked(plane: Plane) -> None:
    _use_past(plane, 6, 8)
    point = plane.folder / "mnt"
    listed = plane.command("token", "list", "--key", str(plane.folder / "token.key"))
    token_id = listed.stdout.split()[0]
    revoked = plane.command("token", "revoke", token_id, "--key", str(plane.folder / "token.key"))
    assert revoked.returncode == 0, revoked.stderr
    wait_until(lambda: _read_error(point / "mine") == "Key has been revoked", "the end of the token")
    token = plane.folder / "token"
    token.write_text(_issue(plane, "--user", str(UID)))
    wait_until(lambda: _read_error(point / "mine") == "", "the mount with a new token")


def _read_error(path: Path) -> str:
    try:
        path.read_bytes()
    except OSError as error:
        return error.strerror or ""
    return ""


@pytest.mark.slow
def test_a_token_of_20_seconds_and_a_mount_of_two_minutes(plane: Plane) -> None:
    times = _use_past(plane, 20, 120)
    renewed = (plane.folder / "mnt.log").read_text().count("the token was renewed")
    print(f"120 s with a token of 20 s: {times} reads, none failed, {renewed} renewals")
    assert renewed >= 5

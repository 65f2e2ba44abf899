"""A server with TLS, a full disk, a crowd, or settings that do not hold."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from serving import PATIENCE_S, Up, ops_batch, until


def make_certificate(folder: Path) -> None:
    """cert.pem and key.pem for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fairlead test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


def test_tls_and_who_speaks_none(tmp_path: Path) -> None:
    make_certificate(tmp_path)
    settings = (
        f'[collector]\ntls_certificate = "{tmp_path}/cert.pem"\ntls_key = "{tmp_path}/key.pem"\n'
        "[collector.limits]\nheader_s = 1.5\n"
    )
    with Up(tmp_path, settings, tls=True) as server:
        assert server.post(ops_batch(1)).json["taken"] == 1
        with server.raw() as sock:
            sock.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            assert not sock.recv(1000).startswith(b"HTTP")
        with server.raw() as sock:  # begins no handshake: cut off
            sock.settimeout(PATIENCE_S)
            with contextlib.suppress(ConnectionResetError):
                assert sock.recv(1000) == b""
        assert server.ask("GET", "/healthz").status == 200
        from fairlead.cli.main import main

        token = tmp_path / "token"
        token.write_text(server.token("reader"))
        url = f"https://127.0.0.1:{server.port}"
        assert main(
            ["server", "status", "--server", url, "--token", str(token), "--ca", str(tmp_path / "cert.pem")]
        ) in (0, 4)
        assert main(["server", "status", "--server", url, "--token", str(token)]) == 9


def test_two_hundred_connections_at_once(tmp_path: Path) -> None:
    with Up(tmp_path) as server:
        token = server.token()
        statuses: list[int] = []
        gate = threading.Barrier(200)

        def send(number: int) -> None:
            gate.wait(PATIENCE_S)
            body = b"".join(ops_batch(seq, node=f"n{number}", rows=10) for seq in range(1, 4))
            while True:
                answer = server.post(body, token=token)
                if answer.status != 429:
                    statuses.append(answer.status)
                    return

        threads = [threading.Thread(target=send, args=(number,)) for number in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert statuses == [200] * 200
        assert server.query("SELECT count(*) AS n, count(DISTINCT (node, file_id, handle)) AS d FROM ops") == [
            {"n": 6000, "d": 6000}
        ]
        assert server.health()["states"] == {"unmonitored": 200}


def test_back_pressure(tmp_path: Path) -> None:
    settings = "[collector.limits]\nbacklog_bytes = 2000\n[carry]\nevery_s = 3\n"
    with Up(tmp_path, settings) as server:
        answers = [server.post(ops_batch(seq, rows=50)) for seq in range(1, 30)]
        assert {answer.status for answer in answers} == {200, 429}
        assert int(next(a for a in answers if a.status == 429).headers["retry-after"]) >= 1
        assert until(lambda: server.post(ops_batch(100)).status == 200), "never took again"
        taken = sum(answer.status == 200 for answer in answers)
        assert server.query("SELECT count(*) AS n FROM ops")[0]["n"] == 50 * taken + 4


def _small_disk(folder: Path) -> str | None:
    """Why there can be none."""
    if os.geteuid() != 0:
        return "mounting a small disk needs root"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    return None if done.returncode == 0 else f"mount says: {done.stderr.strip()}"


@pytest.mark.parametrize("free_bytes", [0, 8 << 20])
def test_a_full_disk_takes_nothing_half(tmp_path: Path, free_bytes: int) -> None:
    why = _small_disk(tmp_path)
    if why is not None:
        pytest.skip(why)
    try:
        # What fills the disk comes while the server runs; with no reserve only writing itself finds out.
        settings = f"[collector.limits]\nfree_bytes = {free_bytes}\n[carry]\nevery_s = 600\n"
        with Up(tmp_path, settings) as server:
            assert server.post(ops_batch(1)).status == 200
            filler = tmp_path / "filler"
            with filler.open("wb") as file:
                left = os.statvfs(tmp_path)
                size = left.f_bavail * left.f_frsize - max(0, free_bytes - (1 << 20)) - 6000
                os.posix_fallocate(file.fileno(), 0, size)
            if free_bytes:
                assert until(lambda: server.health()["collector"]["free_bytes"] < free_bytes)
            noise = ops_batch(2, rows=4000, extra=_noise(4000))
            for _ in range(3):
                answer = server.post(noise)
                assert answer.status == 507, answer.body
                assert int(answer.headers["retry-after"]) > 0
            assert server.query("SELECT count(*) AS n FROM ops") == [{"n": 4}]
            assert any("full" in problem for problem in server.health()["collector"]["problems"]) or free_bytes == 0
            filler.unlink()
            assert until(lambda: server.post(noise).status == 200)
            assert server.post(noise).json["known"] == 1
            assert server.query("SELECT count(*) AS n FROM ops") == [{"n": 4004}]
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=False)


def _noise(rows: int) -> dict[str, object]:
    import random

    from fairlead.core.batches.encoding import encode_numbers

    chance = random.Random(5)
    return {"offset": encode_numbers([chance.getrandbits(60) for _ in range(rows)])}


def _says(tmp_path: Path, settings: str, *arguments: str, **environment: str) -> tuple[int, str]:
    file = tmp_path / "c.toml"
    file.write_text(settings)
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", "up", "--config", str(file), "--check", *arguments],
        text=True,
        capture_output=True,
        check=False,
        env={**os.environ, **environment},
    )
    return done.returncode, done.stderr


def test_it_does_not_begin_when_it_cannot(tmp_path: Path) -> None:
    code, said = _says(tmp_path, "[collector]\nlisten = ['tcp:nowhere']\n")
    assert code == 5
    assert "collector.listen" in said
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (tmp_path / "c.toml").write_text(
            f'[server]\nlake = "{tmp_path}/lake"\n[collector]\nlisten = ["tcp:127.0.0.1:{port}"]\n'
        )
        done = subprocess.run(
            [sys.executable, "-m", "fairlead", "up", "--config", str(tmp_path / "c.toml")],
            text=True,
            capture_output=True,
            check=False,
            timeout=PATIENCE_S,
        )
    assert done.returncode == 9
    assert f"tcp:127.0.0.1:{port}" in done.stderr


def test_a_lake_that_is_held_by_another_is_told(tmp_path: Path) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "something").touch()
    (tmp_path / "c.toml").write_text(
        f'[server]\nlake = "{tmp_path}/foreign"\nstate = "{tmp_path}/state"\n'
        '[collector]\nlisten = ["tcp:127.0.0.1:0"]\n[api]\non = false\n[analysis]\non = false\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", "up", "--config", str(tmp_path / "c.toml")],
        text=True,
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 9
    assert "is no lake" in done.stderr


def test_ready_and_the_watchdog_are_told_to_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "notify"))
        told.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "300000")
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
        seen: list[bytes] = []
        listening = threading.Thread(target=_listen, args=(told, seen), daemon=True)
        listening.start()
        with Up(tmp_path) as server:
            assert until(lambda: b"WATCHDOG=1" in b"\n".join(seen).partition(b"READY=1")[2])
            assert server.stop() == 0
        assert until(lambda: b"STOPPING=1" in b"\n".join(seen))
        listening.join(PATIENCE_S)


def _listen(told: socket.socket, seen: list[bytes]) -> None:
    while not seen or b"STOPPING=1" not in seen[-1]:
        seen.append(told.recv(4096))

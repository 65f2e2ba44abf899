"""`fairlead forwarder run` and `fairlead token` as programs: they start, say so, serve, and end clean."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from fairlead.cli.main import main
from waiting import PATIENCE_S
from wire_client import WireClient

FAIRLEAD = [sys.executable, "-m", "fairlead.cli.main"]


@contextmanager
def forwarder(*arguments):
    """A running `fairlead forwarder run`; yields the process and the addresses it said it is ready at."""
    process = subprocess.Popen([*FAIRLEAD, "forwarder", "run", *map(str, arguments)], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        ready = []
        for _ in range(arguments.count("--listen")):
            word, _, address = process.stderr.readline().strip().partition(" ")
            assert word == "ready", word + address + process.stderr.read()
            ready.append(address)
        yield process, ready
    finally:
        process.kill()
        process.wait(PATIENCE_S)
        process.stderr.close()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_bytes(b"content")
    return tmp_path / "tree"


def test_it_serves_until_it_is_told_to_end(folder, tmp_path) -> None:
    socket = tmp_path / "fw"
    with forwarder("--export", folder, "--listen", f"unix:{socket}", "--listen", "tcp:127.0.0.1:0") as (process, ready):
        assert ready[0] == f"unix:{socket}"
        for address in ready:
            with WireClient(address) as client:
                assert client.lookup(b"file").error == 0
                assert client.welcome.export == str(folder)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        assert not socket.exists()


def test_it_comes_back_where_one_was_killed_but_not_where_one_lives(folder, tmp_path) -> None:
    address = f"unix:{tmp_path / 'fw'}"
    with forwarder("--export", folder, "--listen", address) as (process, _):
        process.kill()
        process.wait(PATIENCE_S)
        assert (tmp_path / "fw").exists()
    with forwarder("--export", folder, "--listen", address):
        second = subprocess.run(
            [*FAIRLEAD, "forwarder", "run", "--export", folder, "--listen", address],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert second.returncode == 8
        assert "another forwarder listens there" in second.stderr
        with WireClient(address) as client:
            assert client.lookup(b"file").error == 0


def test_all_its_options_at_once(folder, tmp_path, capsys) -> None:
    key = tmp_path / "key"
    assert main(["token", "make-key", str(key)]) == 0
    capsys.readouterr()
    assert main(["token", "issue", "--key", str(key), "--user", str(os.geteuid()), "--job", "9", "--valid", "5m"]) == 0
    token = capsys.readouterr().out.strip()
    spool = tmp_path / "spool"
    with forwarder(
        *("--export", folder, "--listen", "tcp:127.0.0.1:0", "--token-key", key, "--workers", "2", "--spool", spool),
        *("--discipline", "job-fair,cap-job:0.5", "--read-ahead", "1M", "--cache", "16M", "--name", "fw1"),
        *("--grace", "1", "--sole", "--descriptors", "--allow", "root"),
    ) as (process, ready):
        with WireClient(ready[0], token=token) as client:
            assert client.welcome.forwarder == "fw1"
            assert client.announce(1, "9").error == 0
            assert client.lookup(b"file").error == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert list(spool.iterdir())


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--listen", "tcp:0.0.0.0:0"], 8, "--token-key"),
        (["--listen", "tls:127.0.0.1:0"], 2, "--tls-cert"),
        (["--listen", "ftp:x"], 2, "unix:PATH"),
        (["--listen", "unix:/nonexistent/folder/fw"], 8, "cannot listen"),
        (["--listen", "tcp:127.0.0.1:0", "--discipline", "none"], 5, "none"),
        (["--listen", "tcp:127.0.0.1:0", "--cache", "much"], 2, "not a size"),
        (["--listen", "tcp:127.0.0.1:0", "--token-key", "/nonexistent"], 3, "cannot be read"),
    ],
)
def test_what_is_wrong_is_said_with_the_next_step(folder, capsys, arguments, code, said) -> None:
    assert main(["forwarder", "run", "--export", str(folder), *arguments]) == code
    assert said in capsys.readouterr().err


def test_a_tree_that_is_not_there(capsys, tmp_path) -> None:
    assert main(["forwarder", "run", "--export", str(tmp_path / "x"), "--listen", "tcp:127.0.0.1:0"]) == 8
    assert "no directory" in capsys.readouterr().err


def test_a_wrong_age_of_a_token(capsys, tmp_path) -> None:
    assert main(["token", "make-key", str(tmp_path / "k")]) == 0
    assert main(["token", "issue", "--key", str(tmp_path / "k"), "--user", "1", "--valid", "soon"]) == 2
    assert "90m" in capsys.readouterr().err

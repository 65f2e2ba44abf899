"""Bad input at the commands of the forwarding plane: one message that names it, an exit code, never a traceback."""

from __future__ import annotations

import signal
import stat
from pathlib import Path

import pytest

from fairlead.cli.main import main
from fairlead.core.batches.spool import Spool
from fairlead.steer.forwarding.forwarder.run import list_run_end_signals
from fairlead.steer.fs.trees.directory import DirectoryTree

TARGETS = '[metadata]\nstore = "meta"\n[[targets]]\nname = "t0"\npath = "t0"\n'


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with something of each kind in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tree").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "t0").mkdir()
    (tmp_path / "targets.toml").write_text(TARGETS)
    (tmp_path / "pace.toml").write_text(TARGETS + 'max_perf = "1Q"\n')
    (tmp_path / "broken.map").write_text("c[001- tcp:fwd1:7420\n* tcp:fwd1:7420\n")
    (tmp_path / "kind.map").write_text("# all\n* http://fwd1\n")
    (tmp_path / "noise.map").write_bytes(b"\xff\xfe\x00")
    main(["token", "make-key", "key"])
    return tmp_path


FORWARDER = ["forwarder", "run", "--export", "tree", "--listen", "unix:socket"]


@pytest.mark.parametrize(
    ("call", "code", "said"),
    [
        ([*FORWARDER, "--grace", "nan"], 2, "not a number of seconds"),
        ([*FORWARDER, "--cache", "1Q"], 2, "not a size; write 4M"),
        ([*FORWARDER, "--cache", "99999T"], 2, "more than 1T"),
        ([*FORWARDER, "--read-ahead", "2G"], 2, "more than 1G"),
        ([*FORWARDER, "--tls-cert", "file"], 2, "no tls: address"),
        ([*FORWARDER, "--discipline", "fifo,rate-target:=5M"], 5, "nothing is named"),
        ([*FORWARDER, "--discipline", "fifo,pool:4711"], 5, "not JOB=POOL"),
        (["mount", "--local", "tree", "on", "--patience", "-1"], 2, "--patience"),
        (["mount", "--local", "tree", "on", "--patience", "nan"], 2, "not a number of seconds"),
        (["mount", "--map", "broken.map", "on"], 5, "broken.map:1: invalid host list"),
        (["mount", "--map", "kind.map", "on"], 5, "kind.map:2: no such kind of address"),
        (["mount", "--map", "noise.map", "on"], 5, "not UTF-8"),
        (["token", "issue", "--key", "key", "--valid", "0s"], 2, "--valid 0s"),
        (["token", "issue", "--key", "key", "--valid", "99999d"], 2, "3650d"),
        (["token", "issue", "--key", "key", "--user", "4294967295"], 2, "--user"),
        (["token", "issue", "--key", "absent"], 3, "absent: the key cannot be read: No such file"),
        (["token", "make-key", "absent/key"], 3, "choose an existing directory"),
        (["demo", "--html", "absent/page.html"], 2, "absent: cannot be written"),
        (["demo", "--keep", "file/below"], 2, "use another place with --keep"),
        (["tree", "show", "pace.toml"], 5, "max_perf of 't0'"),
        (["tree", "set-layout", "targets.toml", "/", "count=x"], 2, "count=x: not a number"),
        (["tree", "set-layout", "targets.toml", "/", "size=99999T"], 2, "more than 1T"),
        (["tree", "set-layout", "targets.toml", "/", "pool=none"], 2, "no target is in the pool 'none'"),
        (["tree", "set-layout", "targets.toml", "/absent", "count=1"], 3, "no such path in the tree"),
    ],
)
def test_is_named_with_what_to_do(
    place: Path, capsys: pytest.CaptureFixture[str], call: list[str], code: int, said: str
) -> None:
    (place / "on").mkdir()
    capsys.readouterr()
    assert main(call) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "→" in err


@pytest.mark.parametrize("destination", ["file", "file/below", "tree"])
def test_a_tree_is_exported_into_an_empty_folder_only(
    place: Path, capsys: pytest.CaptureFixture[str], destination: str
) -> None:
    (place / "tree" / "used").touch()
    assert main(["tree", "set-layout", "targets.toml", "/", "count=1"]) == 0  # makes the store
    assert main(["tree", "export", "targets.toml", destination]) == 3
    assert "give a new or empty directory" in capsys.readouterr().err


def test_a_spool_made_while_a_tree_is_served_is_not_writable_by_all(tmp_path: Path) -> None:
    tree = DirectoryTree(str(tmp_path))
    try:
        Spool(tmp_path / "var" / "spool", node="n", writer="forwarder:f", layer="forwarder")
    finally:
        tree.close()
    for folder in (tmp_path / "var", tmp_path / "var" / "spool"):
        assert stat.S_IMODE(folder.stat().st_mode) & 0o022 == 0


def test_a_closed_terminal_ends_a_service_unless_nohup_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_DFL)
    assert list_run_end_signals() == (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_IGN)
    assert list_run_end_signals() == (signal.SIGTERM, signal.SIGINT)


def test_a_disk_that_is_not_mounted_is_not_taken_for_a_new_target(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tree", "show", "targets.toml"]) == 0
    out, err = capsys.readouterr()
    assert "new" in out
    assert err == ""
    assert main(["tree", "set-layout", "targets.toml", "/", "count=1"]) == 0  # makes the store
    (place / "t0").rename(place / "disk")
    (place / "t0").mkdir()
    capsys.readouterr()
    assert main(["tree", "show", "targets.toml"]) == 0
    out, err = capsys.readouterr()
    assert "missing" in out
    assert err == ""

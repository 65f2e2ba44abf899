"""The commands that ask, of a lake and of a server: the same answers, tables that fit, errors with a next step."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from fairlead.cli.main import main
from fairlead.cli.pictures import GAP, IDLE, draw_bar_picture, draw_heat_picture, draw_line_picture, shrink_picture_line
from fairlead.core.access.tokens import Claims, issue_token
from fairlead.explain.questions.question_catalog import Asking
from fairlead.show.web.api.app import build_api_app
from fairlead.show.web.api.settings import ApiSettings
from fairlead.store.lake import Lake
from questions_site import NOW, S, build
from waiting import PATIENCE_S

KEY = b"k" * 32
AT = ["--to", "2024-10-04T10:10"]
COMMANDS = [
    ["job", "list"],
    ["job", "list", "--sort", "bytes", "--last", "1h"],
    ["job", "show", "100", "--last", "1d"],
    ["system", "show"],
    ["node", "show", "n3"],
    ["target", "list"],
    ["target", "show", "OST0"],
    ["target", "utilisation"],
    ["mds", "show"],
    ["mds", "show", "MDT2"],
    ["forwarder", "list"],
    ["forwarder", "show", "f1"],
    ["system", "space"],
    ["system", "network"],
    ["system", "devices"],
    ["job", "behaviour"],
    ["job", "behaviour", "--user", "alice", "--last", "1d"],
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cli") / "lake"
    build(root)
    return root


@pytest.fixture(scope="module")
def server(lake: Path) -> Iterator[str]:
    app = build_api_app(Asking(Lake.open(lake)), ApiSettings(key=KEY, warm=False))
    running = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 900
    while not running.started:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    port = running.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    running.should_exit = True
    thread.join(PATIENCE_S)


@pytest.fixture
def reader(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(issue_token(KEY, Claims(expires_s=2**40, role="reader", user="alice")) + "\n")
    return path


@pytest.fixture
def operator(tmp_path: Path) -> Path:
    path = tmp_path / "operator"
    path.write_text(issue_token(KEY, Claims(expires_s=2**40, role="operator")))
    return path


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(arguments)
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_tables_fit_the_terminal(
    command: list[str], width: int, lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, _ = run([*command, *AT, "--lake", str(lake)], capsys)
    assert code == 0
    assert max(len(row.rstrip()) for row in out.splitlines()) <= width
    assert len(out.splitlines()) >= 2


@pytest.mark.parametrize("command", [*COMMANDS, ["probe", "list"]], ids=" ".join)
def test_json_is_the_same_of_a_lake_and_of_a_server(
    command: list[str], lake: Path, server: str, operator: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    when = [] if "probe" in command else AT
    code, here, _ = run([*command, *when, "--json", "--lake", str(lake)], capsys)
    assert code == 0
    code, there, _ = run([*command, *when, "--json", "--server", server, "--token", str(operator)], capsys)
    assert code == 0
    a, b = json.loads(here), json.loads(there)
    assert a["schema"].startswith("fairlead.")
    for document in (a, b):
        document.pop("now_ns", None)
    assert a == b


def test_what_the_tables_say(lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    _, out, _ = run(["job", "list", *AT, "--lake", str(lake), "--sort", "bytes"], capsys)
    [_, first, second] = out.splitlines()
    assert re.search(r"100 +alice +wrf +completed .* 1\.2 GiB", first)
    assert re.search(r"101 +bob +gkua +running .*960 MiB", second)
    _, out, _ = run(["mds", "show", "MDT2", *AT, "--lake", str(lake)], capsys)
    assert "1,200 ops/s" in out
    assert re.search(r"101 +bob +gkua +900 +75 %", out)
    _, out, _ = run(["node", "show", "n3", *AT, "--lake", str(lake)], capsys)
    assert "no data from 2024-10-04 10:04:00 UTC until now: no word from n3" in out


def test_an_unknown_name_is_an_error_with_the_likes_of_it(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(["job", "show", "10", "--lake", str(lake)], capsys)
    assert (code, out) == (2, "")
    assert "no job '10' is known" in err
    assert "100" in err
    assert run(["target", "show", "ost1", *AT, "--lake", str(lake)], capsys)[2].count("OST1") == 1


@pytest.mark.parametrize(
    "wrong",
    [["--last", "soon"], ["--from", "now", "--to", "-1h"], ["--from", "-1h", "--last", "2h"], ["--last", "900d"]],
    ids=" ".join,
)
def test_wrong_times_are_said_so(wrong: list[str], lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(["job", "list", *wrong, "--lake", str(lake)], capsys)
    assert code == 2
    assert "→" in err


def test_no_lake_no_server_no_token(
    lake: Path, server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["job", "list", "--lake", str(tmp_path / "none")], capsys)[0] == 7
    code, _, err = run(["job", "list", "--server", "http://127.0.0.1:1"], capsys)
    assert code == 9
    assert "the server does not respond" in err
    code, _, err = run(["job", "list", "--server", server], capsys)
    assert code == 8
    assert "a token is needed" in err
    assert run(["job", "list", "--server", server, "--lake", str(lake)], capsys)[0] == 2
    assert run(["job", "list", "--server", "ftp://x"], capsys)[0] == 2
    assert run(["job", "list", "--server", server, "--token", str(tmp_path / "none")], capsys)[0] == 3


def test_a_readers_token_shows_own_jobs_only(server: str, reader: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--server", server, "--token", str(reader)]
    _, out, _ = run(["job", "list", *AT, *given], capsys)
    assert "alice" in out
    assert "bob" not in out
    code, _, err = run(["job", "show", "101", *given], capsys)
    assert code == 2
    assert "no job '101' is known" in err


def test_names_cannot_play_with_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from questions_site import MIB, accounts, ops, put

    lake = Lake.open(tmp_path / "lake", create=True)
    evil = {
        "job_id": "1",
        "user": "\x1b[31mroot\n",
        "program": "\x1b]0;x\x07",
        "nodes": ["n1"],
        "start_ns": NOW - 60 * S,
    }
    put(lake, accounts(evil), ops("1", "n1", 540, 600, MIB))
    for command in (["job", "list"], ["job", "show", "1"], ["node", "show", "n1"]):
        _, out, _ = run([*command, *AT, "--lake", str(tmp_path / "lake")], capsys)
        assert "\x1b" not in out
        assert "\x07" not in out


# -- pictures ----------------------------------------------------------------------------------------------------------


def test_a_gap_an_idle_time_and_a_load_look_different() -> None:
    drawn = draw_line_picture([None, 0.0, 0.001, 50.0, 100.0], 5).plain
    assert drawn[:2] == GAP + IDLE
    assert len(set(drawn)) == 5
    assert draw_line_picture([], 5).plain == ""
    assert set(draw_line_picture([0.0] * 9, 3).plain) == {IDLE}


def test_squeezing_keeps_means_and_gaps() -> None:
    assert shrink_picture_line([1.0, 3.0, None, None, 5.0, None], 3) == [2.0, None, 5.0]
    assert shrink_picture_line([1.0, 2.0], 5) == [1.0, 2.0]


def test_bars_and_heat_without_colours() -> None:
    assert draw_bar_picture(0.5, 10).plain == "█" * 5
    assert draw_bar_picture(1e-9, 10).plain == "▏"
    assert draw_bar_picture(None, 10).plain == GAP
    assert draw_heat_picture(["idle", "low", "mid", "high", None], 1).plain == "-lmH·"


def test_a_terminal_without_these_signs_gets_plain_ones(lake: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", "node", "show", "n3", *AT, "--lake", str(lake)],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "80"},
    )
    assert done.stdout.isascii()
    assert b"no data from" in done.stdout


# -- top ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake in which two jobs move data now, one more than the other; and a target."""
    from fairlead.core.model.tables import ROLLUP, build_table_batch
    from questions_site import MIB, accounts, put

    now = time.time_ns() // S * S
    root = tmp_path_factory.mktemp("top") / "lake"
    lake = Lake.open(root, create=True)
    seconds = [now - (k + 1) * S for k in range(240)]

    def moving(kind: str, name: str, layer: str, size: int) -> object:
        n = len(seconds)
        return build_table_batch(
            ROLLUP,
            {
                "ts_ns": seconds,
                "interval_ns": [S] * n,
                "kind": [kind] * n,
                "id": [name] * n,
                "layer": [layer] * n,
                "read_bytes": [0] * n,
                "write_bytes": [size] * n,
                "metadata_ops": [size // MIB] * n,
            },
        )

    put(
        lake,
        accounts(*({"job_id": j, "user": f"user-{j}", "nodes": ["n"], "start_ns": now - 600 * S} for j in ("1", "2"))),
        moving("job", "1", "client", MIB),
        moving("job", "2", "client", 3 * MIB),  # type: ignore[arg-type]
        moving("target", "OST7", "target", 2 * MIB),
        moving("mds", "MDT5", "metadata", 7 * MIB),  # type: ignore[arg-type]
    )
    return root


def test_top_in_a_pipe_is_one_screen(live: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(["top", "--lake", str(live), "--last", "4m"], capsys)
    assert code == 0
    rows = [row for row in out.splitlines() if "user-" in row]
    assert [row.split()[0] for row in rows] == ["2", "1"]
    assert "75 %" in rows[0]
    assert "\x1b" not in out
    assert "OST7" in run(["top", "--once", "--by", "targets", "--lake", str(live), "--last", "4m"], capsys)[1]
    assert "metadata ops/s" in run(["top", "--by", "mds", "--last", "4m", "--lake", str(live)], capsys)[1]


class Terminal:
    """`fairlead top` on a pseudo-terminal; the screen is what was written last."""

    def __init__(self, arguments: list[str]) -> None:
        import fcntl
        import struct
        import termios

        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self.before = termios.tcgetattr(slave)
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "", "LINES": ""}
        environment = {k: v for k, v in environment.items() if v or k not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fairlead", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self.slave = slave
        self.text = io.StringIO()

    def until(self, pattern: str) -> str:
        """Reads on until what came since the last call matches."""
        deadline = time.monotonic() + 900
        seen = ""
        while not re.search(pattern, seen):
            assert time.monotonic() < deadline, seen[-3000:]
            assert self.process.poll() is None, self.process.stderr.read()  # type: ignore[union-attr]
            if select.select([self.master], [], [], 0.2)[0]:
                seen += os.read(self.master, 65536).decode("utf-8", "replace")
        return seen

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def end(self) -> None:
        import termios

        deadline = time.monotonic() + 900
        while self.process.poll() is None:
            assert time.monotonic() < deadline
            if select.select([self.master], [], [], 0.1)[0]:
                self.text.write(os.read(self.master, 65536).decode("utf-8", "replace"))
        assert termios.tcgetattr(self.slave)[3] == self.before[3], "the terminal is as before"
        os.close(self.master)
        os.close(self.slave)
        assert self.process.stderr is not None
        self.process.stderr.close()


def test_top_on_a_terminal(live: Path) -> None:
    terminal = Terminal(["top", "--lake", str(live), "--last", "4m", "--interval", "0.3"])
    try:
        first = terminal.until(r"user-2")
        assert "\x1b[?1049h" in first, "its own screen"
        terminal.press("s")
        terminal.until(r"by read")
        terminal.press("o")
        terminal.until(r"OST7")
        terminal.press("m")
        terminal.until(r"metadata ops/s")
        terminal.press("j")
        refreshed = terminal.until(r"user-2")
        assert "\x1b[2J" not in refreshed, "a screen that is cleared flickers"
        terminal.press("\x1b[B")
        terminal.press("q")
        terminal.end()
        assert terminal.process.returncode == 0
        assert "\x1b[?1049l" in terminal.text.getvalue()
    finally:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()

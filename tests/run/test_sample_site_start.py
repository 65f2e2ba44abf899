"""`fairlead up --sample-site`: a port in use is said before the lake is filled, and a pipe shows how far filling is."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.cli.history import show_history_progress


@pytest.mark.parametrize("part", ["api", "collector"])
def test_a_port_in_use_is_said_before_anything_is_filled(part: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"tcp:127.0.0.1:{taken.getsockname()[1]}"
        words = ["up", "--sample-site", "--state", str(tmp_path / "site"), "--set", f"{part}.listen={address}"]
        done = subprocess.run(
            [sys.executable, "-m", "fairlead", *words],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode not in (0, 1)
    assert f"{address}: cannot listen" in done.stderr
    assert f"--set {part}.listen=tcp:127.0.0.1:0" in done.stderr
    assert not (tmp_path / "site").exists()


def test_progress_in_a_pipe_is_a_line_for_each_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    with show_history_progress("sample site", lines=True) as done:
        assert done is not None
        for number in range(41):
            done(number, 40)
    assert capsys.readouterr().err.splitlines() == [f"sample site: {tenth} %" for tenth in range(10, 101, 10)]

"""`fairlead seff`: the figures of the stored summary, by lake and by server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fairlead.cli.main import main
from fairlead.core.model.tables import JOB_SUMMARY, JOBS
from fairlead.store.lake import Lake
from serving import Up

S = 1_000_000_000
T0 = 1_795_000_000 * S
LINE = "fairlead: read 0 B, written 3 GiB, metadata ops 10, I/O time 25 %, writes at 12 MiB/s"


def _fill(root: Path, *numbers: str, shard: str = "main") -> None:
    """Jobs of 100 s on two processes, which wrote 3 GiB for 50 s in all; and one the analysis has not seen."""
    lake = Lake.open(root, create=True)
    job = {"cluster": "mini", "start_ns": T0, "end_ns": T0 + 100 * S, "user": "ada", "nodes_count": 1, "cores": 2}
    summary: dict[str, Any] = {
        "io_processes": 2,
        "read_bytes": 0,
        "write_bytes": 3 << 30,
        "metadata_ops": 10,
        "write_time_ns": 50 * S,
        "metadata_time_ns": 0,
        "write_bandwidth_bytes_per_s": 12.0 * (1 << 20),
        "basis": "mount",
        "made_ns": T0 + 101 * S,
        "analysis_version": 1,
    }
    jobs = [job | {"job_id": number, "state": "COMPLETED"} for number in (*numbers, "unseen")]
    with lake.open_writer(shard) as writer:
        batch = writer.open_batch("one")
        batch.add(pa.Table.from_pylist(jobs, JOBS.schema))
        rows = [job | summary | {"job_id": number} for number in numbers]
        batch.add(pa.Table.from_pylist(rows, JOB_SUMMARY.schema))
        batch.commit()


def test_the_figures_are_those_of_the_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _fill(tmp_path / "lake", "7")
    where = ["--lake", str(tmp_path / "lake")]
    assert main(["seff", "7", "--line", *where]) == 0
    assert capsys.readouterr().out == LINE + "\n"
    assert main(["seff", "7", *where]) == 0
    text = capsys.readouterr().out
    assert "Written           3 GiB, 12 MiB/s in phases" in text
    assert "CPU efficiency    unknown" in text
    assert "Time in I/O       25 % of its processes' time" in text
    assert main(["seff", "7", "--json", *where]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(["job", "show", "7", "--json", *where]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert found["summary"] == shown["summary"]
    assert found["job"]["sums"] == shown["summary"]["sums"]


def test_what_is_unknown_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _fill(tmp_path / "lake", "7")
    where = ["--lake", str(tmp_path / "lake")]
    assert main(["seff", "unseen", "--line", *where]) == 0
    line = capsys.readouterr().out
    assert line == "fairlead: read unknown, written unknown, metadata ops unknown, I/O time unknown (so far)\n"
    assert main(["seff", "8", *where]) == 2
    assert "no job '8' is known" in capsys.readouterr().err


def test_a_server_is_asked_without_loading_the_lake(tmp_path: Path) -> None:
    with Up(tmp_path, '[api]\nlisten = ["tcp:127.0.0.1:0"]\n') as up:
        _fill(up.lake, "7", shard="beside")
        told = json.loads((up.state / "addresses.json").read_text())
        address = "http://" + str(told["api"][0]).partition(":")[2]
        program = (
            "import sys; from fairlead.cli.main import main; code = main(sys.argv[1:]);"
            "heavy = {'pyarrow', 'duckdb', 'numpy', 'rich'} & set(sys.modules);"
            "print(*heavy, file=sys.stderr, end=''); sys.exit(code)"
        )
        words = ["seff", "7", "--line", "--server", address, "--token", str(up.state / "operator.token")]
        done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, LINE + "\n", "")

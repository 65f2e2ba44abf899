"""The sample site: a short month in a lake of its own, found out by the real analysis, and compared with its truth."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fairlead.core import clock
from fairlead.core.errors import ConfigError, InputError
from fairlead.kit.sample import site as sample_site
from fairlead.kit.sample.month import Month, build_sample_month, find_month_origin
from fairlead.kit.sample.month_records import build_month_records
from fairlead.run.config import load_config
from fairlead.store.lake import Lake
from fairlead.store.rollups import derive_rollups

NS = 1_000_000_000
DAYS, JOBS = 2, 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sample site of two days."""
    made = tmp_path_factory.mktemp("sample") / "site"
    sample_site.prepare_sample_site(made, clock.now_ns(), days=DAYS, jobs_a_day=JOBS)
    return made


def rows(folder: Path, sql: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = Lake.open(folder / "lake").query(sql).to_pylist()
    return found


def test_the_diagnosis_names_who_is_to_blame(folder: Path) -> None:
    truth = json.loads((folder / "truth.json").read_text())
    story = truth["labels"][0]
    [victim] = story["victims"]
    assert truth["simulated"]
    assert victim["cost_s"] > 60
    [told] = rows(
        folder,
        f"SELECT culprits, cost_s, \"user\" FROM finding WHERE job_id = '{victim['job_id']}'"  # noqa: S608
        " AND rule = 'job.interference' AND NOT coalesce(withdrawn, false)",
    )
    assert told["culprits"] == [f"job:{story['culprit']}"]
    assert told["user"] == "alice"
    assert told["cost_s"] == pytest.approx(victim["cost_s"], rel=0.5)


def test_a_sick_target_has_an_open_incident(folder: Path) -> None:
    sick = json.loads((folder / "truth.json").read_text())["labels"][-1]["component"]
    found = rows(folder, "SELECT component, to_ns FROM incident WHERE NOT coalesce(withdrawn, false)")
    assert {"component": sick, "to_ns": None} in found


def test_every_layer_has_records_and_one_agent_is_silent(folder: Path) -> None:
    for table in (
        "ops",
        "files",
        "forwarder",
        "pfs_client",
        "target",
        "metadata",
        "port",
        "device",
        "jobs",
        "mapping",
        "health",
        "usage",
        "rollup",
        "job_summary",
        "phase",
        "profile",
    ):
        assert rows(folder, f"SELECT count(*) AS n FROM {table}")[0]["n"], table  # noqa: S608
    [last] = rows(folder, "SELECT max(ts_ns) AS at FROM health WHERE node = 'cn00042'")
    [any_] = rows(folder, "SELECT max(ts_ns) AS at FROM health")
    assert int(str(any_["at"])) - int(str(last["at"])) > 4 * 3600 * NS


def test_a_fresh_one_is_used_again_and_an_old_one_is_not(folder: Path) -> None:
    said: list[str] = []
    again = sample_site.prepare_sample_site(folder, clock.now_ns(), days=DAYS, jobs_a_day=JOBS, say=said.append)
    assert again.filled_ns is not None
    assert "used again" in said[0]


def test_no_other_folder_is_touched(tmp_path: Path) -> None:
    theirs = tmp_path / "mine"
    Lake.open(theirs, create=True)
    before = sorted(path.name for path in theirs.iterdir())
    with pytest.raises(InputError, match="no sample site"):
        sample_site.prepare_sample_site(theirs, clock.now_ns())
    assert sorted(path.name for path in theirs.iterdir()) == before


def test_no_other_lake_can_be_named(tmp_path: Path) -> None:
    config, _ = load_config(None, environment={}, flags=[f"server.lake={tmp_path}"])
    with pytest.raises(ConfigError, match="lake of its own"):
        sample_site.adapt_sample_site_config(config, tmp_path)
    marked = sample_site.adapt_sample_site_config(load_config(None, environment={})[0], tmp_path)
    assert marked.web.simulated


@pytest.fixture(scope="module")
def short() -> Month:
    return build_sample_month(find_month_origin(1_795_000_000 * NS, 1), days=1, jobs_a_day=20, ahead_days=0.2)


def test_the_same_month_is_the_same_wherever_it_is_cut(short: Month) -> None:
    whole = derive_rollups(build_month_records(short, 30_000, 40_000))["rollup"]
    parts = [
        derive_rollups(build_month_records(short, a, b))["rollup"] for a, b in ((30_000, 36_000), (36_000, 40_000))
    ]
    for column in ("read_bytes", "write_bytes", "metadata_ops"):
        total = sum(int(np.nansum(part[column].to_numpy(zero_copy_only=False))) for part in parts)
        assert int(np.nansum(whole[column].to_numpy(zero_copy_only=False))) == total, column


def test_nodes_are_rarely_given_twice(short: Month) -> None:
    held = sorted((int(n), job.start_s, job.end_s) for job in short.play.course.jobs for n in job.nodes)
    twice = sum(a[0] == b[0] and b[1] < a[2] for a, b in pairwise(held))
    assert twice < 0.1 * len(held)


@pytest.fixture
def server(folder: Path) -> Iterator[subprocess.Popen[str]]:
    state = msgspec.json.decode((folder / "sample-site.json").read_bytes(), type=sample_site.Sample)
    code = (
        "import sys; from pathlib import Path; from fairlead.kit.sample import site as s; from fairlead.run import up;"
        " from fairlead.run.config import load_config, resolve_config; import msgspec;"
        " f = Path(sys.argv[1]); one = msgspec.json.decode(sys.argv[2], type=s.Sample);"
        " c = load_config(None, environment={}, flags=['api.listen=tcp:127.0.0.1:0'])[0];"
        " c = resolve_config(s.adapt_sample_site_config(c, f));"
        " a = s.keep_sample_site_alive(f, one); a.__enter__();"
        " up.bring_up_server(c, lambda t: print(t, flush=True), lambda: None); a.__exit__(None, None, None)"
    )
    command = [sys.executable, "-c", code, str(folder), msgspec.json.encode(state).decode()]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    ) as process:
        yield process
        process.send_signal(signal.SIGTERM)
        process.wait(900)


def test_it_stays_alive(folder: Path, server: subprocess.Popen[str]) -> None:
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("sign in: "):
            break
    before = rows(folder, "SELECT max(ts_ns) AS at FROM health")[0]["at"]
    until = clock.monotonic_s() + 900
    while clock.monotonic_s() < until:
        if int(str(rows(folder, "SELECT max(ts_ns) AS at FROM health")[0]["at"])) > int(str(before)):
            break
        clock.sleep_s(0.5)
    else:
        pytest.fail("nothing new came at all")
    os.kill(server.pid, 0)

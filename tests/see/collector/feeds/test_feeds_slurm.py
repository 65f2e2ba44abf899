"""The Slurm feed on commands that print what Slurm does, and the hook script itself under a POSIX shell."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from fairlead.core.errors import InputError, MissingDependencyError
from fairlead.see.collector.feeds.commands import run_feed_command
from fairlead.see.collector.feeds.settings import Slurm
from fairlead.see.collector.feeds.slurm import COLUMNS, SlurmFeed
from fairlead.see.sources.slurm.hooks import group_hook_calls, parse_hook_call
from feed_sinks import MemorySink, files_below

NS = 1_000_000_000
HOOK = Path(__file__).resolve().parents[4] / "deploy" / "slurm" / "fairlead-prolog.sh"
STOP = threading.Event()


class FakeSlurm:
    """Commands that print files; the files are what Slurm would say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked = folder / "asked"
        for name in ("sacct", "squeue"):
            program = folder / name
            program.write_text(
                f'#!/bin/sh\necho "{name} $SLURM_TIME_FORMAT $*" >> {self.asked}\n'
                f"if [ -f {folder}/{name}.fail ]; then cat {folder}/{name}.fail >&2; exit 1; fi\n"
                f"cat {folder}/{name}.out\n"
            )
            program.chmod(0o755)
        self.accounts([])
        self.queue([])

    def accounts(self, rows: list[dict[str, Any]]) -> None:
        lines = ["|".join(COLUMNS)]
        lines += ["|".join(str(row.get(name, "")) for name in COLUMNS) for row in rows]
        (self.folder / "sacct.out").write_text("\n".join(lines) + "\n")

    def queue(self, jobs: list[dict[str, Any]]) -> None:
        (self.folder / "squeue.out").write_text(json.dumps({"meta": {"Slurm": {}}, "jobs": jobs}))

    def settings(self, **options: Any) -> Slurm:
        return Slurm(**{"sacct": [str(self.folder / "sacct")], "squeue": [str(self.folder / "squeue")], **options})


def account(
    job: str, state: str, start: int | str = 100_000, end: int | str = "Unknown", **more: Any
) -> dict[str, Any]:
    return {
        "JobID": job,
        "JobIDRaw": job,
        "Cluster": "c",
        "JobName": "a",
        "User": "ann",
        "Submit": 99_990,
        "Start": start,
        "End": end,
        "State": state,
        "AllocNodes": 2,
        "AllocCPUS": 8,
        "NodeList": "n[1-2]",
        **more,
    }


def queued(job: int, state: str = "RUNNING", start: int = 100_000) -> dict[str, Any]:
    return {
        "job_id": job,
        "cluster": "c",
        "job_state": state,
        "name": "a",
        "user_name": "ann",
        "start_time": start,
        "end_time": start + 3600,
        "submit_time": 99_990,
        "nodes": "n[1-2]",
        "node_count": 2,
        "cpus": 8,
    }


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    folder = tmp_path / "bin"
    folder.mkdir()
    return FakeSlurm(folder)


def look(feed: SlurmFeed, sink: MemorySink, folder: Path, *, squeue: bool = False, sacct: bool = False) -> None:
    """One look, with the questions due that are named and no other, unless hooks make them so."""
    far = 1e18
    feed._due_squeue = 0.0 if squeue else far
    feed._due_sacct = 0.0 if sacct else far
    feed.look(sink, STOP, folder)


def test_a_job_is_told_when_it_runs_and_when_it_ends(slurm: FakeSlurm, tmp_path: Path) -> None:
    sink = MemorySink()
    feed = SlurmFeed(slurm.settings())
    slurm.queue([queued(7), queued(8, "PENDING", 0)])
    look(feed, sink, tmp_path, squeue=True)
    look(feed, sink, tmp_path, squeue=True)
    (row,) = sink.rows("jobs")
    assert (row["cluster"], row["job_id"], row["start_ns"], row["end_ns"]) == ("c", "7", 100_000 * NS, None)
    assert (row["state"], row["nodes"], row["cores"]) == ("RUNNING", ["n1", "n2"], 8)
    slurm.queue([])
    slurm.accounts(
        [
            account("7", "COMPLETED", end=100_050),
            account("7.batch", "COMPLETED", NTasks=4),
            account("8", "CANCELLED by 5", start="Unknown", NodeList="None assigned"),
        ]
    )
    feed._asked_sacct = -10.0
    look(feed, sink, tmp_path, squeue=True)  # the job is gone from the queue: accounting is asked at once
    rows = sink.rows("jobs")
    assert [(row["end_ns"], row["state"], row["processes"]) for row in rows[1:]] == [(100_050 * NS, "COMPLETED", 4)]
    assert sink.healths[-1] == ("slurm", "ok", "0 jobs run")
    look(feed, sink, tmp_path, sacct=True)
    assert len(sink.rows("jobs")) == 2


def test_states_between_do_not_stay(slurm: FakeSlurm, tmp_path: Path) -> None:
    """The lake keeps one row a run: a word for what passes must not tie with the one that lasts."""
    sink = MemorySink()
    feed = SlurmFeed(slurm.settings())
    slurm.queue([queued(7, "CONFIGURING"), queued(8, "COMPLETING")])
    look(feed, sink, tmp_path, squeue=True)
    assert [(row["job_id"], row["state"]) for row in sink.rows("jobs")] == [("7", "RUNNING")]


def test_questions_overlap_and_ask_for_epoch_seconds(slurm: FakeSlurm, tmp_path: Path) -> None:
    sink = MemorySink()
    state = str(tmp_path / "state")
    feed = SlurmFeed(slurm.settings(back_s=5000, overlap_s=600), state)
    look(feed, sink, tmp_path, sacct=True)
    look(feed, sink, tmp_path, sacct=True)
    again = SlurmFeed(slurm.settings(back_s=5000, overlap_s=600), state)
    look(again, sink, tmp_path, sacct=True)
    lines = slurm.asked.read_text().splitlines()
    backs = [int(line.partition("--starttime=now-")[2].split()[0]) for line in lines]
    assert backs[0] == 5001
    assert all(600 <= back < 700 for back in backs[1:])
    assert all(line.startswith("sacct %s ") and "--duplicates" in line and "--allusers" in line for line in lines)


def test_requeued_array_and_heterogeneous_jobs(slurm: FakeSlurm, tmp_path: Path) -> None:
    sink = MemorySink()
    slurm.accounts(
        [
            account("7", "REQUEUED", end=100_010),
            account("7", "COMPLETED", start=100_020, end=100_030),
            account("9_1", "COMPLETED", end=100_040, JobIDRaw="10"),
            account("9_[2-5]", "PENDING", start="Unknown"),
            account("11+0", "COMPLETED", end=100_040, JobIDRaw="11"),
            account("11+1", "FAILED", end=100_040, JobIDRaw="12"),
        ]
    )
    look(SlurmFeed(slurm.settings(cluster="west")), sink, tmp_path, sacct=True)
    assert [(row["cluster"], row["job_id"], row["start_ns"] // NS, row["state"]) for row in sink.rows("jobs")] == [
        ("west", "7", 100_000, "REQUEUED"),
        ("west", "7", 100_020, "COMPLETED"),
        ("west", "10", 100_000, "COMPLETED"),
        ("west", "11", 100_000, "COMPLETED"),
        ("west", "12", 100_000, "FAILED"),
    ]


def test_faults_are_health_and_do_not_stop_the_other_question(slurm: FakeSlurm, tmp_path: Path) -> None:
    sink = MemorySink()
    (slurm.folder / "squeue.fail").write_text("slurm_load_jobs error: Unable to contact slurm controller\n")
    slurm.accounts([account("7", "COMPLETED", end=100_010)])
    feed = SlurmFeed(slurm.settings())
    look(feed, sink, tmp_path, squeue=True, sacct=True)
    assert len(sink.rows("jobs")) == 1
    assert sink.healths[-1][1] == "failing"
    assert "Unable to contact slurm controller" in sink.healths[-1][2]
    (slurm.folder / "squeue.fail").unlink()
    look(feed, sink, tmp_path, squeue=True)
    assert sink.healths[-1][1] == "ok"
    (slurm.folder / "squeue.out").write_text("not json")
    look(feed, sink, tmp_path, squeue=True)
    assert sink.healths[-1][1] == "failing"


def test_a_lake_that_takes_nothing_loses_no_job(slurm: FakeSlurm, tmp_path: Path) -> None:
    sink = MemorySink()
    slurm.accounts([account("7", "COMPLETED", end=100_010)])
    feed = SlurmFeed(slurm.settings())
    sink.failures, sink.fail_after = 1, True
    look(feed, sink, tmp_path, sacct=True)
    assert sink.healths[-1][1] == "failing"
    slurm.accounts([account("7", "COMPLETED", end=100_010), account("8", "FAILED", end=100_020)])
    look(feed, sink, tmp_path, sacct=True)
    assert [row["job_id"] for row in sink.rows("jobs")] == ["7", "8"]


def hook(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(HOOK)],
        env={"PATH": os.environ["PATH"], "FAIRLEAD_HOOKS": str(folder), **environment},
        capture_output=True,
        text=True,
        check=True,
    )


BEGIN = {
    "SLURM_JOB_ID": "7",
    "SLURM_SCRIPT_CONTEXT": "prolog_slurmctld",
    "SLURM_CLUSTER_NAME": "c",
    "SLURM_JOB_USER": "ann",
    "SLURM_JOB_PARTITION": "main",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_JOB_ACCOUNT": "(null)",
    "SLURM_JOB_NAME": "a b; rm=1\nx",
}
END = BEGIN | {"SLURM_SCRIPT_CONTEXT": "epilog_slurmctld"}


def test_the_hook_never_fails_a_job_and_writes_one_whole_line(tmp_path: Path) -> None:
    assert hook(tmp_path / "absent", **BEGIN).stdout == ""
    assert hook(tmp_path).returncode == 0
    assert not files_below(tmp_path)
    assert hook(tmp_path, **BEGIN).stderr == ""
    (name,) = files_below(tmp_path)
    text = (tmp_path / name).read_text()
    call = parse_hook_call(text)
    assert call is not None
    assert text.count("\n") == 1
    assert (call.job_id, call.ends, call.nodes) == ("7", False, ["n1", "n2"])
    assert (call.values["user"], call.values["name"]) == ("ann", "a_b__rm_1_x")
    assert "account" not in call.values
    hook(tmp_path, **END)
    calls = [parse_hook_call((tmp_path / name).read_text()) for name in files_below(tmp_path)]
    (job,) = group_hook_calls([call for call in calls if call is not None])
    assert job.start_ns is not None
    assert job.end_ns is not None
    assert job.start_ns <= job.end_ns
    old = {key: value for key, value in BEGIN.items() if key != "SLURM_SCRIPT_CONTEXT"}
    hook(tmp_path, **old, SLURM_JOB_EXIT_CODE2="0:0")
    assert len([name for name in files_below(tmp_path) if ".epilog." in name]) == 2


def test_a_hook_makes_slurm_be_asked_at_once(slurm: FakeSlurm, tmp_path: Path) -> None:
    sink = MemorySink()
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    feed = SlurmFeed(slurm.settings(hooks=str(hooks)))
    slurm.queue([queued(7)])
    hook(hooks, **BEGIN)
    look(feed, sink, tmp_path)
    (row,) = sink.rows("jobs")
    assert (row["start_ns"], row["state"]) == (100_000 * NS, "RUNNING")  # Slurm's start, not the hook's
    assert not files_below(hooks)
    slurm.accounts([account("7", "COMPLETED", end=100_005)])
    hook(hooks, **END)
    look(feed, sink, tmp_path)
    assert [row["end_ns"] for row in sink.rows("jobs")] == [None, 100_005 * NS]
    assert not files_below(hooks)


def test_without_an_answer_the_hook_is_believed_and_keeps_its_key(slurm: FakeSlurm, tmp_path: Path) -> None:
    sink = MemorySink()
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    feed = SlurmFeed(slurm.settings(hooks=str(hooks)))
    (hooks / "7.prolog.hook").write_text("100002.5 prolog job=7 cluster=c user=ann nodes=n[1-2]\n")
    look(feed, sink, tmp_path)
    assert [(row["start_ns"], row["end_ns"]) for row in sink.rows("jobs")] == []  # five digits: no clock of today
    (hooks / "7.prolog.hook").write_text("1700000002.5 prolog job=7 cluster=c user=ann nodes=n[1-2]\n")
    look(feed, sink, tmp_path)
    assert [(row["start_ns"], row["end_ns"]) for row in sink.rows("jobs")] == [(1_700_000_002 * NS, None)]
    slurm.accounts([account("7", "COMPLETED", start=1_700_000_001, end=1_700_000_050)])
    look(feed, sink, tmp_path, sacct=True)
    rows = sink.rows("jobs")
    assert [(row["start_ns"], row["end_ns"]) for row in rows[1:]] == [(1_700_000_002 * NS, 1_700_000_050 * NS)]


def test_hooks_alone_tell_of_jobs(tmp_path: Path) -> None:
    sink = MemorySink()
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    feed = SlurmFeed(Slurm(sacct=[], squeue=[], hooks=str(hooks), cluster="c"))
    (hooks / "a.hook").write_text("1700000002.1 prolog job=7 user=ann nodes=n[1-2] start=1700000001\n")
    feed.look(sink, STOP, tmp_path)
    (hooks / "b.hook").write_text("1700000009.1 epilog job=7 user=ann nodes=n[1-2] start=1700000001\nnonsense\n")
    feed.look(sink, STOP, tmp_path)
    rows = sink.rows("jobs")
    assert [(row["start_ns"] // NS, row["end_ns"]) for row in rows] == [
        (1_700_000_001, None),
        (1_700_000_001, 1_700_000_009 * NS),
    ]
    assert {row["cluster"] for row in rows} == {"c"}
    assert any("1 lines are not from a fairlead hook" in text for _, _, text in sink.healths)


def test_commands_have_a_deadline_and_say_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no response within"):
        run_feed_command(["sleep", "60"], tmp_path, STOP, timeout_s=0.3)
    with pytest.raises(InputError, match="ended with 3: broken"):
        run_feed_command(["sh", "-c", "echo broken >&2; exit 3"], tmp_path, STOP, timeout_s=30)
    with pytest.raises(MissingDependencyError, match="cannot be run"):
        run_feed_command([str(tmp_path / "none")], tmp_path, STOP, timeout_s=30)
    ended = threading.Event()
    ended.set()
    with pytest.raises(InputError, match="collector is stopping"):
        run_feed_command(["sleep", "60"], tmp_path, ended, timeout_s=30)
    assert not files_below(tmp_path)

"""One performance: the jobs run, the fault happens, the records of all layers go into a lake, a judge looks at it.

Not here: processes and places (`stage`), what a person reads of it (`cli.demo`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from fairlead.core.clock import now_ns, sleep_s
from fairlead.core.errors import ForwardingError
from fairlead.explain.analysis.job_path import JobPath, list_job_path_differences
from fairlead.kit.demo.child_processes import Child
from fairlead.kit.demo.plan import JOBS, DemoJob, Play, describe_demo_plan
from fairlead.kit.demo.stage import Stage, build_stage_command, open_demo_stage

SCHEMA = "fairlead.demo/1"
_LEAD_S = 1.0
"""Between the start of the jobs' processes and the moment they begin together."""
_GRACE_S = 30.0
_JUDGE_S = 120.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What was played, what the jobs saw, what was judged. `right` for each kind of verdict."""

    schema: str = SCHEMA
    seed: int
    fuse: bool
    played: Play
    told: str
    judged: dict[str, str | None]
    right: dict[str, bool]
    saw: dict[str, dict[str, Any]]
    judgement: dict[str, Any]
    paths: list[dict[str, Any]]
    charts: dict[str, Any]
    lost_without_fuse: str | None = None
    kept: str | None = None

    @property
    def all_right(self) -> bool:
        """Whether everything was judged as it was played."""
        return all(self.right.values())


def perform_demo_play(
    play: Play, *, fuse: bool, keep: Path | None = None, say: Callable[[str], None] = lambda _text: None
) -> Outcome:
    """Plays and has it judged. Raises ForwardingError when a part of it fails; nothing is left running either way."""
    with open_demo_stage(keep, fuse=fuse) as built:
        say(f"4 targets, 2 forwarders, {'a mount on each' if fuse else 'jobs that use the library, no mounts'}")
        start_ns, saw = _play(built, play, say)
        built.clear()  # what the mounts and forwarders still hold of their records is written as they end
        say("taking the records in, and letting someone judge who sees nothing else")
        _ingest(built)
        found = _judge(built)
        for path in msgspec.convert(found["paths"], list[JobPath]):
            if path.job_id in saw:
                saw[path.job_id]["differences"] = list_job_path_differences(path, saw[path.job_id])
        judgement = found["judgement"]
        first_ns = found["charts"]["start_ns"] or start_ns
        judged = {kind: _worst(judgement, kind) for kind in play.truth}
        return Outcome(
            seed=play.seed,
            fuse=fuse,
            played=play,
            told=describe_demo_plan(play, (start_ns - first_ns) / 1e9),
            judged=judged,
            right={kind: judged[kind] == truth and _nobody_else(judgement, kind) for kind, truth in play.truth.items()},
            saw=saw,
            judgement=judgement,
            paths=found["paths"],
            charts=found["charts"],
            lost_without_fuse=None if fuse else LOST,
            kept=str(built.root) if keep is not None else None,
        )


LOST = (
    "Without FUSE the jobs use fairlead's library instead of a mount: the same requests, forwarders and records, but a "
    "program that knows nothing of fairlead could not run this way."
)


def _worst(judgement: dict[str, Any], kind: str) -> str | None:
    return next((one["culprit"] for one in judgement["verdicts"] if one["kind"] == kind), None)


def _nobody_else(judgement: dict[str, Any], kind: str) -> bool:
    return len([one for one in judgement["verdicts"] if one["kind"] == kind]) <= 1


def _play(built: Stage, play: Play, say: Callable[[str], None]) -> tuple[int, dict[str, dict[str, Any]]]:
    """Runs the jobs, changes the pace when it is time, and returns when they began and what they saw."""
    start_ns = now_ns() + int(_LEAD_S * 1e9)
    running = {job.job_id: _start(built, play, job, start_ns) for job in JOBS}
    say(f"three jobs run for {play.seconds:.0f} s; something, or nothing, will happen")
    if play.slowed is not None:
        _until(start_ns, play.slowed.from_s, running)
        built.set_pace(play.slowed.target, play.slowed.times)
        _until(start_ns, play.slowed.to_s, running)
        built.set_pace(None, 1)
    _until(start_ns, play.seconds, running)
    return start_ns, {job.job_id: _seen(job, running[job.job_id], play) for job in JOBS}


def _until(start_ns: int, seconds: float, running: dict[str, list[Child]]) -> None:
    while (left := start_ns / 1e9 + seconds - now_ns() / 1e9) > 0:
        for ranks in running.values():
            for child in ranks:
                if not child.running and child.reap():
                    raise child.build_death_error("the jobs ran")
        sleep_s(min(0.1, left))


def _start(built: Stage, play: Play, job: DemoJob, start_ns: int) -> list[Child]:
    home = play.homes[job.job_id]
    folder = f"/job-{job.job_id}"
    if built.fuse:
        folder = f"{built.find_mount_folder(home)}{folder}"
    children = []
    for rank in range(job.processes):
        command = [
            *build_stage_command("fairlead.kit.demo.jobs"),
            job.kind,
            folder,
            "--rank",
            str(rank),
            "--ranks",
            str(job.processes),
            "--start-ns",
            str(start_ns),
            "--seconds",
            str(play.seconds),
            "--seed",
            str(play.seed),
        ]
        if not built.fuse:
            command += ["--client", built.build_address(home), "--spool", str(built.spool)]
        if play.storm is not None and play.storm.job_id == job.job_id:
            threads = max(1, play.storm.threads // job.processes)
            command += ["--storm", f"{play.storm.from_s}:{play.storm.to_s}", "--threads", str(threads)]
        env = {
            "SLURM_JOB_ID": job.job_id,
            "SLURM_PROCID": str(rank),
            "SLURM_JOB_NAME": job.kind,
            "SLURM_NTASKS": str(job.processes),
        }
        children.append(built.children.start(f"job-{job.job_id}-{rank}", command, env=env))
    return children


def _seen(job: DemoJob, ranks: list[Child], play: Play) -> dict[str, Any]:
    """What the processes of a job counted, added up."""
    parts = []
    for child in ranks:
        if not child.wait_for_end(_GRACE_S):
            raise ForwardingError(f"job {job.job_id} did not end {_GRACE_S:.0f} s after its time")
        if child.reap():
            raise child.build_death_error("the jobs ran")
        parts.append(json.loads(child.read_output()))
    summed = {name: sum(part[name] for part in parts) for name in ("operations", "bytes_read", "bytes_written", "io_s")}
    most = {name: max(part[name] for part in parts) for name in ("seconds", "longest_s")}
    return {"about": job.about, "kind": job.kind, "forwarder": play.homes[job.job_id], **summed, **most}


def _ingest(built: Stage) -> None:
    """Takes the spool into a lake."""
    _finished(
        built, "ingest", [*build_stage_command("fairlead"), "ingest", str(built.spool), "--lake", str(built.lake)]
    )


def _judge(built: Stage) -> dict[str, Any]:
    """Has the lake judged by a process that is told nothing else: not the seed, not what was played."""
    found: dict[str, Any] = json.loads(
        _finished(built, "judge", [*build_stage_command("fairlead.kit.demo.judge"), str(built.lake)])
    )
    return found


def _finished(built: Stage, name: str, command: list[str]) -> str:
    """What a program prints that has to end well."""
    child = built.children.start(name, command)
    if not child.wait_for_end(_JUDGE_S):
        raise ForwardingError(f"{name} did not end within {_JUDGE_S:.0f} s", where=str(built.logs))
    if child.reap():
        raise child.build_death_error("the records were looked at")
    return child.read_output()

"""Fills a lake with the sample site's month: one process records, this one analyses what is there, as the server would
have done while the month went by. Of old days the one that records summarises some of the jobs as well.

All findings, incidents and profiles are those of the analysis. Not here: where the lake lies and whether it may be
filled (`site`), what is recorded (`month_records`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from fairlead.core import clock
from fairlead.core.errors import ServerError
from fairlead.kit.sample.record_process import Recording

DAY_S = 86_400
NS = 1_000_000_000
SETTLED_NS = 660 * NS
"""A stretch is analysed as of so long after its end: its records have come."""
ANALYSIS = "analysis"
"""The shard the server's analysis writes as well: what it finds there it does not do again."""


DIAGNOSED_DAYS = 5
"""So long is looked into: jobs are judged, components watched. What is older is what that is compared with."""
OLD_DAYS = 4
"""Days of one stretch before that."""
RECORDER_SHARE = 0.25
"""The share of the old days whose jobs the process that records summarises: so both end at about the same time."""
MOST_JOBS = 500
MOST_OLD = 20_000


class FillResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a filling came to."""

    rows: int
    jobs: int
    findings: int
    seconds: float


def fill_sample_lake(
    lake: Path,
    truth: Path,
    origin_ns: int,
    now_ns: int,
    *,
    seed: int,
    days: int,
    jobs_a_day: float,
    done: Callable[[int, int], None] | None = None,
) -> FillResult:
    """Fills the new lake up to `now_ns`, and writes into `truth` what is true of it. `done` is told stretches done and
    stretches in all. Raises ServerError, LakeError."""
    from fairlead.store.lake import Lake

    begun = clock.monotonic_s()
    cuts = _cuts(days, (now_ns - origin_ns) // NS)
    watched_s = max(days - DIAGNOSED_DAYS, 0) * DAY_S
    shared_s = _shared_s(cuts, watched_s)
    Lake.open(lake, create=True)
    task = Recording(
        lake=str(lake),
        truth=str(truth),
        origin_ns=origin_ns,
        seed=seed,
        days=days,
        jobs_a_day=jobs_a_day,
        cuts=cuts,
        watched_s=watched_s,
        shared_s=shared_s,
        parent=os.getpid(),
    )
    with subprocess.Popen(
        [sys.executable, "-m", "fairlead.kit.sample.record_process"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(task))
            process.stdin.close()
            found = _analysed(lake, task, now_ns, process.stdout, done)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise ServerError("what is true of the sample site was not written", remedy="why is said above")
    return msgspec.structs.replace(found, seconds=clock.monotonic_s() - begun)


def _cuts(days: int, until_s: int) -> list[int]:
    """Where the month is cut: old days some together, then each day; the last and what came after it together."""
    first = max(days - DIAGNOSED_DAYS, 0)
    return [*(day * DAY_S for day in [*range(0, first, OLD_DAYS), *range(first, days)]), until_s]


def _shared_s(cuts: Sequence[int], watched_s: int) -> int:
    """From which cut on the old days are the recording process's to summarise."""
    return min((cut for cut in cuts if cut >= watched_s * (1.0 - RECORDER_SHARE)), default=watched_s)


def _analysed(
    root: Path, task: Recording, now_ns: int, told: Any, done: Callable[[int, int], None] | None
) -> FillResult:
    from fairlead.store.lake import Lake

    cuts, origin_ns = task.cuts, task.origin_ns
    rows = jobs = findings = 0
    stretches = len(cuts) - 1
    if done is not None:
        done(0, stretches)
    lake = Lake.open(root)
    with lake.open_writer(ANALYSIS) as writer:
        _ready(lake, writer, origin_ns)
        for number, (begin, end) in enumerate(pairwise(cuts)):
            line = told.readline().split()
            if len(line) != 3 or int(line[0]) != number:
                raise ServerError("the sample site could not be recorded", remedy="what stopped it is said above")
            rows, jobs = rows + int(line[1]), jobs + int(line[2])
            if end <= task.watched_s:
                if begin < task.shared_s:
                    jobs += fill_old_summaries(lake, writer, origin_ns + begin * NS, origin_ns + end * NS)
            else:
                if 0 < begin == task.watched_s:
                    _profiled(lake, writer, origin_ns + begin * NS)
                made = _diagnosed(lake, writer, min(origin_ns + end * NS + SETTLED_NS, now_ns))
                jobs, findings = jobs + made[0], findings + made[1]
            if done is not None:
                done(number + 1, stretches)
    return FillResult(rows=rows, jobs=jobs, findings=findings, seconds=0.0)


def _ready(lake: Any, writer: Any, now_ns: int) -> None:
    """Loads what the analysis is made of while the first stretch is still being recorded."""
    import fairlead.explain.analysis.anomalies.mixture_kernel
    import fairlead.explain.analysis.system.system_site
    import fairlead.explain.diagnosing.system_round  # noqa: F401
    from fairlead.explain.diagnosing.ended_jobs import summarise_ended_jobs

    summarise_ended_jobs(lake, writer, now_ns, most=1)


def fill_old_summaries(lake: Any, writer: Any, from_ns: int, to_ns: int) -> int:
    """Summaries and phases of the jobs that ended within (from_ns, to_ns], not judged: later ones are compared with
    them. Returns how many they were."""
    from fairlead.explain.analysis.job_summary import build_job_summary, build_job_summary_table
    from fairlead.explain.diagnosing.ended_jobs import select_due_ended_jobs
    from fairlead.explain.diagnosing.lake_phases import detect_lake_phases
    from fairlead.explain.diagnosing.recorded_io import read_recorded_io

    jobs = [
        job
        for job in select_due_ended_jobs(lake, to_ns, lag_ns=0, most=MOST_OLD)
        if job["end_ns"] > from_ns and not job["again"]
    ]
    for first in range(0, len(jobs), MOST_JOBS):
        looked = read_recorded_io(lake, jobs[first : first + MOST_JOBS])
        batch = writer.open_batch(f"sample/remembered/{to_ns}/{first}", source="analysis")
        batch.add(build_job_summary_table([build_job_summary(data, to_ns) for data in looked]))
        batch.add(detect_lake_phases(lake, looked, to_ns))
        batch.commit()
    writer.flush()
    return len(jobs)


def _profiled(lake: Any, writer: Any, now_ns: int) -> None:
    """Profiles of all that was remembered, at once."""
    from fairlead.core.model.tables import JOB_SUMMARY, PHASE
    from fairlead.explain.diagnosing.program_profiles import update_program_profiles
    from fairlead.store.stored_tables import conform_stored_table

    told = [
        conform_stored_table(lake.query(f"SELECT * EXCLUDE (day) FROM {spec.name} ORDER BY {order}"), spec, strict=True)  # noqa: S608
        for spec, order in ((JOB_SUMMARY, "cluster, job_id, start_ns"), (PHASE, "cluster, job_id, kind, number"))
    ]
    batch = writer.open_batch(f"sample/profiled/{now_ns}", source="analysis")
    batch.add(update_program_profiles(lake, told[0], told[1], [], now_ns))
    batch.commit()


def _diagnosed(lake: Any, writer: Any, now_ns: int) -> tuple[int, int]:
    """Everything the server's analysis would have done at that time but look at components, which is done."""
    from fairlead.explain.analysis.system.system_site import SystemSite
    from fairlead.explain.diagnosing.ended_jobs import summarise_ended_jobs
    from fairlead.explain.diagnosing.system_round import run_system_round

    jobs = findings = 0
    more = True
    while more:
        made = summarise_ended_jobs(lake, writer, now_ns, most=MOST_JOBS)
        jobs, findings, more = jobs + made.summaries, findings + made.findings, made.more
    run_system_round(lake, writer, now_ns, SystemSite(), most=1)
    writer.flush()
    return jobs, findings

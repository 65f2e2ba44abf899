"""Fills a lake with the sample site's month: one process records, this one analyses what is there, as the server would
have done while the month went by.

All findings, incidents and profiles are those of the analysis. Not here: where the lake lies and whether it may be
filled (`sample_site`), what is recorded (`testing.sample_site`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fairlead import clock
from fairlead.errors import ServerError
from fairlead.runtime.sample_records import Recording

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
MOST_JOBS = 500


class Filled(msgspec.Struct, frozen=True, kw_only=True):
    """What a filling came to."""

    rows: int
    jobs: int
    findings: int
    seconds: float


def fill(
    lake: Path, truth: Path, origin_ns: int, now_ns: int, *, seed: int, days: int, jobs_a_day: float,
    done: Callable[[int, int], None] | None = None,
) -> Filled:  # fmt: skip
    """Fills the new lake up to `now_ns`, and writes into `truth` what is true of it. `done` is told stretches done and
    stretches in all. Raises ServerError, LakeError."""
    from fairlead.lake.store import Lake

    begun = clock.monotonic_s()
    cuts = _cuts(days, (now_ns - origin_ns) // NS)
    Lake.open(lake, create=True)
    task = Recording(
        lake=str(lake), truth=str(truth), origin_ns=origin_ns, seed=seed, days=days, jobs_a_day=jobs_a_day, cuts=cuts,
        watched_s=(days - DIAGNOSED_DAYS) * DAY_S, parent=os.getpid(),
    )  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "fairlead.runtime.sample_records"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None  # noqa: S101  (pipes were asked for)
        assert process.stdout is not None  # noqa: S101
        try:
            process.stdin.write(msgspec.json.encode(task))
            process.stdin.close()
            found = _analysed(lake, origin_ns, now_ns, cuts, process.stdout, done)
        except BaseException:
            process.kill()
            raise
    return msgspec.structs.replace(found, seconds=clock.monotonic_s() - begun)


def _cuts(days: int, until_s: int) -> list[int]:
    """Where the month is cut: old days some together, then each day; the last and what came after it together."""
    first = max(days - DIAGNOSED_DAYS, 0)
    return [*(day * DAY_S for day in [*range(0, first, OLD_DAYS), *range(first, days)]), until_s]


def _analysed(
    root: Path, origin_ns: int, now_ns: int, cuts: Sequence[int], told: Any, done: Callable[[int, int], None] | None
) -> Filled:
    from fairlead.lake.store import Lake

    rows = jobs = findings = 0
    stretches = len(cuts) - 1
    if done is not None:
        done(0, stretches)
    lake = Lake.open(root)
    with lake.writer(ANALYSIS) as writer:
        for number in range(stretches):
            line = told.readline().split()
            if len(line) != 2 or int(line[0]) != number:
                raise ServerError("the sample site could not be recorded", remedy="what stopped it is said above")
            rows += int(line[1])
            as_of = min(origin_ns + cuts[number + 1] * NS + SETTLED_NS, now_ns)
            old = cuts[number] < cuts[-2] - (DIAGNOSED_DAYS - 1) * DAY_S
            made = (_remembered if old else _diagnosed)(lake, writer, as_of)
            jobs, findings = jobs + made[0], findings + made[1]
            if done is not None:
                done(number + 1, stretches)
    return Filled(rows=rows, jobs=jobs, findings=findings, seconds=0.0)


def _remembered(lake: Any, writer: Any, now_ns: int) -> tuple[int, int]:
    """Summaries, phases and profiles of the jobs that ended, not judged: later ones are compared with them."""
    from fairlead.analysis.job_summary import summarised, summary_table
    from fairlead.runtime.analysis_loop import due
    from fairlead.runtime.diagnosing.phases import phases_of
    from fairlead.runtime.diagnosing.profiling import profiles_with
    from fairlead.runtime.recorded import looked_up

    count = 0
    while jobs := due(lake, now_ns, most=MOST_JOBS):
        looked = looked_up(lake, jobs)
        rows, phases = summary_table([summarised(data, now_ns) for data in looked]), phases_of(lake, looked, now_ns)
        batch = writer.batch(f"sample/{now_ns}/{count}", source="analysis")
        batch.add(rows)
        batch.add(phases)
        batch.add(profiles_with(lake, rows, phases, [], now_ns))
        batch.commit()
        count += len(jobs)
    writer.flush()
    return count, 0


def _diagnosed(lake: Any, writer: Any, now_ns: int) -> tuple[int, int]:
    """Everything the server's analysis would have done at that time but look at components, which is done."""
    from fairlead.analysis.system.site import SystemSite
    from fairlead.runtime.analysis_loop import step
    from fairlead.runtime.diagnosing.system_round import system_round

    jobs = findings = 0
    more = True
    while more:
        made = step(lake, writer, now_ns, most=MOST_JOBS)
        jobs, findings, more = jobs + made.summaries, findings + made.findings, made.more
    system_round(lake, writer, now_ns, SystemSite(), most=1)
    writer.flush()
    return jobs, findings

"""The process that records the sample site's month into a lake, stretch after stretch, and says when each can be read.

`python -m fairlead.kit.sample.record_process`, started by `fill`. Not here: what is recorded
(`month_records`), what is made of it (`fill`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from fairlead.run.child_process import end_child_process_with_parent

SHARD = "sample"
NS = 1_000_000_000
MINUTE_NS = 60 * NS


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be recorded: `cuts` are seconds since `origin_ns` between which stretches lie."""

    lake: str
    origin_ns: int
    seed: int
    days: int
    jobs_a_day: float
    truth: str
    """File for what is true of it."""
    cuts: list[int]
    watched_s: int
    """Components are looked at from here on, and jobs judged."""
    shared_s: int
    """Jobs that end between here and there are summarised by this process."""
    parent: int


def _record(task: Recording) -> None:
    """Records all stretches and looks at the components in each, as the server would; a line with its number, its rows
    and the jobs summarised here on stdout after each."""
    from fairlead.kit.sample import truth
    from fairlead.kit.sample.fill import fill_old_summaries
    from fairlead.kit.sample.month import build_sample_month
    from fairlead.kit.sample.month_records import build_month_records
    from fairlead.store.lake import Lake
    from fairlead.store.rollups import derive_rollups

    site = build_sample_month(task.origin_ns, task.seed, days=task.days, jobs_a_day=task.jobs_a_day)
    _ = site.play.course
    lake = Lake.open(Path(task.lake))
    with lake.open_writer(SHARD, derive=derive_rollups) as writer:
        for number, (begin, end) in enumerate(zip(task.cuts[:-1], task.cuts[1:], strict=True)):
            tables = build_month_records(site, begin, end)
            batch = writer.open_batch(f"sample/{task.origin_ns}/{begin}/{end}", source="sample site")
            for table in tables.values():
                batch.add(table)
            batch.commit()
            writer.flush()
            if begin >= task.watched_s:
                _look_at_components(lake, writer, task.origin_ns + begin * NS, task.origin_ns + end * NS)
            jobs = 0
            if task.shared_s < end == task.watched_s:
                # Told only then: the other process has the stretches before that to summarise meanwhile.
                jobs = fill_old_summaries(lake, writer, task.origin_ns + task.shared_s * NS, task.origin_ns + end * NS)
            sys.stdout.write(f"{number} {sum(table.num_rows for table in tables.values())} {jobs}\n")
            sys.stdout.flush()
    truth.write_sample_truth(site, Path(task.truth))


def _look_at_components(lake: Any, writer: Any, from_ns: int, to_ns: int) -> None:
    """Looks at the components of one stretch: what is told of jobs later can then name an incident."""
    from fairlead.explain.diagnosing.diagnosis_settings import Diagnosis
    from fairlead.explain.diagnosing.health_round import BEYOND_NS, run_health_round
    from fairlead.explain.questions.span import Span

    settings = Diagnosis()
    back = int(settings.least_minutes * 60 * NS) + BEYOND_NS
    span = Span((from_ns - back) // MINUTE_NS * MINUTE_NS, to_ns // MINUTE_NS * MINUTE_NS)
    run_health_round(lake, writer, to_ns, settings, span=span)


def run_record_process() -> int:
    """Reads a `Recording` on stdin."""
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Recording)
    end_child_process_with_parent(task.parent)
    if task.parent == os.getppid():
        _record(task)
    return 0


if __name__ == "__main__":
    sys.exit(run_record_process())

"""The analysis loop: finds jobs that ended and whose data has arrived, or that run, and writes their `job_summary`,
with it their phases and what diagnosis finds in them.

Its only memory is the lake, so it may be killed and started at any time. Bounded work a step. Not here: what a summary
is (`analysis.job_summary`), what is read for it (`recorded`), what diagnosis looks at (`diagnosing`), starting the
process (`runtime.child`).
"""
# ruff: noqa: S608  (names of tables and columns are ours; what others say goes in as parameters)

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

from fairlead.core import clock
from fairlead.core.errors import InputError, LakeError
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.job_summary import (
    ANALYSIS_VERSION,
    JobData,
    Row,
    build_job_summary,
    build_job_summary_table,
)
from fairlead.explain.diagnosing.diagnosis_settings import Diagnosis, build_diagnosis_limits
from fairlead.explain.diagnosing.diagnosis_step import StepResult, diagnose_jobs
from fairlead.explain.diagnosing.ended_jobs import STAND_IN, select_complete_ended_jobs
from fairlead.explain.diagnosing.program_profiles import update_program_profiles
from fairlead.explain.diagnosing.recorded_io import read_recorded_io
from fairlead.explain.diagnosing.rounds import Rounds
from fairlead.explain.diagnosing.running_jobs import EVERY_NS, build_running_summaries, select_due_running_jobs
from fairlead.explain.diagnosing.serving_components import Tables, build_day_condition
from fairlead.explain.diagnosing.site_file import read_system_site_file

LAG_NS = 120 * NS_PER_S
"""After its end a job's records get this long to arrive before it is summarised."""
CARRIED_NS = 600 * NS_PER_S
"""... and so long if since it began nothing was heard of anything."""
AGAIN_NS = 86_400 * NS_PER_S
"""So long after its end a job is looked at again for records that came late; later ones change no summary."""
MOST_JOBS = 200
"""Jobs summarised in one step."""
QUICK_S = 1.0
"""Jobs that just ended and whose records are here are looked for this often."""
FLUSH_NS = 15 * NS_PER_S
"""What was written is carried to the tables this often; it can be read before."""
log = logging.getLogger("fairlead.explain.analysis")


class Output(Protocol):
    """Where summaries go (`lake.writer.Writer` is one)."""

    def open_batch(self, stream: str, seq: int = 0, *, source: str = "", path: str = "") -> Any:
        """A batch to fill and commit."""


@dataclass(frozen=True)
class Step:
    """What one step did. `more`: there was more to do than one step does. `running`: summaries of jobs that run.
    `findings`: findings about jobs that ended."""

    summaries: int
    more: bool
    running: int = 0
    findings: int = 0


def run_analysis_loop(config: Any, stop: threading.Event) -> None:
    """Steps every `config.analysis.every_s` until `stop`. Raises LakeError when the lake cannot be opened."""
    from fairlead.store.lake import Lake

    root = Path(config.server.lake)
    while not (root / "lake.toml").is_file():  # the collector makes it
        if stop.wait(0.2):
            return
    lake = Lake.open(root, memory=config.server.memory)
    every_ns, running_ns = (int(s * NS_PER_S) for s in (config.analysis.every_s, config.analysis.running_s))
    rounds = Rounds(config.diagnosis, read_system_site_file(config.server.site))
    with lake.open_writer(config.analysis.shard, wait_s=30.0) as writer:
        write_site_mappings(writer, config.server.site)
        whole_ns = flushed_ns = 0
        while not stop.is_set():
            now_ns = clock.now_ns()
            whole = now_ns - whole_ns >= every_ns
            try:
                # Components first: what an incident took from a job can then be told with the job.
                rounds.look(lake, writer, now_ns)
                done = summarise_ended_jobs(
                    lake,
                    writer,
                    now_ns,
                    running_ns=running_ns,
                    quick=not whole,
                    diagnosis=config.diagnosis,
                    peaks=rounds.site.peaks,
                )
                if whole or now_ns - flushed_ns >= FLUSH_NS:
                    writer.flush()
                    flushed_ns = now_ns
            except LakeError as fault:
                # A full disk or a file just vacuumed: what is not done now is found again.
                log.warning("jobs are not summarised now: %s", fault)
                done = Step(0, more=False)
            if done.more:
                continue
            whole_ns = now_ns if whole else whole_ns
            stop.wait(min(config.analysis.every_s, QUICK_S))


def write_site_mappings(writer: Output, file: str) -> bool:
    """Writes the mappings of the site file into the lake, once for each content; False when they are there already or
    no file is set. Raises ConfigError, InputError."""
    if not file:
        return False
    from fairlead.core.model.site_file import build_site_file_mapping, parse_site_file
    from fairlead.see.sources.slurm.hostlist import expand_hostlist

    try:
        content = Path(file).read_bytes()
    except OSError as fault:
        raise InputError((fault.strerror or str(fault)).lower(), where=file, remedy="check server.site") from fault
    rows = build_site_file_mapping(parse_site_file(content, file), expand_hostlist)
    batch = writer.open_batch(f"site/{blake2b(content, digest_size=8).hexdigest()}", source="site", path=file)
    batch.add(rows)
    return bool(batch.commit())


def summarise_ended_jobs(
    lake: Tables,
    writer: Output,
    now_ns: int,
    *,
    lag_ns: int = LAG_NS,
    most: int = MOST_JOBS,
    running_ns: int = EVERY_NS,
    quick: bool = False,
    diagnosis: Diagnosis | None = None,
    peaks: Mapping[str, float] | None = None,
) -> Step:
    """Summarises jobs that ended: those whose records are all here, and, unless `quick`, those that ended before
    `now_ns - lag_ns` and have no summary yet, or one that later records made untrue, the longest waiting first; and
    jobs that run, each again after `running_ns`. Findings go with the summaries of ended jobs in one batch, as
    `diagnosis` says (None: as by default). Raises LakeError."""
    diagnosis = diagnosis or Diagnosis()
    jobs = select_complete_ended_jobs(lake, now_ns, within_ns=lag_ns, most=most)
    if not quick:
        jobs += select_due_jobs(lake, now_ns, lag_ns=lag_ns, most=most - len(jobs)) if len(jobs) < most else []
    looked = read_recorded_io(lake, jobs)
    rows = [build_job_summary(data, now_ns) for data in looked]
    running = (
        []
        if quick
        else build_running_summaries(lake, select_due_running_jobs(lake, now_ns, every_ns=running_ns), now_ns)
    )
    found = _diagnosed(lake, jobs, looked, now_ns, diagnosis, peaks)
    if rows or running:
        batch = writer.open_batch(f"job_summary/{now_ns}/{_digest(rows)}", source="analysis")
        batch.add(build_job_summary_table([*rows, *running]))
        for table in found.rows if found is not None else ():
            batch.add(table)
        if found is not None:
            batch.add(update_program_profiles(lake, build_job_summary_table(rows), found.phases, _again(jobs), now_ns))
        batch.commit()
    return Step(len(rows), len(jobs) == most, len(running), len(found.told) if found is not None else 0)


def _digest(rows: Sequence[Row]) -> str:
    """What tells the batches of steps of one moment apart: their jobs."""
    names = repr([(row["cluster"], row["job_id"], row["start_ns"], row["end_ns"]) for row in rows])
    return blake2b(names.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def _diagnosed(
    lake: Tables,
    jobs: Sequence[Mapping[str, Any]],
    looked: Sequence[JobData],
    now_ns: int,
    diagnosis: Diagnosis,
    peaks: Mapping[str, float] | None,
) -> StepResult | None:
    if not diagnosis.on or not jobs:
        return None
    return diagnose_jobs(
        lake, looked, now_ns, limits=build_diagnosis_limits(diagnosis), peaks=peaks, again=_again(jobs)
    )


def _again(jobs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that may have been looked at before."""
    return [job for job in jobs if job.get("again", True)]


def build_summaries(lake: Tables, jobs: Sequence[Mapping[str, Any]], now_ns: int) -> list[Row]:
    """Summaries of rows of `jobs` as of `now_ns`, in their order. Raises LakeError."""
    return [build_job_summary(data, now_ns) for data in read_recorded_io(lake, jobs)]


_AMOUNT = """coalesce(read_bytes, 0)::HUGEINT + coalesce(write_bytes, 0) + coalesce(read_ops, 0)
    + coalesce(write_ops, 0) + coalesce(metadata_ops, 0)"""
"""In 128 bits: one impossible number must not end the loop."""
_JOBS_METADATA = "CASE WHEN layer <> 'target' THEN metadata_ops END"
"""Storage targets count operations that no metadata server saw; they are not metadata operations of a job."""
_DUE = f"""
WITH ended AS (
    SELECT * EXCLUDE (day) FROM jobs WHERE start_ns IS NOT NULL AND end_ns >= start_ns AND end_ns <= $now - $lag
        AND NOT {STAND_IN}
), told AS (
    SELECT cluster, job_id, start_ns, made_ns, end_ns, analysis_version, basis, {_AMOUNT} AS amount FROM job_summary
), again AS (
    SELECT job_id, start_ns, end_ns FROM ended WHERE end_ns > $now - $reach
), counted AS (
    SELECT id, layer, ts_ns, read_bytes, write_bytes, read_ops, write_ops, {_JOBS_METADATA} AS metadata_ops
    FROM rollup WHERE kind = 'job' AND interval_ns = 60000000000
        AND ts_ns > (SELECT coalesce(min(start_ns), $now) FROM again) - 60000000000
        AND id IN (SELECT job_id FROM again)
), amounts AS (
    SELECT again.job_id, again.start_ns, layer, sum({_AMOUNT}) AS amount
    FROM again JOIN counted ON counted.id = again.job_id AND counted.ts_ns <= again.end_ns
        AND counted.ts_ns > again.start_ns - 60000000000
    GROUP BY ALL
), best AS (
    SELECT job_id, start_ns,
        CASE WHEN bool_or(layer = 'mount') THEN sum(amount) FILTER (layer = 'mount')
             WHEN bool_or(layer = 'client') THEN sum(amount) FILTER (layer = 'client')
             WHEN bool_or(layer = 'pfs_client') THEN sum(amount) FILTER (layer = 'pfs_client')
             WHEN bool_or(layer = 'osc') THEN sum(amount) FILTER (layer = 'osc')
             WHEN bool_or(layer IN ('target', 'metadata')) THEN sum(amount) FILTER (layer IN ('target', 'metadata'))
             ELSE sum(amount) FILTER (layer = 'forwarder') END AS amount
    FROM amounts GROUP BY ALL
)
SELECT ended.*, best.job_id IS NOT NULL OR ended.end_ns > $now - $reach AS recorded, told.job_id IS NOT NULL AS again
FROM ended
LEFT JOIN told ON told.job_id = ended.job_id AND told.start_ns = ended.start_ns
    AND told.cluster IS NOT DISTINCT FROM ended.cluster
LEFT JOIN best ON best.job_id = ended.job_id AND best.start_ns = ended.start_ns
WHERE told.job_id IS NULL OR told.end_ns IS DISTINCT FROM ended.end_ns
    OR (told.analysis_version < $version AND ended.end_ns > $now - $reach)
    OR (best.amount IS NOT NULL AND (told.basis IS NULL OR told.basis = 'estimate' OR told.amount <> best.amount)
        AND told.made_ns < $now - $lag)
ORDER BY told.made_ns NULLS FIRST, ended.end_ns <= $now - $reach,
    CASE WHEN ended.end_ns > $now - $reach THEN ended.end_ns ELSE -ended.end_ns END,
    ended.cluster, ended.job_id LIMIT $most
"""


def select_due_jobs(
    lake: Tables, now_ns: int, *, lag_ns: int = LAG_NS, most: int = MOST_JOBS
) -> list[Mapping[str, Any]]:
    """Rows of `jobs` that want a summary: none yet, one of another end, and of jobs that ended lately, one of an older
    analysis or one whose sums are not what the rollup says now (looked at again after another `lag_ns`). Older ones
    keep theirs: their records may have expired (`runtime.heavy` makes them again where nothing is lost by it)."""
    found = lake.query(
        _DUE,
        {"now": now_ns, "lag": lag_ns, "reach": AGAIN_NS + lag_ns, "version": ANALYSIS_VERSION, "most": most},
    )
    return _carried(lake, found.to_pylist(), now_ns)


def _carried(lake: Tables, jobs: list[Mapping[str, Any]], now_ns: int) -> list[Mapping[str, Any]]:
    """These without those that ended lately and since whose beginning nothing at all was summed up: what comes in at
    once after a pause tells that a job ended some seconds before it tells what the job did."""
    waits = now_ns - CARRIED_NS
    fresh = [int(job["start_ns"]) for job in jobs if not job["again"] and job["end_ns"] > waits]
    if not fresh:
        return jobs
    first = min(fresh)
    [heard] = lake.query(
        f"SELECT coalesce(max(ts_ns), 0) AS ts_ns FROM rollup WHERE interval_ns = {NS_PER_S} AND ts_ns >= {first}"
        f" AND ts_ns <= {now_ns} AND {build_day_condition(first, now_ns)}"
    )["ts_ns"].to_pylist()
    return [job for job in jobs if job["again"] or job["end_ns"] <= waits or job["start_ns"] <= heard]

"""Jobs that ended: finds those whose records have arrived and writes their `job_summary`, with it their phases and what
diagnosis finds in them.

A job is complete when everything that watches it has told of a later time; one of which nothing is heard any more is
due after a fixed time. Bounded work a step. Not here: what a summary is (`analysis.job_summary`), what is read for it
(`recorded_io`), what diagnosis looks at (`diagnosis_step`).
"""
# ruff: noqa: S608  (conditions are numbers of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.job_summary import (
    ANALYSIS_VERSION,
    SERIES,
    JobData,
    Row,
    build_job_summary,
    build_job_summary_table,
)
from fairlead.explain.diagnosing.diagnosis_settings import Diagnosis, build_diagnosis_limits
from fairlead.explain.diagnosing.diagnosis_step import StepResult, run_diagnosis_step
from fairlead.explain.diagnosing.program_profiles import update_program_profiles
from fairlead.explain.diagnosing.recorded_io import read_recorded_io
from fairlead.explain.diagnosing.replaced_jobs import withdraw_replaced_jobs
from fairlead.explain.diagnosing.running_jobs import EVERY_NS, build_running_summaries, select_due_running_jobs
from fairlead.explain.diagnosing.serving_components import CarriedTables, Tables, build_day_condition
from fairlead.explain.diagnosing.site_file import Output
from fairlead.explain.diagnosing.touched_jobs import Touched
from fairlead.explain.questions.job_volumes import read_job_volumes

_BARE = "{0}.state IS NULL AND {0}.submit_ns IS NULL AND {0}.nodes_count IS NULL AND {0}.processes IS NULL"
STAND_IN = f"""({_BARE.format("jobs")} AND EXISTS (SELECT 1 FROM jobs told
    WHERE told.job_id = jobs.job_id AND (jobs.cluster IS NULL OR told.cluster = jobs.cluster)
        AND NOT ({_BARE.format("told")}) AND told.start_ns <= jobs.end_ns
        AND (told.end_ns IS NULL OR told.end_ns >= jobs.start_ns)))"""
"""Of a row of `jobs`: it was made of what records say of their job, and the scheduler's own account of that run is
there, too. They begin and end at other moments, so both are in the lake; the account is the job."""
_SERVERS = ("forwarder", "target", "mds")
_BEFORE_NS = 60 * NS_PER_S


def select_complete_ended_jobs(
    lake: CarriedTables, now_ns: int, *, within_ns: int, most: int
) -> list[Mapping[str, Any]]:
    """Rows of `jobs` that ended less than `within_ns` ago, have no summary of that end, and whose nodes and servers
    have all told of a time after it. The earliest end first. `again`: it has a summary of another end. Raises
    LakeError."""
    first = now_ns - within_ns
    ended = lake.query(
        "SELECT jobs.* EXCLUDE (day), EXISTS (SELECT 1 FROM job_summary told WHERE told.job_id = jobs.job_id"
        " AND told.start_ns = jobs.start_ns AND told.end_ns IS NOT NULL AND told.cluster IS NOT DISTINCT FROM"
        " jobs.cluster) AS again FROM jobs WHERE start_ns IS NOT NULL AND end_ns >= start_ns"
        f" AND end_ns > {first} AND end_ns <= {now_ns} AND NOT EXISTS (SELECT 1 FROM job_summary told"
        " WHERE told.job_id = jobs.job_id AND told.start_ns = jobs.start_ns AND told.end_ns = jobs.end_ns"
        " AND told.cluster IS NOT DISTINCT FROM jobs.cluster)"
        f" AND NOT {STAND_IN} ORDER BY end_ns, cluster, job_id LIMIT {int(most)}"
    ).to_pylist()
    if not ended:
        return []
    return [
        {**job, "recorded": True}
        for job in _filter_complete_jobs(ended, *_last_words(lake, ended, first - _BEFORE_NS, now_ns), now_ns)
    ]


def _filter_complete_jobs(
    jobs: Sequence[Mapping[str, Any]],
    nodes: Mapping[str, int],
    servers: Mapping[str, Sequence[tuple[str, str]]],
    told: Mapping[tuple[str, str], int],
    now_ns: int,
) -> list[Mapping[str, Any]]:
    """Those of `jobs` whose sources have all been heard of a time at or after their end. `nodes`: the last word of each
    node that is watched; `servers`: components that counted a job; `told`: the last word of each of these. A server
    that has nothing more to count says nothing: after `SERVERS_NS` it is not waited for. What comes later has the job
    looked at again."""
    found = []
    for job in jobs:
        end = int(job["end_ns"])
        words = [nodes[name] for name in job["nodes"] or () if name in nodes]
        served = [told.get(server, 0) for server in servers.get(str(job["job_id"]), ())]
        if not (words or served) or min(words, default=end) < end:
            continue
        if min(served, default=end) >= end or now_ns - end >= SERVERS_NS:
            found.append(job)
    return found


def _last_words(
    lake: CarriedTables, jobs: Sequence[Mapping[str, Any]], first: int, now_ns: int
) -> tuple[dict[str, int], dict[str, list[tuple[str, str]]], dict[tuple[str, str], int]]:
    """What `_filter_complete_jobs` wants to know, of the times from `first` to now. Of what is in the tables only: a
    source was heard when its rows count in sums."""
    when = f"ts_ns > {first} AND ts_ns <= {now_ns} AND {build_day_condition(first, now_ns)}"
    counted = lake.query(
        f"SELECT kind, id, list(DISTINCT job_id) AS jobs, max(ts_ns) AS ts_ns FROM rollup WHERE {when}"
        f" AND interval_ns = {NS_PER_S} AND kind IN (SELECT unnest($kinds)) GROUP BY kind, id",
        {"kinds": list(_SERVERS)},
        waiting=False,
    ).to_pylist()
    names = sorted({str(name) for job in jobs for name in job["nodes"] or ()} | {row["id"] for row in counted})
    found = lake.query(
        "SELECT name, max(ts_ns) AS ts_ns FROM ("
        f"SELECT node AS name, ts_ns FROM health WHERE {when} AND node IN (SELECT unnest($names)) UNION ALL"
        f" SELECT id AS name, ts_ns FROM rollup WHERE {when} AND interval_ns = {NS_PER_S} AND kind = $k_node"
        " AND id IN (SELECT unnest($names))) GROUP BY name",
        {"names": names, "k_node": "node"},
        waiting=False,
    )
    nodes = {row["name"]: row["ts_ns"] for row in found.to_pylist()}
    wanted = {str(job["job_id"]) for job in jobs}
    servers: dict[str, list[tuple[str, str]]] = {}
    told: dict[tuple[str, str], int] = {}
    for row in counted:
        # A forwarder that nobody uses counts nothing; that its agent is well says as much.
        told[row["kind"], row["id"]] = max(row["ts_ns"], nodes.get(row["id"], 0))
        for job in wanted.intersection(row["jobs"] or ()):
            servers.setdefault(job, []).append((row["kind"], row["id"]))
    return nodes, servers, told


SERVERS_NS = 5 * NS_PER_S
"""Servers tell what they counted by job within 2 s, and it is in the tables within 2 s more."""


LAG_NS = 120 * NS_PER_S
"""After its end a job's records get this long to arrive before it is summarised."""


CARRIED_NS = 600 * NS_PER_S
"""... and so long if since it began nothing was heard of anything."""


AGAIN_NS = 86_400 * NS_PER_S
"""So long after its end a job is looked at again for records that came late; later ones change no summary."""


MOST_JOBS = 200
"""Jobs summarised in one step."""


@dataclass(frozen=True)
class Step:
    """What one step did. `more`: there was more to do than one step does. `running`: summaries of jobs that run.
    `findings`: findings about jobs that ended."""

    summaries: int
    more: bool
    running: int = 0
    findings: int = 0


def summarise_ended_jobs(
    lake: CarriedTables,
    writer: Output,
    now_ns: int,
    *,
    lag_ns: int = LAG_NS,
    most: int = MOST_JOBS,
    running_ns: int = EVERY_NS,
    quick: bool = False,
    diagnosis: Diagnosis | None = None,
    peaks: Mapping[str, float] | None = None,
    touched: Touched | None = None,
) -> Step:
    """Summarises jobs that ended: those whose records are all here, and, unless `quick`, those that ended before
    `now_ns - lag_ns` and have no summary yet, or one that later records made untrue, the longest waiting first; and
    jobs that run, each again after `running_ns`. Findings go with the summaries of ended jobs in one batch, as
    `diagnosis` says (None: as by default). With `touched`, jobs that incidents touch that became known since they
    were judged are judged again. Raises LakeError."""
    diagnosis = diagnosis or Diagnosis()
    jobs = select_complete_ended_jobs(lake, now_ns, within_ns=lag_ns, most=most)
    if not quick:
        jobs += select_due_ended_jobs(lake, now_ns, lag_ns=lag_ns, most=most - len(jobs)) if len(jobs) < most else []
    if touched is not None and diagnosis.on and len(jobs) < most:
        there = {(job["cluster"], job["job_id"], job["start_ns"]) for job in jobs}
        late = touched.select_jobs(lake, now_ns, most=most - len(jobs))
        jobs += [job for job in late if (job["cluster"], job["job_id"], job["start_ns"]) not in there]
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
        for table in withdraw_replaced_jobs(lake, {str(row["job_id"]) for row in (*rows, *running)}, now_ns):
            batch.add(table)
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
    return run_diagnosis_step(
        lake, looked, now_ns, limits=build_diagnosis_limits(diagnosis), peaks=peaks, again=_again(jobs)
    )


def _again(jobs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that may have been looked at before."""
    return [job for job in jobs if job.get("again", True)]


def build_ended_job_summaries(lake: Tables, jobs: Sequence[Mapping[str, Any]], now_ns: int) -> list[Row]:
    """Summaries of rows of `jobs` as of `now_ns`, in their order. Raises LakeError."""
    return [build_job_summary(data, now_ns) for data in read_recorded_io(lake, jobs)]


LOOKED_AGAIN_NS = (900 * NS_PER_S, 82_800 * NS_PER_S)
"""So long after its end an estimate is made again: counters of nodes that came late are in it then."""
_LOOKED_AGAIN = " OR ".join(
    f"told.made_ns < ended.end_ns + {after} AND $now >= ended.end_ns + {after}" for after in LOOKED_AGAIN_NS
)
MOST_COMPARED = 20_000
"""Summaries compared in one step with what is counted now, the longest not looked at first."""


_DUE = f"""
WITH ended AS (
    SELECT * EXCLUDE (day) FROM jobs WHERE start_ns IS NOT NULL AND end_ns >= start_ns AND end_ns <= $now - $lag
        AND NOT {STAND_IN}
), told AS (
    SELECT cluster, job_id, start_ns, made_ns, end_ns, analysis_version, basis FROM job_summary
)
SELECT ended.*, ended.end_ns > $now - $reach AS recorded, told.job_id IS NOT NULL AS again
FROM ended
LEFT JOIN told ON told.job_id = ended.job_id AND told.start_ns = ended.start_ns
    AND told.cluster IS NOT DISTINCT FROM ended.cluster
WHERE told.job_id IS NULL OR told.end_ns IS DISTINCT FROM ended.end_ns
    OR (told.analysis_version < $version AND ended.end_ns > $now - $reach)
    OR (told.basis = 'estimate' AND ended.end_ns > $now - $reach
        AND ({_LOOKED_AGAIN}))
ORDER BY told.made_ns NULLS FIRST, ended.end_ns <= $now - $reach,
    CASE WHEN ended.end_ns > $now - $reach THEN ended.end_ns ELSE -ended.end_ns END,
    ended.cluster, ended.job_id LIMIT $most
"""


def select_due_ended_jobs(
    lake: Tables, now_ns: int, *, lag_ns: int = LAG_NS, most: int = MOST_JOBS
) -> list[Mapping[str, Any]]:
    """Rows of `jobs` that want a summary: none yet, one of another end, and of jobs that ended lately, one of an older
    analysis or one whose sums are not what the rollup says now (looked at again after another `lag_ns`). Older ones
    keep theirs: their records may have expired (`batch.reanalysis` makes them again where nothing is lost by it)."""
    found = lake.query(
        _DUE, {"now": now_ns, "lag": lag_ns, "reach": AGAIN_NS + lag_ns, "version": ANALYSIS_VERSION, "most": most}
    )
    due = found.to_pylist()
    if len(due) < most:
        due += _select_changed(lake, now_ns, lag_ns=lag_ns, most=most - len(due))
    return _carried(lake, due, now_ns)


def _select_changed(lake: Tables, now_ns: int, *, lag_ns: int, most: int) -> list[Mapping[str, Any]]:
    """Jobs that ended lately of which counters say another volume now than their summary does."""
    reach = now_ns - AGAIN_NS - lag_ns
    told = lake.query(
        "SELECT ended.* EXCLUDE (day), told.basis, told.read_bytes AS said_read, told.write_bytes AS said_write,"
        " told.read_ops AS said_reads, told.write_ops AS said_writes, told.metadata_ops AS said_metadata"
        " FROM jobs ended JOIN job_summary told ON told.job_id = ended.job_id AND told.start_ns = ended.start_ns"
        " AND told.cluster IS NOT DISTINCT FROM ended.cluster AND told.end_ns = ended.end_ns"
        f" WHERE ended.end_ns > {reach} AND ended.end_ns <= {now_ns - lag_ns} AND told.made_ns < {now_ns - lag_ns}"
        f" AND told.analysis_version >= {ANALYSIS_VERSION} ORDER BY told.made_ns LIMIT {MOST_COMPARED}"
    )
    if not told.num_rows:
        return []
    now = read_job_volumes(lake, told, now_ns, by_node=False)
    changed = np.zeros(told.num_rows, np.bool_)
    for name, said in zip(SERIES, _SAID, strict=True):
        same = pc.fill_null(pc.equal(now[name], told[said]), False)
        neither = pc.and_(pc.is_null(now[name]), pc.is_null(told[said]))
        changed |= ~np.asarray(pc.or_(same, neither))
    changed &= np.asarray(pc.is_valid(now["layer"]))
    rows = told.filter(pa.array(changed)).slice(0, most).drop_columns(["basis", *_SAID]).to_pylist()
    return [{**row, "recorded": True, "again": True} for row in rows]


_SAID = ("said_read", "said_write", "said_reads", "said_writes", "said_metadata")


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

"""Which jobs that just ended have all their records here: everything that watches them has told of a later time.

A job of which nothing is heard any more is left to `analysis_loop.select_due_jobs`, which waits a fixed time. Not here:
summaries.
"""
# ruff: noqa: S608  (conditions are numbers of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.diagnosing.serving_components import Tables, build_day_condition

_BARE = "{0}.state IS NULL AND {0}.submit_ns IS NULL AND {0}.nodes_count IS NULL AND {0}.processes IS NULL"
STAND_IN = f"""({_BARE.format("jobs")} AND EXISTS (SELECT 1 FROM jobs told
    WHERE told.job_id = jobs.job_id AND (jobs.cluster IS NULL OR told.cluster = jobs.cluster)
        AND NOT ({_BARE.format("told")}) AND told.start_ns <= jobs.end_ns
        AND (told.end_ns IS NULL OR told.end_ns >= jobs.start_ns)))"""
"""Of a row of `jobs`: it was made of what records say of their job, and the scheduler's own account of that run is
there, too. They begin and end at other moments, so both are in the lake; the account is the job."""
_SERVERS = ("forwarder", "target", "mds")
_BEFORE_NS = 60 * NS_PER_S


def select_complete_ended_jobs(lake: Tables, now_ns: int, *, within_ns: int, most: int) -> list[Mapping[str, Any]]:
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
        for job in _filter_complete_jobs(ended, *_last_words(lake, ended, first - _BEFORE_NS, now_ns))
    ]


def _filter_complete_jobs(
    jobs: Sequence[Mapping[str, Any]],
    nodes: Mapping[str, int],
    servers: Mapping[str, Sequence[tuple[str, str]]],
    told: Mapping[tuple[str, str], int],
) -> list[Mapping[str, Any]]:
    """Those of `jobs` whose sources have all been heard of a time at or after their end. `nodes`: the last word of each
    node that is watched; `servers`: components that counted a job; `told`: the last word of each of these."""
    found = []
    for job in jobs:
        words = [nodes[name] for name in job["nodes"] or () if name in nodes]
        words += [told.get(server, 0) for server in servers.get(str(job["job_id"]), ())]
        if words and min(words) >= int(job["end_ns"]):
            found.append(job)
    return found


def _last_words(
    lake: Tables, jobs: Sequence[Mapping[str, Any]], first: int, now_ns: int
) -> tuple[dict[str, int], dict[str, list[tuple[str, str]]], dict[tuple[str, str], int]]:
    """What `_filter_complete_jobs` wants to know, of the times from `first` to now."""
    when = f"ts_ns > {first} AND ts_ns <= {now_ns} AND {build_day_condition(first, now_ns)}"
    counted = lake.query(
        f"SELECT kind, id, list(DISTINCT job_id) AS jobs, max(ts_ns) AS ts_ns FROM rollup WHERE {when}"
        f" AND interval_ns = {NS_PER_S} AND kind IN (SELECT unnest($kinds)) GROUP BY kind, id",
        {"kinds": list(_SERVERS)},
    ).to_pylist()
    names = sorted({str(name) for job in jobs for name in job["nodes"] or ()} | {row["id"] for row in counted})
    found = lake.query(
        "SELECT name, max(ts_ns) AS ts_ns FROM ("
        f"SELECT node AS name, ts_ns FROM health WHERE {when} AND node IN (SELECT unnest($names)) UNION ALL"
        f" SELECT id AS name, ts_ns FROM rollup WHERE {when} AND interval_ns = {NS_PER_S} AND kind = $k_node"
        " AND id IN (SELECT unnest($names))) GROUP BY name",
        {"names": names, "k_node": "node"},
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

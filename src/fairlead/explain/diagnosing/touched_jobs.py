"""Jobs that were judged before an incident became known that touches them: they are judged again.

A detector needs minutes to call a component sick, a job is judged seconds after its end. Not here: incidents
(`health_round`), what judging is (`diagnosis_step`).
"""
# ruff: noqa: S608  (conditions are numbers of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from fairlead.core.model.finding import Evidence
from fairlead.core.model.finding_incident_rows import DIAGNOSIS_VERSION, JudgedAgain, StoredFinding
from fairlead.core.model.unit_formats import NS_PER_S, format_time
from fairlead.core.safe_text import escape_text
from fairlead.explain.diagnosing.serving_components import Tables, build_day_condition
from fairlead.explain.questions.past_phases import LATEST

REACH_NS = 86_400 * NS_PER_S
"""Jobs that ended longer ago are not judged again for an incident."""
EVERY_NS = 10 * NS_PER_S
"""New incidents are looked for this often."""
LEAST_LOST_S = 1.0
"""Phases that lost less have nothing to be explained."""
Known = tuple[str, int, bool]
"""What of an incident matters to jobs: its id, its beginning, whether it was withdrawn."""


class Touched:
    """Remembers which incidents were looked at: after a start those of the last day are looked at once more."""

    def __init__(self) -> None:
        self._seen: set[Known] = set()
        self._next_ns = 0

    def select_jobs(self, lake: Tables, now_ns: int, *, most: int) -> list[Mapping[str, Any]]:
        """Rows of `jobs` with slow phases at a component while it was sick, judged before that was known (`because`:
        the incident's id). Raises LakeError."""
        if now_ns < self._next_ns:
            return []
        self._next_ns = now_ns + EVERY_NS
        first = now_ns - REACH_NS
        rows = lake.query(
            "SELECT id, component, from_ns, to_ns, made_ns, coalesce(withdrawn, false) AS withdrawn FROM incident"
            f" WHERE (to_ns IS NULL OR to_ns > {first}) AND made_ns > {first}"
            f" AND analysis_version = {DIAGNOSIS_VERSION} ORDER BY from_ns, id"
        ).to_pylist()
        states = {(row["id"], row["from_ns"], row["withdrawn"]): row for row in rows}
        fresh = [row for state, row in states.items() if state not in self._seen]
        jobs = _select_jobs_at(lake, fresh, first, now_ns, most) if fresh else []
        if len(jobs) < most:  # else the rest is found at the next look: those judged by then are not asked for again
            self._seen = set(states)
        return jobs


def _select_jobs_at(
    lake: Tables, incidents: Sequence[Mapping[str, Any]], first: int, now_ns: int, most: int
) -> list[Mapping[str, Any]]:
    names = ("id", "component", "from_ns", "to_ns", "made_ns")
    words: dict[str, object] = {f"i_{name}": [row[name] for row in incidents] for name in names}
    asked = ", ".join(f"unnest($i_{name}) AS {name}" for name in names)
    found = lake.query(
        f"WITH known AS (SELECT {asked}), slow AS (SELECT * FROM phase WHERE lost_s >= {LEAST_LOST_S}"
        f" AND {build_day_condition(first - REACH_NS, now_ns)} QUALIFY {LATEST}), touched AS ("
        " SELECT slow.cluster, slow.job_id, slow.job_start_ns, min(known.id) AS because FROM slow JOIN known"
        " ON slow.start_ns < coalesce(known.to_ns, $now) AND slow.end_ns > known.from_ns"
        " AND slow.made_ns < known.made_ns AND (list_contains(slow.targets, known.component)"
        " OR list_contains(slow.forwarders, known.component) OR list_contains(slow.mds, known.component))"
        " GROUP BY ALL)"
        " SELECT jobs.* EXCLUDE (day), true AS again, true AS recorded, touched.because FROM jobs JOIN touched"
        " ON jobs.job_id = touched.job_id AND jobs.start_ns = touched.job_start_ns AND jobs.cluster"
        f" IS NOT DISTINCT FROM touched.cluster WHERE jobs.end_ns > {first} AND jobs.end_ns <= {now_ns}"
        f" AND {build_day_condition(first - REACH_NS, now_ns)}"
        " ORDER BY jobs.end_ns DESC, jobs.cluster, jobs.job_id LIMIT $most",
        {**words, "now": now_ns, "most": most},
    )
    return list(found.to_pylist())


def mark_judged_again(
    told: Sequence[StoredFinding], jobs: Sequence[Mapping[str, Any]], now_ns: int
) -> list[StoredFinding]:
    """Findings of jobs that were judged again because of an incident, saying so."""
    because = {(job.get("cluster"), str(job["job_id"])): str(job["because"]) for job in jobs if job.get("because")}
    made = []
    for one in told:
        incident = because.get((one.cluster, str(one.job_id)))
        if incident is None:
            made.append(one)
            continue
        said = f"judged again at {format_time(now_ns)} because incident {escape_text(incident)} became known"
        evidence = [*one.finding.evidence, Evidence(text=said, metric="judged_again", value=incident)]
        again = JudgedAgain(at_ns=now_ns, incident=incident)
        made.append(replace(one, finding=replace(one.finding, evidence=evidence), judged_again=again))
    return made

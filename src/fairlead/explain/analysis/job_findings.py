"""Findings about jobs: abnormal phases with what they are attributed to, put into words; one for each job and cause.

Pure, and the same to the byte for the same input: nothing of the clock goes in. Not here: which phases are abnormal
(`anomalies`), who took the time (`interference`), what to do about it (`advice`, given as a function).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fairlead.core.model.finding import Advice, Evidence, Finding, Severity, Subject
from fairlead.core.model.finding_incident_rows import DIAGNOSIS_VERSION, StoredFinding
from fairlead.core.model.identity import compute_short_identity
from fairlead.core.model.unit_formats import NS_PER_S, format_count, format_duration
from fairlead.core.safe_text import escape_text
from fairlead.explain.analysis.anomalies.detector_output import PhaseJudgement
from fairlead.explain.analysis.interference.scene import Attribution, Culprit

Advise = Callable[[str, str, Mapping[str, object], str | None], Sequence[Advice]]
"""(rule, verdict, facts, kind of component or None) → what to do: `advice.build_advice` over a set of advice."""

RULES = {"component": "job.slow_component", "own": "job.own_change", "unknown": "job.slow_unexplained"}
"""Verdict → rule; every other verdict is of a neighbour: `job.interference`."""
_PLAIN = {"forwarder": "forwarder", "target": "target", "mds": "metadata server", "port": "link"}
_DOING = {
    "n_to_1": "writing or reading one file with many processes",
    "high_mdops": "making many metadata operations",
    "high_bandwidth": "moving much data",
    "high_iops": "making many small requests",
    "mixed": "loading it in several ways",
}
_WORDS = {"read": "reads", "write": "writes", "metadata": "metadata operations"}
SHARES = (0.5, 0.2, 0.05)
"""Share of the run time lost from which a finding is critical (of a large job), high, a warning."""
LARGE_NODE_S = 36_000.0
"""Node-seconds lost (ten node-hours) from which a finding goes one step up."""
MOST_EVIDENCE = 12


@dataclass(frozen=True)
class _Part:
    """One abnormal phase of a finding."""

    row: Mapping[str, Any]
    abnormal: float
    expected_s: float
    lost_s: float
    runs: int
    said: Attribution

    @property
    def first(self) -> Culprit | None:
        return self.said.culprits[0] if self.said.culprits else None

    @property
    def cost_s(self) -> float:
        """What the cause took of this phase: of a culprit its part, else all that was lost."""
        if not self.said.accused or not self.said.culprits:
            return self.lost_s
        many = self.said.verdict == "many_neighbours"
        known = [
            one.cost_s for one in (self.said.culprits if many else self.said.culprits[:1]) if one.cost_s is not None
        ]
        return min(sum(known), self.lost_s) if known else self.lost_s


def build_job_findings(
    phases: pa.Table,
    judged: PhaseJudgement,
    attributions: Mapping[int, Attribution],
    *,
    jobs: pa.Table | None = None,
    advise: Advise | None = None,
) -> list[StoredFinding]:
    """Findings of the phases (schema PHASE, of any number of jobs) that `attributions` has something of, by row.

    Phases of one job (and start) with the same culprit are one finding. `jobs`: rows of JOBS, which tell how long a job
    ran; without them it is taken to have run from its start to the end of its last phase here. Sorted by job, cost,
    identity.
    """
    rows = phases.select([name for name in _NEEDED if name in phases.schema.names]).to_pylist()
    ran = _run_times(rows, jobs)
    groups: dict[tuple[object, ...], list[_Part]] = {}
    for at in sorted(attributions):
        part = _part(rows[at], judged, at, attributions[at])
        groups.setdefault((*_run(rows[at]), *_cause(part.said)), []).append(part)
    told = [_told(parts, ran.get(_run(parts[0].row)), advise) for parts in groups.values()]
    return sorted(
        told,
        key=lambda one: (
            one.cluster or "",
            one.job_id or "",
            one.finding.from_ns or 0,
            -(one.finding.cost_s or 0.0),
            one.finding.id,
        ),
    )


_NEEDED = (
    "cluster",
    "job_id",
    "job_start_ns",
    "number",
    "kind",
    "start_ns",
    "end_ns",
    "active_ns",
    "user",
    "program",
    "nodes_count",
    "processes",
    "fs",
    "missing",
    "forwarders",
    "targets",
    "mds",
)


def _run(row: Mapping[str, Any]) -> tuple[object, ...]:
    return (row["cluster"], row["job_id"], row["job_start_ns"])


def _cause(said: Attribution) -> tuple[str, ...]:
    if said.accused and said.culprits and said.verdict != "many_neighbours":
        who = said.culprits[0].who
        return (_rule(said), who.kind, who.id)
    return (_rule(said), said.verdict if said.verdict == "many_neighbours" else "", "")


def _rule(said: Attribution) -> str:
    return RULES.get(said.verdict, "job.interference")


def _part(row: Mapping[str, Any], judged: PhaseJudgement, at: int, said: Attribution) -> _Part:
    def known(value: float) -> float:
        return float(value) if np.isfinite(value) else 0.0

    return _Part(
        row,
        known(judged.confidence[at]),
        known(judged.expected_s[at]),
        known(judged.lost_s[at]),
        int(judged.runs[at]),
        said,
    )


def _run_times(rows: Sequence[Mapping[str, Any]], jobs: pa.Table | None) -> dict[tuple[object, ...], float]:
    """Seconds each run took, as far as is known."""
    ends: dict[tuple[object, ...], int] = {}
    for row in rows:
        ends[_run(row)] = max(ends.get(_run(row), 0), int(row["end_ns"]))
    if jobs is not None:
        names = ("cluster", "job_id", "start_ns", "end_ns")
        for cluster, job, start, end in zip(*(jobs[name].to_pylist() for name in names), strict=True):
            if end is not None:
                ends[(cluster, job, start)] = max(ends.get((cluster, job, start), 0), int(end))
    return {
        run: (end - int(start)) / NS_PER_S
        for run, end in ends.items()
        if isinstance(start := run[2], int) and end > start
    }


def _told(parts: Sequence[_Part], ran_s: float | None, advise: Advise | None) -> StoredFinding:
    # The costliest phase speaks for the others.
    parts = sorted(parts, key=lambda one: (-one.cost_s, one.row["start_ns"], one.row["kind"], one.row["number"]))
    worst = parts[0]
    said, row = worst.said, worst.row
    cost = sum(one.cost_s for one in parts)
    lost = sum(one.lost_s for one in parts)
    rule = _rule(said)
    culprits = _culprits(parts)
    components = _components(parts)
    category = _category(parts)
    first = worst.first if said.accused else None
    facts = _facts(row, first, culprits, components, lost)
    layer = components[0].kind if components else None
    active = _active(parts)
    finding = Finding(
        id=compute_short_identity(rule, row["cluster"], row["job_id"], row["job_start_ns"], *_cause(said)),
        rule=rule,
        title=_title(row["job_id"], rule, category, culprits, components, cost, len(active)),
        subject=Subject("job", row["job_id"]),
        from_ns=min(one.row["start_ns"] for one in parts),
        to_ns=max(one.row["end_ns"] for one in parts),
        severity=_severity(cost, ran_s, row["nodes_count"]),
        confidence=_confidence(parts, rule),
        category=category,
        culprits=culprits,
        evidence=_evidence(parts),
        missing=_missing(parts),
        advice=list(advise(rule, category, facts, layer)) if advise is not None else [],
        cost_s=round(cost, 3),
        cost_basis=_basis(rule),
        analysis_version=str(DIAGNOSIS_VERSION),
    )
    return StoredFinding(
        finding=finding,
        cluster=row["cluster"],
        job_id=row["job_id"],
        user=row["user"],
        components=components,
        active=active,
        precision=said.precision,
    )


def _active(parts: Sequence[_Part]) -> list[Subject]:
    """Jobs that were active meanwhile; of a job with a culprit none."""
    return list(dict.fromkeys(who for part in parts if not part.said.accused for who in part.said.active))


def _culprits(parts: Sequence[_Part]) -> list[Subject]:
    found: dict[Subject, None] = {}
    for part in parts:
        if part.said.accused:
            many = part.said.verdict == "many_neighbours"
            for one in part.said.culprits if many else part.said.culprits[:1]:
                found.setdefault(one.who)
    return list(found)


def _components(parts: Sequence[_Part]) -> list[Subject]:
    """Where the time was lost, worst first; of a job without a culprit nothing is named."""
    found: dict[Subject, None] = {}
    for part in parts:
        if part.said.accused:
            for one in part.said.culprits[:1]:
                for where in one.at:
                    found.setdefault(where)
    return list(found)


def _category(parts: Sequence[_Part]) -> str:
    """The verdict that most of the cost is of."""
    costs: dict[str, float] = {}
    for part in parts:
        costs[part.said.verdict] = costs.get(part.said.verdict, 0.0) + part.cost_s
    return max(costs, key=lambda verdict: (costs[verdict], verdict))


def _confidence(parts: Sequence[_Part], rule: str) -> float:
    """How sure it is that the phases were abnormal and that this was why, by cost: of an accusation, how often ones
    like it were right on held-out seasons. Without a cause, that they were abnormal."""
    weights = np.array([max(part.cost_s, 1e-9) for part in parts])
    sure = np.array([_part_confidence(part, rule) for part in parts])
    return round(float((weights * sure).sum() / weights.sum()), 4)


def _part_confidence(part: _Part, rule: str) -> float:
    if rule == "job.slow_unexplained":
        return part.abnormal
    shown = part.said.precision
    return shown.right / shown.count if shown is not None else part.abnormal * part.said.confidence


def _severity(cost_s: float, ran_s: float | None, nodes: int | None) -> Severity:
    share = cost_s / ran_s if ran_s else None
    steps: tuple[Severity, ...] = ("critical", "high", "warning", "info")
    level = (2 if cost_s >= 60.0 else 3) if share is None else 1 + sum(share < limit for limit in SHARES[1:])
    large = cost_s * (nodes or 1) >= LARGE_NODE_S
    if large and (level > 1 or (share is not None and share >= SHARES[0])):
        level -= 1
    return steps[level]


def _title(
    job: str,
    rule: str,
    category: str,
    culprits: Sequence[Subject],
    components: Sequence[Subject],
    cost_s: float,
    active: int,
) -> str:
    lost = format_duration(cost_s)
    name = escape_text(job)
    if rule == "job.interference" and category == "many_neighbours":
        return f"Job {name} lost {lost} to {len(culprits)} jobs together"
    if rule == "job.interference" and culprits:
        at = (
            f" at {_PLAIN.get(components[0].kind, components[0].kind)} {escape_text(components[0].id)}"
            if components
            else ""
        )
        doing = _DOING.get(category, category)
        return f"Job {name} lost {lost} to job {escape_text(culprits[0].id)}, which was {doing}{at}"
    if rule == "job.slow_component" and culprits:
        who = culprits[0]
        return f"Job {name} lost {lost} because {_PLAIN.get(who.kind, who.kind)} {escape_text(who.id)} was slow"
    if rule == "job.own_change":
        return f"Job {name} lost {lost} because its I/O differed from its usual I/O"
    if active:
        others = "one other job was" if active == 1 else f"{format_count(active)} other jobs were"
        return f"Job {name} lost {lost}; {others} active at the time, not accused"
    return f"Job {name} lost {lost}, and the records do not show why"


def _evidence(parts: Sequence[_Part]) -> list[Evidence]:
    worst = parts[0]
    row = worst.row
    took = int(row["active_ns"]) / NS_PER_S
    share = worst.lost_s / max(worst.expected_s, 1e-9)
    told = (
        [
            Evidence(
                text=f"its {_WORDS.get(row['kind'], row['kind'])} (phase {row['number'] + 1}) took "
                f"{format_duration(took)}; the same amount usually takes {format_duration(worst.expected_s)}"
                + _compared(worst.runs),
                metric="lost",
                value=round(worst.lost_s, 3),
                unit="s",
            )
        ]
        if share > 0
        else []
    )
    told += worst.said.evidence[: MOST_EVIDENCE - 3]
    told += _shown(worst.said) + _active_evidence(_active(parts))
    if len(parts) > 1:
        rest = sum(part.lost_s for part in parts[1:])
        told.append(
            Evidence(
                text=f"{format_count(len(parts) - 1)} more of its phases, which lost {format_duration(rest)}, show "
                "the same",
                metric="phases",
                value=len(parts),
            )
        )
    return told


def _shown(said: Attribution) -> list[Evidence]:
    shown = said.precision
    if shown is None:
        return []
    return [
        Evidence(
            text=f"accusations on such records ({shown.view}) were right in {format_count(shown.right)} of "
            f"{format_count(shown.count)} cases on simulated seasons they were not tuned on",
            metric="precision",
            value=round(shown.right / shown.count, 4),
            unit="share",
        )
    ]


def _active_evidence(active: Sequence[Subject]) -> list[Evidence]:
    if not active:
        return []
    names = ", ".join(escape_text(who.id) for who in active)
    whose = f"job {names} was" if len(active) == 1 else f"jobs {names} were"
    return [
        Evidence(
            text=f"{whose} active at the same components at the time; the records do not show that "
            f"{'it' if len(active) == 1 else 'one of them'} was the cause",
            metric="active",
            value=len(active),
            unit="count",
        )
    ]


def _compared(runs: int) -> str:
    return f" ({format_count(runs)} other phases to compare with)" if runs > 0 else ""


def _missing(parts: Sequence[_Part]) -> list[str]:
    found: dict[str, None] = {}
    for part in parts:
        for text in (*part.said.missing, *(part.row.get("missing") or ())):
            found.setdefault(str(text))
    return list(found)


def _basis(rule: str) -> str:
    basis = "time beyond what the same amount of work usually takes in the job's category"
    return basis if rule in ("job.slow_unexplained", "job.own_change") else f"{basis}; the part due to this cause"


def _facts(
    row: Mapping[str, Any],
    first: Culprit | None,
    culprits: Sequence[Subject],
    components: Sequence[Subject],
    lost_s: float,
) -> dict[str, object]:
    facts: dict[str, object] = {
        "job": row["job_id"],
        "user": row["user"],
        "program": row["program"],
        "fs": row.get("fs"),
        "lost_s": lost_s,
        "component": components[0].id if components else None,
        "neighbours": len(culprits) or None,
        "forwarders": len(row.get("forwarders") or ()) or None,
    }
    if first is None or first.who.kind != "job":
        # Without a culprit, what is told of processes is told of the job itself.
        facts["processes"] = row["processes"]
    if first is not None:
        facts |= dict(first.facts)
    return {name: value for name, value in facts.items() if value is not None}

"""Findings in the lake: chosen by time, job, component, user, severity; one version of the analysis at a time.

Not here: what is drawn of one (`finding_detail`), a job as a whole (`job_explanation`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from fairlead.core.model.finding import SEVERITIES
from fairlead.core.model.finding_incident_rows import StoredFinding, parse_finding_rows
from fairlead.explain.questions.answers_diagnosis import Findings
from fairlead.explain.questions.job_accounts import read_run_accounts
from fairlead.explain.questions.lake_queries import (
    Sight,
    Tables,
    UnknownNameError,
    build_day_filter,
    find_similar_names,
    list_query_rows,
    query_lake,
)
from fairlead.explain.questions.redaction import redact_findings
from fairlead.explain.questions.span import DAY_NS, Span
from fairlead.explain.questions.visible_lake import is_job_visible, narrow_visible_lake, widen_visible_lake

_LONGEST_NS = 32 * DAY_NS
"""A finding whose time begins earlier than this before a span is not looked for in it."""
_DAY = "from_ns // 86400000000000"
_FAMILY = "split_part(rule, '.', 1)"
_MANY = 100_000
_KINDS = ("forwarder", "target", "mds", "port", "device", "node", "client", "server")


def list_findings(
    lake: Tables,
    span: Span,
    sight: Sight,
    *,
    job: str = "",
    component: str = "",
    user: str = "",
    severity: str = "",
    rule: str = "",
    text: str = "",
    without: Collection[str] = (),
    among: Collection[str] | None = None,
    limit: int = 50,
    offset: int = 0,
) -> Findings:
    """Findings whose time touches the span. `severity`: that one and graver. `component`: a name, or `kind:name`.
    `job`: about it or blaming it; whether another's job is blamed is not told by asking for it. `text`: words of it.
    `without`, `among`: ids that are left out, or the only ones listed."""
    runs = read_run_accounts(widen_visible_lake(lake), job) if job else []
    blamed = sight.everything or {is_job_visible(run, sight) for run in runs} == {True}
    where, words = _chosen(job, component, user, rule, blamed=blamed)
    where, words = _narrower(where, words, text, sight, without, among)
    rank = " ".join(f"WHEN '{name}' THEN {number}" for number, name in enumerate(SEVERITIES))
    found = query_lake(
        narrow_visible_lake(lake, span),
        f"SELECT detail, severity, rule, analysis_version, newest FROM {_with_newest(span)}"
        f" WHERE coalesce(to_ns, from_ns) >= {span.from_ns} AND NOT coalesce(withdrawn, false) AND {where}"
        f" ORDER BY CASE severity {rank} ELSE {len(SEVERITIES)} END, from_ns DESC, id",
        words,
        began=_reach(span),
    )
    every = found.filter(pa.array([v == n for v, n in _versions(found)], pa.bool_()))
    grave = SEVERITIES[: SEVERITIES.index(severity) + 1] if severity else SEVERITIES
    current = every.filter(pa.array([one in grave for one in every["severity"].to_pylist()], pa.bool_()))
    listed = redact_findings(lake, parse_finding_rows(current.slice(offset, limit)), sight)
    versions = [version for version, _ in _versions(current)]
    return Findings(
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        total=current.num_rows,
        findings=listed,
        older=found.num_rows - every.num_rows,
        by_severity=_counted(every["severity"]),
        by_rule=_counted(current["rule"]),
        analysis_version=max(versions, default=None),
        missing=[] if current.num_rows else _why_none(lake, span, job, user),
    )


def _counted(column: pa.ChunkedArray) -> dict[str, int]:
    return dict(Counter(column.to_pylist()).most_common())


def _narrower(
    where: str,
    words: Mapping[str, object],
    text: str,
    sight: Sight,
    without: Collection[str],
    among: Collection[str] | None,
) -> tuple[str, dict[str, object]]:
    """The condition with these besides. Who does not see everything finds no words he would not be told: those of
    titles may be other people's."""
    more: dict[str, object] = {}
    if text:
        said = "subject_id, rule, category" + (
            ", title, \"user\", array_to_string(culprits, ' ')" if sight.everything else ""
        )
        where += f" AND contains(lower(concat_ws(' ', {said})), $text)"
        more["text"] = text.lower()
    if without:
        where += " AND id NOT IN (SELECT unnest($without))"
        more["without"] = list(without)
    if among is not None:
        where += " AND list_contains($among, id)"
        more["among"] = [*among, ""]
    return where, {**words, **more}


def _reach(span: Span) -> Span:
    return Span(span.from_ns - _LONGEST_NS, span.to_ns)


def _with_newest(span: Span) -> str:
    """Findings whose time may touch the span, with `newest`: the highest version of the analysis that has looked at
    their day, as its findings of that kind (and, of jobs, its phases) tell."""
    reach = _reach(span)
    return (
        f"(SELECT found.*, greatest(max(analysis_version) OVER (PARTITION BY {_DAY}, {_FAMILY}),"
        f" CASE WHEN {_FAMILY} = $k_job THEN coalesce(looked.version, 0) ELSE 0 END) AS newest"
        f" FROM (SELECT * FROM finding WHERE from_ns < {span.to_ns} AND {build_day_filter(reach)}) found"
        " LEFT JOIN (SELECT start_ns // 86400000000000 AS at_day, max(analysis_version) AS version FROM phase"
        f" WHERE start_ns >= {reach.from_ns} AND start_ns < {span.to_ns} AND {build_day_filter(reach)} GROUP"
        f" BY at_day) looked"
        f" ON looked.at_day = {_DAY})"
    )


def _versions(found: pa.Table) -> list[tuple[int, int]]:
    return list(zip(found["analysis_version"].to_pylist(), found["newest"].to_pylist(), strict=True))


def _chosen(job: str, component: str, user: str, rule: str, *, blamed: bool = False) -> tuple[str, dict[str, object]]:
    """The condition and its parameters."""
    parts: list[str] = ["$k_job IS NOT NULL"]
    words: dict[str, object] = {"k_job": "job"}
    if job:
        parts.append("(job_id = $job OR list_contains(culprits, $culprit))" if blamed else "job_id = $job")
        words |= {"job": job, **({"culprit": f"job:{job}"} if blamed else {})}
    if component:
        parts.append(
            "(subject_kind || ':' || subject_id IN (SELECT unnest($places)) OR list_has_any(components, $places))"
        )
        words["places"] = [component, *(f"{kind}:{component}" for kind in _KINDS)]
    if user:
        parts.append('"user" = $owner')
        words["owner"] = user
    if rule:
        parts.append("rule = $rule")
        words["rule"] = rule
    return " AND ".join(parts), words


def _why_none(lake: Tables, span: Span, job: str, user: str) -> list[str]:
    """What there is to look at in the span (of this job, of this user's): no finding is good news only where phases
    were judged."""
    whose = (" AND job_id = $job" if job else "") + (' AND "user" = $owner' if user else "")
    found = list_query_rows(
        query_lake(
            lake,
            "SELECT count(*) AS phases, count(expected_s) AS judged FROM phase"
            f" WHERE start_ns >= {span.from_ns} AND start_ns < {span.to_ns} AND {build_day_filter(span)}{whose}",
            {key: value for key, value in (("job", job), ("owner", user)) if value},
            began=span,
        )
    )
    [row] = found
    if not row["phases"]:
        return ["phases: none is known of jobs that ended in this time"]
    if not row["judged"]:
        return ["history: no phase of this time has a similar earlier one to compare with"]
    return []


def find_finding(lake: Tables, name: str) -> tuple[StoredFinding, Mapping[str, object]]:
    """The finding of this id (or the only one whose id begins so), and its row. Raises UnknownNameError for one that is
    not there or not for this reader."""
    where, words = _chosen("", "", "", "")
    found = query_lake(
        lake,
        "SELECT detail, id, made_ns, analysis_version, withdrawn FROM finding WHERE starts_with(id, $name)"
        f" AND {where} ORDER BY id LIMIT 2",
        {**words, "name": name},
    )
    rows = list_query_rows(found)
    exact = [row for row in rows if row["id"] == name] or rows
    if len(exact) != 1 or not name:
        known = query_lake(lake, f"SELECT DISTINCT id FROM finding WHERE {where} ORDER BY id LIMIT {_MANY}", words)
        raise UnknownNameError("finding", name, find_similar_names(name, known["id"].to_pylist()))
    return parse_finding_rows(pa.table({"detail": [exact[0]["detail"]]}))[0], exact[0]


def list_job_findings(
    lake: Tables, cluster: str | None, job_id: str, span: Span, sight: Sight, rules: Sequence[str] = ()
) -> list[StoredFinding]:
    """Findings about this job in its time, by what they cost."""
    found = query_lake(
        narrow_visible_lake(lake, span),
        f"SELECT detail FROM {_with_newest(span)} WHERE from_ns >= {span.from_ns}"
        " AND job_id = $job AND cluster IS NOT DISTINCT FROM $cluster"
        " AND NOT coalesce(withdrawn, false) AND analysis_version = newest ORDER BY cost_s DESC NULLS LAST, id",
        {"job": job_id, "cluster": cluster, "k_job": "job"},
        began=Span(span.from_ns, span.to_ns),
    )
    return [
        one for one in redact_findings(lake, parse_finding_rows(found), sight) if not rules or one.finding.rule in rules
    ]


def list_blaming_findings(lake: Tables, cluster: str | None, job_id: str, span: Span) -> list[StoredFinding]:
    """Findings about other jobs that blame this one for its time, by what they cost."""
    found = query_lake(
        narrow_visible_lake(lake, span),
        f"SELECT detail FROM {_with_newest(span)} WHERE coalesce(to_ns, from_ns) >= {span.from_ns}"
        " AND list_contains(culprits, $culprit) AND cluster IS NOT DISTINCT FROM $cluster AND job_id <> $job"
        " AND NOT coalesce(withdrawn, false) AND analysis_version = newest ORDER BY cost_s DESC NULLS LAST, id",
        {"job": job_id, "culprit": f"job:{job_id}", "cluster": cluster, "k_job": "job"},
        began=_reach(span),
    )
    return parse_finding_rows(found)

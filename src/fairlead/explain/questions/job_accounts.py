"""Jobs as the scheduler tells of them: by number, by time, by owner.

Not here: which of them a reader may see (`visible_lake`), what they moved (`rollup_sums`, `job_lists`).
"""

# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.explain.questions.answers import Bound, JobRow, Sums
from fairlead.explain.questions.lake_queries import (
    Tables,
    UnknownNameError,
    find_similar_names,
    list_query_rows,
    query_lake,
)
from fairlead.explain.questions.span import DAY_NS, Span

COLUMNS = (
    "cluster",
    "job_id",
    "name",
    "user",
    "project",
    "program",
    "partition",
    "submit_ns",
    "start_ns",
    "end_ns",
    "nodes_count",
    "cores",
    "processes",
    "state",
)
_CHOSEN = ", ".join(f'"{name}"' for name in COLUMNS)
LONGEST_RUN_NS = 32 * DAY_NS
"""Jobs that began earlier than this before a span are not looked for in it."""
_MANY = 100_000
"""Among so many of the latest jobs numbers like a wrong one are looked for."""
_ENDED = (
    "completed",
    "failed",
    "cancelled",
    "timeout",
    "node_fail",
    "out_of_memory",
    "boot_fail",
    "deadline",
    "preempted",
)
_WAITING = ("pending", "requeued", "configuring", "held")


def build_account_row(
    account: Mapping[str, Any],
    now_ns: int,
    *,
    sums: Sums | None = None,
    layer: str | None = None,
    bound: Bound | None = None,
) -> JobRow:
    """The account of a job (columns of `jobs`) as a line of a list."""
    known = {name: account[name] for name in COLUMNS}
    if known["nodes_count"] is None and account.get("nodes") is not None:
        known["nodes_count"] = len(account["nodes"])
    return JobRow(**known, running=is_account_running(account, now_ns), sums=sums or Sums(), layer=layer, bound=bound)


def is_account_running(account: Mapping[str, Any], now_ns: int) -> bool:
    """Whether a job runs: it has begun, has no end, and its state does not say otherwise."""
    start, end = account["start_ns"], account["end_ns"]
    if start is None or start > now_ns:
        return False
    state = (account["state"] or "").split(" ")[0].lower()
    if end is None:
        return not state.startswith(_ENDED + _WAITING)
    return bool(end > now_ns)


def read_run_accounts(lake: Tables, job_id: str, cluster: str | None = None) -> list[dict[str, Any]]:
    """Accounts of the jobs of this number, latest first, with their nodes."""
    conditions = "job_id = $job_id" + (" AND cluster = $cluster" if cluster else "")
    parameters: dict[str, object] = {"job_id": job_id}
    if cluster:
        parameters["cluster"] = cluster
    found = query_lake(
        lake,
        f"SELECT {_CHOSEN}, nodes FROM jobs WHERE {conditions} ORDER BY start_ns DESC NULLS LAST",
        parameters,
        numbers=[job_id],
    )
    return list_query_rows(found)


def find_latest_accounts(lake: Tables, numbers: Sequence[str], span: Span) -> dict[str, dict[str, Any]]:
    """The account of each job number that ran in the span (the latest, where several did)."""
    return {row["job_id"]: row for row in read_all_accounts(lake, numbers, span)}


def read_all_accounts(lake: Tables, numbers: Sequence[str], span: Span) -> list[dict[str, Any]]:
    """Accounts of all jobs of these numbers that ran in the span, of whatever cluster, in the order they began."""
    if not numbers:
        return []
    found = query_lake(
        lake,
        f"SELECT {_CHOSEN} FROM jobs WHERE job_id IN (SELECT unnest($numbers)) AND {build_account_condition(span)} "
        "ORDER BY start_ns NULLS FIRST, cluster, job_id",
        {"numbers": list(numbers)},
        within=compute_account_begin_span(span),
        began=compute_account_begin_span(span),
        numbers=numbers,
    )
    return list_query_rows(found)


def build_account_condition(span: Span) -> str:
    """The condition that a job ran in the span; jobs whose begin is unknown did not."""
    return (
        f"start_ns < {span.to_ns} AND start_ns >= {span.from_ns - LONGEST_RUN_NS}"
        f" AND (end_ns IS NULL OR end_ns >= {span.from_ns})"
    )


def compute_account_begin_span(span: Span) -> Span:
    """When jobs that ran in the span may have begun: what `build_account_condition` looks at."""
    return Span(span.from_ns - LONGEST_RUN_NS, span.to_ns)


def build_unknown_job_error(lake: Tables, job_id: str) -> UnknownNameError:
    """The error for a job that is not there, with numbers like it among the latest ones that are."""
    found = query_lake(
        lake, f"SELECT DISTINCT job_id FROM (SELECT job_id FROM jobs ORDER BY start_ns DESC NULLS LAST LIMIT {_MANY})"
    )
    return UnknownNameError("job", job_id, find_similar_names(job_id, sorted(found.column("job_id").to_pylist())))

"""Which run of a job number a page is about, how much of it is looked at, and whether counters can be told apart.

Not here: what is asked of it.
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead.explain.questions.job_accounts import (
    COLUMNS,
    build_unknown_job_error,
    is_account_running,
    read_run_accounts,
)
from fairlead.explain.questions.job_detail import TAIL_NS, compute_job_detail_life, does_job_detail_overlap
from fairlead.explain.questions.lake_queries import Sight, build_day_filter, list_query_rows, query_lake
from fairlead.explain.questions.question import Asking
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, Span
from fairlead.explain.questions.visible_lake import get_visible_reach, is_job_visible

NOT_TOLD_APART = "counters: another user's job had the same number at that time, and they cannot be told apart"
UNACCOUNTED = "account: the scheduler has not reported this job"
_BACK_NS = 32 * DAY_NS


@dataclass(frozen=True)
class RunSeen:
    """One run. `life`: all of it; `span`: what is looked at; `alone` false: nothing counted may be shown."""

    account: Mapping[str, Any]
    life: Span
    span: Span
    running: bool
    alone: bool = True
    missing: list[str] = field(default_factory=list)

    @property
    def job_id(self) -> str:
        """Its number."""
        return str(self.account["job_id"])

    @property
    def cluster(self) -> str | None:
        """Its cluster, where the scheduler told."""
        return self.account["cluster"]  # type: ignore[no-any-return]

    @property
    def nodes(self) -> list[str]:
        """Nodes it ran on, as told."""
        return list(self.account["nodes"] or ())


def find_run_window(asking: Asking, name: str, asked: Any, sight: Sight, now_ns: int) -> RunSeen:
    """The latest run of this number that this reader may see (of `asked.cluster`, touching the span asked for). Raises
    UnknownNameError, also for one that is somebody else's."""
    lake = asking.lake
    asked_for = asked.span(now_ns, "1h", asking.longest_ns) if asked.says_when else None
    runs = read_run_accounts(lake, name, asked.cluster or None)
    if asked_for is not None and len(runs) > 1:
        runs = [run for run in runs if does_job_detail_overlap(run, asked_for)] or runs
    if not runs:
        if not sight.everything or asked.cluster:
            raise build_unknown_job_error(lake, name)
        return _unaccounted(asking, name, asked_for, now_ns)
    mine = [run for run in runs if is_job_visible(run, sight)]
    if not mine:
        raise build_unknown_job_error(lake, name)
    account = mine[0]
    life = compute_job_detail_life(account, now_ns, TAIL_NS if sight.everything else 0)
    reach = get_visible_reach(lake, life)
    alone = reach is None or not reach.is_number_shared(name, account["start_ns"])
    return RunSeen(
        account=account,
        life=life,
        span=_within(asked_for, life),
        running=is_account_running(account, now_ns),
        alone=alone,
        missing=[] if alone else [NOT_TOLD_APART],
    )


def _within(asked_for: Span | None, life: Span) -> Span:
    seen = life if asked_for is None else asked_for.clip_to(life.from_ns, life.to_ns)
    return seen if seen.length_ns > 0 else life


def _unaccounted(asking: Asking, name: str, asked_for: Span | None, now_ns: int) -> RunSeen:
    """A job only counters know: it lived while they named it."""
    look = (asked_for or Span(now_ns - _BACK_NS, now_ns)).align_to(HOUR_NS)
    [row] = list_query_rows(
        query_lake(
            asking.lake,
            f"SELECT min(ts_ns) AS first, max(ts_ns) AS last FROM rollup WHERE interval_ns = {HOUR_NS} "
            f"AND kind = $kind AND id = $id AND ts_ns >= {look.from_ns} AND ts_ns < {look.to_ns} AND"
            f" {build_day_filter(look)}",
            {"kind": "job", "id": name},
            within=look,
        )
    )
    if row["first"] is None:
        raise build_unknown_job_error(asking.lake, name)
    life = Span(row["first"], min(row["last"] + HOUR_NS, max(now_ns, row["first"] + 1)))
    account: dict[str, Any] = dict.fromkeys((*COLUMNS, "nodes")) | {"job_id": name}
    return RunSeen(account=account, life=life, span=_within(asked_for, life), running=False, missing=[UNACCOUNTED])

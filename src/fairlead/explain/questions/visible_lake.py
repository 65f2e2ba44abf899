"""What of the lake a person sees: jobs by who they belong to, and what those jobs ran on, where and while they did.

A reader who does not see everything asks a `restricted_lake`, in which the rest is not there. Not here: how a
reach is found (`look_up_visible_reach`), who somebody is (`web.identity`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairlead.explain.questions.answers import Series, Timeline
from fairlead.explain.questions.lake_queries import (
    NotForYouError,
    Run,
    Sight,
    Tables,
    UnknownNameError,
    find_similar_names,
)
from fairlead.explain.questions.span import SECOND_NS, Span

Decision = Literal["run", "own", "machine"]
RUN: Decision = "run"
OWN: Decision = "own"
MACHINE: Decision = "machine"
DECISIONS: Mapping[str, Decision] = {
    "job": RUN,
    "why": RUN,
    "job_timeline": RUN,
    "job_ranks": RUN,
    "job_files": RUN,
    "job_requests": RUN,
    "job_efficiency": RUN,
    "finding": RUN,
    "findings": OWN,
    "jobs": OWN,
    "mine": OWN,
    "top": OWN,
    "behaviour": OWN,
    "usage": OWN,
    "node": OWN,
    "target": OWN,
    "targets": OWN,
    "forwarder": OWN,
    "heatmap": OWN,
    "mds": OWN,
    "ports": OWN,
    "devices": OWN,
    "component_health": OWN,
    "layer": OWN,
    "layer_hours": OWN,
    "layer_waits": OWN,
    "layer_component": OWN,
    "system": MACHINE,
    "now": MACHINE,
    "health": MACHINE,
    "cdf": MACHINE,
    "layer_cdf": MACHINE,
    "volumes": MACHINE,
    "own_health": MACHINE,
}
"""Question → who besides support and administrators may ask it. `run`: also who holds a share link, of its run. `own`:
users, of what is theirs. `machine`: nobody else. One that is not named is nobody else's either."""
_INSTEAD = {
    "system": "top/programs and behaviour show your own jobs",
    "now": "mine shows your own jobs",
    "health": "health/components shows what your own jobs use",
    "volumes": "behaviour shows your own jobs",
    "cdf": "targets shows those your own jobs use",
    "own_health": "health/components shows what your own jobs use",
    "layer_cdf": "the layer itself shows what your own jobs use",
}


def require_visible_question(question: str, name: str, sight: Sight, decision: Decision | None = None) -> None:
    """Raises NotForYouError where this reader may not ask a question (about `name`); `decision` None: by its name."""
    decision = decision or DECISIONS.get(question, MACHINE)
    if sight.everything or (decision != MACHINE and sight.only is None):
        return
    if decision == MACHINE:
        raise NotForYouError(
            "this covers the whole machine: only for support staff and administrators",
            remedy=_INSTEAD.get(question, "ask about your own jobs") if sight.only is None else _OF_LINK,
        )
    if decision == RUN and sight.only is not None and (question == "finding" or name == sight.only.job_id):
        return
    raise NotForYouError("a share link shows one run and nothing else", remedy=_OF_LINK)


_OF_LINK = "ask about the shared run, or sign in"


def build_visible_jobs_condition(
    sight: Sight, alias: str = "", start: str = "start_ns"
) -> tuple[str, dict[str, object]]:
    """The condition that a row is of a job this reader may see, and its parameters. Of a table (`alias`) with columns
    `user` and `project`; for a share link with `cluster`, `job_id` and `start`. False or null where it is not."""
    of = f"{alias}." if alias else ""
    if sight.everything:
        return "true", {}
    if sight.only is not None:
        words: dict[str, object] = {"r_number": sight.only.job_id}
        parts = [f"{of}job_id = $r_number"]
        for column, name, value in (
            ("cluster", "r_cluster", sight.only.cluster),
            (start, "r_start", sight.only.start_ns),
        ):
            parts.append(f"{of}{column} IS NULL" if value is None else f"{of}{column} = ${name}")
            words |= {} if value is None else {name: value}
        return f"({' AND '.join(parts)})", words
    parts, words = [], {}
    if sight.user:
        parts.append(f'{of}"user" = $r_user')
        words["r_user"] = sight.user
    if sight.projects:
        parts.append(f"{of}project IN (SELECT unnest($r_projects))")
        words["r_projects"] = list(sight.projects)
    return f"({' OR '.join(parts)})", words


def is_job_visible(account: Mapping[str, Any] | None, sight: Sight) -> bool:
    """Whether this reader may see a job. One without an account is nobody's: only who sees everything sees it."""
    if sight.everything:
        return True
    if account is None:
        return False
    if sight.only is not None:
        return Run(account.get("cluster"), account["job_id"], account["start_ns"]) == sight.only
    user, project = account["user"], account.get("project")
    return bool((user and user == sight.user) or (project and project in sight.projects))


Interval = tuple[int, int]


@dataclass(frozen=True)
class Reach:
    """Columns: row k says that `ids[k]` of `kinds[k]` is seen in [from_ns[k], to_ns[k]). Kinds: node, forwarder,
    target, mds, port, server; `job`: counters that name the job; `source`, `any`: what tells of itself, whatever it is.
    Rows of one id do not overlap. `runs`: (cluster, job_id, start, end) of the jobs it is made of."""

    kinds: NDArray[np.object_]
    ids: NDArray[np.object_]
    from_ns: NDArray[np.int64]
    to_ns: NDArray[np.int64]
    runs: list[tuple[str | None, str, int, int]] = field(default_factory=list)
    mixed: frozenset[tuple[str, int]] = frozenset()
    """(job_id, start) of runs whose number another's job had meanwhile: counters cannot tell them apart."""
    common: frozenset[str] = frozenset()
    """Numbers that another's job ever had."""

    def list_names(self, kind: str, span: Span | None = None) -> list[str]:
        """Components of a kind that are seen at some time (of the span)."""
        chosen = self.kinds == kind
        if span is not None:
            chosen &= (self.from_ns < span.to_ns) & (self.to_ns > span.from_ns)
        return sorted(set(self.ids[chosen].tolist()))

    def list_intervals(self, kind: str, name: str) -> list[Interval]:
        """When one is seen, in the order of time."""
        chosen = (self.kinds == kind) & (self.ids == name)
        return sorted(zip(self.from_ns[chosen].tolist(), self.to_ns[chosen].tolist(), strict=True))

    def is_number_shared(self, job_id: str, start_ns: int | None) -> bool:
        """Whether another's job had the number of this run meanwhile."""
        return start_ns is not None and (job_id, start_ns) in self.mixed


class NarrowLake(ABC):
    """What every narrowed lake has: all of the lake, whose eyes it is for, and what these reach."""

    whole: Tables
    sight: Sight

    @abstractmethod
    def reach(self, span: Span | None = None) -> Reach:
        """What is seen, of jobs that ran in the span (of all)."""

    @abstractmethod
    def narrow_to_span(self, span: Span) -> Tables:
        """The same, for queries that do not say which time they are about."""


def widen_visible_lake(lake: Tables) -> Tables:
    """The lake without anything hidden: for figures that others count in without being told of."""
    return lake.whole if isinstance(lake, NarrowLake) else lake


def get_visible_reach(lake: Tables, span: Span | None = None) -> Reach | None:
    """What the reader of this lake sees; None: everything."""
    return lake.reach(span) if isinstance(lake, NarrowLake) else None


def narrow_visible_lake(lake: Tables, span: Span) -> Tables:
    """The same lake, for queries that do not say their time: what is seen is that of jobs of the span."""
    return lake.narrow_to_span(span) if isinstance(lake, NarrowLake) else lake


def require_visible_component(
    lake: Tables, kinds: str | tuple[str, ...], name: str, span: Span, called: str = ""
) -> list[Interval] | None:
    """When the component is seen in the span; None: always. Raises UnknownNameError for one that is not, whether it is
    there or not. What belongs to a node (`NODE/sda`) is seen with it."""
    seen = get_visible_reach(lake, span)
    if seen is None:
        return None
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    looked = ("node",) if kinds == ("device",) else kinds
    names = sorted({one for kind in looked for one in seen.list_names(kind, span)})
    owner = re.split("[:/]", name, maxsplit=1)[0]
    part = owner if kinds == ("device",) or (kinds == ("any",) and name not in names) else name
    if part not in names:
        raise UnknownNameError(called or kinds[0], name, find_similar_names(name, names))
    return sorted(one for kind in looked for one in seen.list_intervals(kind, part))


def find_visible_intervals(lake: Tables, kind: str, span: Span, name: str = "") -> list[Interval] | None:
    """When components of a kind (or the one of this name) are seen; None: always."""
    seen = get_visible_reach(lake, span)
    if seen is None:
        return None
    return [
        one for known in ([name] if name else seen.list_names(kind, span)) for one in seen.list_intervals(kind, known)
    ]


def mask_by_visible_intervals(drawn: Timeline, intervals: Sequence[Interval] | None) -> Timeline:
    """The timeline with nulls in steps that none of the intervals touches; None: as it is."""
    if intervals is None:
        return drawn
    starts = drawn.from_ns + np.arange(drawn.points, dtype=np.int64) * drawn.step_ns
    seen = np.zeros(drawn.points, np.bool_)
    for begin, end in intervals:
        seen |= (starts < end) & (starts + drawn.step_ns > begin)
    return replace(drawn, series=[_masked(one, seen) for one in drawn.series])


def _masked(series: Series, seen: NDArray[np.bool_]) -> Series:
    lines = {
        name: _line(getattr(series, name), seen)
        for name in ("read_bytes_per_s", "write_bytes_per_s", "metadata_ops_per_s")
    }
    known = any(value is not None for line in lines.values() for value in line)
    return replace(series, **lines, known_share=series.known_share if known else 0.0)


def _line(values: Sequence[float | None], seen: NDArray[np.bool_]) -> list[float | None]:
    return [value if shown else None for value, shown in zip(values, seen.tolist(), strict=True)]


def merge_visible_intervals(
    kinds: NDArray[np.object_], ids: NDArray[np.object_], begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.object_], NDArray[np.object_], NDArray[np.int64], NDArray[np.int64]]:
    """The same times without overlap, to whole seconds around each."""
    begins, ends = begins // SECOND_NS * SECOND_NS, -(-ends // SECOND_NS) * SECOND_NS
    some = ends > begins
    kinds, ids, begins, ends = kinds[some], ids[some], begins[some], ends[some]
    if not len(ids):
        return kinds, ids, begins, ends
    _, kind = np.unique(kinds.astype(str), return_inverse=True)
    _, name = np.unique(ids.astype(str), return_inverse=True)
    key = kind.astype(np.int64) * (int(name.max()) + 1) + name
    order = np.lexsort((begins, key))
    key, kinds, ids, begins, ends = key[order], kinds[order], ids[order], begins[order], ends[order]
    _, group = np.unique(key, return_inverse=True)
    # The latest end so far within each key: keys are moved apart, so that one running maximum does for all.
    far = int(ends.max() - begins.min()) + 1
    if far * (int(group.max()) + 1) < 2**62:
        moved = ends - begins.min() + group.astype(np.int64) * far
        latest = np.maximum.accumulate(moved) - group.astype(np.int64) * far + begins.min()
    else:
        latest = np.concatenate(
            [np.maximum.accumulate(part) for part in np.split(ends, np.flatnonzero(np.diff(key)) + 1)]
        )
    first = np.ones(len(key), np.bool_)
    first[1:] = (key[1:] != key[:-1]) | (begins[1:] > latest[:-1])
    last = np.append(np.flatnonzero(first)[1:], len(key)) - 1
    return kinds[first], ids[first], begins[first], latest[last]

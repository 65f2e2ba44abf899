"""How a question reaches the lake: one SELECT, only the files of its span, rows back as columns. Who may see whom.

A query reads every table whose name stands in it as a word, so kinds and layers (`target`, `port`) go in as parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from fairlead.core.errors import FairleadError
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, Span

LATE_NS = HOUR_NS
"""Rows that are dated up to this much beside a span may lie in files that say so; pruning leaves this margin."""


class Tables(Protocol):
    """Something with the record tables: a `Lake`."""

    def query(self, sql: str, parameters: Any = None) -> pa.Table:
        """The rows of one SELECT."""
        ...


class UnknownNameError(Exception):
    """What was asked about is nowhere in the lake (or not for this reader's eyes). `find_similar_names`: names like
    it."""

    def __init__(self, kind: str, name: str, near: Sequence[str] = ()) -> None:
        super().__init__(f"no {kind} {name!r} is known")
        self.kind, self.name, self.near = kind, name, list(near)


class NotForYouError(FairleadError):
    """A question that this reader may not ask, whatever the lake holds."""

    exit_code = 8


@dataclass(frozen=True)
class Run:
    """One run of a job number: what a share link shows."""

    cluster: str | None
    job_id: str
    start_ns: int | None


@dataclass(frozen=True)
class Sight:
    """Whose jobs may be seen: those of `user` and of `projects`; `only` this one run; all when nothing is said. Nodes,
    forwarders and targets are seen where and while such a job used them (`reach`)."""

    user: str = ""
    projects: tuple[str, ...] = ()
    only: Run | None = None

    @property
    def everything(self) -> bool:
        """Whether nothing is hidden."""
        return not self.user and not self.projects and self.only is None


@lru_cache(maxsize=64)
def _taken(kind: type) -> frozenset[str]:
    query = getattr(kind, "query", None)
    return frozenset(inspect.signature(query).parameters) if query is not None else frozenset()


def query_lake(
    lake: Tables,
    sql: str,
    parameters: Mapping[str, object] | None = None,
    *,
    within: Span | None = None,
    began: Span | None = None,
    numbers: Collection[str] | None = None,
    tables: Mapping[str, pa.Table] | None = None,
) -> pa.Table:
    """Rows of `sql`. Files are not opened that have, of a series, no rows of the time `within`; of a table of jobs
    (`tables.OF_JOBS`), none dated in `began`, or none of the jobs `numbers`. Each must hold for every such table the
    query names; the conditions stay the query's. `tables`: more tables, for this query alone."""
    more: dict[str, object] = {
        "between": None if within is None else (within.from_ns, within.to_ns),
        "began": None if began is None else (began.from_ns, began.to_ns),
        "numbers": numbers,
        "tables": tables,
    }
    known = _taken(type(lake))
    more = {name: value for name, value in more.items() if value is not None and name in known}
    return lake.query(sql, dict(parameters) if parameters else None, **more)


def build_day_filter(span: Span, column: str = "day") -> str:
    """The condition that keeps days beside the span unopened."""
    first, last = span.from_ns // DAY_NS, max(span.from_ns, span.to_ns - 1) // DAY_NS
    return f"{column} BETWEEN DATE '{np.datetime64(first, 'D')}' AND DATE '{np.datetime64(last, 'D')}'"


def list_query_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as dicts, for answers of few rows."""
    return table.to_pylist()  # type: ignore[no-any-return]


def find_similar_names(name: str, known: Sequence[str], most: int = 5) -> list[str]:
    """Names like `name`, likeliest first: equal but for case, beginning with it, holding it, or spelled like it."""
    from difflib import get_close_matches

    lower = name.lower()
    found = [k for k in known if k.lower() == lower]
    found += [k for k in known if k.lower().startswith(lower)]
    found += [k for k in known if lower and lower in k.lower()]
    found += get_close_matches(name, known[:20_000], most, 0.75)
    return list(dict.fromkeys(found))[:most]

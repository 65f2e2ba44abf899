"""How fairlead itself is: who sends, what was taken in, how large the lake is, what is kept, what lags behind.

Null is *not known*, never zero. Times are epoch nanoseconds.
"""

from __future__ import annotations

import msgspec

from fairlead.explain.questions.answers import Answer, Gap


class SourceSeen(Answer, frozen=True, kw_only=True):
    """One node (or feed of the collector) that tells of itself. `state`: silent, failing or ok; `why` says more.
    `troubled`: its probes that fail."""

    node: str
    state: str
    last_ns: int
    every_ns: int
    probes: int
    troubled: list[str]
    lost_batches: int | None
    clock_offset_ns: int | None
    why: str = ""


class Tier(Answer, frozen=True, kw_only=True):
    """How long something is kept: `days`, null is for ever. `tier`: 1s, 1min or 1h of a rollup."""

    tier: str
    days: float | None


class TableHeld(Answer, frozen=True, kw_only=True):
    """One table of the lake: what is in its files. `keeps` is empty where that is not known."""

    table: str
    rows: int
    bytes: int
    files: int
    days: int
    first_day: str | None
    last_day: str | None
    known: bool
    keeps: list[Tier]


class LakeHeld(Answer, frozen=True, kw_only=True):
    """The lake as a whole. `log_bytes`: taken in and not yet in the tables. `bytes_per_day`: of late."""

    root: str
    bytes: int
    log_bytes: int
    free_bytes: int | None
    rows: int
    shards: int
    bytes_per_day: float | None
    tables: list[TableHeld]


class SentRows(Answer, frozen=True, kw_only=True):
    """What sources sent, as they counted it: point k covers [from_ns + k * step_ns, ...). Null: nobody told."""

    from_ns: int
    step_ns: int
    rows_per_s: list[float | None]
    sources: list[int | None]
    """How many told something."""


class SilentHours(Answer, frozen=True, kw_only=True):
    """Sources that were silent at some time of each hour."""

    from_ns: int
    step_ns: int
    silent: list[int]
    gaps: list[Gap]


class AnalysisProgress(Answer, frozen=True, kw_only=True):
    """How far the analysis is. `waiting`: jobs that ended a while ago and have no summary; `oldest_ns`: the end of the
    oldest of these; `last_ns`: when the last summary was made."""

    last_ns: int | None
    ended: int
    waiting: int
    oldest_ns: int | None


class Collecting(Answer, frozen=True, kw_only=True):
    """The last a collector told of itself."""

    node: str
    ts_ns: int
    state: str
    silent: bool
    memory_bytes: int | None
    text: str | None


class OwnHealth(Answer, frozen=True, kw_only=True):
    """Health of fairlead itself. `state`: ok, or troubled when there is something in `problems`."""

    schema: str = "fairlead.own-health/1"
    now_ns: int
    state: str
    problems: list[str]
    states: dict[str, int]
    """Sources by state."""
    sources: list[SourceSeen]
    """Those in trouble first; at most 300."""
    collectors: list[Collecting]
    taken: SentRows
    silences: SilentHours
    lake: LakeHeld | None
    """Null: what was asked is no lake of files."""
    analysis: AnalysisProgress
    missing: list[str] = msgspec.field(default_factory=list)

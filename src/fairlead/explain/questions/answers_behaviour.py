"""What `fairlead job behaviour` answers: statistics of a population of jobs, or of one user's or program's.

Null is *not known*, never zero.
"""

from __future__ import annotations

import msgspec

from fairlead.explain.questions.answers import Answer, Cdf, HeatMap, LayerDay


class ModeLine(Answer, frozen=True, kw_only=True):
    """Non-trivial jobs of one I/O mode (null: not known). `share` is of those whose mode is known."""

    mode: str | None
    jobs: int
    share: float | None
    mean_read_bytes: float | None
    mean_write_bytes: float | None


class ClassLine(Answer, frozen=True, kw_only=True):
    """Jobs of one class of core-hours (null: cores not known), bytes a job."""

    core_hours: str | None
    jobs: int
    mean_read_bytes: float | None
    mean_write_bytes: float | None
    max_read_bytes: float | None
    max_write_bytes: float | None


class RequestLine(Answer, frozen=True, kw_only=True):
    """Jobs whose mean request is smaller than `below_bytes`, of the `known` ones."""

    below_bytes: int
    jobs: int
    job_share: float | None
    ops: int
    ops_share: float | None
    known: int


class SharedLine(Answer, frozen=True, kw_only=True):
    """N-1 jobs of `processes` to four times as many."""

    processes: int
    way: str
    jobs: int
    median_bytes_per_s: float
    highest_bytes_per_s: float


class RankLine(Answer, frozen=True, kw_only=True):
    """A user or program. `trend`: bytes over those of the equally long time before."""

    name: str | None
    jobs: int
    bytes: int | None
    share: float | None
    metadata_ops: int | None
    core_hours: float | None
    earlier_bytes: int | None
    trend: float | None


class RatePoint(Answer, frozen=True, kw_only=True):
    """A job in the scatter of bandwidth over operations a second."""

    job_id: str
    user: str | None
    program: str | None
    mode: str | None
    iops: float
    bandwidth_bytes_per_s: float
    request_bytes: float | None


class CauseLine(Answer, frozen=True, kw_only=True):
    """Abnormal jobs of one cause (`all`: of any). `share` is of non-trivial jobs."""

    cause: str
    jobs: int
    share: float | None
    of_abnormal: float | None
    lost_s: float | None


class RunLine(Answer, frozen=True, kw_only=True):
    """One run of those that are looked at, in the order they began."""

    cluster: str | None
    job_id: str
    start_ns: int | None
    seconds: float | None
    processes: int | None
    read_bytes: int | None
    write_bytes: int | None
    metadata_ops: int | None
    read_bandwidth_bytes_per_s: float | None
    write_bandwidth_bytes_per_s: float | None
    mode: str | None


class Behaviour(Answer, frozen=True, kw_only=True):
    """Jobs that began in the span (of a user, program or project where asked for). `nontrivial`: moved more than 200
    MB, `nontrivial_share` of those whose volume is `known`. `causes` empty and `missing` says so: nothing was judged.
    `layers` and what follows are of the whole machine, only where nobody is singled out. `hidden`: only the reader's
    own jobs count."""

    schema: str = "fairlead.behaviour/1"
    from_ns: int
    to_ns: int
    user: str | None
    program: str | None
    project: str | None
    jobs: int
    known: int
    nontrivial: int
    nontrivial_share: float | None
    read_bytes: int | None
    write_bytes: int | None
    modes: list[ModeLine]
    core_hours: list[ClassLine]
    requests: list[RequestLine]
    n_to_one: list[SharedLine]
    users: list[RankLine]
    programs: list[RankLine]
    points: list[RatePoint]
    points_of: int
    """Points there are; `points` is at most so many, evenly chosen."""
    causes: list[CauseLine]
    runs: list[RunLine]
    layers: list[LayerDay] = msgspec.field(default_factory=list)
    targets: Cdf | None = None
    forwarders: HeatMap | None = None
    metadata_above_75_percent: float | None = None
    """Share of the minutes with metadata operations in which a server stood above 75 % of its known peak."""
    missing: list[str] = msgspec.field(default_factory=list)
    hidden: bool = False

"""Workloads of an experiment that are replayed job by job: a trace, a table with I/O totals, a site's own past.

What `[workload]` says of them, checked. Not here: reading (`sim.runs.replay_pieces`), the rest (`experiment_spec`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from fairlead.decide.sim.experiments.experiment_spec import Refuse

AS_IT_WAS = "as it was"
"""Of a site's own past: every job is granted what it was really granted."""
MOST_COMPONENTS = 100_000


class _InputRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every one of them has besides. It is found when the jobs are read, and kept with the experiment; where it is
    written down before, other jobs are refused."""

    content: str = ""
    """Digest of what is replayed."""
    jobs: int = 0
    """How many jobs that are."""


class Swf(_InputRecord, frozen=True, kw_only=True, tag_field="kind", tag="swf"):
    """`kind = "swf"`: jobs of a trace in the Standard Workload Format. Its I/O is drawn, anew in each set."""

    path: str
    """The file, plain or gzip; seen from where the spec lies."""
    machine: Literal["taihulight", "small", "two_layer"] = "taihulight"
    """What it runs on."""
    forwarders: int | None = None
    """Other than the machine's own number."""
    days: float | None = None
    """Only jobs that begin in the first days."""


class Table(_InputRecord, frozen=True, kw_only=True, tag_field="kind", tag="table"):
    """`kind = "table"`: records of jobs with their I/O totals, as Darshan's (CSV)."""

    path: str
    """The file, plain or gzip; seen from where the spec lies."""
    machine: Literal["taihulight", "small", "two_layer"] = "taihulight"
    """What it runs on."""
    forwarders: int | None = None
    """Other than the machine's own number."""
    days: float | None = None
    """Only jobs that begin in the first days."""


class OwnPast(_InputRecord, frozen=True, kw_only=True, tag_field="kind", tag="history"):
    """`kind = "history"`: what a lake knows of a site's jobs, read as `fairlead whatif` reads it."""

    lake: str
    """The lake's folder; seen from where the spec lies."""
    since: str
    """Jobs that began from then on: a date, or date and time (UTC)."""
    until: str
    """Jobs that began before then."""
    layer: Literal["", "forwarders", "targets", "both"] = ""
    """Where policies decide; the other layer stays as it was. Empty: forwarders, where there are any."""
    forwarders: int | None = None
    """As if the site had so many."""
    targets: int | None = None
    """As if it had so many storage targets."""
    site: str = ""
    """The site's description, for what a forwarder and a target can do. Empty: as seen."""


Replay = Swf | Table | OwnPast


def parse_replay_moment(text: str) -> int:
    """Epoch nanoseconds of `2026-10-01` or `2026-10-01T12:00`, UTC where no offset is written. Raises ValueError."""
    at = datetime.fromisoformat(text)
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return round(at.timestamp()) * 1_000_000_000


def check_replay_spec(workload: Replay, refuse: Refuse) -> None:
    """Raises the error of `refuse` about the field that cannot be."""
    if workload.jobs < 0:
        raise refuse("workload.jobs", "is negative", "leave it out: it is filled in")
    for name in ("forwarders", "targets"):
        count = getattr(workload, name, None)
        if count is not None and not 1 <= count <= MOST_COMPONENTS:
            raise refuse(f"workload.{name}", f"{count} is not a valid number", f"1 to {MOST_COMPONENTS:,}")
    if isinstance(workload, OwnPast):
        _check_past(workload, refuse)
        return
    if not workload.path:
        raise refuse("workload.path", "is empty", "the file of jobs")
    if workload.days is not None and not 0 < workload.days < 1e6:
        raise refuse("workload.days", f"{workload.days:g} is not a number of days", "above 0, or leave it out")


def _check_past(workload: OwnPast, refuse: Refuse) -> None:
    if not workload.lake:
        raise refuse("workload.lake", "is empty", "the lake's folder")
    moments = []
    for name in ("since", "until"):
        try:
            moments.append(parse_replay_moment(getattr(workload, name)))
        except (ValueError, OverflowError):
            raise refuse(
                f"workload.{name}", f"{getattr(workload, name)!r} is not a date", "write 2026-10-01 or 2026-10-01T12:00"
            ) from None
    if not moments[0] < moments[1]:
        raise refuse("workload.until", f"{workload.until} is not after {workload.since}", "a later date")

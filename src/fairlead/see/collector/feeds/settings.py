"""The `[feeds]` table of the server's TOML file: which feeds run and where from; none does unless it is asked for.

Not here: what a feed does with its settings.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Drop(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A folder where files of any format fairlead reads appear. Taken ones go to `taken/` or are deleted, unreadable
    ones to `refused/` with a `.why` beside them."""

    folder: str
    after: Literal["keep", "delete"] = "keep"
    period_s: float = 2.0
    settle_s: float = 5.0
    """A file is read when it has not changed for this long; one renamed into the folder from a name beginning with a
    dot is taken to be whole after one period."""
    time_zone: str | None = None
    """Of files that write local times without an offset (sacct, LMT, mmperfmon)."""
    kept_refused: int = 1000
    """Refused files kept; the oldest go first."""


class DarshanWatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tree of Darshan logs that a site's jobs write (YEAR/MONTH/DAY); only read."""

    folder: str
    period_s: float = 30.0
    settle_s: float = 10.0
    days: int = 0
    """Only logs changed within this many days; 0: all there are."""
    at_once: int = 500
    """Logs taken between two looks at the whole tree."""


class Slurm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cluster's jobs: `sacct` at intervals, `squeue` for what runs, a folder the Prolog and Epilog write to."""

    cluster: str = ""
    """Name of the cluster; empty: as Slurm gives it."""
    sacct: list[str] = msgspec.field(default_factory=lambda: ["sacct"])
    """Command, as words; arguments are added. Empty: not asked."""
    squeue: list[str] = msgspec.field(default_factory=lambda: ["squeue"])
    hooks: str = ""
    """Folder of the Prolog and Epilog's files; empty: none."""
    sacct_s: float = 60.0
    squeue_s: float = 15.0
    overlap_s: float = 600.0
    """How far each question goes back beyond the last one: accounting may come late."""
    back_s: float = 86400.0
    """How far the first question goes back."""
    timeout_s: float = 60.0
    all_users: bool = True


class JobTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A CSV of jobs, read again when it changes."""

    path: str
    columns: dict[str, str]
    """Our column (`job_id`, `start`, `end`, `submit`, `user`, `project`, `program`, `name`, `partition`, `nodes`,
    `nodes_count`, `cores`, `processes`, `state`, `cluster`) to the file's."""
    separator: str = ","
    cluster: str = ""
    time_zone: str | None = None
    nodes_separator: str = ""
    """Between node names; empty: a Slurm host list."""
    period_s: float = 30.0


class Scrape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of an exporter, read at intervals."""

    url: str
    node: str = ""
    """Name of the server the page speaks of; empty: the host of `url`."""
    period_s: float = 15.0
    timeout_s: float = 10.0
    ca_file: str = ""
    token_file: str = ""
    """A file whose content is sent as bearer token."""


class RemoteWrite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What Prometheus sends to `POST /api/v1/write`."""

    enabled: bool = False
    most_bytes: int = 32 << 20
    """Of one message once decompressed."""
    most_series: int = 250_000
    """Series remembered at most; those silent longest are forgotten first."""
    mapping: str = ""
    """A TOML file of more metrics, in the form of the built-in table; its entries come first."""


class Feeds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All feeds."""

    drop: list[Drop] = []
    darshan: list[DarshanWatch] = []
    slurm: list[Slurm] = []
    job_table: list[JobTable] = []
    scrape: list[Scrape] = []
    remote_write: RemoteWrite = RemoteWrite()
    state: str = ""
    """Folder where feeds keep what they remember between two starts; empty: none, and jobs are told again."""

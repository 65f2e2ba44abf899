"""What `GET /api/v1/server` answers: the collector, its sources and feeds, what it does not understand. One document.

Not here: where the figures come from (`run`), how they are shown (`cli.server`).
"""

from __future__ import annotations

import msgspec

from fairlead.see.collector.source_activity import SourceHealth

SCHEMA = "fairlead.server/1"
PATH = "/api/v1/server"
"""Of the collector and of the API: a command need not know which of them it was given."""
ALL, TROUBLED, NONE = "all", "troubled", "none"
WHICH = (ALL, TROUBLED, NONE)
"""Sources that are listed one by one; the counts are always of all."""


class FeedHealth(msgspec.Struct, frozen=True, kw_only=True):
    """One feed, or a part of it. `state`: ok, missing, failing, late."""

    feed: str
    state: str
    text: str = ""
    since_ns: int
    rows: int = 0
    unknown_lines: int = 0


class ScrubHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The check of stored files against their checksums: the round that runs, or the last one."""

    began_ns: int | None
    finished_ns: int | None
    """None: it runs."""
    bytes: int
    """Bytes of all files."""
    checked_bytes: int
    """Bytes of files checked in this round."""
    damaged_files: int
    unverified_files: int
    """Files that got their checksums after they were written: unverified before."""
    unsealed_files: int
    """Files without a checksum yet."""


class CollectorHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The collector itself. `problems` are what someone has to look after."""

    shard: str
    version: str
    started_ns: int
    backlog_bytes: int
    in_flight_bytes: int
    connections: int
    free_bytes: int
    memory_bytes: int
    carried_ns: int | None
    """When rows were last carried from the log to the tables."""
    carry_s: float | None
    """How long that took."""
    aside_batches: dict[str, int]
    """Batches of tables this fairlead does not know, by table: kept until it is upgraded."""
    not_understood: dict[str, int]
    """What else newer agents send that is left out, and how often."""
    problems: list[str]
    scrub: ScrubHealth | None = None
    """None: stored files were not checked since the start, or no server was asked."""


class ServerHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The whole document. `state`: ok, or degraded when something in it is not."""

    schema: str = SCHEMA
    now_ns: int
    state: str
    collector: CollectorHealth
    feeds: list[FeedHealth]
    states: dict[str, int]
    """Sources by state."""
    agents: dict[str, int]
    """Sources by version of what they send with."""
    sources: list[SourceHealth]

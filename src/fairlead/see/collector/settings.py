"""What can be set about a collector: the tables `[collector]` and `[carry]` of the server's TOML file.

Not here: reading the file (`run.config`), the settings of feeds (`feeds`).
"""

from __future__ import annotations

import msgspec

MIB = 1 << 20


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[collector.limits]`: what one client, and all of them, may take."""

    body_bytes: int = 64 * MIB
    """Largest body of a request."""
    raw_bytes: int = 256 * MIB
    """Most that the batches of one body may hold uncompressed."""
    in_flight_bytes: int = 192 * MIB
    """Bodies being received or checked, all clients together. Beyond: 429."""
    backlog_bytes: int = 384 * MIB
    """Memory of acknowledged rows that wait to be carried to the tables. Beyond: 429."""
    connections: int = 4096
    """Connections in all."""
    connections_per_address: int = 1024
    """Connections from one address. Those of unix sockets do not count."""
    header_bytes: int = 16384
    """Request line and headers."""
    header_s: float = 10.0
    """A request's headers must be there so long after its first byte (or the connection's beginning)."""
    body_s: float = 30.0
    """Time a body may take whatever its size; to this `body_bytes_per_s` is added."""
    body_bytes_per_s: int = 65536
    """Slowest sending that is waited for."""
    idle_s: float = 20.0
    """A connection without a request is closed after this."""
    free_bytes: int = 256 * MIB
    """With less room than this on the lake's file system nothing is taken (507)."""
    checking_threads: int = 2
    """Groups of bodies taken at the same time: a group is what waits, up to 2 MiB or 512 bodies, and one sync of the
    log answers for all of it."""
    remembered_days: float = 30.0
    """Batches whose rows are all older are refused (410): whether they were taken before cannot be told any more."""
    aside_bytes: int = 1024 * MIB
    """Room for batches of tables this fairlead does not know yet. Beyond: 507."""


class Collector(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[collector]`: where batches arrive and who may send them."""

    listen: list[str] = []
    """Addresses: `unix:PATH`, `tcp:HOST:PORT`, `tls:HOST:PORT`. Empty: `server.sock` in the state folder, and
    `tcp:127.0.0.1:8571`."""
    shard: str = "main"
    """Shard of the lake this collector writes."""
    token_key: str = ""
    """File of the key that tokens are made with (`fairlead token make-key`). Empty: one is made in the state folder."""
    tls_certificate: str = ""
    """PEM file shown on `tls:` addresses."""
    tls_key: str = ""
    """Its key (PEM)."""
    silent_periods: float = 3.0
    """A source that has not reported for so many of its health periods has a gap."""
    health_period_s: float = 60.0
    """How often a source is expected to tell its health. One that says it does so less often is believed."""
    limits: Limits = Limits()


class Carry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[carry]`: how rows get from the log to the tables."""

    every_s: float = 30.0
    """Acknowledged rows are carried to the tables this often."""
    soon_s: float = 2.0
    """... and this often for some seconds after a job began or ended: its sums are then there when it is judged. Not if
    carrying takes more than a quarter of this time."""
    maintain_every_s: float = 60.0
    """What is due of merging small files and expiring old days is looked for this often; put off for up to ten minutes
    while rows arrive faster than they are carried."""
    scrub_bytes_per_s: int = 8 * MIB
    """How fast stored files are read again and checked against their checksums, each once a week. 0: not at all."""
    merge_nodes: bool = True
    """Operations that several nodes of a job made alike become one row of `op_groups` (the second pass)."""

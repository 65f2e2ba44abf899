"""Numbers shared by the scanners and their readers: line kinds, sentinels, widths."""

from __future__ import annotations

NONE = -(1 << 62)
"""No time here."""

BUCKETS = 32
"""Pages-per-RPC buckets: 2**0 to 2**31 pages."""

OPERATION, LATENCY, CLIENT_RPCS, TARGET_RPCS, CACHE, METADATA, JOB_TABS, JOB_COMMAS, UNREAD = range(1, 10)
"""Kinds of lines: client operation, server histogram, forwarding node's Lustre client, storage target, read-ahead
cache, metadata server, job record (two separators), none of these."""

READ, WRITE, OPEN, CLOSE, OPEN_REQUEST = range(5)
OP_WORDS = ("read", "write", "open", "close")

"""Which words of the `op` column are data operations and which are metadata operations."""

from __future__ import annotations

DATA_WORDS = ("read", "write", "seek", "flush", "mmap", "fsync", "fdatasync")
"""Not metadata operations. Closes are left out of metadata counts too, as Darshan does not count them."""
NOT_METADATA = (*DATA_WORDS, "close", "closedir", "fcntl")

"""What the API allows: keys, lengths, how many at once. Filled by the server from its file. Not here: listening."""

from __future__ import annotations

import msgspec


class ApiSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of the API; `key` None serves everyone everything (a test, or a socket only its owner reaches)."""

    key: bytes | None
    longest_days: int = 400
    """A question is of at most so long a span."""
    at_once: int = 4
    """Questions that are worked on at the same time."""
    waiting: int = 256
    """Questions that may wait for one of these; more are answered 429."""
    wait_s: float = 10.0
    """How long one waits, then 503."""
    answer_s: float = 20.0
    """How long one is worked on, then 503. Its place is free again when the lake lets go of it."""
    user_at_once: int = 3
    """Of `at_once`, how many one token may hold: one reader's long questions do not shut out the others."""
    live_s: int = 1
    """How long an answer up to now may be kept by a cache of the reader's own."""
    past_s: int = 60
    """The same for an answer of times past."""
    user_waiting: int = 32
    """Of `waiting`, how many may be of one token or session: a page asks all it needs at once."""
    live_at_once: int = 2048
    """Answers that are followed at the same time, by all."""
    live_each: int = 64
    """The same by one person's session or token."""
    warm: bool = True
    """Whether the day's heat map and distribution are asked once at the start, so that nobody waits for the first."""

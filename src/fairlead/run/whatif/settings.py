"""The `[whatif]` table of the server's TOML file: how much the pages may replay. Not here: the runs (`queue`)."""

from __future__ import annotations

import msgspec


class WhatIfSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[whatif]`: replays that pages ask for, one at a time in a process of its own."""

    on: bool = True
    """Whether pages may ask for any."""
    memory_bytes: int = 4 << 30
    """What a run may hold in memory; one that holds more ends."""
    time_s: float = 1800.0
    """How long a run may take; one that takes longer ends."""
    waiting: int = 20
    """Runs that may wait; more: 429."""
    user_at_once: int = 3
    """Of one person, how many may wait or be under way."""
    kept: int = 200
    """Runs that are over are kept with their answers; beyond, the oldest go."""

"""From settings to feeds; each feed's module is imported only when one is asked for."""

from __future__ import annotations

from fairlead.collector.feed import Feed
from fairlead.collector.feeds.settings import Feeds
from fairlead.errors import ConfigError


def made(settings: Feeds) -> list[Feed]:
    """The feeds that are asked for, each with a name of its own. Raises ConfigError."""
    feeds: list[Feed] = []
    names = [feed.name for feed in feeds]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"two feeds are named {twice[0]!r}", where="feeds", remedy="remove one of them")
    return feeds

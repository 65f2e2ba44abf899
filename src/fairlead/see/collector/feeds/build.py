"""From settings to feeds; each feed's module is imported only when one is asked for."""

from __future__ import annotations

from fairlead.core.errors import ConfigError
from fairlead.see.collector.feed import Feed
from fairlead.see.collector.feeds.settings import Feeds


def build_feeds(settings: Feeds) -> list[Feed]:
    """The feeds that are asked for, each with a name of its own. Raises ConfigError."""
    feeds: list[Feed] = []
    if settings.drop:
        from fairlead.see.collector.feeds.drop_folder import DropFeed

        feeds += [DropFeed(one) for one in settings.drop]
    if settings.darshan:
        from fairlead.see.collector.feeds.darshan_watch import DarshanFeed

        feeds += [DarshanFeed(one) for one in settings.darshan]
    if settings.slurm:
        from fairlead.see.collector.feeds.slurm import SlurmFeed

        feeds += [SlurmFeed(one, settings.state) for one in settings.slurm]
    if settings.job_table:
        from fairlead.see.collector.feeds.job_table import JobTableFeed

        feeds += [JobTableFeed(one) for one in settings.job_table]
    if settings.scrape:
        from fairlead.see.collector.feeds.prometheus.scrape import ScrapeFeed

        feeds += [ScrapeFeed(one, settings.remote_write.mapping) for one in settings.scrape]
    if settings.remote_write.enabled:
        from fairlead.see.collector.feeds.prometheus.remote_write import RemoteWriteFeed

        feeds.append(RemoteWriteFeed(settings.remote_write))
    names = [feed.name for feed in feeds]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"two feeds are named {twice[0]!r}", where="feeds", remedy="remove one of them")
    return feeds

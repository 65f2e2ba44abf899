"""The feeds of a collector, made from their settings. Not here: the thread a feed runs in
(`collector.feed_threads`)."""

from __future__ import annotations

from fairlead.see.collector.feeds.build import build_feeds
from fairlead.see.collector.feeds.settings import Feeds

__all__ = ["Feeds", "build_feeds"]

"""The feeds of a collector, made from their settings. Not here: the thread a feed runs in (`collector.keeper`)."""

from __future__ import annotations

from fairlead.collector.feeds.made import made
from fairlead.collector.feeds.settings import Feeds

__all__ = ["Feeds", "made"]

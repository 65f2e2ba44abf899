"""The feeds of a collector, made from their settings. Not here: the thread a feed runs in (`collector.keeper`).

`receiver(settings)` takes what Prometheus sends; the collector's app gives it the bodies of `POST /api/v1/write`.
"""

from __future__ import annotations

from fairlead.collector.feeds.made import made, receiver
from fairlead.collector.feeds.settings import Feeds

__all__ = ["Feeds", "made", "receiver"]

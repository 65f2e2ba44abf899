"""The collector's own figures as Prometheus text (version 0.0.4). Counters and histograms are kept here, gauges asked.

Not here: what they are of (`intake`, `upkeep`).
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "fairlead_collector_"
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

Labels = tuple[tuple[str, str], ...]
Sample = tuple[Labels, float]


class Counter:
    """A number that grows, by labels."""

    def __init__(self, name: str, about: str) -> None:
        self.name = f"{PREFIX}{name}_total"
        self.about = about
        self._turn = threading.Lock()
        self._values: dict[Labels, float] = {}

    def add(self, amount: float = 1, **labels: str) -> None:
        """Adds `amount`. Labels must be of few values: never a name from outside."""
        key = tuple(labels.items())
        with self._turn:
            self._values[key] = self._values.get(key, 0) + amount

    def list_samples(self) -> list[Sample]:
        """All values."""
        with self._turn:
            return sorted(self._values.items()) or [((), 0.0)]

    def format_lines(self) -> Iterable[str]:
        """Its part of the page."""
        return _lines(self.name, "counter", self.about, self.list_samples())


class Histogram:
    """Durations in seconds."""

    def __init__(self, name: str, about: str, bounds: Sequence[float] = SECONDS) -> None:
        self.name = f"{PREFIX}{name}_seconds"
        self.about = about
        self._bounds = bounds
        self._turn = threading.Lock()
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """One more."""
        with self._turn:
            self._counts[bisect_left(self._bounds, seconds)] += 1
            self._sum += seconds

    def format_lines(self) -> Iterable[str]:
        """Its part of the page."""
        with self._turn:
            counts, total = list(self._counts), self._sum
        yield f"# HELP {self.name} {self.about}"
        yield f"# TYPE {self.name} histogram"
        below = 0
        for bound, count in zip((*(f"{b:g}" for b in self._bounds), "+Inf"), counts, strict=True):
            below += count
            yield f'{self.name}_bucket{{le="{bound}"}} {below}'
        yield f"{self.name}_sum {total:.9g}"
        yield f"{self.name}_count {below}"


class Gauge:
    """A value that is asked when the page is. `ask` gives one number, or several by labels."""

    def __init__(self, name: str, about: str, ask: Callable[[], float | Iterable[Sample]]) -> None:
        self.name = f"{PREFIX}{name}"
        self.about = about
        self._ask = ask

    def format_lines(self) -> Iterable[str]:
        """Its part of the page."""
        found = self._ask()
        return _lines(self.name, "gauge", self.about, [((), found)] if isinstance(found, int | float) else found)


class Metrics:
    """The page, and what is counted on the way of a request."""

    def __init__(self) -> None:
        self.requests = Counter("requests", "Requests by status.")
        self.batches = Counter("batches", "Batches by result: taken, known (sent again), aside.")
        self.rows = Counter("rows", "Rows accepted, by table.")
        self.bytes = Counter("bytes", "Bytes of accepted bodies, as sent.")
        self.refused_connections = Counter("refused_connections", "Connections closed by a limit, by limit.")
        self.defects = Counter("defects", "Requests that ended in a traceback.")
        self.carried = Counter("carried_batches", "Batches carried from the log to the tables.")
        self.failures = Counter("upkeep_failures", "Failed maintenance rounds, by task.")
        self.checking = Histogram("checking", "Time to decode and check a body.")
        self.durable = Histogram("durable", "Time until the batches of a body were on disk (shared fsync).")
        self.carry = Histogram("carry", "Time of one transfer from the log to the tables.")
        self._gauges: list[Gauge] = []

    def add_gauge(self, name: str, about: str, ask: Callable[[], float | Iterable[Sample]]) -> None:
        """Adds a gauge to the page."""
        self._gauges.append(Gauge(name, about, ask))

    def page(self) -> str:
        """All of it."""
        kept = [part for part in vars(self).values() if isinstance(part, Counter | Histogram)]
        return "\n".join([line for part in [*kept, *self._gauges] for line in part.format_lines()]) + "\n"


def _lines(name: str, kind: str, about: str, samples: Iterable[Sample]) -> Iterable[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
        yield f"{name}{{{shown}}} {value:.15g}" if shown else f"{name} {value:.15g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

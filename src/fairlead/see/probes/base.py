"""What a probe is: one place of counters, read from a root it is given, as tuples. Not here: deltas, batches, shipping.

No data is not zero and is not failure: a probe whose place is not on this node raises `AbsentError`, one that finds its
place and cannot read it raises OSError, a line it does not know is counted in `Reading.unknown` and passed over.
"""

from abc import ABC, abstractmethod
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

Key = Tuple[Optional[str], ...]


class AbsentError(Exception):
    """What the probe reads does not exist on this node. Says what was looked for, and what would provide it."""


class Reading(NamedTuple):
    """One look at counters of one kind. `rows` holds, by key, the values of `counters` then of `gauges`, in that order.

    A counter only grows (an int, or a list of ints for a histogram; None when it is not told): the agent turns
    it into the delta of an interval and begins anew where it shrank or its epoch changed. A gauge is taken as it is.
    """

    table: str
    """A record table of `fairlead.core.model.tables`."""
    keys: Tuple[str, ...]
    """Columns that name what is counted (`target`, `job_id`, `op`, `source`...)."""
    counters: Tuple[str, ...]
    gauges: Tuple[str, ...]
    rows: Dict[Key, Sequence[Any]]
    epochs: Optional[Dict[Key, int]] = None
    """When the counting of a row began, where the source says so; a row whose epoch changed was reset."""
    unknown: int = 0
    """Lines that were not understood."""
    unknown_example: str = ""
    constant: Tuple[Tuple[str, Optional[str]], ...] = ()
    """Columns that are the same in all rows, not part of the key."""
    spread: Optional[Tuple[str, ...]] = None
    """(word column, number column, ...): each counter is a row of its own in the table, the counter's name in the first
    and its delta in the second; a counter of zero or None is no row. So a job's twenty operations are one row here and
    take a tenth of the memory (`metadata`: `("op", "count", "busy_ns")`). Of several number columns, `counters` holds
    all names for the first, then as many for the next. There are no gauges then."""
    born_at_zero: bool = False
    """Rows come and go (jobs, clients), and one that was not there at the last look began at zero since: its first
    value is already a delta. Not so at the first look of all."""
    wraps: Tuple[Tuple[str, int], ...] = ()
    """(counter, bits) of counters that go on at zero after their last value; the others begin anew when they shrink."""


class Event(NamedTuple):
    """Something that happened: a row of `events`."""

    ts_ns: int
    component: str
    kind: str
    text: str
    end_ns: Optional[int] = None


class Service(NamedTuple):
    """Who served whom while it was true: a row of `mapping`. Told again, with `to_ns`, when it has ended."""

    from_ns: int
    to_ns: Optional[int]
    kind: str
    a: str
    b: str


class ProbeResult(NamedTuple):
    """What one run of a probe gives."""

    readings: List[Reading]
    events: Sequence[Event] = ()
    served: Sequence[Service] = ()


class Probe(ABC):
    """One place of counters. Subclasses set `name`, `period_s`, `timeout_s` and write `read`.

    `root` stands for `/`: every path a probe opens lies below it, so that a copy of a site's files is a fixture. `node`
    is the name rows are given where the source does not name its node. A probe may keep what it needs between two runs
    (offsets in a log), nothing else.
    """

    name = ""
    period_s = 1.0
    timeout_s = 5.0

    def __init__(self, root: str = "/", node: str = "") -> None:
        self.root = root
        self.node = node

    @abstractmethod
    def read(self, now_ns: int) -> ProbeResult:
        """One look. Raises AbsentError, OSError."""

"""Counters become the deltas of intervals. Pure: readings and their times in, rows out; no clock, no files.

Not here: where rows are kept until they are sent (`row_buffers`), who reads the counters (`fairlead.see.probes`).
"""

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from fairlead.see.probes.base import Key, Reading

IDLE_NS = 60 * 10**9
"""What does not change is told this often, so that idle differs from unknown."""
MAX_KEYS = 40000
"""Rows of one reading that are followed; the others are counted and left out."""
_MAX_GONE = 1024
"""Rows that went away and are remembered, in case only one look missed them."""
PART_KEYS = ("job_id", "client")
"""Rows that name one of these are parts of a whole that is told anyway: none of them is told when idle."""
Shape = Tuple[object, ...]


class Row(NamedTuple):
    """What became of one key: the deltas of its counters, then its gauges. `interval_ns`: time since the look before,
    None where no counter has a delta yet. An idle row is all zeros and covers the time since the row before it."""

    key: Key
    values: Sequence[Any]
    interval_ns: Optional[int]
    idle: bool = False


class _ResetError(Exception):
    """A counter shrank."""


class Deltas:
    """The state of one kind of reading of one probe. Memory is that of the last reading.

    A key seen first gives a base and no row (gauges are told at once), but where rows are born at zero its values are
    the delta. A counter that shrank or whose epoch changed begins anew the same way; one that wraps goes on. A key that
    went away and came back begins anew, unless rows are born at zero and it came back larger: then one look missed it.
    """

    def __init__(self, idle_ns: int = IDLE_NS, max_keys: int = MAX_KEYS) -> None:
        self.resets = 0
        """Rows that began anew."""
        self.left_out = 0
        """Rows that were too many, summed over all looks."""
        self._idle_ns = idle_ns
        self._max_keys = max_keys
        self._rows: Optional[Dict[Key, Sequence[Any]]] = None
        self._epochs: Dict[Key, int] = {}
        self._at_ns = 0
        self._told_ns: Dict[Key, int] = {}
        """When a key that is told when idle was told last."""
        self._gone: Dict[Key, Sequence[Any]] = {}

    def advance(self, reading: Reading, at_ns: int) -> Iterator[Row]:
        """The rows of this look at `at_ns` (of a clock that never steps), to be taken all before the next look."""
        rows = self._bounded(reading.rows)
        before, epochs = self._rows, reading.epochs or {}
        whole = _tells_when_idle(reading)
        count = len(reading.counters)
        since_ns = at_ns - self._at_ns
        wraps = _wraps(reading)
        for key, values in rows.items():
            base = None if before is None else before.get(key)
            same_epoch = self._epochs.get(key) == epochs.get(key) if epochs else True
            if base is not None and same_epoch and values == base:
                told = self._told_ns.get(key) if whole else None
                if told is not None and at_ns - told >= self._idle_ns:
                    self._told_ns[key] = at_ns
                    yield Row(key, [*_zeros(values[:count]), *values[count:]], at_ns - told if count else None, True)
                continue
            found = self._changed(key, values, base, reading, same_epoch, wraps)
            if whole and (found is not None or key not in self._told_ns):
                self._told_ns[key] = at_ns
            if found is not None:
                known = any(one is not None for one in found[:count])
                yield Row(key, found, since_ns if known else None)
        self._remember(rows, reading, at_ns)

    def _changed(
        self,
        key: Key,
        values: Sequence[Any],
        base: Optional[Sequence[Any]],
        reading: Reading,
        same_epoch: bool,
        wraps: Dict[int, int],
    ) -> Optional[List[Any]]:
        """Deltas and gauges of a row that is new or not as it was; None when there is nothing to tell."""
        count = len(reading.counters)
        gauges = list(values[count:])
        if base is None and reading.born_at_zero and same_epoch:
            base = self._gone.get(key)
            if base is not None and not _reached(base[:count], values[:count]):
                base = None
        if base is not None and same_epoch:
            try:
                deltas = [_delta(base[at], values[at], wraps.get(at)) for at in range(count)]
            except _ResetError:
                self.resets += 1
            else:
                quiet = not any(_some(one) for one in deltas) and gauges == list(base[count:])
                return None if quiet else deltas + gauges
        elif base is not None:
            self.resets += 1
        born = reading.born_at_zero and self._rows is not None
        deltas = list(values[:count]) if born else [None] * count
        worth = any(_some(one) for one in deltas) or any(one is not None for one in gauges)
        return deltas + gauges if worth else None

    def _bounded(self, rows: Dict[Key, Sequence[Any]]) -> Dict[Key, Sequence[Any]]:
        """As many rows as are followed, those known before first."""
        if len(rows) <= self._max_keys:
            return rows
        self.left_out += len(rows) - self._max_keys
        known = self._rows or {}
        kept = {key: values for key, values in rows.items() if key in known}
        for key, values in rows.items():
            if len(kept) >= self._max_keys:
                break
            kept[key] = values
        return kept

    def _remember(self, rows: Dict[Key, Sequence[Any]], reading: Reading, at_ns: int) -> None:
        vanished: Set[Key] = set(self._rows or ()).difference(rows) if self._rows is not rows else set()
        for key in vanished:
            self._told_ns.pop(key, None)
            if reading.born_at_zero and self._rows is not None:
                self._gone[key] = self._rows[key]
        for key in [key for key in self._gone if key in rows]:
            del self._gone[key]
        while len(self._gone) > max(_MAX_GONE, len(vanished)):  # a look that missed everything is remembered whole
            del self._gone[next(iter(self._gone))]
        self._rows = rows
        self._epochs = reading.epochs or {}
        self._at_ns = at_ns


def describe_delta_shape(reading: Reading) -> Shape:
    """What two readings have in common when one continues the other."""
    return (reading.table, reading.keys, reading.counters, reading.gauges, reading.constant, reading.spread)


def _tells_when_idle(reading: Reading) -> bool:
    return not any(name in PART_KEYS for name in reading.keys) and not any(
        name in PART_KEYS and value is not None for name, value in reading.constant
    )


def _wraps(reading: Reading) -> Dict[int, int]:
    """By position of a counter: the value it goes on at zero from."""
    return {reading.counters.index(name): 1 << bits for name, bits in reading.wraps if name in reading.counters}


def _delta(base: Any, value: Any, wrap: Optional[int]) -> Any:
    """The growth from `base` to `value`, by element for lists; None where either is not known."""
    if base is None or value is None:
        return None
    if isinstance(value, list):
        if len(value) < len(base):
            raise _ResetError
        longer = base if len(value) == len(base) else [*base, *[0] * (len(value) - len(base))]
        return [_delta(old, new, wrap) for old, new in zip(longer, value)]
    grown = value - base
    if grown >= 0:
        return grown
    # Half the range in one interval is no traffic, it is a reset.
    if wrap is not None and 2 * (grown + wrap) < wrap:
        return grown + wrap
    raise _ResetError


def _reached(base: Sequence[Any], values: Sequence[Any]) -> bool:
    """Whether no counter is below where it was."""
    try:
        for old, new in zip(base, values):
            _delta(old, new, None)
    except _ResetError:
        return False
    return True


def _some(value: Any) -> bool:
    return any(value) if isinstance(value, list) else bool(value)


def _zeros(values: Sequence[Any]) -> List[Any]:
    return [None if one is None else ([0] * len(one) if isinstance(one, list) else 0) for one in values]

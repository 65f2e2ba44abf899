"""Rows that wait to become batches, as columns of numbers from the start: one sheet a table, nulls cost little.

Not here: what the rows say (`deltas`), the bytes of a batch (`fairlead.core.batches.encoding`).
"""

from array import array
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union, cast

from fairlead.core.batches.encoding import Column, Header, Lists, Numbers, Words, encode_batch
from fairlead.see.probes.base import Event, Key, Reading, Service

VERSIONS = {
    "ops": 2,
    "files": 1,
    "forwarder": 2,
    "pfs_client": 4,
    "target": 4,
    "metadata": 4,
    "port": 2,
    "device": 3,
    "events": 1,
    "health": 1,
    "mapping": 1,
}
"""Versions of the tables as this agent writes them (`fairlead.core.model.tables`, which does not travel)."""
NODE_COLUMNS = {"pfs_client": "node", "device": "node", "forwarder": "node", "target": "server", "metadata": "server"}
"""The column that gets the node's name where a reading does not say."""
MAX_ROWS = 8192
"""Rows of a batch. What waits is compressed at this length."""
_LARGEST = (1 << 63) - 1
HeaderOf = Callable[[str, int, int, Optional[int], Optional[int]], Header]
"""table, version, rows, first_ns, last_ns → the header of the next batch."""


class _Words:
    """A column of words. What was not put is null."""

    def __init__(self) -> None:
        self._codes = array("i")
        self._index: Dict[str, int] = {}

    def put(self, row: int, value: Optional[str]) -> None:
        if value is not None:
            self._codes.extend([-1] * (row - len(self._codes)))
            self._codes.append(self._index.setdefault(value, len(self._index)))

    def column(self, rows: int) -> Column:
        self._codes.extend([-1] * (rows - len(self._codes)))
        return Words(self._codes, list(self._index))


class _Figures:
    """A column of numbers, or of lists of them: the first value that is known decides."""

    def __init__(self) -> None:
        self._values: "Union[array[int], array[float]]" = array("q")
        self._lengths: Optional[array[int]] = None
        self._valid = bytearray()

    def put(self, row: int, value: Any) -> None:
        if value is None:
            return
        if isinstance(value, list):
            self._put_list(row, value)
            return
        if isinstance(value, float):
            if self._values.typecode == "q":
                self._values = array("d", self._values)
        elif not -_LARGEST <= value <= _LARGEST:
            return  # no table can hold it: not known
        self._fill(row)
        self._values.append(value)
        self._valid.append(1)

    def _fill(self, rows: int) -> None:
        """Nulls for the rows that were not put."""
        gap = rows - len(self._valid)
        if gap:
            self._values.frombytes(bytes(8 * gap))
            self._valid.extend(bytes(gap))

    def _put_list(self, row: int, value: List[int]) -> None:
        if self._lengths is None:
            self._lengths = array("i")
        self._lengths.extend([-1] * (row - len(self._lengths)))
        flat = [one if one is not None and -_LARGEST <= one <= _LARGEST else 0 for one in value]
        self._lengths.append(len(flat))
        self._values.extend(flat)

    def column(self, rows: int) -> Column:
        if self._lengths is not None:
            self._lengths.extend([-1] * (rows - len(self._lengths)))
            return Lists(self._lengths, cast("array[int]", self._values))
        self._fill(rows)
        return Numbers(self._values, bytes(self._valid) if 0 in self._valid else None)


class Sheet:
    """The rows of one table since its last batch."""

    def __init__(self) -> None:
        self.rows = 0
        self.first_ns: Optional[int] = None
        self.last_ns: Optional[int] = None
        self._words: Dict[str, _Words] = {}
        self._figures: Dict[str, _Figures] = {}

    def add(self, at_ns: int, words: Iterable[Tuple[str, Optional[str]]], figures: Iterable[Tuple[str, Any]]) -> None:
        """One row, dated `at_ns` (which has to be among the figures, too). A column is one of words or of figures."""
        row = self.rows
        for name, word in words:
            if word is not None:
                (self._words.get(name) or self._words.setdefault(name, _Words())).put(row, word)
        for name, value in figures:
            if value is not None:
                (self._figures.get(name) or self._figures.setdefault(name, _Figures())).put(row, value)
        self.rows += 1
        self.first_ns = at_ns if self.first_ns is None else min(self.first_ns, at_ns)
        self.last_ns = at_ns if self.last_ns is None else max(self.last_ns, at_ns)

    def build_columns(self) -> Dict[str, Column]:
        """All columns, filled up with nulls. The sheet is not added to afterwards."""
        made = {name: one.column(self.rows) for name, one in self._figures.items()}
        made.update((name, one.column(self.rows)) for name, one in self._words.items())
        return made


class Sheets:
    """A sheet for each table, and the batches made of them that wait for a file."""

    def __init__(self, node: str, header_of: HeaderOf, max_rows: int = MAX_ROWS) -> None:
        self.waiting_bytes = 0
        """Of batches that are made and not yet taken."""
        self._node = node
        self._header_of = header_of
        self._max_rows = max_rows
        self._sheets: Dict[str, Sheet] = {}
        self._batches: List[bytes] = []

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._batches and not self._sheets

    def add_reading(
        self, reading: Reading, at_ns: int, key: Key, values: Sequence[Any], interval: Optional[int]
    ) -> int:
        """A row of a reading: deltas, then gauges. Returns how many rows of the table it became."""
        words: List[Tuple[str, Optional[str]]] = [*zip(reading.keys, key), *reading.constant]
        named = NODE_COLUMNS.get(reading.table)
        if named is not None and all(name != named for name, _ in words):
            words.append((named, self._node))
        dated = [("ts_ns", at_ns), ("interval_ns", interval)]
        if reading.spread is None:
            figures = [*dated, *zip(reading.counters, values), *zip(reading.gauges, values[len(reading.counters) :])]
            self.add(reading.table, at_ns, words, figures)
            return 1
        word_column, number_columns = reading.spread[0], reading.spread[1:]
        words_each = len(values) // len(number_columns)
        added = 0
        for place, name in enumerate(reading.counters[:words_each]):
            if values[place]:
                numbers = zip(number_columns, values[place::words_each])
                self.add(reading.table, at_ns, [*words, (word_column, name)], [*dated, *numbers])
                added += 1
        if not added:  # an idle row: one zero says that there was nothing
            known = [place for place in range(words_each) if values[place] is not None]
            if known:
                name, zero = reading.counters[known[0]], (number_columns[0], 0)
                self.add(reading.table, at_ns, [*words, (word_column, name)], [*dated, zero])
                added = 1
        return added

    def add_event(self, event: Event) -> None:
        """A row of `events`."""
        words = [("component", event.component), ("kind", event.kind), ("text", event.text[:2000])]
        self.add("events", event.ts_ns, words, [("ts_ns", event.ts_ns), ("end_ns", event.end_ns)])

    def add_served(self, served: Service) -> None:
        """A row of `mapping`."""
        words = [("kind", served.kind), ("a", served.a), ("b", served.b)]
        self.add("mapping", served.from_ns, words, [("from_ns", served.from_ns), ("to_ns", served.to_ns)])

    def add(
        self, table: str, at_ns: int, words: Iterable[Tuple[str, Optional[str]]], figures: Iterable[Tuple[str, Any]]
    ) -> None:
        """A row of any table."""
        sheet = self._sheets.get(table)
        if sheet is None:
            sheet = self._sheets[table] = Sheet()
        sheet.add(at_ns, words, figures)
        if sheet.rows >= self._max_rows:
            self._seal(table)

    def _seal(self, table: str) -> None:
        sheet = self._sheets.pop(table)
        header = self._header_of(table, VERSIONS.get(table, 1), sheet.rows, sheet.first_ns, sheet.last_ns)
        batch = encode_batch(header, sheet.build_columns())
        self._batches.append(batch)
        self.waiting_bytes += len(batch)

    def take_batches(self) -> List[bytes]:
        """Everything that waits, as batches."""
        for table in list(self._sheets):
            self._seal(table)
        taken, self._batches = self._batches, []
        self.waiting_bytes = 0
        return taken

"""Node lists of job tables: text expanded once per distinct list, rows packed so that no batch grows without bound.

Not here: the grammar of a list. A scheduler's reader passes the function that expands one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import JOBS, build_table_batch

BATCH_NODES = 1 << 20
"""Node names in one batch at most (one job may have more)."""


class NodeListError(ValueError):
    """A node list that cannot be expanded: malformed, or naming more nodes than allowed (`too_large`)."""

    def __init__(self, what: str, *, too_large: bool = False) -> None:
        super().__init__(what)
        self.too_large = too_large


@dataclass
class NodeLists:
    """Expands lists with `expand(text) -> names` (which raises NodeListError), remembering recent ones.

    `too_large` and `malformed` count the jobs whose nodes could not be told; the examples are one such list each.
    """

    expand: Callable[[str], list[str]]
    too_large: int = 0
    malformed: int = 0
    too_large_example: str = ""
    malformed_example: str = ""
    _recent: dict[str, list[str] | None] = field(default_factory=dict)
    _held: int = 0

    def expand_list(self, text: str) -> list[str] | None:
        """Names of a list; None for a list that cannot be expanded."""
        if text in self._recent:
            names = self._recent[text]
            if names is None:
                self.malformed += 1
            return names
        try:
            names = self.expand(text)
        except NodeListError as fault:
            if fault.too_large:
                self.too_large += 1
                self.too_large_example = self.too_large_example or text[:80]
                return None
            self.malformed += 1
            self.malformed_example = self.malformed_example or text[:80]
            names = None
        self._keep(text, names)
        return names

    def list_gaps(self) -> Iterator[Missing]:
        """The lists that gave no nodes."""
        for kind, count, why, example in (
            ("node_list_too_large", self.too_large, "their list names more nodes than allowed", self.too_large_example),
            (
                "node_list_malformed",
                self.malformed,
                "their list is truncated or not understood",
                self.malformed_example,
            ),
        ):
            if count:
                jobs = "1 job" if count == 1 else f"{count} jobs"
                yield Missing(kind=kind, what=f"nodes of {jobs}", why=f"{why}: {example!r}")

    def _keep(self, text: str, names: list[str] | None) -> None:
        if self._held > BATCH_NODES // 8 or len(self._recent) > 1 << 16:
            self._recent.clear()
            self._held = 0
        self._recent[text] = names
        self._held += len(names or ()) + 1


def build_node_list_batches(
    columns: dict[str, object], lists: list[str | None], nodes: NodeLists, *, count_nodes: bool = False
) -> Iterator[pa.RecordBatch]:
    """`jobs` batches from equally long columns and one node list text per row (None: no nodes are known).

    `count_nodes`: `nodes_count` is unknown to the input and taken from the lists.
    """
    start = 0
    while start < len(lists):
        names: list[str] = []
        offsets = [0]
        known: list[bool] = []
        row = start
        while row < len(lists) and (len(names) < BATCH_NODES or row == start):
            text = lists[row]
            expanded = nodes.expand_list(text) if text is not None else None
            known.append(expanded is not None)
            names.extend(expanded or ())
            offsets.append(len(names))
            row += 1
        yield _batch(
            {name: _rows(column, start, row) for name, column in columns.items()},
            names,
            np.array(offsets, np.int32),
            np.array(known, bool),
            count_nodes,
        )
        start = row


def _rows(column: object, start: int, stop: int) -> object:
    return column[start:stop]  # type: ignore[index]


def _batch(
    columns: dict[str, object], names: list[str], offsets: NDArray[np.int32], known: NDArray[np.bool_], count: bool
) -> pa.RecordBatch:
    values = pa.array(names, pa.string())
    listed = pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(~known))
    if count:
        columns["nodes_count"] = pa.array(np.diff(offsets).astype(np.int64), mask=~known)
    return build_table_batch(JOBS, {**columns, "nodes": listed})

"""Batches of a feed that has no file to name them by: numbered one after the other, each sent until the lake has it.

A batch that failed is sent again, the same, before any other: it may be on disk though the answer was lost.
"""

from __future__ import annotations

import pyarrow as pa

from fairlead.core.errors import LakeError
from fairlead.see.collector.feed import Sink


class Telling:
    """`began_ns` tells one run of the feed from the next. For one thread."""

    def __init__(self, name: str, began_ns: int) -> None:
        self.stream = f"{name}:{began_ns}"
        self._source = name.partition(":")[0]
        self._seq = 0
        self._left: list[pa.RecordBatch] = []

    @property
    def waiting(self) -> bool:
        """Whether a batch failed and is still to be sent."""
        return bool(self._left)

    def send(self, sink: Sink, rows: list[pa.RecordBatch]) -> None:
        """Stores the rows, after what was left. Raises LakeError (they wait for `settle`), InputError (they are given
        up)."""
        self.settle(sink)
        self._left = [one for one in rows if one.num_rows]
        self.settle(sink)

    def settle(self, sink: Sink) -> None:
        """Sends what was left, if anything. Raises as `send`."""
        if not self._left:
            return
        try:
            sink.store_batch(self.stream, self._seq, self._left, source=self._source)
        except LakeError:
            raise
        except BaseException:
            self._left = []
            self._seq += 1
            raise
        self._left = []
        self._seq += 1

"""Sinks for tests of feeds: one that keeps what it is given, one that writes a lake; both can be made to fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from fairlead.core.errors import LakeError
from fairlead.core.model.tables import find_table_spec
from fairlead.store.writer import Writer


class MemorySink:
    """Takes each (stream, seq) once, as the lake does. `failures`: how many of the next batches fail."""

    def __init__(self) -> None:
        self.batches: dict[tuple[str, int], list[pa.RecordBatch]] = {}
        self.sources: list[str] = []
        self.events: list[tuple[str, str, str]] = []
        self.healths: list[tuple[str, str, str]] = []
        self.unknown_lines = 0
        self.failures = 0
        self.fail_after = False
        """Whether a failing batch is on disk all the same: the answer was lost."""

    def store_batch(
        self,
        stream: str,
        seq: int,
        tables: list[pa.RecordBatch],
        *,
        source: str = "",
        path: str = "",  # noqa: ARG002
    ) -> bool:
        if self.failures:
            self.failures -= 1
            if self.fail_after:
                self._keep(stream, seq, tables, source)
            raise LakeError("the disk is full")
        return self._keep(stream, seq, tables, source)

    def _keep(self, stream: str, seq: int, tables: list[pa.RecordBatch], source: str) -> bool:
        if (stream, seq) in self.batches:
            return False
        self.batches[(stream, seq)] = list(tables)
        self.sources.append(source)
        return True

    def has_batch(self, stream: str, seq: int) -> bool:
        return (stream, seq) in self.batches

    def record_event(
        self,
        component: str,
        kind: str,
        text: str,
        *,
        ts_ns: int | None = None,  # noqa: ARG002
        end_ns: int | None = None,  # noqa: ARG002
    ) -> None:
        self.events.append((component, kind, text))

    def report_health(self, probe: str, state: str, text: str = "", *, rows: int = 0, unknown_lines: int = 0) -> None:  # noqa: ARG002
        self.unknown_lines += unknown_lines
        if not self.healths or self.healths[-1] != (probe, state, text):
            self.healths.append((probe, state, text))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table, in the order they came."""
        return [
            row
            for batches in self.batches.values()
            for batch in batches
            if find_table_spec(batch.schema).name == table
            for row in batch.to_pylist()
        ]


class LakeSink(MemorySink):
    """Writes to a lake as well."""

    def __init__(self, writer: Writer) -> None:
        super().__init__()
        self._writer = writer

    def store_batch(
        self, stream: str, seq: int, tables: list[pa.RecordBatch], *, source: str = "", path: str = ""
    ) -> bool:
        filling = self._writer.open_batch(stream, seq, source=source, path=path)
        for rows in tables:
            filling.add(rows)
        return filling.commit()

    def has_batch(self, stream: str, seq: int) -> bool:
        return self._writer.has_batch(stream, seq)


def files_below(folder: Path) -> list[str]:
    """Names of the files under a folder, relative to it."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())

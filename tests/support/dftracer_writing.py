"""Lines as DFTracer's versions write them, for tests of its source; and reading a file both ways."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from fairlead.core.model.job import Job
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import FILES, OPS
from fairlead.see.sources.dftracer import DFTracerSource

T0_US = 1_727_387_307_000_000


def event(name: str, ts: int, dur: int = 5, cat: str = "POSIX", pid: int = 7, **args: object) -> dict[str, object]:
    """A complete event of DFTracer 1.0; `args` become its arguments."""
    return {"id": 1, "name": name, "cat": cat, "pid": pid, "tid": pid, "ts": ts, "dur": dur, "ph": "X", "args": args}


def meta(kind: str, name: str, value: object, pid: int = 7, **more: object) -> dict[str, object]:
    """A metadata event: a hash (FH, HH, SH) or a fact about the process (PR)."""
    args = {**more, "name": name, "value": value}
    return {"id": 1, "name": kind, "cat": "dftracer", "pid": pid, "tid": pid, "ph": "M", "args": args}


def text(events: Iterable[dict[str, object] | str]) -> bytes:
    """A trace: one line an event, brackets around; strings are lines as they are."""
    lines = [e if isinstance(e, str) else json.dumps(e, separators=(",", ":")) for e in events]
    return ("[\n" + "\n".join(lines) + "\n]").encode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Read:
    """What a trace was read to."""

    ops: pa.Table
    files: dict[int, str]
    job: Job
    missing: list[Missing]

    @property
    def rows(self) -> list[dict[str, object]]:
        """Rows of `ops`."""
        return self.ops.to_pylist()

    @property
    def kinds(self) -> list[str]:
        """Kinds of what is missing."""
        return [m.kind for m in self.missing]

    def column(self, name: str) -> list[object]:
        """One column of `ops`."""
        return self.ops.column(name).to_pylist()

    def paths(self) -> list[str | None]:
        """Path of each row."""
        return [self.files[i] if i is not None else None for i in self.column("file_id")]


def read(path: Path, *, compiled: bool = False) -> Read:
    """Read one trace with the JSON path or the compiled scanner."""
    ops, files, jobs, missing = [], {}, [], []
    for item in DFTracerSource(0 if compiled else None).read(path):
        if isinstance(item, Job):
            jobs.append(item)
        elif isinstance(item, Missing):
            missing.append(item)
        elif item.schema.equals(OPS.schema):
            ops.append(item)
        else:
            assert item.schema.equals(FILES.schema)
            rows = item.to_pylist()
            assert all(row["fs"] == "" and row["file_id"] not in files for row in rows)
            files |= {row["file_id"]: row["path"] for row in rows}
    (job,) = jobs
    table = pa.Table.from_batches(ops, OPS.schema).unify_dictionaries().combine_chunks()
    return Read(table, files, job, missing)

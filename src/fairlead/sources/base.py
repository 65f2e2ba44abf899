"""What every source is: something that recognises its own content and reads it as batches of records.

Not here: which sources exist (`fairlead.registry`) and how several inputs become one job (`fairlead.sources.inputs`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, TypeAlias

import pyarrow as pa

from fairlead.model.job import Job
from fairlead.model.missing import Missing

Item: TypeAlias = pa.RecordBatch | Job | Missing
"""What `read` yields: a batch (its schema's metadata names the table), the job it is about, or something missing."""

HEAD_BYTES = 8192


class Source(Protocol):
    """A reader of one format. Stateless: one instance reads any number of inputs."""

    name: str
    """One word: `darshan`, `dftracer`, `beacon`, `slurm`."""

    def accepts(self, head: bytes, path: Path) -> bool:
        """Whether content that begins with `head` (at most HEAD_BYTES; gunzipped when the file is gzip) is of this
        format. `path` is only for messages; the name never decides."""
        ...

    def read(self, path: Path) -> Iterator[Item]:
        """Records of one file, streamed. A damaged tail yields what is good and a `Missing`; raises `InputError`
        subclasses (with `where=str(path)` and a remedy) when nothing can be used."""
        ...


class NumberedSource(Source, Protocol):
    """A source whose files state which job they record, so that several files of one job are found and joined."""

    ranks_per_log: bool
    """Whether each file numbers its ranks from 0, so that files of one job that ran at the same time overlap."""

    def job_key(self, path: Path) -> str:
        """What tells jobs apart; cheap. Raises as `read`."""
        ...

"""What every source is: something that recognises its own content and reads it as batches of records.

Not here: which sources exist (`registered_sources`) and how several inputs become one job (`inputs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from fairlead.core.model.job import Job
from fairlead.core.model.missing import Missing

Item: TypeAlias = pa.RecordBatch | Job | Missing
"""What `read` yields: a batch (its schema's metadata names the table), the job it is about, or something missing."""

HEAD_BYTES = 8192


class Source(Protocol):
    """A reader of one format. Stateless: one instance reads any number of inputs."""

    name: str
    """One word: `darshan`, `dftracer`, `beacon`, `slurm`."""

    def accepts(self, head: bytes, path: Path) -> bool:
        """Whether content that begins with `head` (at most HEAD_BYTES; gunzipped when the file is gzip) is of this
        format. `path` is for messages, and for a format that its head does not decide (a database); never its name."""
        ...

    def read(self, path: Path) -> Iterator[Item]:
        """Records of one file, streamed. A damaged tail yields what is good and a `Missing`; raises `InputError`
        subclasses (with `where=str(path)` and a remedy) when nothing can be used."""
        ...


@dataclass(frozen=True)
class Origin:
    """Which run a file records, as far as a look at its beginning tells. `key` None: the file does not name its job.

    Files of one key (or of one folder, without keys) belong together while `apart_ns` at most lies between the end of
    one and the start of the next: job numbers are reused.
    """

    key: str | None
    start_ns: int | None
    end_ns: int | None
    apart_ns: int


@runtime_checkable
class JoinableSource(Protocol):
    """A source of which several files may record one run."""

    ranks_per_log: bool
    """Whether each file numbers its ranks from 0, so that those of files that ran at the same time would collide."""

    def find_origin(self, path: Path, head: bytes) -> Origin:
        """Where a file belongs; cheap. `head` is what `accepts` was given. Raises as `read`."""
        ...


@runtime_checkable
class SeriesSource(Protocol):
    """A source whose files carry on from one another (a node's days)."""

    def read_series(self, paths: Iterable[Path]) -> Iterator[Item]:
        """Records of files that follow one another, in order."""
        ...


@runtime_checkable
class LayeredSource(Protocol):
    """A source of which some files were written by servers that many jobs share."""

    def serves_many(self, path: Path) -> bool:
        """Whether a file is of such a server, and so of no job in particular. Raises as `read`."""
        ...

"""Files of a spool as a source: batches that mounts, forwarders and agents wrote become the tables they are of.

Not here: the bytes of a batch (`fairlead.core.batches`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from fairlead.core.batches.decoding import decode_stream_batches, decode_stream_headers
from fairlead.core.batches.encoding import MAGIC, Header
from fairlead.core.batches.rows import build_batch_rows
from fairlead.core.errors import CorruptInputError, UnsupportedVersionError
from fairlead.core.model.job import Job
from fairlead.core.model.missing import Missing
from fairlead.see.sources.base import Item, Origin

CLIENT = "client"
_SAME_RUN_NS = 86_400 * 10**9
"""Steps of one batch job follow each other within a day; the same number later is another job."""


class SpoolSource:
    """`Source` of spool files. A file holds what one writer recorded in a few seconds, and of a client, of one job."""

    name = "spool"
    ranks_per_log = False

    def accepts(self, head: bytes, path: Path) -> bool:  # noqa: ARG002
        """Whether `head` begins a batch, of whatever version."""
        return head.startswith(MAGIC[:-1])

    def find_origin(self, path: Path, head: bytes) -> Origin:  # noqa: ARG002
        """The job a client's file is of, or the server it is of; headers are read only. Raises as `read`."""
        first = self._first(path)
        if first.layer != CLIENT:
            return Origin(f"{first.layer}/{first.writer}@{first.node}", None, None, 0)
        job = _job_of(first)
        if job is None:
            return Origin(None, first.first_ns, first.last_ns, _SAME_RUN_NS)
        return Origin(f"{job.cluster or ''}/{job.job_id}", first.first_ns, first.last_ns, _SAME_RUN_NS)

    def serves_many(self, path: Path) -> bool:
        """Whether the file was written by a server, whose records are of many jobs. Raises as `read`."""
        return self._first(path).layer != CLIENT

    def _first(self, path: Path) -> Header:
        with path.open("rb") as stream:
            for header in decode_stream_headers(stream, str(path)):
                return header
        raise CorruptInputError("the file is empty", where=str(path), remedy="copy it again from its spool")

    def read(self, path: Path) -> Iterator[Item]:
        """The job a client's file is of, then every batch as rows of its table, and a `Missing` for what is not
        understood or cut off.

        Raises CorruptInputError, UnsupportedVersionError when nothing can be used.
        """
        where = str(path)
        known = False
        read = 0
        with path.open("rb") as stream:
            try:
                for batch in decode_stream_batches(stream, where):
                    job = _job_of(batch.header)
                    if job is not None and not known:
                        known = True
                        yield job
                    yield from build_batch_rows(batch, where)
                    read += 1
            except (CorruptInputError, UnsupportedVersionError) as fault:
                if not read:
                    raise
                yield Missing(
                    kind="truncated", what="the rest of the file", why=fault.what, remedy=fault.remedy, where=where
                )


def _job_of(header: Header) -> Job | None:
    if header.job is None:
        return None
    try:
        return msgspec.convert(header.job, Job)
    except msgspec.ValidationError:
        return None

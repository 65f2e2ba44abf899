"""Runs on their way into the spool: one sheet a job, each written as one file that can be understood alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from fairlead.core.batches.encoding import Column, encode_batch, encode_numbers, encode_same_word, encode_words
from fairlead.core.batches.spool import Spool
from fairlead.steer.fs.trace.runs import Run

if TYPE_CHECKING:
    from fairlead.steer.fs.trace.run_arrays import Chunk
    from fairlead.steer.fs.wire.handshake import Identity

INTERFACE = "fuse"
"""The `interface` of the rows."""
OPS_VERSION, FILES_VERSION = 2, 1


_Key = tuple[str, str]
"""A job: its cluster ("" where that is not known) and its number."""


class _Sheet:
    """What one job did since the last file."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.batches: list[bytes] = []
        self.files: dict[int, tuple[str, int]] = {}
        self.rows = 0

    def saw(self, file_id: int, path: str, start_ns: int) -> None:
        """A file was used."""
        known = self.files.get(file_id)
        if known is None or start_ns < known[1]:
            self.files[file_id] = (path, start_ns)


class Sheets:
    """The sheets of all jobs of a mount. `identities` gives the mount's mapping of job indexes."""

    def __init__(self, spool: Spool, fs: str, identities: Callable[[], Mapping[int, Identity]]) -> None:
        self._spool = spool
        self._fs = fs
        self._identities = identities
        self._sheets: dict[_Key | None, _Sheet] = {}
        self._span: dict[_Key | None, tuple[int, int]] = {}
        self.most_rows = 0
        """Rows of the longest sheet."""

    def _sheet(self, key: _Key | None, rows: int) -> _Sheet:
        sheet = self._sheets.setdefault(key, _Sheet())
        sheet.rows += rows
        self.most_rows = max(self.most_rows, sheet.rows)
        return sheet

    def _job(self, index: int) -> _Key | None:
        known = self._identities().get(index)
        return (known.cluster, known.job_id) if known is not None else None

    def add(self, runs: Sequence[Run]) -> None:
        """Closed runs."""
        for run in runs:
            self._sheet(self._job(run.job), 1).runs.append(run)

    def add_chunk(self, chunk: Chunk) -> None:
        """Many runs as arrays; they are encoded at once, which takes far less memory than keeping them."""
        import numpy as np

        indexes = np.unique(chunk.job).tolist()
        ranks = {index: identity.rank for index, identity in self._identities().items()}
        jobs: dict[_Key | None, list[int]] = {}
        for index in indexes:
            jobs.setdefault(self._job(index), []).append(index)
        for key, mine in jobs.items():
            part = chunk if len(jobs) == 1 else chunk.select_rows(np.isin(chunk.job, mine))
            sheet = self._sheet(key, len(part.start))
            for file_id, (path, start) in part.find_first_starts().items():
                sheet.saw(file_id, path, start)
            span = int(part.start.min()), int(part.end.max())
            sheet.batches.append(self._ops(key, mine[0], len(part.start), span, part.build_columns(ranks)))

    def write(self) -> None:
        """One file a job."""
        for key, sheet in self._sheets.items():
            if sheet.runs:
                sheet.batches.append(self._rows(key, sheet))
            files = self._files(key, sheet)
            self._spool.write([*sheet.batches, files] if files is not None else sheet.batches)
        self._sheets = {}
        self.most_rows = 0

    def _rows(self, key: _Key | None, sheet: _Sheet) -> bytes:
        runs = sheet.runs
        for run in runs:
            if run.file is not None:
                sheet.saw(*run.file, run.start)
        ranks = {index: identity.rank for index, identity in self._identities().items()}
        span = min(run.start for run in runs), max(run.end for run in runs)
        return self._ops(
            key,
            runs[0].job,
            len(runs),
            span,
            {
                "start_ns": encode_numbers([run.start for run in runs]),
                "end_ns": encode_numbers([run.end for run in runs]),
                "busy_ns": encode_numbers([run.busy for run in runs]),
                "rank": encode_numbers([_none_below(ranks.get(run.job, -1)) for run in runs]),
                "op": encode_words([run.word for run in runs]),
                "file_id": encode_numbers([run.file[0] if run.file is not None else None for run in runs]),
                "handle": encode_numbers([_signed(run.handle) or None for run in runs]),
                "offset": encode_numbers([_none_below(run.offset) for run in runs]),
                "size": encode_numbers([_none_below(run.size) for run in runs]),
                "stride": encode_numbers([run.stride if run.count > 1 and run.offset >= 0 else None for run in runs]),
                "count": encode_numbers([run.count for run in runs]),
            },
        )

    def _ops(self, key: _Key | None, index: int, rows: int, span: tuple[int, int], columns: dict[str, Column]) -> bytes:
        first, last = self._span.get(key, span)
        self._span[key] = min(first, span[0]), max(last, span[1])
        job = self._described(key, index)
        header = self._spool.build_header("ops", OPS_VERSION, rows, first_ns=span[0], last_ns=span[1], job=job)
        return encode_batch(
            header,
            {
                **columns,
                "node": encode_same_word(self._spool.node, rows),
                "job_id": encode_same_word(key[1] if key else None, rows),
                "cluster": encode_same_word(key[0] or None if key else None, rows),
                "interface": encode_same_word(INTERFACE, rows),
                "fs": encode_same_word(self._fs, rows),
            },
        )

    def _files(self, key: _Key | None, sheet: _Sheet) -> bytes | None:
        seen = sheet.files
        if not seen:
            return None
        starts = [start for _, start in seen.values()]
        header = self._spool.build_header(
            "files",
            FILES_VERSION,
            len(seen),
            first_ns=min(starts),
            last_ns=max(starts),
            job=self._described(key, None),
        )
        return encode_batch(
            header,
            {
                "file_id": encode_numbers(list(seen)),
                "fs": encode_same_word(self._fs, len(seen)),
                "path": encode_words([path for path, _ in seen.values()]),
                "first_seen_ns": encode_numbers(starts),
            },
        )

    def _described(self, key: _Key | None, index: int | None) -> dict[str, object] | None:
        """What is known of the job; its start and end are the first and last request so far."""
        if key is None:
            return None
        cluster, job_id = key
        told = self._identities().get(index) if index is not None else None
        start, end = self._span[key]
        about: dict[str, object] = {
            "job_id": job_id,
            "user": told.user if told else "",
            "cluster": cluster,
            "name": told.name if told else "",
            "start_ns": start,
            "end_ns": end,
            "nodes": [self._spool.node],
        }
        return {name: value for name, value in about.items() if value}


def _none_below(value: int) -> int | None:
    return value if value >= 0 else None


def _signed(handle: int) -> int:
    """A handle as the signed number a record holds."""
    return handle - (1 << 64) if handle >= 1 << 63 else handle

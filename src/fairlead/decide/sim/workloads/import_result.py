"""What reading a table of jobs gives: the jobs, what was dropped and why, what had to be assumed. Not here: reading."""

from __future__ import annotations

import gzip
import io
import zlib
from dataclasses import dataclass

from fairlead.core.errors import CorruptInputError, OversizeError
from fairlead.decide.sim.workloads.io_rules import Season

MOST_BYTES = 4 << 30
"""No more of a table is unpacked."""
LONGEST_RUN_S = 366 * 86_400.0
"""No job runs longer: a row that says so is broken."""
MOST_NUMBER = 1e12
"""Numbers beyond are no seconds and no processors."""


@dataclass(frozen=True, kw_only=True)
class ImportResult:
    """`season`: the jobs, and what is known of each. `lines` (J,): the line each is from, the first is 1. `rows` that
    were to be jobs, `dropped` of them by reason; `assumed`: what the table does not hold, in words."""

    season: Season
    lines: tuple[int, ...]
    rows: int
    dropped: dict[str, int]
    assumed: tuple[str, ...]

    @property
    def told(self) -> str:
        """`9,500 of 10,000 jobs; dropped: 400 no number, 100 no run time`."""
        kept = len(self.season.jobs)
        why = ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.dropped.items(), key=lambda x: -x[1]))
        return f"{kept:,} of {self.rows:,} jobs" + (f"; dropped: {why}" if why else "")


def unpack_import_text(data: bytes, where: str) -> str:
    """The text, unpacked where it is gzip; bytes that are no text become signs no number holds. Raises InputError."""
    if data[:2] == b"\x1f\x8b":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
                data = file.read(MOST_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise CorruptInputError("the gzip stream is broken", where=where, remedy="fetch it again") from error
    if len(data) > MOST_BYTES:
        raise OversizeError(f"more than {MOST_BYTES >> 30} GiB of table", where=where, remedy="cut it into parts")
    return data.decode("utf-8", "replace")


def build_empty_import_error(rows: int, dropped: dict[str, int], where: str) -> CorruptInputError:
    """No job could be taken."""
    why = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
    return CorruptInputError(
        f"none of {rows:,} rows is a job" + (f" ({why})" if why else ""), where=where, remedy="look at its format"
    )

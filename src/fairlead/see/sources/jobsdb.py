"""NERSC's jobs database kept as SQLite: a table `summary` of jobs with hosts, starts, ends and node counts.

Not here: who ran what where; the database does not say.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import JOBS, build_table_batch
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.see.sources.base import Item
from fairlead.see.sources.sqlite_file import MAGIC, has_sqlite_tables, open_sqlite_database

_AT_ONCE = 1 << 16
_COLUMNS = ("stepid", "hostname", "start", "completion", "numnodes")


class JobsDbSource:
    """`Source` of such databases. Times are epoch seconds."""

    name = "jobsdb"

    def accepts(self, head: bytes, path: Path) -> bool:
        """Whether the content is a SQLite database with the table and its columns."""
        if not head.startswith(MAGIC) or not has_sqlite_tables(head, path, "summary"):
            return False
        with open_sqlite_database(path) as database:
            columns = {str(row[1]).lower() for row in database.execute("PRAGMA table_info(summary)")}
        return set(_COLUMNS) <= columns

    def read(self, path: Path) -> Iterator[Item]:
        """Jobs; `4472230.edison` is job 4472230 of the cluster in `hostname`. Raises CorruptInputError."""
        with open_sqlite_database(path) as database:
            cursor = database.execute(f"SELECT {', '.join(_COLUMNS)} FROM summary ORDER BY start, stepid")  # noqa: S608
            while rows := cursor.fetchmany(_AT_ONCE):
                steps, hosts, starts, ends, nodes = zip(*rows, strict=True)
                yield build_table_batch(
                    JOBS,
                    {
                        "cluster": [str(host) if host else None for host in hosts],
                        "job_id": [str(step).partition(".")[0] for step in steps],
                        "start_ns": _seconds(starts),
                        "end_ns": _seconds(ends),
                        "nodes_count": [count if isinstance(count, int) and count > 0 else None for count in nodes],
                    },
                )
        yield Missing(
            kind="not_kept",
            what="users, node names and states of jobs",
            why="the database has none",
            where=str(path),
            remedy="ingest the scheduler's own accounting (sacct -P) as well",
        )


def _seconds(values: tuple[object, ...]) -> pa.Array:
    known = [value if isinstance(value, int) and value > 0 else 0 for value in values]
    seconds = np.array(known, np.int64)
    return pa.array(seconds * NS_PER_S, mask=seconds == 0)

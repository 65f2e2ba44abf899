"""SQLite files as sources read them: recognised by their tables, opened so that nothing is written beside them.

Not here: what a table means (`lmt`, `jobsdb`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from fairlead.core.errors import CorruptInputError

MAGIC = b"SQLite format 3\0"


def has_sqlite_tables(head: bytes, path: Path, *names: str) -> bool:
    """Whether the content is a SQLite database with all these tables."""
    if not head.startswith(MAGIC):
        return False
    try:
        with open_sqlite_database(path) as database:
            found = {str(row[0]).upper() for row in database.execute("SELECT name FROM sqlite_master")}
    except CorruptInputError:
        return False
    return {name.upper() for name in names} <= found


@contextmanager
def open_sqlite_database(path: Path) -> Iterator[sqlite3.Connection]:
    """The database, for reading. SQLite errors inside become CorruptInputError."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.text_factory = lambda raw: raw.decode("utf-8", "replace")
            yield database
    except sqlite3.Error as fault:
        raise CorruptInputError(
            f"SQLite cannot read it ({fault})", where=str(path), remedy="copy it again when its writer has finished"
        ) from fault

"""The audit log: who signed in or tried to, from where, and what was changed. Never what somebody typed or holds."""

from __future__ import annotations

import msgspec

from fairlead.core.safe_text import escape_text
from fairlead.show.web.people.store import Store

MOST_ROWS = 500_000
"""A flood does not fill the disk: beyond, the oldest go."""
_EACH = 200
_LONGEST = 200


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line. `act`: what was tried; `what`: on what; `done`: whether it was let be done."""

    number: int
    at_ns: int
    who: str
    how: str
    address: str
    act: str
    what: str
    done: bool


def write_audit_entry(
    store: Store,
    who: str,
    act: str,
    what: str = "",
    *,
    how: str = "",
    address: str = "",
    done: bool = True,
    keep_ns: int | None = None,
) -> None:
    """Writes one line; now and then what is older than `keep_ns` goes."""
    with store.change():
        words = [escape_text(text)[:_LONGEST] for text in (who, how, address, act, what)]
        store.execute(
            "INSERT INTO audit (at_ns, who, how, address, act, what, done) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (store.course.wall(), *words, int(done)),
        )
        (number,) = store.select_rows("SELECT max(number) FROM audit")[0]
        if number % _EACH == 0:
            store.execute("DELETE FROM audit WHERE number <= ?", (number - MOST_ROWS,))
            if keep_ns is not None:
                store.execute("DELETE FROM audit WHERE at_ns < ?", (store.now - keep_ns,))


def list_audit_entries(
    store: Store, *, before: int | None = None, limit: int = 100, who: str = "", act: str = ""
) -> list[Entry]:
    """The latest first, those before a number where one is given."""
    found = store.select_rows(
        "SELECT number, at_ns, who, how, address, act, what, done FROM audit WHERE (? IS NULL OR number < ?)"
        " AND (? = '' OR who = ?) AND (? = '' OR act = ?) ORDER BY number DESC LIMIT ?",
        (before, before, who, who, act, act, limit),
    )
    names = Entry.__struct_fields__
    return [Entry(**{**dict(zip(names, row, strict=True)), "done": bool(row[7])}) for row in found]

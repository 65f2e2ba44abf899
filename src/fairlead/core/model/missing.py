"""What is not known, and why. No data is not zero and is not failure: it is said, with what would make it known."""

from __future__ import annotations

import msgspec

DAMAGED = ("truncated", "damaged", "unreadable_lines")
"""Kinds that mean a broken input, not a trace that simply does not record something."""


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that cannot be known from what was given.

    `what` names it (`"request timeline"`), `why` the cause in the data, `remedy` what would provide it,
    `where` the input it concerns. `kind` is a stable word for programs.
    """

    kind: str
    what: str
    why: str
    remedy: str | None = None
    where: str | None = None

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"

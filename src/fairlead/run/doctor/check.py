"""What one check of a machine found. Not here: the looking, the commands that install (`install_commands`)."""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["ok", "partly", "missing"]
STATUSES: tuple[Status, ...] = ("ok", "partly", "missing")


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. `enables` says what fairlead does with it; `command` is the one command that gets what is
    lacking, `hint` says it in words where no command does. Both are None when nothing is lacking."""

    area: str
    name: str
    status: Status
    found: str
    enables: str
    command: str | None = None
    hint: str | None = None

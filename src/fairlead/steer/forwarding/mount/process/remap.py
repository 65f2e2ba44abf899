"""Asks a mount process to move to other forwarders. How it moves is in `recovery.failover`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fairlead.core.errors import UnreachableError
from fairlead.steer.forwarding.mount.process.control import ask_mount_process
from fairlead.steer.fs.wire.address import parse_address

WITHIN_S = 40.0
"""Longer than a mount itself waits for the requests its old forwarder still has."""


def remap_mount(folder: str | Path, addresses: Sequence[str], *, within_s: float = WITHIN_S) -> str:
    """Moves the mount and returns the address it is at then. Raises `MountError`, `UnreachableError`, `UsageError` (an
    invalid address)."""
    wanted = [str(parse_address(text)) for text in addresses]
    answer = ask_mount_process(folder, {"do": "remap", "addresses": wanted}, timeout_s=within_s)
    if not isinstance(answer, dict) or not isinstance(answer.get("forwarder"), str):
        raise UnreachableError("the mount process answered something else", where=str(folder))
    return str(answer["forwarder"])

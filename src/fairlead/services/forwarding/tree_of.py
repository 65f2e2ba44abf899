"""The tree an `--export` or `--local` names: a directory, or `targets:FILE` for files striped over storage targets.

Each kind of tree is imported when it is asked for. `slow:TIMES:` before either puts a simulated device in front.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fairlead.errors import ForwardingError

if TYPE_CHECKING:
    from fairlead.services.forwarding.trees.base import FileTree

_TARGETS = "targets:"
_SLOW = "slow:"


def tree_of(spec: str) -> FileTree:
    """Opens the tree; ForwardingError when it is not there or cannot be used."""
    if spec.startswith(_SLOW):
        # For experiments: slow:metadata=2ms,read=8ms,bandwidth=100M:DIR
        from fairlead.testing.devices import simulated_device, timing

        times, colon, rest = spec.removeprefix(_SLOW).partition(":")
        if not colon:
            raise ForwardingError("no tree behind the simulated device", where=spec, remedy="write slow:read=8ms:DIR")
        return simulated_device(tree_of(rest), timing(times))
    if spec.startswith(_TARGETS):
        from fairlead.services.forwarding.trees.targets.tree import open_tree

        return open_tree(spec.removeprefix(_TARGETS))
    if not os.path.isdir(spec):
        raise ForwardingError(
            "no directory to export", where=spec, remedy="name a directory, or targets:FILE for storage targets"
        )
    if not os.access(spec, os.X_OK):
        raise ForwardingError("may not be entered", where=spec, remedy="run as a user who may use it")
    from fairlead.services.forwarding.trees.directory import DirectoryTree

    try:
        return DirectoryTree(spec)
    except OSError as error:
        raise ForwardingError(
            f"cannot be exported: {error.strerror}", where=spec, remedy="run as a user who may use it"
        ) from error

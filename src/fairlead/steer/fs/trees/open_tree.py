"""The tree an `--export` or `--local` names: a directory, or `KIND:REST` for a kind of tree of `fairlead.trees`.

Kinds are entry points, loaded when asked for: `targets:FILE` (files striped over storage targets), `slow:TIMES:TREE` (a
simulated device in front of another tree), and a site's own. What an entry point names is called with REST.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fairlead.core.errors import ForwardingError
from fairlead.core.extensions import find_extensions

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairlead.steer.fs.trees.base import FileTree


def open_export(spec: str) -> FileTree:
    """Opens the tree; ForwardingError when it is not there or cannot be used."""
    kind, colon, rest = spec.partition(":")
    kinds = find_extensions("fairlead.trees")
    if colon and kind in kinds:
        open_kind: Callable[[str], FileTree] = kinds[kind].load()
        return open_kind(rest)
    if not os.path.isdir(spec):
        raise ForwardingError(
            "no directory to export", where=spec, remedy="name a directory, or targets:FILE for storage targets"
        )
    if not os.access(spec, os.X_OK):
        raise ForwardingError("may not be entered", where=spec, remedy="run as a user who may use it")
    from fairlead.steer.fs.trees.directory import DirectoryTree

    try:
        return DirectoryTree(spec)
    except OSError as error:
        raise ForwardingError(
            f"cannot be exported: {error.strerror}", where=spec, remedy="run as a user who may use it"
        ) from error

"""Generations of nodes. File systems use the inode number of a removed file again; the kernel, which may still have the
removed one in memory, tells the two apart by a generation.

Kept by the mount, not by forwarders: it must live as long as the kernel's memory of its nodes.
"""

from __future__ import annotations

from struct import Struct

from fairlead.steer.fs.fuse.abi import ENTRIES, NEW_NODES, Op
from fairlead.steer.fs.fuse.messages import MADE, iterate_message_entries

_NODE = Struct("<Q")
_GENERATION_AT = 8
_CREATE, _READDIRPLUS = int(Op.CREATE), int(Op.READDIRPLUS)
HAS_ENTRY = [op in ENTRIES for op in range(64)]
"""By opcode: whether the reply holds entries."""


def _is_new(body: memoryview) -> bool:
    """Whether a CREATE made its file: the forwarder says so where a generation belongs."""
    return bool(_NODE.unpack_from(body, _GENERATION_AT)[0] == MADE)


class Generations:
    """Generations other than 0. `mark` is called with every reply that has entries, before the kernel has it."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def mark(self, op: int, body: memoryview, *, held: bool, named: bool) -> None:
        """Puts the generation into the reply. `held`: the kernel knows a node of that number already; `named`: by a
        name that is still there, as far as replies have said: that of its removal may come after this one."""
        if op == _READDIRPLUS:
            for at, node, _ in iterate_message_entries(body) if self._known else ():
                _NODE.pack_into(body, at + _GENERATION_AT, self._known.get(node, 0))
            return
        (node,) = _NODE.unpack_from(body)
        if held and (op in NEW_NODES or (op == _CREATE and (not named or _is_new(body)))):
            self._known[node] = self._known.get(node, 0) + 1
        _NODE.pack_into(body, _GENERATION_AT, self._known.get(node, 0))

    def forget(self, node: int) -> None:
        """The kernel knows the node no longer."""
        self._known.pop(node, None)

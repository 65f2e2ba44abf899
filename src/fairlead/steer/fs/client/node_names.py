"""Where the nodes are that the kernel knows: parent and name of each, so that another forwarder can be told.

Only memory of what replies said; nothing is asked.
"""

from __future__ import annotations

from fairlead.steer.fs.fuse.abi import ROOT


class Nodes:
    """Place and look-up count of every node the kernel holds. A node with several names keeps the last one seen and
    the others beside it."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[int, bytes]] = {}
        self._nodes: dict[tuple[int, bytes], int] = {}
        self._other: dict[int, set[tuple[int, bytes]]] = {}
        self._count: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._count)

    def record_lookup(self, node: int, parent: int, name: bytes) -> None:
        """A reply gave the kernel this node under this name (one look-up more)."""
        counts = self._count
        counts[node] = counts.get(node, 0) + 1
        place = (parent, name)
        if self._places.get(node) != place:
            self._set(node, place)

    def record_nameless(self, node: int) -> None:
        """A reply gave the kernel this node, which has no name (O_TMPFILE)."""
        self._count[node] = self._count.get(node, 0) + 1

    def _set(self, node: int, place: tuple[int, bytes]) -> None:
        before = self._nodes.get(place)
        if before is not None and before != node:
            self._drop(place)
        old = self._places.get(node)
        if old is not None and old != place:
            self._other.setdefault(node, set()).add(old)
        self._places[node] = place
        self._nodes[place] = node

    def _drop(self, place: tuple[int, bytes]) -> int | None:
        node = self._nodes.pop(place, None)
        if node is None:
            return None
        others = self._other.get(node)
        if others is not None:
            others.discard(place)
        if self._places.get(node) == place:
            if others:
                self._places[node] = others.pop()
            else:
                del self._places[node]
        if others is not None and not others:
            del self._other[node]
        return node

    def remove_name(self, parent: int, name: bytes) -> None:
        """The name was removed."""
        self._drop((parent, name))

    def move_name(self, parent: int, name: bytes, new_parent: int, new_name: bytes, *, exchange: bool = False) -> None:
        """The name was renamed (the node under it, if known, went along)."""
        there = self._drop((new_parent, new_name))
        here = self._drop((parent, name))
        if here is not None:
            self._set(here, (new_parent, new_name))
        if exchange and there is not None:
            self._set(there, (parent, name))

    def forget(self, node: int, lookups: int) -> bool:
        """The kernel drops that many look-ups; true when it knows the node no longer."""
        left = self._count.get(node, 0) - lookups
        if left > 0:
            self._count[node] = left
            return False
        self._count.pop(node, None)
        place = self._places.pop(node, None)
        if place is not None and self._nodes.get(place) == node:
            del self._nodes[place]
        for other in self._other.pop(node, ()):
            if self._nodes.get(other) == node:
                del self._nodes[other]
        return True

    def find_node(self, parent: int, name: bytes) -> int | None:
        """The node under a name, if it is known."""
        return self._nodes.get((parent, name))

    def has_node(self, node: int) -> bool:
        """True while the kernel knows the node."""
        return node in self._count

    def count_lookups(self, node: int) -> int:
        """How often the kernel was told the node and has not given it back."""
        return self._count.get(node, 0)

    def list_nodes(self) -> list[int]:
        """Every node the kernel knows."""
        return list(self._count)

    def is_unlinked(self, node: int) -> bool:
        """True for a node none of whose names is known any more."""
        return node != ROOT and node not in self._places

    def find_steps(self, node: int) -> list[tuple[int, bytes]] | None:
        """(parent, name) from the root down to the node; None when it has no known name."""
        steps: list[tuple[int, bytes]] = []
        places = self._places
        while node != ROOT:
            place = places.get(node)
            if place is None or len(steps) > 4096:
                return None
            steps.append(place)
            node = place[0]
        steps.reverse()
        return steps

    def find_path(self, node: int) -> bytes | None:
        """Path from the root of the mount, without a leading slash; None when it has no known name."""
        steps = self.find_steps(node)
        return None if steps is None else b"/".join(name for _, name in steps)

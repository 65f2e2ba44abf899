"""Attributes of directories that came with an answer before the kernel asks for them (Flag.PARENT).

After a name was created or removed the kernel asks for the directory's attributes; they are used once.
"""

from __future__ import annotations

from fairlead.core.clock import monotonic_ns

ATTRIBUTES_BYTES = 104
"""What GETATTR answers."""
_HOLDS_NS = 50_000_000
"""The kernel asks at once or not at all; another client may change the directory meanwhile."""
_MOST = 1024


class PrefetchedAttributes:
    """Replies to GETATTR by node, each for one request within 50 ms."""

    def __init__(self) -> None:
        self._answers: dict[int, tuple[int, bytes]] = {}

    def put(self, node: int, attributes: bytes) -> None:
        """An operation on a name in this directory was answered, and these are its attributes after it."""
        answers = self._answers
        if len(answers) >= _MOST:
            answers.clear()
        answers[node] = (monotonic_ns() + _HOLDS_NS, attributes)

    def take_attributes(self, node: int) -> bytes | None:
        """The reply to GETATTR, once, if it is known and fresh."""
        found = self._answers.pop(node, None)
        return found[1] if found is not None and monotonic_ns() < found[0] else None

    def drop(self, node: int) -> None:
        """Forgets attributes that have changed. A new file may have the number of a removed directory: with that one's
        attributes the kernel would answer EIO."""
        self._answers.pop(node, None)

"""Attributes of directories that came with an answer before the kernel asks for them (Flag.PARENT).

After a name was made or removed the kernel has to ask for the directory's attributes again; they are given once.
"""

from __future__ import annotations

from fairlead.core.clock import monotonic_ns

ATTRIBUTES_BYTES = 104
"""What GETATTR answers."""
_HOLDS_NS = 50_000_000
"""The kernel asks at once or not at all; another client may change the directory meanwhile."""
_MOST = 1024


class PrefetchedAttributes:
    """Answers to GETATTR by node, each for one request and a moment."""

    def __init__(self) -> None:
        self._answers: dict[int, tuple[int, bytes]] = {}

    def put(self, node: int, attributes: bytes) -> None:
        """An operation on a name in this directory was answered, and these are its attributes after it."""
        answers = self._answers
        if len(answers) >= _MOST:
            answers.clear()
        answers[node] = (monotonic_ns() + _HOLDS_NS, attributes)

    def take(self, node: int) -> bytes | None:
        """The answer to GETATTR, if it is known and fresh; it is not given twice."""
        found = self._answers.pop(node, None)
        return found[1] if found is not None and monotonic_ns() < found[0] else None

    def drop(self, node: int) -> None:
        """Something else changes these attributes, or tells the kernel newer ones: a file that was just made may have
        the number of a removed directory, and a file with a directory's attributes is broken for the kernel (EIO)."""
        self._answers.pop(node, None)

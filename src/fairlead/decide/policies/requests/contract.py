"""What a forwarder and the rule that orders its requests say to each other. Time comes in as an argument.

Nothing here waits, locks or reads a clock: the forwarder calls a discipline under a lock of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

METADATA, READ, WRITE = 0, 1, 2
"""Values of `Waiting.op_class`."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A request that waits for a worker. `size` is in bytes (0 for metadata), `target` None where none is known."""

    op_class: int
    job: str | int
    target: object | None
    size: int
    arrived_ns: int
    item: object
    """The forwarder's own request, handed back untouched."""
    turn: int = 0
    """Place in the order of arrival; the discipline sets it."""
    user: int | None = None
    """Whose job it is: users share first, then the jobs of each. None where nothing is known of users."""


class Running:
    """How many workers each job, each target and each user holds. The forwarder counts: `note_start` right after a
    `take`, `note_end` before `finish`."""

    __slots__ = ("jobs", "targets", "total", "users")

    def __init__(self) -> None:
        self.total = 0
        self.jobs: dict[str | int, int] = {}
        self.targets: dict[object, int] = {}
        self.users: dict[int, int] = {}

    def note_start(self, waiting: Waiting) -> None:
        """A worker has begun with it."""
        self.total += 1
        job, target = waiting.job, waiting.target
        jobs = self.jobs
        jobs[job] = jobs.get(job, 0) + 1
        if target is not None:
            self.targets[target] = self.targets.get(target, 0) + 1
        user = waiting.user
        if user is not None:
            self.users[user] = self.users.get(user, 0) + 1

    def note_end(self, waiting: Waiting) -> None:
        """Its worker is free again."""
        self.total -= 1
        _less(self.jobs, waiting.job)
        if waiting.target is not None:
            _less(self.targets, waiting.target)
        if waiting.user is not None:
            _less(self.users, waiting.user)


def _less(counts: dict[object, int] | dict[str | int, int] | dict[int, int], key: object) -> None:
    left = counts[key] - 1  # type: ignore[index]
    if left:
        counts[key] = left  # type: ignore[index]
    else:
        del counts[key]  # type: ignore[arg-type]


class Discipline(Protocol):
    """The rule that decides which request a free worker takes. Pure: the same calls give the same answers."""

    def add(self, waiting: Waiting, now_ns: int) -> None:
        """A request has arrived."""
        ...

    def take(self, now_ns: int, running: Running) -> Waiting | None:
        """The request a free worker shall execute; None when none may run now (see `wake_ns`, or after a `finish`)."""
        ...

    def take_along(
        self, waiting: Waiting, choose: Callable[[list[Waiting]], Sequence[Waiting]], now_ns: int
    ) -> Sequence[Waiting]:
        """Requests that the worker of `waiting`, just taken, executes with it: `choose` is shown the next ones of its
        job, class and target. They are charged, need no worker, and are not to be given to `finish`."""
        ...

    def finish(self, waiting: Waiting, now_ns: int) -> None:
        """A request that was taken has ended. What was held back for it may now run: ask `take` again."""
        ...

    def drop(self, waiting: Waiting) -> bool:
        """Takes a waiting request out (interrupted, its client is gone); False when it does not wait here."""
        ...

    def wake_ns(self, now_ns: int) -> int | None:
        """When a rate next lets something go that is held back now; None when no time will change anything."""
        ...

    def __len__(self) -> int:
        """Requests that wait, those held back included."""
        ...

"""Which storage targets take a new file's stripes: round robin, weighted by performance, or least open.

Pure: what is known of the targets is passed in, the choice comes out. Counting open files is the caller's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random
from typing import NamedTuple, Protocol

from fairlead.core.errors import ConfigError

ROOM_BYTES = 64 << 20
"""A target with less free space takes no new file."""


class TargetState(NamedTuple):
    """What is known of a target when a file is placed."""

    performance: float = 1.0
    """What it can do, in any unit: only ratios between targets count (`max_perf`)."""
    open_files: int = 0
    """Objects that are open on it, counted within the job's pool."""
    available: bool = True
    free_bytes: int | None = None
    """None: not known, taken as enough."""
    overload: float = 0.0
    """How far its measured load is above `performance`, as a share of it; 0 when it is not."""

    def accepts_file(self, room_bytes: int = ROOM_BYTES) -> bool:
        """Whether it may take a new file."""
        return self.available and (self.free_bytes is None or self.free_bytes >= room_bytes)


class Placement(Protocol):
    """A rule of placement. One object serves one namespace; calls are not thread-safe."""

    def place(self, stripes: int, targets: Sequence[TargetState], pool: Collection[int] | None = None) -> list[int]:
        """Indices of different targets, in stripe order: `stripes` of them, or all that take files when those are
        fewer. Empty when none does (no space). `pool` limits the choice to these indices."""
        ...


def _choice(targets: Sequence[TargetState], pool: Collection[int] | None) -> list[int]:
    indices = range(len(targets)) if pool is None else sorted(pool)
    return [index for index in indices if targets[index].accepts_file()]


class RoundRobin:
    """One target after the other, whatever they can do."""

    def __init__(self, seed: int = 0) -> None:  # noqa: ARG002  every placement is made with a seed
        self._next = 0

    def place(self, stripes: int, targets: Sequence[TargetState], pool: Collection[int] | None = None) -> list[int]:
        """See `Placement`."""
        choice = _choice(targets, pool)
        later = [index for index in choice if index >= self._next]
        chosen = (later + [index for index in choice if index < self._next])[:stripes]
        if chosen:
            self._next = chosen[-1] + 1
        return chosen


class WeightedRandom:
    """Drawn with probabilities as the targets' performance, without putting back."""

    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)  # noqa: S311  not a secret: a seed must give the same choice again

    def place(self, stripes: int, targets: Sequence[TargetState], pool: Collection[int] | None = None) -> list[int]:
        """See `Placement`."""
        choice = _choice(targets, pool)
        chosen: list[int] = []
        while choice and len(chosen) < stripes:
            weights = [max(targets[index].performance, 0.0) for index in choice]
            drawn = self._random.choices(choice, weights if any(weights) else None)[0]
            choice.remove(drawn)
            chosen.append(drawn)
        return chosen


class LeastOpen:
    """The target with the largest performance/(open files + 1) in the job's pool, as Sunway's storage does (Chen et
    al., JCST 2020). A target above its performance counts as slower: divided by 1 + penalty × overload."""

    def __init__(self, seed: int = 0, *, penalty: float = 1.0) -> None:  # noqa: ARG002
        self._penalty = penalty

    def score(self, target: TargetState) -> float:
        """What one more open file would get of it."""
        return target.performance / ((target.open_files + 1) * (1 + self._penalty * target.overload))

    def place(self, stripes: int, targets: Sequence[TargetState], pool: Collection[int] | None = None) -> list[int]:
        """See `Placement`. Of equal targets the first."""
        return sorted(_choice(targets, pool), key=lambda index: (-self.score(targets[index]), index))[:stripes]


def find_file_placement(name: str, *, seed: int = 0) -> Placement:
    """The placement of that name, of the registry or a plug-in. Raises ConfigError for an unknown one."""
    from fairlead.decide.registered_policies import find_registered_placement, list_registered_placements

    if name not in list_registered_placements():
        raise ConfigError(f"unknown placement {name!r}", remedy=f"one of {', '.join(list_registered_placements())}")
    return find_registered_placement(name)(seed)

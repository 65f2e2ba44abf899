"""Which resources an application's transfers go to, once it is known how many: published placements.

Random, Greedy-Non-Clairvoyant and Greedy-Clairvoyant of Bandet, Boito and Pallez 2024; pools of Chen et al. (JCST
2020); round robin, weighted random and straws (Weil et al., SC 2006). Available resources only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairlead.core.model.site import Layer
from fairlead.decide.policies.allocation.contract import F64, I64, NONE, Applications, Running

U64 = np.uint64


def _numbers(applications: Applications, choice: I64, pool: Layer) -> I64:
    """(K,): how many each gets: as chosen, or all there are."""
    wanted = np.where(choice < 0, 0, applications.counts[choice])
    return np.asarray(np.minimum(wanted, len(pool.usable)), np.int64)


def _blank(applications: Applications, rows: int) -> I64:
    return np.full((rows, int(applications.counts.max())), NONE, np.int64)


def _in_turn(applications: Applications, numbers: I64, order: I64, first: int, pool: Layer) -> I64:
    """Round robin over the available resources, applications in `order`."""
    out = _blank(applications, len(numbers))
    sorted_numbers = numbers[order]
    begin = first + np.cumsum(sorted_numbers) - sorted_numbers
    place = np.arange(out.shape[1])
    if len(pool.usable):
        turn = pool.usable[(begin[:, None] + place) % len(pool.usable)]
        out[order] = np.where(place < sorted_numbers[:, None], turn, NONE)
    return out


def _lowest(key: F64, number: int, applications: Applications, pool: Layer) -> I64:
    """(W,): the `number` available resources of the lowest key (of `pool.usable`), of equals the first."""
    out = _blank(applications, 1)[0]
    out[:number] = pool.usable[np.argsort(key, kind="stable")[:number]]
    return np.asarray(out)


def _one_number(application: Applications, choice: int, pool: Layer) -> int:
    return int(_numbers(application, np.array([choice], np.int64), pool)[0])


class RandomPlacing:
    """Different resources, each as likely as the others."""

    def place(self, applications: Applications, choice: I64, pool: Layer, rng: np.random.Generator) -> I64:
        """See `Placing`."""
        out = _blank(applications, len(choice))
        for i, number in enumerate(_numbers(applications, choice, pool)):
            out[i, :number] = rng.choice(pool.usable, number, replace=False) if number else NONE
        return out

    def place_one(
        self,
        application: Applications,
        choice: int,
        running: Running,  # noqa: ARG002
        pool: Layer,
        rng: np.random.Generator,
    ) -> I64:
        """See `Placing`."""
        return np.asarray(self.place(application, np.array([choice], np.int64), pool, rng)[0])


class GreedyNonClairvoyant:
    """By decreasing n, round robin over the resources. One more goes to those with the fewest users, which from an
    empty machine is the same."""

    def place(self, applications: Applications, choice: I64, pool: Layer, rng: np.random.Generator) -> I64:  # noqa: ARG002
        """See `Placing`. Of equal n the first application first."""
        numbers = _numbers(applications, choice, pool)
        return _in_turn(applications, numbers, np.argsort(-numbers, kind="stable"), 0, pool)

    def place_one(
        self,
        application: Applications,
        choice: int,
        running: Running,
        pool: Layer,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> I64:
        """See `Placing`."""
        users = running.users[pool.usable].astype(np.float64)
        return _lowest(users, _one_number(application, choice, pool), application, pool)


class GreedyClairvoyant:
    """By decreasing share of time in I/O, t / (T + t): each to the resources of the lowest occupancy so far."""

    def place(self, applications: Applications, choice: I64, pool: Layer, rng: np.random.Generator) -> I64:  # noqa: ARG002
        """See `Placing`. Of equals the first."""
        numbers = _numbers(applications, choice, pool)
        busy = self._busy(applications, choice)
        occupancy = np.zeros(len(pool.usable))
        out = _blank(applications, len(choice))
        for i in np.argsort(-busy, kind="stable"):
            mine = np.argsort(occupancy, kind="stable")[: numbers[i]]
            occupancy[mine] += busy[i]
            out[i, : len(mine)] = pool.usable[mine]
        return out

    @staticmethod
    def _busy(applications: Applications, choice: I64) -> F64:
        t = np.where(choice < 0, 0.0, applications.time_s[np.arange(len(choice)), choice])
        cycle = t + applications.compute_s
        return np.divide(t, cycle, out=np.zeros(len(choice)), where=cycle > 0)

    def place_one(
        self,
        application: Applications,
        choice: int,
        running: Running,
        pool: Layer,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> I64:
        """See `Placing`."""
        return _lowest(running.occupancy[pool.usable], _one_number(application, choice, pool), application, pool)


class Pools:
    """Sunway's rule for objects, by applications: the resources of the largest performance / (users + 1), applications
    in the order they come (Chen et al., JCST 2020)."""

    def place(self, applications: Applications, choice: I64, pool: Layer, rng: np.random.Generator) -> I64:  # noqa: ARG002
        """See `Placing`. Of equals the first."""
        users = np.zeros(len(pool.usable))
        performance = pool.performance[pool.usable]
        out = _blank(applications, len(choice))
        for i, number in enumerate(_numbers(applications, choice, pool)):
            mine = np.argsort(-performance / (users + 1), kind="stable")[:number]
            users[mine] += 1
            out[i, :number] = pool.usable[mine]
        return out

    def place_one(
        self,
        application: Applications,
        choice: int,
        running: Running,
        pool: Layer,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> I64:
        """See `Placing`."""
        key = -pool.performance[pool.usable] / (running.users[pool.usable] + 1)
        return _lowest(key, _one_number(application, choice, pool), application, pool)


class RoundRobinPlacing:
    """One resource after the other, applications in the order they come. One more begins behind as many turns as those
    that run have taken."""

    def place(self, applications: Applications, choice: I64, pool: Layer, rng: np.random.Generator) -> I64:  # noqa: ARG002
        """See `Placing`."""
        return _in_turn(applications, _numbers(applications, choice, pool), np.arange(len(choice)), 0, pool)

    def place_one(
        self,
        application: Applications,
        choice: int,
        running: Running,
        pool: Layer,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> I64:
        """See `Placing`."""
        numbers = _numbers(application, np.array([choice], np.int64), pool)
        return np.asarray(_in_turn(application, numbers, np.zeros(1, np.int64), int(running.users.sum()), pool)[0])


class WeightedRandomPlacing:
    """Different resources drawn by their performance, without putting back (Efraimidis and Spirakis, IPL 2006)."""

    def place(self, applications: Applications, choice: I64, pool: Layer, rng: np.random.Generator) -> I64:
        """See `Placing`. A resource of performance 0 only where no other is left."""
        return _by_straws(applications, choice, pool, rng.random((len(choice), len(pool.usable))))

    def place_one(
        self,
        application: Applications,
        choice: int,
        running: Running,  # noqa: ARG002
        pool: Layer,
        rng: np.random.Generator,
    ) -> I64:
        """See `Placing`."""
        return np.asarray(self.place(application, np.array([choice], np.int64), pool, rng)[0])


class Straw:
    """CRUSH's straws (Weil et al., SC 2006; straw2): every resource draws a straw from a hash of the application and
    its own number, as long as its performance lets it; the longest are taken. With the same seed only the applications
    that used a resource move when it goes."""

    def place(self, applications: Applications, choice: I64, pool: Layer, rng: np.random.Generator) -> I64:
        """See `Placing`. An application's name for the hash is drawn from `rng`."""
        names = rng.integers(0, 2**63, len(choice), dtype=np.uint64)
        drawn = _mixed(names[:, None] ^ _mixed(pool.usable.astype(np.uint64))[None, :])
        uniform = (drawn >> U64(11)).astype(np.float64) / float(1 << 53)
        return _by_straws(applications, choice, pool, uniform)

    def place_one(
        self,
        application: Applications,
        choice: int,
        running: Running,  # noqa: ARG002
        pool: Layer,
        rng: np.random.Generator,
    ) -> I64:
        """See `Placing`."""
        return np.asarray(self.place(application, np.array([choice], np.int64), pool, rng)[0])


def _by_straws(applications: Applications, choice: I64, pool: Layer, uniform: F64) -> I64:
    """`uniform` (K, usable) in [0, 1): the lowest of -log(1 - u) / performance."""
    performance = np.maximum(pool.performance[pool.usable], 0.0)
    with np.errstate(divide="ignore"):
        key = np.where(performance > 0, -np.log1p(-uniform) / performance, np.inf)
    out = _blank(applications, len(choice))
    for i, number in enumerate(_numbers(applications, choice, pool)):
        out[i, :number] = pool.usable[np.argsort(key[i], kind="stable")[:number]]
    return out


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of 64 bits (the finaliser of splitmix64: Steele et al., OOPSLA 2014)."""
    x = x + U64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
    return x ^ (x >> U64(31))

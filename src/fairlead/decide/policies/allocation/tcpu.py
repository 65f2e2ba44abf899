"""TCPU (Bandet, Boito and Pallez 2024): from n_sys upwards while cores gain by it and the layer holds.

Not here: which resources. The greedy rounds of the definition are found through heaps.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from fairlead.core.model.site import Layer
from fairlead.decide.policies.allocation.allowed_counts import (
    BOOL,
    find_allowed_counts,
    find_best_allowed_count,
    find_least_allowed_count,
)
from fairlead.decide.policies.allocation.contract import I64, Applications, Running


class Tcpu:
    """Starts all applications at n_sys. In each round every application looks upwards, as far as its n_perf, for the
    first count that keeps load <= 1 and does not lower its CPU load; the application that gains most CPU load takes its
    step (of equals the first); until none can. O(K C log K) but for loads that fall again and again."""

    def choose(self, applications: Applications, pool: Layer, rng: np.random.Generator) -> I64:  # noqa: ARG002
        """See `Allocation`."""
        fits = find_allowed_counts(applications, pool)
        start = find_least_allowed_count(applications, fits)
        if not len(applications) or (start < 0).any():
            return start
        return _Climb(applications, fits, start, len(pool.usable)).climb()

    def choose_one(self, application: Applications, running: Running, pool: Layer, rng: np.random.Generator) -> int:  # noqa: ARG002
        """See `Allocation`: those that run stay at what they have, their stress counts."""
        fits = find_allowed_counts(application, pool)
        start = find_least_allowed_count(application, fits)
        if start[0] < 0:
            return int(start[0])
        return int(_Climb(application, fits, start, len(pool.usable) - running.stress).climb()[0])


class _Climb:
    """The rounds. An application's next step depends on the room that is left: the first count whose need fits. It
    changes only when the room falls below the need of its step, or rises to the need of an earlier one; two heaps tell
    which applications these are, a third the largest gain."""

    def __init__(self, applications: Applications, fits: BOOL, start: I64, resources: float) -> None:
        self.column = start.tolist()
        self._stress = applications.stress.tolist()
        self._cpu_load = applications.cpu_load.tolist()
        self._fits = fits.tolist()
        self._top = find_best_allowed_count(applications, fits).tolist()
        self._room = resources - float(applications.stress[np.arange(len(start)), start].sum())
        self._step = [-1] * len(start)
        self._version = [0] * len(start)
        self._gains: list[tuple[float, int, int]] = []
        self._falling: list[tuple[float, int, int]] = []
        self._rising: list[tuple[float, int, int]] = []

    def climb(self) -> I64:
        """Columns at the end."""
        for i in range(len(self.column)):
            self._look(i)
        while self._gains:
            _, i, version = heappop(self._gains)
            if version != self._version[i]:
                continue
            before, self.column[i] = self.column[i], self._step[i]
            self._room -= self._stress[i][self.column[i]] - self._stress[i][before]
            self._look(i)
            self._again()
        return np.array(self.column, np.int64)

    def _look(self, i: int) -> None:
        """Finds the application's step for the room there is."""
        now, stress, cpu_load = self.column[i], self._stress[i], self._cpu_load[i]
        self._version[i] += 1
        self._step[i] = -1
        version, earlier = self._version[i], np.inf
        for k in range(now + 1, self._top[i] + 1):
            gain = cpu_load[k] - cpu_load[now]
            if not self._fits[i][k] or gain < 0:
                continue
            need = stress[k] - stress[now]
            if need <= self._room:
                self._step[i] = k
                heappush(self._gains, (-gain, i, version))
                heappush(self._falling, (-need, i, version))
                break
            earlier = min(earlier, need)
        if earlier < np.inf:
            heappush(self._rising, (earlier, i, version))

    def _again(self) -> None:
        """Looks again at those whose step is another one now that the room has changed."""
        while self._falling and (self._stale(self._falling) or -self._falling[0][0] > self._room):
            self._redo(heappop(self._falling))
        while self._rising and (self._stale(self._rising) or self._rising[0][0] <= self._room):
            self._redo(heappop(self._rising))

    def _stale(self, heap: list[tuple[float, int, int]]) -> bool:
        _, i, version = heap[0]
        return version != self._version[i]

    def _redo(self, entry: tuple[float, int, int]) -> None:
        _, i, version = entry
        if version == self._version[i]:
            self._look(i)

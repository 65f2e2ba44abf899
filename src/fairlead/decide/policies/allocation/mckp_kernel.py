"""The loops of MCKP's dynamic programming as machine code. Not here: what classes and items are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairlead.core.jit import compile_jit_function

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@compile_jit_function
def solve_mckp_knapsack(weight: I64, value: F64, capacity: int, chosen: I64) -> bool:
    """Fills `chosen` (K,); whether there is a choice. O(K items capacity) time, K capacity bytes."""
    classes, items = value.shape
    taken = np.full((classes, capacity + 1), np.int8(-1), np.int8)
    before = np.zeros(capacity + 1)
    after = np.zeros(capacity + 1)
    for i in range(classes):
        after[:] = -np.inf
        for j in range(items):
            gain = value[i, j]
            heavy = weight[j]
            if gain == -np.inf:
                continue
            for room in range(heavy, capacity + 1):
                total = before[room - heavy] + gain
                if total > after[room]:
                    after[room] = total
                    taken[i, room] = j
        before, after = after, before
    if before[capacity] == -np.inf:
        return False
    room = capacity
    for i in range(classes - 1, -1, -1):
        chosen[i] = taken[i, room]
        room -= weight[chosen[i]]
    return True

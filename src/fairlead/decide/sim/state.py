"""What the engine's loop reads and writes, as arrays by name.

Not here: the loop (`engine_kernel`), its meaning (`engine`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
WIDTH = 8
"""Resources a flow can cross."""
BY_CAP = -1
"""`bottleneck` of a flow that runs as fast as it can by itself."""
IDLE = -2
TIGHT = 1e-9
"""A resource is full when no more than this share of its capacity is left."""


class State(NamedTuple):
    """Everything the loop reads and writes. F flows, R resources, P phases; see `engine.Engine` for their meaning."""

    capacity: F64
    used: F64
    full: NDArray[np.bool_]
    head: I64
    members: I32
    crosses: I32
    cost: F64
    weight: F64
    cap: F64
    left: F64
    rate: F64
    since: F64
    bottleneck: I32
    phase: I32
    following: I64
    preceding: I64
    begun: F64
    ended: F64
    due_key: F64
    due_heap: I32
    due_at: I32
    first_flow: I64
    past_flow: I64
    open_flows: I64
    phase_begun: F64
    phase_ended: F64
    delay: F64
    first_after: I32
    next_after: I32
    wake_key: F64
    wake_heap: I32
    wake_at: I32
    change_time: F64
    change_resource: I32
    change_capacity: F64
    now: F64
    counts: I64
    in_region: I64
    region: I32
    touched: I64
    region_resources: I32
    region_members: I32
    residual: F64
    weights: F64
    new_rate: F64
    new_bottleneck: I32
    fill_key: F64
    fill_heap: I32
    fill_at: I32


DUE, WAKE, CHANGE, STAMP, EVENTS, SOLVED = range(6)
"""Places in `counts`: entries of the heaps, capacity changes done, stamp of the region, events, flows solved."""


class Segments(NamedTuple):
    """Where rates are written down: flow `flow` ran at `rate` in [begin, end), held back by `bottleneck`."""

    flow: I32
    begin: F64
    end: F64
    rate: F64
    bottleneck: I32

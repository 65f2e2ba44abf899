"""What the replay's loops are told of a machine and of one job, as tuples of numbers.

Not here: the loops (`replay_kernel`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.core.model.site import Site

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


class Layers(NamedTuple):
    """First resource of each layer, as `Site.at` numbers them."""

    forwarder: int
    server: int
    target: int
    mds: int
    targets_per_server: int


class Ask(NamedTuple):
    """What one job asks. Costs: seconds a component is held by a byte or an operation (0: not crossed); rates: bytes/s
    and operations/s it reaches by itself; `weight` 0: one for each lane; `mds`: the resource of its metadata server."""

    now_s: float
    tail_s: float
    client_rate: float
    operation_rate: float
    forwarder_cost: float
    target_cost: float
    server_cost: float
    forwarder_operation: float
    mds_cost: float
    weight: float
    mds: int


def find_layer_arguments(machine: Site) -> Layers:
    """Where the machine's layers begin."""
    at = machine.at
    return Layers(at.forwarder, at.server, at.target, at.mds, machine.targets_per_server)


def compute_operation_argument(machine: Site) -> float:
    """Seconds a forwarder is held by a metadata operation: half its time on an idle machine, in one of its workers."""
    return machine.metadata_rtt_s / 2 / machine.workers

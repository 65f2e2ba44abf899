"""What jobs ask of a machine: steps of computing and I/O, laid out as flows for the engine and lanes for records.

A lane is one process's regular sequence of requests to one target; a flow is all lanes of a step between one forwarder
and one target. Who goes where is given as arrays: no policy is known here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairlead.core.model.site import F64, I32, Site

I64 = NDArray[np.int64]
Op = Literal["read", "write"]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One I/O step of a job. `compute_s` goes before it.

    Data: `volume` bytes by `writers` processes in `files` files (writers: each its own; 1: all in one; between:
    groups), requests of `request` bytes, `stripes` targets a file. `contested`: processes of one file write
    interleaved blocks. `random`: offsets at random. Metadata only: `op` is its name, `each` operations a process.
    """

    op: str
    compute_s: float = 0.0
    volume: int = 0
    request: int = 1 << 20
    writers: int = 1
    files: int = 1
    stripes: int = 1
    contested: bool = False
    random: bool = False
    each: int = 0
    label: str = "out"
    interface: str = "POSIX"
    pauses: int = 1
    """Parts that what a process does in a second falls into, apart by more than a run of operations spans."""
    fresh: bool = True
    """Whether its files are new; else they are those of the step of the same label before it."""

    @property
    def moves_data(self) -> bool:
        """Whether it is of data, not of metadata."""
        return self.op in ("read", "write")


@dataclass(frozen=True)
class Laid:
    """A step laid out. Flows F: `forwarder` (-1 none), `target` (or MDS), amount, weight, cap, crosses, cost, `streams`
    (requests under way at most), `alone` (rate with nobody beside). Lanes L, in order of `lane_flow`: rank, node, file
    of the step, first offset, stride; each has `requests` requests of `size` bytes (1: metadata)."""

    forwarder: I32
    target: I32
    amount: F64
    weight: F64
    cap: F64
    crosses: I32
    cost: F64
    streams: F64
    alone: F64
    size: int
    requests: int
    lane_flow: I32
    rank: I32
    node: I32
    file: I32
    offset: I64
    stride: I64


def lay_out_step(machine: Site, step: Step, nodes: I32, forwarder_of: I32, targets: I32, lock: int) -> Laid:
    """Flows and lanes of a step of a job on `nodes` (one process a core, in order). `forwarder_of`: by node of the
    machine. `targets`: (files, stripes) of a data step, (1, 1) the MDS of a metadata step. `lock`: the resource for a
    contested file."""
    writers = step.writers
    processes = len(nodes) * machine.cores_per_node
    rank = (np.arange(writers) * (processes // writers)).astype(np.int64)
    node = nodes[rank // machine.cores_per_node]
    if not step.moves_data:
        return _metadata(machine, step, rank, node, forwarder_of[node], int(targets[0, 0]))
    group = writers // step.files
    file = np.minimum(np.arange(writers) // group, step.files - 1)
    own = group == 1
    stripes = targets.shape[1]
    member = np.arange(writers) - file * group
    size = step.request
    if own:  # every file is read or written by one process, over all of its stripes
        lane = np.repeat(np.arange(writers), stripes)
        stripe = np.tile(np.arange(stripes), writers)
        requests = max(-(-step.volume // (len(lane) * size)), 1)
        offset, stride = stripe * size, np.full(len(lane), stripes * size)
    else:
        lane = np.arange(writers)
        stripe = member % stripes
        requests = max(-(-step.volume // (writers * size)), 1)
        offset = member * (size if step.contested else requests * size)
        stride = np.full(writers, group * size if step.contested else size)
    target = targets[file[lane], stripe]
    limit = np.minimum(
        machine.process_bandwidth / (len(lane) / writers), machine.client_bandwidth / _shared_by(node[lane])
    )
    forwarder = forwarder_of[node[lane]]
    flow, first, order = _grouped(forwarder.astype(np.int64) * len(machine.targets) + target)
    streams = np.bincount(flow).astype(np.float64)
    cap = np.bincount(flow, limit).astype(np.float64)
    fwd, tgt = forwarder[first].astype(np.int32), target[first].astype(np.int32)
    at = machine.at
    server = tgt // machine.targets_per_server
    hold = 1.0 / machine.worker_bandwidth + machine.request_s / size
    columns: list[tuple[NDArray[np.int_] | I32, F64 | float]] = []
    if len(machine.forwarders):
        held: F64 | float = hold
        if step.contested and step.files == 1:
            # Requests that wait for the file's lock hold a worker: so many that the lock, alone, is what limits.
            beside = np.bincount(fwd, streams, len(machine.forwarders))[fwd]
            held = np.maximum(
                np.minimum(beside, machine.workers) * writers / (machine.shared_file_bandwidth * beside), hold
            )
        columns += [(at.forwarder + fwd, 1.0), (at.workers + fwd, held)]
    per_request = 1.0 / size if step.random else 1.0 / max(size, 1 << 16)
    columns += [(at.server + server, 1.0), (at.target + tgt, 1.0), (at.target_iops + tgt, per_request)]
    crosses, cost = _crossings(columns, len(fwd))
    alone = np.minimum(cap, (machine.whole[crosses] / cost).min(axis=1))
    if step.contested:
        crosses, cost = _crossings([*columns, (np.full(len(fwd), lock), 1.0)], len(fwd))
        alone = np.minimum(alone, machine.shared_file_bandwidth * streams / writers)
    lanes = order
    amount, weight = streams * float(requests * size), streams * float(size)
    return Laid(
        fwd,
        tgt,
        amount,
        weight,
        cap,
        crosses,
        cost,
        streams,
        alone,
        size,
        requests,
        flow[lanes].astype(np.int32),
        rank[lane][lanes].astype(np.int32),
        node[lane][lanes].astype(np.int32),
        file[lane][lanes].astype(np.int32),
        offset[lanes].astype(np.int64),
        stride[lanes].astype(np.int64),
    )


def stretch_step(laid: Laid, share: float) -> Laid:
    """A step that goes at `share` of its usual rate: it asks for less and takes more of what it crosses for as much."""
    if share == 1.0:
        return laid
    return replace(laid, cap=laid.cap * share, cost=laid.cost / share, alone=laid.alone * share)


def _metadata(machine: Site, step: Step, rank: I64, node: I32, forwarder: I32, mds: int) -> Laid:
    flow, first, lanes = _grouped(forwarder.astype(np.int64))
    streams = np.bincount(flow).astype(np.float64)
    fwd = forwarder[first].astype(np.int32)
    at = machine.at
    columns: list[tuple[NDArray[np.int_] | I32, F64 | float]] = []
    if len(machine.forwarders):
        # Operations that wait for a metadata server that is behind hold a worker, as those that wait for a lock.
        behind = np.minimum(streams, machine.workers) * len(rank) / (float(machine.mds.mdops[0]) * streams)
        storm = len(rank) / machine.metadata_rtt_s > float(machine.mds.mdops[0])
        columns.append(
            (at.workers + fwd, np.maximum(behind, machine.metadata_rtt_s / 2) if storm else machine.metadata_rtt_s / 2)
        )
    columns.append((np.full(len(fwd), at.mds + mds), 1.0))
    crosses, cost = _crossings(columns, len(fwd))
    cap = streams / machine.metadata_rtt_s
    alone = np.minimum(cap, (machine.whole[crosses] / cost).min(axis=1))
    each = max(step.each, 1)
    none = np.zeros(len(lanes), np.int64)
    server = np.full(len(fwd), mds, np.int32)
    return Laid(
        fwd,
        server,
        streams * float(each),
        streams,
        cap,
        crosses,
        cost,
        streams,
        alone,
        1,
        each,
        flow[lanes].astype(np.int32),
        rank[lanes].astype(np.int32),
        node[lanes].astype(np.int32),
        np.minimum(np.arange(len(rank)) * step.files // len(rank), step.files - 1)[lanes].astype(np.int32),
        none,
        none,
    )


def _grouped(key: I64) -> tuple[NDArray[np.int_], NDArray[np.int_], NDArray[np.int_]]:
    """The group of each element, the first element of each group, and the elements in order of group."""
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    return group, first, np.argsort(group, kind="stable")


def _shared_by(values: I32) -> NDArray[np.int_]:
    """How often each element's value occurs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse])


def _crossings(columns: list[tuple[NDArray[np.int_] | I32, F64 | float]], flows: int) -> tuple[I32, F64]:
    crosses = np.stack([np.asarray(resource, np.int32) for resource, _ in columns], axis=1)
    cost = np.stack([np.broadcast_to(np.asarray(value, np.float64), flows) for _, value in columns], axis=1)
    return crosses, cost

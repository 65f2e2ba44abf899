"""Machines as resources: what a site is made of, and which numbers the engine knows its parts by.

Not here: who uses them. A mapping of nodes to forwarders or of files to targets comes in as an array.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairlead.core.model.platform import Layer, Platform

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A site. Bandwidths in bytes/s. `forwarders` 0: nodes reach the storage servers themselves.

    `node_bandwidth` is what one node reaches through its client, `process_bandwidth` one process; `worker_bandwidth`
    is how fast one of a forwarder's `workers` moves a request on, `request_s` what a request costs it besides;
    `shared_file_bandwidth` is the most a file reaches that processes write interleaved, however many (lock contention;
    Beacon, TOS 2023: 250 MB/s); `metadata_rtt_s` the time of a metadata operation on an idle machine.
    """

    name: str
    nodes: int
    nodes_per_forwarder: int = 512
    forwarders: int = 0
    servers: int = 1
    targets_per_server: int = 1
    mds: int = 1
    cores_per_node: int = 4
    node_bandwidth: float = 90e6
    process_bandwidth: float = 90e6
    forwarder_bandwidth: float = 2.5e9
    workers: int = 16
    worker_bandwidth: float = 400e6
    request_s: float = 100e-6
    server_bandwidth: float = 3e9
    target_bandwidth: float = 1e9
    target_iops: float = 20_000.0
    target_bytes: int = 40 << 40
    mdops: float = 40_000.0
    metadata_rtt_s: float = 500e-6
    shared_file_bandwidth: float = 250e6
    file_system: str = "scratch"

    @property
    def targets(self) -> int:
        """Storage targets in all."""
        return self.servers * self.targets_per_server

    @cached_property
    def at(self) -> Places:
        """Where each layer's resources begin."""
        return Places(self)

    @cached_property
    def whole(self) -> F64:
        """`capacity()`, made once. Not to be written to."""
        made = self.capacity()
        made.flags.writeable = False
        return made

    def capacity(self, locks: int = 0) -> F64:
        """Capacity of every resource, then of `locks` files that are written interleaved."""
        parts = (
            np.full(self.forwarders, self.forwarder_bandwidth),
            np.full(self.forwarders, float(self.workers)),
            np.full(self.servers, self.server_bandwidth),
            np.full(self.targets, self.target_bandwidth),
            np.full(self.targets, self.target_iops),
            np.full(self.mds, self.mdops),
            np.full(locks, self.shared_file_bandwidth),
        )
        return np.concatenate(parts)

    def static_map(self) -> I32:
        """The forwarder of each node by position (-1 throughout where there is none)."""
        if not self.forwarders:
            return np.full(self.nodes, -1, np.int32)
        return (np.arange(self.nodes) // self.nodes_per_forwarder % self.forwarders).astype(np.int32)

    def node_name(self, number: int) -> str:
        """`cn00012`."""
        return f"cn{number:05d}"

    def forwarder_name(self, number: int) -> str:
        """`fwd003`."""
        return f"fwd{number:03d}"

    def server_name(self, number: int) -> str:
        """`oss003`."""
        return f"oss{number:03d}"

    def target_name(self, number: int) -> str:
        """`scratch-OST001f`, as Lustre names them."""
        return f"{self.file_system}-OST{number:04x}"

    def mds_name(self, number: int) -> str:
        """`mds0`."""
        return f"mds{number}"

    def mdt_name(self, number: int) -> str:
        """`scratch-MDT0000`, as the records name what a metadata server serves."""
        return f"{self.file_system}-MDT{number:04x}"

    def described(self) -> Platform:
        """The machine as a site would describe it."""
        layers = [
            Layer(kind="forwarder", count=self.forwarders, bandwidth_bytes_per_s=self.forwarder_bandwidth),
            Layer(
                kind="target", count=self.targets, bandwidth_bytes_per_s=self.target_bandwidth, iops=self.target_iops
            ),
            Layer(kind="mds", count=self.mds, mdops=self.mdops),
        ]
        return Platform(
            name=self.name,
            nodes=self.nodes,
            cores_per_node=self.cores_per_node,
            layers=[layer for layer in layers if layer.count],
        )


class Places:
    """First resource number of each layer of a machine."""

    def __init__(self, machine: Machine) -> None:
        self.forwarder = 0
        self.workers = machine.forwarders
        self.server = 2 * machine.forwarders
        self.target = self.server + machine.servers
        self.target_iops = self.target + machine.targets
        self.mds = self.target_iops + machine.targets
        self.lock = self.mds + machine.mds

    def of(self, component: str, number: int) -> tuple[int, ...]:
        """Resources of a component: `forwarder`, `server`, `target`, `mds`. KeyError for another word."""
        return {
            "forwarder": (self.forwarder + number, self.workers + number),
            "server": (self.server + number,),
            "target": (self.target + number, self.target_iops + number),
            "mds": (self.mds + number,),
        }[component]


def taihulight() -> Machine:
    """Sunway TaihuLight as Beacon watches it: 40,960 nodes, 288 forwarders (2.5 GB/s, 512:1), 288 storage nodes of 3
    OSTs, 2 MDS (Beacon, TOS 2023, section 2). Rates of servers, targets and MDS are ours."""
    return Machine(name="taihulight", nodes=40_960, forwarders=288, servers=288, targets_per_server=3, mds=2)


def small() -> Machine:
    """A site that fits a test: 64 nodes, 4 forwarders (16:1), 4 storage nodes of 2 OSTs, 1 MDS."""
    return Machine(
        name="small",
        nodes=64,
        nodes_per_forwarder=16,
        forwarders=4,
        servers=4,
        targets_per_server=2,
        mds=1,
        target_bandwidth=600e6,
        target_iops=8_000.0,
        server_bandwidth=1e9,
        mdops=8_000.0,
        target_bytes=8 << 40,
    )


def two_layer() -> Machine:
    """A site without forwarders: 128 nodes that mount Lustre themselves, 8 storage nodes of 2 OSTs, 2 MDS."""
    return Machine(
        name="two_layer",
        nodes=128,
        servers=8,
        targets_per_server=2,
        mds=2,
        cores_per_node=16,
        node_bandwidth=2e9,
        process_bandwidth=600e6,
        target_bandwidth=1.2e9,
        server_bandwidth=2.2e9,
        target_bytes=16 << 40,
    )


MACHINES = {"taihulight": taihulight, "small": small, "two_layer": two_layer}

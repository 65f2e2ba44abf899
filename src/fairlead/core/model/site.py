"""A site: layers of components with their peaks and present state, and the map of who uses what.

One description for everybody: planning fills it from the site file and the lake, what-if from a site's own past, the
simulator and the labelled machine from a few figures (`build_uniform_site`); policies and the engine read the same
columns. Not here: the file a site is written in (`site_file`), answers by name (`site_facts`), who runs on a layer (the
`Running` of `decide.policies.allocation`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Layer:
    """The N components of one layer, by columns. `kind`: forwarder, server, target, mds, or a study's own word.

    Peaks (N,): `bandwidth` bytes/s, `iops`, `mdops` (NaN: not known); `basis`: told (by the site), seen (counted) or
    assumed. State (N,): `load` 0 to 1 used at present, NaN where nothing is known; `sick` never granted; `jobs` served
    now; `occupancy` share of time those are expected to keep it busy; `reserved` kept for one job alone. `cores` of the
    machine behind it, where a policy counts them. `running`: rows of who runs here, where the caller keeps them.
    State changes in place while a replay runs; `usable` and `performance` are of the moment they are first read.
    """

    kind: str
    names: tuple[str, ...]
    bandwidth: F64
    iops: F64
    mdops: F64
    load: F64
    sick: NDArray[np.bool_]
    jobs: I64
    occupancy: F64
    reserved: NDArray[np.bool_]
    basis: str = "told"
    cores: float = 0.0
    running: object | None = None

    def __len__(self) -> int:
        """N."""
        return len(self.names)

    def copy(self) -> Layer:
        """Return the layer with its own state, that may change in place."""
        state = ("load", "sick", "jobs", "occupancy", "reserved")
        return replace(self, **{name: getattr(self, name).copy() for name in state})

    @cached_property
    def places(self) -> dict[str, int]:
        """Place of each component by name."""
        return {name: place for place, name in enumerate(self.names)}

    @cached_property
    def usable(self) -> I64:
        """Places of components that may be granted: neither sick nor reserved. Rising."""
        return np.flatnonzero(~(self.sick | self.reserved)).astype(np.int64)

    @cached_property
    def performance(self) -> F64:
        """(N,): peak bandwidth in parts of the median one; what is not known counts as the median."""
        known = np.isfinite(self.bandwidth)
        usual = self.bandwidth[known & (self.bandwidth > 0)]
        if not len(usual):
            return np.where(known, self.bandwidth, 1.0) if known.any() else np.ones(len(self))
        median = float(np.median(usual))
        return np.asarray(np.where(known, self.bandwidth, median) / median)


def build_site_layer(
    kind: str,
    names: tuple[str, ...],
    bandwidth: float | F64 = np.nan,
    *,
    iops: float | F64 = np.nan,
    mdops: float | F64 = np.nan,
    basis: str = "told",
) -> Layer:
    """Return a layer of sound components that nobody uses: `build_site_layer("target", ("ost0", "ost1"), 1e9)`."""
    n = len(names)

    def column(values: float | F64) -> F64:
        return np.array(np.broadcast_to(np.asarray(values, np.float64), n))

    return Layer(
        kind=kind,
        names=names,
        bandwidth=column(bandwidth),
        iops=column(iops),
        mdops=column(mdops),
        load=np.zeros(n),
        sick=np.zeros(n, np.bool_),
        jobs=np.zeros(n, np.int64),
        occupancy=np.zeros(n),
        reserved=np.zeros(n, np.bool_),
        basis=basis,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Site:
    """A machine and its storage. Rates in bytes/s.

    Who uses what: `default_forwarder` (nodes,) is the site's own map, -1 none; `server_of` (targets,) the place of each
    target's server, empty where not known; `pools`: name → targets. What may be granted: `forwarder_counts`,
    `stripe_counts`; a file has `default_stripes`. `client_bandwidth`: what one client reaches, a node's one client
    (`client` "node") or that of each process ("process"); `process_bandwidth`: one process at most. `cores` of all
    nodes.

    What requests cost: one of a forwarder's `workers` moves `worker_bandwidth`, a request takes it `request_s` besides;
    `shared_file_bandwidth` is the most a file reaches that processes write interleaved, however many (lock contention;
    Beacon, TOS 2023: 250 MB/s); `metadata_rtt_s`: a metadata operation on an idle machine.
    """

    forwarders: Layer = field(default_factory=lambda: build_site_layer("forwarder", ()))
    targets: Layer = field(default_factory=lambda: build_site_layer("target", ()))
    servers: Layer = field(default_factory=lambda: build_site_layer("server", ()))
    mds: Layer = field(default_factory=lambda: build_site_layer("mds", ()))
    default_forwarder: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    server_of: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    pools: dict[str, tuple[int, ...]] = field(default_factory=dict)
    forwarder_counts: tuple[int, ...] = (1, 2, 4, 8)
    stripe_counts: tuple[int, ...] = (1, 2, 4, 8)
    default_stripes: int = 1
    client: str = "process"
    client_bandwidth: float = 90e6
    process_bandwidth: float = 90e6
    cores: float = 0.0
    cores_per_node: int = 4
    forwarder_buffer_bytes: float = 256e6
    workers: int = 16
    worker_bandwidth: float = 400e6
    request_s: float = 100e-6
    metadata_rtt_s: float = 500e-6
    shared_file_bandwidth: float = 250e6
    target_bytes: int = 40 << 40
    name: str = "site"
    file_system: str = "scratch"

    @property
    def nodes(self) -> int:
        """Compute nodes."""
        return len(self.default_forwarder)

    @property
    def targets_per_server(self) -> int:
        """Targets of each storage server, which have as many."""
        return len(self.targets) // max(len(self.servers), 1)

    @cached_property
    def at(self) -> Resources:
        """Where each layer's resources begin."""
        return Resources(self)

    @cached_property
    def whole(self) -> F64:
        """`capacity()`, computed once. Read-only."""
        capacity = self.compute_capacity()
        capacity.flags.writeable = False
        return capacity

    def compute_capacity(self, locks: int = 0) -> F64:
        """Return the capacity of every resource, then of `locks` files that are written interleaved."""
        parts = (
            self.forwarders.bandwidth,
            np.full(len(self.forwarders), float(self.workers)),
            self.servers.bandwidth,
            self.targets.bandwidth,
            self.targets.iops,
            self.mds.mdops,
            np.full(locks, self.shared_file_bandwidth),
        )
        return np.concatenate(parts)

    def format_node_name(self, number: int) -> str:
        """`cn00012`."""
        return f"cn{number:05d}"

    def format_mdt_name(self, number: int) -> str:
        """`scratch-MDT0000`, as records name what a metadata server serves."""
        return f"{self.file_system}-MDT{number:04x}"


class Resources:
    """First number of each layer's resources, as the engine of the simulator counts them."""

    def __init__(self, site: Site) -> None:
        self.forwarder = 0
        self.workers = len(site.forwarders)
        self.server = 2 * len(site.forwarders)
        self.target = self.server + len(site.servers)
        self.target_iops = self.target + len(site.targets)
        self.mds = self.target_iops + len(site.targets)
        self.lock = self.mds + len(site.mds)

    def find_resources(self, component: str, number: int) -> tuple[int, ...]:
        """Resources of a component: `forwarder`, `server`, `target`, `mds`. KeyError for another word."""
        return {
            "forwarder": (self.forwarder + number, self.workers + number),
            "server": (self.server + number,),
            "target": (self.target + number, self.target_iops + number),
            "mds": (self.mds + number,),
        }[component]


def build_uniform_site(
    *,
    nodes: int,
    nodes_per_forwarder: int = 512,
    forwarders: int = 0,
    servers: int = 1,
    targets_per_server: int = 1,
    mds: int = 1,
    cores_per_node: int = 4,
    node_bandwidth: float = 90e6,
    process_bandwidth: float = 90e6,
    forwarder_bandwidth: float = 2.5e9,
    server_bandwidth: float = 3e9,
    target_bandwidth: float = 1e9,
    target_iops: float = 20_000.0,
    mdops: float = 40_000.0,
    workers: int = 16,
    worker_bandwidth: float = 400e6,
    request_s: float = 100e-6,
    metadata_rtt_s: float = 500e-6,
    shared_file_bandwidth: float = 250e6,
    target_bytes: int = 40 << 40,
    name: str = "site",
    file_system: str = "scratch",
) -> Site:
    """Return a site of equal components. Rates in bytes/s of one of each.

    `forwarders` 0: nodes reach the storage servers themselves. Else the static map: blocks of `nodes_per_forwarder`,
    the forwarders in turn. Grants are of 1, 2, 4, ... up to all of a layer.
    """
    targets = servers * targets_per_server
    static = np.arange(nodes) // nodes_per_forwarder % forwarders if forwarders else np.full(nodes, -1)
    return Site(
        forwarders=build_site_layer(
            "forwarder",
            tuple(f"fwd{number:03d}" for number in range(forwarders)),
            forwarder_bandwidth,
            mdops=workers * 2 / metadata_rtt_s,
        ),
        servers=build_site_layer("server", tuple(f"oss{number:03d}" for number in range(servers)), server_bandwidth),
        targets=build_site_layer(
            "target",
            tuple(f"{file_system}-OST{number:04x}" for number in range(targets)),
            target_bandwidth,
            iops=target_iops,
        ),
        mds=build_site_layer("mds", tuple(f"mds{number}" for number in range(mds)), mdops=mdops),
        default_forwarder=static.astype(np.int64),
        server_of=np.arange(targets) // targets_per_server,
        forwarder_counts=_powers(forwarders),
        stripe_counts=_powers(targets),
        client="node",
        client_bandwidth=node_bandwidth,
        process_bandwidth=process_bandwidth,
        cores=float(nodes * cores_per_node),
        cores_per_node=cores_per_node,
        workers=workers,
        worker_bandwidth=worker_bandwidth,
        request_s=request_s,
        metadata_rtt_s=metadata_rtt_s,
        shared_file_bandwidth=shared_file_bandwidth,
        target_bytes=target_bytes,
        name=name,
        file_system=file_system,
    )


def _powers(most: int) -> tuple[int, ...]:
    return tuple(1 << k for k in range(max(most, 1).bit_length()) if 1 << k <= max(most, 1))

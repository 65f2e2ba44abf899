"""What path policies are asked and answer: an expected job and the machine as it is in, one grant with reasons out.

DFRA (Ji et al., FAST 2019), AIOT (Yang et al., IPDPS 2022), the static map, and through `studied` every allocation
policy. `sim.replay`, `whatif` and `plan` ask the same objects. Not here: predicting the job (`policies.next_run`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fairlead.decide.policies.allocation.contract import Running

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
UNKNOWN_MODE = ""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What is expected of a job that arrives. None: not known (never taken for 0).

    `mode`: N-N, N-M, N-1, 1-1 or UNKNOWN_MODE. `io_processes` processes that do I/O. `bandwidth_bytes_per_s` what it
    reaches alone on enough resources; `forwarder_curve`/`target_curve`: count → bytes/s alone, where it was seen or can
    be derived. `runs_known`: earlier runs it rests on; `basis` in words ("last run, 512 nodes, 3 days ago").
    """

    job_id: str
    user: str = ""
    program: str = ""
    node_count: int = 1
    node_ids: tuple[int, ...] = ()
    cores: float = 0.0
    processes: int | None = None
    io_processes: int | None = None
    mode: str = UNKNOWN_MODE
    read_bytes: float | None = None
    write_bytes: float | None = None
    compute_s: float | None = None
    mdops: float | None = None
    iops: float | None = None
    bandwidth_bytes_per_s: float | None = None
    request_bytes: float | None = None
    offset_difference_bytes: float | None = None
    files: int | None = None
    file_bytes: float | None = None
    forwarder_curve: tuple[tuple[int, float], ...] = ()
    target_curve: tuple[tuple[int, float], ...] = ()
    runs_known: int = 0
    basis: str = "never seen"

    @property
    def volume_bytes(self) -> float | None:
        """Read and written; None where neither is known."""
        known = [v for v in (self.read_bytes, self.write_bytes) if v is not None]
        return sum(known) if known else None


@dataclass(frozen=True, kw_only=True)
class Components:
    """The N components of one layer now. Peaks (N,): `bandwidth` bytes/s, `iops`, `mdops` (NaN: not known). `load` (N,)
    0..1 used at present, NaN where nothing is known. `sick` (N,) never granted. `jobs` (N,) jobs it serves now;
    `occupancy` (N,) share of time those are expected to keep it busy. `reserved` (N,): kept for one job alone."""

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

    @staticmethod
    def idle(
        kind: str, names: tuple[str, ...], bandwidth: float, *, iops: float = np.nan, mdops: float = np.nan
    ) -> Components:
        """Equal components that nobody uses."""
        n = len(names)
        return Components(
            kind=kind,
            names=names,
            bandwidth=np.full(n, float(bandwidth)),
            iops=np.full(n, iops),
            mdops=np.full(n, mdops),
            load=np.zeros(n),
            sick=np.zeros(n, np.bool_),
            jobs=np.zeros(n, np.int64),
            occupancy=np.zeros(n),
            reserved=np.zeros(n, np.bool_),
        )

    def __len__(self) -> int:
        """N."""
        return len(self.names)


@dataclass(frozen=True, kw_only=True)
class Landscape:
    """The machine as a path policy sees it. `server_of` (targets,): place of each target's server, where they are
    known. `default_forwarder` (nodes,): what the site's own map gives, -1 none. `forwarder_counts`,
    `stripe_counts`: what may be granted. `pools`: name → targets. `client_bandwidth` bytes/s of one client; `client`:
    whether each process doing I/O is one ("process") or a node has one for all of its own ("node").
    `forwarders_running`, `targets_running`: who runs, where the caller keeps it (see `studied`); policies only read it.
    """

    forwarders: Components
    targets: Components
    servers: Components | None = None
    server_of: I64 | None = None
    default_forwarder: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    forwarder_counts: tuple[int, ...] = (1, 2, 4, 8)
    stripe_counts: tuple[int, ...] = (1, 2, 4, 8)
    default_stripes: int = 1
    pools: dict[str, tuple[int, ...]] = field(default_factory=dict)
    client_bandwidth: float = 90e6
    forwarder_buffer_bytes: float = 256e6
    cores: float = 0.0
    client: str = "process"
    forwarders_running: Running | None = None
    targets_running: Running | None = None


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Why: `what` was decided ("forwarders", "stripe_count") and `why`, a sentence with its figures."""

    what: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Grant:
    """What a job gets. Places in `Landscape.forwarders` and `.targets`; empty: the site's default. None: not touched.

    `isolated`: nobody else is to be put on its forwarders. `metadata_share`: P of P:(1-P) on them. `dom_bytes`: the
    first bytes of its files on the metadata target.
    """

    forwarders: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    isolated: bool = False
    stripe_count: int | None = None
    stripe_bytes: int | None = None
    prefetch_bytes: int | None = None
    metadata_share: float | None = None
    dom_bytes: int | None = None
    reasons: tuple[Reason, ...] = ()


class PathPolicy(Protocol):
    """A policy of paths. Pure: the same question and random stream give the same grant."""

    def grant(self, expected: Expected, landscape: Landscape, rng: np.random.Generator) -> Grant:
        """What the arriving job gets. Sick and reserved components are never granted; where nothing sound is left it
        grants nothing (the site's default) and says so in its reasons."""
        ...

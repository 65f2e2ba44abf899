"""What path policies are asked and answer: an expected job and the machine as it is in, one grant with reasons out.

DFRA (Ji et al., FAST 2019), AIOT (Yang et al., IPDPS 2022), the static map, and through `studied` every allocation
policy. `sim.replay`, `whatif` and `plan` ask the same objects. Not here: predicting the job (`policies.next_run`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fairlead.core.model.site import Site

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
UNKNOWN_MODE = ""


@dataclass(frozen=True, kw_only=True)
class ExpectedJob:
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
class Reason:
    """Why: `what` was decided ("forwarders", "stripe_count") and `why`, a sentence with its figures."""

    what: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Grant:
    """What a job gets. Places in `Site.forwarders` and `.targets`; empty: the site's default. None: not touched.

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

    def grant(self, expected: ExpectedJob, site: Site, rng: np.random.Generator) -> Grant:
        """What the arriving job gets. Sick and reserved components are never granted; where nothing sound is left it
        grants nothing (the site's default) and says so in its reasons."""
        ...

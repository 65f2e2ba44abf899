"""A site's jobs as columns, and what a replay makes of them. Not here: where they come from (`sim.workloads`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fairlead.core.errors import UsageError

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """J jobs in order of `start_s` (J,). P phases; those of job j: `first_phase[j]` to `first_phase[j + 1]` (J + 1,).

    A phase computes `compute_s` (P,), then moves `volume` (P,) bytes or, where that is 0, does `operations` (P,) of
    metadata. After the last the job computes `tail_s` (J,). By job (J,): `nodes`, `cores`; `first_node` of its nodes in
    a row (-1: not known), `client_rate` bytes/s its own processes reach however much it is granted; `forwarder_cost`
    and `target_cost`: seconds one forwarder or target is held by a byte of it (so b(n) = min(client_rate, n / cost));
    `most_targets` it can use at once (a file a process: many, one file of one stripe: 1). `behaviour` (J,) its class,
    -1 unknown, and `basis` (J,) how well its curves are known: 0 its own runs, 1 its behaviour class, 2 the machine's
    defaults. `weight` (J,): its part of what is contended against others' (requests under way; None: all alike);
    `phase_rate` (P,): bytes/s a phase reaches at most, within `client_rate` (None: that), of metadata: operations/s;
    `most_forwarders` (J,): of those it is granted it uses so many, the first ones (nodes that do I/O; None: all).
    """

    start_s: F64
    first_phase: I64
    compute_s: F64
    volume: F64
    operations: F64
    tail_s: F64
    nodes: I64
    cores: F64
    first_node: I64
    client_rate: F64
    forwarder_cost: F64
    target_cost: F64
    most_targets: I64
    behaviour: I64
    basis: I64
    weight: F64 | None = None
    phase_rate: F64 | None = None
    most_forwarders: I64 | None = None

    def __len__(self) -> int:
        """J."""
        return len(self.start_s)

    def check(self) -> None:
        """Raises UsageError naming the field that cannot be."""
        j = len(self.start_s)
        names = (
            "tail_s",
            "nodes",
            "cores",
            "first_node",
            "client_rate",
            "forwarder_cost",
            "target_cost",
            "most_targets",
            "behaviour",
            "basis",
        )
        wrong = [name for name in names if len(getattr(self, name)) != j]
        if wrong or len(self.first_phase) != j + 1:
            raise UsageError(
                f"{(*wrong, 'first_phase')[0]} has another length than start_s",
                where="jobs",
                remedy="one entry per job",
            )
        for name in (
            "start_s",
            "compute_s",
            "volume",
            "operations",
            "tail_s",
            "cores",
            "forwarder_cost",
            "target_cost",
        ):
            column = getattr(self, name)
            if not np.isfinite(column).all() or (name != "start_s" and (column < 0).any()):
                raise UsageError(f"{name} is negative or not a number", where=name, remedy="0 or more")
        phases = {len(self.compute_s), len(self.volume), len(self.operations)}
        first = self.first_phase
        if len(phases) > 1 or (np.diff(first) < 0).any() or first[0] != 0 or first[-1] != len(self.volume):
            raise UsageError(
                "the phases of jobs are not contiguous",
                where="first_phase",
                remedy="from 0 rising to the length of compute_s, volume and operations",
            )
        if (np.diff(self.start_s) < 0).any():
            raise UsageError("jobs are not sorted by start", where="start_s", remedy="sort them")
        for name, length in (("weight", j), ("phase_rate", len(self.volume)), ("most_forwarders", j)):
            column = getattr(self, name)
            if column is not None and (len(column) != length or not (column > 0).all()):
                raise UsageError(
                    f"{name} has another length, or is not above 0", where=name, remedy="one each, above 0"
                )
        if not (self.client_rate > 0).all():
            raise UsageError("the rate of a job must be above 0", where="client_rate", remedy="bytes a second, or inf")


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """What came of J jobs: `end_s` (J,), `io_s` (J,) seconds in I/O, `alone_s` (J,) what they would take alone with the
    best grant, `granted_s` (J,) alone with the grant they had; NaN for one that had not ended. `forwarders`, `targets`
    (J,): how many were granted (0 for one that had not come). By component: `forwarder_busy`, `target_busy`: what they
    did, as a share of what they could have done in the span sound. A grant that cuts a file in more stripes than
    `most_targets` may make a job faster than `alone_s`, which leaves its files as they are.
    `events` simulated."""

    end_s: F64
    io_s: F64
    alone_s: F64
    granted_s: F64
    forwarders: I64
    targets: I64
    forwarder_busy: F64
    target_busy: F64
    events: int


class Progress(Protocol):
    """Told now and then how far a replay is."""

    def __call__(self, done: int, of: int) -> None:
        """`done` jobs of `of` have arrived."""
        ...

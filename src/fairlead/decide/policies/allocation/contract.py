"""What allocation policies are asked and what they answer: applications and a pool of resources in, grants out.

Two questions, one family: `decide` for a set of applications that all begin (Bandet, Boito and Pallez 2024), `arrive`
for one more beside those that run, which are not moved. The simulator, `whatif` and `plan` ask the same objects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fairlead.core.errors import UsageError
from fairlead.core.model.site import Layer, build_site_layer

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
NONE = -1
"""Fills rows of `Decision.resources` behind an application's last resource."""


@dataclass(frozen=True, kw_only=True)
class Applications:
    """K applications that compute and do I/O in turn; what a policy may know of them.

    `counts` (C,): numbers of resources that can be granted, rising. `bandwidth` (K, C): bytes/s an application reaches
    alone on that many (b(n); NaN: it cannot use that many). `volume` (K,) bytes it moves in all, `compute_s` (K,)
    seconds it computes in all (V and T of the paper: only their ratio over all phases counts), `cores` (K,) it holds
    (Q), `nodes` (K,) and `processes` (K,) where they are known, else 0. `direct` (K,): bytes/s it reaches without any
    resource (n = 0), NaN where that is not known or not possible. `behaviour` (K,): its class of curve, -1 unknown.
    `held` (K, C): the part of each granted resource's time it takes while it does I/O alone; 1 in the study, less where
    its own clients limit it and not the resource.
    """

    counts: I64
    bandwidth: F64
    volume: F64
    compute_s: F64
    cores: F64
    nodes: I64
    processes: I64
    direct: F64
    behaviour: I64
    held: F64

    @staticmethod
    def from_columns(
        counts: object,
        bandwidth: object,
        volume: object,
        compute_s: object,
        cores: object,
        *,
        nodes: object = None,
        processes: object = None,
        direct: object = None,
        behaviour: object = None,
        held: object = None,
    ) -> Applications:
        """From anything like arrays; checked. Raises UsageError naming the field."""
        b = np.atleast_2d(np.asarray(bandwidth, np.float64))
        k = len(b)

        def column(value: object, kind: type, blank: float) -> NDArray[np.generic]:
            return np.full(k, blank, kind) if value is None else np.asarray(value, kind).reshape(-1)

        numbers = np.asarray(counts, np.float64)
        if not np.isfinite(numbers).all() or (numbers != np.floor(numbers)).any():
            raise _no_counts()
        made = Applications(
            counts=numbers.astype(np.int64),
            bandwidth=b,
            volume=np.asarray(volume, np.float64).reshape(-1),
            compute_s=np.asarray(compute_s, np.float64).reshape(-1),
            cores=np.asarray(cores, np.float64).reshape(-1),
            nodes=column(nodes, np.int64, 0),  # type: ignore[arg-type]
            processes=column(processes, np.int64, 0),  # type: ignore[arg-type]
            direct=column(direct, np.float64, np.nan),  # type: ignore[arg-type]
            behaviour=column(behaviour, np.int64, -1),  # type: ignore[arg-type]
            held=np.ones(b.shape) if held is None else np.atleast_2d(np.asarray(held, np.float64)),
        )
        made.check()
        return made

    def check(self) -> None:
        """Raises UsageError naming the field that no application can have."""
        k = len(self.volume)
        if self.counts.ndim != 1 or not len(self.counts) or (self.counts < 1).any() or (np.diff(self.counts) < 1).any():
            raise _no_counts()
        if self.bandwidth.shape != (k, len(self.counts)):
            raise UsageError(
                f"bandwidth is {self.bandwidth.shape}, not {(k, len(self.counts))}",
                where="bandwidth",
                remedy="one row per application, one column per count",
            )
        for name in ("volume", "compute_s", "cores"):
            column = getattr(self, name)
            if len(column) != k or not np.isfinite(column).all() or (column < 0).any():
                raise UsageError(
                    f"{name} is negative, not a number or has another length", where=name, remedy="0 or more"
                )
        for name in ("nodes", "processes", "behaviour", "direct"):
            if len(getattr(self, name)) != k:
                raise UsageError(f"{name} has another length than volume", where=name, remedy="one per application")
        if (self.direct <= 0).any() or np.isinf(self.direct).any():
            raise UsageError("direct must be above 0", where="direct", remedy="NaN where it is not known")
        if self.held.shape != self.bandwidth.shape or not ((self.held >= 0) & (self.held <= 1)).all():
            raise UsageError(
                "held must be between 0 and 1, one value per count", where="held", remedy="1 where it is not known"
            )
        if (self.bandwidth <= 0).any() or np.isinf(self.bandwidth).any():
            raise UsageError("bandwidth must be above 0", where="bandwidth", remedy="use NaN for what cannot be used")
        if k and np.isnan(self.bandwidth).all(axis=1).any():
            raise UsageError(
                "an application has no bandwidth at any count", where="bandwidth", remedy="name one at least"
            )

    def __len__(self) -> int:
        """K."""
        return len(self.volume)

    def select_rows(self, rows: object) -> Applications:
        """Some of them, by index or mask."""
        names = ("bandwidth", "volume", "compute_s", "cores", "nodes", "processes", "direct", "behaviour", "held")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    @cached_property
    def time_s(self) -> F64:
        """(K, C): seconds of I/O alone, t(n) = V / b(n); inf where that count cannot be used."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(np.isnan(self.bandwidth), np.inf, self.volume[:, None] / self.bandwidth))

    @cached_property
    def stress(self) -> F64:
        """(K, C): n t / (T + t) times `held`, how many resources it keeps busy in the mean; inf where a count cannot be
        used."""
        t = self.time_s
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(t > 0, t / (self.compute_s[:, None] + t) * self.held, 0.0)
        return np.asarray(self.counts * np.where(np.isinf(t), np.inf, share))

    @cached_property
    def cpu_load(self) -> F64:
        """(K, C): cores times the share of time they compute, Q T / (T + t); 0 where a count cannot be used."""
        t = self.time_s
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(t > 0, self.compute_s[:, None] / (self.compute_s[:, None] + t), 1.0)
        return np.asarray(self.cores[:, None] * np.where(np.isinf(t), 0.0, share))

    @cached_property
    def best(self) -> I64:
        """(K,): column of the smallest count that gives the highest bandwidth, n_perf."""
        return np.asarray(np.nanargmax(self.bandwidth, axis=1), np.int64)

    @cached_property
    def least(self) -> I64:
        """(K,): column of the smallest count of least stress, n_sys; never above n_perf."""
        return np.asarray(np.argmin(self.stress, axis=1), np.int64)


def _no_counts() -> UsageError:
    return UsageError("counts must be rising whole numbers from 1 on", where="counts", remedy="as [1, 2, 4, 8]")


def build_allocation_pool(count: int, cores: float) -> Layer:
    """Return `count` equal, sound resources of a machine of `cores` (Q_cpu). Raises UsageError where there can be no
    such machine."""
    if count < 0 or not 0 < cores < np.inf:
        raise UsageError(
            f"a machine cannot have {count} resources and {cores:g} cores",
            where="cores" if count >= 0 else "count",
            remedy="0 resources or more, cores above 0",
        )
    return replace(build_site_layer("resource", tuple(map(str, range(count))), 1.0), cores=float(cores))


@dataclass(frozen=True)
class Decision:
    """Grants of K applications. `choice` (K,): column of `Applications.counts`, -1: none, straight to the file system.
    `resources` (K, W): the resources of each, different ones, then NONE."""

    choice: I64
    resources: I64

    def count_granted(self, applications: Applications) -> I64:
        """(K,): how many each was granted."""
        return np.asarray(np.where(self.choice < 0, 0, applications.counts[self.choice]))


class Running:
    """What runs, kept up to date by whoever grants: sums that an arriving job is judged by in O(N), and who is where.

    `occupancy` (N,): expected share of time each resource is busy (sum of t/(T+t) x held of who uses it), `users` (N,)
    how many use it, `cores_used`, `cpu_load`, `stress`: sums. Rows of applications that left are free for others.
    """

    def __init__(self, resources: int, counts: I64, room: int = 64) -> None:
        self.counts = counts
        self.occupancy = np.zeros(resources)
        self.users = np.zeros(resources, np.int64)
        self.stress = self.cpu_load = self.cores_used = 0.0
        self.nodes_used = self.processes_used = self.nodeless = self.processless = 0
        width = int(counts.max())
        self.alive = np.zeros(room, np.bool_)
        self.choice = np.full(room, NONE, np.int64)
        self.resources = np.full((room, width), NONE, np.int64)
        self.time_s = np.zeros(room)
        self.best_s = np.zeros(room)
        self.compute_s = np.zeros(room)
        self.held = np.ones(room)
        self.cores = np.zeros(room)
        self.nodes = np.zeros(room, np.int64)
        self.processes = np.zeros(room, np.int64)
        self._free = list(range(room - 1, -1, -1))

    @staticmethod
    def from_sums(occupancy: F64, users: I64, counts: I64) -> Running:
        """What is known where nobody kept rows: (N,) `occupancy` and `users` alone. Each user of each resource stands
        as a row of its own with an equal part of the occupancy and a cycle of one second: who has several is not known,
        nor are `cpu_load` and `cores_used`, which stay 0."""
        busy = np.maximum(np.nan_to_num(np.asarray(occupancy, np.float64)), 0.0)
        each = np.maximum(np.asarray(users, np.int64), (busy > 0).astype(np.int64))
        at = np.repeat(np.arange(len(busy)), each)
        made = Running(len(busy), counts, room=max(len(at), 1))
        made.occupancy, made.users = busy, each.copy()
        made.stress = float(busy.sum())
        rows = slice(0, len(at))
        made.alive[rows], made.choice[rows], made.resources[rows, 0] = True, 0, at
        made.time_s[rows] = np.minimum(busy[at] / each[at], 1.0)
        made.best_s[rows] = made.time_s[rows]
        made.compute_s[rows] = 1.0 - made.time_s[rows]
        made._free = list(range(len(made.alive) - 1, len(at) - 1, -1))
        return made

    def __len__(self) -> int:
        """How many run."""
        return len(self.alive) - len(self._free)

    def enter(self, application: Applications, decision: Decision) -> int:
        """Takes in one application as it was granted; the row to `leave` by."""
        if not self._free:
            self._grow()
        row = self._free.pop()
        column = int(decision.choice[0])
        mine = decision.resources[0][decision.resources[0] >= 0]
        alone = float(application.time_s[0, column]) if column >= 0 else 0.0
        compute, cores = float(application.compute_s[0]), float(application.cores[0])
        self.alive[row], self.choice[row] = True, column
        self.resources[row] = NONE
        self.resources[row, : len(mine)] = mine
        self.time_s[row], self.compute_s[row], self.cores[row] = alone, compute, cores
        self.best_s[row] = float(np.min(application.time_s[0]))
        self.held[row] = float(application.held[0, column]) if column >= 0 else 0.0
        self.nodes[row], self.processes[row] = application.nodes[0], application.processes[0]
        self._count(row, 1)
        return row

    def leave(self, row: int) -> None:
        """An application has ended. Raises ValueError for a row nobody is in: sums would be wrong from then on."""
        if not self.alive[row]:
            raise ValueError(f"nothing runs in row {row}")
        self._count(row, -1)
        self.alive[row] = False
        self._free.append(row)

    def _count(self, row: int, sign: int) -> None:
        mine = self.resources[row][self.resources[row] >= 0]
        cycle = self.time_s[row] + self.compute_s[row]
        share = self.time_s[row] / cycle if cycle > 0 else 0.0
        self.occupancy[mine] += sign * share * self.held[row]
        self.users[mine] += sign
        empty = mine[self.users[mine] == 0]
        self.occupancy[empty] = 0.0  # no rounding is left behind
        self.stress += sign * share * len(mine) * self.held[row]
        self.cpu_load += sign * self.cores[row] * (1.0 - share)
        self.cores_used += sign * self.cores[row]
        self.nodes_used += sign * int(self.nodes[row])
        self.processes_used += sign * int(self.processes[row])
        self.nodeless += sign * int(self.nodes[row] <= 0)
        self.processless += sign * int(self.processes[row] <= 0)

    def _grow(self) -> None:
        old = len(self.alive)
        self._free.extend(range(2 * old - 1, old - 1, -1))
        names = ("alive", "choice", "resources", "time_s", "best_s", "compute_s", "held", "cores", "nodes", "processes")
        for name in names:
            column = getattr(self, name)
            blank = NONE if name in ("choice", "resources") else 0
            more = np.full(column.shape, blank, column.dtype)
            setattr(self, name, np.concatenate([column, more]))


class Policy(Protocol):
    """A policy of allocation and placement. Holds no state between calls but what its docstring names."""

    def decide(self, applications: Applications, pool: Layer, rng: np.random.Generator) -> Decision:
        """Grants for all of them, none running before. Resources of an application differ from one another and are
        available ones; where fewer are available than the smallest count, that many."""
        ...

    def arrive(self, application: Applications, running: Running, pool: Layer, rng: np.random.Generator) -> Decision:
        """The grant of one more (K = 1) beside those that run and stay where they are. `running` is not changed."""
        ...


class Allocation(Protocol):
    """How many: the half of a published pair that chooses counts."""

    def choose(self, applications: Applications, pool: Layer, rng: np.random.Generator) -> I64:
        """(K,) columns of `counts` (-1: none), for all of them together."""
        ...

    def choose_one(self, application: Applications, running: Running, pool: Layer, rng: np.random.Generator) -> int:
        """The column for one more beside those that run."""
        ...


class Placing(Protocol):
    """Which: the half of a published pair that chooses resources."""

    def place(self, applications: Applications, choice: I64, pool: Layer, rng: np.random.Generator) -> I64:
        """(K, W) resources as `Decision.resources`."""
        ...

    def place_one(
        self, application: Applications, choice: int, running: Running, pool: Layer, rng: np.random.Generator
    ) -> I64:
        """(W,) resources for one more beside those that run."""
        ...


@dataclass(frozen=True)
class Pair:
    """A published allocation with a published placement: a `Policy`."""

    allocation: Allocation
    placing: Placing

    def decide(self, applications: Applications, pool: Layer, rng: np.random.Generator) -> Decision:
        """See `Policy`."""
        choice = self.allocation.choose(applications, pool, rng)
        return Decision(choice, self.placing.place(applications, choice, pool, rng))

    def arrive(self, application: Applications, running: Running, pool: Layer, rng: np.random.Generator) -> Decision:
        """See `Policy`."""
        column = self.allocation.choose_one(application, running, pool, rng)
        resources = self.placing.place_one(application, column, running, pool, rng)
        return Decision(np.array([column], np.int64), resources[None, :])

"""Replays jobs on a machine with layers: each is granted its path when it arrives, then shares what it crosses.

Not here: contention (`sim.engine`), who gets what (`policies.paths`), what a replay means (`replay_measures`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairlead.core.errors import UsageError
from fairlead.core.model.site import Site
from fairlead.decide.policies.allocation.contract import Running
from fairlead.decide.policies.paths.contract import ExpectedJob, Grant, PathPolicy
from fairlead.decide.policies.paths.path_from_allocation import (
    FORWARDERS,
    TARGETS,
    build_allocation_entry,
    list_allocation_counts,
)
from fairlead.decide.sim.engine import Changes, Engine
from fairlead.decide.sim.faults import Fault
from fairlead.decide.sim.replay.disturbances import Sickness, build_disturbance_courses, find_disturbance_sickness
from fairlead.decide.sim.replay.jobs import Jobs, Progress, ReplayResult
from fairlead.decide.sim.replay.kernel_arguments import F64, I64, Ask, compute_operation_argument, find_layer_arguments
from fairlead.decide.sim.replay.perfect_prediction import build_perfect_prediction
from fairlead.decide.sim.replay.solo_time import compute_solo_time

_TOLD_EVERY = 1024


def replay_jobs(
    jobs: Jobs,
    site: Site,
    policy: PathPolicy,
    *,
    seed: int = 0,
    default_targets: int = 0,
    servers: bool = False,
    known_after_s: float = 0.0,
    keep_rows: bool | None = None,
    faults: Sequence[Fault] = (),
    noise: Changes | None = None,
    expected_of: Callable[[int], ExpectedJob] | None = None,
    progress: Progress | None = None,
    until_s: float = np.inf,
) -> ReplayResult:
    """Jobs arrive at `start_s`; `policy` is asked once for each, with what `expected_of` its place says of it (None:
    its true figures) and the machine of that moment; its phases then run over what it was granted. Raises UsageError.

    Data of a phase is cut where the part of a granted forwarder ends and where that of a target ends; each piece, a
    lane, crosses one of both and shares them max-min fairly (`sim.engine`): of the layer that costs it most, each lane
    the same time, whatever a byte costs there, or a job's lanes together its `weight`. An empty grant is the site's
    default: the forwarders of the job's own nodes, as much through each as nodes are behind it, and the next targets
    in turn (`default_targets`; 0: as many as the job can use). Operations cross the forwarders and the metadata server
    of the job (its place modulo servers). Exact, deterministic: the same arguments give the same bits; nodes not known,
    and what a policy draws, come from `seed`.

    `servers`: whether storage servers limit what their targets move. `known_after_s`: a fault is known to the policy so
    long after it began (inf: never). `keep_rows`: keep who runs as rows on the layers too (None: where the policy has
    `asks_running`, as allocation policies do). `site` itself is not changed.
    """
    jobs.check()
    if not until_s >= 0:
        raise UsageError(f"until_s is {until_s}", where="until_s", remedy="seconds from the origin, 0 or more, or inf")
    if keep_rows is None:
        keep_rows = bool(getattr(policy, "asks_running", False))
    _fits(jobs, site)
    running = _Running(jobs, _begin(site, keep_rows), seed, default_targets, servers)
    running.disturb(faults, noise, known_after_s)
    ask, rng = expected_of or build_perfect_prediction(jobs, site, running.first_node), np.random.default_rng([seed, 1])
    for j in range(len(jobs)):
        if jobs.start_s[j] > until_s:
            break
        running.until(float(jobs.start_s[j]))
        expected = ask(j)
        running.admit(j, expected, policy.grant(expected, running.site, rng))
        if progress is not None and j % _TOLD_EVERY == 0:
            progress(j, len(jobs))
    running.finish(until_s)
    if progress is not None:
        progress(len(jobs), len(jobs))
    return running.replayed(until_s)


def _fits(jobs: Jobs, machine: Site) -> None:
    for name, wrong in (
        ("nodes", (jobs.nodes < 1) | (jobs.nodes > machine.nodes)),
        ("first_node", (jobs.first_node >= 0) & (jobs.first_node + jobs.nodes > machine.nodes)),
        ("most_targets", jobs.most_targets < 1),
    ):
        if wrong.any():
            j = int(np.flatnonzero(wrong)[0])
            raise UsageError(
                f"job {j}: {name} is {int(getattr(jobs, name)[j])} on a machine of {machine.nodes} nodes",
                where=name,
                remedy="1 or more, and no more than the machine has",
            )


@dataclass(frozen=True)
class _Grant:
    """What a running job holds, and what the site was told of it."""

    forwarders: I64
    forwarder_share: F64
    targets: I64
    target_share: F64
    isolated: bool
    rows: tuple[tuple[Running, int], ...]


def _begin(site: Site, keep_rows: bool) -> Site:
    """A copy of the site with nobody on it, whose state the replay keeps up in place."""
    forwarders, default = len(site.forwarders), site.default_forwarder
    if forwarders and (int(default.min()) < 0 or int(default.max()) >= forwarders):
        raise UsageError(
            f"the map of nodes to forwarders does not fit {site.nodes} nodes and {forwarders} forwarders",
            where="default_forwarder",
            remedy="one forwarder per node, 0 to forwarders - 1",
        )
    layers = {name: getattr(site, name).copy() for name in (FORWARDERS, TARGETS, "servers")}
    if keep_rows:
        for name in (FORWARDERS, TARGETS):
            if len(layers[name]):
                layers[name] = replace(
                    layers[name], running=Running(len(layers[name]), list_allocation_counts(site, name))
                )
    return replace(site, **layers)


class _Running:
    """The jobs that run now, where their phases are in the engine, and what the site was told of them."""

    def __init__(self, jobs: Jobs, site: Site, seed: int, default_targets: int, servers: bool) -> None:
        from fairlead.decide.sim.replay import replay_kernel

        self.kernel = replay_kernel
        j = len(jobs)
        self.jobs, self.site, self.default_targets, self.servers = jobs, site, default_targets, servers
        self.server_cost = 1.0 / float(site.servers.bandwidth[0]) if servers else 0.0
        self.mds_cost = 1.0 / float(site.mds.mdops[0])
        if j and jobs.start_s[0] < 0:
            raise UsageError("a job starts before time 0", where="start_s", remedy="seconds from the first job's start")
        drawn = np.random.default_rng([seed, 0]).random(j)
        place = np.floor(drawn * (site.nodes - jobs.nodes + 1)).astype(np.int64)
        self.first_node: I64 = np.where(jobs.first_node >= 0, jobs.first_node, place)
        self.at, self.turn = find_layer_arguments(site), 0
        self.end_s, self.io_s, self.granted_s = np.full(j, np.nan), np.zeros(j), np.full(j, np.nan)
        self.forwarders, self.targets = np.zeros(j, np.int64), np.zeros(j, np.int64)
        self.busy_s, self.scratch = np.zeros(len(site.whole)), np.zeros(len(site.whole))
        self.live = np.zeros((3, 64), np.int64)
        self.gone, self.count = np.zeros(64, np.int64), 0
        self.granted: dict[int, _Grant] = {}
        self.found = np.zeros((2, max(len(site.forwarders), 1)), np.int64)
        unlimited = np.full(len(jobs.compute_s), np.inf)
        self.rate: F64 = unlimited if jobs.phase_rate is None else np.asarray(jobs.phase_rate, np.float64)
        self.operation_s = compute_operation_argument(site)

    def disturb(self, faults: Sequence[Fault], noise: Changes | None, known_after_s: float) -> None:
        """Set up the engine with what goes wrong, and when the policy comes to know of it."""
        self.engine = Engine(np.ones(len(self.site.whole)), build_disturbance_courses(self.site, faults, noise))
        self.sickness: Sickness = find_disturbance_sickness(self.site, faults, known_after_s)
        self.told = 0

    def until(self, now_s: float) -> None:
        """Lets the engine run to then; whoever has ended by then is gone from the site."""
        self.engine.advance(now_s)
        self._settle()
        s, site = self.engine.state, self.site
        self.kernel.measure_replay_use(s, self.at.forwarder, site.forwarders.load)
        self.kernel.measure_replay_use(s, self.at.target, site.targets.load)
        while self.told < len(self.sickness.time_s) and self.sickness.time_s[self.told] <= now_s:
            layer = {"forwarder": site.forwarders, "target": site.targets, "server": site.servers}.get(
                self.sickness.layer[self.told]
            )
            if layer is not None:
                layer.sick[self.sickness.number[self.told]] = self.sickness.sick[self.told]
            self.told += 1

    def _settle(self) -> None:
        job, first, last = self.live
        self.count, gone = self.kernel.settle_replay_phases(
            self.engine.state, job, first, last, self.count, self.end_s, self.io_s, self.gone
        )
        for j in self.gone[:gone].tolist():
            had, site = self.granted.pop(j), self.site
            forwarders, targets = site.forwarders, site.targets
            self.kernel.count_replay_job(forwarders.jobs, forwarders.occupancy, had.forwarders, had.forwarder_share, -1)
            self.kernel.count_replay_job(targets.jobs, targets.occupancy, had.targets, had.target_share, -1)
            if had.isolated:
                forwarders.reserved[had.forwarders] = False
            for running, row in had.rows:
                running.leave(row)

    def admit(self, j: int, expected: ExpectedJob, grant: Grant) -> None:
        """Job j comes with its grant."""
        jobs = self.jobs
        forwarders, parts = self._forwarders(j, grant)
        targets = self._targets(j, grant)
        phases = slice(jobs.first_phase[j], jobs.first_phase[j + 1])
        compute_s, volume, operations = jobs.compute_s[phases], jobs.volume[phases], jobs.operations[phases]
        of_data = int((volume > 0).sum())
        of_metadata = int(((volume <= 0) & (operations > 0)).sum())
        flows = of_data * self.kernel.count_replay_lanes(parts, len(targets)) + of_metadata * max(len(parts), 1)
        self._make_room(len(volume) + 1, flows)
        phase, flow = self.engine.open(len(volume) + 1, flows)
        ask = self._ask(j)
        data_rate, operation_rate, self.granted_s[j] = self.kernel.admit_replay_job(
            self.engine.state,
            self.at,
            ask,
            phase,
            flow,
            compute_s,
            volume,
            operations,
            self.rate[phases],
            forwarders,
            parts,
            targets,
            self.busy_s,
            self.scratch,
        )
        job, first, last = self.live
        job[self.count], first[self.count], last[self.count] = j, phase, phase + len(volume)
        self.count += 1
        self.forwarders[j], self.targets[j] = len(forwarders), len(targets)
        self._tell(j, expected, grant, ask, (data_rate, operation_rate), forwarders, parts, targets)

    def _tell(
        self,
        j: int,
        expected: ExpectedJob,
        grant: Grant,
        ask: Ask,
        rates: tuple[float, float],
        forwarders: I64,
        parts: I64,
        targets: I64,
    ) -> None:
        """Tells the site what is expected of the job: nothing, where nothing is known of it."""
        byte_rate = operation_rate = 0.0
        if expected.compute_s is not None:
            volume = expected.volume_bytes or 0.0
            operations = _operations(self.jobs, j) if expected.mdops else 0.0
            cycle = expected.compute_s + volume / rates[0] + operations / rates[1]
            if cycle > 0:
                byte_rate, operation_rate = volume / cycle, operations / cycle
        held = byte_rate * ask.forwarder_cost + operation_rate * ask.forwarder_operation
        has = _Grant(
            forwarders,
            parts.astype(np.float64) * (held / max(int(parts.sum()), 1)),
            targets,
            np.full(len(targets), byte_rate * ask.target_cost / len(targets), np.float64),
            bool(grant.isolated and grant.forwarders),
            self._enter(expected, forwarders, targets),
        )
        site = self.site
        self.kernel.count_replay_job(
            site.forwarders.jobs, site.forwarders.occupancy, forwarders, has.forwarder_share, 1
        )
        self.kernel.count_replay_job(site.targets.jobs, site.targets.occupancy, targets, has.target_share, 1)
        if has.isolated:
            site.forwarders.reserved[forwarders] = True
        self.granted[j] = has

    def _enter(self, expected: ExpectedJob, forwarders: I64, targets: I64) -> tuple[tuple[Running, int], ...]:
        """Enters the job among those that run, on layers where rows are kept."""
        site, rows = self.site, []
        for layer, running, places in (
            (FORWARDERS, site.forwarders.running, forwarders),
            (TARGETS, site.targets.running, targets),
        ):
            if not isinstance(running, Running):
                continue
            found = build_allocation_entry(expected, site, layer, tuple(places.tolist()))
            if found is not None:
                rows.append((running, running.enter(*found)))
        return tuple(rows)

    def _ask(self, j: int) -> Ask:
        jobs, site = self.jobs, self.site
        return Ask(
            float(jobs.start_s[j]),
            float(jobs.tail_s[j]),
            float(jobs.client_rate[j]),
            float(jobs.nodes[j] * site.cores_per_node / site.metadata_rtt_s),
            float(jobs.forwarder_cost[j]),
            float(jobs.target_cost[j]),
            self.server_cost,
            self.operation_s,
            self.mds_cost,
            0.0 if jobs.weight is None else float(jobs.weight[j]),
            self.at.mds + j % len(site.mds),
        )

    def _forwarders(self, j: int, grant: Grant) -> tuple[I64, I64]:
        """Places of the forwarders, and what goes through each in parts of the sum."""
        jobs = self.jobs
        if not len(self.site.forwarders):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        most = int(jobs.nodes[j])
        if jobs.most_forwarders is not None:
            most = max(min(most, int(jobs.most_forwarders[j])), 1)
        places, counts = self.found
        n = self.kernel.find_replay_forwarders(
            self.site.default_forwarder, int(self.first_node[j]), int(jobs.nodes[j]), places, counts
        )
        own = places[:n].tolist()
        if grant.forwarders and sorted(grant.forwarders) != sorted(own):
            chosen = _places(grant.forwarders, len(self.site.forwarders), "forwarder")[:most]
            return chosen, np.ones(len(chosen), np.int64)
        return places[: min(n, most)].copy(), counts[: min(n, most)].copy()

    def _targets(self, j: int, grant: Grant) -> I64:
        most = min(max(int(self.jobs.most_targets[j]), grant.stripe_count or 0), len(self.site.targets))
        if grant.targets:
            return _places(grant.targets, len(self.site.targets), "target")[:most]
        if self.default_targets:
            most = min(most, max(self.default_targets, grant.stripe_count or 0))
        chosen = (self.turn + np.arange(most)) % len(self.site.targets)
        self.turn = int(self.turn + most) % len(self.site.targets)
        return chosen

    def _make_room(self, phases: int, flows: int) -> None:
        if self.count == self.live.shape[1]:
            self.live = np.pad(self.live, ((0, 0), (0, self.count)))
            self.gone = np.zeros(2 * self.count, np.int64)
        rooms = self.engine.room
        if rooms[0] >= phases and rooms[1] >= flows:
            return
        phase_at = self.engine.forget_ended()
        self.live[1:, : self.count] = phase_at[self.live[1:, : self.count]]
        of_phases, of_flows = self.engine.size
        free_phases, free_flows = self.engine.room
        if free_phases < of_phases + phases or free_flows < of_flows + flows:
            self.engine.grow(2 * (of_phases + phases), 2 * (of_flows + flows))

    def finish(self, until_s: float) -> None:
        """Nobody comes any more: to the end, or to `until_s`."""
        if np.isinf(until_s):
            self.engine.run()
        else:
            self.engine.advance(until_s)
        self._settle()

    def replayed(self, until_s: float) -> ReplayResult:
        """What came of it."""
        jobs, at, site = self.jobs, self.at, self.site
        self.kernel.subtract_unfinished_replay(self.engine.state, self.engine.size[1], self.busy_s)
        ended = ~np.isnan(self.end_s)
        last = until_s if not np.isinf(until_s) else float(self.end_s[ended].max(initial=0.0))
        span = last - float(jobs.start_s[0]) if len(jobs) else 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.clip(self.busy_s / span, 0.0, 1.0) if span > 0 else np.zeros_like(self.busy_s)
        nan: Any = np.nan
        return ReplayResult(
            end_s=self.end_s,
            io_s=np.where(ended, self.io_s, nan),
            granted_s=np.where(ended, self.granted_s, nan),
            alone_s=np.where(ended, compute_solo_time(jobs, site, servers=self.servers), nan),
            forwarders=self.forwarders,
            targets=self.targets,
            forwarder_busy=share[at.forwarder : at.forwarder + len(site.forwarders)],
            target_busy=share[at.target : at.target + len(site.targets)],
            events=self.engine.events,
        )


def _operations(jobs: Jobs, j: int) -> float:
    phases = slice(jobs.first_phase[j], jobs.first_phase[j + 1])
    return float(jobs.operations[phases][jobs.volume[phases] <= 0].sum())


def _places(granted: Sequence[int], count: int, kind: str) -> I64:
    places = np.array(granted, np.int64)
    if int(places.min()) < 0 or int(places.max()) >= count or len(set(granted)) != len(granted):
        raise UsageError(
            f"a policy granted a {kind} twice, or one beyond the {count} there are: {granted}",
            remedy="this is a bug: please report it",
        )
    return places

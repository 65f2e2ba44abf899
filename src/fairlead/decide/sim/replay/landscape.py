"""The machine as a path policy sees it while a replay runs: its arrays are kept up in place, not made anew.

Not here: what happens to jobs (`replay`). A policy must not keep these arrays from one question to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fairlead.core.errors import UsageError
from fairlead.decide.policies.allocation.contract import Running
from fairlead.decide.policies.paths.contract import Components, Landscape
from fairlead.decide.policies.paths.from_allocation import FORWARDERS, TARGETS, counts_of
from fairlead.decide.sim.engine import Changes
from fairlead.decide.sim.faults import Fault, changes
from fairlead.decide.sim.platform import Machine
from fairlead.decide.sim.replay.kernel_arguments import F64, I64


@dataclass(frozen=True, kw_only=True)
class Site:
    """How a site runs its machine. `default_forwarder` (nodes,): its own map (None: the machine's static one).
    `forwarder_counts`, `stripe_counts`: what may be granted (None: powers of two up to all). `default_targets`: targets
    a job without a grant is spread over, round-robin (0: as many as it can use). `servers`: whether storage servers
    limit what their targets move. `known_after_s`: a fault is known to the policy so long after it began (inf: never).
    `running`: keep who runs as rows too (None: where the policy has `asks_running`, as allocation policies do).
    """

    default_forwarder: I64 | None = None
    forwarder_counts: tuple[int, ...] | None = None
    stripe_counts: tuple[int, ...] | None = None
    default_stripes: int = 1
    default_targets: int = 0
    pools: dict[str, tuple[int, ...]] = field(default_factory=dict)
    servers: bool = False
    known_after_s: float = 0.0
    running: bool | None = None


def landscape_of(machine: Machine, site: Site) -> Landscape:
    """The machine with nobody on it. Raises UsageError for a map that does not fit."""
    forwarders = Components.idle(
        "forwarder",
        tuple(map(machine.forwarder_name, range(machine.forwarders))),
        machine.forwarder_bandwidth,
        mdops=machine.workers * 2 / machine.metadata_rtt_s,
    )
    targets = Components.idle(
        "target",
        tuple(map(machine.target_name, range(machine.targets))),
        machine.target_bandwidth,
        iops=machine.target_iops,
    )
    servers = Components.idle(
        "server", tuple(map(machine.server_name, range(machine.servers))), machine.server_bandwidth
    )
    default = site.default_forwarder
    default = machine.static_map().astype(np.int64) if default is None else np.asarray(default, np.int64)
    if len(default) != machine.nodes or (
        machine.forwarders and (int(default.min()) < 0 or int(default.max()) >= machine.forwarders)
    ):
        raise UsageError(
            f"the map of nodes to forwarders does not fit {machine.nodes} nodes and {machine.forwarders} forwarders",
            where="default_forwarder",
            remedy="one forwarder a node, 0 to forwarders - 1",
        )
    scape = Landscape(
        forwarders=forwarders,
        targets=targets,
        servers=servers,
        server_of=np.arange(machine.targets) // machine.targets_per_server,
        default_forwarder=default,
        forwarder_counts=site.forwarder_counts or _powers(machine.forwarders),
        stripe_counts=site.stripe_counts or _powers(machine.targets),
        default_stripes=site.default_stripes,
        pools=site.pools,
        client="node",
        client_bandwidth=machine.node_bandwidth,
        cores=float(machine.nodes * machine.cores_per_node),
    )
    if not site.running:
        return scape
    return replace(
        scape,
        targets_running=Running(machine.targets, counts_of(scape, TARGETS)),
        forwarders_running=Running(machine.forwarders, counts_of(scape, FORWARDERS)) if machine.forwarders else None,
    )


def _powers(most: int) -> tuple[int, ...]:
    return tuple(1 << k for k in range(max(most, 1).bit_length()) if 1 << k <= max(most, 1))


@dataclass(frozen=True)
class Sickness:
    """When the policy comes to know what: at `time_s[i]` the component `number[i]` of `layer[i]` is `sick[i]`."""

    time_s: F64
    layer: tuple[str, ...]
    number: I64
    sick: tuple[bool, ...]


def sickness(machine: Machine, faults: Sequence[Fault], known_after_s: float) -> Sickness:
    """Faults as what is known of them. A sick server's targets are sick. One over before it is known never is."""
    held: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for fault in faults:
        from_s = fault.from_s + known_after_s
        if not from_s < fault.to_s:
            continue
        held.setdefault((fault.component, fault.number), []).append((from_s, fault.to_s))
        if fault.component == "server":
            first = fault.number * machine.targets_per_server
            for target in range(first, first + machine.targets_per_server):
                held.setdefault(("target", target), []).append((from_s, fault.to_s))
    points: list[tuple[float, str, int, bool]] = []
    for (layer, number), spans in held.items():
        until = -np.inf
        for from_s, to_s in sorted(spans):
            if from_s > until:
                points.append((from_s, layer, number, True))
            else:  # one goes over into the other
                points.remove((until, layer, number, False))
            until = max(until, to_s)
            points.append((until, layer, number, False))
    points.sort()
    return Sickness(
        np.array([p[0] for p in points], np.float64),
        tuple(p[1] for p in points),
        np.array([p[2] for p in points], np.int64),
        tuple(p[3] for p in points),
    )


def courses(machine: Machine, faults: Sequence[Fault], noise: Changes | None) -> Changes:
    """Faults and background noise as one course of capacities; where both hold a resource back their factors multiply.
    `noise` speaks of `Machine.at`'s resources, 1 being whole. Raises UsageError."""
    whole = np.ones(len(machine.capacity()))
    known = changes(machine, faults, whole)
    parts = [known] if noise is None else [known, noise]
    beyond = noise is not None and ((noise.resource < 0) | (noise.resource >= len(whole))).any()
    if beyond:
        raise UsageError("background noise of a resource there is not", where="noise", remedy="see Machine.at")
    time_s = np.concatenate([part.time_s for part in parts])
    resource = np.concatenate([part.resource for part in parts])
    factor = np.concatenate([part.capacity for part in parts])
    source = np.repeat(np.arange(len(parts)), [len(part.time_s) for part in parts])
    order = np.argsort(time_s, kind="stable")
    out = factor[order].copy()
    both = np.intersect1d(known.resource, noise.resource) if noise is not None else np.zeros(0, np.int32)
    now = {int(r): [1.0, 1.0] for r in both}
    for place, i in enumerate(order):
        factors = now.get(int(resource[i]))
        if factors is not None:
            factors[int(source[i])] = float(factor[i])
            out[place] = factors[0] * factors[1]
    return Changes(time_s[order], resource[order].astype(np.int32), out)

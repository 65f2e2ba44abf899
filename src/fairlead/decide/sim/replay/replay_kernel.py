"""The replay's inner loops, compiled: a job's phases laid out as flows of the engine, and what has ended taken up.

Not here: contention (`sim.engine_kernel`), who gets what (`replay`). Imported when a replay runs: it loads numba.
"""

from __future__ import annotations

import numpy as np

from fairlead.core.jit import compile_jit_function
from fairlead.decide.sim.engine_kernel import wake_engine_phase
from fairlead.decide.sim.replay.kernel_arguments import F64, I64, Ask, Layers
from fairlead.decide.sim.state import WIDTH, State


@compile_jit_function
def find_replay_forwarders(default: I64, first: int, nodes: int, forwarders: I64, counts: I64) -> int:
    """The forwarders the map gives nodes `first` to `first + nodes`, and how many nodes are behind each. How many."""
    found = 0
    for node in range(first, first + nodes):
        forwarder = default[node]
        if found and forwarders[found - 1] == forwarder:
            counts[found - 1] += 1
            continue
        here = found
        for i in range(found):
            if forwarders[i] == forwarder:
                here = i
        if here == found:
            forwarders[found] = forwarder
            counts[found] = 0
            found += 1
        counts[here] += 1
    return found


@compile_jit_function
def count_replay_lanes(parts: I64, targets: int) -> int:
    """Lanes of data: pieces of [0, 1) cut where a forwarder's part ends and where a target's ends."""
    if len(parts) == 0:
        return targets
    total = parts.sum()
    cuts, at = 0, 0
    for i in range(len(parts) - 1):
        at += parts[i]
        if at * targets % total != 0:
            cuts += 1
    return targets + cuts


@compile_jit_function
def admit_replay_job(
    s: State,
    at: Layers,
    ask: Ask,
    phase: int,
    flow: int,
    compute_s: F64,
    volume: F64,
    operations: F64,
    rate: F64,
    forwarders: I64,
    parts: I64,
    targets: I64,
    busy_s: F64,
    load: F64,
) -> tuple[float, float, float]:
    """Lays a job's phases out from phase number `phase` and flow number `flow` on, and has the first begin after its
    computing. `parts` (forwarders,): what goes through each, in whole parts of their sum. `busy_s` (R,) grows by what
    the job will hold of each resource; `load` (R,) is scratch, zeros. The rate of its data and of its operations
    alone on this grant, and the seconds of I/O that makes."""
    nf, nt = len(forwarders), len(targets)
    total = parts.sum() if nf else 1
    whole = total * nt
    lane_forwarder = np.empty(nf + nt, np.int64)
    lane_target = np.empty(nf + nt, np.int64)
    width = np.empty(nf + nt)
    n, f, done, past = 0, 0, 0, (parts[0] if nf else 1) * nt
    for t in range(nt):
        while done < (t + 1) * total:
            until = min((t + 1) * total, past)
            lane_forwarder[n] = forwarders[f] if nf else -1
            lane_target[n] = targets[t]
            width[n] = (until - done) / whole
            n += 1
            done = until
            if done == past and f + 1 < nf:
                f += 1
                past += parts[f] * nt
    for k in range(n):
        if nf and ask.forwarder_cost > 0:
            load[at.forwarder + lane_forwarder[k]] += width[k] * ask.forwarder_cost
        if ask.server_cost > 0:
            load[at.server + lane_target[k] // at.targets_per_server] += width[k] * ask.server_cost
        if ask.target_cost > 0:
            load[at.target + lane_target[k]] += width[k] * ask.target_cost
    moved, done_operations = volume.sum(), 0.0
    for p in range(len(volume)):
        if volume[p] <= 0.0:
            done_operations += operations[p]
    data_rate = ask.client_rate
    for k in range(n):
        for r in (
            at.forwarder + lane_forwarder[k] if nf else -1,
            at.server + lane_target[k] // at.targets_per_server,
            at.target + lane_target[k],
        ):
            if r >= 0 and load[r] > 0.0:
                data_rate = min(data_rate, 1.0 / load[r])
    for k in range(n):
        for r in (
            at.forwarder + lane_forwarder[k] if nf else -1,
            at.server + lane_target[k] // at.targets_per_server,
            at.target + lane_target[k],
        ):
            if r >= 0:
                busy_s[r] += moved * load[r]
                load[r] = 0.0
    operation_rate = min(ask.operation_rate, 1.0 / ask.mds_cost)
    busy_s[ask.mds] += done_operations * ask.mds_cost
    for i in range(nf):
        part = parts[i] / total
        operation_rate = min(operation_rate, 1.0 / (part * ask.forwarder_operation))
        busy_s[at.forwarder + forwarders[i]] += done_operations * part * ask.forwarder_operation
    seconds = 0.0
    # A flow's weight is of its resource's time, not of bytes: divided by what a byte costs where it costs most.
    dearest = max(ask.forwarder_cost if nf else 0.0, max(ask.server_cost, ask.target_cost))
    of_data = (ask.weight if ask.weight > 0.0 else float(max(nf, nt))) / (dearest if dearest > 0.0 else 1.0)
    dearest = max(ask.forwarder_operation if nf else 0.0, ask.mds_cost)
    of_operations = (ask.weight if ask.weight > 0.0 else float(max(nf, 1))) / dearest
    for p in range(len(volume) + 1):
        here = phase + p
        s.first_flow[here] = flow
        s.delay[here] = compute_s[p] if p < len(volume) else ask.tail_s
        if p == 0:
            wake_engine_phase(s, here, ask.now_s + s.delay[here])
        else:
            s.first_after[here - 1] = here
        if p < len(volume) and volume[p] > 0.0:
            own = min(ask.client_rate, rate[p])
            seconds += volume[p] / min(data_rate, own)
            for k in range(n):
                crossed = 0
                if nf and ask.forwarder_cost > 0:
                    s.crosses[flow, crossed] = at.forwarder + lane_forwarder[k]
                    s.cost[flow, crossed] = ask.forwarder_cost
                    crossed += 1
                if ask.server_cost > 0:
                    s.crosses[flow, crossed] = at.server + lane_target[k] // at.targets_per_server
                    s.cost[flow, crossed] = ask.server_cost
                    crossed += 1
                if ask.target_cost > 0:
                    s.crosses[flow, crossed] = at.target + lane_target[k]
                    s.cost[flow, crossed] = ask.target_cost
                    crossed += 1
                s.left[flow] = volume[p] * width[k]
                s.cap[flow] = own * width[k] if own < np.inf or crossed else 1e300
                s.weight[flow] = width[k] * of_data
                s.phase[flow] = here
                flow += 1
        elif p < len(volume) and operations[p] > 0.0:
            own = min(ask.operation_rate, rate[p])
            seconds += operations[p] / min(operation_rate, own)
            for i in range(max(nf, 1)):
                part = parts[i] / total if nf else 1.0
                s.crosses[flow, 0], s.cost[flow, 0] = ask.mds, ask.mds_cost
                if nf:
                    s.crosses[flow, 1], s.cost[flow, 1] = at.forwarder + forwarders[i], ask.forwarder_operation
                s.left[flow] = operations[p] * part
                s.cap[flow] = own * part
                s.weight[flow] = part * of_operations
                s.phase[flow] = here
                flow += 1
        s.past_flow[here] = flow
        s.open_flows[here] = flow - s.first_flow[here]
    return data_rate, operation_rate, seconds


@compile_jit_function
def count_replay_job(jobs: I64, occupancy: F64, places: I64, share: F64, sign: int) -> None:
    """Tells a layer of a job that comes (1) or goes (-1): `share` (places,) of the time it keeps each busy."""
    for i in range(len(places)):
        jobs[places[i]] += sign
        occupancy[places[i]] += sign * share[i]
        if jobs[places[i]] == 0:
            occupancy[places[i]] = 0.0  # no rounding gathers


@compile_jit_function
def settle_replay_phases(
    s: State, job: I64, first: I64, last: I64, count: int, end_s: F64, io_s: F64, gone: I64
) -> tuple[int, int]:
    """Takes up the phases that have ended: of the `count` running jobs `first` moves on past them, their seconds of
    I/O go to `io_s`. Jobs without more are taken out, their ends to `end_s`, their places to `gone`. Left, and gone."""
    stay, out = 0, 0
    for i in range(count):
        p = first[i]
        while p <= last[i] and not np.isnan(s.phase_ended[p]):
            if p < last[i]:
                io_s[job[i]] += s.phase_ended[p] - s.phase_begun[p]
            p += 1
        if p > last[i]:
            end_s[job[i]] = s.phase_ended[last[i]]
            gone[out] = job[i]
            out += 1
            continue
        job[stay], first[stay], last[stay] = job[i], p, last[i]
        stay += 1
    return stay, out


@compile_jit_function
def measure_replay_use(s: State, first: int, load: F64) -> None:
    """Share of each resource of a layer that is used now."""
    for i in range(len(load)):
        whole = s.capacity[first + i]
        load[i] = min(s.used[first + i] / whole, 1.0) if whole > 0.0 else 1.0


@compile_jit_function
def subtract_unfinished_replay(s: State, flows: int, busy_s: F64) -> None:
    """Takes from `busy_s` what flows that have not ended have left to do."""
    for flow in range(flows):
        if not np.isnan(s.ended[flow]):
            continue
        left = s.left[flow]
        if s.due_at[flow] >= 0:
            left = max(left - max(s.rate[flow], 0.0) * (s.now[0] - s.since[flow]), 0.0)
        for k in range(WIDTH):
            r = s.crosses[flow, k]
            if r < 0:
                break
            busy_s[r] -= left * s.cost[flow, k]

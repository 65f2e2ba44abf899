"""What is expected of a job that arrives when its true figures are known beforehand: perfect prediction.

Not here: expectations from earlier runs (`policies.next_run`, `sim.workloads`), which come in as a function too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairlead.core.model.site import Site
from fairlead.decide.policies.paths.contract import ExpectedJob
from fairlead.decide.sim.replay.jobs import Jobs
from fairlead.decide.sim.replay.kernel_arguments import I64
from fairlead.decide.sim.replay.solo_time import compute_solo_rates, sum_solo_time

_COUNTS = (1, 2, 4, 8, 16, 32, 64)


def build_perfect_prediction(jobs: Jobs, machine: Site, first_node: I64 | None = None) -> Callable[[int], ExpectedJob]:
    """Asks for a job by its place, answers from its own columns. `job_id` is the place, as text.

    What columns do not hold follows from what they do: mode N-N where files go to several targets, N-1 where one
    target takes what more than one process writes, else 1-1; every core group of its nodes does I/O, of 1-1 one.
    """
    first_node = jobs.first_node if first_node is None else first_node
    volume, compute_s = sum_solo_time(jobs, jobs.volume), sum_solo_time(jobs, jobs.compute_s) + jobs.tail_s
    operations = sum_solo_time(jobs, np.where(jobs.volume > 0, 0.0, jobs.operations))
    data_rate, operation_rate = compute_solo_rates(jobs, machine)
    one = (jobs.most_targets == 1) & (jobs.client_rate <= machine.process_bandwidth)
    processes = jobs.nodes * machine.cores_per_node

    def expected(j: int) -> ExpectedJob:
        n, forwarder_cost, target_cost = int(jobs.nodes[j]), float(jobs.forwarder_cost[j]), float(jobs.target_cost[j])
        rate, first, most = float(jobs.client_rate[j]), int(first_node[j]), int(jobs.most_targets[j])
        return ExpectedJob(
            job_id=str(j),
            node_count=n,
            node_ids=tuple(range(first, first + n)) if first >= 0 else (),
            cores=float(jobs.cores[j]),
            processes=int(processes[j]),
            io_processes=1 if one[j] else int(processes[j]),
            mode="1-1" if one[j] else "N-N" if most > 1 else "N-1",
            read_bytes=0.0,
            write_bytes=float(volume[j]),
            compute_s=float(compute_s[j]),
            mdops=float(operation_rate[j]) if operations[j] else 0.0,
            bandwidth_bytes_per_s=float(data_rate[j]),
            forwarder_curve=tuple((k, _rate(rate, k, forwarder_cost)) for k in _COUNTS if k <= n)
            if len(machine.forwarders)
            else (),
            target_curve=tuple((k, _rate(rate, k, target_cost)) for k in _COUNTS if k <= most),
            runs_known=1,
            basis="its own figures",
        )

    return expected


def _rate(own: float, count: int, cost: float) -> float:
    return own if cost <= 0 else min(own, count / cost)

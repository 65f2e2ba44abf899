"""What jobs would take alone: seconds of I/O with the best grant there is. Not here: with others (`replay`)."""

from __future__ import annotations

import numpy as np

from fairlead.core.model.site import Site
from fairlead.decide.sim.replay.jobs import Jobs
from fairlead.decide.sim.replay.kernel_arguments import F64, compute_operation_argument


def compute_solo_rates(jobs: Jobs, machine: Site, *, servers: bool = False) -> tuple[F64, F64]:
    """Bytes/s and operations/s of each job (J,) alone: over every forwarder its nodes can use and every target its
    files can be on; of a layer the job does not hold (cost 0) there is enough."""
    nodes = jobs.nodes.astype(np.float64)
    targets = np.minimum(jobs.most_targets, len(machine.targets)).astype(np.float64)
    with np.errstate(divide="ignore"):
        data = np.minimum(jobs.client_rate, targets / jobs.target_cost)
        if servers:
            data = np.minimum(data, np.minimum(targets, len(machine.servers)) * float(machine.servers.bandwidth[0]))
        operations = np.minimum(nodes * machine.cores_per_node / machine.metadata_rtt_s, float(machine.mds.mdops[0]))
        if len(machine.forwarders):
            most = nodes if jobs.most_forwarders is None else np.minimum(nodes, np.maximum(jobs.most_forwarders, 1))
            forwarders = np.minimum(most, len(machine.forwarders))
            data = np.minimum(data, forwarders / jobs.forwarder_cost)
            operations = np.minimum(operations, forwarders / compute_operation_argument(machine))
    return data, operations


def compute_solo_time(jobs: Jobs, machine: Site, *, servers: bool = False) -> F64:
    """Seconds of I/O of each job (J,) alone with the best grant: the measure of slowdown."""
    data, operations = compute_solo_rates(jobs, machine, servers=servers)
    count = np.diff(jobs.first_phase)
    of_data = jobs.volume > 0
    rate = np.where(of_data, np.repeat(data, count), np.repeat(operations, count))
    if jobs.phase_rate is not None:
        rate = np.minimum(rate, jobs.phase_rate)
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds = np.where(of_data, jobs.volume, jobs.operations) / rate
    return sum_solo_time(jobs, seconds)


def sum_solo_time(jobs: Jobs, of_phase: F64) -> F64:
    """Sum of a column of phases (P,) for each job (J,)."""
    job = np.repeat(np.arange(len(jobs)), np.diff(jobs.first_phase))
    return np.asarray(np.bincount(job, of_phase, len(jobs)), np.float64)

"""Rules by which jobs without known I/O are given some: volumes, modes, phases, costs, by published figures (`sunway`).

Everything here is drawn, not measured. Not here: which jobs there are (`taihulight` draws them, `swf` reads them).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.core.model.site import Site
from fairlead.decide.sim.replay.jobs import Jobs
from fairlead.decide.sim.workloads import sunway
from fairlead.decide.sim.workloads.profiles import BEHAVIOURS

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
LONGEST_IO_S = 6 * 3600.0
"""A job moves no more than what it moves alone in so long over one forwarder and one target (ours)."""
PATTERNS = {
    "N-N": ("checkpoint", "restart", "training", "logs"),
    "N-M": ("aggregated",),
    "N-1": ("strided", "shared"),
    "1-1": ("serial",),
}
"""What programs of each mode do, as `fairlead.kit.testing.machine` has them: equally many programs of each."""
STORM, TRIVIAL = len(sunway.MODES), len(sunway.MODES) + 1
"""Behind the modes: metadata storms, and jobs that move next to nothing."""
PATTERN_COUNTS = np.array([*(len(PATTERNS[mode]) for mode in sunway.MODES), 1, 1])
STORM_EACH = (200, 800)
"""Metadata operations each process makes in a step of a storm, three kinds of them (ours)."""
SHARED_FILE_STRIPES = 4
"""Targets under a file that all processes write (ours)."""
MOST_WRITERS = 32
"""Writers of N-M jobs (Beacon, TOS 2023: AWP gains up to 32)."""
RANDOM_BYTES = 64 << 10
"""The largest request that training programs read at random (ours)."""
LITTLE_GB = (0.4, 0.05)
"""What storms and jobs of trivial I/O read and write in the mean, each (ours)."""
RUN_SIGMA = 0.5
"""Deviation of the logarithm of volumes from run to run of a program (ours)."""
PROGRAM_SIGMA = float(np.sqrt(sunway.VOLUME_SIGMA**2 - RUN_SIGMA**2))


@dataclass(frozen=True, kw_only=True)
class Season:
    """Jobs and what is known of each (J,): `mode` place in `sunway.MODES` (or STORM, TRIVIAL), `program` number of its
    program (runs of one are alike: same user, size, pattern), `processes`, `io_processes`, `request` bytes, `read` and
    `written` bytes, `core_hours` at 260 cores a node. `machine`: what its costs were made for."""

    jobs: Jobs
    machine: Site
    span_s: float
    mode: I64
    program: I64
    processes: I64
    io_processes: I64
    request: I64
    read: F64
    written: F64
    core_hours: F64

    def format_mode(self, job: int) -> str:
        """N-N, N-M, N-1 or 1-1; a storm's files are each process's own (N-N)."""
        return (*sunway.MODES, "N-N", "1-1")[int(self.mode[job])]


@dataclass(frozen=True, kw_only=True)
class Programs:
    """What runs (P,): `mode`, `pattern` place in PATTERNS of that mode, `nodes`, `request` bytes, `steps` of writing or
    reading, `run_s` usual run time, `scale` of its volumes, `chance` by which jobs are runs of it."""

    mode: I64
    pattern: I64
    nodes: I64
    request: I64
    steps: I64
    run_s: F64
    scale: F64
    chance: F64


def add_io(
    seed: np.random.SeedSequence,
    site: Programs,
    program: I64,
    start_s: F64,
    run_s: F64,
    first_node: I64,
    machine: Site,
    *,
    span_s: float,
    volume_scale: float = 1.0,
) -> Season:
    """Jobs (J,), runs of `program`, with I/O: begun at `start_s` (rising), `run_s` long where nobody interferes."""
    streams = [np.random.default_rng(s) for s in seed.spawn(2)]
    mode, nodes = site.mode[program], site.nodes[program]
    read, written = _volumes(streams[0], site, program, volume_scale)
    processes = nodes * machine.cores_per_node
    writers = np.select([(mode == 3) | (mode == TRIVIAL), mode == 1], [1, np.minimum(nodes, MOST_WRITERS)], processes)
    io_nodes = np.minimum(writers, nodes)
    rate = np.minimum(io_nodes * machine.client_bandwidth, writers * machine.process_bandwidth)
    rate = np.where(mode == 2, np.minimum(rate, machine.shared_file_bandwidth), rate)
    forwarder_cost, target_cost = _costs(machine, site, program, processes)
    io_s = (read + written) / np.minimum(rate, 1.0 / np.maximum(forwarder_cost, target_cost))
    most = np.minimum(LONGEST_IO_S / io_s, 1.0)
    read, written, io_s = read * most, written * most, io_s * most
    first, compute, volume, operations, tail = _phases(streams[1], site, program, read, written, processes, run_s, io_s)
    flat = rate * np.maximum(forwarder_cost, target_cost) <= 1.0
    return Season(
        jobs=Jobs(
            start_s=start_s,
            first_phase=first,
            compute_s=compute,
            volume=volume,
            operations=operations,
            tail_s=tail,
            nodes=nodes,
            cores=(nodes * sunway.CORES_PER_NODE).astype(np.float64),
            first_node=first_node,
            client_rate=rate,
            forwarder_cost=forwarder_cost,
            target_cost=target_cost,
            most_targets=np.select([(mode == 3) | (mode == TRIVIAL), mode == 2], [1, SHARED_FILE_STRIPES], writers),
            behaviour=np.where(flat, BEHAVIOURS.index("neutral"), BEHAVIOURS.index("ascent")),
            basis=np.zeros(len(program), np.int64),
        ),
        machine=machine,
        span_s=span_s,
        mode=mode,
        program=program,
        processes=processes,
        io_processes=writers,
        request=site.request[program],
        read=read,
        written=written,
        core_hours=nodes * sunway.CORES_PER_NODE * run_s / 3600.0,
    )


def _volumes(rng: np.random.Generator, site: Programs, program: I64, scale: float) -> tuple[F64, F64]:
    """Bytes read and written. Programs of a mode differ as the classes of core-hours do and by a deviation of their
    own, around the mode's mean; runs of a program by a small one."""
    kind = np.searchsorted(sunway.CORE_HOURS, site.nodes * sunway.CORES_PER_NODE * site.run_s / 3600.0)
    spread = rng.lognormal(-(RUN_SIGMA**2) / 2, RUN_SIGMA, len(program)) * scale * sunway.GB
    of_mode = np.bincount(site.mode, site.chance, TRIVIAL + 1)
    floor = np.where(site.mode[program] == TRIVIAL, 0.0, 0.55 * sunway.TRIVIAL_BYTES * scale)
    both = []
    for mean, classes in (
        (sunway.MEAN_READ_GB, sunway.CLASS_READ_GB),
        (sunway.MEAN_WRITE_GB, sunway.CLASS_WRITE_GB),
    ):
        relative = site.scale * np.where(site.mode >= STORM, 1.0, np.array(classes)[kind])
        usual = np.bincount(site.mode, site.chance * relative, TRIVIAL + 1) / np.where(of_mode > 0, of_mode, 1.0)
        volume = relative * np.array([*mean, *LITTLE_GB])[site.mode] / usual[site.mode]
        both.append(np.maximum(volume[program] * spread, floor))
    return both[0], both[1]


def _costs(machine: Site, site: Programs, program: I64, processes: I64) -> tuple[F64, F64]:
    """Seconds a forwarder and a target are held by a byte."""
    mode, request = site.mode[program], site.request[program].astype(np.float64)
    workers = request / (request / machine.worker_bandwidth + machine.request_s) * machine.workers
    forwarder = np.maximum(np.max(1.0 / machine.forwarders.bandwidth, initial=0.0), 1.0 / workers)
    # Who waits for the lock of a shared file keeps a worker.
    waiting = np.minimum(processes, machine.workers) / machine.workers / machine.shared_file_bandwidth
    forwarder = np.where(mode == 2, np.maximum(forwarder, waiting), forwarder)
    at_random = (mode == 0) & (site.pattern[program] == PATTERNS["N-N"].index("training"))
    seeks = 1.0 / (float(machine.targets.iops[0]) * np.minimum(request, RANDOM_BYTES))
    target = np.full(len(program), 1.0 / float(machine.targets.bandwidth[0]))
    return forwarder, np.where(at_random, np.maximum(target, seeks), target)


def _phases(
    rng: np.random.Generator,
    site: Programs,
    program: I64,
    read: F64,
    written: F64,
    processes: I64,
    run_s: F64,
    io_s: F64,
) -> tuple[I64, F64, F64, F64, F64]:
    """Reads, then metadata, then writes, computing before each: what the run time leaves, a tenth of it at least."""
    mode, pattern, steps = site.mode[program], site.pattern[program], site.steps[program]
    j = len(program)
    nn = mode == 0
    reads = np.where(nn & (pattern == PATTERNS["N-N"].index("training")), steps, 1)
    storms = np.where(mode == STORM, steps, 0)
    once = (mode >= 3) | (nn & ((pattern == 1) | (pattern == 2))) | ((mode == 2) & (pattern == 1))
    writes = np.where(once, 1, steps)
    counts = reads + storms + writes
    first = np.concatenate([[0], np.cumsum(counts)])
    job = np.repeat(np.arange(j), counts)
    place = np.arange(first[-1]) - first[job]
    reading, writing = place < reads[job], place >= (reads + storms)[job]
    volume = np.where(reading, (read / reads)[job], np.where(writing, (written / writes)[job], 0.0))
    each = rng.uniform(*STORM_EACH, j) * 3.0 * processes
    operations = np.where(reading | writing, 0.0, each[job])
    slack = np.maximum(run_s - io_s, 0.1 * run_s) / (counts + 0.5)
    compute = slack[job] * rng.uniform(0.7, 1.3, len(job))
    return first, compute, volume, operations, 0.5 * slack

"""Months and years of jobs like TaihuLight's, drawn by the published figures of its population (`sunway`), as columns.

Drawn, not measured. Not here: records of a made machine (`fairlead.testing.machine`), who is granted what (`replay`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.errors import UsageError
from fairlead.sim.platform import Machine, taihulight
from fairlead.sim.replay.jobs import Jobs
from fairlead.sim.workloads import sunway
from fairlead.sim.workloads.profiles import BEHAVIOURS

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
DAY_S = 86_400.0
YEAR_S = 365 * DAY_S
SHORTEST_S, LONGEST_S = 25.0, 86_400.0
LONGEST_IO_S = 6 * 3600.0
"""A job moves no more than what it moves alone in so long over one forwarder and one target (ours)."""
PATTERNS = {
    "N-N": ("checkpoint", "restart", "training", "logs"), "N-M": ("aggregated",), "N-1": ("strided", "shared"),
    "1-1": ("serial",),
}  # fmt: skip
"""What programs of each mode do, as `fairlead.testing.machine` has them: equally many programs of each."""
STORM = len(sunway.MODES)
"""Place of metadata storms behind the modes in `Season.mode`."""
STORM_EACH = (200, 800)
"""Metadata operations each process makes in a step of a storm, three kinds of them (ours)."""
SHARED_FILE_STRIPES = 4
"""Targets under a file that all processes write (ours)."""
MOST_WRITERS = 32
"""Writers of N-M jobs (Beacon, TOS 2023: AWP gains up to 32)."""
RANDOM_BYTES = 64 << 10
"""The largest request that training programs read at random (ours)."""
_ZIPF = 0.9
_RUN_SIGMA = 0.5
_PROGRAM_SIGMA = float(np.sqrt(sunway.VOLUME_SIGMA**2 - _RUN_SIGMA**2))


@dataclass(frozen=True, kw_only=True)
class Season:
    """Jobs and what is known of each (J,): `mode` place in `sunway.MODES` (STORM: many metadata operations), `program`
    number of its program (runs of one are alike: same user, size, pattern), `processes`, `io_processes`, `request`
    bytes, `read` and `written` bytes, `core_hours` at 260 cores a node. `machine`: what its costs were made for."""

    jobs: Jobs
    machine: Machine
    span_s: float
    mode: I64
    program: I64
    processes: I64
    io_processes: I64
    request: I64
    read: F64
    written: F64
    core_hours: F64

    def mode_name(self, job: int) -> str:
        """N-N, N-M, N-1 or 1-1; a storm's files are each process's own (N-N)."""
        return (*sunway.MODES, "N-N")[int(self.mode[job])]


@dataclass(frozen=True)
class _Programs:
    mode: I64
    pattern: I64
    nodes: I64
    request: I64
    steps: I64
    run_s: F64
    scale: F64
    chance: F64


def season(
    seed: int | tuple[int, ...], *, span_s: float = YEAR_S, jobs_per_year: float = 310_000.0, programs: int = 4000,
    volume_scale: float = 1.0, machine: Machine | None = None,
) -> Season:  # fmt: skip
    """The jobs with non-trivial I/O that begin within `span_s`. The same seed gives the same.

    Beacon counted 73,400 such jobs a year; `jobs_per_year` makes it a busier machine of the same population. They begin
    at random times. What is drawn in streams of its own does not move when something else is changed.
    """
    machine = machine or taihulight()
    for name, value in (("span_s", span_s), ("jobs_per_year", jobs_per_year), ("volume_scale", volume_scale)):
        if not (np.isfinite(value) and value > 0):
            raise UsageError(f"{name} is {value:g}", where=name, remedy="a number above 0")
    if programs < 16:
        raise UsageError(f"programs is {programs}", where="programs", remedy="16 at least, that each pattern has some")
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(8)]
    site = _programs(streams[0], programs, machine)
    j = int(streams[1].poisson(jobs_per_year * span_s / YEAR_S))
    start = np.sort(streams[2].uniform(0.0, span_s, j))
    program = streams[3].choice(programs, j, p=site.chance)
    mode, nodes = site.mode[program], site.nodes[program]
    run_s = np.clip(site.run_s[program] * streams[4].uniform(0.9, 1.1, j), SHORTEST_S, LONGEST_S)
    core_hours = nodes * sunway.CORES_PER_NODE * run_s / 3600.0
    read, written = _volumes(streams[5], site, program, volume_scale)
    processes = nodes * machine.cores_per_node
    writers = np.select([mode == 3, mode == 1], [1, np.minimum(nodes, MOST_WRITERS)], processes)
    io_nodes = np.minimum(writers, nodes)
    rate = np.minimum(io_nodes * machine.node_bandwidth, writers * machine.process_bandwidth)
    rate = np.where(mode == 2, np.minimum(rate, machine.shared_file_bandwidth), rate)
    forwarder_cost, target_cost = _costs(machine, site, program, processes)
    io_s = (read + written) / np.minimum(rate, 1.0 / np.maximum(forwarder_cost, target_cost))
    most = np.minimum(LONGEST_IO_S / io_s, 1.0)
    read, written, io_s = read * most, written * most, io_s * most
    first, compute, volume, operations, tail = _phases(streams[6], site, program, read, written, processes, run_s, io_s)
    flat = rate * np.maximum(forwarder_cost, target_cost) <= 1.0
    return Season(
        jobs=Jobs(
            start_s=start, first_phase=first, compute_s=compute, volume=volume, operations=operations, tail_s=tail,
            nodes=nodes, cores=(nodes * sunway.CORES_PER_NODE).astype(np.float64),
            first_node=_first_nodes(streams[7], nodes, machine.nodes), client_rate=rate,
            forwarder_cost=forwarder_cost, target_cost=target_cost,
            most_targets=np.select([mode == 3, mode == 2], [1, SHARED_FILE_STRIPES], writers),
            behaviour=np.where(flat, BEHAVIOURS.index("neutral"), BEHAVIOURS.index("ascent")),
            basis=np.zeros(j, np.int64),
        ),
        machine=machine, span_s=span_s, mode=mode, program=program, processes=processes, io_processes=writers,
        request=site.request[program], read=read, written=written, core_hours=core_hours,
    )  # fmt: skip


def _programs(rng: np.random.Generator, count: int, machine: Machine) -> _Programs:
    """Each mode has its part of the programs, at least one a pattern, and its published part of the jobs."""
    storm = sunway.HIGH_MDOPS_SHARE / sunway.NONTRIVIAL_SHARE
    shares = np.array([*(np.array(sunway.MODE_JOBS) / sum(sunway.MODE_JOBS) * (1.0 - storm)), storm])
    least = np.array([*(len(PATTERNS[m]) for m in sunway.MODES), 1])
    number = np.maximum(np.floor(count * shares).astype(np.int64), least)
    number[np.argmax(number)] += count - number.sum()
    mode = np.repeat(np.arange(len(number)), number)
    rank = np.concatenate([np.arange(n) for n in number])
    chance = (rank + 1.0) ** -_ZIPF
    total = np.bincount(mode, chance)
    several = np.array([*(len(PATTERNS[m]) for m in sunway.MODES), 1])
    favourite = np.array([n for n, _ in sunway.NODES])
    likely = np.array([share for _, share in sunway.NODES])
    drawn = np.ceil(rng.lognormal(sunway.NODES_LOG_MEAN, sunway.NODES_LOG_SIGMA, count)).astype(np.int64)
    nodes = np.where(rng.random(count) < likely.sum(), rng.choice(favourite, count, p=likely / likely.sum()), drawn)
    fewest = np.where(mode == 3, 1, -(-8 // machine.cores_per_node))  # N processes are eight at least
    return _Programs(
        mode=mode, pattern=rank % several[mode], nodes=np.clip(nodes, fewest, machine.nodes // 2),
        request=rng.choice(np.array(sunway.REQUESTS), count, p=sunway.REQUEST_SHARES), steps=rng.integers(2, 7, count),
        run_s=np.clip(rng.lognormal(sunway.RUN_TIME_LOG_MEAN, sunway.RUN_TIME_LOG_SIGMA, count), SHORTEST_S, LONGEST_S),
        scale=rng.lognormal(-(_PROGRAM_SIGMA**2) / 2, _PROGRAM_SIGMA, count),
        chance=chance / total[mode] * shares[mode],
    )  # fmt: skip


def _volumes(rng: np.random.Generator, site: _Programs, program: I64, scale: float) -> tuple[F64, F64]:
    """Bytes read and written. Programs of a mode differ as the classes of core-hours do and by a deviation of their
    own, around the mode's mean; runs of a program by a small one."""
    kind = np.searchsorted(sunway.CORE_HOURS, site.nodes * sunway.CORES_PER_NODE * site.run_s / 3600.0)
    spread = rng.lognormal(-(_RUN_SIGMA**2) / 2, _RUN_SIGMA, len(program)) * scale * sunway.GB
    of_mode = np.bincount(site.mode, site.chance)
    both = []
    for mean, classes in (
        (sunway.MEAN_READ_GB, sunway.CLASS_READ_GB), (sunway.MEAN_WRITE_GB, sunway.CLASS_WRITE_GB),
    ):  # fmt: skip
        # Storms read and write little (0.4 GB, ours), whatever their size.
        relative = site.scale * np.where(site.mode == STORM, 1.0, np.array(classes)[kind])
        usual = np.bincount(site.mode, site.chance * relative) / of_mode
        volume = relative * (np.array([*mean, 0.4]) / usual)[site.mode]
        both.append(np.maximum(volume[program] * spread, 0.55 * sunway.TRIVIAL_BYTES * scale))
    return both[0], both[1]


def _costs(machine: Machine, site: _Programs, program: I64, processes: I64) -> tuple[F64, F64]:
    """Seconds a forwarder and a target are held by a byte."""
    mode, request = site.mode[program], site.request[program].astype(np.float64)
    workers = request / (request / machine.worker_bandwidth + machine.request_s) * machine.workers
    forwarder = np.maximum(1.0 / machine.forwarder_bandwidth, 1.0 / workers)
    # Who waits for the lock of a shared file keeps a worker.
    waiting = np.minimum(processes, machine.workers) / machine.workers / machine.shared_file_bandwidth
    forwarder = np.where(mode == 2, np.maximum(forwarder, waiting), forwarder)
    at_random = (mode == 0) & (site.pattern[program] == PATTERNS["N-N"].index("training"))
    seeks = 1.0 / (machine.target_iops * np.minimum(request, RANDOM_BYTES))
    target = np.full(len(program), 1.0 / machine.target_bandwidth)
    return forwarder, np.where(at_random, np.maximum(target, seeks), target)


def _phases(
    rng: np.random.Generator, site: _Programs, program: I64, read: F64, written: F64, processes: I64,
    run_s: F64, io_s: F64,
) -> tuple[I64, F64, F64, F64, F64]:  # fmt: skip
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


def _first_nodes(rng: np.random.Generator, nodes: I64, machine_nodes: int) -> I64:
    """Nodes in a row, going round the machine, with room for the jobs of trivial I/O that came in between: of the same
    mean size and as many as published. Jobs that last for hours can be lapped; that is not looked at."""
    between = rng.geometric(sunway.NONTRIVIAL_SHARE, len(nodes)) - 1
    mean = round(float(nodes.mean())) if len(nodes) else 0
    behind = np.cumsum(nodes + between * mean) - nodes
    return np.minimum(behind % machine_nodes, machine_nodes - nodes).astype(np.int64)

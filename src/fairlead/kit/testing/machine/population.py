"""Who runs what on a made machine: users, programs, jobs, drawn so that the population looks like the published one.

Distributions, and where their parameters are from: `fairlead.decide.sim.workloads.sunway`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairlead.core.model.site import Site
from fairlead.decide.sim.steps import Step
from fairlead.decide.sim.workloads.sunway import (
    GB,
    HIGH_MDOPS_SHARE,
    MEAN_READ_GB,
    MEAN_WRITE_GB,
    MODE_JOBS,
    MODES,
    NODES,
    NODES_LOG_MEAN,
    NODES_LOG_SIGMA,
    NONTRIVIAL_SHARE,
    REQUEST_SHARES,
    REQUESTS,
    RUN_TIME_LOG_MEAN,
    RUN_TIME_LOG_SIGMA,
    TRIVIAL_BYTES,
    VOLUME_SIGMA,
)

MOST_RANDOM = 200_000
"""Requests at random a run makes at most."""
PATTERNS = {
    "N-N": ("checkpoint", "restart", "training", "logs"),
    "N-M": ("aggregated", "collective"),
    "N-1": ("strided", "shared_read"),
    "1-1": ("serial",),
}
"""What programs of each mode do; `storm` is of any mode's."""

_FIRST = (
    "ada",
    "ben",
    "chen",
    "dora",
    "emil",
    "fatou",
    "goro",
    "hana",
    "ivan",
    "jun",
    "kaja",
    "liu",
    "mina",
    "noor",
    "olga",
    "pavel",
    "qi",
    "rosa",
    "sven",
    "tao",
)
_FIELDS = ("climate", "fusion", "lattice", "genome", "combust", "seismic", "plasma", "ocean", "alloy", "turbine")
_STEMS = ("flow", "cast", "mesh", "spec", "fold", "ray", "wave", "drift", "shock", "bond", "grid", "tide")


@dataclass(frozen=True, kw_only=True)
class Program:
    """One user's program at one size: what makes its runs alike. `mean_read`/`mean_write` bytes a run."""

    name: str
    user: str
    project: str
    mode: str
    pattern: str
    nodes: int
    request: int
    steps: int
    mean_read: float
    mean_write: float
    run_time_s: float


@dataclass(frozen=True, kw_only=True)
class DrawnJob:
    """A job to come: its program, when it is handed in, what it does and computes."""

    number: int
    program: Program
    submit_s: float
    steps: tuple[Step, ...]
    tail_s: float

    @property
    def read_bytes(self) -> int:
        """Bytes it means to read."""
        return sum(step.volume for step in self.steps if step.op == "read")

    @property
    def write_bytes(self) -> int:
        """Bytes it means to write."""
        return sum(step.volume for step in self.steps if step.op == "write")


@dataclass(frozen=True, kw_only=True)
class Mix:
    """How the population is bent to fit a machine and a span: nothing of it for the published one.

    `volume_scale` multiplies volumes, `time_scale` run times (at most `longest_s`); `arrivals_per_s` jobs handed in,
    `backlog` of them at once in the beginning, so that a machine is not empty. By mode: `mode_jobs` how often,
    `mode_scale` times its volume. `mixed_share`: jobs that both write one file together and storm. `popularity`: the
    exponent of the Zipf law by which runs choose programs. `storm_each`: operations a process makes in a step of a
    storm, from and below. The logarithm of volumes deviates by `program_sigma` from program to program and by
    `run_sigma` from run to run.
    """

    nontrivial_share: float = NONTRIVIAL_SHARE
    high_mdops_share: float = HIGH_MDOPS_SHARE
    volume_scale: float = 1.0
    time_scale: float = 1.0
    longest_s: float = 12 * 3600.0
    shortest_s: float = 25.0
    arrivals_per_s: float = 0.02
    programs_per_pattern: int = 4
    largest_share: float = 0.5
    backlog: int = 0
    mode_jobs: tuple[float, ...] = MODE_JOBS
    mode_scale: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    mixed_share: float = 0.0
    storm_each: tuple[int, int] = (200, 800)
    popularity: float = 1.8
    program_sigma: float = 0.0
    run_sigma: float = VOLUME_SIGMA


def draw_population_programs(machine: Site, mix: Mix, rng: np.random.Generator) -> dict[str, list[Program]]:
    """The programs of a site, by mode; under `trivial` and `storm` those that move next to nothing or many names."""
    made: dict[str, list[Program]] = {}
    for mode, patterns in PATTERNS.items():
        index = MODES.index(mode)
        made[mode] = [
            _program(machine, mix, rng, mode, pattern, (MEAN_READ_GB[index], MEAN_WRITE_GB[index]))
            for pattern in patterns
            for _ in range(mix.programs_per_pattern)
        ]
    made["trivial"] = [
        _program(machine, mix, rng, "1-1", "quiet", (0.02, 0.02)) for _ in range(3 * mix.programs_per_pattern)
    ]
    made["storm"] = [_program(machine, mix, rng, "N-N", "storm", (0.4, 0.4)) for _ in range(2)]
    if mix.mixed_share:
        both = MEAN_READ_GB[2], MEAN_WRITE_GB[2]
        made["mixed"] = [_program(machine, mix, rng, "N-1", "mixed", both) for _ in range(mix.programs_per_pattern)]
    return made


def _program(
    machine: Site, mix: Mix, rng: np.random.Generator, mode: str, pattern: str, gigabytes: tuple[float, float]
) -> Program:
    # The largest jobs of a machine leave room for others, or nothing would ever interfere.
    most = max(int(machine.nodes * mix.largest_share), 1)
    sizes, shares = np.array([n for n, _ in NODES]), np.array([share for _, share in NODES])
    if rng.random() < shares.sum():
        nodes = int(rng.choice(sizes, p=shares / shares.sum()))
    else:
        nodes = int(np.ceil(rng.lognormal(NODES_LOG_MEAN, NODES_LOG_SIGMA)))
    if mode != "1-1" and nodes * machine.cores_per_node < 8:
        nodes = -(-8 // machine.cores_per_node)
    user = str(rng.choice(_FIRST)) + str(int(rng.integers(1, 9)))
    field = str(rng.choice(_FIELDS))
    seconds = float(rng.lognormal(RUN_TIME_LOG_MEAN, RUN_TIME_LOG_SIGMA)) * mix.time_scale
    scale = mix.mode_scale[MODES.index(mode)]
    if mix.program_sigma:
        scale *= float(rng.lognormal(-(mix.program_sigma**2) / 2, mix.program_sigma))
    return Program(
        name=f"{rng.choice(_STEMS)}{rng.choice(_STEMS)}{int(rng.integers(1, 100))}",
        user=user,
        project=f"{field}{int(rng.integers(1, 4))}",
        mode=mode,
        pattern=pattern,
        nodes=min(nodes, most),
        request=int(rng.choice(REQUESTS, p=REQUEST_SHARES)),
        steps=int(rng.integers(2, 7)),
        mean_read=gigabytes[0] * GB * scale,
        mean_write=gigabytes[1] * GB * scale,
        run_time_s=float(np.clip(seconds, mix.shortest_s, mix.longest_s)),
    )


def draw_population_jobs(
    machine: Site,
    mix: Mix,
    jobs: int,
    rng: np.random.Generator,
    *,
    site: dict[str, list[Program]] | None = None,
    first: int = 0,
) -> list[DrawnJob]:
    """`jobs` jobs in the order they are handed in, numbered from `first`; times between arrivals are exponential.
    `site`: its programs, where they are not to be drawn."""
    site = draw_population_programs(machine, mix, rng) if site is None else site
    weights = np.array(mix.mode_jobs) / sum(mix.mode_jobs)
    waits = rng.exponential(1.0 / mix.arrivals_per_s, jobs)
    waits[: mix.backlog] = 0.0
    submit = np.cumsum(waits)
    out = []
    for number in range(jobs):
        chance = rng.random()
        if chance < mix.high_mdops_share:
            kind = "storm"
        elif chance < mix.high_mdops_share + mix.mixed_share:
            kind = "mixed"
        elif chance < mix.nontrivial_share:
            kind = str(rng.choice(MODES, p=weights))
        else:
            kind = "trivial"
        program = site[kind][int(rng.zipf(mix.popularity)) % len(site[kind])]
        out.append(_run_of(machine, mix, first + number, program, float(submit[number]), rng))
    return out


def _run_of(
    machine: Site, mix: Mix, number: int, program: Program, submit_s: float, rng: np.random.Generator
) -> DrawnJob:
    # Runs of a program differ; a lognormal of mean 1 keeps the mean of the mode.
    spread = rng.lognormal(-(mix.run_sigma**2) / 2, mix.run_sigma)
    read, write = (int(max(v * spread * mix.volume_scale, 1 << 20)) for v in (program.mean_read, program.mean_write))
    if program.pattern == "quiet":
        total = rng.uniform(0.01, 0.9) * TRIVIAL_BYTES * min(mix.volume_scale, 1.0)
        read, write = int(total / 2), int(total / 2)
    else:
        floor = int(TRIVIAL_BYTES * min(mix.volume_scale, 1.0) * 0.55)
        read, write = max(read, floor), max(write, floor)
    steps = _draw_steps(machine, program, read, write, rng, mix.storm_each)
    slack = program.run_time_s * float(rng.uniform(0.9, 1.1)) / (len(steps) + 1)
    timed = tuple(replace(s, compute_s=slack * float(rng.uniform(0.7, 1.3))) for s in steps)
    return DrawnJob(number=number, program=program, submit_s=submit_s, steps=timed, tail_s=slack * 0.5)


def _draw_steps(
    machine: Site,
    program: Program,
    read: int,
    write: int,
    rng: np.random.Generator,
    storm_each: tuple[int, int] = (200, 800),
) -> tuple[Step, ...]:
    """What a run does, by its program's pattern."""
    processes = program.nodes * machine.cores_per_node
    n, size = program.steps, program.request
    wide = int(min(len(machine.targets), 4))

    def io(op: str, volume: float, **more: object) -> Step:
        return Step(op=op, volume=int(volume), **({"request": size, "writers": processes, "files": processes} | more))  # type: ignore[arg-type]

    match program.pattern:
        case "checkpoint":
            big = max(size, 1 << 20)
            first = io("read", read, request=big, label="init")
            return (first, *(io("write", write / n, request=big, label="ckpt") for _ in range(n)))
        case "restart":
            return (io("read", read, label="restart"), io("write", write, label="state"))
        case "training":
            # Requests that cannot be joined are rows: their number is bounded, as real samples are of a few 10^5.
            chunk = min(size, 64 << 10)
            while read / chunk > MOST_RANDOM:
                chunk *= 2
            epochs = tuple(
                io("read", read / n, request=chunk, random=True, label="samples", fresh=i == 0) for i in range(n)
            )
            return (*epochs, io("write", write, request=1 << 20, label="model"))
        case "logs":
            some = tuple(io("write", write / n, request=4 << 10, label="log", fresh=i == 0) for i in range(n))
            return (io("read", read, label="in"), *some)
        case "aggregated" | "collective":
            writers = max(processes // 16, min(processes, 2))
            kind = "MPIIO" if program.pattern == "collective" else "POSIX"
            more = {"writers": writers, "files": writers, "request": max(size, 1 << 20), "interface": kind}
            first = io("read", read, label="in", **more)
            return (first, *(io("write", write / n, label="agg", **more) for _ in range(n)))
        case "strided" | "shared_read":
            stripes = next(s for s in range(wide, 0, -1) if processes % s == 0)
            more = {"files": 1, "stripes": stripes, "request": min(size, 1 << 20)}
            first = io("read", read, label="in", **more)
            if program.pattern == "shared_read":
                return (first, io("write", write, label="field", contested=True, **more))
            return (first, *(io("write", write / n, label="field", contested=True, **more) for _ in range(n)))
        case "mixed":
            stripes = next(s for s in range(wide, 0, -1) if processes % s == 0)
            more = {"files": 1, "stripes": stripes, "request": min(size, 1 << 20), "contested": True}
            each, turns = int(rng.integers(*storm_each)) // 3, 3 * n
            parts = [
                (
                    io("write", write / turns, label="field", fresh=turn == 0, **more),
                    Step(op="create", each=each, writers=processes, files=processes, label="tmp"),
                    Step(op="unlink", each=each, writers=processes, files=processes, label="tmp", fresh=False),
                )
                for turn in range(turns)
            ]
            return (io("read", read, label="in"), *(step for part in parts for step in part))
        case "storm":
            each = int(rng.integers(*storm_each))
            names = tuple(
                Step(op=op, each=each, writers=processes, files=processes, label="tmp", fresh=op == "create")
                for _ in range(n)
                for op in ("create", "getattr", "unlink")
            )
            return (io("read", read, label="in"), *names, io("write", write, label="out"))
        case _:
            more = {"writers": 1, "files": 1, "stripes": min(wide, 2)}
            return (io("read", read, label="in", **more), io("write", write, label="out", **more))

"""Months and years of jobs like TaihuLight's, drawn by the published figures of its population (`sunway`), as columns.

Drawn, not measured. Not here: the rules of I/O (`io_rules`), records of a simulated machine
(`fairlead.kit.testing.machine`).
"""

from __future__ import annotations

import numpy as np

from fairlead.core.errors import UsageError
from fairlead.core.model.site import Site
from fairlead.decide.sim.platform import build_taihulight_platform
from fairlead.decide.sim.workloads import sunway
from fairlead.decide.sim.workloads.io_rules import I64, PATTERN_COUNTS, PROGRAM_SIGMA, STORM, Programs, Season, add_io

__all__ = ["DAY_S", "STORM", "YEAR_S", "Season", "draw_taihulight_season"]
DAY_S = 86_400.0
YEAR_S = 365 * DAY_S
SHORTEST_S, LONGEST_S = 25.0, 86_400.0
_ZIPF = 0.9


def draw_taihulight_season(
    seed: int | tuple[int, ...],
    *,
    span_s: float = YEAR_S,
    jobs_per_year: float = 310_000.0,
    programs: int = 4000,
    volume_scale: float = 1.0,
    machine: Site | None = None,
) -> Season:
    """The jobs with non-trivial I/O that begin within `span_s`. The same seed gives the same.

    Beacon counted 73,400 such jobs a year; `jobs_per_year` makes it a busier machine of the same population. They begin
    at random times. What is drawn in streams of its own does not move when something else is changed.
    """
    machine = machine or build_taihulight_platform()
    for name, value in (("span_s", span_s), ("jobs_per_year", jobs_per_year), ("volume_scale", volume_scale)):
        if not (np.isfinite(value) and value > 0):
            raise UsageError(f"{name} is {value:g}", where=name, remedy="a number above 0")
    if programs < 16:
        raise UsageError(f"programs is {programs}", where="programs", remedy="16 at least, that each pattern has some")
    seeds = np.random.SeedSequence(seed).spawn(7)
    streams = [np.random.default_rng(s) for s in seeds[:6]]
    site = _programs(streams[0], programs, machine)
    j = int(streams[1].poisson(jobs_per_year * span_s / YEAR_S))
    start = np.sort(streams[2].uniform(0.0, span_s, j))
    program = streams[3].choice(programs, j, p=site.chance)
    run_s = np.clip(site.run_s[program] * streams[4].uniform(0.9, 1.1, j), SHORTEST_S, LONGEST_S)
    first_node = _first_nodes(streams[5], site.nodes[program], machine.nodes)
    return add_io(seeds[6], site, program, start, run_s, first_node, machine, span_s=span_s, volume_scale=volume_scale)


def _programs(rng: np.random.Generator, count: int, machine: Site) -> Programs:
    """Each mode has its part of the programs, at least one a pattern, and its published part of the jobs."""
    storm = sunway.HIGH_MDOPS_SHARE / sunway.NONTRIVIAL_SHARE
    shares = np.array([*(np.array(sunway.MODE_JOBS) / sum(sunway.MODE_JOBS) * (1.0 - storm)), storm])
    number = np.maximum(np.floor(count * shares).astype(np.int64), PATTERN_COUNTS[: len(shares)])
    number[np.argmax(number)] += count - number.sum()
    mode = np.repeat(np.arange(len(number)), number)
    rank = np.concatenate([np.arange(n) for n in number])
    chance = (rank + 1.0) ** -_ZIPF
    total = np.bincount(mode, chance)
    favourite = np.array([n for n, _ in sunway.NODES])
    likely = np.array([share for _, share in sunway.NODES])
    drawn = np.ceil(rng.lognormal(sunway.NODES_LOG_MEAN, sunway.NODES_LOG_SIGMA, count)).astype(np.int64)
    nodes = np.where(rng.random(count) < likely.sum(), rng.choice(favourite, count, p=likely / likely.sum()), drawn)
    fewest = np.where(mode == 3, 1, -(-8 // machine.cores_per_node))  # N processes are eight at least
    return Programs(
        mode=mode,
        pattern=rank % PATTERN_COUNTS[mode],
        nodes=np.clip(nodes, fewest, machine.nodes // 2),
        request=rng.choice(np.array(sunway.REQUESTS), count, p=sunway.REQUEST_SHARES),
        steps=rng.integers(2, 7, count),
        run_s=np.clip(rng.lognormal(sunway.RUN_TIME_LOG_MEAN, sunway.RUN_TIME_LOG_SIGMA, count), SHORTEST_S, LONGEST_S),
        scale=rng.lognormal(-(PROGRAM_SIGMA**2) / 2, PROGRAM_SIGMA, count),
        chance=chance / total[mode] * shares[mode],
    )


def _first_nodes(rng: np.random.Generator, nodes: I64, machine_nodes: int) -> I64:
    """Nodes in a row, going round the machine, with room for the jobs of trivial I/O that came in between: of the same
    mean size and as many as published. Jobs that last for hours can be lapped; that is not looked at."""
    between = rng.geometric(sunway.NONTRIVIAL_SHARE, len(nodes)) - 1
    mean = round(float(nodes.mean())) if len(nodes) else 0
    behind = np.cumsum(nodes + between * mean) - nodes
    return np.minimum(behind % machine_nodes, machine_nodes - nodes).astype(np.int64)

"""What Set-10 gains over fair share and exclusive access (Boito et al., TPDS 2023, sections V and VI).

Periodic applications on one resource, drawn and measured as published, under the fluid limits of the very orders that a
forwarder runs. Not here: single requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.decide.policies.requests.fluid_limits import Streams, build_fluid_sharing
from fairlead.decide.sim.cycles.cycle_model import Cycles, Sharing, Window, simulate_cycles
from fairlead.decide.sim.experiments.papers import Line, PaperReport

F64 = NDArray[np.float64]
ORDERS = {"set-10": "Set-10", "job-fair": "fair share", "exclusive": "exclusive FCFS"}
"""Orders of requests and how the paper calls them."""
ITERATIONS_S = (10.0, 100.0, 1000.0)
"""Mean iterations of the applications of high, medium and low frequency, alone."""
HORIZON_S = 20_000.0
WINDOW = Window(from_s=6_000.0, until_s=14_000.0, settled=False, undisturbed=False)
NOISE = 0.1
"""Each phase takes up to so much more or less than its mean."""
SETS, QUICK_SETS = 60, 10


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What sets are drawn from: how many applications of each frequency, `load`, the share of time their I/O takes in
    sum, alone, and `spread`: deviation of iterations from their mean, as a share."""

    numbers: tuple[int, int, int] = (20, 20, 20)
    load: float = 0.8
    spread: float = 0.1

    @property
    def name(self) -> str:
        """For a table."""
        high, medium, low = self.numbers
        return f"{high} high, {medium} medium, {low} low, load {self.load:g}, spread {self.spread:g}"


FIGURE_6 = tuple(Setting(numbers=(high, 20, 40 - high)) for high in (0, 10, 20, 30, 40))
FIGURE_9 = (Setting(spread=0.05), Setting(spread=1.0))
LIGHT = Setting(load=0.2)


@dataclass(frozen=True, kw_only=True)
class Periodic:
    """K applications: `iteration_s` (K,) in the mean, the share of it that is I/O, what runs, and the seconds of I/O
    that is in all, alone."""

    iteration_s: F64
    share: F64
    cycles: Cycles
    io_s: F64


def draw_set10_applications(setting: Setting, seed: int | tuple[int, ...]) -> Periodic:
    """A set as published: iterations normal about their mean (above 0), shares of I/O uniform and made to sum to the
    load, a first iteration within one iteration's time, so many as fill the horizon."""
    rng = np.random.default_rng(seed)
    mean = np.repeat(ITERATIONS_S, setting.numbers)
    iteration = rng.normal(mean, setting.spread * mean)
    while (low := iteration <= 0.01 * mean).any():
        iteration[low] = rng.normal(mean[low], setting.spread * mean[low])
    share = rng.uniform(0.0, 1.0, len(mean))
    share *= setting.load / share.sum()
    count = np.maximum(np.ceil(HORIZON_S / iteration), 1).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(count)])

    def noisy(seconds: F64) -> F64:
        return np.asarray(np.repeat(seconds, count) * (1.0 + rng.uniform(-NOISE, NOISE, int(first[-1]))))

    compute_s, io_s = noisy((1.0 - share) * iteration), noisy(share * iteration)
    total = np.add.reduceat(io_s, first[:-1])
    cycles = Cycles(
        first_phase=first,
        compute_s=compute_s,
        share=io_s / np.repeat(total, count),
        start_s=rng.uniform(0.0, 1.0, len(mean)) * iteration,
        skip_s=np.zeros(len(mean)),
        repeat=False,
    )
    return Periodic(iteration_s=iteration, share=share, cycles=cycles, io_s=total)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """`slowdown`: geometric mean over applications of the time waiting for or doing I/O over that alone. `stretch`: the
    largest of time over effective work. `utilisation`: share of the time spent computing."""

    slowdown: float
    stretch: float
    utilisation: float


def measure_set10_run(applications: Periodic, shared: Sharing) -> Figures:
    """As the paper measures, between WINDOW's ends; an application that computed c has done c / t_cpu iterations."""
    k = len(applications.io_s)
    done = simulate_cycles(
        applications.cycles, np.zeros((k, 1), np.int64), applications.io_s, 1, WINDOW, sharing=shared
    )
    computed = done.window_s - done.waiting_s
    io_s = computed * applications.share / (1.0 - applications.share)
    return Figures(
        slowdown=float(np.exp(np.log(done.waiting_s / io_s).mean())),
        stretch=float((done.window_s / (computed + io_s)).max()),
        utilisation=float(computed.mean() / done.window_s),
    )


def _compute_means(setting: Setting, seed: int, sets: int, tell: Callable[[], None]) -> dict[str, Figures]:
    """Means over sets by order; the same sets for all."""
    found: dict[str, list[Figures]] = {order: [] for order in ORDERS}
    for number in range(sets):
        applications = draw_set10_applications(setting, (seed, number))
        streams = Streams.build_alike(applications.iteration_s)
        for order, figures in found.items():
            figures.append(measure_set10_run(applications, build_fluid_sharing(order, streams)))
        tell()
    return {
        order: Figures(
            slowdown=float(np.mean([f.slowdown for f in figures])),
            stretch=float(np.mean([f.stretch for f in figures])),
            utilisation=float(np.mean([f.utilisation for f in figures])),
        )
        for order, figures in found.items()
    }


def compare_set10(*, seed: int, quick: bool, tell: Callable[[int, int], None]) -> PaperReport:
    """The settings of Figures 6 and 9, and a light load. See `papers.Compares`."""
    sets = QUICK_SETS if quick else SETS
    settings = (*FIGURE_6, *FIGURE_9, LIGHT)
    lines: list[Line] = []
    done = 0

    def told() -> None:
        nonlocal done
        done += 1
        tell(done, sets * len(settings))

    for setting in settings:
        found = _compute_means(setting, seed, sets, told)
        for order, name in ORDERS.items():
            one = found[order]
            lines += [
                Line(setting.name, f"{name}, slowdown of I/O", one.slowdown),
                Line(setting.name, f"{name}, max stretch", one.stretch),
                Line(setting.name, f"{name}, utilisation", one.utilisation),
            ]
        lines += _gains(setting, found)
    workload = (
        f"{sets} sets a setting, drawn and measured as published (horizon 20,000 s, measured from 6,000 to 14,000 s), "
        f"seed {seed}."
    )
    gains = "The paper states its gains in words (50 % on slowdown, 2.5 % on stretch and utilisation), not by setting."
    return PaperReport(paper="set-10", source="Boito et al., TPDS 2023", lines=tuple(lines), notes=(workload, gains))


def _gains(setting: Setting, found: dict[str, Figures]) -> list[Line]:
    """Set-10 beside the others, and beside what the paper states for the setting."""
    ours, fair, exclusive = (found[order] for order in ORDERS)
    slowdown = ("fair share over Set-10, slowdown of I/O", fair.slowdown / ours.slowdown)
    stretch = ("fair share over Set-10, max stretch", fair.stretch / ours.stretch)
    utilisation = ("Set-10 over fair share, utilisation", ours.utilisation / fair.utilisation)
    if setting in FIGURE_6:
        lines = [
            Line(setting.name, *slowdown, 1.5, 0.2),
            Line(setting.name, *stretch, 1.025, wanted="> 1"),
            Line(setting.name, *utilisation, 1.025, wanted="> 1"),
        ]
    elif setting in FIGURE_9:
        lines = [
            Line(setting.name, *slowdown),
            Line(setting.name, *stretch, 1.02, 0.05),
            Line(setting.name, *utilisation, wanted="> 1"),
        ]
    else:
        lines = [Line(setting.name, *gain) for gain in (slowdown, stretch, utilisation)]
    over_exclusive = {
        "exclusive FCFS over Set-10, slowdown of I/O": exclusive.slowdown / ours.slowdown,
        "exclusive FCFS over Set-10, max stretch": exclusive.stretch / ours.stretch,
        "Set-10 over exclusive FCFS, utilisation": ours.utilisation / exclusive.utilisation,
    }
    return lines + [Line(setting.name, what, gain, wanted="> 1") for what, gain in over_exclusive.items()]

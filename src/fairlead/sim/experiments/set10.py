"""What Set-10 gains over fair share and exclusive access (Boito et al., TPDS 2023).

Periodic applications on one resource, under the fluid limits of the very orders that a forwarder runs. Not here:
single requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.policies.requests.fluid import Streams, sharing
from fairlead.sim.cycles.measures import Measures, measure
from fairlead.sim.cycles.model import Cycles, Sharing, Window, run
from fairlead.sim.experiments.papers import Line, Told

F64 = NDArray[np.float64]
ORDERS = {"set-10": "Set-10", "job-fair": "fair share", "exclusive": "exclusive FCFS"}
"""Orders of requests and how the paper calls them."""
ITERATIONS_S = (10.0, 100.0, 1000.0)
"""Mean iteration of the applications of a decade, alone."""
SPREAD = 0.1
"""Deviation of an application's iteration from the decade's, as a share."""
EACH = 5
"""Applications of a decade."""
LOADS = (0.2, 0.5, 0.8)
"""Sum over applications of the share of time each would spend in I/O alone."""
WINDOW = Window(from_s=2_000.0, until_s=22_000.0, settled=True)
BUSY = 0.5
"""Load from which the paper's gain over fair share is asked for: below it applications hardly meet."""
SETS, QUICK_SETS = 100, 20


@dataclass(frozen=True, kw_only=True)
class Periodic:
    """Applications that compute `compute_s` (K,) seconds and then do I/O of `io_s` (K,) seconds alone, again and again;
    `skip_s` (K,) of the first computing is over."""

    compute_s: F64
    io_s: F64
    skip_s: F64

    @property
    def iteration_s(self) -> F64:
        """(K,): from I/O to I/O, alone."""
        return self.compute_s + self.io_s


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What sets are drawn from: `load`, `decades`, and whether applications differ much (`unlike`) in the share of time
    they spend in I/O: exponential draws, else within half and one and a half of the mean."""

    load: float
    decades: tuple[float, ...] = ITERATIONS_S
    unlike: bool = False

    @property
    def name(self) -> str:
        """For a table."""
        several = "three decades" if len(self.decades) > 1 else "one decade"
        return f"{several}, load {self.load:g}" + (", I/O unlike" if self.unlike else "")


SETTINGS = (
    *(Setting(load=load) for load in LOADS), Setting(load=LOADS[-1], unlike=True),
    Setting(load=LOADS[-1], decades=(100.0,)),
)  # fmt: skip


def periodic(setting: Setting, seed: int | tuple[int, ...]) -> Periodic:
    """A set: `EACH` applications of each decade, with shares of time in I/O that sum to the load."""
    rng = np.random.default_rng(seed)
    k = EACH * len(setting.decades)
    iteration = np.repeat(setting.decades, EACH) * np.maximum(rng.normal(1.0, SPREAD, k), 0.5)
    share = rng.exponential(1.0, k) if setting.unlike else rng.uniform(0.5, 1.5, k)
    share = np.minimum(share * (setting.load / share.sum()), 0.9)
    io_s = iteration * share
    return Periodic(compute_s=iteration - io_s, io_s=io_s, skip_s=rng.uniform(0.0, 1.0, k) * (iteration - io_s))


def outcome(applications: Periodic, shared: Sharing) -> Measures:
    """What the applications measure on one resource that is shared like that; each counts as one core."""
    k = len(applications.io_s)
    done = run(
        Cycles.equal(np.ones(k), applications.compute_s, skip_s=applications.skip_s), np.zeros((k, 1), np.int64),
        applications.io_s, 1, WINDOW, sharing=shared,
    )  # fmt: skip
    return measure(done, applications.io_s, applications.io_s, applications.compute_s, np.ones(k), k)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Means over sets. `slowdown` of I/O, `stretch` of an iteration and the `longest` of a set, `computing`: share of
    the machine's time spent computing (the paper's utilisation)."""

    slowdown: float
    stretch: float
    longest: float
    computing: float


def figures(setting: Setting, seed: int, sets: int, tell: Callable[[], None]) -> dict[str, Figures]:
    """By order; the same sets for all."""
    rows: dict[str, list[tuple[float, ...]]] = {order: [] for order in ORDERS}
    for number in range(sets):
        applications = periodic(setting, (seed, number))
        streams = Streams.alike(applications.iteration_s)
        for order, row in rows.items():
            found = outcome(applications, sharing(order, streams))
            stretch = found.stretch
            row.append((found.mean, float(np.nanmean(stretch)), float(np.nanmax(stretch)), 1.0 - found.idle))
        tell()
    out = {}
    for order, row in rows.items():
        slowdown, stretched, longest, computing = (float(x) for x in np.mean(row, axis=0))
        out[order] = Figures(slowdown=slowdown, stretch=stretched, longest=longest, computing=computing)
    return out


def compared(*, seed: int, quick: bool, tell: Callable[[int, int], None]) -> Told:
    """Slowdown, stretch and utilisation by load, with applications that differ much, and with one decade alone. See
    `papers.Compares`."""
    sets = QUICK_SETS if quick else SETS
    lines: list[Line] = []
    done = 0

    def told() -> None:
        nonlocal done
        done += 1
        tell(done, sets * len(SETTINGS))

    for setting in SETTINGS:
        found = figures(setting, seed, sets, told)
        for order, name in ORDERS.items():
            one = found[order]
            lines += [
                Line(setting.name, f"{name}, mean slowdown of I/O", one.slowdown),
                Line(setting.name, f"{name}, mean stretch", one.stretch),
                Line(setting.name, f"{name}, longest stretch", one.longest),
                Line(setting.name, f"{name}, utilisation", one.computing),
            ]
        lines += _gains(setting, found)
    workload = (
        f"{sets} sets of {EACH} applications of each decade of iterations (10, 100, 1000 s), seed {seed}. The "
        "workloads of the paper are of this kind; their numbers are not known here: no figure of it is compared with."
    )
    lasting = (
        "Inside a set one application waits for another, however long that one's I/O is: where shares of I/O are "
        "unlike, fair share does better."
    )
    return Told(paper="set-10", source="Boito et al., TPDS 2023", lines=tuple(lines), notes=(
        workload,
        "Stretch: an iteration over what it takes alone. Utilisation: share of the machine's time spent computing.",
        lasting,
    ))  # fmt: skip


def _gains(setting: Setting, found: dict[str, Figures]) -> list[Line]:
    """Set-10 beside the others. Wanted only where there are sets to tell apart, of like applications; over fair share
    only where there is something to share."""
    ours, lines = found["set-10"], []
    for order in ("job-fair", "exclusive"):
        wanted = len(setting.decades) > 1 and not setting.unlike and (order == "exclusive" or setting.load >= BUSY)
        other, name = found[order], ORDERS[order]
        ratios = {
            f"{name} over Set-10, mean slowdown of I/O": other.slowdown / ours.slowdown,
            f"{name} over Set-10, mean stretch": other.stretch / ours.stretch,
            f"Set-10 over {name}, utilisation": ours.computing / other.computing,
        }
        lines += [Line(setting.name, what, ratio, wanted="> 1" if wanted else "") for what, ratio in ratios.items()]
    return lines

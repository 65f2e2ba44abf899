"""What Set-10 gains over fair share and exclusive access (Boito et al., TPDS 2023): periodic applications on one resource.

The fluid limits of the very orders that a forwarder runs (`policies.requests`). Not here: single requests.
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
EACH = 20
"""Applications of a decade."""
LOADS = (0.2, 0.5, 0.8)
"""Sum over applications of the share of time each would spend in I/O alone."""
WINDOW = Window(from_s=2_000.0, until_s=22_000.0, settled=True)
SETS, QUICK_SETS = 100, 10


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


def periodic(load: float, seed: int | tuple[int, ...], decades: tuple[float, ...] = ITERATIONS_S) -> Periodic:
    """A set: `EACH` applications of each decade; shares of time in I/O as exponential draws, made to sum to `load`."""
    rng = np.random.default_rng(seed)
    k = EACH * len(decades)
    iteration = np.repeat(decades, EACH) * np.maximum(rng.normal(1.0, SPREAD, k), 0.5)
    share = rng.exponential(1.0, k)
    share = np.minimum(share * (load / share.sum()), 0.9)
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
    """Means over sets. `slowdown` of I/O, `stretch` of an iteration and the largest of them, `computing`: share of the
    machine's time spent computing (the paper's utilisation), `lost`: what of it waits beyond the application's own I/O."""

    slowdown: float
    stretch: float
    longest: float
    computing: float
    lost: float


def figures(
    load: float, seed: int, sets: int, decades: tuple[float, ...], tell: Callable[[], None]
) -> dict[str, Figures]:
    """By order; the same sets for all."""
    rows: dict[str, list[tuple[float, ...]]] = {order: [] for order in ORDERS}
    for number in range(sets):
        applications = periodic(load, (seed, number), decades)
        streams = Streams.alike(applications.iteration_s)
        alone = float(1.0 - (applications.io_s / applications.iteration_s).mean())
        for order in ORDERS:
            found = outcome(applications, sharing(order, streams))
            computing = 1.0 - found.idle
            rows[order].append(
                (
                    found.mean,
                    float(np.nanmean(found.stretch)),
                    float(np.nanmax(found.stretch)),
                    computing,
                    alone - computing,
                )
            )
        tell()
    out = {}
    for order, columns in rows.items():
        slowdown, stretch, longest, computing, lost = (float(x) for x in np.mean(columns, axis=0))
        out[order] = Figures(slowdown=slowdown, stretch=stretch, longest=longest, computing=computing, lost=lost)
    return out


def compared(*, seed: int, quick: bool, tell: Callable[[int, int], None]) -> Told:
    """Slowdown, stretch and utilisation by load, and with one decade alone. See `papers.Compares`."""
    sets = QUICK_SETS if quick else SETS
    settings = [(f"three decades, load {load:g}", load, ITERATIONS_S) for load in LOADS]
    settings.append((f"one decade, load {LOADS[-1]:g}", LOADS[-1], (100.0,)))
    lines: list[Line] = []
    done = 0

    def told() -> None:
        nonlocal done
        done += 1
        tell(done, sets * len(settings))

    for setting, load, decades in settings:
        found = figures(load, seed, sets, decades, told)
        for order, name in ORDERS.items():
            one = found[order]
            lines += [
                Line(setting, f"{name}, mean slowdown of I/O", one.slowdown),
                Line(setting, f"{name}, mean stretch", one.stretch),
                Line(setting, f"{name}, longest stretch", one.longest),
                Line(setting, f"{name}, utilisation", one.computing),
            ]
        lines += _gains(setting, found, several=len(decades) > 1)
    return Told(
        paper="set-10", source="Boito et al., TPDS 2023", lines=tuple(lines), notes=(
            f"{sets} sets a load, {EACH} applications of each decade of iteration (10, 100, 1000 s), seed {seed}. The paper's "
            "workloads are of this kind; their exact numbers are not known here, so no figure of it is compared with.",
            "Stretch: an iteration over what it takes alone. Utilisation: share of the machine's time spent computing.",
        ),
    )  # fmt: skip


def _gains(setting: str, found: dict[str, Figures], *, several: bool) -> list[Line]:
    """Set-10 over each of the others; wanted only where there are several sets to tell apart."""
    ours, lines = found["set-10"], []
    for order in ("job-fair", "exclusive"):
        other, name = found[order], ORDERS[order]
        lines += [
            Line(setting, f"{name} over Set-10, mean slowdown of I/O", other.slowdown / ours.slowdown,
                 wanted="> 1" if several else ""),
            Line(setting, f"{name} over Set-10, mean stretch", other.stretch / ours.stretch,
                 wanted="> 1" if several else ""),
            Line(setting, f"Set-10 over {name}, utilisation", ours.computing / other.computing,
                 wanted=">= 1" if several else ""),
        ]  # fmt: skip
    return lines

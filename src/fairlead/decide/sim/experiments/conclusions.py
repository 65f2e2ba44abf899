"""What the scheduling study concludes, asked of results: pass or fail as found, with the figures each rests on.

Bandet, Boito and Pallez 2024. Limits stand here; none was fitted to a result. A conclusion is asked for each number of
applications, as the answer depends on it. Not here: running what is asked of (`pieces`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from fairlead.decide.sim.experiments.summary import Results

LOW_LOAD = 0.3
"""Load(pi_sys) up to which a point counts as low."""
HIGH_LOAD = 0.7
"""From which it counts as high."""
ALIKE = 0.01
"""Two means that differ by no more are equal."""
NEAR = 0.1
"""How near clairvoyant and non-clairvoyant placement have to be."""
INACCURATE = 0.04
"""What class-mean curves may cost TCPU, of slowdown and of idle time: which of them is meant is not told."""
MEASURED = 0.2
"""A point counts where at least this share of its sets could be measured under all that is compared."""
STRONG = 2
"""A policy is strong where its mean rank is no worse."""
PLACING, BLIND = "greedy-clairvoyant", "greedy-non-clairvoyant"
NAMES = {
    "random": "Random",
    "static": "Static",
    "best-bandwidth": "BestBdw",
    "n-sys": "Nsys",
    "tcpu": "TCPU",
    "mckp": "MCKP",
}
"""The study's names of allocations."""
PLACINGS = {PLACING: "Greedy-C", BLIND: "Greedy-NC"}
"""Its names of placements."""
DETERMINED = ("static", "best-bandwidth", "n-sys", "tcpu", "mckp")
"""The allocations but Random."""


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """One line: what the study says, of how many applications and in which window, whether it came out, and what that
    rests on."""

    says: str
    applications: int
    window: str
    verdict: Literal["pass", "fail", "unknown"]
    found: str
    figures: tuple[int, ...]
    sets: int
    """Fewest sets of a point it rests on."""


@dataclass(frozen=True)
class Lines:
    """Means by policy over the points of one case and number of applications, by rising load. Policies are compared on
    the same sets: those that could be measured under all of them. Points where too few could be are left out."""

    results: Results
    case: str
    applications: int
    used: list[int]
    """Sets of every point that was asked for."""

    def list_pairs(
        self, names: Sequence[str], measure: str, information: Sequence[str] = ("exact",)
    ) -> dict[tuple[str, str], dict[float, float]]:
        """By policy and information: load(pi_sys) to mean. Without those that were not run."""
        groups = self.results.groups
        here = {group[2:] for group in groups if group[:2] == (self.case, self.applications)}
        wanted = [(name, told) for name in names for told in information]
        lines: dict[tuple[str, str], dict[float, float]] = {
            which: {} for which in wanted if any(one[1:] == which for one in here)
        }
        for load in sorted({one[0] for one in here}, key=lambda at: at or 0.0):
            values = {which: self._values(load, which, measure) for which in lines}
            if len({len(one) for one in values.values()}) != 1:
                continue
            known = np.all([~np.isnan(one) for one in values.values()], axis=0)
            if known.sum() < max(1.0, MEASURED * len(known)):
                continue
            self.used.append(int(known.sum()))
            at = float(self._values(load, next(iter(lines)), "load_sys")[known].mean())
            for which, one in values.items():
                lines[which][at] = float(one[known].mean())
        return {which: line for which, line in lines.items() if line}

    def _values(self, load: float | None, which: tuple[str, str], measure: str) -> NDArray[np.float64]:
        return self.results.select_values((self.case, self.applications, load, *which), measure)

    def list_allocations(self, names: Sequence[str], measure: str) -> dict[str, dict[float, float]]:
        """The same of several allocations with the one placement."""
        lines = self.list_pairs([f"{name}+{PLACING}" for name in names], measure)
        return {name.partition("+")[0]: line for (name, _), line in lines.items()}

    def list_placed(self, allocation: str, placings: Sequence[str], measure: str) -> dict[str, dict[float, float]]:
        """The same of several placements of one allocation."""
        lines = self.list_pairs([f"{allocation}+{placing}" for placing in placings], measure)
        return {name.partition("+")[2]: line for (name, _), line in lines.items()}


Verdict = tuple[bool | None, str]
"""Whether it came out (None: nothing to tell it by), and what that rests on."""


def draw_conclusions(
    results: Results, forwarders: str, targets: str | None, applications: Sequence[int], window: str
) -> list[Conclusion]:
    """All conclusions for each number of applications. `forwarders` and `targets` (None: not run): cases of FORGE's
    curves and of the OST family."""
    out = []
    for says, figures, ask, of_targets in _ASKED:
        case = targets if of_targets else forwarders
        for k in applications:
            lines = Lines(results, case or "", k, [])
            passed, found = ask(lines)
            verdict: Literal["pass", "fail", "unknown"] = "unknown" if passed is None else "pass" if passed else "fail"
            out.append(
                Conclusion(
                    says=says,
                    applications=k,
                    window=window,
                    verdict=verdict,
                    found=found,
                    figures=figures,
                    sets=min(lines.used, default=0),
                )
            )
    return out


NOTHING: Verdict = (None, "not simulated, or too few sets could be measured")


def _best_at_low(lines: Lines) -> Verdict:
    """BestBdw's slowdown is the least at every low point."""
    found = lines.list_allocations(DETERMINED, "slowdown_mean")
    mine = found.pop("best-bandwidth", {})
    low = [load for load in mine if load <= LOW_LOAD]
    if not low or not found:
        return NOTHING
    beaten = [(load, name) for load in low for name, line in found.items() if line[load] < mine[load] * (1 - ALIKE)]
    worst = max((mine[load] / found[name][load] - 1, load, name) for load in low for name in found)
    if not beaten:
        return True, f"least at {len(low)} of {len(low)} points up to {LOW_LOAD:g}"
    at = len({load for load, _ in beaten})
    return False, f"beaten at {at} of {len(low)} points, most by {NAMES[worst[2]]} at {worst[1]:.2f}: {worst[0]:+.0%}"


def _equal_at_low(lines: Lines) -> Verdict:
    """TCPU's slowdown is BestBdw's at every low point."""
    found = lines.list_allocations(["tcpu", "best-bandwidth"], "slowdown_mean")
    if len(found) < 2:
        return NOTHING
    low = [load for load in found["tcpu"] if load <= LOW_LOAD]
    if not low:
        return NOTHING
    apart = max((abs(found["tcpu"][load] / found["best-bandwidth"][load] - 1), load) for load in low)
    return apart[0] <= ALIKE, f"apart by {apart[0]:.1%} at most (at {apart[1]:.2f}), up to {LOW_LOAD:g}"


def _least_idle(lines: Lines) -> Verdict:
    """TCPU's idle time is the least at every high point."""
    found = lines.list_allocations(DETERMINED, "idle")
    mine = found.pop("tcpu", {})
    high = [load for load in mine if load >= HIGH_LOAD]
    if not high or not found:
        return NOTHING
    beaten = [load for load in high if any(line[load] < mine[load] * (1 - ALIKE) for line in found.values())]
    last = high[-1]
    name = min(found, key=lambda one: found[one][last])
    text = f"least at {len(high) - len(beaten)} of {len(high)} points from {HIGH_LOAD:g}"
    return not beaten, f"{text}; at {last:.2f} TCPU {mine[last]:.3f}, {NAMES[name]} {found[name][last]:.3f}"


def _crossing(lines: Lines) -> Verdict:
    """From some load above the low ones on Nsys slows less than BestBdw: it is not ahead from the first point on."""
    found = lines.list_allocations(["n-sys", "best-bandwidth"], "slowdown_mean")
    if len(found) < 2:
        return NOTHING
    best = found["best-bandwidth"]
    loads = sorted(best)
    ahead = [load for load in loads if all(found["n-sys"][at] < best[at] for at in loads if at >= load)]
    last = loads[-1]
    text = f"at {last:.2f} Nsys {found['n-sys'][last]:.2f}, BestBdw {best[last]:.2f}"
    if last < HIGH_LOAD:
        return NOTHING
    crosses = bool(ahead) and ahead[0] > LOW_LOAD
    return crosses, (f"from {ahead[0]:.2f} on; {text}" if ahead else f"never; {text}")


def _placements_alike(lines: Lines) -> Verdict:
    """Non-clairvoyant placement is near the clairvoyant, for every allocation and point."""
    apart = []
    for name in ("best-bandwidth", "n-sys", "tcpu"):
        found = lines.list_placed(name, (PLACING, BLIND), "slowdown_mean")
        if len(found) == 2:
            apart += [(found[BLIND][load] / seeing - 1, load, name) for load, seeing in found[PLACING].items()]
    if not apart:
        return NOTHING
    most = max(apart, key=lambda one: abs(one[0]))
    mean = fmean(abs(one[0]) for one in apart)
    return abs(most[0]) <= NEAR, (
        f"apart by {mean:.1%} in the mean, at most {most[0]:+.1%} ({NAMES[most[2]]} at {most[1]:.2f})"
    )


def _better_than_random(lines: Lines) -> Verdict:
    """Both greedy placements slow less than the random one, for every allocation and point."""
    gains = []
    for name in ("best-bandwidth", "n-sys", "tcpu"):
        for placing in (PLACING, BLIND):
            found = lines.list_placed(name, (placing, "random"), "slowdown_mean")
            if len(found) == 2:
                gains += [(found[placing][load] / chance - 1, load) for load, chance in found["random"].items()]
    if not gains:
        return NOTHING
    worse = sum(gain >= 0 for gain, _ in gains)
    mean = fmean(gain for gain, _ in gains)
    return not worse, f"{mean:+.0%} slowdown in the mean, better in {len(gains) - worse} of {len(gains)} comparisons"


def _mckp_worst(lines: Lines) -> Verdict:
    """MCKP's slowdown is the largest among the non-random, in the mean over all points."""
    found = lines.list_allocations(DETERMINED, "slowdown_mean")
    if "mckp" not in found or len(found) < 2:
        return NOTHING
    mine = found.pop("mckp")
    worst = [load for load in mine if all(line[load] <= mine[load] for line in found.values())]
    means = {name: fmean(line.values()) for name, line in found.items()}
    name = max(means, key=lambda one: means[one])
    own = fmean(mine.values())
    text = f"MCKP {own:.2f}, {NAMES[name]} {means[name]:.2f} in the mean"
    return own >= means[name], f"{text}; worst at {len(worst)} of {len(mine)} points"


def _rank(found: dict[str, dict[float, float]], name: str, loads: Sequence[float]) -> float:
    """Mean place of an allocation among all, 1 the least."""
    return fmean(1 + sum(line[at] < found[name][at] * (1 - ALIKE) for line in found.values()) for at in loads)


def _static_idle(lines: Lines) -> Verdict:
    """Static is among the best two on idle time at high load."""
    found = lines.list_allocations(DETERMINED, "idle")
    high = [load for load in found.get("static", {}) if load >= HIGH_LOAD]
    if not high or len(found) <= STRONG:
        return NOTHING
    rank = _rank(found, "static", high)
    order = sorted(found, key=lambda one: fmean(found[one][at] for at in high))
    shown = ", ".join(f"{NAMES[one]} {fmean(found[one][at] for at in high):.3f}" for one in order)
    return rank <= STRONG, f"mean place {rank:.1f} of {len(found)} from {HIGH_LOAD:g} on ({shown})"


def _static_targets(lines: Lines) -> Verdict:
    """Static is among the best two on slowdown over all points, with the curves of OSTs."""
    found = lines.list_allocations(DETERMINED, "slowdown_mean")
    if "static" not in found or len(found) <= STRONG:
        return NOTHING
    loads = list(found["static"])
    rank = _rank(found, "static", loads)
    order = sorted(found, key=lambda one: fmean(found[one].values()))
    shown = ", ".join(f"{NAMES[one]} {fmean(found[one].values()):.2f}" for one in order)
    return rank <= STRONG, f"mean place {rank:.1f} of {len(found)} ({shown})"


def _inaccurate(lines: Lines) -> Verdict:
    """Class-mean curves cost TCPU no more than 4 % of slowdown at any point."""
    return _cost_of_class_means(lines, "slowdown_mean")


def _inaccurate_idle(lines: Lines) -> Verdict:
    """Class-mean curves cost TCPU no more than 4 % of machine idle time, which is what it is after, at any point."""
    return _cost_of_class_means(lines, "idle")


def _cost_of_class_means(lines: Lines, measure: str) -> Verdict:
    found = list(lines.list_pairs([f"tcpu+{PLACING}"], measure, ("exact", "class-mean")).values())
    if len(found) < 2:
        return NOTHING
    exact, told = found
    costs = [(told[load] / value - 1, load) for load, value in exact.items() if value > 0]
    if not costs:
        return NOTHING
    most = max(costs)
    text = f"{fmean(cost for cost, _ in costs):+.1%} in the mean, at most {most[0]:+.1%} (at {most[1]:.2f})"
    if measure == "idle":
        points = [(told[load] - value, load) for load, value in exact.items()]
        text += f"; of the whole machine {fmean(p for p, _ in points):+.1%}, at most {max(points)[0]:+.1%}"
    return most[0] <= INACCURATE, text


_ASKED: tuple[tuple[str, tuple[int, ...], Callable[[Lines], Verdict], bool], ...] = (
    ("BestBdw slows least at low load", (7,), _best_at_low, False),
    ("TCPU equals BestBdw at low load", (7,), _equal_at_low, False),
    ("TCPU wins idle time at high load", (9,), _least_idle, False),
    ("Nsys crosses BestBdw at high load", (7,), _crossing, False),
    ("Greedy-NC is near Greedy-C", (6,), _placements_alike, False),
    ("Both greedy beat Random placement", (6,), _better_than_random, False),
    ("MCKP slows most of the non-random", (7,), _mckp_worst, False),
    ("Static strong on idle time at high load", (9,), _static_idle, False),
    ("Static strong for OSTs", (13,), _static_targets, True),
    ("Inaccurate input: TCPU slows <= 4 % more", (12,), _inaccurate, False),
    ("Inaccurate input: TCPU idles <= 4 % more", (12,), _inaccurate_idle, False),
)
"""Sentence, figures, question, whether it is asked of OSTs."""

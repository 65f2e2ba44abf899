"""Sunway's pools of targets (Chen et al., JCST 2020): files placed by max_perf / (open count + 1), written at once.

The real rules of placement choose, the fluid engine writes; a target's token bucket is its capacity. Table 3 is the
paper's own setting; what its Figures 7 to 9 show is reproduced in kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.decide.policies.placement.files import LeastOpen, Placement, RoundRobin, TargetState, WeightedRandom
from fairlead.decide.sim.engine import Engine, Phases
from fairlead.decide.sim.experiments.papers import Line, PaperReport

F64 = NDArray[np.float64]
MAX_PERF_MB = (500.0, 300.0, 500.0, 200.0, 300.0, 100.0, 500.0, 200.0)
"""Of the eight targets, MB/s."""
FILE_MB = 1024.0
TABLE_3 = ((100, 2473.0), (200, 2534.0), (400, 2563.0), (600, 2545.0), (800, 2555.0), (1000, 2552.0))
"""Files written at once and the bandwidth of all, MB/s."""
BUSY, ARRIVING = (0.25, 0.9), 400
"""Loads of the pool, and files, where they come one after the other."""
RULES: dict[str, Callable[[int], Placement]] = {
    "round-robin": RoundRobin,
    "weighted-random": WeightedRandom,
    "least-open": LeastOpen,
}


@dataclass(frozen=True, kw_only=True)
class FileWrites:
    """What came of N files: `target`, `opened_s` and `closed_s` (N,), seconds."""

    target: NDArray[np.int64]
    opened_s: F64
    closed_s: F64

    @property
    def total_s(self) -> float:
        """From the first opening to the last closing."""
        return float(self.closed_s.max() - self.opened_s.min())

    @property
    def bandwidth(self) -> float:
        """MB/s of all."""
        return len(self.target) * FILE_MB / self.total_s


def simulate_sunway_writes(
    rule: Placement,
    files: int,
    *,
    apart_s: float = 0.0,
    capacity: tuple[float, ...] = MAX_PERF_MB,
    told: tuple[float, ...] = MAX_PERF_MB,
    overload: tuple[float, ...] = (0.0,) * len(MAX_PERF_MB),
) -> FileWrites:
    """Opens a file of 1 GB every `apart_s` seconds (0: all at once), writes it, closes it. The rule sees the `told`
    performance of targets, how many files are open on each at that moment, and the `overload` measured on it; targets
    serve at `capacity`."""
    engine = Engine(capacity)
    states = [TargetState(performance=p, overload=o) for p, o in zip(told, overload, strict=True)]
    target = np.zeros(files, np.int64)
    open_files = np.zeros(len(states), np.int64)
    counted = np.zeros(files, np.bool_)
    for i in range(files):
        if apart_s and i:
            engine.run(i * apart_s)
            ended = ~np.isnan(engine.read_times()[1]) & ~counted[:i]
            counted[:i] |= ended
            open_files -= np.bincount(target[:i][ended], minlength=len(states))
        seen = [state._replace(open_files=int(n)) for state, n in zip(states, open_files, strict=True)]
        target[i] = rule.place(1, seen)[0]
        open_files[target[i]] += 1
        if apart_s:
            engine.add(_flows(target[i : i + 1], i * apart_s))
    if not apart_s:
        engine.add(_flows(target, 0.0))
    engine.run()
    opened_s, closed_s = engine.read_times()
    return FileWrites(target=target, opened_s=opened_s, closed_s=closed_s)


def _flows(target: NDArray[np.int64], now_s: float) -> Phases:
    """A file on each of these targets, all beginning now."""
    n = len(target)
    return Phases(
        after=np.full(n, -1, np.int32),
        delay_s=np.full(n, now_s),
        phase=np.arange(n, dtype=np.int32),
        amount=np.full(n, FILE_MB),
        weight=np.ones(n),
        cap=np.full(n, np.inf),
        crosses=target.astype(np.int32)[:, None],
        cost=np.ones((n, 1)),
    )


def _build_table_3() -> list[Line]:
    """The paper's table, and how long round robin takes beside it."""
    lines = []
    for files, published in TABLE_3:
        within = 0.03 if files >= 200 else None
        found = simulate_sunway_writes(LeastOpen(), files).bandwidth
        lines.append(Line(f"Table 3, {files} files at once", "all targets", found, published, within, "MB/s"))
    return lines


def _compare_round_robin(seed: int) -> list[Line]:
    """In kind as Figure 7: time until all files are written, by rule."""
    lines = []
    for files in (80, 160, 400):
        times = {name: simulate_sunway_writes(made(seed), files).total_s for name, made in RULES.items()}
        setting = f"{files} files at once"
        lines += [Line(setting, f"{name}, until the last", value, unit="s") for name, value in times.items()]
        lines.append(
            Line(
                setting,
                "round-robin over least-open, time",
                times["round-robin"] / times["least-open"],
                wanted=">= 3" if files == 160 else "",
            )
        )
    return lines


def _compare_arrivals(seed: int) -> list[Line]:
    """In kind as Figure 8: files come and go; how long a file takes. At a load of 0.9 the slowest target gets more from
    round robin than it can write, and never catches up."""
    lines = []
    for load in BUSY:
        setting = f"{ARRIVING} files one after the other, load {load:g}"
        mean = {}
        for name, made in RULES.items():
            found = simulate_sunway_writes(made(seed), ARRIVING, apart_s=FILE_MB / (load * sum(MAX_PERF_MB)))
            took = found.closed_s - found.opened_s
            mean[name] = float(took.mean())
            lines += [
                Line(setting, f"{name}, mean time of a file", mean[name], unit="s"),
                Line(setting, f"{name}, 95th percentile", float(np.percentile(took, 95)), unit="s"),
            ]
        gain = mean["round-robin"] / mean["least-open"]
        lines.append(Line(setting, "round-robin over least-open, mean", gain, wanted="> 1"))
    return lines


def _compare_overload(seed: int, files: int) -> list[Line]:
    """In kind as Figure 9: others take a part of three targets. Their load is measured as `overload`; the rule counts
    it as a penalty or it does not; round robin and the told performance know nothing of it."""
    left = np.array([0.3, 1.0, 0.3, 1.0, 1.0, 1.0, 0.5, 1.0])
    capacity = tuple((np.array(MAX_PERF_MB) * left).tolist())
    overload = tuple((1.0 / left - 1.0).tolist())
    setting = f"{files} files at once, three targets busy with others"
    rules: dict[str, Placement] = {
        "round-robin": RoundRobin(seed),
        "least-open without penalty": LeastOpen(penalty=0.0),
        "least-open with penalty": LeastOpen(penalty=1.0),
    }
    times = {
        name: simulate_sunway_writes(rule, files, capacity=capacity, overload=overload).total_s
        for name, rule in rules.items()
    }
    lines = [Line(setting, f"{name}, until the last", value, unit="s") for name, value in times.items()]
    gain = times["least-open without penalty"] / times["least-open with penalty"]
    return [*lines, Line(setting, "without over with penalty, time", gain, wanted="> 1.5")]


def compare_sunway(*, seed: int, quick: bool, tell: Callable[[int, int], None]) -> PaperReport:  # noqa: ARG001
    """Table 3, and Figures 7 to 9 in kind. See `papers.Compares`."""
    lines: list[Line] = []
    parts: list[Callable[[], list[Line]]] = [
        _build_table_3,
        lambda: _compare_round_robin(seed),
        lambda: _compare_arrivals(seed),
        lambda: _compare_overload(seed, 160),
    ]
    for done, part in enumerate(parts):
        lines += part()
        tell(done + 1, len(parts))
    return PaperReport(
        paper="sunway",
        source="Chen et al., JCST 2020, Table 3",
        lines=tuple(lines),
        notes=(
            "8 targets of 500, 300, 500, 200, 300, 100, 500, 200 MB/s (2,600 in all), files of 1,024 MB.",
            "Figures 7 to 9 are reproduced in kind: files, load and what others take are our setting.",
        ),
    )

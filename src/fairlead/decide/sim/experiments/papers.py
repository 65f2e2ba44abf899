"""Experiments of other papers by name: what each tells, and how what was simulated stands beside what was published.

Not here: the experiments (a module each), running them (`fairlead.decide.sim.runs`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

import msgspec

_SIGNS = (">=", "<=", ">", "<")


class Line(msgspec.Struct, frozen=True, kw_only=False, forbid_unknown_fields=True):
    """One figure: `measure` in `setting`, simulated as `value` (None: not known). `published` is the paper's figure;
    with `within` (a share) the value has to lie that near it. `wanted` is a bound instead, as `>= 3`."""

    setting: str
    measure: str
    value: float | None
    published: float | None = None
    within: float | None = None
    unit: str = ""
    note: str = ""
    wanted: str = ""

    @property
    def held(self) -> bool | None:
        """Whether it is as near as wanted; None where nothing is wanted or the value is not known."""
        if self.value is None:
            return None
        if self.wanted:
            sign = next(s for s in _SIGNS if self.wanted.startswith(s))
            bound = float(self.wanted.removeprefix(sign))
            return {
                ">=": self.value >= bound,
                "<=": self.value <= bound,
                ">": self.value > bound,
                "<": self.value < bound,
            }[sign]
        if self.published is None or self.within is None:
            return None
        return abs(self.value - self.published) <= self.within * abs(self.published)


class PaperReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an experiment of a paper tells: `lines` in order, `notes` on what could not be done as published."""

    schema: str = "fairlead.simulated-paper/1"
    paper: str
    source: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()


class Compares(Protocol):
    """What a paper's experiment is: a pure function. `tell` hears of pieces done and pieces in all; `quick`: fewer
    repetitions."""

    def __call__(self, *, seed: int, quick: bool, tell: Callable[[int, int], None]) -> PaperReport:
        """Runs it."""
        ...


@dataclass(frozen=True)
class Paper:
    """An experiment: its source, what it shows, and where its function is (`module:name`)."""

    source: str
    summary: str
    target: str

    def load_comparison(self) -> Compares:
        """The function, imported now."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)  # type: ignore[no-any-return]


STUDY = "scheduling-study"
"""The scheduling study has figures instead: see `study`."""
OURS = "ours"
"""A ready spec: our policies beside the published ones (`study.ours`)."""
PAPERS: dict[str, Paper] = {
    "mckp": Paper(
        "Bez et al., IPDPS 2021",
        "MCKP against STATIC, SIZE, PROCESS and ORACLE for forwarders",
        "fairlead.decide.sim.experiments.mckp:compare_mckp",
    ),
    "sunway": Paper(
        "Chen et al., JCST 2020",
        "load-aware OST pools: Table 3, Figures 7 to 9",
        "fairlead.decide.sim.experiments.sunway:compare_sunway",
    ),
    "set-10": Paper(
        "Boito et al., TPDS 2023",
        "IO-SETS: Set-10 against fair share and exclusive access",
        "fairlead.decide.sim.experiments.set10:compare_set10",
    ),
    "dfra": Paper(
        "Ji et al., FAST 2019",
        "static against dynamic forwarding on a month like TaihuLight's",
        "fairlead.decide.sim.experiments.dfra:compare_dfra",
    ),
}
"""By the name `fairlead simulate` takes."""

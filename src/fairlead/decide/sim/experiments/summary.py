"""Rows of results by point: means over sets and the band from the 10th to the 90th percentile, as lines over the load.

Not here: what follows of them (`conclusions`), drawing them (`fairlead.show.report.simulation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from fairlead.decide.sim.experiments.cases import MEASURES, Row

F64 = NDArray[np.float64]
LOW, HIGH = 10, 90
"""Percentiles of the band."""
Group = tuple[str, int, float | None, str, str]
"""Case, applications, load, policy, information."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One point of a line. `load_sys`: mean load(pi_sys) of its sets (None: a replay); `mean`, `low`, `high` over
    them (None: nothing could be measured); `sets`: how many could."""

    load: float | None
    load_sys: float | None
    mean: float | None
    low: float | None
    high: float | None
    sets: int


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """One line: a measure of a policy over the load."""

    applications: int
    policy: str
    information: str
    measure: str
    points: list[Point]


@dataclass(frozen=True)
class Results:
    """Rows by column, and where those of each group are. NaN stands for what could not be measured."""

    columns: Mapping[str, F64]
    groups: Mapping[Group, NDArray[np.int64]]

    @staticmethod
    def from_columns(names: Sequence[Group], columns: Mapping[str, F64]) -> Results:
        """From the group of every row and the columns of numbers."""
        where: dict[Group, list[int]] = {}
        for number, group in enumerate(names):
            where.setdefault(group, []).append(number)
        return Results(columns, {group: np.array(rows, np.int64) for group, rows in where.items()})

    @staticmethod
    def from_rows(rows: Iterable[Row]) -> Results:
        """From rows as they are made."""
        listed = sorted(
            rows, key=lambda r: (r.case_id, r.applications, r.load or 0.0, r.policy, r.information, r.set_number)
        )
        columns = {
            name: np.array([_number(getattr(row, name)) for row in listed], np.float64)
            for name in (*MEASURES, "load_sys")
        }
        return Results.from_columns(
            [(r.case_id, r.applications, r.load, r.policy, r.information) for r in listed], columns
        )

    def select_values(self, group: Group, measure: str) -> F64:
        """A measure of all sets of a group, in order; empty where there is none."""
        rows = self.groups.get(group)
        return np.zeros(0) if rows is None else self.columns[measure][rows]

    def compute_point(self, group: Group, measure: str) -> Point | None:
        """Mean and band of a group; None where it was not run."""
        values, load = self.select_values(group, measure), self.select_values(group, "load_sys")
        if not len(values):
            return None
        known = values[~np.isnan(values)]
        low, high = np.percentile(known, (LOW, HIGH)) if len(known) else (np.nan, np.nan)
        return Point(
            load=group[2],
            load_sys=None if np.isnan(load).any() else float(load.mean()),
            mean=float(known.mean()) if len(known) else None,
            low=float(low) if len(known) else None,
            high=float(high) if len(known) else None,
            sets=len(known),
        )

    def build_course(
        self, case: str, applications: int, policy: str, measure: str, information: str = "exact"
    ) -> Course:
        """The line of a policy, by rising load; empty where it was not run."""
        loads = sorted(
            {g[2] for g in self.groups if (g[0], g[1], *g[3:]) == (case, applications, policy, information)},
            key=lambda load: load or 0.0,
        )
        found = [self.compute_point((case, applications, load, policy, information), measure) for load in loads]
        return Course(
            applications=applications,
            policy=policy,
            information=information,
            measure=measure,
            points=[one for one in found if one is not None],
        )


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)

"""What predictors of the next run are told and answer: behaviours of ended runs by category in, the next one out.

A category is (user, program, scale), as in AIOT (Yang et al., IPDPS 2022); a behaviour is a number that means something
in its category only (`behaviours`). Not here: the figures that follow from a behaviour (`expectation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Category = tuple[str, str, int]
"""User, program, scale: nodes rounded to a power of two."""


@dataclass(frozen=True)
class Run:
    """One run of a category: its behaviour, known from `end_s` on."""

    category: Category
    behaviour: int
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Prediction:
    """The behaviour expected of the next run, None where no run of the category is known. `sure`: how often the
    predictor expects to be right, 0 to 1; `basis` in words."""

    behaviour: int | None
    sure: float
    basis: str


NOTHING = Prediction(None, 0.0, "never seen")


class Predictor(Protocol):
    """Learns as runs end. The same observations in the same order give the same predictions."""

    def observe(self, category: Category, behaviours: Sequence[int]) -> None:
        """Runs of a category have ended, in this order."""
        ...

    def predict(self, category: Category) -> Prediction:
        """What its next run will be. Changes nothing."""
        ...

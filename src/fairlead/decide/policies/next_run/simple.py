"""The two simplest predictors: the last run again (as DFRA does, Ji et al., FAST 2019), and the commonest so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fairlead.decide.policies.next_run.contract import NOTHING, Category, Prediction


class LastRun:
    """The next run is like the last one that ended. State: the last behaviour, and how often it came again."""

    def __init__(self) -> None:
        self._last: dict[Category, int] = {}
        self._again: dict[Category, tuple[int, int]] = {}

    def observe(self, category: Category, behaviours: Sequence[int]) -> None:
        """See `Predictor`."""
        for one in behaviours:
            if category in self._last:
                same, of = self._again.get(category, (0, 0))
                self._again[category] = same + (self._last[category] == one), of + 1
            self._last[category] = int(one)

    def predict(self, category: Category) -> Prediction:
        """See `Predictor`."""
        if category not in self._last:
            return NOTHING
        same, of = self._again.get(category, (0, 0))
        told = f"as the last run, which {same} of {of} were" if of else "as the only run"
        return Prediction(self._last[category], (same + 1) / (of + 2), told)


class MostFrequent:
    """The next run is what most runs of the category were; of equally many the one seen last."""

    def __init__(self) -> None:
        self._count: dict[Category, Counter[int]] = {}
        self._last: dict[Category, dict[int, int]] = {}

    def observe(self, category: Category, behaviours: Sequence[int]) -> None:
        """See `Predictor`."""
        count = self._count.setdefault(category, Counter())
        last = self._last.setdefault(category, {})
        for one in behaviours:
            count[int(one)] += 1
            last[int(one)] = count.total()

    def predict(self, category: Category) -> Prediction:
        """See `Predictor`."""
        count = self._count.get(category)
        if not count:
            return NOTHING
        last = self._last[category]
        best = max(count, key=lambda one: (count[one], last[one]))
        total = count.total()
        return Prediction(best, (count[best] + 1) / (total + 2), f"the commonest, {count[best]} of {total} runs")

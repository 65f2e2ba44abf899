"""A learned predictor: boosted trees judge each behaviour of the category as a candidate for the next run.

The model sees neither names nor numbers of behaviours, only how a candidate lies in the sequence (how long ago, how
often, what followed this context): what one category teaches serves all, new ones too. It learns from ended runs only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.decide.policies.next_run.contract import NOTHING, Category, Prediction
from fairlead.decide.policies.next_run.ngram import AGAIN, NGram

F32 = NDArray[np.float32]
CANDIDATES = 8
"""Behaviours seen last that are judged."""
LEAST_ROWS = 400
"""Rows (run x candidate) before anything is learned: until then the n-gram answers."""
GROWTH = 1.4
"""The model is fitted anew when there are so many times as many rows."""
MOST_ROWS = 20_000
"""Of more, the latest are learned from."""
LOOK_BACK = 96
"""Runs among which the longest repetition of the last runs is looked for ..."""
LONGEST = 16
"""... and how long one counts."""
FEATURES = 19
UNKNOWN = -99.0
"""What stands for a figure that is not known: trees split it off like any value."""


class LearnedPredictor:
    """State: sequences by category, rows to learn from, the model. Deterministic: one thread, a fixed seed."""

    def __init__(self, trees: int = 80, leaves: int = 8) -> None:
        self.trees, self.leaves = trees, leaves
        self._grams = NGram()
        self._runs: dict[Category, list[int]] = {}
        self._marks: dict[Category, _Marks] = {}
        self._rows: list[F32] = []
        self._right: list[bool] = []
        self._fit_at = LEAST_ROWS
        self._seen = 0
        self._model: Any = None

    def observe(self, category: Category, behaviours: Sequence[int]) -> None:
        """See `Predictor`. Fits the model anew now and then (0.2 s for 20,000 rows)."""
        runs = self._runs.setdefault(category, [])
        marks = self._marks.setdefault(category, _Marks())
        for behaviour in behaviours:
            one = int(behaviour)
            if len(marks.last) > 1:
                candidates, rows = self._judged(category)
                self._rows.extend(rows)
                self._right.extend(candidate == one for candidate in candidates)
                self._seen += len(candidates)
            runs.append(one)
            marks.take(one, len(runs))
            self._grams.observe(category, (one,))
        if self._seen >= self._fit_at and any(self._right) and not all(self._right):
            self._fit()

    def predict(self, category: Category) -> Prediction:
        """See `Predictor`."""
        runs = self._runs.get(category)
        if not runs:
            return NOTHING
        if self._model is None or len(self._marks[category].last) == 1:
            return self._grams.predict(category)
        candidates, rows = self._judged(category)
        with _one_thread():
            share = self._model.predict_proba(np.stack(rows))[:, 1]
        best = int(np.argmax(share))
        return Prediction(
            candidates[best], float(share[best]), f"learned from {self._seen} rows, {len(runs)} runs of its own"
        )

    def _fit(self) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier

        del self._rows[:-MOST_ROWS], self._right[:-MOST_ROWS]
        model = HistGradientBoostingClassifier(
            max_iter=self.trees,
            max_leaf_nodes=self.leaves,
            learning_rate=0.05,
            min_samples_leaf=40,
            early_stopping=False,
            random_state=0,
        )
        with _one_thread():
            self._model = model.fit(np.stack(self._rows), np.array(self._right))
        self._fit_at = math.ceil(self._seen * GROWTH)

    def _judged(self, category: Category) -> tuple[list[int], list[F32]]:
        """Candidates, the one seen last first, and what the model sees of each (FEATURES,)."""
        runs, marks = self._runs[category], self._marks[category]
        candidates = sorted(marks.last, key=marks.last.__getitem__, reverse=True)[:CANDIDATES]
        contexts = self._grams.list_contexts(category)
        totals = [after.total() for after in contexts]
        repeated = _repeats(runs)
        now = len(runs)
        last = runs[-1]
        weight = sum(marks.recency(one, now) for one in marks.last)
        again, guess = self._grams.record(category, AGAIN), self._grams.predict(category)
        rows = []
        for one in candidates:
            ago = now - marks.last[one]
            row = [
                float(one == last),
                math.log2(1 + ago),
                marks.count[one] / now,
                marks.recency(one, now) / weight,
                float(marks.streak),
                float(marks.streak - marks.usual_streak.get(last, math.nan)),
                float(ago - marks.gap.get(one, math.nan)),
                float(repeated.get(one, 0)),
                float(max(repeated.values(), default=0)),
                math.log2(now),
                math.log2(len(marks.last)),
            ]
            row += [contexts[n][one] / totals[n] if n < len(contexts) else math.nan for n in range(1, 5)]
            row.append(math.log2(totals[-1]) if len(totals) > 1 else math.nan)
            row += [again, float(one == guess.behaviour), guess.sure]
            rows.append(np.nan_to_num(np.array(row, np.float32), nan=UNKNOWN))
        return candidates, rows


@cache
def _pools() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _one_thread() -> AbstractContextManager[object]:
    """Rows are few: more threads cost more than they give, and results would depend on them."""
    limited: AbstractContextManager[object] = _pools().limit(limits=1)
    return limited


class _Marks:
    """Of one category: when each behaviour was seen last, how often, after what gap; how long it came in a row."""

    DECAY = 0.8

    def __init__(self) -> None:
        self.last: dict[int, int] = {}
        self.count: dict[int, int] = {}
        self.gap: dict[int, int] = {}
        self.usual_streak: dict[int, int] = {}
        self.streak = 0
        self._now: int | None = None
        self._recent: dict[int, float] = {}

    def take(self, one: int, place: int) -> None:
        """Run number `place` (from 1) was `one`."""
        if one in self.last:
            self.gap[one] = place - self.last[one]
        self._recent[one] = self.recency(one, place) + 1.0
        self.last[one] = place
        self.count[one] = self.count.get(one, 0) + 1
        if one == self._now:
            self.streak += 1
        else:
            if self._now is not None:
                self.usual_streak[self._now] = self.streak
            self._now, self.streak = one, 1

    def recency(self, one: int, now: int) -> float:
        """Times it was seen, each weighed down by DECAY for every run since."""
        if one not in self.last:
            return 0.0
        return float(self._recent[one] * self.DECAY ** (now - self.last[one]))


def _repeats(runs: list[int]) -> dict[int, int]:
    """By behaviour: the longest end of the sequence that came before and was followed by it."""
    found: dict[int, int] = {}
    end = len(runs)
    for at in range(max(end - LOOK_BACK, 1), end):
        if runs[at - 1] != runs[-1]:
            continue
        length = 1
        while length < LONGEST and at - 1 - length >= 0 and runs[at - 1 - length] == runs[end - 1 - length]:
            length += 1
        if length > found.get(runs[at], 0):
            found[runs[at]] = length
    return found

"""A Markov chain of several orders over the behaviours of a category; which order speaks is told by its own record.

What followed the last runs before follows again. Long contexts are right where runs come in patterns, short ones where
they do not; each is asked about every run that ends, and the one that was right most often lately decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fairlead.decide.policies.next_run.contract import NOTHING, Category, Prediction

ORDERS = 6
AGAIN = -1
"""The order that says: the last run again."""
DECAY = 0.9
"""What a right answer counts less with every further run of the category."""
PRIOR = 1.0
"""Runs that every order is taken to have been right and wrong in before the first."""
Context = tuple[int, ...]


class NGram:
    """State, by category: what followed each context of up to `orders` behaviours, and how often each order was right.
    O(orders) a run."""

    def __init__(self, orders: int = ORDERS) -> None:
        self.orders = orders
        self.recent: dict[Category, Context] = {}
        self.followed: dict[Category, dict[Context, Counter[int]]] = {}
        self._seen: dict[Category, dict[int, int]] = {}
        self._record: dict[Category, dict[int, tuple[float, float]]] = {}

    def observe(self, category: Category, behaviours: Sequence[int]) -> None:
        """See `Predictor`."""
        followed = self.followed.setdefault(category, {})
        seen = self._seen.setdefault(category, {})
        record = self._record.setdefault(category, {})
        for behaviour in behaviours:
            one = int(behaviour)
            for order, (said, _) in self._answers(category).items():
                right, asked = record.get(order, (0.0, 0.0))
                record[order] = right * DECAY + (said == one), asked * DECAY + 1.0
            recent = self.recent.get(category, ())
            for order in range(min(self.orders, len(recent)) + 1):
                followed.setdefault(recent[len(recent) - order :], Counter())[one] += 1
            self.recent[category] = (*recent, one)[-self.orders :]
            seen[one] = max(seen.values(), default=0) + 1

    def list_contexts(self, category: Category) -> list[Counter[int]]:
        """What followed the present context of 0, 1, 2, ... runs; shorter than `orders` where longer ones are new."""
        followed, recent = self.followed.get(category, {}), self.recent.get(category, ())
        found = []
        for order in range(min(self.orders, len(recent)) + 1):
            after = followed.get(recent[len(recent) - order :])
            if after is None:
                break
            found.append(after)
        return found

    def record(self, category: Category, order: int) -> float:
        """How often an order was right lately, 0 to 1."""
        right, asked = self._record.get(category, {}).get(order, (0.0, 0.0))
        return (right + PRIOR) / (asked + 2 * PRIOR)

    def _answers(self, category: Category) -> dict[int, tuple[int, str]]:
        """What each order says comes next, and why; of equally frequent ones the one seen last."""
        recent = self.recent.get(category, ())
        if not recent:
            return {}
        seen = self._seen[category]
        found = {AGAIN: (recent[-1], "as the last run")}
        for order, after in enumerate(self.list_contexts(category)):
            one = max(after, key=lambda one: (after[one], seen[one]))
            told = f"after the last {order} runs" if order else "of all runs"
            found[order] = one, f"{after[one]} of {after.total()} times {told}"
        return found

    def predict(self, category: Category) -> Prediction:
        """See `Predictor`. Of orders with an equal record the longest decides."""
        answers = self._answers(category)
        if not answers:
            return NOTHING
        order = max(answers, key=lambda order: (self.record(category, order), order))
        return Prediction(answers[order][0], self.record(category, order), answers[order][1])

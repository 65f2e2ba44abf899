"""A Markov chain of several orders over the behaviours of a category, with back-off to shorter contexts.

What followed the last runs before follows again. The context that is surest of what comes next decides, so that a long
one seen once does not outweigh a short one seen a hundred times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fairlead.policies.next_run.contract import NOTHING, Category, Prediction

ORDERS = 6
Context = tuple[int, ...]


class NGram:
    """State: what followed each context of up to `orders` behaviours, by category. O(orders) a run."""

    def __init__(self, orders: int = ORDERS) -> None:
        self.orders = orders
        self.recent: dict[Category, Context] = {}
        self.followed: dict[Category, dict[Context, Counter[int]]] = {}
        self._seen: dict[Category, dict[int, int]] = {}

    def observe(self, category: Category, behaviours: Sequence[int]) -> None:
        """See `Predictor`."""
        followed = self.followed.setdefault(category, {})
        seen = self._seen.setdefault(category, {})
        recent = self.recent.get(category, ())
        for behaviour in behaviours:
            one = int(behaviour)
            for order in range(min(self.orders, len(recent)) + 1):
                followed.setdefault(recent[len(recent) - order :], Counter())[one] += 1
            recent = (*recent, one)[-self.orders :]
            seen[one] = max(seen.values(), default=0) + 1
        self.recent[category] = recent

    def contexts(self, category: Category) -> list[Counter[int]]:
        """What followed the present context of 0, 1, 2, ... runs; shorter than `orders` where longer ones are new."""
        followed, recent = self.followed.get(category, {}), self.recent.get(category, ())
        found = []
        for order in range(min(self.orders, len(recent)) + 1):
            after = followed.get(recent[len(recent) - order :])
            if after is None:
                break
            found.append(after)
        return found

    def predict(self, category: Category) -> Prediction:
        """See `Predictor`. Of contexts that are equally sure the longest decides."""
        best: Prediction = NOTHING
        seen = self._seen.get(category, {})
        for order, after in enumerate(self.contexts(category)):
            total = after.total()
            one = max(after, key=lambda one: (after[one], seen[one]))
            sure = after[one] / (total + 1)
            if sure >= best.sure:
                told = f"after the last {order} runs" if order else "of all runs"
                best = Prediction(one, sure, f"{after[one]} of {total} times {told}")
        return best

"""Faults on purpose: a tree whose calls fail or are slow at a chosen time. The same interface as the tree it wraps.

faults = Faults()
tree = faulty(tree, faults)
faults.fail("write_from", errno.ENOSPC, after=3)
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from fairlead.core.clock import sleep_s
from fairlead.steer.fs.trees.base import FileTree

_OPENING = frozenset({"open", "reopen", "create", "create_temporary"})


@dataclass
class _Plan:
    name: str
    number: int
    slow_s: float
    after: int
    times: int


class Faults:
    """What goes wrong, by the name of a call of `FileTree` or `OpenFile` (`*`: every call). Thread-safe."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        """How often each call was made."""
        self._plans: list[_Plan] = []
        self._guard = threading.Lock()

    def fail(self, name: str, number: int, *, after: int = 0, times: int = -1) -> None:
        """Calls fail with that errno: after `after` good ones, `times` times (-1: from then on)."""
        self._plans.append(_Plan(name, number, 0.0, after, times))

    def slow(self, name: str, seconds: float, *, after: int = 0, times: int = -1) -> None:
        """Calls take that much longer."""
        self._plans.append(_Plan(name, 0, seconds, after, times))

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self._plans.clear()

    def meet(self, name: str) -> None:
        """Called before a call is carried out; raises or waits as planned."""
        wait, number = 0.0, 0
        with self._guard:
            self.calls[name] += 1
            for plan in self._plans:
                if plan.name not in (name, "*") or plan.times == 0:
                    continue
                if plan.after > 0:
                    plan.after -= 1
                    continue
                plan.times -= plan.times > 0
                wait += plan.slow_s
                number = number or plan.number
        if wait:
            sleep_s(wait)
        if number:
            raise OSError(number, os.strerror(number))


class _Faulty:
    """Any object with `Faults.meet` before each of its calls."""

    def __init__(self, inner: Any, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found) or name == "close":
            return found
        return self._wrapped(name, found)

    def _wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def carry_out(*args: Any) -> Any:
            self._faults.meet(name)
            result = call(*(arg._inner if isinstance(arg, _Faulty) else arg for arg in args))
            if name not in _OPENING:
                return result
            if isinstance(result, tuple):
                return (*result[:-1], _Faulty(result[-1], self._faults))
            return _Faulty(result, self._faults)

        return carry_out


def faulty(tree: FileTree, faults: Faults) -> FileTree:
    """The tree, with faults; files it opens have them too."""
    return cast("FileTree", _Faulty(tree, faults))

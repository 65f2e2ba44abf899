"""Cutting a span into pieces of time, and the lake as a worker sees it: opened by its path, once a process.

Not here: who works on pieces (`workers`).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from fairlead.explain.questions.span import Span
from fairlead.store.lake import Lake


def split_span_into_pieces(span: Span, step_ns: int) -> list[Span]:
    """The span cut at multiples of `step_ns`. The first and last may be shorter: the same cuts whatever the span, so
    that what was done of one span is known again in another."""
    cuts = range(span.from_ns // step_ns * step_ns + step_ns, span.to_ns, step_ns)
    bounds = [span.from_ns, *cuts, span.to_ns]
    return [Span(low, high) for low, high in pairwise(bounds) if high > low]


@lru_cache(maxsize=4)
def open_piece_lake(root: str, memory: str | None) -> Lake:
    """The lake in `root`; it keeps what it learned of its files from piece to piece."""
    return Lake.open(Path(root), memory=memory)

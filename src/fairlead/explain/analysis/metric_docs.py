"""What a metric is: a named number or word, None where the trace cannot tell, with a unit and one line of meaning."""

from __future__ import annotations

from typing import Literal

Value = float | int | str | bool | None
Metrics = dict[str, tuple[str, str]]
"""Name → (unit, meaning). `{d}` in a name stands for `read` and `write`."""

Direction = Literal["read", "write"]
DIRECTIONS: tuple[Direction, Direction] = ("read", "write")


def expand_metric_docs(docs: Metrics) -> Metrics:
    """`docs` with `{d}` replaced by each direction."""
    out: Metrics = {}
    for name, (unit, text) in docs.items():
        for d in DIRECTIONS if "{d}" in name else ("",):
            out[name.replace("{d}", d)] = (unit, text)
    return out


def check_metric_docs(values: dict[str, Value], docs: Metrics, where: str) -> dict[str, Value]:
    """`values`, after holding them against `docs`: every metric is documented and every documented one is there."""
    odd = set(values) ^ set(expand_metric_docs(docs))
    if odd:
        raise AssertionError(f"{where}: metrics and their documentation differ in {sorted(odd)}")
    return values


def compute_metric_share(part: Value, whole: Value) -> float | None:
    """part / whole, None when either is unknown or the whole is nothing."""
    if part is None or whole is None or isinstance(part, str) or isinstance(whole, str) or whole == 0:
        return None
    return float(part) / float(whole)

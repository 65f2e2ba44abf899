"""Many node names as one short host list: `n[001-003,007],login1`. Not here: expanding one (the scheduler's reader)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

_NUMBERED = re.compile(r"(.*?)(\d{1,18})(\D*)$", re.DOTALL)
_UNFIT = re.compile(r"[\[\],\s]")


def fold_node_names(names: Iterable[str]) -> str:
    """The distinct names, sorted; expanding it gives them back. Names a host list cannot hold are left out."""
    numbered: dict[tuple[str, str, int], list[int]] = {}
    plain = []
    for name in sorted({n for n in names if n and not _UNFIT.search(n)}):
        match = _NUMBERED.match(name)
        if match is None:
            plain.append(name)
            continue
        before, digits, after = match.groups()
        # Padded numbers have the width of all in their range; unpadded ones may grow.
        width = len(digits) if digits.startswith("0") else 0
        numbered.setdefault((before, after, width), []).append(int(digits))
    items = list(plain)
    for (before, after, width), numbers in numbered.items():
        items.append(_item(before, after, width, sorted(numbers)))
    return ",".join(sorted(items))


def _item(before: str, after: str, width: int, numbers: list[int]) -> str:
    ranges = []
    for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        part = [number for _, number in run]
        low, high = (f"{number:0{width}d}" for number in (part[0], part[-1]))
        ranges.append(low if low == high else f"{low}-{high}")
    if len(ranges) == 1 and "-" not in ranges[0]:
        return f"{before}{ranges[0]}{after}"
    return f"{before}[{','.join(ranges)}]{after}"

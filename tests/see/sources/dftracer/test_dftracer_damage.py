"""A DFTracer trace cut at any byte, or with any byte changed, is read as far as it goes or refused clearly."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from dftracer_writing import T0_US, event, meta, read, text
from fairlead.core.errors import InputError

EVENTS = [
    meta("HH", "node1", 11),
    meta("FH", "/scratch/a.dat", 22),
    event("start", T0_US, 0, "dftracer", hhash=11),
    event("open", T0_US, hhash=11, fhash=22, ret=9),
    event("write", T0_US + 9, hhash=11, fhash=22, fd=9, ret=100),
    event("close", T0_US + 20, hhash=11, fhash=22, fd=9, ret=0),
    event("end", T0_US + 50, 0, "dftracer", hhash=11),
]
OPERATIONS = 3


def _rows(path: Path, *, compiled: bool) -> int | None:
    """Rows read, None when the trace was refused with an error that says where and what to do."""
    refused: InputError | None = None
    try:
        got = read(path, compiled=compiled)
    except InputError as error:
        refused = error
    if refused is not None:
        assert refused.where == str(path)
        assert refused.remedy
        return None
    assert all(m.where == str(path) for m in got.missing)
    if got.ops.num_rows < OPERATIONS:
        assert {"truncated", "unreadable_lines", "unfinished"} & set(got.kinds)
    return got.ops.num_rows


@pytest.mark.parametrize("compiled", [False, True], ids=["json", "compiled"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_cut_at_any_byte(tmp_path: Path, packed: bool, compiled: bool, thorough: bool) -> None:
    whole = gzip.compress(text(EVENTS)) if packed else text(EVENTS)
    path = tmp_path / "t.pfw"
    seen: list[int] = []
    for length in [*range(0, len(whole), 1 if thorough else 7), len(whole)]:
        path.write_bytes(whole[:length])
        rows = _rows(path, compiled=compiled)
        seen.append(-1 if rows is None else rows)
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (-1, OPERATIONS)
    assert set(seen) == {-1, 0, 1, 2, OPERATIONS}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_any_byte_changed(tmp_path: Path, packed: bool, thorough: bool) -> None:
    """What is read may differ, but both ways of reading agree on it and neither fails."""
    whole = gzip.compress(text(EVENTS)) if packed else text(EVENTS)
    random_ = random.Random(3)
    path = tmp_path / "t.pfw"
    for at in range(0, len(whole), 1 if thorough else 7):
        changed = bytearray(whole)
        changed[at] ^= 1 << random_.randrange(8)
        path.write_bytes(changed)
        results = []
        for compiled in (False, True):
            try:
                got = read(path, compiled=compiled)
                results.append((got.rows, got.files, got.job, got.missing))
            except InputError as error:
                results.append((type(error), str(error)))
        assert results[0] == results[1]

"""I/O mode from bytes per file, processes and who does I/O."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.explain.analysis.modes import classify_mode


def files(*nbytes: int) -> np.ndarray:
    return np.array(nbytes, np.int64)


@pytest.mark.parametrize(
    ("nbytes", "processes", "active", "mode"),
    [
        (files(), 8, 0, "none"),
        (files(0, 0), 8, None, "none"),
        (files(100), 1, 1, "1-1"),
        (files(100, 100, 100), 1, 1, "1-1"),  # one process, many files
        (files(100, 100), 64, 1, "1-1"),  # one of many processes does it all
        (files(100), 64, 64, "N-1"),
        (files(100), 64, None, "N-1"),  # who moved the bytes is unknown, but not one alone
        (files(1000, 10), 64, 64, "N-1"),  # a log file beside the shared one carries under 5 %
        (files(*[10] * 8), 8, 8, "N-N"),
        (files(*[10] * 100), 100, 100, "N-N"),  # 95 of 100 equal files carry 95 %
        (files(*[10] * 64), 1024, 64, "N-M"),  # 64 of 1,024 ranks write files of their own
        (files(*[10] * 2), 8, 8, "N-M"),
        (files(*[10] * 500), 8, 8, "N-N"),  # many files per process
    ],
)
def test_mode(nbytes: np.ndarray, processes: int, active: int | None, mode: str) -> None:
    assert classify_mode(nbytes, processes, active)[0] == mode


def test_files_that_carry_the_bytes() -> None:
    assert classify_mode(files(90, 5, 5), 4, 4) == ("N-M", 2)

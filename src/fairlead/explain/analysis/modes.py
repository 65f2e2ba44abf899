"""The I/O mode of a job: who touches which file, for reads and writes apart (Beacon, TOS 2023, section 4).

N is all processes of the job. One process doing I/O is 1-1, however many files it has. M is the number of files that
carry 95 % of the bytes: one is N-1, fewer than the processes N-M, else N-N. As M leaves 5 % of the bytes out, it is
held against 95 % of N: a hundred processes with a hundred equal files are N-N though 95 files carry 95 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairlead.explain.analysis.counters import LOWEST, BoolArray, Counters, IntArray
from fairlead.explain.analysis.job_view import JobView
from fairlead.explain.analysis.timeline import sum_timeline_by_rank

Mode = Literal["N-N", "N-M", "N-1", "1-1", "none"]
CARRYING_SHARE = 0.95


@dataclass(frozen=True)
class DirectionMode:
    """Mode of one direction. `processes` is None when only a lower bound (`processes_at_least`) is known."""

    mode: Mode
    files: int
    processes: int | None
    processes_at_least: int


def classify_mode(nbytes_by_file: IntArray, processes: int, processes_doing_io: int | None) -> tuple[Mode, int]:
    """Mode and M from the bytes per file, the job's processes and how many of them do I/O (None: more than one)."""
    total = int(nbytes_by_file.sum())
    if total <= 0:
        return "none", 0
    ordered = np.sort(nbytes_by_file)[::-1]
    carrying = int(np.searchsorted(np.cumsum(ordered), CARRYING_SHARE * total, side="left")) + 1
    if processes == 1 or processes_doing_io == 1:
        return "1-1", carrying
    if carrying == 1:
        return "N-1", carrying
    return ("N-M" if carrying < math.ceil(CARRYING_SHARE * processes) else "N-N"), carrying


def compute_direction_mode(
    view: JobView, direction: Literal["read", "write"], interfaces: tuple[str, ...] = LOWEST
) -> DirectionMode:
    """Mode of one direction at these interfaces (lowest by default, `("MPI-IO",)` for the layer above)."""
    counters = view.counters
    rows = counters.select_rows(*interfaces)
    moved = counters.read_ints("bytes_read" if direction == "read" else "bytes_written")
    rows = rows & (moved > 0)
    if not rows.any():
        return DirectionMode("none", 0, 0, 0)
    _, inverse = np.unique(counters.file_id[rows], return_inverse=True)
    per_file = np.bincount(inverse.reshape(-1), weights=moved[rows]).astype(np.int64)
    known, at_least = _processes(view, counters, rows, direction, interfaces)
    mode, files = classify_mode(per_file, view.processes, known)
    return DirectionMode(mode, files, known, at_least)


def _processes(
    view: JobView, counters: Counters, rows: BoolArray, direction: str, interfaces: tuple[str, ...]
) -> tuple[int | None, int]:
    """Processes that moved bytes: exactly, or None and a lower bound."""
    if view.processes == 1:
        return 1, 1
    own = set(counters.rank[rows & ~counters.shared].tolist())
    if not (rows & counters.shared).any():
        return len(own), len(own)
    traced = sum_timeline_by_rank(view, interfaces)
    if traced is not None:
        active = int((traced[0 if direction == "read" else 1] > 0).sum())
        return active, active
    bound = max(len(own), estimate_mode_ranks(counters, rows & counters.shared, view.processes))
    return (1 if bound == 1 else None), bound


def estimate_mode_ranks(counters: Counters, rows: BoolArray, processes: int) -> int:
    """How many ranks at least moved the bytes of reduced records, from the variance of bytes over ranks.

    By Cauchy-Schwarz a set of non-negative numbers with sum B and sum of squares Q has at least B^2/Q non-zero
    members. Darshan's variance covers reads and writes together, so the bound is for both.
    """
    total = (counters.read_ints("bytes_read") + counters.read_ints("bytes_written"))[rows].astype(float)
    known = counters.mark_known("variance_rank_bytes")[rows]
    variance = counters.read_floats("variance_rank_bytes")[rows]
    squares = processes * variance + total**2 / processes
    bounds = np.where(known & (squares > 0), np.ceil(total**2 / np.maximum(squares, 1e-300) - 1e-6), 2)
    return int(np.clip(bounds.max(initial=1), 1, processes))

"""The processes of a trace and the rank each gets: its MPI rank where the trace tells it, else its pid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.see.sources.dftracer import layout as c

_PID_BITS = 40
_SUBSTITUTES_FROM = 1 << 30
_MAX_RANK = (1 << 31) - 1

Ranks = dict[int, dict[int, int]]
"""MPI ranks: pid → host hash token (ABSENT where the event names no host) → rank."""


@dataclass
class Process:
    """One process: its place in order of appearance, pid and rank; `told` when the rank is an MPI rank."""

    index: int
    pid: int
    host: int
    rank: int
    told: bool


class Processes:
    """Known processes by (host token or -1, pid). A rank is decided when a process's first events are converted."""

    def __init__(self) -> None:
        self.all: list[Process] = []
        self.renamed = 0
        self._by_place: dict[tuple[int, int], Process] = {}
        self._by_pid: dict[int, Process] = {}
        self._taken: set[int] = set()

    @property
    def without_rank(self) -> int:
        """Processes whose rank is a stand-in."""
        return sum(not process.told for process in self.all)

    def find_processes(self, pids: c.IntArray, hosts: c.IntArray, ranks: Ranks) -> tuple[c.IntArray, c.IntArray]:
        """Process indices (n,) and ranks (n,) of events with these pids and host tokens (-1 unknown).

        `ranks` holds the MPI ranks told so far.
        """
        if not len(pids):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        key = ((hosts + 1) << _PID_BITS) ^ (pids & ((1 << _PID_BITS) - 1))
        # Events of a process come in long stretches: look at the first of each.
        first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
        _, chosen, back = np.unique(key[first], return_index=True, return_inverse=True)
        order = np.argsort(chosen, kind="stable")
        index, rank = np.empty(len(chosen), np.int64), np.empty(len(chosen), np.int64)
        for place in order.tolist():
            row = first[chosen[place]]
            process = self._process(int(pids[row]), int(hosts[row]), ranks)
            index[place], rank[place] = process.index, process.rank
        lengths = np.diff(np.r_[first, len(key)])
        return np.repeat(index[back], lengths), np.repeat(rank[back], lengths)

    def _process(self, pid: int, host: int, ranks: Ranks) -> Process:
        known = self._by_place.get((host, pid))
        if known is None:
            same_pid = self._by_pid.get(pid)
            # An event without a host belongs to the process of that pid, whichever was seen first.
            if same_pid is not None and (host < 0 or same_pid.host < 0):
                known = same_pid
                known.host = max(known.host, host)
        if known is None:
            known = self._new(pid, host, ranks)
            self._by_pid.setdefault(pid, known)
        self._by_place[host, pid] = known
        return known

    def _new(self, pid: int, host: int, ranks: Ranks) -> Process:
        told = ranks.get(pid, {})
        rank = told.get(host)
        if rank is None:
            places = list(told) if host < 0 else [c.ABSENT]
            said = {told[place] for place in places if place in told}
            rank = said.pop() if len(said) == 1 else None
        process = Process(len(self.all), pid, host, pid if rank is None else rank, rank is not None)
        if rank is None and (not 0 <= pid <= _MAX_RANK or pid in self._taken):
            process.rank = _SUBSTITUTES_FROM + len(self.all)
            self.renamed += 1
        self._taken.add(process.rank)
        self.all.append(process)
        return process

"""A job: who ran what, where and when. Its key is (cluster, job_id, start_ns), as schedulers reuse numbers."""

from __future__ import annotations

import msgspec


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one program. Unknown fields are None, never a guess. Times are epoch ns, UTC.

    `hints` are MPI-IO hints the trace recorded for the whole job (ROMIO names).
    """

    job_id: str
    cluster: str | None = None
    name: str | None = None
    user: str | None = None
    project: str | None = None
    program: str | None = None
    partition: str | None = None
    submit_ns: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    nodes: list[str] | None = None
    nodes_count: int | None = None
    cores: int | None = None
    processes: int | None = None
    state: str | None = None
    hints: dict[str, str] | None = None

    @property
    def run_time_s(self) -> float | None:
        """Wall-clock seconds, None when an end is unknown or the clock ran backwards."""
        if self.start_ns is None or self.end_ns is None or self.end_ns < self.start_ns:
            return None
        return (self.end_ns - self.start_ns) / 1e9

"""The files a made machine's jobs touch: names, ids, stripes. Not here: what is done to them."""

from __future__ import annotations

import numpy as np

from fairlead.core.model.identity import compute_file_identities
from fairlead.core.model.site import I32, Site
from fairlead.decide.sim.steps import I64, Step
from fairlead.kit.testing.machine.population import DrawnJob

POOL = 64
"""Targets the files of one step are spread over at most."""


def format_machine_job_id(job: DrawnJob) -> str:
    """The scheduler's number of a job."""
    return str(100_000 + job.number)


class Files:
    """Every file by number: path, id, job (place), when it was first seen, its targets and stripe size."""

    def __init__(self, machine: Site) -> None:
        self.fs = f"/{machine.file_system}"
        self.paths: list[str] = []
        self.seen_s: list[float] = []
        self.job: list[int] = []
        self.targets: list[I32] = []
        self.stripe_size: list[int] = []
        self._machine = machine
        self._last: dict[tuple[int, str], I32] = {}
        self._ids: I64 = np.zeros(0, np.int64)

    def compute_ids(self) -> I64:
        """The id of every file."""
        have = len(self._ids)
        if have < len(self.paths):
            new = self.paths[have:]
            self._ids = np.concatenate([self._ids, compute_file_identities([self.fs] * len(new), new)])
        return self._ids

    def place_step(
        self, place: int, job: DrawnJob, step: Step, number: int, rng: np.random.Generator, now_s: float
    ) -> I32:
        """Numbers of a step's files: those of the last step of the same label, or new ones when it is `fresh`."""
        key = (place, step.label)
        if not step.fresh and key in self._last:
            return self._last[key]
        machine, stripes = self._machine, step.stripes
        start = int(rng.integers(len(machine.targets)))
        chosen = (start + np.arange(step.files * stripes) % min(len(machine.targets), POOL)) % len(machine.targets)
        program = job.program
        folder = f"{self.fs}/{program.project}/{program.user}/{program.name}/{format_machine_job_id(job)}"
        first = len(self.paths)
        self.paths.extend(f"{folder}/{step.label}.{number:03d}.{i:05d}" for i in range(step.files))
        self.seen_s.extend([now_s] * step.files)
        self.job.extend([place] * step.files)
        self.targets.extend(chosen.reshape(step.files, stripes).astype(np.int32))
        interleaved = step.contested or step.writers == step.files
        share = -(-step.volume // (step.writers * step.request)) * step.request
        self.stripe_size.extend([step.request if interleaved else max(share, 1 << 16)] * step.files)
        found = np.arange(first, first + step.files, dtype=np.int32)
        self._last[key] = found
        return found

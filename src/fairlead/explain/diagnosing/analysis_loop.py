"""The analysis loop: the rounds of components and of the system, and the summaries of jobs, again and again.

Its only memory is the lake, so it may be killed and started at any time. Not here: which jobs and what of them
(`ended_jobs`), starting the process (`run.child_process`).
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

from fairlead.core import clock
from fairlead.core.errors import LakeError
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.diagnosing.ended_jobs import Step, summarise_ended_jobs
from fairlead.explain.diagnosing.rounds import Rounds
from fairlead.explain.diagnosing.site_file import read_system_site_file, write_site_file_mappings
from fairlead.explain.diagnosing.touched_jobs import Touched

QUICK_S = 1.0
"""Jobs that just ended and whose records are here are looked for this often."""
FLUSH_NS = 15 * NS_PER_S
"""What was written is carried to the tables this often; it can be read before."""
log = logging.getLogger("fairlead.explain.analysis")


def run_analysis_loop(config: Any, stop: threading.Event) -> None:
    """Steps every `config.analysis.every_s` until `stop`. Raises LakeError when the lake cannot be opened."""
    from fairlead.store.lake import Lake

    root = Path(config.server.lake)
    while not (root / "lake.toml").is_file():  # the collector makes it
        if stop.wait(0.2):
            return
    lake = Lake.open(root, memory=config.server.memory)
    every_ns, running_ns = (int(s * NS_PER_S) for s in (config.analysis.every_s, config.analysis.running_s))
    touched = Touched()
    rounds = Rounds(config.diagnosis, read_system_site_file(config.server.site))
    with lake.open_writer(config.analysis.shard, wait_s=30.0) as writer:
        write_site_file_mappings(writer, config.server.site)
        whole_ns = flushed_ns = 0
        while not stop.is_set():
            now_ns = clock.now_ns()
            whole = now_ns - whole_ns >= every_ns
            try:
                # Components first: what an incident took from a job can then be told with the job.
                rounds.look(lake, writer, now_ns)
                done = summarise_ended_jobs(
                    lake,
                    writer,
                    now_ns,
                    running_ns=running_ns,
                    quick=not whole,
                    diagnosis=config.diagnosis,
                    peaks=rounds.site.peaks,
                    touched=touched,
                )
                if whole or now_ns - flushed_ns >= FLUSH_NS:
                    writer.flush()
                    flushed_ns = now_ns
            except LakeError as fault:
                # A full disk or a file just vacuumed: what is not done now is found again.
                log.warning("jobs are not summarised now: %s", fault)
                done = Step(0, more=False)
            if done.more:
                continue
            whole_ns = now_ns if whole else whole_ns
            stop.wait(min(config.analysis.every_s, QUICK_S))

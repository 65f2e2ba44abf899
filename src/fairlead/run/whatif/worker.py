"""One what-if run in a process of its own: `python -m fairlead.run.whatif.worker`, told on stdin what it is.

It gives way to everything else, tells how far it is on stdout, writes the answer to a file, and ends when its parent
does. Not here: who may ask, the queue (`queue`).
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import msgspec

from fairlead.core.errors import FairleadError
from fairlead.explain.questions.answers_whatif_runs import WhatIfAsked, WhatIfProgress

NICE = 10


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done: `asked` over [from_ns, to_ns) of the lake in `root`, the answer into the file `answer`."""

    root: str
    memory: str
    site: str
    asked: WhatIfAsked
    from_ns: int
    to_ns: int
    answer: str
    parent: int


class WorkerLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line on stdout: how far it is, or at the end what came of it."""

    progress: WhatIfProgress | None = None
    headline: str | None = None
    jobs: int | None = None
    error: str | None = None
    remedy: str | None = None


def write_worker_line(said: WorkerLine) -> None:
    """One line. Nobody may listen any more."""
    with contextlib.suppress(OSError):
        os.write(1, msgspec.json.encode(said) + b"\n")


def run_whatif_worker() -> int:
    """Runs one task to its end."""
    from fairlead.run.child_process import end_child_process_with_parent

    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    end_child_process_with_parent(task.parent)
    os.nice(NICE)
    with contextlib.suppress(OSError):  # where memory runs out, this process goes first
        Path("/proc/self/oom_score_adj").write_text("900", encoding="ascii")
    try:
        _run(task)
    except FairleadError as error:
        write_worker_line(WorkerLine(error=error.what, remedy=error.remedy or ""))
        return 0
    except MemoryError:
        write_worker_line(
            WorkerLine(error="the replay needs more memory than available", remedy="choose a shorter time span")
        )
        return 0
    return 0


def _run(task: Task) -> None:
    from fairlead.core.safe_text import escape_undecodable_text
    from fairlead.decide.whatif.whatif_evaluation import Stage, evaluate_whatif
    from fairlead.decide.whatif.whatif_request import check_whatif_request
    from fairlead.explain.diagnosing.site_file import read_site_file_facts
    from fairlead.explain.questions.lake_queries import Sight
    from fairlead.explain.questions.span import Span
    from fairlead.store.lake import Lake

    told = -1.0

    def follow(stage: Stage) -> None:
        nonlocal told
        if stage.share < told + 0.005 and stage.step == "replaying" and stage.share > told:
            return
        told = stage.share
        write_worker_line(
            WorkerLine(
                progress=WhatIfProgress(
                    step=stage.step,
                    text=stage.text,
                    share=round(stage.share, 4),
                    jobs=stage.jobs,
                    replay=stage.replay,
                    replays=stage.replays,
                )
            )
        )

    facts = read_site_file_facts(task.site)
    _, asked = check_whatif_request(task.asked, task.to_ns)
    answer = evaluate_whatif(
        Lake.open(Path(task.root), memory=task.memory),
        Span(task.from_ns, task.to_ns),
        Sight(),
        asked,
        peaks=dict(facts.peaks) if facts is not None else {},
        following=follow,
    )
    answer = escape_undecodable_text(answer)
    draft = Path(f"{task.answer}.new")
    draft.write_bytes(msgspec.json.encode(answer))
    draft.replace(task.answer)
    write_worker_line(WorkerLine(headline=answer.headline, jobs=answer.jobs))


if __name__ == "__main__":
    sys.exit(run_whatif_worker())

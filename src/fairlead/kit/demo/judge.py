"""The judge: a process that sees only a lake and says who made jobs slow. It knows nothing of what was played.

Run as `python -m fairlead.kit.demo.judge LAKE`; prints JSON: the judgement, every job's path, what the page draws.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from fairlead.explain.analysis.culprits import judge_culprits
from fairlead.explain.analysis.job_path import build_job_paths
from fairlead.explain.analysis.path_charts import build_path_charts
from fairlead.store.lake import Lake

TABLES = ("forwarder", "target", "ops", "jobs", "mapping")


def _judge_lake(root: Path) -> dict[str, Any]:
    """`judgement`, `paths` and `charts` of everything in a lake, as `web.path.page.render_job_page` takes them."""
    lake = Lake.open(root)
    tables = {name: lake.read(name) for name in TABLES}
    judgement, facts = judge_culprits(tables)
    found = build_job_paths(tables, facts)
    return {"judgement": judgement, "paths": found, "charts": build_path_charts(tables, judgement, facts, found)}


def run_demo_judge(arguments: list[str] | None = None) -> int:
    """The program."""
    (root,) = sys.argv[1:] if arguments is None else arguments
    sys.stdout.buffer.write(msgspec.json.encode(_judge_lake(Path(root))) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_demo_judge())

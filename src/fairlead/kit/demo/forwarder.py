"""A forwarder of the demo: `fairlead forwarder run` on targets with simulated devices, in a queue that takes no sides.

Run as `python -m fairlead.kit.demo.forwarder`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import cast

from fairlead.core.errors import FairleadError
from fairlead.kit.demo.device import simulate_demo_devices
from fairlead.steer.forwarding.forwarder.run import Options, run_forwarder
from fairlead.steer.fs.trees.base import FileTree
from fairlead.steer.targets.tree import open_tree

DISCIPLINE = "fifo,cap-job:off,cap-target:off"
"""First come, first served, as on the machines studied: one job may hold all workers. (`job-fair` would not let it.)"""


def run_demo_forwarder(arguments: list[str] | None = None) -> int:
    """The program. It says `ready ADDRESS` when clients may come."""
    parser = argparse.ArgumentParser(prog="fairlead.kit.demo.forwarder")
    for name in ("--targets", "--listen", "--name", "--spool", "--pace"):
        parser.add_argument(name, required=True)
    parser.add_argument("--workers", type=int, required=True)
    args = parser.parse_args(arguments)
    options = Options(
        export=f"targets:{args.targets}",
        listen=[args.listen],
        workers=args.workers,
        discipline=DISCIPLINE,
        spool=Path(args.spool),
        name=args.name,
    )

    def simulated(_spec: str) -> FileTree:
        tree = open_tree(args.targets)
        simulate_demo_devices(tree, args.targets, Path(args.pace))
        return cast(FileTree, tree)

    try:
        run_forwarder(
            options, lambda address: print(f"ready {address}", file=sys.stderr, flush=True), open_tree=simulated
        )
    except FairleadError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(run_demo_forwarder())

"""Diagnosis on a real plane: 40 runs of a job, a quarter of them each beside a target slowed to 25 %, a neighbour that
writes one file with many processes, one that makes a storm of metadata, and nothing; is the verdict right?

`python benchmarks/real_plane.py [--quick] [--groups 10] [--first 101] [--beside 2] [--no-fuse] [--json]`. Forwarders,
mounts, jobs and records are real; behind them are devices of a stated rate (slept, shared by all forwarders), so that
jobs contend for targets and workers and not for this machine's cores. A group is a plane, a quiet history and the four
scenes in drawn order. See `tests/support/rated_plane.py` for what counts as right.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import msgspec
from _history import append
from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

import rated_plane
from rated_plane import SCENES, Performance, Verdict

QUIET = 4
GROUP_S = 900


def group(seed: int, fuse: bool) -> Performance:
    """One plane, in this process."""
    with rated_plane.plane(fuse=fuse, seed=seed) as made:
        return rated_plane.perform(made, seed, QUIET, SCENES, say=lambda text: print(text, file=sys.stderr, flush=True))


def apart(seed: int, fuse: bool) -> Performance:
    """One plane, in a process of its own."""
    command = [sys.executable, __file__, "--group", str(seed), *([] if fuse else ["--no-fuse"])]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=GROUP_S)
    return msgspec.json.decode(done.stdout, type=Performance)


def show(groups: list[Performance], console: Console) -> dict[str, object]:
    """Prints the table; returns the figures."""
    verdicts = [one for some in groups for one in some.verdicts]
    table = Table("scene", "runs", "right", "verdicts", "usual", "took", "cost told", "looked", title="real plane")
    scenes: dict[str, object] = {}
    for scene in SCENES:
        mine = [one for one in verdicts if one.scene == scene]
        if not mine:
            continue
        said: dict[str, int] = {}
        for one in mine:
            word = one.category or "nobody"
            said[word] = said.get(word, 0) + 1
        costs = [one.cost_s for one in mine if one.cost_s is not None]
        took, looked = (median(getattr(one, name) for one in mine) for name in ("seconds", "looked_s"))
        right = sum(one.right for one in mine)
        table.add_row(
            scene,
            str(len(mine)),
            str(right),
            ", ".join(f"{word} {count}" for word, count in sorted(said.items())),
            f"{median(one.usual_s for one in mine):.1f} s",
            f"{took:.1f} s",
            f"{median(costs):.1f} s" if costs else "-",
            f"{looked:.1f} s",
        )
        scenes[scene] = {"runs": len(mine), "right": right, "verdicts": said, "took_s": took, "looked_s": looked}
    console.print(table)
    quiet = [one for one in verdicts if one.scene == "nothing"]
    alarms = [title for some in groups for title in some.alarms] + [title for one in quiet for title in one.others]
    others = [title for one in verdicts if one.scene != "nothing" for title in one.others]
    runs = len(quiet) + sum(some.quiet for some in groups)
    right = sum(one.right for one in verdicts)
    console.print(
        f"right {right} of {len(verdicts)}; {len(alarms)} false alarms in {runs} quiet runs; "
        f"{len(others)} accusations of the innocent in the others"
    )
    for one in (one for one in verdicts if not one.right):
        console.print(f"wrong: {_told(one)}", markup=False)
    for title in [*alarms, *others]:
        console.print(f"accused: {title}", markup=False)
    return {
        "right": right,
        "of": len(verdicts),
        "false_alarms": len(alarms),
        "quiet_runs": runs,
        "innocent_accused": len(others),
        "scenes": scenes,
    }


def _told(one: Verdict) -> str:
    return json.dumps(msgspec.to_builtins(one))


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one group: four runs")
    parser.add_argument("--groups", type=int, default=10)
    parser.add_argument("--first", type=int, default=101, help="seed of the first group")
    parser.add_argument("--beside", type=int, default=2, help="groups played at the same time")
    parser.add_argument("--no-fuse", action="store_true", help="jobs use the client library, not mounts")
    parser.add_argument("--json", action="store_true", help="print figures as JSON and keep no history of them")
    parser.add_argument("--group", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.group is not None:
        sys.stdout.buffer.write(msgspec.json.encode(group(args.group, not args.no_fuse)))
        return
    console = Console(width=150, stderr=args.json)
    begun = time.monotonic()
    seeds = range(args.first, args.first + (1 if args.quick else args.groups))
    with ThreadPoolExecutor(args.beside) as threads:
        groups = list(threads.map(lambda seed: apart(seed, not args.no_fuse), seeds))
    console.print(
        f"devices of a stated rate: {len(rated_plane.TARGETS)} targets of {rated_plane.RATE >> 20} MiB/s, slowed to "
        f"{100 / rated_plane.TIMES_SLOWER:.0f} %; {rated_plane.CHANGES:.0f} changes of metadata/s; "
        f"{'client library' if args.no_fuse else 'mounts'}; an incident lasts at least "
        f"{rated_plane.SETTINGS.least_minutes * 60:.0f} s, else the defaults"
    )
    figures = show(groups, console)
    took = time.monotonic() - begun
    figures |= {
        "quick": args.quick,
        "seeds": list(seeds),
        "fuse": not args.no_fuse,
        "s": round(took, 1),
        "s_per_run": round(took / max(int(str(figures["of"])), 1), 1),
    }
    console.print(f"{took:.0f} s in all, {figures['s_per_run']} s a run (with its share of the quiet history)")
    if args.json:
        print(json.dumps(figures))
    else:
        append("real_plane", figures)


if __name__ == "__main__":
    main()

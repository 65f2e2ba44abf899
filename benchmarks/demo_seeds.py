"""The demo over many seeds: what was played against what was judged, and how often nobody was accused wrongly.

Run: `python benchmarks/demo_seeds.py [--quick] [--seeds N] [--first N] [--no-fuse] [--no-history]`. A play takes 25 s.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

from _history import append
from rich.console import Console
from rich.table import Table

from fairlead.core.errors import FairleadError
from fairlead.kit.demo.plan import draw_demo_plan
from fairlead.kit.demo.play import Outcome, perform_demo_play

SEEDS, QUICK = 20, 3


@dataclass(frozen=True)
class Line:
    """One seed: what came of it, or why nothing did."""

    seed: int
    seconds: float
    outcome: Outcome | None
    error: str = ""

    @property
    def right(self) -> bool:
        """Whether everything was judged as it was played."""
        return self.outcome is not None and self.outcome.all_right

    @property
    def innocent(self) -> int:
        """Kinds of which somebody was accused though nobody was guilty."""
        if self.outcome is None:
            return 0
        truth = self.outcome.played.truth
        return sum(found is not None and truth[kind] is None for kind, found in self.outcome.judged.items())


def play(seed: int, *, fuse: bool) -> Line:
    """Plays one seed."""
    began = time.monotonic()
    try:
        outcome = perform_demo_play(draw_demo_plan(seed), fuse=fuse)
    except FairleadError as error:
        return Line(seed, time.monotonic() - began, None, str(error))
    return Line(seed, time.monotonic() - began, outcome)


def table(lines: list[Line]) -> Table:
    """Played against judged."""
    made = Table("seed", "slow target", "judged", "disturber", "judged", "right", "seconds")
    for line in lines:
        cells = ["failed", line.error[:60], "", ""]
        if line.outcome is not None:
            truth, found = line.outcome.played.truth, line.outcome.judged
            cells = [str(one or "–") for kind in truth for one in (truth[kind], found[kind])]
        made.add_row(str(line.seed), *cells, "yes" if line.right else "NO", f"{line.seconds:.0f}")
    return made


def main() -> int:
    """The program; ends with 1 when more than one seed in twenty was judged wrongly or somebody innocent accused."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} seeds, no history")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--no-fuse", action="store_true")
    parser.add_argument("--no-history", action="store_true", help="Do not add a line to the history.")
    args = parser.parse_args()
    count = QUICK if args.quick else args.seeds
    lines = []
    for seed in range(args.first, args.first + count):
        lines.append(play(seed, fuse=not args.no_fuse))
        done = lines[-1]
        sys.stderr.write(f"seed {seed}: {'right' if done.right else 'WRONG'} ({done.seconds:.0f} s) {done.error}\n")
        if not done.right and done.outcome is not None:
            sys.stderr.write(f"  played: {done.outcome.told}\n")
            for one in done.outcome.judgement["verdicts"]:
                sys.stderr.write("  ".join(["", one["title"], *one["evidence"]]) + "\n")
    Console().print(table(lines))
    right, innocent = sum(line.right for line in lines), sum(line.innocent for line in lines)
    print(f"{right} of {count} right, {innocent} accused though innocent")
    if not args.quick and not args.no_history:
        append(
            "demo_seeds",
            {
                "seeds": count,
                "right": right,
                "innocent_accused": innocent,
                "seconds_median": sorted(line.seconds for line in lines)[count // 2],
            },
        )
    return 0 if right >= count - count // 20 and not innocent else 1


if __name__ == "__main__":
    sys.exit(main())

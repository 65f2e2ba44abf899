"""Makes the batches that the monitoring benchmark sends: a described machine at a chosen number of rows a second.

Prints one table. A day and its burst hour are two levels; each is made for as many seconds as asked, so that a
sender chooses how fast time goes. Everything is simulated (`fairlead.kit.testing.machine`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path

from fairlead.kit.testing.machine import steady_load, wire_bodies

DAY_S = 86_400


def main() -> None:
    """One folder a level under --out, each with its manifest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", choices=steady_load.MACHINES, default="taihulight")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rows-per-s", type=int, default=12_000, help="rows of ops, on an ordinary day")
    parser.add_argument("--burst", type=float, default=10.0, help="the burst hour has that many times as many")
    parser.add_argument("--random", type=float, default=0.25, help="share of rows at random offsets")
    parser.add_argument("--seconds", type=int, default=60, help="seconds made of each level")
    parser.add_argument("--every", type=int, default=10, help="seconds in a body")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    if given.quick:
        given.machine, given.rows_per_s, given.seconds = "small", 500, 20
    levels = {"day": given.rows_per_s, "burst": round(given.rows_per_s * given.burst)}
    print("| level | s | bodies | rows | ops rows | per s | operations | MB | B/row | GB a day | random | made in s |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    told = {}
    for level, rows in levels.items():
        folder = given.out / level
        shutil.rmtree(folder, ignore_errors=True)
        begun = time.perf_counter()
        play = steady_load.build_steady_load(given.machine, given.seed, rows, given.seconds, random=given.random)
        made = wire_bodies.write_wire_bodies(play, folder, given.every)
        took = time.perf_counter() - begun
        per_day = made["bytes"] / given.seconds * DAY_S / 1e9
        told[level] = {key: value for key, value in made.items() if key != "files"} | {"folder": level}
        print(
            f"| {level} | {given.seconds} | {len(made['files']):,} | {made['rows']:,} | {made['ops_rows']:,} |"
            f" {made['ops_rows'] / given.seconds:,.0f} | {made['operations']:,} | {made['bytes'] / 1e6:.1f} |"
            f" {made['bytes'] / made['rows']:.1f} | {per_day:.1f} |"
            f" {steady_load.measure_steady_load_randomness(play):.0%} | {took:.1f} |"
        )
    (given.out / "levels.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()

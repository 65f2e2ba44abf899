"""How long pages wait: p50, p95 and p99 of the questions storage teams ask, of a full lake, while rows keep arriving.

Run: `python benchmarks/questions.py [--quick] [--records N] [--lake DIR] [--rate ROWS_PER_S] [--rounds N]`. The lake is
made once (288 forwarders, 864 targets, 1,200 jobs a day) and kept where `--lake` says. A process of its own writes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _full_lake import JOBS_A_DAY, TARGET_NAMES, TARGETS, S, build, ops_rows
from _history import append
from rich.console import Console
from rich.table import Table

from fairlead.explain.questions.lake_queries import Sight
from fairlead.explain.questions.question_catalog import Asking, answer_question, parse_question_parameters
from fairlead.store.compaction import compact_tables
from fairlead.store.inventory import take_inventory
from fairlead.store.lake import Lake
from fairlead.store.rollups import derive_rollups

BEACON = "95.6 % < 10 s"


def feed(root: Path, rate: int) -> None:
    """Writes operations with what is derived of them, 20 batches a second in all, until it is ended."""
    lake = Lake.open(root)
    with lake.open_writer("live", derive=derive_rollups) as writer:
        print("ready", flush=True)
        number, flushed = 0, time.monotonic()
        due = time.monotonic()
        while True:
            now = time.time_ns()
            taking = writer.open_batch(f"feed:{now}")
            taking.add(ops_rows(number, max(1, rate // 20), now - S, S))
            taking.commit()
            number += 1
            due += 0.05
            if time.monotonic() - flushed > 30:
                writer.flush()
                compact_tables(lake, writer, thorough=False, keep_hours=None)
                flushed = time.monotonic()
            time.sleep(max(0.0, due - time.monotonic()))


def measure(root: Path, rounds: int, days: int) -> dict[str, list[tuple[float, float]]]:
    """Milliseconds of each question on the clock and on the processors, in turn, of one process; parameters differ from
    round to round."""
    asking = Asking(Lake.open(root))
    rng = np.random.default_rng(5)
    sight = Sight()

    def job_id(first: int, last: int) -> str:
        day = int(rng.integers(first, last))
        return str(1_000_000 + day * JOBS_A_DAY + int(rng.integers(0, JOBS_A_DAY // 4)))

    questions: dict[str, Callable[[int], tuple[str, str, dict[str, str]]]] = {
        "job page (of today)": lambda _: ("job", job_id(0, 1), {}),
        "job page (past)": lambda _: ("job", job_id(1, days), {}),
        "forwarder-day heat map": lambda _: ("heatmap", "", {"last": "1d"}),
        "heat map of a past day": lambda k: ("heatmap", "", {"last": "1d", "to": f"-{1 + k % max(1, days - 1)}d"}),
        "OST-day CDF": lambda _: ("cdf", "", {"last": "1d"}),
        "top users, 1 h": lambda _: ("top", "users", {"last": "1h"}),
        "top users, 1 d": lambda _: ("top", "users", {"last": "1d"}),
        "top users, 7 d": lambda _: ("top", "users", {"last": "7d"}),
        "jobs of an hour by bytes": lambda _: ("jobs", "", {"last": "1h", "sort": "bytes"}),
        "targets, 5 min": lambda _: ("targets", "", {}),
        "one target, 1 h": lambda _: ("target", TARGET_NAMES[int(rng.integers(0, TARGETS))], {}),
        "system, 1 d": lambda _: ("system", "", {}),
    }
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in questions}
    for number in range(rounds):
        for name, make in questions.items():
            question, about, given = make(number)
            asked = parse_question_parameters(question, given)
            started, worked = time.perf_counter(), time.process_time()
            answer_question(asking, question, about, asked, sight, time.time_ns())
            spent[name].append(((time.perf_counter() - started) * 1e3, (time.process_time() - worked) * 1e3))
    return spent


def main() -> None:
    """Builds, feeds, asks, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--records", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--days", type=int)
    parser.add_argument("--rate", type=int, default=50_000)
    parser.add_argument("--lake", type=Path)
    parser.add_argument("--feed", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.feed:
        feed(options.feed, options.rate)
        return
    records = options.records or (2_000_000 if options.quick else 100_000_000)
    rounds = options.rounds or (10 if options.quick else 100)
    days = options.days or (2 if options.quick else 7)
    with tempfile.TemporaryDirectory(prefix="fairlead-questions-") as folder:
        root = options.lake or Path(folder) / "lake"
        built = {} if (root / "lake.toml").is_file() else build(root, records, days, time.time_ns())
        rows = sum(t.rows + t.waiting_rows for t in take_inventory(Lake.open(root).place).tables)
        writing = None
        if options.rate:
            command = [sys.executable, __file__, "--feed", str(root), "--rate", str(options.rate)]
            writing = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert writing.stdout is not None
            writing.stdout.readline()
        try:
            spent = measure(root, rounds, days)
        finally:
            if writing is not None:
                writing.terminate()
                writing.wait()
    figures: dict[str, object] = {"rows": rows, "rate": options.rate, "rounds": rounds, **built}
    title = f"{rows:,} rows, {options.rate:,} rows/s arriving"
    table = Table("question", "p50 ms", "p95 ms", "p99 ms", "first ms", "CPU p95 ms", "Beacon", title=title)
    for name, each in spent.items():
        clock, worked = zip(*each, strict=True)
        p50, p95, p99 = (float(np.percentile(clock, q)) for q in (50, 95, 99))
        cpu = float(np.percentile(worked, 95))
        table.add_row(name, f"{p50:.0f}", f"{p95:.0f}", f"{p99:.0f}", f"{clock[0]:.0f}", f"{cpu:.0f}", BEACON)
        figures[name] = [round(p50, 1), round(p95, 1), round(p99, 1), round(clock[0], 1), round(cpu, 1)]
    Console().print(table)
    print(json.dumps(built))
    if not options.quick:
        append("questions", figures)


if __name__ == "__main__":
    main()

"""The history of benchmark figures: one JSON line a run in `benchmarks/history.ndjson`. Not here: measuring."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

HISTORY = Path(__file__).resolve().parent / "history.ndjson"


def append(name: str, figures: dict[str, object]) -> dict[str, object]:
    """Add what a run of benchmark `name` measured, with date, commit, machine and Python; returns the line."""
    line: dict[str, object] = {
        "benchmark": name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "python": platform.python_version(),
        "figures": figures,
    }
    with HISTORY.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    return line


def commit() -> str | None:
    """The commit measured, `+` after it when the tree held changes; None outside a repository."""

    def git(*arguments: str) -> str:
        run = subprocess.run(
            ["git", *arguments], cwd=HISTORY.parent, capture_output=True, text=True, check=True, timeout=30
        )
        return run.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "..")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def machine() -> dict[str, object]:
    """CPU model, cores this process may use, and memory in bytes, where they can be known."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        memory = None
    return {"cpu": model, "cores": cores, "memory_bytes": memory}

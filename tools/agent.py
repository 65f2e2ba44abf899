"""Builds the node agent as one file: `python tools/agent.py [OUTPUT]`, dist/fairlead-agent.pyz by default.

The same sources give the same bytes on any machine: names in order, one date, nothing compressed.
"""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "fairlead"
OUTPUT = ROOT / "dist" / "fairlead-agent.pyz"
INTERPRETER = b"#!/usr/bin/env python3\n"
WHAT_TRAVELS = (
    "__init__.py",
    "core/__init__.py",
    "core/batches/__init__.py",
    "core/batches/encoding.py",
    "core/batches/spool.py",
    "see/__init__.py",
    "see/agent",
    "see/probes",
)
"""Of the package: files, and folders with all in them."""
MAIN = b"""\"\"\"The node agent of fairlead.\"\"\"

import sys

from fairlead.see.agent.run import run_agent

sys.exit(run_agent())
"""
DATE = (1980, 1, 1, 0, 0, 0)


def sources() -> list[Path]:
    """The modules that travel, in order."""
    found: list[Path] = []
    for name in WHAT_TRAVELS:
        path = PACKAGE / name
        found += path.rglob("*.py") if path.is_dir() else [path]
    return sorted(found)


def build(output: Path = OUTPUT) -> Path:
    """Writes the file whole or not at all; returns its path."""
    output.parent.mkdir(parents=True, exist_ok=True)
    draft = output.with_name(f".{output.name}.tmp")
    with draft.open("wb") as file:
        file.write(INTERPRETER)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            entries = [("__main__.py", MAIN)]
            entries += [(f"fairlead/{path.relative_to(PACKAGE).as_posix()}", path.read_bytes()) for path in sources()]
            for name, content in sorted(entries):
                about = zipfile.ZipInfo(name, DATE)
                about.create_system = 3
                about.external_attr = 0o100644 << 16
                archive.writestr(about, content)
    draft.chmod(0o755)
    os.replace(draft, output)  # noqa: PTH105
    return output


if __name__ == "__main__":
    made = build(Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT)
    sys.stdout.write(f"{made}  {made.stat().st_size} bytes\n")

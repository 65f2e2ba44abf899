"""fairlead as it was, out of this repository's own history, for what must go on between versions."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BEFORE_THE_ROOMS = "3fbb2ca71ae8f6fce83ca36177a83cb7eef9747a"
"""The last commit of 0.1.0's first layout: other packages, other commands, records without clusters."""


def unpack_old_fairlead(folder: Path, commit: str = BEFORE_THE_ROOMS) -> Path:
    """The source of a commit below `folder`; what to put into PYTHONPATH. Skips where the history is not here."""
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit, "src", "tools", "pyproject.toml"], capture_output=True, check=False
    )
    if packed.returncode != 0:
        pytest.skip(f"no commit {commit[:8]} here (a shallow clone, or no git): git fetch --unshallow")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def build_agent(output: Path, source: Path = ROOT / "src") -> Path:
    """The agent of a source tree as one file."""
    command = [sys.executable, str(source.parent / "tools" / "agent.py"), str(output)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(source)})
    return output

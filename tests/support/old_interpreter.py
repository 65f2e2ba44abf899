"""Finding a Python 3.6 for tests of what travels to nodes: of PATH, or one that pyenv keeps."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

HOW = "no Python 3.6: pyenv install 3.6.15"


def old_python() -> str | None:
    """The path of an interpreter that runs (a shim of PATH may not), or None."""
    pyenv = sorted(Path.home().glob(".pyenv/versions/3.6*/bin/python3.6"))
    for found in (which("python3.6"), *map(str, pyenv)):
        if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
            return found
    return None

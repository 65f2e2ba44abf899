"""tools/venv.sh: which Python it takes, and what it says where it cannot go on. The commands it finds are made up."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "venv.sh"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A PATH of its own: bash, and an ordinary user."""
    folder = tmp_path / "bin"
    folder.mkdir()
    _program(folder, "id", "echo 1000")
    return folder


def _program(folder: Path, name: str, script: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def _run(programs: Path, *, python: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(programs), **({"PYTHON": python} if python else {})}
    return subprocess.run(
        ["/bin/bash", SCRIPT, str(programs.parent / "venv")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_python(programs: Path) -> None:
    done = _run(programs)
    assert done.returncode == 1
    assert done.stderr.startswith("error: no Python 3.11 or newer")
    assert "→ install one" in done.stderr


def test_an_old_python_is_no_python(programs: Path) -> None:
    _program(programs, "python3", "exit 1")
    assert "no Python 3.11" in _run(programs).stderr


def test_a_python_without_ensurepip_names_the_package_of_its_version(programs: Path) -> None:
    _program(programs, "python3.12", 'case "$*" in *ensurepip*) exit 1;; esac\nexit 0')
    done = _run(programs)
    assert done.returncode == 1
    assert done.stderr.endswith("  → sudo apt-get install python3.12-venv\n")


def test_root_installs_it_instead(programs: Path) -> None:
    _program(programs, "id", "echo 0")
    log = programs.parent / "log"
    _program(programs, "python3", f'echo "python $*" >> {log}\ncase "$*" in *ensurepip*) exit 1;; esac\nexit 0')
    _program(programs, "apt-get", f'echo "apt-get $*" >> {log}')
    _run(programs)
    lines = [line for line in log.read_text().splitlines() if "import sys" not in line and "ensurepip" not in line]
    assert lines[0].startswith("apt-get update")
    assert lines[1].startswith("apt-get install")
    assert lines[1].endswith(" python3-venv")
    assert lines[2].startswith("python -m venv --clear")


def test_the_python_one_names_wins_over_newer_ones(programs: Path) -> None:
    log = programs.parent / "log"
    _program(programs, "python3.13", f"echo newest >> {log}")
    _program(programs, "mine", f"echo mine >> {log}")
    _run(programs, python="mine")
    assert set(log.read_text().split()) == {"mine"}


def test_a_usable_environment_is_kept(programs: Path) -> None:
    inside = programs.parent / "venv" / "bin"
    inside.mkdir(parents=True)
    _program(inside, "python", "exit 0")
    _program(programs, "python3", f"touch {programs.parent}/asked")
    done = _run(programs)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (programs.parent / "asked").exists()


def test_an_environment_without_pip_is_made_again(programs: Path) -> None:
    inside = programs.parent / "venv" / "bin"
    inside.mkdir(parents=True)
    _program(inside, "python", 'case "$*" in *pip*) exit 1;; esac\nexit 0')
    log = programs.parent / "log"
    _program(programs, "python3", f'echo "$*" >> {log}')
    assert _run(programs).returncode == 0
    assert log.read_text().splitlines()[-1] == f"-m venv --clear {inside.parent}"

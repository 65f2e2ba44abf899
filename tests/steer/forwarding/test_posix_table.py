"""A mount does what POSIX says and what the file system under it does: every line of the table, on both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

import posix_cases
from mounted_trees import KINDS, mounted_tree
from mounting import NOBODY, open_folder

pytestmark = pytest.mark.fuse

ROOT = Path(__file__).resolve().parents[3]
GROUPS = list(dict.fromkeys(one.group for one in posix_cases.CASES))


def outcomes(folder: Path, uid: int | None = None) -> dict[str, object]:
    """The whole table in a process of its own: cases change their user, and a mount that hangs is seen."""
    command = [sys.executable, posix_cases.__file__, str(folder)]
    if uid is not None:
        command.append(str(uid))
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def below() -> dict[str, object]:
    """What comes of the table on the file system that is exported."""
    with open_folder() as folder:
        return outcomes(folder)


@pytest.fixture(scope="module", params=KINDS)
def mounted(request: pytest.FixtureRequest) -> dict[str, object]:
    """What comes of the table on a mount."""
    with mounted_tree(request.param) as tree:
        return outcomes(tree.folder)


def wrong_in(mounted: dict[str, object], below: dict[str, object], group: str | None = None) -> list[str]:
    """Lines of the table a mount does not hold to."""
    wrong = []
    for one in posix_cases.CASES:
        name = f"{one.group}: {one.name}"
        if group not in (None, one.group) or name not in mounted:
            continue
        expected = below[name] if one.expected is None else posix_cases.plain(one.expected)
        # What the file system below cannot do, a mount of it cannot either.
        if mounted[name] != expected and mounted[name] != below[name]:
            wrong.append(f"{name}: {mounted[name]!r}, not {expected!r}; below: {below[name]!r}")
    return wrong


@pytest.mark.parametrize("group", GROUPS)
def test_a_mount_does_what_the_table_says(group: str, mounted: dict[str, object], below: dict[str, object]) -> None:
    wrong = wrong_in(mounted, below, group)
    assert not wrong, "\n".join(wrong)
    if os.geteuid() == 0:
        assert len(mounted) == len(posix_cases.CASES) + len(posix_cases.DIFFERENT)


@pytest.mark.skipif(os.geteuid() != 0 or which("fusermount3") is None, reason="becomes another user, needs fusermount3")
@pytest.mark.usefixtures("fuse_for_everybody")
@pytest.mark.parametrize("kind", ["local", "unix"])
def test_an_ordinary_users_mount_does_what_the_table_says(kind: str) -> None:
    with mounted_tree(kind, NOBODY) as tree:
        wrong = wrong_in(outcomes(tree.folder, NOBODY), outcomes(tree.beside, NOBODY))
    assert not wrong, "\n".join(wrong)


def test_a_mount_differs_only_where_the_page_says(mounted: dict[str, object], below: dict[str, object]) -> None:
    for one in posix_cases.DIFFERENT:
        name = f"different: {one.name}"
        assert mounted[name] == one.on_mount, name
    table = [f"{one.group}: {one.name}" for one in posix_cases.CASES]
    sizes = {"the file system: statvfs: the size"}
    differing = [name for name in table if name in below and name not in sizes and mounted[name] != below[name]]
    assert differing == []


def test_the_table_is_long_and_its_lines_have_their_own_names() -> None:
    names = [(one.group, one.name) for one in posix_cases.CASES]
    assert len(names) == len(set(names)) >= 120


def test_the_page_of_the_table_is_fresh() -> None:
    text = (ROOT / "docs" / "reference" / "forwarding-posix.md").read_text(encoding="utf-8")
    assert text == posix_cases.page(), f"run: python {Path(posix_cases.__file__).name} --page"

"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path
from shutil import which

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """Folder of small files committed with the tests."""
    return ROOT / "tests" / "fixtures"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of public logs that is not part of the project; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("FAIRLEAD_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder}: set FAIRLEAD_SHARED_DATA to a folder with darshan/, dftracer/, ...")
    return folder


def _no_fuse() -> str | None:
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return f"/dev/fuse does not open ({error.strerror}): modprobe fuse, or --device /dev/fuse for a container"
    if os.geteuid() != 0 and which("fusermount3") is None:
        return "no fusermount3: apt-get install fuse3"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need FUSE are skipped where a mount is impossible."""
    reason = _no_fuse()
    if reason is not None:
        for item in items:
            if item.get_closest_marker("fuse") is not None:
                item.add_marker(pytest.mark.skip(reason=reason))

"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

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

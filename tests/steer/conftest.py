"""What the tests of mounts through forwarders share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from plane import Plane


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    """Forwarders and mounts of one test; all of them have ended after it."""
    made = Plane(tmp_path)
    try:
        yield made
    finally:
        made.close()

"""The platform file as its page describes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairlead.core.errors import ConfigError
from fairlead.core.model.platform import FileSystem, Layer, Platform
from fairlead.show.report.report_builder import read_report_platform

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "platform.md"


def test_the_example_of_the_page_is_read(tmp_path: Path) -> None:
    found = re.search(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    (tmp_path / "site.toml").write_text(found[1], encoding="utf-8")
    platform = read_report_platform(tmp_path / "site.toml")
    assert platform.file_systems[0].process_bandwidth_bytes_per_s == 1.5e9
    assert platform.layers[0].mdops == 50_000


def test_every_key_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for struct in (Platform, FileSystem, Layer):
        missing = [name for name in struct.__struct_fields__ if name not in text]
        assert not missing, struct.__name__


def test_a_wrong_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("nodse = 3\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="nodse"):
        read_report_platform(tmp_path / "site.toml")

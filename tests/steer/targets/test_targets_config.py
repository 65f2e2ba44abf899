"""The targets file: what is accepted, and that what is not is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.core.errors import ConfigError
from fairlead.steer.targets.config import (
    Striping,
    build_config_striping,
    list_config_pools,
    parse_config_layout,
    parse_config_size,
    read_config,
)
from targets_building import write_targets

GOOD = '[metadata]\nstore = "m"\n[[targets]]\nname = "a"\npath = "a"\npool = "fast"\nmax_perf = "500M"\n'


def _read(folder: Path, text: str) -> None:
    path = folder / "t.toml"
    path.write_text(text, encoding="utf-8")
    read_config(path)


def test_a_full_file(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    layout = '[layout]\nstripe_count = 0\nstripe_size = "64K"\npool = "fast"\nplacement = "round-robin"\n'
    path.write_text(GOOD + layout, encoding="utf-8")
    config = read_config(path)
    assert build_config_striping(config) == Striping(0, 65536, "fast")
    assert list_config_pools(config) == {"fast"}
    assert config.metadata.store == str(tmp_path / "m")
    assert config.targets[0].path == str(tmp_path / "a")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "metadata"),
        ("[metadata", "not TOML"),
        ('[metadata]\nstore = "m"\n', "targets"),
        ('targets = []\n[metadata]\nstore = "m"\n', "no [[targets]]"),
        (GOOD.replace('store = "m"', ""), "one of `store` and `service`"),
        (GOOD.replace('store = "m"', 'store = "m"\nservice = "unix:x"'), "one of `store` and `service`"),
        (GOOD + 'colour = "red"\n', "colour"),
        (GOOD + '[[targets]]\nname = "a"\npath = "b"\n', "two targets are called"),
        (GOOD + '[[targets]]\nname = "b"\npath = "a"\n', "two targets have the path"),
        (GOOD.replace('"500M"', '"fast"'), "not a size"),
        (GOOD.replace('"500M"', "0"), "not positive"),
        (GOOD.replace('name = "a"', 'name = "a/b"'), "target name"),
        (GOOD + "[layout]\nstripe_count = 65\n", "stripe count"),
        (GOOD + '[layout]\nstripe_size = "5000"\n', "multiple"),
        (GOOD + '[layout]\npool = "slow"\n', "no target is in the pool"),
        (GOOD + '[layout]\nplacement = "best"\n', "placement"),
    ],
)
def test_wrong_files_are_refused_with_the_reason(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(ConfigError, match=r"t\.toml") as caught:
        _read(tmp_path, text)
    assert what in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_config(tmp_path / "none.toml")


@pytest.mark.parametrize(("text", "size"), [("500M", 500 << 20), ("1.5G", 3 << 29), ("4096", 4096), ("64KiB", 65536)])
def test_sizes(text: str, size: int) -> None:
    assert parse_config_size(text) == size


def test_layouts() -> None:
    default = Striping(1, 1 << 20, None)
    assert parse_config_layout("", default, set()) == default
    assert parse_config_layout("count=4,size=64K,pool=fast", default, {"fast"}) == Striping(4, 65536, "fast")
    for wrong in ("count", "count=x", "count=99", "size=1", "pool=none", "colour=red", "size=abc"):
        with pytest.raises(ValueError):
            parse_config_layout(wrong, default, {"fast"})


def test_the_builder_makes_a_good_file(tmp_path: Path) -> None:
    assert len(read_config(write_targets(tmp_path)).targets) == 3

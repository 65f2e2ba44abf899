"""Settings of `fairlead up`: strict, layered, each with its origin; a wrong one is named with its path."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from fairlead.core.errors import ConfigError, InputError
from fairlead.run.config import (
    Config,
    build_config_policy,
    format_config,
    list_config_paths,
    load_config,
    resolve_config,
)


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "server.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_no_file_is_enough() -> None:
    config, origins = load_config(None, environment={})
    assert config == Config()
    assert origins == {}
    whole = resolve_config(config)
    assert Path(whole.server.lake).is_absolute()
    assert whole.collector.listen[0].startswith("unix:")
    assert whole.collector.listen[1] == "tcp:127.0.0.1:8571"
    assert whole.api.listen == ["tcp:127.0.0.1:8572"]


def test_the_later_of_file_environment_and_flag_counts(tmp_path: Path) -> None:
    path = _file(tmp_path, "[carry]\nevery_s = 5\n[collector.limits]\nconnections = 7\nheader_s = 3\n")
    environment = {"FAIRLEAD_CARRY_EVERY_S": "6", "FAIRLEAD_COLLECTOR_LIMITS_HEADER_S": "4", "FAIRLEAD_LAKE": "/x"}
    config, origins = load_config(
        path, environment=environment, flags=["carry.every_s=7", "api.listen=unix:/a,tcp:h:1"]
    )
    assert config.carry.every_s == 7
    assert config.collector.limits.header_s == 4
    assert config.collector.limits.connections == 7
    assert config.api.listen == ["unix:/a", "tcp:h:1"]
    assert origins == {
        "carry.every_s": "flag",
        "collector.limits.connections": str(path),
        "api.listen": "flag",
        "collector.limits.header_s": "environment FAIRLEAD_COLLECTOR_LIMITS_HEADER_S",
    }


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[colector]\n", "colector"),
        ("[collector]\nlisen = []\n", "collector.lisen"),
        ("[collector.limits]\nheader_s = 'soon'\n", "collector.limits.header_s"),
        ("[collector.limits]\nheader_s = -1\n", "collector.limits.header_s"),
        ("[collector.limits]\nheader_s = nan\n", "collector.limits.header_s"),
        ("[collector]\nlisten = ['tcp:host']\n", "collector.listen"),
        ("[collector]\nlisten = ['tls:host:1']\n", "collector.listen"),
        ("[collector]\ntls_key = 'x'\n", "collector.tls_certificate"),
        ("[collector]\nshard = '../x'\n", "collector.shard"),
        ("[analysis]\nshard = 'main'\n", "analysis.shard"),
        ("[carry]\nevery_s = 0\n", "carry.every_s"),
        ("[keep.tables]\nopps = 3\n", "keep.tables.opps"),
        ("[feeds]\ndrops = []\n", "feeds.drops"),
        ("[server\n", "not valid TOML"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(_file(tmp_path, text), environment={})
    assert named in str(raised.value)


def test_wrong_names_outside_the_file_are_named_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="FAIRLEAD_CARRY_EVRY_S"):
        load_config(None, environment={"FAIRLEAD_CARRY_EVRY_S": "3"})
    with pytest.raises(ConfigError, match=r"carry\.evry_s"):
        load_config(None, environment={}, flags=["carry.evry_s=3"])
    with pytest.raises(ConfigError, match=r"carry\.every_s"):
        load_config(None, environment={"FAIRLEAD_CARRY_EVERY_S": "often"})
    with pytest.raises(InputError):
        load_config(tmp_path / "absent", environment={})


def test_what_is_shown_can_be_read_again(tmp_path: Path) -> None:
    text = "[keep]\nraw_days = 0\n[[feeds.drop]]\nfolder = '/in\"x'\n"
    config, origins = load_config(_file(tmp_path, text), environment={}, flags=["carry.every_s=9"])
    page = format_config(resolve_config(config), origins, with_origin=True)
    assert "every_s = 9.0  # flag" in page
    assert "# default" in page
    again, _ = load_config(_file(tmp_path, page), environment={})
    assert build_config_policy(again.keep) == build_config_policy(config.keep)
    assert again.feeds == config.feeds
    assert again.carry == config.carry
    assert build_config_policy(config.keep).raw_days is None
    assert tomllib.loads(page)["carry"]["every_s"] == 9


def test_every_setting_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "server-config.md").read_text(encoding="utf-8")
    for path in list_config_paths():
        assert f"`{path.rpartition('.')[2]}`" in page, path

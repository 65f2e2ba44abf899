"""What the agent is told: options over a file, every mistake named with its place."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from fairlead.cli.agent import run_agent
from fairlead.see.agent import probe_names
from fairlead.see.agent.settings import _READERS, HELP, SettingError, parse_agent_settings

NONE = "/nonexistent/agent.conf"


def test_options_override_the_file(tmp_path: Path) -> None:
    file = tmp_path / "agent.conf"
    file.write_text(
        "# a comment\n[agent]\nserver = https://c:9\ntoken = /t\nspool_bytes = 64M\nship_s = 5\nspools = /a, /b\n"
        "[probe lustre_ost]\nperiod_s = 5\n; another\n[probe events]\npaths = /var/log/a /var/log/b\nhistory = yes\n"
    )
    found = parse_agent_settings(["--config", str(file), "--ship-s=2.5", "--node", "n7"], NONE)
    assert (found.server, found.ship_s, found.spool_bytes, found.node) == ("https://c:9", 2.5, 64 << 20, "n7")
    assert found.spools == ("/a", "/b")
    sections = dict(found.probe)
    assert sections["lustre_ost"].period_s == 5
    assert sections["events"].options == (("paths", "/var/log/a /var/log/b"), ("history", "yes"))
    assert parse_agent_settings([], str(file)).ship_s == 5
    assert parse_agent_settings([], NONE).node


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense\n", r"conf:1: 'nonsense' is no"),
        ("a = 1\n", r"conf:1: unknown setting 'a'"),
        ("once = yes\n", r"conf:1: unknown setting 'once'"),
        ("\nship_s = fast\n", r"conf:2 \(ship_s\): 'fast' cannot be used"),
        ("spool_bytes = 5Q\n", "conf:1"),
        ("sync = perhaps\n", "conf:1"),
        ("[probe]\n", "conf:1: sections are"),
        ("[probe x]\nperiod_s = 0\n", r"conf:2 \(period_s\)"),
        ("server = ftp://x\n", "give https://HOST:PORT"),
        ("server = https://x:port\n", "conf:1"),
        ("server = https://:9\n", "give https://HOST:PORT"),
        ("server = https://x\n", "a server needs a token"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "agent.conf"
    file.write_text(text)
    with pytest.raises(SettingError, match=said):
        parse_agent_settings([], str(file))


@pytest.mark.parametrize(
    "words", [["--nothing"], ["server"], ["--server"], ["--once=yes"], ["--ship-s", "x"], ["--config", "/nonexistent"]]
)
def test_a_wrong_option_is_named(words: list[str]) -> None:
    with pytest.raises(SettingError):
        parse_agent_settings(words, NONE)


def test_the_command_takes_the_same_options_as_the_single_file() -> None:
    options = {one.opts[0] for one in run_agent.params if isinstance(one, click.Option)}
    own = {"--" + name.replace("_", "-") for name in _READERS} | {"--config"}
    assert options == own - {"--quiet"}, "which is an option of fairlead itself"
    for option in own:
        assert option in HELP


def test_probes_are_named_and_found() -> None:
    assert set(probe_names.expand_probe_names(["auto"])) == set(probe_names.PROBES) - set(probe_names.ON_REQUEST)
    assert probe_names.expand_probe_names(["lustre-client", "lustre_osc"]) == [
        "lustre_llite",
        "lustre_osc",
        "lustre_mdc",
    ]
    assert probe_names.list_named_probes(["auto", "disks"]) == ["disks"]
    with pytest.raises(SettingError, match="unknown probe 'x'"):
        probe_names.expand_probe_names(["x"])
    with pytest.raises(SettingError, match="no such probe"):
        probe_names.make_named_probes(["auto"], "/", "n", from_arguments_of("[probe nothing]\nperiod_s = 1\n"))
    with pytest.raises(SettingError, match="colour"):
        probe_names.make_named_probes(["disks"], "/", "n", from_arguments_of("[probe disks]\ncolour = red\n"))
    ((_, probe),) = probe_names.make_named_probes(
        ["disks"], "/", "n", from_arguments_of("[probe disks]\nperiod_s = 7\n")
    )
    assert probe.period_s == 7


def from_arguments_of(text: str) -> tuple:  # type: ignore[type-arg]
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(text)
        file.flush()
        return parse_agent_settings(["--config", file.name], NONE).probe


def test_every_probe_of_the_table_is_there_and_takes_a_root(tmp_path: Path) -> None:
    made = dict(probe_names.make_named_probes(list(probe_names.PROBES), str(tmp_path), "n1", ()))
    assert set(made) == set(probe_names.PROBES)
    for probe in made.values():
        assert probe.period_s > 0
        assert probe.timeout_s > 0

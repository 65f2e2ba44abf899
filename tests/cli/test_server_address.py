"""One definition of the server every command talks to: the same options, variables and precedence, on a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from fairlead.cli.main import cli
from fairlead.core.access.server_variables import ADDRESS_VARIABLES, AUTHORITY_VARIABLES, TOKEN_VARIABLES
from serving import Up

SETTINGS = '[api]\nlisten = ["tcp:127.0.0.1:0"]\n'
TALKS = (
    ("server", "status"),
    ("job", "list"),
    ("top", "--once"),
    ("ask", "system"),
    ("alert", "subscriptions"),
)
"""One command of each kind that talks to a server."""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A server with its API on a free port."""
    with Up(tmp_path_factory.mktemp("up"), SETTINGS) as running:
        yield running


def _run(words: tuple[str, ...], **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLEAD_")}
    return subprocess.run(
        [sys.executable, "-m", "fairlead", *words], capture_output=True, text=True, env=kept | variables, check=False
    )


def _api(up: Up) -> str:
    told = json.loads((up.state / "addresses.json").read_text())
    return "http://" + str(told["api"][0]).partition(":")[2]


def _list_server_commands(
    command: click.Command, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], dict[str, click.Parameter]]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _list_server_commands(below, (*words, name))
        return
    options = {option: one for one in command.params for option in one.opts}
    if "--server" in options and words != ("agent", "run"):  # an agent sends to a collector, with a setting of its own
        yield words, options


def test_every_command_that_takes_a_server_reads_the_same_variables() -> None:
    found = dict(_list_server_commands(cli))
    assert {words[:2] for words in TALKS if words[0] not in ("top", "ask")} <= found.keys()
    for words, options in found.items():
        for option, variables in (
            ("--server", ADDRESS_VARIABLES),
            ("--token", TOKEN_VARIABLES),
            ("--ca", AUTHORITY_VARIABLES),
        ):
            assert options[option].envvar == variables, (words, option)


@pytest.mark.parametrize("words", TALKS, ids=" ".join)
def test_a_command_reaches_the_api_by_option_and_by_variable(up: Up, words: tuple[str, ...]) -> None:
    token = str(up.state / "operator.token")
    json_too = () if words[0] in ("top", "ask") else ("--json",)
    words = (*words, *json_too)
    for done in (
        _run((*words, "--server", _api(up), "--token", token)),
        _run(words, FAIRLEAD_SERVER=_api(up), FAIRLEAD_TOKEN_FILE=token),
        # An option overrides the variable.
        _run((*words, "--server", _api(up)), FAIRLEAD_SERVER="http://127.0.0.1:1", FAIRLEAD_TOKEN_FILE=token),
        _run(words, FAIRLEAD_API=_api(up), FAIRLEAD_TOKEN_FILE=token),
    ):
        assert (done.returncode, done.stderr) == (0, ""), words
        assert done.stdout
    away = _run(words, FAIRLEAD_SERVER="http://127.0.0.1:1", FAIRLEAD_TOKEN_FILE=token)
    assert "the server does not respond" in away.stderr
    assert away.returncode not in (0, 1)
    nobody = _run((*words, "--server", _api(up)))
    assert "token" in nobody.stderr
    assert nobody.returncode not in (0, 1)


def test_the_state_of_the_server_is_the_same_by_api_and_by_collector(up: Up) -> None:
    token = str(up.state / "operator.token")
    told = {}
    for address in (_api(up), f"http://127.0.0.1:{up.port}", f"unix:{up.unix}"):
        done = _run(("server", "status", "--server", address, "--token", token, "--json"))
        assert done.returncode == 0, done.stderr
        told[address] = json.loads(done.stdout)
    shown = {(one["schema"], one["state"], one["collector"]["started_ns"]) for one in told.values()}
    assert len(shown) == 1
    assert _run(("server", "status"), FAIRLEAD_LAKE=str(up.state / "lake")).returncode == 0

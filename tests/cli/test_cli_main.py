"""The command line's frame: lazy commands, errors as one message, exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

import fairlead
from fairlead.cli import main as frame
from fairlead.cli.main import COMMANDS, main
from fairlead.cli.noun import RENAMED
from fairlead.core import errors

COMMAND = """
import errno

import click
from fairlead.cli.printing import print_message
from fairlead.core.errors import CorruptInputError

@click.group()
def probe():
    pass

@probe.command()
def damaged():
    raise CorruptInputError("the header ends early", where="a.log", remedy="copy it again")

@probe.command()
def interrupted():
    raise KeyboardInterrupt

@probe.command()
def defect():
    raise ZeroDivisionError("one by nothing")

@probe.command()
def full():
    raise OSError(errno.ENOSPC, "No space left on device")

@probe.command()
def four():
    return 4

@probe.command()
def talk():
    print_message("so far so good")
    click.echo("data")

@probe.command()
def odd_name():
    click.echo(b"caf\\xe9".decode("utf-8", "surrogateescape"))
"""


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command `probe` of verbs that end in every way a command can."""
    (tmp_path / "probe_command.py").write_text(COMMAND)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(COMMANDS, "probe", ("probe_command:probe", "Ends in every way."))
    monkeypatch.delitem(sys.modules, "probe_command", raising=False)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_of_the_table_is_there(name: str) -> None:
    module, _, attribute = COMMANDS[name][0].partition(":")
    command = getattr(import_module(module), attribute)
    assert isinstance(command, click.Command)
    assert command.name == name
    assert command.help


def test_help_lists_all_commands_and_loads_nothing_heavy() -> None:
    script = (
        "import sys\nfrom fairlead.cli.main import main\ncode = main(['--help'])\n"
        "heavy = {'numpy', 'pyarrow', 'numba', 'rich', 'msgspec', 'fairlead.cli.report', 'fairlead.cli.doctor'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\nsys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name, (_, summary) in COMMANDS.items():
        assert f"  {name} " in done.stdout
        assert summary in done.stdout


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fairlead {fairlead.__version__}\n"


def test_help_of_a_group_shows_the_line_of_the_table(probe: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "Ends in every way." in capsys.readouterr().out
    assert "probe_command" not in sys.modules


def test_an_error_is_one_message_with_place_remedy_and_its_code(
    probe: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", "damaged"]) == errors.CorruptInputError.exit_code == 3
    captured = capsys.readouterr()
    assert captured.err == "error: a.log: the header ends early\n  → copy it again\n"
    assert captured.out == ""


def test_a_full_disk_is_no_defect(
    probe: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame, "_silence_stdout", lambda: None)
    assert main(["probe", "full"]) == errors.UsageError.exit_code
    assert "cannot be written: No space left on device" in capsys.readouterr().err


def test_a_wrong_call_names_the_help_of_its_command(probe: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "four", "--nope"]) == errors.UsageError.exit_code == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert "--nope" in err
    assert err.endswith("  → fairlead probe four --help\n")
    assert main(["no-such-command"]) == 2
    assert "no-such-command" in capsys.readouterr().err


def test_a_defect_stays_a_traceback_with_a_note(probe: None) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        main(["probe", "defect"])
    assert any("bug in fairlead" in note for note in caught.value.__notes__)


def test_interruption(probe: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "interrupted"]) == 128 + signal.SIGINT
    assert capsys.readouterr().err.strip().endswith("interrupted")


def test_a_command_may_return_its_exit_code(probe: None) -> None:
    assert main(["probe", "four"]) == 4


def test_quiet_silences_talk_and_no_data(probe: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "talk"]) == 0
    assert capsys.readouterr() == ("data\n", "so far so good\n")
    assert main(["--quiet", "probe", "talk"]) == 0
    assert capsys.readouterr() == ("data\n", "")


def test_a_reader_that_goes_away_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        done = subprocess.run(
            [sys.executable, "-m", "fairlead", "--help"], stdout=gone, stderr=subprocess.PIPE, check=False
        )
    assert done.stderr == b""
    assert done.returncode == frame.BROKEN_PIPE


def test_completion_of_names_comes_from_the_table_alone() -> None:
    environment = {
        **os.environ,
        "_FAIRLEAD_COMPLETE": "bash_complete",
        "COMP_WORDS": "fairlead repo",
        "COMP_CWORD": "1",
    }
    script = "import sys\nfrom fairlead.cli.main import main\nmain([])\nassert 'fairlead.cli.report' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "plain,report\n"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_a_name_that_no_encoding_knows_is_printed_all_the_same(probe: None, tmp_path: Path, encoding: str) -> None:
    script = (
        "import sys\nfrom fairlead.cli import main as frame\n"
        "frame.COMMANDS['probe'] = ('probe_command:probe', '')\nsys.exit(frame.main(['probe', 'odd-name']))"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    # click replaces an ASCII stream by one of its own, which shows a question mark.
    assert done.stdout in (b"caf\\udce9\n", b"caf?\n")


@pytest.mark.parametrize(("old", "new"), RENAMED.items(), ids=RENAMED)
def test_an_old_word_is_an_error_that_names_the_new_one(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["x1" if word == "NAME" else word for word in old.split()]
    if words[0] in COMMANDS and len(words) == 1:
        words.append("--last")  # the noun alone shows its help
    assert main(words) == errors.UsageError.exit_code
    assert f"  → it is now: fairlead {new}\n" in capsys.readouterr().err
    path = [word for word in new.split() if not word.startswith("-")]
    assert main([*path, "--help"]) == 0, "the new one exists"


def test_a_verb_spelt_wrong_names_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "lst"]) == errors.UsageError.exit_code
    assert capsys.readouterr().err == "error: there is no command 'job lst'\n  → perhaps: fairlead job list\n"
    assert main(["repot"]) == errors.UsageError.exit_code
    assert capsys.readouterr().err.endswith("  → perhaps: fairlead report\n")

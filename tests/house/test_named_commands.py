"""Every command and option that a message, rule, page or doc names is in the tree of commands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

from fairlead.cli.main import COMMANDS, NOUNS, cli

ROOT = Path(__file__).resolve().parents[2]
CALL = re.compile(r"\bfairlead((?: +(?:-q )?[\w./:@$~<>{}\[\]=,%*+|'-]+)+)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
FOREIGN = {"--me", "--upgrade"}
"""Options of other programs that remedies name: squeue, pip."""


@cache
def _get_command(words: tuple[str, ...]) -> click.Command | None:
    found: click.Command | None = cli
    for word in words:
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), word)
    return found


@cache
def _list_options() -> frozenset[str]:
    def walk(command: click.Command) -> Iterator[str]:
        for one in command.params:
            yield from (*one.opts, *one.secondary_opts)
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                yield from walk(below)

    return frozenset(walk(cli)) | {"--help", "--version"}


def find_wrong_calls(text: str) -> list[str]:
    """Calls of `fairlead` in a text whose verb or options do not exist."""
    wrong = []
    for found in CALL.finditer(text):
        words = found[1].split()
        if words[0] not in COMMANDS:
            continue
        path: tuple[str, ...] = (words[0],)
        if words[0] in NOUNS and len(words) > 1:
            verbs = _get_command(path)
            assert isinstance(verbs, click.Group)
            if words[1].strip(".,:") in verbs.commands:
                path = (words[0], words[1].strip(".,:"))
            elif re.fullmatch(r"[a-z][a-z-]+", words[1]):
                if re.match(r"(and|or|is|are|in|on|of|for|with|shows?|lists?|has|does|to|as|reads?|says?)$", words[1]):
                    continue
                wrong.append(f"{found[0].strip()}: no verb {words[1]!r}")
                continue
        command = _get_command(path)
        assert command is not None
        known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help", "-h"}
        if isinstance(command, click.Group):
            continue
        for word in words[len(path) :]:
            option = word.split("=")[0].rstrip(".,;:")
            if re.fullmatch(r"--[a-z][a-z-]*", option) and option not in known:
                wrong.append(f"{found[0].strip()}: no option {option}")
    return wrong


def _list_texts() -> Iterator[tuple[str, str]]:
    source = ROOT / "src" / "fairlead"
    for path in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "fairlead " in node.value:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value
            elif isinstance(node, ast.JoinedStr):
                text = "".join(one.value if isinstance(one, ast.Constant) else "X" for one in node.values)  # type: ignore[misc]
                yield f"{path.relative_to(ROOT)}:{node.lineno}", text
    others = [*source.rglob("*.toml"), *(ROOT / "pages/src").rglob("*.vue"), *(ROOT / "pages/src").rglob("*.ts")]
    others += [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", *(ROOT / "deploy").rglob("*.*")]
    for path in sorted(others):
        if "decisions" in path.parts or path.name in ("cli.md", "types.ts"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            yield f"{path.relative_to(ROOT)}:{number}", line


def _list_remedies() -> Iterator[tuple[str, str]]:
    """What errors and missing data say is to be done."""
    for path in sorted((ROOT / "src" / "fairlead").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "remedy":
                for one in ast.walk(node.value):
                    if isinstance(one, ast.Constant) and isinstance(one.value, str):
                        yield f"{path.relative_to(ROOT)}:{one.lineno}", one.value


def test_every_command_named_anywhere_exists() -> None:
    wrong = [f"{place}: {fault}" for place, text in _list_texts() for fault in find_wrong_calls(text)]
    assert not wrong, "\n".join(wrong)


def test_every_option_a_remedy_names_exists() -> None:
    known = _list_options() | FOREIGN
    wrong = [
        f"{place}: {option}"
        for place, text in _list_remedies()
        for option in OPTION.findall(text)
        if option not in known
    ]
    assert not wrong, "\n".join(wrong)


def test_the_check_finds_what_does_not_exist() -> None:
    assert find_wrong_calls("give it: fairlead ingest --no-such-zone UTC") == [
        "fairlead ingest --no-such-zone UTC: no option --no-such-zone"
    ]
    assert find_wrong_calls("`fairlead lake tidy`") == ["fairlead lake tidy: no verb 'tidy'"]
    assert not find_wrong_calls("fairlead ingest --time-zone UTC sacct.txt; fairlead job list --last 1h")

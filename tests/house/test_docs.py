"""The documentation agrees with the code: generated pages are fresh, everything has its page, examples run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import click
import pytest

from fairlead.cli.main import COMMANDS, cli
from fairlead.core import errors
from fairlead.core.model.tables import TABLES
from fairlead.see.sources.registered_sources import SOURCES

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _page_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _generator() -> ModuleType:
    spec = spec_from_file_location("docs_generate", DOCS / "_generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", list(_generator().PAGES))
def test_generated_pages_are_fresh(name: str) -> None:
    made = _generator().PAGES[name]()
    assert (DOCS / name).read_text(encoding="utf-8") == made, "run: make docs-generate"


def _commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(cli, info_name="fairlead")
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        yield f"fairlead {name}", command
        if isinstance(command, click.Group):
            yield from ((f"fairlead {name} {verb}", inner) for verb, inner in command.commands.items())


def test_every_command_and_option_is_in_the_reference_and_has_help() -> None:
    text = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    for path, command in _commands():
        assert re.search(rf"^##+ {re.escape(path)}$", text, re.MULTILINE), path
        assert command.help, f"{path} has no help"
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, f"{path} {option.opts[0]} has no help"
                assert f"`{option.opts[0]}`" in text


def test_every_exit_code_is_in_the_reference() -> None:
    text = (DOCS / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(kinds) > 5
    for kind in kinds:
        if kind is not errors.FairleadError:
            assert f"| {kind.exit_code} | `{kind.__name__}` |" in text


def test_every_table_is_in_the_reference() -> None:
    text = (DOCS / "reference" / "records.md").read_text(encoding="utf-8")
    for spec in TABLES.values():
        section = text.partition(f"\n## {spec.name}\n")[2].partition("\n## ")[0]
        assert section, spec.name
        for column in spec.schema.names:
            assert f"| `{column}` |" in section, f"{spec.name}.{column}"


@pytest.mark.parametrize("name", list(SOURCES))
def test_every_source_has_a_page(name: str) -> None:
    page = DOCS / "reference" / "sources" / f"{name}.md"
    assert page.is_file(), f"write {page.relative_to(ROOT)}: what is read, which versions, what is not"
    assert len(page.read_text(encoding="utf-8").split()) > 80


def test_decisions_are_numbered_and_say_what_was_rejected() -> None:
    pages = sorted((DOCS / "decisions").glob("*.md"))
    numbers = [re.match(r"(\d{4})-[a-z0-9.-]+\.md$", page.name) for page in pages]
    assert all(numbers), [page.name for page in pages]
    assert [int(match[1]) for match in numbers if match] == list(range(1, len(pages) + 1))
    for page in pages:
        assert "reject" in page.read_text(encoding="utf-8").lower(), page.name


@pytest.mark.parametrize("page", PAGES, ids=_page_name)
def test_links_inside_the_project_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            continue
        path = target.partition("#")[0]
        assert (page.parent / path).exists(), f"{_page_name(page)} → {target}"


def _examples() -> Iterator[tuple[str, str, list[str]]]:
    for page in PAGES:
        for block in CONSOLE.findall(page.read_text(encoding="utf-8")):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                yield _page_name(page), command, shown.rstrip("\n").split("\n") if shown.strip() else []


EXAMPLES = list(_examples())


def test_there_are_examples() -> None:
    assert any(page == "README.md" for page, _, _ in EXAMPLES)
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize(("page", "command", "shown"), EXAMPLES, ids=[f"{p}: {c}" for p, c, _ in EXAMPLES])
def test_examples_print_what_the_page_shows(page: str, command: str, shown: list[str], tmp_path: Path) -> None:
    """A ```console block runs in a folder that holds `examples/`; a line `...` stands for any lines."""
    words = command.split()
    assert words[0] == "fairlead", f"{page}: only fairlead is run; write other commands in a ```sh block"
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TZ": "UTC"}
    environment.pop("FORCE_COLOR", None)
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", *words[1:]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    printed = [line.rstrip() for line in (done.stdout + done.stderr).splitlines()]
    at, free = 0, False
    for line in (line.rstrip() for line in shown):
        if line == "...":
            free = True
            continue
        rest = printed[at:]
        assert line in (rest if free else rest[:1]), f"{page} shows {line!r}, fairlead prints:\n" + "\n".join(printed)
        at, free = at + rest.index(line) + 1, False


def test_the_readme_gives_one_command_to_run_and_one_to_test() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first_screen = "\n".join(readme.splitlines()[:40])
    assert re.findall(r"^make \w+", first_screen, re.MULTILINE) == ["make run", "make test"]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.findall(r"^make .*$", script, re.MULTILINE) == ["make test"]


def test_the_site_builds_strictly_and_asks_nobody_for_anything(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= len(list(DOCS.rglob("*.md")))
    fetched = re.compile(
        r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//|<link\b[^>]*\bhref=[\"']?(?:https?:)?//"
    )
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not fetched.search(text), page.name
        assert "fonts.g" not in text
    assert not list((tmp_path / "site").rglob("*.py"))

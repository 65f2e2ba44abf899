"""`fairlead ask`: any question by its name in the catalog, those of plug-ins too, answered as JSON."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead.cli.ask import Asker, where_options
from fairlead.core.errors import UsageError


@click.command()
@click.argument("question", required=False)
@click.argument("words", nargs=-1, metavar="[NAME] [KEY=VALUE]...")
@where_options
def ask(
    question: str | None,
    words: tuple[str, ...],
    root: Path | None,
    server: str | None,
    token: Path | None,
    authority: Path | None,
) -> None:
    """Ask any QUESTION by name, those of plug-ins included, and print the answer as JSON.

    NAME is its subject, KEY=VALUE are parameters, for example `fairlead ask queue last=7d`. Without QUESTION, lists the
    names.
    """
    from fairlead.core.safe_text import escape_undecodable_text
    from fairlead.explain.questions.question_catalog import list_questions

    known = list_questions()
    if question is None:
        for name, asked in known.items():
            click.echo(f"{name:24} {asked.about}")
        return
    if question not in known:
        raise UsageError(f"there is no question {question!r}", remedy="`fairlead ask` lists them")
    names = [word for word in words if "=" not in word]
    if len(names) > 1:
        raise UsageError(f"unexpected argument {names[1]!r}", remedy="give parameters as KEY=VALUE")
    parameters = dict(word.split("=", 1) for word in words if "=" in word)
    answer = Asker(root, server, token, authority).ask(question, *names, **parameters)
    import msgspec

    click.echo(msgspec.json.encode(escape_undecodable_text(answer)).decode())

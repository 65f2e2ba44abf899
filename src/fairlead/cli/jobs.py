"""`fairlead jobs`: which jobs ran, who ran them, what they moved. Not here: one job (`job`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from fairlead.cli.ask import Asker, asking_options, show_json
from fairlead.cli.messages import say

if TYPE_CHECKING:
    from fairlead.explain.questions.answers import Jobs

_SORTS = ("start", "end", "read", "write", "bytes", "metadata", "nodes", "user", "job")


@click.command()
@click.option("--user", default="", metavar="NAME", help="Only this user's.")
@click.option("--project", default="", metavar="NAME", help="Only this project's.")
@click.option("--program", default="", metavar="NAME", help="Only of this program.")
@click.option("--state", default="", metavar="STATE", help="Only in this state: COMPLETED, FAILED, RUNNING...")
@click.option("--partition", default="", metavar="NAME", help="Only of this partition.")
@click.option("--cluster", default="", metavar="NAME", help="Only of this cluster.")
@click.option("--node", default="", metavar="NAME", help="Only those on this node.")
@click.option("--running", is_flag=True, help="Only those that run now.")
@click.option(
    "--sort",
    type=click.Choice(_SORTS),
    default="start",
    show_default=True,
    help="What to order by, largest or latest first.",
)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many to list.")
@click.option("--offset", type=click.IntRange(0), default=0, help="How many to pass over first.")
@asking_options
def jobs(
    user: str,
    project: str,
    program: str,
    state: str,
    partition: str,
    cluster: str,
    node: str,
    running: bool,
    sort: str,
    limit: int,
    offset: int,
    root: Path | None,
    server: str | None,
    token: Path | None,
    authority: Path | None,
    last: str,
    from_: str,
    to: str,
    at: str,
    as_json: bool,
) -> None:
    """List the jobs that ran in a time (the last day), with what they moved.

    Figures are of the layer that tells a job's traffic best, named in the last column; a dash is not known.

    \b
      fairlead jobs --last 1h --sort bytes     which job moved most in the last hour
      fairlead jobs --running --user alice     what alice runs now
    """
    answer = Asker(root, server, token, authority).ask(
        "jobs",
        user=user,
        project=project,
        program=program,
        state=state,
        partition=partition,
        cluster=cluster,
        node=node,
        running=running,
        sort=sort,
        limit=limit,
        offset=offset,
        last=last,
        from_=from_,
        to=to,
        at=at,
    )
    if as_json:
        show_json(answer)
        return
    _show(cast("Jobs", answer), offset)


def _show(answer: Jobs, offset: int) -> None:
    from fairlead.cli.answer_tables import job_table
    from fairlead.cli.pictures import screen

    console = screen()
    if not answer.jobs:
        say("no job ran in this time" if not offset else "there are no more")
        return
    console.print(job_table(answer.jobs, answer.to_ns, console.width))
    if answer.total > len(answer.jobs):
        say(f"{offset + 1} to {offset + len(answer.jobs)} of {answer.total:,} jobs; more with --limit, --offset")

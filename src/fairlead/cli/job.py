"""`fairlead job`: lists of jobs, one job, why it was slow, how jobs behave. Not here: drawing (`job_rendering`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.ask import Request, add_ask_options
from fairlead.cli.noun import Noun
from fairlead.cli.options import add_limit_option, add_name_option, add_offset_option, cluster_option
from fairlead.cli.printing import print_message

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.explain.questions.answers import Jobs

_SORTS = ("start", "end", "read", "write", "bytes", "metadata", "nodes", "user", "job")


@click.group(cls=Noun)
def job() -> None:
    """Jobs: which ran, what they moved, why they were slow, how they behave."""


@job.command("list")
@add_name_option("--user", "Only jobs of this user.")
@add_name_option("--project", "Only jobs of this project.")
@add_name_option("--program", "Only runs of this program.")
@add_name_option("--state", "Only in this state: COMPLETED, FAILED, RUNNING...", "STATE")
@add_name_option("--partition", "Only jobs of this partition.")
@add_name_option("--cluster", "Only jobs of this cluster.")
@add_name_option("--node", "Only jobs on this node.")
@click.option("--running", is_flag=True, help="Only jobs that run now.")
@click.option(
    "--sort", type=click.Choice(_SORTS), default="start", show_default=True, help="Sort by, largest or latest first."
)
@add_limit_option("How many jobs to list.", 50)
@add_offset_option()
@add_ask_options()
def list_jobs(request: Request, offset: int, **words: Any) -> None:
    """List the jobs that ran in a time span (the last day), with what they moved.

    Volumes come from the layer that measures a job best, named in the last column; a dash means unknown.

    \b
      fairlead job list --last 1h --sort bytes     which job moved most in the last hour
      fairlead job list --running --user alice     what alice runs now
    """

    def parts(answer: Jobs, width: int) -> list[RenderableType]:
        from fairlead.cli.answer_tables import build_answer_job_table

        if not answer.jobs:
            print_message("there are no more" if offset else "no job ran in this time")
            return []
        if answer.total > len(answer.jobs):
            print_message(
                f"{offset + 1} to {offset + len(answer.jobs)} of {answer.total:,} jobs; more with --limit, --offset"
            )
        return [build_answer_job_table(answer.jobs, answer.to_ns, width)]

    request.show("jobs", parts=parts, offset=offset, **words)


@job.command("show")
@click.argument("job_id", metavar="ID")
@cluster_option
@click.option(
    "--points", type=click.IntRange(10, 5000), default=600, show_default=True, help="Maximum points of each series."
)
@add_ask_options()
def show_job(request: Request, job_id: str, **words: Any) -> None:
    """Show one job: account, volumes, bandwidth of each layer over time, forwarders and targets it used.

    In a picture a dot is no data and a low line is idle. If several runs have this number, the latest is shown, or the
    one that ran at --at.
    """
    from fairlead.cli.job_rendering import render_job

    request.show("job", job_id, parts=render_job, **words)


@job.command("explain")
@click.argument("job_id", metavar="ID")
@cluster_option
@add_ask_options(html=True)
def explain_job(request: Request, job_id: str, cluster: str) -> None:
    """Explain one job: what it got, what runs like it get, who or what took the difference, what to do about it.

    Also when nothing is wrong, and when the cause is unknown: then it says what data was missing. If several runs have
    this number, the latest is shown, or the one that ran at --at.
    """
    from fairlead.cli.job_rendering import render_job_explanation
    from fairlead.show.report.diagnosis.diagnosis_pages import build_job_diagnosis_page

    request.show("why", job_id, parts=render_job_explanation, page=build_job_diagnosis_page, cluster=cluster)


@job.command("behaviour")
@add_name_option("--user", "Only jobs of this user.")
@add_name_option("--program", "Only runs of this program.")
@add_name_option("--project", "Only jobs of this project.")
@add_limit_option("How many users, programs and runs to list.", 10)
@add_ask_options(html=True)
def describe_job_behaviour(request: Request, **words: Any) -> None:
    """Show how jobs behave (those that began in the last 30 days): I/O modes, volumes, request sizes, who moved most,
    who moved more than before, how many jobs went wrong and why.

    Without --user, --program or --project it also shows how busy the machine was. `--html FILE` draws all of it.
    """
    from fairlead.cli.behaviour_rendering import render_behaviour
    from fairlead.show.report.diagnosis.behaviour_page import build_behaviour_page

    request.show("behaviour", parts=render_behaviour, page=build_behaviour_page, **words)

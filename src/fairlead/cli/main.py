"""The command `fairlead`: the table of commands, global options, and how errors reach a person.

Not here: what a command does (one module per command, imported when it is called). Importing this module must stay
cheap: `fairlead --help` loads neither NumPy nor Arrow.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import click

import fairlead
from fairlead.core.errors import FairleadError, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS: dict[str, tuple[str, str]] = {
    "report": ("fairlead.cli.report:report", "A verdict on traces of a job: grade, findings, what to change."),
    "demo": ("fairlead.cli.demo:demo", "Real I/O on this machine, a fault injected and found."),
    "ingest": ("fairlead.cli.ingest:ingest", "Feed traces, counters and accounting into a lake."),
    "lake": ("fairlead.cli.lake:lake", "Look after a lake: info, query, compact, expire, backup."),
    "up": ("fairlead.cli.up:up", "Run the server: collector, lake, analysis and API."),
    "status": ("fairlead.cli.status:status", "How the server and its sources are."),
    "jobs": ("fairlead.cli.jobs:jobs", "Which jobs ran, who ran them, what they moved."),
    "job": ("fairlead.cli.job:job", "One job: volumes, each layer over time, components."),
    "findings": ("fairlead.cli.findings:findings", "What was found: slowed jobs, who slowed them, sick components."),
    "explain": ("fairlead.cli.explain:explain", "Why something was found: the evidence, with pictures."),
    "why": ("fairlead.cli.why:why", "What a job got, what it usually gets, who took the difference."),
    "health": ("fairlead.cli.health:health", "Which components are sick, since when, and which cannot be told."),
    "behaviour": ("fairlead.cli.behaviour:behaviour", "How jobs behave: modes, sizes, rates, who moves most."),
    "system": ("fairlead.cli.system:system", "The machine at a glance, and how watching goes."),
    "node": ("fairlead.cli.node:node", "One node: its jobs, its I/O, its probes."),
    "target": ("fairlead.cli.target:target", "Storage targets: load, space, imbalance, who uses one."),
    "mds": ("fairlead.cli.mds:mds", "Metadata load: who, what, from where."),
    "forwarders": ("fairlead.cli.forwarders:forwarders", "Forwarders by hour as a heat map, or one and who uses it."),
    "top": ("fairlead.cli.top:top", "Who moves most just now, refreshed."),
    "analyse": ("fairlead.cli.analyse:analyse", "Heavy work on months of a lake: jobs, findings, population."),
    "simulate": ("fairlead.cli.simulate:simulate", "Policies on published or own workloads, simulated."),
    "whatif": ("fairlead.cli.whatif:whatif", "Your own month under other policies and capacities, simulated."),
    "plan": ("fairlead.cli.plan:plan", "What an arriving job should get, and why: nothing is applied."),
    "alerts": ("fairlead.cli.alerts:alerts", "Who is told of what: list, silence, subscribe, test."),
    "account": ("fairlead.cli.account:account", "Who may sign in to the pages: add, role, disable, welcome."),
    "rules": ("fairlead.cli.rules:rules", "The diagnosis rules: list, show, check."),
    "forwarder": ("fairlead.cli.forwarder:forwarder", "Serve a tree of files to mounts."),
    "token": ("fairlead.cli.token:token", "Keys and tokens for forwarders and servers."),
    "mount": ("fairlead.cli.mount:mount", "Mount a tree through forwarders, or a folder of this machine."),
    "remap": ("fairlead.cli.remap:remap", "Move a mount to other forwarders, in use."),
    "umount": ("fairlead.cli.umount:umount", "End a mount."),
    "mounts": ("fairlead.cli.mounts:mounts", "List the mounts on this machine."),
    "targets": ("fairlead.cli.targets:targets", "Look after striped trees: list, check, export, set-layout."),
    "metadata": ("fairlead.cli.metadata:metadata", "Serve the metadata of a striped tree to several forwarders."),
    "agent": ("fairlead.cli.agent:agent", "The node agent: watch counters, keep deltas, send them."),
    "site": ("fairlead.cli.site:site", "Describe a site in one file: init, check."),
    "doctor": ("fairlead.cli.doctor:doctor", "What this machine can do, and the command for what it lacks."),
}
"""Name → (module:attribute, the line `--help` shows). The line is the command's short help, so both agree."""

INTERRUPTED = 130
BROKEN_PIPE = 141
"""128 + the signal's number, as a shell reports a program ended by SIGINT or SIGPIPE."""
DEFECT = "This is a defect of fairlead, not of your input. Please report it with the lines above."
_COMPLETE = "_FAIRLEAD_COMPLETE"
"""Set by the shell when it asks for completions (docs/howto/complete-commands.md)."""


class Commands(click.Group):
    """A group whose commands are imported when called; listing them imports nothing."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command itself; None for a name the table does not hold."""
        if cmd_name not in COMMANDS:
            return None
        target, summary = COMMANDS[cmd_name]
        module, _, attribute = target.partition(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{target} is no click command")
        command.short_help = summary
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list of commands from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completions of a command's name, from the table alone; of an option as click does."""
        from click.shell_completion import CompletionItem

        names = [(name, summary) for name, (_, summary) in COMMANDS.items() if name.startswith(incomplete)]
        items = [CompletionItem(name, help=summary) for name, summary in names]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(fairlead.__version__, "--version", prog_name="fairlead", message="%(prog)s %(version)s")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing on stderr but errors.")
def cli(quiet: bool) -> None:
    """fairlead sees, explains, decides and steers I/O on HPC storage.

    Data goes to stdout, talk to stderr.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code.

    A `FairleadError` becomes one message on stderr and its exit code. Any other exception is a defect and stays a
    traceback, with a note that says so.
    """
    try:
        _never_fail_on_encoding()
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except FairleadError as error:
        _complain(str(error))
        return error.exit_code
    except click.ClickException as error:
        _explain_call(error)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return BROKEN_PIPE
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            error.add_note(DEFECT)
            raise
        _silence_stdout()
        _complain(f"{error.filename or 'what is printed'}: cannot be written: {error.strerror}\n  → make room")
        return UsageError.exit_code
    except Exception as error:
        error.add_note(DEFECT)
        raise
    return code


def _run(arguments: list[str]) -> int:
    """The command line without any handling of errors: click's own would turn a broken pipe into exit 1."""
    instruction = os.environ.get(_COMPLETE)
    if instruction:
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "fairlead", _COMPLETE, instruction)
    try:
        with cli.make_context("fairlead", arguments) as context:
            result = cli.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    return result if isinstance(result, int) else 0


def _complain(text: str) -> None:
    click.echo(click.style("error: ", fg="red", bold=True) + text, err=True)


def _explain_call(error: click.ClickException) -> None:
    """A wrong call in the form of every other error: what, then the next step."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    step = f"\n  → {context.command_path} --help" if context is not None else ""
    _complain(error.format_message() + step)


def _never_fail_on_encoding() -> None:
    """File names that are no valid UTF-8, or a terminal without arrows, must not end in a UnicodeEncodeError."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _silence_stdout() -> None:
    """The reader has gone: what is still buffered goes nowhere instead of failing again at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:  # not a real file (a test's buffer)
        return


if __name__ == "__main__":
    sys.exit(main())

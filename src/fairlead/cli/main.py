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
from fairlead.cli.noun import build_unknown_noun_error
from fairlead.core.errors import FairleadError, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VERBS: dict[str, tuple[str, str]] = {
    "report": ("fairlead.cli.report:report", "A verdict on traces of a job: grade, findings, what to change."),
    "demo": ("fairlead.cli.demo:demo", "Run real I/O on this machine, inject a fault, find it."),
    "up": ("fairlead.cli.up:up", "Run the server: collector, lake, analysis and API."),
    "ingest": ("fairlead.cli.ingest:ingest", "Read traces, counters and accounting into a lake."),
    "seff": ("fairlead.cli.seff:seff", "How a job used what it had, in a few lines or one."),
    "top": ("fairlead.cli.top:top", "Watch who moves most right now."),
    "ask": ("fairlead.cli.question:ask", "Ask any question by name, those of plug-ins included."),
    "plan": ("fairlead.cli.plan:plan", "What an arriving job should get, and why; nothing is applied."),
    "whatif": ("fairlead.cli.whatif:whatif", "Replay your own past under other policies and capacities."),
    "simulate": ("fairlead.cli.simulate:simulate", "Simulate policies on published or own workloads."),
    "mount": ("fairlead.cli.mount:mount", "Mount a tree through forwarders or from here; list mounts."),
    "remap": ("fairlead.cli.remap:remap", "Move a mount to other forwarders while it is in use."),
    "umount": ("fairlead.cli.umount:umount", "Unmount."),
}
"""What is typed daily or is about no single noun. Name → (module:attribute, the line `--help` shows)."""
NOUNS: dict[str, tuple[str, str]] = {
    "job": ("fairlead.cli.job:job", "Jobs: list, show, explain, behaviour."),
    "finding": ("fairlead.cli.finding:finding", "What was found, with evidence: list, show."),
    "component": ("fairlead.cli.component:component", "Which components are sick, since when: list, show."),
    "system": ("fairlead.cli.system:system", "The whole system: show, space, network, devices."),
    "node": ("fairlead.cli.node:node", "One node, its jobs, I/O and probes: show."),
    "target": ("fairlead.cli.target:target", "Storage targets: list, show, utilisation."),
    "mds": ("fairlead.cli.mds:mds", "Metadata load, and where it comes from: show."),
    "forwarder": ("fairlead.cli.forwarder:forwarder", "Forwarders: run, list, show."),
    "history": ("fairlead.cli.history:history", "Months of a lake: summarise, diagnose, describe, explain."),
    "alert": ("fairlead.cli.alert:alert", "Who is notified of what: list, test, silence, ack, subscribe, ..."),
    "rule": ("fairlead.cli.rule:rule", "Diagnosis rules: list, show, check, advice, metrics."),
    "tree": ("fairlead.cli.tree:tree", "Striped trees: show, check, export, set-layout, serve-metadata."),
    "lake": ("fairlead.cli.lake:lake", "The lake: info, query, compact, expire, scrub, backup, restore."),
    "agent": ("fairlead.cli.agent:agent", "The node agent, which reads counters and sends them: run."),
    "probe": ("fairlead.cli.probe:probe", "Probes of the agents, and which fail: list."),
    "server": ("fairlead.cli.server:server", "A running server and its sources: status."),
    "account": ("fairlead.cli.account:account", "Who may sign in to the pages: add, role, disable, ..."),
    "token": ("fairlead.cli.token:token", "Keys and tokens for forwarders and servers: make-key, issue."),
    "site": ("fairlead.cli.site:site", "The description of a site in one file: init, check."),
    "host": ("fairlead.cli.host:host", "What this host can do, and what is missing: check."),
}
"""What commands are about; each is a group of verbs. In the form of `VERBS`."""
COMMANDS = VERBS | NOUNS
"""All of them. The line is the command's short help, so both agree."""

INTERRUPTED = 130
BROKEN_PIPE = 141
"""128 + the signal's number, as a shell reports a program ended by SIGINT or SIGPIPE."""
DEFECT = "This is a bug in fairlead, not in your input. Please report it with the lines above."
_COMPLETE = "_FAIRLEAD_COMPLETE"
"""Set by the shell when it asks for completions (docs/howto/complete-commands.md)."""


class Commands(click.Group):
    """A group whose commands are imported when called; listing them imports nothing."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the command; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        target, summary = COMMANDS[cmd_name]
        module, _, attribute = target.partition(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{target} is not a click command")
        command.short_help = summary
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first word. Raises UsageError, which names the new words for old ones."""
        if args and args[0] not in COMMANDS:
            raise build_unknown_noun_error([], args, list(COMMANDS))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands, from the tables alone."""
        for heading, nouns in (("Commands", False), ("Commands by noun", True)):
            with formatter.section(heading):
                formatter.write_dl([(n, summary) for n, (_, summary) in COMMANDS.items() if (n in NOUNS) == nouns])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return completions of a command's name, from the tables alone; of an option as click does."""
        from click.shell_completion import CompletionItem

        names = [(name, summary) for name, (_, summary) in COMMANDS.items() if name.startswith(incomplete)]
        items = [CompletionItem(name, help=summary) for name, summary in names]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(fairlead.__version__, "--version", prog_name="fairlead", message="%(prog)s %(version)s")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors on stderr.")
def cli(quiet: bool) -> None:
    """fairlead sees, explains, decides and steers I/O on HPC storage.

    Results on stdout, messages on stderr.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

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
        _complain(f"{error.filename or 'standard output'}: cannot be written: {error.strerror}\n  → free some space")
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

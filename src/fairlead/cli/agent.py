"""`fairlead agent run`: the node agent, in a fresh interpreter. Not here: what it does (`fairlead.see.agent`).

The agent runs for months on every node: it does not keep the memory that click and this command line took.
"""

from __future__ import annotations

import os
import sys

import click

from fairlead.cli.noun import Noun
from fairlead.cli.options import FILE, FOLDER
from fairlead.cli.printing import is_printing_quiet


@click.group(cls=Noun)
def agent() -> None:
    """The node agent."""


@agent.command("run")
@click.option(
    "--config", type=FILE, metavar="FILE", help="Settings, key = value. Default: /etc/fairlead/agent.conf if it exists."
)
@click.option("--server", metavar="URL", help="The collector, https://HOST:PORT. Without it records wait in the spool.")
@click.option("--token", type=FILE, metavar="FILE", help="The token to show to the collector.")
@click.option("--ca", type=FILE, metavar="FILE", help="Trust this authority (PEM) instead of the system's.")
@click.option(
    "--spool",
    type=FOLDER,
    metavar="DIR",
    help="Where records wait until they are sent. Default: /var/spool/fairlead/agent.",
)
@click.option("--spool-bytes", metavar="SIZE", help="Room they may take there, as 64M; the oldest go. Default: 256M.")
@click.option("--spools", metavar="DIR,...", help="Send what mounts and forwarders spool there, too.")
@click.option("--root", type=FOLDER, metavar="DIR", help="Read counters below DIR instead of /.")
@click.option("--node", metavar="NAME", help="This node's name in records. Default: the host's.")
@click.option("--probes", metavar="LIST", help="Which probes, by comma. Default: auto, all that find something.")
@click.option("--ship-s", metavar="SECONDS", help="How often records are sent while something happens. Default: 10.")
@click.option("--idle-s", metavar="SECONDS", help="And while nothing does. Default: 60.")
@click.option("--health-s", metavar="SECONDS", help="How often the agent tells of itself. Default: 60.")
@click.option("--sync", is_flag=True, help="Wait for the disk before a file of the spool counts.")
@click.option("--once", is_flag=True, help="Look twice, one second apart, send, end.")
@click.option("--check", is_flag=True, help="Say what is found and lacking here, ask the collector, end.")
def run_agent(**options: object) -> None:
    """Watch this node's counters, keep what changed, send it to a collector.

    Runs in the foreground until SIGTERM; SIGHUP reads settings and token anew. The same agent is one file for any
    Python from 3.6 on: make agent, dist/fairlead-agent.pyz.
    """
    words = [] if not is_printing_quiet() else ["--quiet"]
    for name, value in options.items():
        if value is True:
            words.append("--" + name.replace("_", "-"))
        elif value not in (None, False):
            words += ["--" + name.replace("_", "-"), str(value)]
    sys.stdout.flush()
    sys.stderr.flush()
    # One heap for its few threads: without it each keeps what it once needed.
    environment = {"MALLOC_ARENA_MAX": "1", **os.environ}
    os.execve(sys.executable, [sys.executable, "-m", "fairlead.see.agent", *words], environment)  # noqa: S606

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
@click.option(
    "--server", metavar="URL", help="The collector, https://HOST:PORT. Without it, records stay in the spool."
)
@click.option("--token", type=FILE, metavar="FILE", help="Token for the collector.")
@click.option("--ca", type=FILE, metavar="FILE", help="Trust this CA certificate (PEM) instead of the system's.")
@click.option(
    "--spool",
    type=FOLDER,
    metavar="DIR",
    help="Where records wait until they are sent. Default: /var/spool/fairlead/agent.",
)
@click.option(
    "--spool-bytes",
    metavar="SIZE",
    help="Maximum size of the spool, such as 64M; the oldest records are dropped. Default: 256M.",
)
@click.option("--spools", metavar="DIR,...", help="Also send what mounts and forwarders spool there.")
@click.option("--root", type=FOLDER, metavar="DIR", help="Read counters below DIR instead of /.")
@click.option("--node", metavar="NAME", help="This node's name in records. Default: the host name.")
@click.option(
    "--probes", metavar="LIST", help="Probes to run, comma-separated. Default: auto, all that find their source."
)
@click.option("--ship-s", metavar="SECONDS", help="Send interval while counters change. Default: 10.")
@click.option("--idle-s", metavar="SECONDS", help="Send interval while nothing changes. Default: 60.")
@click.option("--health-s", metavar="SECONDS", help="Interval of the agent's own status reports. Default: 60.")
@click.option("--sync", is_flag=True, help="Sync (fsync) spool files before they count as written.")
@click.option("--once", is_flag=True, help="Read the counters twice, one second apart, send and exit.")
@click.option("--check", is_flag=True, help="Report what is found and missing here, contact the collector, exit.")
def run_agent(**options: object) -> None:
    """Read this node's counters, record what changed, send it to a collector.

    Runs in the foreground until SIGTERM; SIGHUP reloads settings and token. The agent also exists as one file for
    Python 3.6 or newer: `make agent` builds dist/fairlead-agent.pyz.
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


@agent.command("flush")
@click.option(
    "--config", type=FILE, metavar="FILE", help="Settings of the agent. Default: /etc/fairlead/agent.conf if it exists."
)
@click.option("--spool", type=FOLDER, metavar="DIR", help="Spool of the agent. Default: as the settings say.")
def flush_agent(config: str | None, spool: str | None) -> None:
    """Have the running agent read its counters and send everything now.

    For a job's epilog: what the job did is on the server within about a second. Does not wait for the agent.
    """
    from fairlead.see.agent.run import run_agent

    words = [word for name, value in (("--config", config), ("--spool", spool)) if value for word in (name, str(value))]
    sys.exit(run_agent(["flush", *words]))

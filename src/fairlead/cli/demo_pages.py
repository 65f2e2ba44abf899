"""The pages over a demo's own run: its lake is analysed and served on free ports of this machine until Ctrl-C.

Not here: the play (`fairlead.kit.demo`), the server (`run.up`).
"""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead.cli.printing import print_message

if TYPE_CHECKING:
    from fairlead.run.config import Config

FREE = "tcp:127.0.0.1:0"


def are_demo_pages_wanted(pages: bool | None) -> bool:
    """Whether there may be pages: as asked, else where somebody sits at a screen and can be asked."""
    if pages is not None:
        return pages
    return (
        sys.stdin.isatty()
        and sys.stdout.isatty()
        and bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin")
    )


def ask_for_demo_pages(pages: bool | None) -> bool:
    """Asks whether to open the pages, unless that was said."""
    return pages is True or click.confirm("open this run in the web pages?", default=True, err=True)


def serve_demo_pages(lake: Path, jobs: list[str], *, browser: bool) -> None:
    """Serves the lake of a run until SIGTERM or Ctrl-C. `jobs`: the worst first. Raises FairleadError."""
    from fairlead.run.up import bring_up_server

    _analyse(lake)

    def told(text: str) -> None:
        print_message(text)
        if text.startswith("sign in: "):
            address = text.removeprefix("sign in: ")
            base = address.partition("/welcome")[0]
            for job in jobs[:1]:
                print_message(f"then the job: {base}/jobs/{job}")
            print_message("Ctrl-C ends it")
            if browser:
                webbrowser.open(address)

    config = _build_settings(lake)
    bring_up_server(config, told, lambda: None)


def _build_settings(lake: Path) -> Config:
    """Settings of a server of this lake only, with a state of its own beside it."""
    from fairlead.run.config import load_config, resolve_config

    state = lake.parent / "state"
    addresses = (f"collector.listen={FREE}", f"api.listen={FREE}")
    config, _ = load_config(None, environment={}, flags=[f"server.lake={lake}", f"server.state={state}", *addresses])
    return resolve_config(config)


def _analyse(lake: Path) -> None:
    """Summaries and findings of a run that is over: nobody has to wait for records that come late."""
    from fairlead.core import clock
    from fairlead.explain.diagnosing.ended_jobs import summarise_ended_jobs
    from fairlead.store.lake import Lake

    held = Lake.open(lake)
    with held.open_writer("analysis") as writer:
        summarise_ended_jobs(held, writer, clock.now_ns(), lag_ns=0)

"""`fairlead up`: the server in the foreground. Not here: its settings (`run.config`), its processes (`run`)."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import click

from fairlead.cli.options import FILE, FOLDER
from fairlead.cli.printing import is_printing_quiet, print_message
from fairlead.core.errors import UsageError

_file = FILE


@click.command()
@click.option("--config", "file", type=_file, metavar="FILE", help="Settings (TOML). Default: none, all defaults.")
@click.option("--lake", type=FOLDER, metavar="DIR", help="The lake: server.lake of the settings.")
@click.option(
    "--listen",
    multiple=True,
    metavar="ADDRESS",
    help="unix:PATH, tcp:HOST:PORT or tls:HOST:PORT (repeatable): collector.listen of the settings. "
    "Port 0: any free one.",
)
@click.option(
    "--set",
    "flags",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting, such as carry.every_s=10 (repeatable). Overrides file and environment.",
)
@click.option(
    "--sample-site",
    is_flag=True,
    help="Serve a simulated sample site instead: one month, in its own lake, which is filled first.",
)
@click.option(
    "--state",
    type=FOLDER,
    metavar="DIR",
    help="With --sample-site: its folder. Default: sample-site beside the default lake.",
)
@click.option("--check", is_flag=True, help="Check the settings, keys and certificates, and exit.")
@click.option("--show-config", is_flag=True, help="Print all settings as TOML, and exit.")
@click.option("--origin", is_flag=True, help="With --show-config: where each value comes from.")
def up(
    file: Path | None,
    lake: Path | None,
    listen: tuple[str, ...],
    flags: tuple[str, ...],
    sample_site: bool,
    state: Path | None,
    check: bool,
    show_config: bool,
    origin: bool,
) -> None:
    """Run the server: collector, analysis and API, until SIGTERM.

    Runs in the foreground and needs no settings: it then listens on this machine only, uses the default lake and makes
    its own key and tokens. Prints one line `ready NAME ADDRESS` on stderr for each address once clients can connect.
    SIGHUP reloads settings, keys and certificates.
    """
    from fairlead.run.config import Config, Origins, format_config, load_config, resolve_config
    from fairlead.run.up import bring_up_server as serve
    from fairlead.run.up import check_up_addresses, check_up_config

    given = [*flags]
    if lake is not None:
        given.append(f"server.lake={lake}")
    if listen:
        given.append(f"collector.listen={','.join(listen)}")
    if state is not None and not sample_site:
        raise UsageError("--state goes with --sample-site", remedy="--set server.state=DIR for a server of a site")
    if sample_site:
        from fairlead.kit.sample.site import adapt_sample_site_config, find_sample_site_folder

        folder = (state or find_sample_site_folder()).absolute()

    def read() -> tuple[Config, Origins]:
        found, where = load_config(file, flags=given)
        return resolve_config(adapt_sample_site_config(found, folder) if sample_site else found), where

    config, origins = read()
    if show_config:
        click.echo(format_config(config, origins, with_origin=origin))
        return
    if check:
        check_up_config(config)
        print_message("the settings are valid")
        return
    logging.basicConfig(
        format="%(name)s: %(message)s", level=logging.ERROR if is_printing_quiet() else logging.INFO, stream=sys.stderr
    )

    def reload() -> Config | None:
        from fairlead.core.errors import FairleadError

        try:
            fresh = read()[0]
            check_up_config(fresh)
        except FairleadError as error:
            print_message(f"the settings stay as they are: {error}")
            return None
        return fresh

    if not sample_site:
        serve(config, print_message, reload)
        return
    from fairlead.cli.history import show_history_progress
    from fairlead.core import clock
    from fairlead.kit.sample.site import keep_sample_site_alive, prepare_sample_site

    check_up_addresses(config)  # filling takes minutes: a port in use is said first
    with show_history_progress("sample site", lines=True) as done:
        sample = prepare_sample_site(folder, clock.now_ns(), done=done, say=print_message)
    with keep_sample_site_alive(folder, sample):
        serve(config, print_message, reload)

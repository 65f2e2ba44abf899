"""`fairlead mount`: a folder whose files are elsewhere. Not here: the mount itself (`steer.forwarding.mount`)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from fairlead.cli.options import FOLDER
from fairlead.cli.printing import is_printing_quiet, print_message
from fairlead.cli.quantities import Seconds
from fairlead.core.errors import UsageError

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("places", nargs=-1, metavar="[FORWARDER[,FORWARDER...]] DIR")
@click.option("--local", "source", metavar="SOURCE", help="Mount this folder (or targets:FILE), without a forwarder.")
@click.option("--map", "map_file", type=_FILE, help="Map file: which nodes mount from which forwarders.")
@click.option("--foreground", is_flag=True, help="Stay in the foreground until the mount ends.")
@click.option("--read-only", is_flag=True, help="Refuse every change.")
@click.option("--allow-other", is_flag=True, help="Allow other users (root's mounts always do).")
@click.option("--cache", is_flag=True, help="Let the kernel cache file data; the forwarder must run with --sole.")
@click.option(
    "--passthrough",
    type=click.Choice(["auto", "off"]),
    help="As root: let the kernel read and write files directly where it can. Default: auto with --local, else off.",
)
@click.option(
    "--patience",
    type=Seconds(31_536_000),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for a lost forwarder before requests fail with EIO.",
)
@click.option("--spool", type=FOLDER, help="Write records of the requests to this directory.")
@click.option("--job", default="", metavar="ID", help="Job of processes that do not announce one.")
@click.option("--cluster", default="", metavar="NAME", help="Cluster of the jobs (default: as Slurm names it).")
@click.option(
    "--job-environment",
    is_flag=True,
    help="Believe the job ids in the environment of other users' processes too, which they choose themselves. Without "
    "it, theirs are known by cgroup or by what a prolog has signed.",
)
@click.option("--checksum", is_flag=True, help="Verify all traffic to and from forwarders with CRC-32.")
@click.option("--token", type=_FILE, help="File with the token for the forwarders.")
@click.option("--ca", type=_FILE, help="CA certificate (PEM) for tls: forwarders.")
@click.option("--list", "listing", is_flag=True, help="List the mounts on this machine instead.")
@click.option("--json", "as_json", is_flag=True, help="With --list: print the mounts as JSON.")
def mount(
    places: tuple[str, ...],
    source: str | None,
    map_file: Path | None,
    foreground: bool,
    read_only: bool,
    allow_other: bool,
    cache: bool,
    passthrough: str | None,
    patience: float,
    spool: Path | None,
    job: str,
    job_environment: bool,
    cluster: str,
    checksum: bool,
    token: Path | None,
    ca: Path | None,
    listing: bool,
    as_json: bool,
) -> None:
    """Mount a tree on DIR, through forwarders or (--local) straight from a folder of this machine.

    FORWARDER is unix:PATH, tls:HOST:PORT, tcp:HOST:PORT on this machine, or in plain text tcp+plain:HOST:PORT; more
    than one must export the same tree. Returns once DIR answers; the mount goes on in the background. Needs /dev/fuse,
    and fusermount3 unless run by root.

    In the list of mounts, `dead` is a mount whose process was killed (fairlead umount removes it), `silent` one whose
    process does not respond, `foreign` one of another user, without details.
    """
    if listing and not places:
        from fairlead.cli.mount_list import print_mounts

        print_mounts(as_json=as_json)
        return
    if listing or as_json:
        raise UsageError("--list and --json mount nothing", remedy="fairlead mount --list [--json]")
    if not places:
        raise UsageError("no directory to mount on", remedy="fairlead mount FORWARDER[,FORWARDER...] DIR")
    from fairlead.steer.forwarding.mount.process.mount_options import MountOptions
    from fairlead.steer.forwarding.mount.process.serve import print_mount_message, serve_mount
    from fairlead.steer.fs.fuse.mount_table import resolve_mountpoint

    addresses, mountpoint = _places(places, local=source is not None, mapped=map_file is not None)
    options = MountOptions(
        mountpoint=resolve_mountpoint(mountpoint),
        source=None if source is None else _absolute(source),
        addresses=addresses,
        map_file=None if map_file is None else map_file.absolute(),
        read_only=read_only,
        allow_other=True if allow_other else None,
        spool=None if spool is None else spool.absolute(),
        job=job,
        job_environment=job_environment,
        cluster=cluster,
        cache=cache,
        passthrough=passthrough == "auto" if passthrough else source is not None,
        checksum=checksum,
        token=None if token is None else token.absolute(),
        ca=None if ca is None else ca.absolute(),
        patience_s=patience,
    )
    if foreground:
        serve_mount(
            options,
            lambda: print_message(f"mounted on {options.mountpoint}"),
            _silence if is_printing_quiet() else print_mount_message,
        )
        return

    from fairlead.steer.forwarding.mount.process.daemonize import daemonize_mount

    sys.stdout.flush()
    sys.stderr.flush()
    pid = daemonize_mount(options)
    print_message(f"mounted on {options.mountpoint} (process {pid})")


def _silence(_text: str) -> None:
    """Print nothing: what a quiet mount in the foreground does with messages."""


def _absolute(source: str) -> str:
    """A folder, or the file of `targets:FILE`, by its whole path."""
    kind, colon, path = source.rpartition(":") if source.startswith(("targets:", "slow:")) else ("", "", source)
    return f"{kind}{colon}{os.path.abspath(path)}"  # noqa: PTH100 (as it is named, links and all)


def _places(places: tuple[str, ...], *, local: bool, mapped: bool) -> tuple[tuple[str, ...], str]:
    """Addresses of forwarders, and the folder to mount on."""
    from fairlead.steer.fs.wire.address import parse_address

    if local and mapped:
        raise UsageError("--local and --map exclude each other", remedy="give one of them")
    wanted = 1 if local or mapped else 2
    if len(places) != wanted:
        form = {(True, False): "--local SOURCE DIR", (False, True): "--map FILE DIR"}.get(
            (local, mapped), "FORWARDER[,FORWARDER...] DIR"
        )
        raise UsageError(f"{len(places)} arguments were given", remedy=f"fairlead mount {form}")
    if wanted == 1:
        return (), places[0]
    addresses = tuple(str(parse_address(text)) for text in places[0].split(",") if text)
    if not addresses:
        raise UsageError("no forwarder was given", remedy="fairlead mount FORWARDER[,FORWARDER...] DIR")
    return addresses, places[1]

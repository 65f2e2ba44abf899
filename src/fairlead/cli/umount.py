"""`fairlead umount`: ends a mount, also one whose process has gone."""

from __future__ import annotations

import click

from fairlead.cli.printing import print_message


@click.command()
@click.argument("folder", metavar="DIR")
@click.option("--force", is_flag=True, help="Take it off although files are open in it.")
def umount(folder: str, force: bool) -> None:
    """End the mount on DIR and wait until its process has written what it recorded.

    A mount whose process was killed is taken off as well. With --force files that are open there are lost to
    who has them open.
    """
    from fairlead.steer.forwarding.mount.process.end_mount import end_mount

    print_message(end_mount(folder, force=force))

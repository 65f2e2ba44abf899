"""`fairlead umount`: ends a mount, also one whose process has gone."""

from __future__ import annotations

import click

from fairlead.cli.printing import print_message


@click.command()
@click.argument("folder", metavar="DIR")
@click.option("--force", is_flag=True, help="Unmount even if files are open.")
def umount(folder: str, force: bool) -> None:
    """Unmount DIR and wait until its process has written its records.

    Also removes a mount whose process was killed. With --force, files still open on the mount fail for their users.
    """
    from fairlead.steer.forwarding.mount.process.end_mount import end_mount

    print_message(end_mount(folder, force=force))

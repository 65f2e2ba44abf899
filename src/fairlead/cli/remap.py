"""`fairlead remap`: moves a mount to other forwarders while it is in use."""

from __future__ import annotations

import click

from fairlead.cli.printing import print_message


@click.command()
@click.argument("folder", metavar="DIR")
@click.argument("addresses", metavar="ADDRESS[,ADDRESS...]", nargs=-1, required=True)
def remap(folder: str, addresses: tuple[str, ...]) -> None:
    """Move the mount on DIR to other forwarders of the same tree.

    Nothing is unmounted and no I/O fails: the old forwarder finishes requests in flight, new requests wait for the new
    one. The first forwarder that responds takes over, the others are its fallbacks. If none responds, the mount stays
    where it is.
    """
    from fairlead.steer.forwarding.mount.process.control import remap_mount

    wanted = [address for argument in addresses for address in argument.split(",") if address]
    print_message(f"{folder}: now at {remap_mount(folder, wanted)}")

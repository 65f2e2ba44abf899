"""`fairlead metadata`: serves the metadata of a striped tree. Not here: the serving
(`services.forwarding.trees.targets.service`).
"""

from __future__ import annotations

import signal
from pathlib import Path

import click

from fairlead.cli.messages import say


@click.command()
@click.option(
    "--store",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where the metadata is kept: a directory on a local disk.",
)
@click.option("--listen", required=True, metavar="ADDRESS", help="unix:PATH or tcp:HOST:PORT. Port 0: any free one.")
@click.option(
    "--token-key",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Forwarders must show a token made with this key (fairlead token). Needed for tcp:.",
)
def metadata(store: Path, listen: str, token_key: Path | None) -> None:
    """Serve the metadata of a striped tree to several forwarders, until SIGTERM.

    The targets file of the forwarders then has `[metadata] service = "ADDRESS"` and, if needed, `token_file = "FILE"`.
    Use a key of its own: whoever has one of its tokens may change every file's metadata.
    """
    from fairlead.core.access.tokens import read_key
    from fairlead.steer.forwarding.forwarder.run import list_stopping_signals
    from fairlead.steer.fs.wire.address import parse_address
    from fairlead.steer.targets.service import serve_metadata

    stopping = list_stopping_signals()
    # The threads inherit the mask, so that the signal waits for this one.
    signal.pthread_sigmask(signal.SIG_BLOCK, stopping)
    try:
        key = None if token_key is None else read_key(token_key)
        service = serve_metadata(str(store), parse_address(listen), key)
        try:
            say(f"serving the metadata in {store} on {service.address}")
            signal.sigwait(stopping)
        finally:
            service.close()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, stopping)

"""`fairlead token`: keys and tokens for forwarders on a network. Not here: their form (`forwarding.wire.tokens`)."""

from __future__ import annotations

import re
from pathlib import Path

import click

from fairlead.cli.talk import say
from fairlead.errors import UsageError

_AGE = re.compile(r"(\d+)([smhd])")
_LONGEST_S = 3650 * 86400
_LAST_UID = 0xFFFFFFFE
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@click.group()
def token() -> None:
    """Keys and tokens for forwarders that listen on a network."""


@token.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def key(file: Path) -> None:
    """Make a new key in FILE, readable by its owner only.

    Whoever has the key can make tokens. Give it to forwarders with --token-key. A new key ends all older tokens.
    """
    from fairlead.access.tokens import make_key

    make_key(file)
    say(f"made {file}; a token of it: fairlead token issue --key {file}")


@token.command()
@click.option("--key", "file", required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="The forwarders' key.")  # fmt: skip
@click.option("--job", default="", metavar="ID", help="May announce this job only. Default: any.")
@click.option("--user", "uid", type=click.IntRange(0, _LAST_UID), default=None, metavar="UID",
              help="May act as this user (number) only. Default: any, root included.")  # fmt: skip
@click.option("--valid", default="24h", show_default=True, metavar="AGE", help="How long it is good (90m, 24h, 7d).")
def issue(file: Path, job: str, uid: int | None, valid: str) -> None:
    """Print a token. Send it over tls: where the network is not trusted: whoever reads it can use it."""
    from fairlead.access.tokens import Claims, read_key
    from fairlead.access.tokens import issue as make_token
    from fairlead.clock import now_ns

    match = _AGE.fullmatch(valid)
    if match is None or not 0 < int(match[1]) * _SECONDS[match[2]] <= _LONGEST_S:
        raise UsageError(
            "no time a token may be valid", where=f"--valid {valid}", remedy="write 90m, 24h or 7d, up to 3650d"
        )
    expires_s = now_ns() // 1_000_000_000 + int(match[1]) * _SECONDS[match[2]]
    click.echo(make_token(read_key(file), Claims(expires_s, job, -1 if uid is None else uid)))

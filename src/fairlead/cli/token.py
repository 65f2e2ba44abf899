"""`fairlead token`: keys and tokens for forwarders and servers on a network. Not here: their form (`access.tokens`)."""

from __future__ import annotations

import re
from pathlib import Path

import click

from fairlead.cli.noun import Noun
from fairlead.cli.options import FILE
from fairlead.cli.printing import print_message
from fairlead.core.errors import UsageError

_AGE = re.compile(r"(\d+)([smhd])")
_LONGEST_S = 3650 * 86400
_LAST_UID = 0xFFFFFFFE
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@click.group(cls=Noun)
def token() -> None:
    """Keys and tokens for forwarders and servers that listen on a network."""


@token.command("make-key")
@click.argument("file", type=FILE)
def make_token_key(file: Path) -> None:
    """Make a new key in FILE, readable by its owner only.

    Whoever has the key can make tokens. Give it to forwarders with --token-key, to a server as `token_key` of
    its settings. A new key invalidates all older tokens.
    """
    from fairlead.core.access import tokens

    tokens.make_token_key(file)
    print_message(f"made {file}; a token of it: fairlead token issue --key {file}")


@token.command("issue")
@click.option("--key", "file", required=True, type=FILE, metavar="FILE", help="The forwarders' or the server's key.")
@click.option(
    "--role",
    type=click.Choice(["mount", "agent", "reader", "operator"]),
    default="mount",
    show_default=True,
    help="What the token is for: mounts at forwarders; agents that send records to a server; reading from a server; "
    "everything a server does.",
)
@click.option("--job", default="", metavar="ID", help="mount: may announce this job only. Default: any.")
@click.option(
    "--user",
    metavar="UID|NAME",
    default=None,
    help="mount: may act as this user (number) only. reader: sees jobs of this user (name) only. "
    "Default: any, root included.",
)
@click.option("--node", default="", metavar="NAME", help="agent: may send records of this node only. Default: any.")
@click.option(
    "--valid",
    "--expires",
    "valid",
    default="24h",
    show_default=True,
    metavar="AGE",
    help="How long it is valid (90m, 24h, 365d).",
)
def issue_token(file: Path, role: str, job: str, user: str | None, node: str, valid: str) -> None:
    """Print a token. Send it over TLS where the network is not trusted: whoever reads it can use it."""
    from fairlead.core.access.tokens import Claims, issue_token, read_token_key
    from fairlead.core.clock import now_ns

    match = _AGE.fullmatch(valid)
    if match is None or not 0 < int(match[1]) * _SECONDS[match[2]] <= _LONGEST_S:
        raise UsageError(
            "not a valid lifetime of a token", where=f"--valid {valid}", remedy="write 90m, 24h or 7d, up to 3650d"
        )
    for option, value, meant in (
        ("--job", job, ("mount",)),
        ("--node", node, ("agent",)),
        ("--user", user, ("mount", "reader")),
    ):
        if value and role not in meant:
            raise UsageError(f"{option} does not apply to the role {role}", remedy=f"it is for {' and '.join(meant)}")
    expires_s = now_ns() // 1_000_000_000 + int(match[1]) * _SECONDS[match[2]]
    claims = Claims(
        expires_s,
        job,
        _uid(user) if role == "mount" and user is not None else -1,
        "" if role == "mount" else role,
        node,
        (user or "") if role == "reader" else "",
    )
    click.echo(issue_token(read_token_key(file), claims))


def _uid(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > _LAST_UID:
        raise UsageError("not a numeric user id", where=f"--user {text}", remedy="id -u NAME prints it")
    return int(text)

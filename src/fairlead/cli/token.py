"""`fairlead token`: keys and tokens for forwarders and servers on a network. Not here: their form (`access.tokens`)."""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead.cli.noun import Noun
from fairlead.cli.options import FILE, FOLDER
from fairlead.cli.printing import print_message
from fairlead.core.errors import UsageError

if TYPE_CHECKING:
    from fairlead.core.access.token_ledger import IssuedToken

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
    print_message(f"made {file}; a token of it: fairlead token issue --key {file} --user NAME")


@token.command("issue")
@click.option("--key", "file", required=True, type=FILE, metavar="FILE", help="The forwarders' or the server's key.")
@click.option(
    "--role",
    type=click.Choice(["mount", "agent", "reader", "operator", "job"]),
    default="mount",
    show_default=True,
    help="What the token is for: mounts at forwarders; agents that send records to a server; reading from a server; "
    "everything a server does; a job's identity, signed by a prolog.",
)
@click.option("--job", default="", metavar="ID", help="mount: may announce this job only (default: any). job: its id.")
@click.option(
    "--user",
    metavar="NAME|UID",
    default=None,
    help="mount, job: acts as this user only (default: you; root is named or refused). reader: sees jobs of this user "
    "(name) only (default: all).",
)
@click.option(
    "--any-user",
    is_flag=True,
    help="mount: may act as any user, for a mount that root shares with many. Forwarders refuse it unless they run "
    "with --allow any-user.",
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
@click.option(
    "--renew",
    default="30d",
    show_default=True,
    metavar="AGE",
    help="mount: running mounts renew it until it is this old; 0s: never.",
)
def issue_token(
    file: Path, role: str, job: str, user: str | None, any_user: bool, node: str, valid: str, renew: str
) -> None:
    """Print a token. Whoever reads it can use it: keep it in a file of mode 600, send it over TLS."""
    from fairlead.core.access import token_ledger, tokens
    from fairlead.core.clock import now_ns

    life_s, now_s = _age(valid, "--valid"), now_ns() // 1_000_000_000
    for option, value, meant in (
        ("--job", job, ("mount", "job")),
        ("--node", node, ("agent",)),
        ("--user", user, ("mount", "job", "reader")),
        ("--any-user", any_user, ("mount",)),
    ):
        if value and role not in meant:
            raise UsageError(f"{option} does not apply to the role {role}", remedy=f"it is for {' and '.join(meant)}")
    if any_user and user is not None:
        raise UsageError("--user and --any-user exclude each other", remedy="give one of them")
    if role == "job" and not job:
        raise UsageError("whose identity?", where="--role job", remedy="give --job ID --user NAME")
    key = tokens.read_token_key(file)
    expires_s = now_s + life_s
    if role != "mount":
        claims = tokens.Claims(
            expires_s,
            job,
            _acting_uid(user) if role == "job" else -1,
            role,
            node,
            (user or "") if role == "reader" else "",
        )
    else:
        until_s = now_s + max(life_s, _age(renew, "--renew", least_s=0))
        claims = tokens.Claims(
            expires_s,
            job,
            -1 if any_user else _acting_uid(user),
            any_user=any_user,
            id=tokens.generate_token_id(),
            life_s=life_s,
            until_s=until_s if until_s > expires_s else 0,
        )
        token_ledger.append_issued_token(file, claims, now_s)
        whose = "any user" if any_user else f"uid {claims.uid}"
        print_message(f"token {claims.id} of {whose}; to end it: fairlead token revoke {claims.id} --key {file}")
    click.echo(tokens.issue_token(key, claims))


@token.command("list")
@click.option("--key", "file", required=True, type=FILE, metavar="FILE", help="The forwarders' key.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_tokens(file: Path, as_json: bool) -> None:
    """List the tokens of mounts that were issued with a key here: whose, until when, and which are revoked."""
    import msgspec

    from fairlead.core.access import token_ledger
    from fairlead.core.clock import now_ns

    revoked, now_s = token_ledger.read_revoked_tokens(file), now_ns() // 1_000_000_000
    issued = token_ledger.list_issued_tokens(file)
    rows = [{**msgspec.to_builtins(one), "state": _state(one, revoked, now_s)} for one in issued]
    known = {one.id for one in issued}
    rows += [{"id": token_id, "state": "revoked"} for token_id in sorted(revoked - known)]
    if as_json:
        click.echo(msgspec.json.encode(rows))
        return
    for row in rows:
        whose = "any user" if row.get("any_user") else f"uid {row.get('uid', '?')}"
        job = f" job {row['job']}" if row.get("job") else ""
        until = max(row.get("expires_s", 0), row.get("until_s", 0))
        click.echo(f"{row['id']}  {row['state']:<8}  {whose}{job}  {_format_end(until)}")
    if not rows:
        print_message("no tokens were issued with this key here")


@token.command("revoke")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--key", "file", required=True, type=FILE, metavar="FILE", help="The forwarders' key.")
def revoke_tokens(ids: tuple[str, ...], file: Path) -> None:
    """Revoke tokens and all their renewals: FILE.revoked then names them.

    A forwarder reads that file once a second, beside its --token-key: open connections lose their right too. Copy it to
    forwarders on other machines as you copied the key.
    """
    from fairlead.core.access import token_ledger, tokens
    from fairlead.core.clock import now_ns

    tokens.read_token_key(file)
    for token_id in ids:
        if re.fullmatch(r"[0-9a-f]{16}", token_id) is None:
            raise UsageError("not the id of a token", where=token_id, remedy=f"fairlead token list --key {file}")
    known = {one.id for one in token_ledger.list_issued_tokens(file)}
    for token_id in ids:
        token_ledger.revoke_token(file, token_id, now_ns() // 1_000_000_000)
        print_message(f"revoked {token_id}" + ("" if token_id in known else " (not in the list of those issued here)"))


@token.command("tls")
@click.argument("folder", type=FOLDER, metavar="DIR")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME[,NAME...]",
    help="A machine that serves: its names and addresses, as clients write them (repeatable). Default: this one.",
)
def make_tls_certificates(folder: Path, hosts: tuple[str, ...]) -> None:
    """Make what tls: addresses need, in DIR: an authority (ca.pem, ca.key) and a certificate for each host.

    Run again, it keeps the authority and makes the hosts' certificates anew (they are valid for 397 days). Give
    NAME.pem and NAME.key to that host only, ca.pem to clients (--ca), ca.key to nobody. Needs openssl.
    """
    import socket

    from fairlead.core.access.certificates import make_certificates

    own = socket.gethostname()
    wanted = hosts or (",".join(dict.fromkeys((own, own.partition(".")[0], "localhost", "127.0.0.1"))),)
    for certificate in make_certificates(folder, wanted):
        name, key = certificate.stem, certificate.with_suffix(".key")
        print_message(f"{name}: --listen tls:{name}:7420 --tls-cert {certificate} --tls-key {key}")
    print_message(f"clients: --ca {folder / 'ca.pem'}")


def _state(issued: IssuedToken, revoked: frozenset[str], now_s: int) -> str:
    if issued.id in revoked:
        return "revoked"
    return "expired" if now_s >= max(issued.expires_s, issued.until_s) else "valid"


def _format_end(seconds: int) -> str:
    from datetime import UTC, datetime

    return f"until {datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC" if seconds else ""


def _age(text: str, option: str, least_s: int = 1) -> int:
    match = _AGE.fullmatch(text)
    seconds = int(match[1]) * _SECONDS[match[2]] if match is not None else -1
    if not least_s <= seconds <= _LONGEST_S:
        raise UsageError(
            "not a valid lifetime of a token", where=f"{option} {text}", remedy="write 90m, 24h or 7d, up to 3650d"
        )
    return seconds


def _acting_uid(user: str | None) -> int:
    """The user a token acts as: the one named, or who asks. Root must be named."""
    if user is not None:
        return _uid(user)
    uid = os.getuid()
    if uid == 0:
        raise UsageError(
            "whose token is it?",
            remedy="give --user NAME; --any-user for a mount that root shares with many; --user root where forwarders "
            "allow it",
        )
    return uid


def _uid(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) <= _LAST_UID:
        return int(text)
    try:
        return pwd.getpwnam(text).pw_uid
    except (KeyError, ValueError):
        raise UsageError(
            "neither a user of this machine nor a user id", where=f"--user {text}", remedy="id -u NAME prints it"
        ) from None

"""`fairlead account`: who may sign in to the pages. Works on the server's own file, as the server's user.

Not here: what accounts are (`web.people`), signing in (`web.signin`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.noun import Noun
from fairlead.cli.options import FILE, FOLDER, add_limit_option, add_options, json_option
from fairlead.cli.printing import print_json, print_lines, print_message
from fairlead.core.errors import InputError, RefusedError, UsageError

if TYPE_CHECKING:
    from fairlead.run.config import Config
    from fairlead.show.web.people.accounts import Account
    from fairlead.show.web.people.store import Store

_ROLES = click.Choice(["user", "support", "admin"])
_WAYS = click.Choice(["local", "ldap", "oidc", "header"])
_options = (
    click.option("--state", type=FOLDER, metavar="DIR", help="State directory of the server (server.state)."),
    click.option("--lake", type=FOLDER, metavar="DIR", help="The lake; the state directory is next to it."),
    click.option("--config", "file", type=FILE, metavar="FILE", help="Settings of the server (TOML)."),
)
_password_option = click.option(
    "--password-file",
    type=FILE,
    metavar="FILE",
    help="Read the password from the first line of this file; - is stdin.",
)


def _server_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that find the server's state; the command gets its settings as `config`."""

    @wraps(command)
    def run(state: Path | None, lake: Path | None, file: Path | None, **words: Any) -> None:
        command(config=_config(state, lake, file), **words)

    return add_options(_options)(run)


@click.group(cls=Noun)
def account() -> None:
    """Who may sign in to the pages.

    Works on the accounts of a server on this machine, running or not; run it as the server's user. Changes take effect
    at once: a disabled account is refused from its next request on.
    """


@account.command("add")
@click.argument("name")
@click.option(
    "--role",
    type=_ROLES,
    default="user",
    show_default=True,
    help="user: own jobs and jobs of own projects; support: all jobs; admin: all jobs, and accounts.",
)
@click.option(
    "--project", "projects", multiple=True, metavar="NAME", help="Also sees jobs of this project. Repeatable."
)
@click.option(
    "--way",
    type=_WAYS,
    default="local",
    show_default=True,
    help="How it signs in: local password, LDAP directory, OpenID provider or portal.",
)
@_password_option
@click.option(
    "--no-password",
    is_flag=True,
    help="Set no password yet: `fairlead account welcome NAME` prints an address to choose one.",
)
@_server_options
@json_option
def add_account(
    name: str,
    role: Any,
    projects: tuple[str, ...],
    way: Any,
    password_file: Path | None,
    no_password: bool,
    config: Config,
    as_json: bool,
) -> None:
    """Add an account. NAME is the user name of its jobs. Asks for the password unless --password-file is given."""
    from fairlead.show.web.people import accounts
    from fairlead.show.web.people.accounts import check_account_name

    name = check_account_name(name)
    if way != "local" and (password_file or no_password):
        raise UsageError(f"--way {way} takes no local password", remedy="leave the password out")
    kept = None if way != "local" or no_password else _hashed(config, name, password_file)
    with _store(config) as store, store.change():
        made = accounts.add_account(store, name, role=role, way=way, projects=projects, password=kept)
        _note(store, "add account", f"{name}: {role}")
    _show([made], as_json)


@account.command("list")
@_server_options
@json_option
def list_accounts(config: Config, as_json: bool) -> None:
    """All accounts."""
    from fairlead.show.web.people.accounts import list_accounts

    with _store(config, create=False) as store:
        found = list_accounts(store)
    _show(found, as_json)


@account.command("passwd")
@click.argument("name")
@_password_option
@_server_options
def set_account_password(name: str, password_file: Path | None, config: Config) -> None:
    """Change the password of a local account. Its sessions end."""
    from fairlead.show.web.people.accounts import get_account, set_account_password

    with _store(config, create=False) as store:
        get_account(store, name)
        kept = _hashed(config, name, password_file)
        with store.change():
            set_account_password(store, name, kept)
            _note(store, "change password", name)
    print_message(f"{name} has another password; its sessions have ended")


@account.command("role")
@click.argument("name")
@click.argument("role", type=_ROLES)
@click.option(
    "--project", "projects", multiple=True, metavar="NAME", help="Replace its projects with these. Repeatable."
)
@click.option("--no-projects", is_flag=True, help="Remove all its projects.")
@_server_options
@json_option
def set_account_role(
    name: str,
    role: Any,
    projects: tuple[str, ...],
    no_projects: bool,
    config: Config,
    as_json: bool,
) -> None:
    """Change the role or projects of an account. Projects stay unless given."""
    if projects and no_projects:
        raise UsageError("--no-projects and --project", remedy="give one of them")
    wanted = {"role": role, **({"projects": projects} if projects or no_projects else {})}
    _change(name, config, as_json, **wanted)


@account.command("disable")
@click.argument("name")
@_server_options
@json_option
def disable_account(name: str, config: Config, as_json: bool) -> None:
    """Disable an account. Its sessions, tokens and share links end at once, for good."""
    _change(name, config, as_json, disabled=True)


@account.command("enable")
@click.argument("name")
@_server_options
@json_option
def enable_account(name: str, config: Config, as_json: bool) -> None:
    """Enable a disabled account."""
    _change(name, config, as_json, disabled=False)


@account.command("remove")
@click.argument("name")
@_server_options
def remove_account(name: str, config: Config) -> None:
    """Remove an account with its sessions, tokens and share links. Its entries in the audit log stay."""
    from fairlead.show.web.people import accounts

    with _store(config, create=False) as store, store.change():
        accounts.remove_account(store, name)
        _note(store, "remove account", name)
    print_message(f"removed {name}")


@account.command("token")
@click.argument("name")
@click.option(
    "--title",
    default="made by fairlead account token",
    show_default=True,
    metavar="TEXT",
    help="Note on what the token is for.",
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(["read", "act", "admin"]),
    default=("read",),
    show_default=True,
    help="read: query; act: acknowledge, share; admin: manage accounts. Repeatable.",
)
@click.option(
    "--days",
    type=click.FloatRange(0, min_open=True),
    default=90.0,
    show_default=True,
    help="Days it is valid, at most web.token_days.",
)
@_server_options
@json_option
def issue_account_token(
    name: str,
    title: str,
    scopes: tuple[str, ...],
    days: float,
    config: Config,
    as_json: bool,
) -> None:
    """Print an API token for programs (`Authorization: Bearer TOKEN`). It has no more rights than NAME."""
    from fairlead.show.web.people.accounts import get_account
    from fairlead.show.web.people.credentials import create_token_credential
    from fairlead.show.web.signin.authenticate import SCOPES_OF

    if days > config.web.token_days:
        raise UsageError(
            f"--days {days:g} is more than {config.web.token_days:g}", remedy="the limit is web.token_days"
        )
    with _store(config, create=False) as store, store.change():
        there = get_account(store, name)
        may = SCOPES_OF[there.role]
        if there.disabled or any(scope not in may for scope in scopes):
            raise UsageError(
                f"{name} does not have these rights",
                remedy=f"its role has: {', '.join(may)}; a disabled account has none",
            )
        lasts_ns = int(days * 86_400 * 10**9)
        ordered = tuple(scope for scope in may if scope in scopes)
        secret, made = create_token_credential(store, name, title=title, scopes=ordered, lasts_ns=lasts_ns)
        _note(store, "make token", f"{made.id} of {name}: {', '.join(ordered)}")
    if as_json:
        print_json(
            {
                "schema": "fairlead.token/1",
                "id": made.id,
                "token": secret,
                "scopes": made.scopes,
                "title": made.title,
                "expires_ns": made.expires_ns,
            }
        )
    else:
        click.echo(secret)


@account.command("welcome")
@click.argument("name", default="admin")
@_server_options
@json_option
def print_account_welcome(name: str, config: Config, as_json: bool) -> None:
    """Print an address that signs NAME in once, within an hour, without a password; NAME can then choose one.

    If there is no administrator yet, NAME becomes the first.
    """
    from fairlead.run.first_sign_in import find_first_sign_in_address
    from fairlead.show.web.people import accounts
    from fairlead.show.web.people.credentials import create_welcome_credential
    from fairlead.show.web.people.store import NobodyError

    with _store(config) as store, store.change():
        name = accounts.check_account_name(name)
        there = accounts.find_account(store, name)
        if there is None:
            if any(one.role == "admin" and not one.disabled for one in accounts.list_accounts(store)):
                raise NobodyError(f"there is no account {name!r}", remedy=f"fairlead account add {name}")
        elif there.disabled or there.way != "local":
            raise UsageError(f"{name} cannot sign in with a local password", remedy="fairlead account list shows why")
        key = create_welcome_credential(store, name)
        _note(store, "welcome", name)
    address = f"{find_first_sign_in_address(config, _listening(config))}/welcome#{key}"
    if as_json:
        print_json({"schema": "fairlead.welcome/1", "name": name, "url": address})
    else:
        click.echo(address)


@account.command("audit")
@add_limit_option("How many lines.", 50, 10_000)
@click.option("--who", default="", metavar="NAME", help="Only entries of this account.")
@_server_options
@json_option
def print_account_audit(limit: int, who: str, config: Config, as_json: bool) -> None:
    """List sign-ins, failed ones included, and changes; latest first."""
    import msgspec

    from fairlead.show.alerts.alert_messages import format_message_time
    from fairlead.show.web.people.audit import list_audit_entries

    with _store(config, create=False) as store:
        found = list_audit_entries(store, limit=limit, who=who)
    if as_json:
        print_json({"schema": "fairlead.audit/1", "entries": msgspec.to_builtins(found)})
        return
    for one in found:
        told = f" {one.what}" if one.what else ""
        refused = "" if one.done else "  [refused]"
        print_lines(
            f"{format_message_time(one.at_ns)}  {one.who or '-':16s} {one.address or '-':15s} {one.act}{told}{refused}"
        )


def _change(name: str, config: Config, as_json: bool, **wanted: Any) -> None:
    from fairlead.show.web.people.accounts import change_account

    with _store(config, create=False) as store, store.change():
        found = change_account(store, name, **wanted)
        _note(store, "change account", f"{name}: " + ", ".join(f"{key} {value}" for key, value in wanted.items()))
    _show([found], as_json)


def _config(state: Path | None, lake: Path | None, file: Path | None) -> Config:
    from fairlead.run.config import load_config, resolve_config

    flags = [f"server.state={state.absolute()}"] if state else []
    if lake:
        flags.append(f"server.lake={lake.absolute()}")
    return resolve_config(load_config(file, flags=flags)[0])


def _store(config: Config, *, create: bool = True) -> Store:
    from fairlead.show.web.people.store import Store

    folder = Path(config.server.state)
    if create and not folder.is_dir():
        raise RefusedError(
            "no such server state directory", where=str(folder), remedy="give --state, --lake or --config"
        )
    return Store(folder, create=create)


def _hashed(config: Config, name: str, file: Path | None) -> str:
    from fairlead.show.web.people.passwords import Passwords, check_password

    if file is None:
        text = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        try:
            with click.open_file(str(file), encoding="utf-8") as lines:
                text = lines.readline().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot be read: {error}", where=str(file), remedy="check the path") from error
    return Passwords(config.web.hash_memory_bytes, config.web.hash_passes).hash(check_password(text, name))


def _listening(config: Config) -> list[str]:
    """Where a server that runs says it listens, else where it would."""
    import msgspec

    from fairlead.run.up import ADDRESSES, Addresses

    try:
        held = (Path(config.server.state) / ADDRESSES).read_bytes()
        return msgspec.json.decode(held, type=Addresses).api or config.api.listen
    except (OSError, msgspec.DecodeError):
        return config.api.listen


def _note(store: Store, act: str, what: str) -> None:
    import os
    import pwd

    from fairlead.show.web.people.audit import write_audit_entry

    try:
        me = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        me = str(os.geteuid())
    write_audit_entry(store, me, act, what, how="command")


def _show(found: list[Account], as_json: bool) -> None:
    import msgspec

    from fairlead.show.alerts.alert_messages import format_message_time

    if as_json:
        rows = [{key: value for key, value in msgspec.to_builtins(one).items() if key != "subject"} for one in found]
        print_json({"schema": "fairlead.accounts/1", "accounts": rows})
        return
    for one in found:
        state = "disabled" if one.disabled else "no password" if one.way == "local" and not one.has_password else ""
        seen = format_message_time(one.signed_in_ns) if one.signed_in_ns else "never"
        words = [f"{one.name:20s} {one.role:8s} {one.way:7s} signed in {seen}", state, " ".join(one.projects)]
        print_lines("  ".join(word for word in words if word))
    if not found:
        print_message("no accounts: fairlead account add NAME")

"""How the first person gets in: one address with a key that is good once, printed when nobody can sign in yet.

Not here: signing in (`web.signin`), other accounts (`fairlead account`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from fairlead.core.errors import InputError
from fairlead.run.config import Config
from fairlead.show.web.identity import Role
from fairlead.show.web.people.accounts import add_account, find_account, has_no_usable_account
from fairlead.show.web.people.audit import write_audit_entry
from fairlead.show.web.people.credentials import create_welcome_credential
from fairlead.show.web.people.store import Store

FIRST = "admin"
SAMPLE_ACCOUNTS = "sample_accounts.json"


class SampleAccount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Somebody of a made machine."""

    name: str
    role: Role = "user"
    projects: tuple[str, ...] = ()


def prepare_first_sign_in(config: Config, addresses: Sequence[str]) -> list[str]:
    """What to tell whoever starts the server; nothing when somebody can sign in. `addresses` the API listens on. Raises
    LakeError, ConfigError, InputError."""
    state = Path(config.server.state)
    with Store(state) as store, store.change():
        if config.web.simulated:
            _made_people(store, state / SAMPLE_ACCOUNTS)
        if not config.web.on or not config.web.local or not has_no_usable_account(store):
            return []
        key = create_welcome_credential(store, FIRST)
        write_audit_entry(store, "", "welcome", FIRST, how="server")
    return [
        f"sign in: {find_first_sign_in_address(config, addresses)}/welcome#{key}",
        f"this address is valid once, for an hour; to get another one: fairlead account welcome --state {state}",
    ]


def find_first_sign_in_address(config: Config, addresses: Sequence[str]) -> str:
    """The address of the pages for a browser on this machine, or the one the settings name."""
    if config.web.origin:
        return config.web.origin.rstrip("/")
    for address in addresses:
        kind, _, rest = address.partition(":")
        if kind in ("tcp", "tls"):
            host, _, port = rest.rpartition(":")
            shown = "127.0.0.1" if host in ("0.0.0.0", "[::]", "::") else host  # noqa: S104  (what is listened on)
            return f"{'https' if kind == 'tls' else 'http'}://{shown}:{port}"
    return "http://127.0.0.1:8572"


def _made_people(store: Store, file: Path) -> None:
    """The people of a made machine, as accounts without a password: an administrator gives each a welcome address."""
    if not file.is_file():
        return
    try:
        people = msgspec.json.decode(file.read_bytes(), type=list[SampleAccount])
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"cannot be read: {error}", where=str(file), remedy="remove it") from error
    for one in people:
        if find_account(store, one.name) is None:
            add_account(store, one.name, role=one.role, projects=one.projects)

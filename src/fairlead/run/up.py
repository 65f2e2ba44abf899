"""`fairlead up` from settings to a process tree: makes what is not there (key, tokens), binds, supervises.

Not here: the settings (`config`), the processes (`supervisor`, `child_process`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from fairlead.core import clock
from fairlead.core.access.tls import build_tls_server_context
from fairlead.core.access.tokens import AGENT, OPERATOR, Claims, issue_token, make_token_key, read_token_key
from fairlead.core.errors import FairleadError, ServerError
from fairlead.run.config import Config
from fairlead.run.first_sign_in import prepare_first_sign_in
from fairlead.run.supervisor import Supervisor
from fairlead.run.systemd_notify import Notifier
from fairlead.see.collector.listen_address import (
    bind_listen_address,
    check_listen_address,
    format_listen_address,
    parse_listen_address,
)
from fairlead.see.collector.serving import Bound

OPERATOR_TOKEN = "operator.token"  # noqa: S105  (names of files)
AGENT_TOKEN = "agent.token"  # noqa: S105
ADDRESSES = "addresses.json"
_YEAR_S = 365 * 86400

log = logging.getLogger("fairlead.server")


class Addresses(msgspec.Struct, frozen=True, kw_only=True):
    """The file `addresses.json` in the state folder: where a running server listens, for `fairlead server status`."""

    pid: int
    collector: list[str]
    api: list[str]


def check_up_config(config: Config) -> None:
    """What `--check` looks at beyond the settings themselves. Raises FairleadError."""
    from fairlead.see.collector.feeds import build_feeds
    from fairlead.show.alerts.delivery import build_delivery_courier

    build_feeds(config.feeds)
    for route in config.alerts.routes:
        build_delivery_courier(route, config.alerts)
    key = Path(config.collector.token_key)
    if key.exists():
        read_token_key(key)
    if config.collector.tls_certificate:
        build_tls_server_context(Path(config.collector.tls_certificate), Path(config.collector.tls_key))


def check_up_addresses(config: Config) -> None:
    """What is done before long work: whether the addresses can be listened on. `config` is resolved. Raises
    ServerError, which says how to take another one."""
    parts = {"collector": config.collector.listen, "api": config.api.listen if config.api.on else []}
    for part, wanted in parts.items():
        for text in wanted:
            try:
                check_listen_address(parse_listen_address(text))
            except ServerError as error:
                free = f"stop what listens there, or take any free port: --set {part}.listen=tcp:127.0.0.1:0"
                raise ServerError(
                    error.what, where=error.where, remedy=error.remedy if text.startswith("unix:") else free
                ) from error


def bring_up_server(config: Config, say: Callable[[str], None], reload: Callable[[], Config | None]) -> None:
    """Runs the server until SIGTERM. `config` is resolved. `say` is told where it listens, and of files it made. Raises
    FairleadError when it cannot begin."""
    os.umask(os.umask(0o077) | 0o027)  # who works on what is not for everyone on this machine
    state = Path(config.server.state)
    state.mkdir(parents=True, exist_ok=True)
    check_up_config(config)
    for line in _make_secrets(config, state):
        say(line)
    for text in config.collector.listen + config.api.listen:
        if text.startswith("tcp:") and parse_listen_address(text).host not in ("127.0.0.1", "::1", "localhost"):
            log.warning("%s: tokens and records travel unencrypted; tls: encrypts them", text)
    sockets: dict[str, list[Bound]] = {}
    addresses: dict[str, list[str]] = {"collector": [], "api": []}
    listening = {"collector": config.collector.listen}
    if config.api.on:
        listening["api"] = config.api.listen
    if config.analysis.on:
        listening["analysis"] = []
    try:
        for name, wanted in listening.items():
            sockets[name], addresses[name] = _bound(wanted)

        def ready() -> None:
            _write(
                state / ADDRESSES,
                msgspec.json.encode(
                    Addresses(
                        pid=os.getpid(),
                        collector=addresses["collector"],
                        api=addresses["api"],
                    )
                ),
            )
            for name in ("collector", "api"):
                for address in addresses[name]:
                    say(f"ready {name} {address}")
            if addresses["api"]:
                try:
                    told = prepare_first_sign_in(config, addresses["api"])
                except FairleadError as error:  # what is collected does not wait for people
                    told = [str(error)]
                for line in told:
                    say(line)

        Supervisor(config, sockets, Notifier(), on_ready=ready, reload=reload).run()
    finally:
        for held in sockets.values():
            for sock, _ in held:
                sock.close()
        with contextlib.suppress(OSError):
            (state / ADDRESSES).unlink()
        for address in addresses["collector"] + addresses["api"]:
            if address.startswith("unix:"):
                with contextlib.suppress(OSError):
                    Path(address.removeprefix("unix:")).unlink()


def _bound(wanted: Sequence[str]) -> tuple[list[Bound], list[str]]:
    held: list[Bound] = []
    told: list[str] = []
    try:
        for text in wanted:
            place = parse_listen_address(text)
            sock = _bind_soon(text)
            held.append((sock, place.tls))
            told.append(format_listen_address(place, sock))
    except ServerError:
        for sock, _ in held:
            sock.close()
        raise
    return held, told


def _bind_soon(text: str) -> socket.socket:
    """A server that was just killed may not have let go of its address yet."""
    until_s = clock.monotonic_s() + 3.0
    while True:
        try:
            return bind_listen_address(parse_listen_address(text))
        except ServerError:
            if clock.monotonic_s() >= until_s:
                raise
            clock.sleep_s(0.1)


def _make_secrets(config: Config, state: Path) -> list[str]:
    """Key and tokens, when none were given and none are there; returns what to tell about them."""
    key_file = Path(config.collector.token_key)
    if key_file.exists():
        return []
    key_file.parent.mkdir(parents=True, exist_ok=True)
    draft = key_file.with_name(f".{key_file.name}.new")
    draft.unlink(missing_ok=True)
    make_token_key(draft)
    key = read_token_key(draft)
    expires_s = clock.now_ns() // 1_000_000_000 + _YEAR_S
    told = [f"made the token key {key_file}"]
    for name, role in ((OPERATOR_TOKEN, OPERATOR), (AGENT_TOKEN, AGENT)):
        _write(state / name, (issue_token(key, Claims(expires_s, role=role)) + "\n").encode())
        told.append(f"made a token for {'an ' + role}, valid for a year: {state / name}")
    draft.rename(key_file)  # last: killed before, the next start makes all of it anew
    return told


def _write(path: Path, content: bytes) -> None:
    """A file only its owner can read."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    draft.replace(path)

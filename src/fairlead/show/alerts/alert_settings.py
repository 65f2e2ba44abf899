"""The `[alerts]` table of the server's TOML file: what becomes an alert, when, and through which route it goes.

Not here: what is done with them (`rules`, `route_sender`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from fairlead.core.errors import ConfigError
from fairlead.core.model.finding import Severity

ADDRESS = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9-]+)*")
"""A mail address that needs no quoting. Others exist; none of them is wanted here."""
_LOCAL = ("127.0.0.1", "::1", "localhost")


class Mail(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mail", tag_field="kind"):
    """Messages by SMTP."""

    host: str
    port: int = 0
    """0: 25, with `tls` 465."""
    sender: str
    """Address messages are from."""
    to: list[str] = []
    """Addresses they go to. Empty: a route for subscriptions only."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """`none` sends in the clear and never logs in."""
    user: str = ""
    """Name for the login; empty: none."""
    password_file: str = ""
    """File with the password, readable by its owner only."""
    ca: str = ""
    """Certificates (PEM) the server's is checked with. Empty: the system's."""
    timeout_s: float = 20.0


class Webhook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="webhook", tag_field="kind"):
    """Messages as JSON by POST."""

    url: str
    """`https:`; `http:` only to this machine, or with `clear = true`."""
    clear: bool = False
    """Whether `http:` to another machine is meant."""
    token_file: str = ""
    """File with a bearer's token, readable by its owner only."""
    hmac_file: str = ""
    """File with a secret the body is signed with (HMAC-SHA256), readable by its owner only."""
    ca: str = ""
    timeout_s: float = 10.0


class AlertApi(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="alertmanager", tag_field="kind"
):
    """Alerts to an Alertmanager, or what speaks its API v2."""

    url: str
    """Address without `/api/v2/alerts`."""
    clear: bool = False
    token_file: str = ""
    ca: str = ""
    labels: dict[str, str] = {}
    """Added to every alert."""
    timeout_s: float = 10.0
    refresh_s: float = 60.0
    """What is not over is told again this often, as Alertmanager expects; it ends there by itself after four times
    that."""
    event_s: float = 3600.0
    """What only happened, and has no end to wait for, is shown for this long."""


Route = Mail | Webhook | AlertApi


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something lasts: after so long it is told again, as worse, perhaps to others."""

    after_h: float
    severity: Severity = "critical"
    to: list[str] = []
    """Routes. Empty: those of the rule."""


class AlertRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[[alerts.rules]]`: findings and incidents that fit every line of it are told. Names may hold `*` and `?`; an
    empty list fits all."""

    name: str
    to: list[str]
    """Routes by name."""
    rules: list[str] = []
    """Ids of rules, as `component.*`."""
    severity: Severity = "warning"
    """This or worse."""
    layers: list[str] = []
    components: list[str] = []
    users: list[str] = []
    programs: list[str] = []
    jobs: list[str] = []
    confidence: float = 0.7
    """At least so sure (0 to 1)."""
    cost_s: float = 0.0
    """At least so many seconds lost; what has no known cost fits 0 only."""
    wait_h: float = 0.0
    """An incident is told only when it has lasted so long ..."""
    large_nodes: int = 1024
    """... or at once when a job on so many nodes is hit. 0: never for that reason."""
    hold_off_s: float = 3600.0
    """About one component, or one user's program, and one rule there is at most one new message in this time."""
    escalate: list[Step] = msgspec.field(default_factory=lambda: [Step(after_h=96.0)])
    """Steps for what does not end."""
    resolved: bool = True
    """Whether it is told when it is over."""


class Alerts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[alerts]`: telling people. Nothing is told before there are rules and routes."""

    on: bool = True
    """Whether findings are looked at at all."""
    every_s: float = 15.0
    """Time between two looks."""
    group_s: float = 10.0
    """A message waits this long for others that go with it."""
    most_in_one: int = 20
    """So many are told one by one in a message; of the rest their number."""
    most_waiting: int = 2000
    """So many wait for one route; the rest is only counted."""
    give_up_h: float = 24.0
    """What could not be delivered for so long is given up, and told in the next message that can."""
    oldest_h: float = 72.0
    """What was over so long before it was found (months that are analysed again) is not told."""
    keep_days: float = 90.0
    """How long what was told is remembered."""
    settle_s: float = 1800.0
    """The end of an incident is told when it has been over for so long: one that is sick again before that goes on."""
    link: str = ""
    """Address of a page about a finding, with `{id}` where its id goes. Empty: none."""
    digest: list[str] = []
    """Routes that get a digest."""
    digest_every: Literal["day", "week"] = "day"
    digest_hour: int = 7
    """UTC; weekly ones go on Mondays."""
    subscriptions: str = ""
    """Mail route that subscriptions of users go through. Empty: users cannot subscribe."""
    subscribe_domains: list[str] = []
    """Domains of addresses that may subscribe. Empty: none."""
    most_subscriptions: int = 20
    """Of one user."""
    routes: dict[str, Route] = {}
    rules: list[AlertRule] = []


def check_alert_settings(alerts: Alerts) -> Alerts:
    """`alerts`, when routes exist, addresses are such, and nobody is sent secrets in the clear. Raises ConfigError with
    the path of the setting. No file is read."""
    for name, route in alerts.routes.items():
        where = f"alerts.routes.{name}"
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
            remedy = "use letters, digits, - and _"
            raise ConfigError(f"{name!r} is not a valid route name", where="alerts.routes", remedy=remedy)
        if isinstance(route, Mail):
            _check_mail(route, where)
        else:
            _check_url(route.url, f"{where}.url", clear=route.clear)
    for n, rule in enumerate(alerts.rules):
        where = f"alerts.rules[{n}]"
        if not rule.to:
            raise ConfigError("names no route", where=f"{where}.to", remedy="name one of alerts.routes")
        if rule.name in [other.name for other in alerts.rules[:n]]:
            raise ConfigError(
                f"there are two rules {rule.name!r}", where=f"{where}.name", remedy="give them different names"
            )
        for named in [*rule.to, *(name for step in rule.escalate for name in step.to)]:
            _known(alerts, named, f"{where}.to")
        if not 0 <= rule.confidence <= 1:
            raise ConfigError(f"{rule.confidence} is not between 0 and 1", where=f"{where}.confidence")
    for named in alerts.digest:
        if isinstance(_known(alerts, named, "alerts.digest"), AlertApi):
            raise ConfigError(
                "a digest is not an alert", where="alerts.digest", remedy="name a mail route or a webhook"
            )
    if alerts.subscriptions and not isinstance(_known(alerts, alerts.subscriptions, "alerts.subscriptions"), Mail):
        raise ConfigError("subscriptions go by mail", where="alerts.subscriptions", remedy="name a mail route")
    if alerts.link and urlsplit(alerts.link).scheme not in ("http", "https"):
        raise ConfigError(f"{alerts.link!r} is not the address of a page", where="alerts.link")
    if not 0 <= alerts.digest_hour <= 23:
        raise ConfigError(f"{alerts.digest_hour} is not an hour", where="alerts.digest_hour", remedy="0 to 23, UTC")
    if alerts.every_s < 0.05:
        raise ConfigError(f"{alerts.every_s} s is too short", where="alerts.every_s")
    return alerts


def _known(alerts: Alerts, name: str, where: str) -> Route:
    if name not in alerts.routes:
        there = ", ".join(sorted(alerts.routes)) or "none yet"
        raise ConfigError(f"there is no route {name!r}", where=where, remedy=f"routes: {there}")
    return alerts.routes[name]


def _check_mail(route: Mail, where: str) -> None:
    for key, address in (("sender", route.sender), *(("to", one) for one in route.to)):
        if not ADDRESS.fullmatch(address):
            raise ConfigError(f"{address!r} is not a mail address", where=f"{where}.{key}", remedy="write name@host")
    if bool(route.user) != bool(route.password_file):
        raise ConfigError("a login needs a name and a password", where=f"{where}.user", remedy="give both, or none")
    if route.user and route.security == "none":
        raise ConfigError(
            "a password must not be sent unencrypted", where=f"{where}.security", remedy="starttls or tls"
        )
    if not 0 <= route.port < 65536:
        raise ConfigError(f"{route.port} is not a port", where=f"{where}.port")


def _check_url(url: str, where: str, *, clear: bool) -> None:
    """Refuses what is no address, names a login, or would go to another machine in the clear. Raises ConfigError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable() or " " in url:
        raise ConfigError(f"{url!r} is not an address", where=where, remedy="write https://HOST/PATH")
    if parts.username or parts.password:
        raise ConfigError("contains a login", where=where, remedy="give a token in a file (token_file)")
    if parts.scheme == "http" and parts.hostname not in _LOCAL and not clear:
        raise ConfigError("sends unencrypted to another machine", where=where, remedy="https:, or clear = true")


def read_alert_secret(file: str) -> str:
    """The first line of a file that only its owner can read; empty for no file. Raises ConfigError, never with what is
    in it."""
    if not file:
        return ""
    path = Path(file)
    try:
        with path.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            content = stream.read(4096)
    except OSError as fault:
        raise ConfigError(f"cannot be read: {fault.strerror}", where=file, remedy="check the path") from fault
    if mode & 0o077:
        raise ConfigError("others can read this secret", where=file, remedy=f"chmod 600 {file}")
    lines = content.decode("utf-8", "replace").splitlines()
    if not lines or not lines[0].strip() or not lines[0].isprintable():
        raise ConfigError("contains no secret", where=file, remedy="write it in the first line")
    return lines[0].strip()

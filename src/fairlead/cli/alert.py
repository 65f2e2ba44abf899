"""`fairlead alert`: what was told, to whom; silences, acknowledgements, subscriptions, digests; a test of a route.

Not here: deciding and sending (`fairlead.show.alerts`, by `fairlead up`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.noun import Noun
from fairlead.cli.options import FILE, add_limit_option, add_name_option, add_server_options, json_option
from fairlead.cli.printing import print_json, print_lines, print_message
from fairlead.core.errors import DeliveryError, RefusedError, ServerError, UsageError

if TYPE_CHECKING:
    from fairlead.run.config import Config
    from fairlead.show.alerts.state import State

_ROUTE_STATES = ("waiting", "sent", "counted", "given_up")

_config_option = click.option(
    "--config",
    "file",
    type=FILE,
    metavar="FILE",
    help="Server settings (TOML): [alerts] and the state directory.",
)
_with_server = add_server_options("Use the API of this server (https://host:port), not its state on this machine.")


@click.group(cls=Noun)
def alert() -> None:
    """Alerts: list them, test routes, mute, acknowledge, subscribe.

    The server (`fairlead up`) sends alerts; these commands read and change its state: run them as the server's user.
    Only `subscribe`, `unsubscribe` and `subscriptions` also work from another machine, with --server.
    """


@alert.command("list")
@_config_option
@add_limit_option("How many messages to list.", most=10_000)
@json_option
def list_alerts(file: Path | None, limit: int, as_json: bool) -> None:
    """List open alerts, the latest messages, silences, and the state of the routes."""
    import msgspec

    from fairlead.core import clock

    with _state(_config(file), create=False) as state:
        found: dict[str, Any] = {
            "schema": "fairlead.alerts/1",
            "open": state.open_concerns(),
            "acknowledged": state.list_acknowledged(),
            "silences": state.list_silences(),
            "routes": state.count_notices(),
            "retried": [
                {
                    "route": one.route,
                    "recipient": one.recipient,
                    "alerts": len(one.notices),
                    "attempts": one.attempts,
                    "due_ns": one.due_ns,
                    "error": one.error,
                }
                for one in state.list_batches()
                if one.attempts
            ],
            "notices": [
                {
                    "route": one.route,
                    "recipient": one.recipient,
                    "id": one.concern,
                    "kind": one.kind,
                    "level": one.level,
                    "severity": one.severity,
                    "rule": one.rule,
                    "made_ns": one.made_ns,
                    "state": one.state,
                }
                for one in state.list_notices(limit)
            ],
        }
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    _show(found, clock.now_ns())


def _show(found: dict[str, Any], now_ns: int) -> None:
    from fairlead.show.alerts.alert_messages import format_message_time

    acknowledged = found["acknowledged"]
    print_lines(f"{len(found['open'])} open")
    for one in found["open"]:
        by = acknowledged.get(one.id)
        print_lines(
            f"  {one.id}  {one.severity:8s} {format_message_time(one.from_ns)}  {one.title}"
            + (f"  [acknowledged by {by.who}: {by.why}]" if by else "")
        )
    for one in found["silences"]:
        if now_ns < one.until_ns:
            what = " ".join(f"{field}={pattern}" for field, pattern in one.match.items())
            print_lines(f"silence {one.id}  {what} until {format_message_time(one.until_ns)} by {one.who}: {one.why}")
    for route, counts in sorted(found["routes"].items()):
        print_lines(f"route {route}: " + ", ".join(f"{counts.get(name, 0)} {name}" for name in _ROUTE_STATES))
    for one in found["retried"]:
        print_lines(f"  ! {one['route']}: {one['alerts']} alerts tried {one['attempts']} times: {one['error']}")
    for one in found["notices"]:
        to = f" to {one['recipient']}" if one["recipient"] else ""
        print_lines(
            f"  {format_message_time(one['made_ns'])}  {one['kind']:8s} {one['severity']:8s} {one['id']}"
            f"  {one['route']}{to}: {one['state']}"
        )


@alert.command("test")
@click.argument("route")
@_config_option
@click.option(
    "--to", "recipient", default="", metavar="ADDRESS", help="For a mail route: send to this address instead."
)
@json_option
def send_test_alert(route: str, file: Path | None, recipient: str, as_json: bool) -> None:
    """Send a test message through ROUTE now.

    Exits with 10 if it is not delivered.
    """
    import secrets

    from fairlead.core import clock
    from fairlead.show.alerts.alert_messages import Message
    from fairlead.show.alerts.delivery import build_delivery_courier

    settings = _config(file).alerts
    if route not in settings.routes:
        there = ", ".join(sorted(settings.routes)) or "none"
        raise UsageError(f"there is no route {route!r}", remedy=f"configured routes: {there}")
    now_ns = clock.now_ns()
    message = Message(
        id=secrets.token_hex(12),
        made_ns=now_ns,
        subject="[fairlead] test",
        text="A test of this route. Nothing is wrong.\n",
    )
    try:
        build_delivery_courier(route, settings).deliver(message, recipient, now_ns)
    except DeliveryError as fault:
        if as_json:
            print_json({"schema": "fairlead.alerts.test/1", "route": route, "delivered": False, "error": fault.what})
        raise
    if as_json:
        print_json({"schema": "fairlead.alerts.test/1", "route": route, "delivered": True, "error": None})
    else:
        print_lines(f"{route}: delivered")


@alert.command("silence")
@click.option(
    "--match",
    "match",
    multiple=True,
    required=True,
    metavar="FIELD=PATTERN",
    help="What to mute, by id, rule, severity, layer, component, user, program or job; * and ? are wildcards. "
    "Repeatable: all must match.",
)
@click.option("--for", "age", required=True, metavar="AGE", help="How long, such as 2h or 3d.")
@click.option("--why", required=True, metavar="TEXT", help="Why.")
@_config_option
@json_option
def silence_alerts(match: tuple[str, ...], age: str, why: str, file: Path | None, as_json: bool) -> None:
    """Mute matching alerts for a while.

    Alerts still open after that time are sent then.
    """
    import msgspec

    from fairlead.core import clock
    from fairlead.core.model.identity import compute_short_identity
    from fairlead.explain.questions.span import parse_span_age
    from fairlead.show.alerts.alert_messages import format_message_time
    from fairlead.show.alerts.silences import parse_silence_match
    from fairlead.show.alerts.state import Silence

    now_ns = clock.now_ns()
    fields = parse_silence_match(match)
    one = Silence(
        id=compute_short_identity("silence", *match, now_ns),
        match=fields,
        until_ns=now_ns + parse_span_age(age),
        who=_me(),
        why=why,
        made_ns=now_ns,
    )
    with _state(_config(file)) as state, state.change():
        state.silence(one)
    if as_json:
        print_json({"schema": "fairlead.alerts.silence/1", **msgspec.to_builtins(one)})
    else:
        print_lines(f"silence {one.id} until {format_message_time(one.until_ns)}")


@alert.command("unsilence")
@click.argument("silence_id", metavar="ID")
@_config_option
def end_alert_silence(silence_id: str, file: Path | None) -> None:
    """End a silence."""
    with _state(_config(file), create=False) as state, state.change():
        if not state.unsilence(silence_id):
            raise UsageError(f"there is no silence {silence_id!r}", remedy="`fairlead alert list` lists them")
    print_lines(f"ended {silence_id}")


@alert.command("ack")
@click.argument("finding", metavar="FINDING")
@click.option("--why", default="", metavar="TEXT", help="Note: what is being done about it.")
@click.option("--undo", is_flag=True, help="Withdraw the acknowledgement.")
@_config_option
@json_option
def acknowledge_alert(finding: str, why: str, undo: bool, file: Path | None, as_json: bool) -> None:
    """Acknowledge a finding or incident: no further alerts about it until it is over."""
    from fairlead.core import clock
    from fairlead.show.alerts.acknowledgement_routes import find_acknowledgement_subject
    from fairlead.show.alerts.state import Acknowledged
    from fairlead.store.lake import Lake

    if not undo and not why:
        raise UsageError("--why is missing", remedy="say what is being done: --why TEXT")
    config = _config(file)
    root = Path(config.server.lake)
    about = find_acknowledgement_subject(Lake.open(root), finding) if (root / "lake.toml").is_file() else None
    with _state(config) as state, state.change():
        concern = state.find_concern(finding)
        by = (
            None
            if undo
            else Acknowledged(
                _me(),
                why,
                clock.now_ns(),
                about.owner if about else "",
                about.from_ns if about else concern.from_ns if concern else 0,
                about.to_ns if about else concern.to_ns if concern else None,
            )
        )
        there = about or concern if by else state.find_acknowledged(finding)
        if not there:
            raise UsageError(
                f"nothing known is called {finding!r}", remedy="`fairlead finding list` lists what was found"
            )
        for name in about.ids if about else (finding,):
            state.acknowledge(name, by)
    if as_json:
        print_json({"schema": "fairlead.alerts.ack/1", "id": finding, "who": by.who if by else None, "why": why})
    else:
        print_lines(f"{finding}: " + (f"acknowledged by {by.who}" if by else "not acknowledged"))


@alert.command("digest")
@click.option("--every", type=click.Choice(["day", "week"]), default=None, help="Default: as configured.")
@_config_option
@json_option
def print_alert_digest(every: str | None, file: Path | None, as_json: bool) -> None:
    """Print the digest of the last whole day, or week."""
    from fairlead.core import clock
    from fairlead.show.alerts.digest import build_digest_of_span, find_digest_span

    config = _config(file)
    from_ns, to_ns = find_digest_span(every or config.alerts.digest_every, config.alerts.digest_hour, clock.now_ns())
    with _state(config, create=False) as state:
        subject, text = build_digest_of_span(state, config.alerts, from_ns, to_ns)
    if as_json:
        print_json(
            {"schema": "fairlead.alerts.digest/1", "from_ns": from_ns, "to_ns": to_ns, "subject": subject, "text": text}
        )
    else:
        click.echo(f"{subject}\n\n{text}", nl=False)


@alert.command("check")
@_config_option
@json_option
def check_alert_settings(file: Path | None, as_json: bool) -> None:
    """Check [alerts] in the settings: names, addresses, secret files. Sends nothing."""
    from fairlead.show.alerts.delivery import build_delivery_courier

    settings = _config(file).alerts
    for name in settings.routes:
        build_delivery_courier(name, settings)
    if as_json:
        import msgspec

        print_json(
            {
                "schema": "fairlead.alerts.rules/1",
                "routes": sorted(settings.routes),
                "rules": msgspec.to_builtins(settings.rules),
            }
        )
        return
    for rule in settings.rules:
        steps = "".join(f", {step.severity} after {step.after_h:g} h" for step in rule.escalate)
        print_lines(
            f"{rule.name}: {', '.join(rule.rules) or 'every rule'}, {rule.severity} or worse -> "
            f"{', '.join(rule.to)}{steps}"
        )
    print_lines(f"valid: {len(settings.rules)} rules, {len(settings.routes)} routes")


@alert.command("subscribe")
@add_name_option("--job", "Findings about this job.", "ID")
@add_name_option("--program", "Findings about jobs of this program; * and ? are wildcards.")
@click.option("--mine", is_flag=True, help="Findings about all your jobs.")
@click.option("--to", required=True, metavar="ADDRESS", help="Mail address to send to.")
@add_name_option("--user", "Jobs of this user. Default: yours; an operator may name others.")
@_config_option
@_with_server
@json_option
def subscribe_to_alerts(
    job: str,
    program: str,
    mine: bool,
    to: str,
    user: str,
    file: Path | None,
    server: str | None,
    token: Path | None,
    authority: Path | None,
    as_json: bool,
) -> None:
    """Subscribe to mail about findings on your own jobs."""
    import msgspec

    from fairlead.core import clock
    from fairlead.show.alerts import subscription_routes as subscribing

    if not (job or program or mine):
        raise UsageError("no jobs selected", remedy="--job ID, --program NAME or --mine")
    if mine and (job or program):
        raise UsageError("--mine covers all your jobs", remedy="give one of --mine, --job and --program")
    wish = subscribing.Wish(to=to, user=user, job=job, program=program)
    if server:
        found = _ask(server, "POST", "", token, authority, msgspec.json.encode(wish))
    else:
        config = _config(file)
        with _state(config) as state:
            mine_by = msgspec.structs.replace(wish, user=user or _me())
            made = subscribing.add_subscription(state, config.alerts, mine_by, clock.now_ns())
        found = {"schema": subscribing.SCHEMA, "subscriptions": [msgspec.to_builtins(made)]}
    _show_subscriptions(found, as_json)


@alert.command("subscriptions")
@add_name_option("--user", "Only subscriptions of this user.")
@_config_option
@_with_server
@json_option
def list_alert_subscriptions(
    user: str, file: Path | None, server: str | None, token: Path | None, authority: Path | None, as_json: bool
) -> None:
    """List subscriptions: yours with --server, all of them on the server's own machine."""
    import msgspec

    from fairlead.show.alerts import subscription_routes as subscribing

    if server:
        found = _ask(server, "GET", "", token, authority)
    else:
        with _state(_config(file), create=False) as state:
            rows = state.list_subscriptions()
        found = {"schema": subscribing.SCHEMA, "subscriptions": msgspec.to_builtins(rows)}
    found["subscriptions"] = [one for one in found["subscriptions"] if user in ("", one["owner"])]
    _show_subscriptions(found, as_json)


@alert.command("unsubscribe")
@click.argument("subscription", metavar="ID")
@_config_option
@_with_server
def end_alert_subscription(
    subscription: str, file: Path | None, server: str | None, token: Path | None, authority: Path | None
) -> None:
    """End a subscription."""
    from urllib.parse import quote

    if server:
        _ask(server, "DELETE", f"/{quote(subscription, safe='')}", token, authority)
    else:
        with _state(_config(file), create=False) as state, state.change():
            if not state.unsubscribe(subscription):
                raise UsageError(f"there is no subscription {subscription!r}", remedy="fairlead alert subscriptions")
    print_lines(f"ended {subscription}")


def _show_subscriptions(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for one in found["subscriptions"]:
        what = f"job {one['job']}" if one["job"] else f"program {one['program']}" if one["program"] else "all jobs"
        print_lines(f"{one['id']}  {what} of {one['owner'] or 'anybody'} to {one['address']}")
    if not found["subscriptions"]:
        print_message("no subscriptions")


def _ask(
    server: str, method: str, below: str, token: Path | None, authority: Path | None, body: bytes | None = None
) -> dict[str, Any]:
    import msgspec

    from fairlead.core.access.server_client import read_server_token, request_server
    from fairlead.show.alerts.subscription_routes import ROOT

    answer = request_server(
        server, ROOT + below, token=read_server_token(token), authority=authority, method=method, body=body
    )
    try:
        return msgspec.json.decode(answer, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ServerError(f"not a fairlead response: {error}", where=server, remedy="check --server") from error


def _config(file: Path | None) -> Config:
    from fairlead.run.config import load_config, resolve_config

    return resolve_config(load_config(file)[0])


def _state(config: Config, *, create: bool = True) -> State:
    from fairlead.show.alerts.state import State

    folder = Path(config.server.state)
    if create and not folder.is_dir():
        raise RefusedError("no such server state directory", where=str(folder), remedy="give --config FILE")
    return State(folder, create=create)


def _me() -> str:
    import os
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())

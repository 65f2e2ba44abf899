"""Delivery to real receivers: mail with and without TLS, webhooks, Alertmanager's API; refusals, retries, injection."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_server import certificate
from alert_receivers import MailSink, WebSink
from fairlead.core.errors import ConfigError, DeliveryError, UndeliveredError
from fairlead.core.model.finding import Advice
from fairlead.show.alerts.alert_evaluation import evaluate_alert_concerns
from fairlead.show.alerts.alert_messages import Message
from fairlead.show.alerts.alert_settings import (
    AlertApi,
    AlertRule,
    Alerts,
    Mail,
    Route,
    Step,
    Webhook,
    check_alert_settings,
    read_alert_secret,
)
from fairlead.show.alerts.alert_subject import Concern
from fairlead.show.alerts.delivery import build_delivery_courier
from fairlead.show.alerts.delivery.mail import ByMail, build_mail
from fairlead.show.alerts.delivery.webhook import sign_webhook_body
from fairlead.show.alerts.route_sender import FIRST_S, LONGEST_S, Sender, compute_sender_pause
from fairlead.show.alerts.state import State

H = 3600 * 10**9
NOW = 1_700_000_000 * 10**9
MESSAGE = Message(id="b1", made_ns=NOW, subject="[fairlead] test", text="one\ntwo\n")
EVIL = "x\r\nBcc: evil@example.org\r\n\r\nbody \x1b[2J \u202e {0} <script>"


def concern(name: str = "f1", **changes: Any) -> Concern:
    base = Concern(
        id=name,
        lasting=True,
        rule="component.degraded",
        category="fail_slow",
        title="target ost3 is degraded",
        severity="high",
        confidence=0.9,
        from_ns=NOW - H,
        components=["ost3"],
        layers=["target"],
        made_ns=NOW,
    )
    return msgspec.structs.replace(base, **changes)


def alerts_of(**routes: Route) -> Alerts:
    rule = AlertRule(name="all", to=[*routes], hold_off_s=0, escalate=[Step(after_h=96)])
    return check_alert_settings(Alerts(routes=routes, rules=[rule], group_s=0.0))


def mail(sink: MailSink, **changes: Any) -> Mail:
    base = Mail(
        host="localhost",
        port=sink.port,
        sender="fairlead@example.org",
        to=["ops@example.org"],
        security="none",
        timeout_s=5.0,
    )
    return msgspec.structs.replace(base, **changes)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return certificate(tmp_path)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State(tmp_path / "state") as opened:
        yield opened


class Clock:
    """A time that moves only when it is told to."""

    def __init__(self) -> None:
        self.ns = NOW

    def __call__(self) -> int:
        return self.ns


def sender(state: State, alerts: Alerts, route: str, clock: Clock) -> Sender:
    return Sender(state.path.parent, alerts, route, clock)


def private(folder: Path, text: str = "secret") -> str:
    path = folder / "secret"
    path.write_text(text + "\n")
    path.chmod(0o600)
    return str(path)


def test_a_mail_in_the_clear_to_this_machine() -> None:
    with MailSink() as sink:
        ByMail(mail(sink, to=["a@example.org", "b@example.org"])).deliver(MESSAGE, "", NOW)
        (letter,) = sink.letters
        assert letter.to == ["a@example.org", "b@example.org"]
        assert letter.sender == "fairlead@example.org"
        assert letter.text == "one\ntwo\n"
        assert letter.parsed["Message-ID"] == "<b1@example.org>"
        assert letter.parsed["Auto-Submitted"] == "auto-generated"
        ByMail(mail(sink)).deliver(MESSAGE, "alice@example.org", NOW)
        assert sink.letters[1].to == ["alice@example.org"]


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_mail_encrypted_and_logged_in(security: Any, pair: tuple[Path, Path], tmp_path: Path) -> None:
    with MailSink(certificate=pair, tls=security == "tls") as sink:
        route = mail(sink, security=security, ca=str(pair[0]), user="fl", password_file=private(tmp_path))
        ByMail(route).deliver(MESSAGE, "", NOW)
        (letter,) = sink.letters
        assert letter.encrypted
        assert letter.user == "fl"
        wrong = msgspec.structs.replace(route, password_file=private(tmp_path, "other"))
        with pytest.raises(UndeliveredError, match="login was refused"):
            ByMail(wrong).deliver(MESSAGE, "", NOW)


def test_no_mail_where_encryption_is_wanted_and_not_to_be_had(pair: tuple[Path, Path]) -> None:
    with MailSink(certificate=pair, starttls=False) as sink:
        with pytest.raises(DeliveryError, match="not supported"):
            ByMail(mail(sink, security="starttls", ca=str(pair[0]))).deliver(MESSAGE, "", NOW)
        assert sink.letters == []
    with MailSink(certificate=pair) as sink:
        with pytest.raises(UndeliveredError, match=r"(?i)certificate"):
            ByMail(mail(sink, security="starttls")).deliver(MESSAGE, "", NOW)
        assert sink.letters == []


@pytest.mark.parametrize(
    ("answer", "kind"), [("451 later", UndeliveredError), ("554 never", DeliveryError), (None, UndeliveredError)]
)
def test_a_mail_that_is_refused(answer: str | None, kind: type[Exception]) -> None:
    with MailSink(answer=lambda _: answer) as sink, pytest.raises(DeliveryError) as raised:
        ByMail(mail(sink)).deliver(MESSAGE, "", NOW)
    assert type(raised.value) is kind


def test_recipients_that_are_refused() -> None:
    with MailSink(refuse=frozenset({"no@example.org"})) as sink:
        with pytest.raises(DeliveryError, match="recipients were refused"):
            ByMail(mail(sink, to=["no@example.org"])).deliver(MESSAGE, "", NOW)
        ByMail(mail(sink, to=["no@example.org", "yes@example.org"])).deliver(MESSAGE, "", NOW)
        assert [letter.to for letter in sink.letters] == [["yes@example.org"]]


def test_no_text_becomes_a_header_or_a_command(state: State) -> None:
    with MailSink() as sink:
        alerts = alerts_of(ops=mail(sink))
        bad = concern(
            title=EVIL,
            components=[EVIL],
            evidence=[EVIL, ".", "\n.\r\nMAIL FROM:<x@y>"],
            advice=[Advice(text=EVIL, code=EVIL)],
        )
        evaluate_alert_concerns(state, alerts, [bad], NOW)
        assert sender(state, alerts, "ops", Clock()).send_due(state) == 1
        (letter,) = sink.letters
        parsed = letter.parsed
        assert set(parsed.keys()) == {
            "From",
            "To",
            "Subject",
            "Date",
            "Message-ID",
            "Auto-Submitted",
            "Content-Type",
            "Content-Transfer-Encoding",
            "MIME-Version",
        }
        assert letter.to == ["ops@example.org"]
        assert "\n" not in parsed["Subject"]
        assert "\x1b" not in letter.text
        assert "\u202e" not in letter.text
        assert not any(line.startswith(("Bcc:", ".", "MAIL")) for line in letter.text.split("\n"))
    with pytest.raises(ConfigError):
        build_mail(MESSAGE, "fairlead@example.org", ["a@b.org\r\nBcc: c@d.org"], NOW)


def test_a_webhook_is_signed_over_tls_and_keeps_its_id(pair: tuple[Path, Path], tmp_path: Path, state: State) -> None:
    with WebSink(certificate=pair, answer=lambda n: (503 if n == 0 else 200, {})) as sink:
        file = private(tmp_path)
        route = Webhook(url=f"{sink.url}/hook?x=1", ca=str(pair[0]), token_file=file, hmac_file=file, timeout_s=5)
        alerts, clock = alerts_of(hook=route), Clock()
        advice = [Advice(text=EVIL, code="one\ntwo\x1b", audience="site")]
        evaluate_alert_concerns(state, alerts, [concern(title=EVIL, rule="component.x\x1b", advice=advice)], NOW)
        work = sender(state, alerts, "hook", clock)
        assert work.send_due(state) == 0
        assert work.send_due(state) == 0, "not before the pause is over"
        clock.ns += round(FIRST_S * 10**9)
        assert work.send_due(state) == 1
        first, second = sink.requests
        assert first.headers["x-fairlead-delivery"] == second.headers["x-fairlead-delivery"]
        assert second.path == "/hook?x=1"
        assert second.headers["authorization"] == "Bearer secret"
        time = second.headers["x-fairlead-time"]
        assert second.headers["x-fairlead-signature"] == "sha256=" + sign_webhook_body(b"secret", time, second.body)
        document = second.json
        assert document["schema"] == "fairlead.alert/1"
        assert document["alerts"][0]["status"] == "firing"
        assert "\r" not in document["alerts"][0]["title"]
        assert document["alerts"][0]["advice"][0]["code"] == "one\ntwo\\x1b"
        assert document["text"].count("\n") > 2
        assert b"\\u001b" not in second.body


def test_a_webhooks_certificate_is_checked(pair: tuple[Path, Path]) -> None:
    with WebSink(certificate=pair) as sink:
        by = build_delivery_courier("hook", Alerts(routes={"hook": Webhook(url=sink.url, timeout_s=5)}))
        with pytest.raises(UndeliveredError, match=r"(?i)certificate"):
            by.deliver(MESSAGE, "", NOW)
        assert sink.requests == []


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    with WebSink() as other, WebSink(answer=lambda _: (307, {"Location": f"{other.url}/steal"})) as sink:
        route = Webhook(url=sink.url, token_file=private(tmp_path), timeout_s=5)
        with pytest.raises(DeliveryError, match="not followed"):
            build_delivery_courier("hook", Alerts(routes={"hook": route})).deliver(MESSAGE, "", NOW)
        assert other.requests == []


@pytest.mark.parametrize(("status", "again"), [(500, True), (429, True), (408, True), (400, False), (404, False)])
def test_what_a_status_means(status: int, again: bool) -> None:
    with WebSink(answer=lambda _: (status, {})) as sink, pytest.raises(DeliveryError) as raised:
        build_delivery_courier("hook", Alerts(routes={"hook": Webhook(url=sink.url)})).deliver(MESSAGE, "", NOW)
    assert raised.value.retryable is again


def test_alertmanager_gets_its_documented_form_and_the_end(state: State) -> None:
    with WebSink() as sink:
        route = AlertApi(url=sink.url + "/", labels={"cluster": "c1"}, refresh_s=60)
        alerts = msgspec.structs.replace(alerts_of(am=route), link="https://f.example.org/findings/{id}", settle_s=0.0)
        clock = Clock()
        work = sender(state, alerts, "am", clock)
        event = concern("f2", lasting=False, rule="job.interference", job="42", user="alice", to_ns=NOW)
        evaluate_alert_concerns(
            state, alerts, [concern(advice=[Advice(text="do", audience="site")], evidence=["seen"]), event], NOW
        )
        work.send_due(state)
        assert sink.requests[0].path == "/api/v2/alerts"
        lasting, happened = sorted(sink.requests[0].json, key=lambda one: one["labels"]["id"])
        assert lasting["labels"] == {
            "alertname": "component.degraded",
            "category": "fail_slow",
            "id": "f1",
            "layer": "target",
            "component": "ost3",
            "cluster": "c1",
        }
        assert lasting["annotations"] == {
            "summary": "target ost3 is degraded",
            "severity": "high",
            "description": "seen",
            "advice": "site: do",
            "explain": "fairlead finding show f1",
        }
        assert lasting["startsAt"] == "2023-11-14T21:13:20.000Z"
        assert lasting["endsAt"] == "2023-11-14T22:17:20.000Z", "four refreshes from now"
        assert lasting["generatorURL"] == "https://f.example.org/findings/f1"
        assert happened["endsAt"] == "2023-11-14T23:13:20.000Z"
        before = len(sink.requests)
        clock.ns += 30 * 10**9
        work.send_due(state)
        assert len(sink.requests) == before
        clock.ns += 31 * 10**9
        work.send_due(state)
        assert [one["labels"]["id"] for one in sink.requests[-1].json] == ["f1"], "only what lasts is told again"
        evaluate_alert_concerns(state, alerts, [concern(to_ns=NOW + 40 * 10**9, made_ns=clock.ns)], clock.ns)
        work.send_due(state)
        (over,) = sink.requests[-1].json
        assert over["labels"] == lasting["labels"]
        assert over["endsAt"] == "2023-11-14T22:14:00.000Z"


def test_an_unreachable_receiver_holds_up_no_other_and_is_given_up(state: State) -> None:
    with MailSink() as sink:
        dead = Webhook(url="http://127.0.0.1:9/x", timeout_s=2)
        alerts, clock = alerts_of(ops=mail(sink), hook=dead), Clock()
        evaluate_alert_concerns(state, alerts, [concern()], NOW)
        hook, ops = sender(state, alerts, "hook", clock), sender(state, alerts, "ops", clock)
        assert hook.send_due(state) == 0
        assert ops.send_due(state) == 1
        (tried,) = state.list_batches()
        assert (tried.attempts, tried.due_ns) == (1, NOW + round(FIRST_S * 10**9))
        evaluate_alert_concerns(state, alerts, [concern("f2", components=["ost4"])], NOW + 1)
        clock.ns = NOW + 25 * H
        assert hook.send_due(state) == 0, "given up, and the next one fails, too"
        assert state.count_notices()["hook"] == {"given_up": 1, "waiting": 1}
        (second,) = state.list_batches()
        assert second.untold == 1, "the next message says so"


def test_pauses_grow_to_a_bound() -> None:
    assert compute_sender_pause(0) == FIRST_S * 10**9
    assert compute_sender_pause(1) == 2 * compute_sender_pause(0)
    assert compute_sender_pause(1000) == LONGEST_S * 10**9
    assert all(compute_sender_pause(n) <= compute_sender_pause(n + 1) for n in range(60))


def test_secrets_are_for_their_owner_only(tmp_path: Path) -> None:
    path = Path(private(tmp_path))
    assert read_alert_secret(str(path)) == "secret"
    assert read_alert_secret("") == ""
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="others can read"):
        read_alert_secret(str(path))
    path.chmod(0o600)
    path.write_text("\n")
    with pytest.raises(ConfigError, match="contains no secret"):
        read_alert_secret(str(path))
    with pytest.raises(ConfigError, match="cannot be read"):
        read_alert_secret(str(tmp_path / "absent"))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[routes.a]\nkind = "mail"\nhost = "h"\nsender = "x\\ny@z"', "alerts.routes.a.sender"),
        ('[routes.a]\nkind = "mail"\nhost = "h"\nsender = "x@y"\nto = ["not"]', "alerts.routes.a.to"),
        ('[routes.a]\nkind = "mail"\nhost = "h"\nsender = "x@y"\nuser = "u"', "alerts.routes.a.user"),
        (
            '[routes.a]\nkind = "mail"\nhost = "h"\nsender = "x@y"\nsecurity = "none"\nuser = "u"\npassword_file = "p"',
            "security",
        ),
        ('[routes.a]\nkind = "webhook"\nurl = "http://example.org/x"', "alerts.routes.a.url"),
        ('[routes.a]\nkind = "webhook"\nurl = "ftp://example.org/x"', "alerts.routes.a.url"),
        ('[routes.a]\nkind = "webhook"\nurl = "https://me:pw@example.org/x"', "contains a login"),
        ('[routes."a b"]\nkind = "webhook"\nurl = "https://example.org"', "not a valid route name"),
        ('[[rules]]\nname = "r"\nto = ["a"]', "no route 'a'"),
        ('[[rules]]\nname = "r"\nto = []', "names no route"),
        ('digest = ["a"]\n[routes.a]\nkind = "alertmanager"\nurl = "https://a"', "digest"),
        ('subscriptions = "a"\n[routes.a]\nkind = "webhook"\nurl = "https://a"', "subscriptions"),
        ('link = "javascript:x"', "alerts.link"),
        ("digest_hour = 24", "alerts.digest_hour"),
    ],
)
def test_a_wrong_setting_is_named(text: str, named: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check_alert_settings(msgspec.toml.decode(text, type=Alerts))
    assert named in str(raised.value)


def test_tls_is_never_older_than_1_2(pair: tuple[Path, Path]) -> None:
    from fairlead.show.alerts.delivery.courier import build_courier_tls

    context = build_courier_tls(str(pair[0]))
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    with pytest.raises(ConfigError):
        build_courier_tls(str(pair[0].with_name("absent.pem")))


def test_settings_that_are_shown_can_be_read_again(tmp_path: Path) -> None:
    from fairlead.run.config import format_config, load_config

    path = tmp_path / "server.toml"
    path.write_text(
        '[alerts]\ndigest = ["ops"]\n[alerts.routes.ops]\nkind = "mail"\nhost = "h"\nsender = "f@example.org"\n'
        '[alerts.routes.am]\nkind = "alertmanager"\nurl = "https://am"\nlabels = {cluster = "c1"}\n'
        '[[alerts.rules]]\nname = "r"\nto = ["ops", "am"]\nescalate = [{after_h = 4, to = ["am"]}]\n'
    )
    config, origins = load_config(path, environment={})
    again = tmp_path / "again.toml"
    again.write_text(format_config(config, origins, with_origin=True))
    assert load_config(again, environment={})[0].alerts == config.alerts
    assert load_config(None, environment={"FAIRLEAD_ALERTS_EVERY_S": "5"})[0].alerts.every_s == 5
    for wrong in ("alerts.routes=x", "alerts.rules=x"):
        with pytest.raises(ConfigError):
            load_config(None, environment={}, flags=[wrong])

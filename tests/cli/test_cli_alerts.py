"""`fairlead alert` as a person and a program meet it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from alert_receivers import WebSink
from fairlead.cli.main import main
from fairlead.core import clock
from fairlead.show.alerts.alert_evaluation import evaluate_alert_concerns
from fairlead.show.alerts.alert_settings import AlertRule, Alerts, Webhook
from fairlead.show.alerts.alert_subject import Concern
from fairlead.show.alerts.state import State

Run = Callable[..., tuple[int, str, str]]
_SETTINGS = """
[server]
lake = "{folder}/lake"
state = "{folder}"
[alerts]
digest = ["hook"]
subscriptions = "ops"
subscribe_domains = ["example.org"]
[alerts.routes.hook]
kind = "webhook"
url = "{url}"
[alerts.routes.ops]
kind = "mail"
host = "localhost"
sender = "fairlead@example.org"
[[alerts.rules]]
name = "components"
to = ["hook"]
rules = ["component.*"]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "server.toml"
    path.write_text(_SETTINGS.format(folder=tmp_path, url="http://127.0.0.1:9/"))
    return path


@pytest.fixture
def run(config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in ("FAIRLEAD_API", "FAIRLEAD_TOKEN_FILE", "FAIRLEAD_LAKE"):
        monkeypatch.delenv(name, raising=False)

    def call(*words: str) -> tuple[int, str, str]:
        code = main(["alert", *words, "--config", str(config)])
        done = capsys.readouterr()
        return code, done.out, done.err

    return call


@pytest.fixture
def told(tmp_path: Path) -> Concern:
    """A state in which one incident was told."""
    now_ns = clock.now_ns()
    one = Concern(
        id="i1",
        lasting=True,
        rule="component.degraded",
        category="fail_slow",
        title="ost3 \x1b[2J\nis degraded",
        severity="high",
        confidence=0.9,
        from_ns=now_ns - 10**12,
        components=["ost3"],
        layers=["target"],
        made_ns=now_ns,
    )
    alerts = Alerts(routes={"hook": Webhook(url="http://127.0.0.1:9/")}, rules=[AlertRule(name="r", to=["hook"])])
    with State(tmp_path) as state:
        evaluate_alert_concerns(state, alerts, [one], now_ns)
    return one


def test_list_shows_what_is_open_harmlessly(run: Run, told: Concern) -> None:
    code, out, _ = run("list")
    assert code == 0
    assert out.startswith("1 open\n  i1  high")
    assert "\x1b" not in out
    assert "ost3 \\x1b[2J\\nis degraded" in out
    assert "route hook: 1 waiting, 0 sent, 0 counted, 0 given_up" in out
    code, out, _ = run("list", "--json")
    document = json.loads(out)
    assert document["schema"] == "fairlead.alerts/1"
    assert document["open"][0]["id"] == told.id
    assert document["notices"][0]["state"] == "waiting"


def test_nothing_told_yet_is_said(run: Run) -> None:
    code, _, err = run("list")
    assert code == 7
    assert "no alerts were sent from here yet" in err


def test_a_silence_and_its_end(run: Run, told: Concern) -> None:
    code, out, _ = run("silence", "--match", "component=ost*", "--for", "2h", "--why", "disk \x1b", "--json")
    assert code == 0
    made = json.loads(out)
    assert made["schema"] == "fairlead.alerts.silence/1"
    assert made["match"] == {"component": "ost*"}
    assert made["until_ns"] - made["made_ns"] == 7200 * 10**9
    assert f"silence {made['id']}  component=ost* until" in run("list")[1]
    assert run("unsilence", made["id"])[0] == 0
    assert run("unsilence", made["id"])[0] == 2
    assert run("silence", "--match", "colour=red", "--for", "2h", "--why", "x")[0] == 2
    assert run("silence", "--match", "job=1", "--for", "soon", "--why", "x")[0] == 2


def test_taking_on_a_finding_and_giving_it_back(run: Run, told: Concern) -> None:
    assert run("ack", "i1")[0] == 2
    assert run("ack", "no-such", "--why", "x")[0] == 2
    code, out, _ = run("ack", "i1", "--why", "disk ordered", "--json")
    assert code == 0
    assert json.loads(out)["schema"] == "fairlead.alerts.ack/1"
    assert "disk ordered]" in run("list")[1]
    assert run("ack", "i1", "--undo")[1] == "i1: not acknowledged\n"
    assert "acknowledged" not in run("list")[1]


def test_the_digest_of_the_last_day(run: Run, told: Concern) -> None:
    code, out, _ = run("digest")
    assert code == 0
    assert out.startswith("[fairlead] digest: ")
    assert "1 open" in out.splitlines()[0]
    document = json.loads(run("digest", "--every", "week", "--json")[1])
    assert document["to_ns"] - document["from_ns"] == 7 * 86400 * 10**9


def test_the_rules_are_checked(run: Run, config: Path) -> None:
    code, out, _ = run("check")
    assert code == 0
    assert "components: component.*, warning or worse -> hook, critical after 96 h" in out
    assert json.loads(run("check", "--json")[1])["routes"] == ["hook", "ops"]
    config.write_text(config.read_text().replace('to = ["hook"]', 'to = ["hok"]'))
    code, _, err = run("check")
    assert code == 5
    assert "there is no route 'hok'" in err


def test_a_route_is_tested(run: Run, config: Path) -> None:
    with WebSink() as sink:
        config.write_text(config.read_text().replace("http://127.0.0.1:9/", sink.url))
        assert run("test", "hook")[:2] == (0, "hook: delivered\n")
        assert sink.requests[0].json["subject"] == "[fairlead] test"
        assert run("test", "hok")[0] == 2
    code, out, err = run("test", "hook", "--json")
    assert code == 10
    assert json.loads(out)["delivered"] is False
    assert "no response" in err


def test_subscriptions_on_the_servers_own_machine(run: Run, tmp_path: Path) -> None:
    to = ("--to", "alice@example.org", "--user", "alice")
    assert run("subscribe", *to)[0] == 2, "no jobs selected"
    assert run("subscribe", "--mine", "--job", "1", *to)[0] == 2
    assert run("subscribe", "--mine", "--user", "alice", "--to", "alice@example.com")[0] == 8
    assert run("subscribe", "--mine", "--user", "alice", "--to", "a@example.org\nBcc: x@y")[0] == 2
    code, out, _ = run("subscribe", "--job", "42", *to, "--json")
    assert code == 0
    (made,) = json.loads(out)["subscriptions"]
    assert run("subscribe", "--job", "42", *to)[0] == 0, "the same once more is the same"
    assert run("subscriptions")[1] == f"{made['id']}  job 42 of alice to alice@example.org\n"
    assert run("subscriptions", "--user", "bob")[1] == ""
    assert run("unsubscribe", made["id"])[0] == 0
    assert run("unsubscribe", made["id"])[0] == 2


def test_a_user_has_a_bounded_number_of_subscriptions(tmp_path: Path) -> None:
    from fairlead.core.errors import RefusedError
    from fairlead.show.alerts.alert_settings import Mail
    from fairlead.show.alerts.subscription_routes import Wish, add_subscription

    alerts = Alerts(
        routes={"ops": Mail(host="h", sender="f@example.org")},
        subscriptions="ops",
        subscribe_domains=["example.org"],
        most_subscriptions=2,
    )
    wish = Wish(to="a@example.org", user="alice")
    with State(tmp_path) as state:
        for job in ("1", "2", "2"):
            add_subscription(state, alerts, msgspec.structs.replace(wish, job=job), 0)
        with pytest.raises(RefusedError, match="alice has 2"):
            add_subscription(state, alerts, msgspec.structs.replace(wish, job="3"), 0)
        with pytest.raises(RefusedError, match="has no subscriptions"):
            add_subscription(state, msgspec.structs.replace(alerts, subscriptions=""), wish, 0)

"""Who has taken a finding on: kept on disk, brought over from an older file, and what a silence may be of."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from test_alerts_look import NOW, H, sick

from fairlead.core.errors import UsageError
from fairlead.show.alerts.acknowledgement_routes import ListParameters, list_acknowledgements
from fairlead.show.alerts.alert_evaluation import evaluate_alert_concerns
from fairlead.show.alerts.alert_settings import AlertRule, Alerts, Webhook
from fairlead.show.alerts.silence_routes import SilenceRequest, build_silence
from fairlead.show.alerts.state import FILE, Acknowledged, State
from fairlead.show.web.identity import Person, RefusedError

ADMIN = Person(name="root", role="admin", key="a", scopes=("read", "act", "admin"))
ALICE = Person(name="alice", role="user", key="b", scopes=("read", "act"))
BOB = Person(name="bob", role="user", key="c", scopes=("read", "act"))


def by(who: str, *, site: bool = True, owner: str = "", from_ns: int = NOW, to_ns: int | None = NOW) -> Acknowledged:
    return Acknowledged(who, "seen", NOW, owner, from_ns, to_ns, site)


def keep(state: State, **given: Acknowledged | None) -> None:
    with state.change():
        for name, one in given.items():
            state.acknowledge(name, one)


def test_it_is_kept_without_any_alert_and_given_back(tmp_path: Path) -> None:
    with State(tmp_path) as state:
        keep(state, f1=by("root"))
        with state.change():
            assert not state.acknowledge("f2", None), "nobody had"
    with State(tmp_path) as state:
        assert state.list_acknowledged() == {"f1": by("root")}
        keep(state, f1=None)
        assert state.find_acknowledged("f1") is None


def test_only_what_touches_the_span_is_listed(tmp_path: Path) -> None:
    with State(tmp_path) as state:
        keep(
            state,
            old=by("r", from_ns=NOW - 9 * H, to_ns=NOW - 8 * H),
            lasts=by("r", from_ns=NOW - 9 * H, to_ns=None),
            late=by("r", from_ns=NOW + H, to_ns=None),
            now=by("r"),
        )
        assert set(state.list_acknowledged(NOW - H, NOW + 1)) == {"lasts", "now"}


def test_a_user_hears_of_own_jobs_only_and_no_words_of_operators(tmp_path: Path) -> None:
    with State(tmp_path) as state:
        keep(
            state,
            a=by("root", owner="alice"),
            own=by("alice", owner="alice", site=False),
            b=by("root", owner="bob"),
            component=by("root"),
        )
        asked = ListParameters(from_="2023-11-14T00:00:00Z", to="2023-11-16T00:00:00Z")
        heard = {
            one.id: (one.who, one.text) for one in list_acknowledgements(state, asked, ALICE, NOW + H).acknowledgements
        }
        assert heard == {"a": (None, None), "own": ("alice", "seen")}
        assert len(list_acknowledgements(state, asked, ADMIN, NOW + H).acknowledgements) == 4
        assert list_acknowledgements(state, ListParameters(id="own"), BOB, NOW + H).acknowledgements == []


def test_what_an_operator_takes_on_is_not_escalated_what_a_user_does_is(tmp_path: Path) -> None:
    alerts = Alerts(routes={"ops": Webhook(url="https://example.org/x")}, rules=[AlertRule(name="all", to=["ops"])])
    with State(tmp_path) as state:
        assert evaluate_alert_concerns(state, alerts, [sick()], NOW).added == 1
        keep(state, i1=by("root", to_ns=None))
        assert evaluate_alert_concerns(state, alerts, [], NOW + 200 * H).added == 0
        keep(state, i1=by("alice", site=False, to_ns=None))
        assert evaluate_alert_concerns(state, alerts, [], NOW + 200 * H).added == 1


def test_a_file_of_the_first_version_is_brought_over(tmp_path: Path) -> None:
    with State(tmp_path) as state, state.change():
        state.keep([sick("i1"), sick("i2")])
    with sqlite3.connect(tmp_path / FILE) as base:
        base.execute("DROP TABLE acknowledgement")
        base.execute("ALTER TABLE concern ADD COLUMN acknowledged TEXT")
        said = json.dumps({"who": "me", "why": "disk ordered", "at_ns": NOW})
        base.execute("UPDATE concern SET acknowledged = ? WHERE id = 'i1'", (said,))
        base.execute("PRAGMA user_version = 1")
    base.close()
    for _ in range(2):
        with State(tmp_path) as state:
            assert {name: (one.who, one.why) for name, one in state.list_acknowledged().items()} == {
                "i1": ("me", "disk ordered")
            }
            assert [one.id for one in state.open_concerns()] == ["i1", "i2"]


@pytest.mark.parametrize(
    ("match", "lasts", "why"),
    [
        ({}, "1d", "x"),
        ({"component": "*"}, "1d", "x"),
        ({"component": "**", "rule": "*"}, "1d", "x"),
        ({"colour": "red"}, "1d", "x"),
        ({"component": ""}, "1d", "x"),
        ({"component": "a" * 257}, "1d", "x"),
        ({"component": "ost1"}, "1d", " "),
        ({"component": "ost1"}, "1d", "y" * 1001),
        ({"component": "ost1"}, "400d", "x"),
        ({"component": "ost1"}, "0h", "x"),
        ({"component": "ost1"}, "soon", "x"),
        ({"component": "ost1"}, "9" * 40, "x"),
    ],
)
def test_a_silence_that_is_none_is_refused(match: dict[str, str], lasts: str, why: str) -> None:
    with pytest.raises((RefusedError, UsageError)) as refused:
        build_silence(SilenceRequest(match=match, lasts=lasts, why=why), "root", NOW)
    assert getattr(refused.value, "status", 400) == 400


def test_a_silence_holds_as_long_as_it_says() -> None:
    one = build_silence(SilenceRequest(match={"component": "ost*"}, lasts="3d", why=" disk ordered "), "root", NOW)
    assert (one.until_ns, one.who, one.why) == (NOW + 72 * H, "root", "disk ordered")

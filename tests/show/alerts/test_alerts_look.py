"""What is told, when, and how often: rules, hold-off, escalation, silences, storms. The time is an argument."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fairlead.core.errors import LakeError, UsageError
from fairlead.core.model.finding import Advice, Evidence, Finding, Subject
from fairlead.core.model.finding_incident_rows import StoredFinding, build_finding_rows, build_incident_rows
from fairlead.core.model.incident import Incident
from fairlead.explain.rules.advice_set import load_advice_set
from fairlead.show.alerts.alert_evaluation import Look, evaluate_alert_concerns
from fairlead.show.alerts.alert_messages import build_alert_message
from fairlead.show.alerts.alert_rules import find_alert_escalation, matches_alert_rule
from fairlead.show.alerts.alert_settings import AlertRule, Alerts, Mail, Step, Webhook
from fairlead.show.alerts.alert_subject import Concern, build_finding_subjects, build_incident_subjects
from fairlead.show.alerts.digest import build_digest_of_span, enqueue_due_digests, find_digest_span
from fairlead.show.alerts.silences import parse_silence_match
from fairlead.show.alerts.state import FILE, Acknowledged, Batch, Silence, State, Subscription

H = 3600 * 10**9
NOW = 1_700_000_000 * 10**9
MAIL = Mail(host="localhost", sender="fairlead@example.org", to=["ops@example.org"])


def concern(name: str = "f1", **changes: object) -> Concern:
    """A finding about a job, made just now."""
    base = Concern(
        id=name,
        lasting=False,
        rule="job.interference",
        category="n_to_1",
        title="job 42 lost 300 s",
        severity="high",
        confidence=0.9,
        cost_s=300.0,
        from_ns=NOW - H,
        to_ns=NOW,
        components=["fwd1"],
        layers=["forwarder"],
        job="42",
        user="alice",
        program="lammps",
        nodes=16,
        made_ns=NOW,
    )
    return msgspec.structs.replace(base, **changes)


def sick(name: str = "i1", *, since_h: float = 2.0, **changes: object) -> Concern:
    """An incident that lasts."""
    base = Concern(
        id=name,
        lasting=True,
        rule="component.degraded",
        category="fail_slow",
        title="target ost3 is degraded",
        severity="high",
        confidence=0.9,
        from_ns=NOW - round(since_h * H),
        components=["ost3"],
        layers=["target"],
        made_ns=NOW,
    )
    return msgspec.structs.replace(base, **changes)


def settings(*rules: AlertRule, **changes: object) -> Alerts:
    given = rules or (AlertRule(name="all", to=["ops"]),)
    alerts = Alerts(
        settle_s=0.0, routes={"ops": MAIL, "boss": MAIL, "hook": Webhook(url="https://example.org/x")}, rules=[*given]
    )
    return msgspec.structs.replace(alerts, **changes)


def batch_of(state: State, now_ns: int = NOW + H, route: str = "ops") -> Batch | None:
    return state.take_next_batch(route, now_ns, 0, f"b{now_ns}-{route}")


def test_a_finding_is_told_once_however_often_it_is_seen(tmp_path: Path) -> None:
    with State(tmp_path) as state:
        assert evaluate_alert_concerns(state, settings(), [concern()], NOW) == Look(1, 0, 0)
        assert evaluate_alert_concerns(state, settings(), [concern(made_ns=NOW + 1)], NOW + 1).added == 0
        batch = batch_of(state)
        assert batch is not None
        state.mark_sent(batch, NOW)
        assert evaluate_alert_concerns(state, settings(), [concern(made_ns=NOW + 2)], NOW + 100 * H).added == 0
        assert batch_of(state, NOW + 200 * H) is None


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, True),
        ({"rules": ["job.*"]}, True),
        ({"rules": ["component.*"]}, False),
        ({"severity": "critical"}, False),
        ({"layers": ["forwarder"]}, True),
        ({"layers": ["mds"]}, False),
        ({"components": ["fwd?"]}, True),
        ({"users": ["bob"]}, False),
        ({"programs": ["lam*"]}, True),
        ({"jobs": ["4*"]}, True),
        ({"jobs": ["5"]}, False),
        ({"confidence": 0.95}, False),
        ({"cost_s": 300.0}, True),
        ({"cost_s": 301.0}, False),
    ],
)
def test_every_line_of_a_rule_must_fit(changes: dict[str, object], fits: bool) -> None:
    rule = msgspec.structs.replace(AlertRule(name="r", to=["ops"]), **changes)
    assert matches_alert_rule(rule, concern()) is fits


def test_what_is_not_known_fits_no_pattern_and_no_cost() -> None:
    unknown = concern(user=None, program=None, cost_s=None, components=[])
    for changes in ({"users": ["*"]}, {"programs": ["*"]}, {"components": ["*"]}, {"cost_s": 0.1}):
        assert not matches_alert_rule(msgspec.structs.replace(AlertRule(name="r", to=["ops"]), **changes), unknown)
    assert matches_alert_rule(AlertRule(name="r", to=["ops"]), unknown)


def test_hold_off_is_by_component_or_by_user_and_program(tmp_path: Path) -> None:
    with State(tmp_path) as state:
        assert evaluate_alert_concerns(state, settings(), [concern("a"), concern("b", job="43")], NOW) == Look(1, 0, 1)
        assert (
            evaluate_alert_concerns(state, settings(), [concern("c", user="bob", made_ns=NOW + 1)], NOW + 1).added == 1
        )
        assert (
            evaluate_alert_concerns(state, settings(), [concern("d", job="44", made_ns=NOW + 2 * H)], NOW + 2 * H).added
            == 1
        )


def test_an_incident_that_was_held_off_is_told_later_if_it_lasts(tmp_path: Path) -> None:
    with State(tmp_path) as state:
        assert evaluate_alert_concerns(state, settings(), [sick("i1", to_ns=NOW - H // 2)], NOW).added == 1
        assert evaluate_alert_concerns(state, settings(), [sick("i2", since_h=0.1)], NOW + 1) == Look(0, 0, 1)
        assert evaluate_alert_concerns(state, settings(), [], NOW + H + 1).added == 1


def test_escalation_by_duration_and_at_once_for_a_large_job(tmp_path: Path) -> None:
    steps = [Step(after_h=4, severity="high"), Step(after_h=96, severity="critical", to=["boss"])]
    rule = AlertRule(name="r", to=["ops"], wait_h=1.0, escalate=steps, hold_off_s=0)
    young = sick(since_h=0.5, severity="warning")
    assert find_alert_escalation(rule, young, NOW) is None
    assert find_alert_escalation(rule, msgspec.structs.replace(young, nodes=1024), NOW) == 0
    assert find_alert_escalation(rule, msgspec.structs.replace(young, nodes=1023), NOW) is None
    with State(tmp_path) as state:
        told = [
            evaluate_alert_concerns(state, settings(rule), [young] if hour == 0 else [], NOW + hour * H).added
            for hour in (0, 0.25, 0.5, 1, 3.5, 4, 95.5, 96, 200)
        ]
        assert told == [0, 0, 1, 0, 1, 0, 1, 0, 0]
        found = [(one.route, one.level, one.severity) for one in state.list_told("i1")]
        assert found == [("ops", 0, "warning"), ("ops", 1, "high"), ("boss", 2, "critical")]


def test_default_escalation_is_the_published_one() -> None:
    assert [step.after_h for step in AlertRule(name="r", to=["ops"]).escalate] == [96.0]
    assert AlertRule(name="r", to=["ops"]).large_nodes == 1024


def test_what_is_over_is_told_where_its_beginning_was(tmp_path: Path) -> None:
    with State(tmp_path) as state:
        evaluate_alert_concerns(state, settings(), [sick()], NOW)
        done = sick(to_ns=NOW + H, made_ns=NOW + H)
        assert evaluate_alert_concerns(state, settings(), [done], NOW + H).added == 1
        assert evaluate_alert_concerns(state, settings(), [done], NOW + 2 * H).added == 0
        assert [(one.kind, one.route) for one in state.list_told("i1")] == [("firing", "ops"), ("resolved", "ops")]
        batch = batch_of(state)
        assert batch is not None
        assert build_alert_message(batch, settings()).subject == "[fairlead] over: target ost3 is degraded"
        quiet = AlertRule(name="all", to=["ops"], resolved=False)
        evaluate_alert_concerns(state, settings(quiet), [sick("i9", components=["ost9"])], NOW)
        over = sick("i9", components=["ost9"], to_ns=NOW, made_ns=NOW + 5)
        assert evaluate_alert_concerns(state, settings(quiet), [over], NOW + H).added == 0


def test_what_was_withdrawn_is_taken_back_if_told_and_never_told_if_not(tmp_path: Path) -> None:
    with State(tmp_path) as state:
        evaluate_alert_concerns(state, settings(), [concern()], NOW)
        assert (
            evaluate_alert_concerns(state, settings(), [concern(withdrawn=True, made_ns=NOW + 1)], NOW + 1).added == 1
        )
        assert (
            evaluate_alert_concerns(state, settings(), [concern("f2", withdrawn=True, user="bob")], NOW + 1).added == 0
        )


def test_what_was_over_long_ago_is_not_told(tmp_path: Path) -> None:
    """Months that are analysed again are no news."""
    old = [concern("f1", from_ns=NOW - 80 * H, to_ns=NOW - 75 * H), sick("i1", since_h=90, to_ns=NOW - 75 * H)]
    with State(tmp_path) as state:
        assert evaluate_alert_concerns(state, settings(), old, NOW).added == 0
        late = [concern("f2", from_ns=NOW - 80 * H, to_ns=NOW - 71 * H), sick("i2", since_h=5000, components=["x"])]
        assert evaluate_alert_concerns(state, settings(), late, NOW).added == 2
        assert build_digest_of_span(state, settings(), NOW - H, NOW + H)[0] == "[fairlead] digest: 1 new, 1 open"


def test_an_incident_that_began_and_ended_between_two_looks_is_told_once(tmp_path: Path) -> None:
    with State(tmp_path) as state:
        assert evaluate_alert_concerns(state, settings(), [sick(to_ns=NOW - 1)], NOW).added == 1
        assert [one.kind for one in state.list_told("i1")] == ["firing"]


def test_silences_and_acknowledgements(tmp_path: Path) -> None:
    silence = Silence(id="s", match={"component": "ost*"}, until_ns=NOW + 2 * H, who="me", why="x", made_ns=NOW)
    with State(tmp_path) as state:
        with state.change():
            state.silence(silence)
        assert evaluate_alert_concerns(state, settings(), [sick(), concern()], NOW) == Look(1, 1, 0)
        assert evaluate_alert_concerns(state, settings(), [], NOW + H).added == 0
        assert evaluate_alert_concerns(state, settings(), [], NOW + 2 * H).added == 1, (
            "it lasts, and the silence is over"
        )
        with state.change():
            assert state.acknowledge("i1", Acknowledged("me", "disk ordered", NOW))
        assert evaluate_alert_concerns(state, settings(), [], NOW + 200 * H).added == 0, "taken on: no escalation"
        with state.change():
            state.acknowledge("i1", None)
        assert evaluate_alert_concerns(state, settings(), [], NOW + 200 * H).added == 1


@pytest.mark.parametrize("words", [[], ["component"], ["component="], ["colour=red"], ["job=1", "job=2"]])
def test_a_silence_names_what_it_is_of(words: list[str]) -> None:
    with pytest.raises(UsageError):
        parse_silence_match(words)


def test_a_silence_by_a_field_that_is_not_known_holds_nothing(tmp_path: Path) -> None:
    with State(tmp_path) as state:
        with state.change():
            state.silence(Silence(id="s", match={"user": "*"}, until_ns=NOW + H, who="me", why="x", made_ns=NOW))
        assert evaluate_alert_concerns(state, settings(), [sick()], NOW).added == 1


def test_a_storm_of_findings_is_one_message_and_bounded(tmp_path: Path) -> None:
    rule = AlertRule(name="all", to=["ops"], hold_off_s=0)
    alerts = settings(rule, most_waiting=500, most_in_one=5)
    storm = [
        concern(f"f{n}", job=str(n), user=f"u{n}", severity="critical" if n == 7777 else "high") for n in range(10_000)
    ]
    with State(tmp_path) as state:
        assert evaluate_alert_concerns(state, alerts, storm, NOW).added == 10_000
        batch = batch_of(state)
        assert batch is not None
        message = build_alert_message(batch, alerts)
        assert message.subject.startswith("[fairlead] 10000 alerts, first ")
        assert len(message.text) < 10_000
        assert "And 495 more: 495 job.interference" in message.text
        assert "Another 9500 were not sent one by one" in message.text
        state.mark_sent(batch, NOW)
        assert batch_of(state, NOW + 2 * H) is None
        assert evaluate_alert_concerns(state, alerts, storm[:100], NOW + H).added == 0
        state.forget(NOW + H)
        assert state.find_concern("f7") is None or state.list_told("f7") == []


def test_many_in_one_message_worst_first_and_what_is_over_last(tmp_path: Path) -> None:
    alerts = settings(AlertRule(name="all", to=["ops"], hold_off_s=0))
    with State(tmp_path) as state:
        evaluate_alert_concerns(state, alerts, [sick("i1")], NOW)
        evaluate_alert_concerns(
            state,
            alerts,
            [
                sick("i1", to_ns=NOW, made_ns=NOW + 1),
                concern("f1", severity="warning"),
                concern("f2", severity="critical", title="worst"),
            ],
            NOW + 1,
        )
        batch = batch_of(state)
        assert batch is not None
        message = build_alert_message(batch, alerts)
        assert [pair[1].id for pair in message.pairs] == ["f2", "f1", "i1"]
        assert message.subject == "[fairlead] 3 alerts, first critical: worst"
        assert [one["status"] for one in message.build_document(alerts)["alerts"]] == ["firing", "firing", "resolved"]


def test_state_survives_and_is_for_its_owner_only(tmp_path: Path) -> None:
    with State(tmp_path) as state:
        evaluate_alert_concerns(state, settings(), [concern()], NOW)
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    with State(tmp_path) as state:
        assert [one.state for one in state.list_told("f1")] == ["waiting"]
    with pytest.raises(LakeError, match="no alerts were sent"):
        State(tmp_path / "elsewhere", create=False)


def test_a_change_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def failing(state: State) -> None:
        with state.change():
            state.keep([concern()])
            raise RuntimeError("killed here")

    with State(tmp_path) as state:
        with pytest.raises(RuntimeError):
            failing(state)
        assert state.find_concern("f1") is None


def subscription(owner: str = "alice", **changes: str) -> Subscription:
    base = Subscription(id=f"s-{owner}", owner=owner, job="", program="", address=f"{owner}@example.org", made_ns=0)
    return msgspec.structs.replace(base, **changes)


def test_subscribers_are_told_of_their_own_jobs_and_of_nobody_elses(tmp_path: Path) -> None:
    alerts = settings(AlertRule(name="none", to=["boss"], rules=["no.such"]), subscriptions="ops")
    hers = concern(
        title="job 42 slowed by job 99 of mallory",
        evidence=["job 99 of mallory wrote 3 TiB"],
        advice=[Advice(text="Nothing to change."), Advice(text="Hold job 99 of mallory.", audience="site")],
    )
    with State(tmp_path) as state:
        with state.change():
            for one in (subscription(), subscription("bob"), subscription("carol", job="42")):
                assert state.subscribe(one)
        evaluate_alert_concerns(state, alerts, [hers, concern("f2", user=None, job="42"), sick()], NOW)
        assert [one.recipient for one in state.list_notices(10)] == ["alice@example.org"]
        batch = batch_of(state)
        assert batch is not None
        message = build_alert_message(batch, alerts)
        assert "mallory" not in message.subject + message.text
        assert "job 99" not in message.text
        assert "your job 42: other jobs on the same storage slowed it down" in message.subject
        assert "Nothing to change." in message.text
        assert state.unsubscribe("s-bob", "alice") is False


def test_rows_of_the_lake_become_concerns() -> None:
    finding = Finding(
        id="f1",
        rule="job.interference",
        title="t",
        subject=Subject("job", "42"),
        from_ns=NOW,
        to_ns=NOW + 5,
        severity="high",
        confidence=0.9,
        category="n_to_1",
        evidence=[Evidence(text="e")],
        analysis_version="1",
    )
    mirrored = msgspec.structs.replace(finding, id="f2", rule="component.degraded", subject=Subject("target", "ost3"))
    told = [
        StoredFinding(finding=one, job_id="42", user="alice", components=[Subject("forwarder", "f1")])
        for one in (finding, mirrored)
    ]
    import pyarrow as pa

    rows = pa.Table.from_batches([build_finding_rows(told, NOW)])
    found = build_finding_subjects(rows, {})
    assert [(one.id, one.layers, one.components, one.program) for one in found] == [("f1", ["forwarder"], ["f1"], None)]
    incident = Incident(
        id="i1",
        layer="target",
        component="ost3",
        from_ns=NOW,
        to_ns=None,
        kind="dead",
        hint="dead",
        confidence=1.0,
        jobs=["42"],
    )
    (one,) = build_incident_subjects(
        pa.Table.from_batches([build_incident_rows([incident], NOW)]), {}, load_advice_set()
    )
    assert (one.rule, one.severity, one.lasting, one.over, one.nodes) == (
        "component.dead",
        "critical",
        True,
        False,
        None,
    )
    assert {advice.audience for advice in one.advice} == {"user", "site"}
    broken = rows.set_column(rows.schema.get_field_index("detail"), "detail", pa.array(["{", "[]"]))
    assert build_finding_subjects(broken, {}) == []


def test_a_digest_is_of_whole_days_and_sent_once(tmp_path: Path) -> None:
    day = find_digest_span("day", 7, NOW)
    assert day[1] - day[0] == 24 * H
    assert day[1] <= NOW < day[1] + 24 * H
    week = find_digest_span("week", 7, NOW)
    assert week[1] - week[0] == 7 * 24 * H
    assert week[1] % (24 * H) == 7 * H
    alerts = settings(digest=["ops"])
    with State(tmp_path) as state:
        assert enqueue_due_digests(state, alerts, NOW) == 0, "nothing is told of before alerting began"
        with state.change():
            state.keep([concern(made_ns=NOW), sick(since_h=30), concern("f0", withdrawn=True)])
        later = day[1] + 24 * H
        assert enqueue_due_digests(state, alerts, later) == 1
        assert enqueue_due_digests(state, alerts, later + H) == 0
        batch = batch_of(state, later + H)
        assert batch is not None
        message = build_alert_message(batch, alerts)
        assert message.subject == "[fairlead] digest: 1 new, 1 open", "what began before is open, and not new"
        assert "target ost3 is degraded" in message.text
        assert "Time lost by jobs: 0.1 h" in message.text
    with State(tmp_path / "new") as state:
        assert "Nothing was found." in build_digest_of_span(state, alerts, 0, 1)[1]


def test_the_end_is_sent_when_it_is_settled_and_once(tmp_path: Path) -> None:
    """It ends, is sick again, and ends: one message that it began, one that it is over."""
    alerts = settings(settle_s=1800.0)
    over, again = sick(to_ns=NOW + H, made_ns=NOW + H), sick(made_ns=NOW + H + H // 4)
    done = sick(to_ns=NOW + 2 * H, made_ns=NOW + 2 * H)
    steps = [([sick()], NOW), ([over], NOW + H), ([again], NOW + H + H // 4), ([done], NOW + 2 * H), ([], NOW + 2 * H)]
    with State(tmp_path) as state:
        added = [evaluate_alert_concerns(state, alerts, seen, at).added for seen, at in steps]
        assert added == [1, 0, 0, 0, 0]
    with State(tmp_path) as state:
        assert evaluate_alert_concerns(state, alerts, [], NOW + 2 * H + H // 2).added == 1
        assert evaluate_alert_concerns(state, alerts, [], NOW + 3 * H).added == 0
        assert [one.kind for one in state.list_told("i1")] == ["firing", "resolved"]


def test_what_gets_worse_is_sent_once_more(tmp_path: Path) -> None:
    dead = {"severity": "critical", "rule": "component.dead"}
    with State(tmp_path) as state:
        looks = [sick(), sick(made_ns=NOW + 1, **dead), sick(made_ns=NOW + 2), sick(made_ns=NOW + 3, **dead)]
        added = [evaluate_alert_concerns(state, settings(), [one], one.made_ns).added for one in looks]
        assert added == [1, 1, 0, 0]
        batch = batch_of(state)
        assert batch is not None
        assert "worse than reported" in build_alert_message(batch, settings()).text


def test_copies_that_are_merged_send_nothing(tmp_path: Path) -> None:
    """An earlier version sent one message a copy; the incident that remains has been sent then."""
    rule = AlertRule(name="all", to=["ops"], hold_off_s=0.0)
    with State(tmp_path) as state:
        copies = [sick(f"c{n}", since_h=1) for n in range(3)]
        assert evaluate_alert_concerns(state, settings(rule), copies, NOW).added == 3
        batch = batch_of(state)
        assert batch is not None
        state.mark_sent(batch, NOW)
        merged = [msgspec.structs.replace(one, withdrawn=True, made_ns=NOW + 1) for one in copies]
        seen = [sick("i1", made_ns=NOW + 1), *merged]
        assert evaluate_alert_concerns(state, settings(rule), seen, NOW + 1).added == 0
        assert evaluate_alert_concerns(state, settings(rule), [], NOW + H).added == 0
        assert evaluate_alert_concerns(state, settings(rule), [sick(to_ns=NOW + H, made_ns=NOW + H)], NOW + H).added

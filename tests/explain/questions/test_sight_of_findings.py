"""Nobody is told of other people's jobs by findings and incidents: not in texts, not by asking for a guessed number."""

from __future__ import annotations

import msgspec
import pytest

from fairlead.core.model.finding import Evidence, Finding, Subject
from fairlead.core.model.finding_incident_rows import StoredFinding, build_finding_rows, build_incident_rows
from fairlead.core.model.incident import Incident
from fairlead.core.model.tables import PHASE, build_table_batch
from fairlead.explain.analysis.health.health_findings import build_health_findings
from fairlead.explain.questions.lake_queries import Sight, UnknownNameError
from fairlead.explain.questions.question_catalog import Asking, answer_question, parse_question_parameters
from fairlead.store.lake import Lake
from questions_site import NOW, T0, S, accounts, build, put

LATER = {
    "job_id": "55501",
    "user": "dave",
    "project": "secret",
    "program": "zeldovich",
    "nodes": ["n4"],
    "start_ns": T0 + 200 * S,
    "end_ns": None,
    "state": "RUNNING",
}
TWIN = {
    "job_id": "101",
    "user": "alice",
    "project": "climate",
    "program": "wrf",
    "nodes": ["n9"],
    "cluster": "d",
    "start_ns": T0 + 200 * S,
    "end_ns": None,
    "state": "RUNNING",
}
SICK = Incident(
    id="inc000000001",
    layer="target",
    component="OST0",
    from_ns=T0 + 60 * S,
    to_ns=None,
    kind="degraded",
    measured=1.0,
    peak=10.0,
    share_of_peak=0.1,
    hint="one_client",
    confidence=0.9,
    jobs=["101", "55501"],
    evidence=[Evidence(text="eviction: dave's client", metric="event", value="eviction")],
    missing=[],
)
FOUND = StoredFinding(
    finding=Finding(
        id="feedfeedfeed",
        rule="job.interference",
        title="Job 100 lost 60 s to job 55501 and job 999999",
        subject=Subject("job", "100"),
        from_ns=T0 + 120 * S,
        to_ns=None,
        severity="high",
        confidence=0.9,
        category="mixed",
        culprits=[Subject("job", "101")],
        cost_s=60.0,
        analysis_version="1",
        evidence=[Evidence(text="bob's gkua held OST0"), Evidence(text="55501 (dave, zeldovich) was next to job 101.")],
    ),
    cluster="c",
    job_id="100",
    user="alice",
    components=[Subject("target", "OST0")],
)
"""It is not over, and names a job that began later, one without an account, and a number that two clusters use."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = build(tmp_path_factory.mktemp("sight") / "lake")
    sick = build_health_findings([SICK], NOW)
    put(
        made,
        accounts(LATER, TWIN),
        build_incident_rows([SICK], NOW),
        build_finding_rows([*sick, FOUND], NOW),
        stream="more",
    )
    return made


def said(lake: Lake, reader: str, question: str, name: str = "", **words: str) -> str:
    answer = answer_question(
        Asking(lake), question, name, parse_question_parameters(question, words), Sight(reader), NOW
    )
    return msgspec.json.encode(answer).decode()


@pytest.mark.parametrize(
    ("user", "secret"),
    [
        ("alice", ("bob", "gkua", "dave", "zeldovich", "55501", "999999", "101")),
        ("carol", ("alice", "wrf", "bob", "gkua", "dave", "zeldovich", "55501", "101")),
    ],
)
def test_no_text_names_another_job(lake: Lake, user: str, secret: tuple[str, ...]) -> None:
    everything = said(lake, "", "findings", last="1h")
    assert "55501" in everything
    assert "dave's client" in everything
    [sick] = build_health_findings([SICK], NOW)
    texts = [said(lake, user, "findings", last="1h")]
    if user == "carol":
        for question, name, words in (
            ("component_health", "", {"component": "OST0"}),
            ("finding", sick.finding.id, {}),
        ):
            with pytest.raises(UnknownNameError):
                said(lake, user, question, name, **words)
    else:
        texts += [
            said(lake, user, "component_health", component="OST0", last="1h"),
            said(lake, user, "finding", sick.finding.id),
        ]
    texts += [said(lake, user, "finding", "feedfeedfeed"), said(lake, user, "why", "100")] if user == "alice" else []
    for text in texts:
        assert not [word for word in secret if f"{word}" in text]
    assert "Job 100 lost 60 s to another job and another job" in said(lake, "alice", "findings", last="1h")


def test_a_guessed_culprit_is_not_confirmed(lake: Lake) -> None:
    assert '"total":2' in said(lake, "", "findings", job="101", last="1h")
    for guess in ("101", "55501", "999999"):
        assert '"total":0' in said(lake, "alice", "findings", job=guess, last="1h")
    assert '"total":2' in said(lake, "alice", "findings", job="100", last="1h")


def test_no_finding_is_no_good_news_where_nothing_of_the_readers_was_judged(lake: Lake) -> None:
    """Phases of others say nothing about hers, nor about a job that left none."""
    judged = build_table_batch(
        PHASE,
        {
            "cluster": ["c"],
            "job_id": ["100"],
            "number": [0],
            "kind": ["write"],
            "start_ns": [T0],
            "end_ns": [T0 + S],
            "active_ns": [S],
            "user": ["alice"],
            "expected_s": [1.0],
            "made_ns": [NOW],
            "analysis_version": [1],
        },
    )
    put(lake, judged, stream="judged")
    assert '"missing":[]' in said(lake, "", "findings", last="1h", rule="none")
    assert '"missing":[]' in said(lake, "alice", "findings", last="1h", rule="none")
    for user, words in (("carol", {"rule": "none"}), ("", {"user": "bob"}), ("", {"job": "4711"})):
        assert '"missing":["phases' in said(lake, user, "findings", last="1h", **words)

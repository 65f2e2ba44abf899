"""One node whose counters say impossible numbers, names and times: every question is still answered, for everyone."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fairlead.core.batches.encoding import Header, encode_batch, encode_numbers, encode_same_word, encode_words
from fairlead.core.model.finding import Advice, Evidence, Finding, Subject
from fairlead.core.model.finding_incident_rows import StoredFinding, build_finding_rows, build_incident_rows
from fairlead.core.model.incident import Incident
from fairlead.core.safe_text import escape_text
from fairlead.explain.questions.lake_queries import NotForYouError, Sight, UnknownNameError
from fairlead.explain.questions.question_catalog import QUESTIONS, Asking, answer_question, parse_question_parameters
from fairlead.see.collector.batch_checks import check_batches
from fairlead.store.lake import Lake
from fairlead.store.rollups import derive_rollups
from fairlead.store.writer import Writer

S = 10**9
NOW = 1_760_000_000 * S
MOST = (1 << 63) - 1
TIMES = encode_numbers([NOW - 3 * S, NOW - 2 * S, NOW - S])
EVIL = "t\x1b]0;owned\x07\x1b[2J\r\n" + "x" * 200


def many(value: int) -> Any:
    return encode_numbers([value] * 3)


ROWS: dict[str, dict[str, Any]] = {
    "target": {
        "target": encode_same_word(EVIL, 3),
        "interval_ns": many(S),
        "read_bytes": many(MOST),
        "write_bytes": many(-MOST),
    },
    "pfs_client": {
        "node": encode_same_word("n1", 3),
        "interval_ns": many(MOST),
        "read_bytes": many(MOST),
        "write_bytes": many(MOST),
    },
    "metadata": {
        "server": encode_same_word("mds1", 3),
        "op": encode_same_word("open", 3),
        "count": many(MOST),
        "interval_ns": many(S),
    },
    "forwarder": {
        "node": encode_same_word("f1", 3),
        "op_class": encode_same_word("write", 3),
        "requests": many(MOST),
        "bytes": many(MOST),
        "interval_ns": many(S),
    },
    "port": {
        "switch": encode_same_word("s", 3),
        "port": encode_same_word("p", 3),
        "tx_bytes": many(MOST),
        "rx_bytes": many(-MOST),
        "interval_ns": many(S),
    },
    "device": {
        "node": encode_same_word("n1", 3),
        "device": encode_same_word("d", 3),
        "read_bytes": many(MOST),
        "used_bytes": many(MOST),
        "interval_ns": many(S),
    },
    "events": {
        "end_ns": encode_numbers([MOST, -MOST, 0]),
        "component": encode_same_word("n1", 3),
        "kind": encode_same_word("gap", 3),
        "text": encode_same_word(EVIL, 3),
    },
    "health": {
        "node": encode_same_word("n1", 3),
        "probe": encode_same_word("agent", 3),
        "state": encode_same_word("ok", 3),
        "interval_ns": many(MOST),
        "clock_offset_ns": many(-MOST),
        "unknown_lines": many(MOST),
        "text": encode_same_word(EVIL, 3),
    },
}


def batch(table: str, columns: dict[str, Any], time: str = "ts_ns") -> bytes:
    header = Header(table, 1, "n1", "b", 1, 3, "agent", "agent", NOW - 3 * S, NOW)
    return encode_batch(header, {time: TIMES, **columns})


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake.open(tmp_path_factory.mktemp("hostile") / "lake", create=True)
    bodies = [batch(table, columns) for table, columns in ROWS.items()]
    ends = {
        "job_id": encode_words(["1", "2", "3"]),
        "user": encode_same_word(EVIL, 3),
        "end_ns": encode_numbers([MOST, -MOST, NOW]),
    }
    bodies.append(batch("jobs", ends, "start_ns"))
    with Writer(lake.place, "main", now_ns=lambda: NOW, derive=derive_rollups) as writer:
        for body in bodies:
            assert writer.take_batches(body, check_batches(body, raw_bytes=1 << 28, node="")) == (1, 0)
        writer.flush()
        assert writer.underived_rows == 0
    who, at = Subject("job", EVIL), Subject("target", EVIL)
    told = StoredFinding(
        finding=Finding(
            id="f00d",
            rule="job.interference",
            title=EVIL,
            subject=who,
            from_ns=NOW - 3 * S,
            to_ns=MOST,
            severity="high",
            confidence=0.9,
            category=EVIL,
            culprits=[who, at],
            cost_s=1e308,
            evidence=[Evidence(text=EVIL, value=-MOST)],
            missing=[EVIL],
            advice=[Advice(text=EVIL, code=EVIL)],
            analysis_version="1",
        ),
        job_id="1",
        user="alice",
        components=[at],
    )
    sick = Incident(
        id="1",
        layer="target",
        component=EVIL,
        from_ns=-MOST,
        to_ns=None,
        kind="dead",
        confidence=1.0,
        jobs=[EVIL],
        evidence=[Evidence(text=EVIL, metric="event", value=EVIL)],
    )
    with lake.open_writer("analysis") as made:
        rows = made.open_batch("told")
        rows.add(build_finding_rows([told], NOW))
        rows.add(build_incident_rows([sick], NOW))
        rows.commit()
    return lake


NAMES = {
    "job": ["1", "2", "3"],
    "node": ["n1"],
    "target": [EVIL],
    "forwarder": ["f1"],
    "top": ["users", "jobs"],
    "mds": ["mds1", ""],
    "why": ["1", "2", "3"],
    "finding": ["f00d"],
    "job_timeline": ["1", "2", "3"],
    "job_ranks": ["1", "2", "3"],
    "job_files": ["1"],
    "job_requests": ["1"],
    "job_efficiency": ["1"],
    "layer_cdf": ["target"],
    "layer": ["forwarder", "target", "mds", "network", "device"],
    "layer_hours": ["target", "network"],
    "layer_waits": ["forwarder"],
    "layer_component": ["target"],
}
WORDS = {"layer_component": {"id": EVIL}}


@pytest.mark.parametrize("question", list(QUESTIONS))
@pytest.mark.parametrize("user", ["", "alice", EVIL], ids=["everybody", "alice", "owner"])
def test_every_question_is_answered_and_its_answer_can_be_told(lake: Lake, question: str, user: str) -> None:
    """Who sees only some jobs may be refused, or told that there is no such thing (tests of rights say when)."""
    for name in NAMES.get(question, [""]):
        try:
            answer = answer_question(
                Asking(lake),
                question,
                name,
                parse_question_parameters(question, WORDS.get(question, {})),
                Sight(user),
                NOW,
            )
        except (NotForYouError, UnknownNameError):
            assert user
            continue
        told = msgspec.json.encode(answer)
        assert isinstance(json.loads(told), dict)
        assert not any(byte < 0x20 or byte == 0x7F for byte in told), "no control character leaves as it is"


def test_the_terminal_shows_names_inert(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    from fairlead.cli.main import main

    span = ["--from", "2025-10-09T08:00:00", "--to", "2025-10-09T09:00:00"]
    for asked in (["system", "show"], ["node", "show", "n1"], ["job", "list"]):
        code = main([*asked, *span, "--lake", str(lake.place.root)])
        shown = capsys.readouterr()
        assert code == 0, shown.err
        assert "\x1b]0" not in shown.out + shown.err
        assert "\x07" not in shown.out + shown.err
    assert escape_text(EVIL).isprintable()

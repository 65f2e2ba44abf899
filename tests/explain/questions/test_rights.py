"""Rights by trying: every question by everybody about everything, in a lake of people who may not see each other.

What others do is told neither in words nor in figures: without it every answer is the same to the byte.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from fairlead.explain.questions.lake_queries import NotForYouError, Run, Sight, UnknownNameError
from fairlead.explain.questions.question import Asking
from fairlead.explain.questions.question_catalog import QUESTIONS, answer_question, parse_question_parameters
from fairlead.explain.questions.visible_lake import DECISIONS, MACHINE, RUN
from questions_site import T0, S
from rights_site import NOW, Other, others, site

ALICE, DANA, NOBODY = Sight("alice"), Sight("dana", ("climate",)), Sight("nobody")
LINK = Sight(only=Run("c", "100", T0 + 61 * S))
RESTRICTED = {"alice": ALICE, "dana": DANA, "link": LINK, "nobody": NOBODY}
BOBS = (
    Other("101", 30, 700),
    Other("102", 510, 800, ["n1", "n4"], "f1", "OST0", "MDT0", user="eve", project="eves"),
    Other("103", 0, 50, ["n2"], "f1", "OST0", "MDT0"),
    Other("100", -9 * 3600, -9 * 3600 + 90, cluster="d", told=False),
)
"""At the same time elsewhere; on her node, forwarder and targets after and before her; with a number of hers."""
SECRETS = (
    "bob",
    "eve",
    "fusion",
    "eves",
    "gkua",
    "secret",
    "101",
    "103",
    "n3",
    "n4",
    "f2",
    "OST2",
    "MDT2",
    "oss2",
    "mds2",
    "7919",
    "4711",
)
MORE = {
    "alice": ("icon", "dana", "200", "n6"),
    "link": ("icon", "dana", "200", "n6", "300", "90"),
    "nobody": ("alice", "dana", "wrf", "climate", "OST0", "f1"),
}
ABOUT = {
    "job": ["100", "101", "102", "200"],
    "job_timeline": ["100", "101"],
    "job_ranks": ["100", "101"],
    "job_files": ["100", "101", "200"],
    "job_requests": ["100", "101"],
    "job_efficiency": ["100", "101"],
    "why": ["100", "101", "102"],
    "finding": ["f00000000100", "f00000000101", "f0"],
    "node": ["n1", "n3", "oss1", "n9"],
    "target": ["OST0", "OST2", "OST9"],
    "forwarder": ["f1", "f2", "f9"],
    "mds": ["", "MDT0", "MDT2"],
    "top": ["jobs", "users", "projects", "programs"],
    "layer": ["forwarder", "target", "mds", "network", "device"],
    "layer_hours": ["forwarder", "target"],
    "layer_cdf": ["target"],
    "layer_waits": ["forwarder"],
    "layer_component": ["target", "network", "device"],
}
WORDS: dict[str, list[dict[str, str]]] = {
    "jobs": [{}, {"user": "bob"}, {"project": "fusion"}, {"node": "n1"}, {"sort": "bytes"}, {"offset": "1"}],
    "findings": [{}, {"job": "101"}, {"component": "OST0"}, {"component": "OST2"}, {"user": "bob"}],
    "component_health": [{"all": "true"}, {"component": "OST0"}, {"component": "OST2"}],
    "layer_component": [{"id": "OST0"}, {"id": "OST2"}, {"id": "sw/n1"}, {"id": "sw/n3"}, {"id": "n1/sda"}],
    "devices": [{}, {"node": "n1"}, {"node": "n3"}],
    "behaviour": [{}, {"user": "bob"}, {"program": "gkua"}],
    "usage": [{}, {"target": "OST0"}, {"target": "OST2"}, {"kind": "user"}],
    "mine": [{}, {"user": "bob"}],
}
SPANS: list[dict[str, str]] = [{}, {"last": "20m"}, {"last": "3d"}]


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Asking, Asking]:
    """The site with and without what others do."""
    return made(tmp_path_factory.mktemp("rights"), BOBS)


def made(root: Path, jobs: tuple[Other, ...]) -> tuple[Asking, Asking]:
    full, bare = site(root / "full"), site(root / "bare")
    others(full, jobs)
    return Asking(full), Asking(bare)


def tried(asking: Asking, sight: Sight, question: str, name: str, words: dict[str, str]) -> tuple[str, str]:
    """How a question was met (an error's name) and everything it told."""
    try:
        answer = answer_question(asking, question, name, parse_question_parameters(question, words), sight, NOW)
    except UnknownNameError as unknown:
        return "unknown", f"{unknown} {unknown.near}"
    except NotForYouError as refused:
        return "refused", f"{refused.what} {refused.remedy}"
    return "told", msgspec.json.encode(answer).decode()


def cases(question: str) -> list[tuple[str, dict[str, str]]]:
    takes = "last" in {field.encode_name for field in msgspec.structs.fields(QUESTIONS[question].asked)}
    made = []
    for name in ABOUT.get(question, [""]):
        for place, words in enumerate(WORDS.get(question, [{}])):
            spans = SPANS if takes and place == 0 else [SPANS[-1]] if takes else [{}]
            made += [(name, {**words, **span}) for span in spans]
    return made


def _named(word: str, text: str) -> bool:
    """Whether a text has a word; of a number, only as a name: figures may be what they like."""
    before = r'(?:"|[Jj]obs? )' if word.isdigit() else r"(?<![\w.])"
    return re.search(rf"{before}{word}(?![\w.])", text) is not None


def test_every_question_has_a_decision() -> None:
    """Who adds one says who may ask it, here and in docs/explanation/who-sees-what.md."""
    assert set(DECISIONS) == set(QUESTIONS)
    told = (Path(__file__).parents[3] / "docs/explanation/who-sees-what.md").read_text()
    assert [name for name in QUESTIONS if f"`{name}`" not in told] == []


@pytest.mark.parametrize("question", sorted(QUESTIONS))
def test_nobody_is_told_of_others(lakes: tuple[Asking, Asking], question: str) -> None:
    full, bare = lakes
    for who, sight in RESTRICTED.items():
        for name, words in cases(question) if who == "alice" else cases(question)[::3]:
            met, told = tried(full, sight, question, name, words)
            place = f"{question} {name} {words} as {who}"
            asked_for = re.escape(name), *(re.escape(value) for value in words.values())
            text = re.sub("|".join(f"'{one}'" for one in asked_for if one), "", told)
            text = re.sub(
                "|".join(rf'"(user|project|program|node|component|target|id)":"{one}"' for one in asked_for if one),
                "",
                text,
            )
            leaked = [word for word in (*SECRETS, *MORE.get(who, ())) if _named(word, text)]
            assert not leaked, f"{place}: {leaked} in {text[:2000]}"
            assert (met, told) == tried(bare, sight, question, name, words), place
            allowed = DECISIONS[question] == RUN or (DECISIONS[question] != MACHINE and who != "link")
            assert allowed or met == "refused", place


def test_hers_is_told(lakes: tuple[Asking, Asking]) -> None:
    full, _ = lakes
    for question, name, words in (
        ("job", "100", {}),
        ("why", "100", {}),
        ("job_files", "100", {}),
        ("node", "n1", {"last": "15m"}),
        ("target", "OST0", {"last": "15m"}),
        ("forwarder", "f1", {"last": "15m"}),
        ("finding", "f00000000100", {}),
        ("layer_component", "network", {"id": "sw/n1", "last": "15m"}),
    ):
        met, told = tried(full, ALICE, question, name, words)
        assert met == "told", question
        assert question != "job_files" or "/scratch/alice/run.nc" in told
    met, told = tried(full, DANA, "jobs", "", {"last": "1h"})
    assert ('"100"' in told, '"200"' in told, '"300"' in told) == (True, True, False)
    assert '"another job"' not in tried(full, DANA, "finding", "f00000000100", {})[1]
    assert "another job" in tried(full, ALICE, "finding", "f00000000100", {})[1]
    for question in (name for name, decision in DECISIONS.items() if decision == RUN):
        about = "f00000000100" if question == "finding" else "100"
        assert tried(full, LINK, question, about, {})[0] == "told", question
        if question != "finding":
            assert tried(full, LINK, question, "300", {})[0] == "refused", question


def test_support_sees_everything(lakes: tuple[Asking, Asking]) -> None:
    full, _ = lakes
    for question in ("system", "now", "cdf", "health", "volumes"):
        assert tried(full, Sight(), question, "", {})[0] == "told"
    assert '"101"' in tried(full, Sight(), "jobs", "", {"last": "1h"})[1]


def test_what_is_seen_of_a_shared_component_ends_with_the_job(lakes: tuple[Asking, Asking]) -> None:
    """Eve's bytes on the same target a second later are in no sum and no line of hers, her mate's meanwhile are."""
    full, _ = lakes
    page = msgspec.json.decode(tried(full, ALICE, "target", "OST0", {"last": "15m"})[1])
    [series] = page["timeline"]["series"]
    rates = series["write_bytes_per_s"]
    first = (page["timeline"]["from_ns"] - T0) // S
    step = page["timeline"]["step_ns"] // S
    at = lambda second: rates[(second - first) // step]  # noqa: E731
    assert at(100) == 2 * 2 * 2**20
    assert at(300) == (2 * 2 + 3) * 2**20
    assert [at(second) for second in (20, 55, 380, 600, 700)] == [None] * 5
    assert page["row"]["sums"]["write_bytes"] == (300 * 4 + 121 * 3 + 80 + 60 * 3) * 2**20


def test_a_number_that_is_anothers_meanwhile_shows_no_counters(tmp_path: Path) -> None:
    full, _ = made(tmp_path, (Other("100", 200, 300, cluster="d"),))
    page = msgspec.json.decode(tried(full, ALICE, "job", "100", {})[1])
    assert "cannot be told apart" in page["missing"][0]
    assert (page["timeline"]["series"], page["job"]["sums"]["write_bytes"], page["other_runs"]) == ([], None, 0)
    for question, name in (("job_timeline", "100"), ("job_ranks", "100"), ("job_files", "100"), ("forwarder", "f1")):
        assert "7919" not in tried(full, ALICE, question, name, {})[1]


def test_an_hour_that_lies_partly_in_a_job_is_made_of_its_seconds(lakes: tuple[Asking, Asking]) -> None:
    full, _ = lakes
    for last in ("15m", "5h", "3d"):
        page = msgspec.json.decode(tried(full, NOBODY, "jobs", "", {"last": last})[1])
        assert page["total"] == 0
        rows = msgspec.json.decode(tried(full, ALICE, "targets", "", {"last": last})[1])["targets"]
        hers = (300 * 4 + 121 * 3 + 80 + 60 * 3) * 2**20 + (0 if last == "15m" else 2 * 200 * 2**20)
        assert [(row["id"], row["sums"]["write_bytes"]) for row in rows] == [("OST0", hers)]

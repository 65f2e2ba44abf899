"""`fairlead job behaviour`: figures of a lake, rights, names nobody has, pages that stay harmless, an empty lake."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fairlead.cli.main import main
from fairlead.core.model.tables import FINDING, JOB_SUMMARY, PHASE, build_table_batch
from fairlead.explain.questions.answers_behaviour import Behaviour
from fairlead.explain.questions.behaviour import MOST_POINTS, describe_behaviour
from fairlead.explain.questions.lake_queries import Sight, UnknownNameError
from fairlead.explain.questions.question_catalog import Asking, answer_question, parse_question_parameters
from fairlead.explain.questions.span import Span
from fairlead.show.report.diagnosis.behaviour_page import build_behaviour_page
from fairlead.store.lake import Lake
from questions_site import DAY, NOW, T0, S, build, columns, put

GIB = 1 << 30
SPAN = Span(T0, T0 + DAY)
AT = ["--from", "2024-10-04T10:00", "--to", "2024-10-05T10:00"]
BAD = "</svg><script>alert(1)</script>\"'&\x1b[2J\n‮"
ALL = Sight()


def summary(job: str, user: str, *, start: int = 0, size: int = GIB, **more: object) -> dict[str, object]:
    return {
        "cluster": "c",
        "job_id": job,
        "start_ns": T0 + start * S,
        "end_ns": T0 + (start + 600) * S,
        "user": user,
        "program": f"prog of {user}",
        "processes": 64,
        "cores": 64,
        "nodes_count": 4,
        "write_bytes": size,
        "write_ops": size >> 20,
        "write_mode": "N-N",
        "iops": 100.0,
        "write_bandwidth_bytes_per_s": 100.0 * (1 << 20),
        "made_ns": NOW,
        "analysis_version": 1,
    } | more


ROWS = [
    summary("1", "ada"),
    summary("2", "ada", start=60, write_mode="N-1"),
    summary("3", "ben", size=3 * GIB),
    summary("3", "ben", size=1, made_ns=NOW - 1),
    summary("4", "cho", size=1000, program=None),
    summary("5", "ada", start=-3600),
    summary("6", BAD, program=BAD),
]


def finding(name: str, job: str, cause: str) -> dict[str, object]:
    return {
        "id": name,
        "rule": "job.interference",
        "title": "t",
        "subject_kind": "job",
        "subject_id": job,
        "job_id": job,
        "from_ns": T0 + S,
        "severity": "high",
        "confidence": 0.9,
        "category": cause,
        "cost_s": 30.0,
        "detail": "{}",
        "made_ns": NOW,
        "analysis_version": 1,
    }


def phase(job: str) -> dict[str, object]:
    return {
        "job_id": job,
        "number": 0,
        "kind": "write",
        "start_ns": T0 + S,
        "end_ns": T0 + 9 * S,
        "active_ns": 8 * S,
        "expected_s": 8.0,
        "made_ns": NOW,
        "analysis_version": 1,
    }


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("behaviour") / "lake"
    lake = Lake.open(root, create=True)
    put(
        lake,
        build_table_batch(JOB_SUMMARY, columns(ROWS)),
        build_table_batch(FINDING, columns([finding("f", "1", "n_to_one")])),
        build_table_batch(PHASE, columns([phase("1"), phase("3")])),
    )
    return root


def look(root: Path, sight: Sight = ALL, **asked: object) -> Behaviour:
    words = {"from": str(SPAN.from_ns), "to": str(SPAN.to_ns)} | {key: str(value) for key, value in asked.items()}
    return answer_question(
        Asking(Lake.open(root)), "behaviour", "", parse_question_parameters("behaviour", words), sight, NOW + DAY
    )  # type: ignore[return-value]


def test_the_figures_are_those_of_jobs_that_began_in_the_span(root: Path) -> None:
    found = look(root)
    assert (found.jobs, found.known, found.nontrivial) == (5, 5, 4)
    assert found.write_bytes == 6 * GIB + 1000
    assert {one.mode: one.jobs for one in found.modes} == {"N-N": 3, "N-M": 0, "N-1": 1, "1-1": 0}
    assert [(one.name, one.jobs, one.trend) for one in found.users][:2] == [("ben", 1, None), ("ada", 2, 2.0)]
    assert found.points_of == len(found.points) == 4
    assert [(one.cause, one.jobs, one.share) for one in found.causes] == [("n_to_one", 1, 0.25), ("all", 1, 0.25)]
    assert not found.hidden


def test_one_user_and_one_program(root: Path) -> None:
    found = look(root, user="ada")
    assert (found.jobs, found.user) == (2, "ada")
    assert [one.job_id for one in found.runs] == ["1", "2"]
    assert found.layers == []
    assert look(root, program="prog of ben").jobs == 1
    assert look(root, user="ada", program="prog of ben").jobs == 0


def test_what_was_not_judged_is_not_said_to_be_normal(root: Path) -> None:
    found = look(root, user="cho")
    assert found.causes == []
    assert "abnormal jobs: no phase was assessed in this time" in found.missing


def test_a_reader_sees_their_own_jobs_only(root: Path) -> None:
    found = look(root, Sight("ben"))
    assert (found.jobs, found.hidden) == (1, True)
    assert [one.name for one in found.users] == ["ben"]
    assert {one.user for one in found.points} == {"ben"}
    for other in ({"user": "ada"}, {"program": "prog of ada"}):
        with pytest.raises(UnknownNameError) as refused:
            look(root, Sight("ben"), **other)
        assert "ada" not in "".join(refused.value.near)


def test_a_name_nobody_has_is_told_with_names_like_it(root: Path) -> None:
    with pytest.raises(UnknownNameError) as unknown:
        look(root, user="adda")
    assert unknown.value.near == ["ada"]


def test_many_points_are_thinned_and_counted(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    put(lake, build_table_batch(JOB_SUMMARY, columns([summary(str(k), "ada") for k in range(MOST_POINTS + 500)])))
    found = describe_behaviour(lake, SPAN, ALL, NOW + DAY)
    assert found.points_of == MOST_POINTS + 500
    assert MOST_POINTS / 2 <= len(found.points) <= MOST_POINTS


def test_an_empty_lake_knows_nothing_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Lake.open(tmp_path / "lake", create=True)
    found = look(tmp_path / "lake")
    assert (found.jobs, found.nontrivial_share, found.write_bytes, found.targets, found.forwarders) == (
        0,
        None,
        None,
        None,
        None,
    )
    assert "summaries: none for jobs that began in this time" in found.missing
    assert main(["job", "behaviour", "--lake", str(tmp_path / "lake")]) == 0
    assert "of no job is it known what it moved" in capsys.readouterr().out
    assert "Not known" in build_behaviour_page(found)


def test_the_machine_is_told_of_where_nobody_is_singled_out(tmp_path: Path) -> None:
    build(tmp_path / "lake")
    asking = Asking(Lake.open(tmp_path / "lake"), peaks={"mds": 1e9})
    found = answer_question(asking, "behaviour", "", parse_question_parameters("behaviour", {"last": "1h"}), ALL, NOW)
    assert isinstance(found, Behaviour)
    assert {one.layer for one in found.layers} >= {"target", "forwarder"}
    assert found.targets is not None
    assert found.forwarders is not None
    assert found.metadata_above_75_percent == 0.0
    page = build_behaviour_page(found)
    assert "Forwarders by hour" in page
    assert "How busy targets are" in page


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_the_page_is_whole_and_harmless(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "page.html"
    assert main(["job", "behaviour", "--lake", str(root), *AT, "--html", str(file)]) == 0
    capsys.readouterr()
    page = file.read_text("utf-8")
    tags = Tags(page).seen
    assert not [tag for tag, _ in tags if tag in ("script", "link", "iframe", "img", "object")]
    assert not [name for _, names in tags for name in names if name.startswith("on") or name in ("src", "style")]
    assert len([tag for tag, _ in tags if tag == "svg"]) >= 2
    ids = [names["id"] for _, names in tags if "id" in names]
    assert len(ids) == len(set(ids))
    assert not re.search("[\x1b‮]", page)
    assert "&lt;script&gt;" in page


def test_the_terminal_is_safe_from_names(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "behaviour", "--lake", str(root), *AT]) == 0
    out = capsys.readouterr().out
    assert not re.search("[\x1b‮]", out)
    assert "5 jobs" in out


def test_json_has_a_schema(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "behaviour", "--lake", str(root), *AT, "--json", "--user", "ada"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "fairlead.behaviour/1"
    assert told["jobs"] == 2

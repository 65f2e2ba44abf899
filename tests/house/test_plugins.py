"""Plug-ins installed for real: the examples work by one registration, and a faulty one ends nothing but itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fairlead import plugins
from fairlead.cli.main import COMMANDS
from fairlead.core.errors import PluginError, SourceDefectError
from fairlead.core.extensions import KINDS, find_extensions
from fairlead.core.model.tables import TABLES, build_table_batch
from fairlead.decide.policies.allocation.contract import Applications, Running, build_allocation_pool
from fairlead.decide.registered_policies import find_registered_policy, list_registered_policies
from fairlead.explain.questions.lake_queries import NotForYouError, Sight
from fairlead.explain.questions.question import Asking
from fairlead.explain.questions.question_catalog import (
    QUESTIONS,
    answer_question,
    list_questions,
    parse_question_parameters,
)
from fairlead.explain.rules.rule_set import load_rule_set
from fairlead.run.doctor import plugins as doctor_plugins
from fairlead.run.doctor.machine import Machine
from fairlead.see.agent.probe_names import make_named_probes
from fairlead.see.agent.probe_thread import FAILING, OK, run_probe_in_thread
from fairlead.see.agent.settings import ProbeSettings, SettingError
from fairlead.see.ingest import find_ingest_traces, ingest_jobs
from fairlead.see.sources import inputs
from fairlead.show.web.identity import RefusedError
from fairlead.show.web.site_pages import MAX_ROWS, Page, Table, Text, draw_site_page, load_site_pages, render_site_page
from fairlead.store.lake import Lake
from installed_plugins import EXAMPLES, install_example, install_text, on_path

ROOT = Path(__file__).resolve().parents[2]
SCRATCH = "# scratch 1\n1760000000 fs-OST0000 1000 400\n1760000000 fs-OST0001 1000 100\n"
BROKEN_SOURCE = """
class Broken:
    name = "broken"
    def accepts(self, head, path):
        return head.startswith(b"BROKEN") and {accepts}
    def read(self, path):
        {read}
"""


@pytest.fixture
def installed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder on the path; what the test's `request.param` names is installed in it."""
    folder = tmp_path / "installed"
    folder.mkdir()
    if getattr(request, "param", None):
        install_example(folder, request.param)
    with on_path(folder):
        yield folder


def _install(folder: Path, group: str, entry: str, attribute: str, text: str) -> None:
    install_text(folder, group, entry, attribute, text)


@pytest.mark.parametrize("kind", sorted(path.name for path in EXAMPLES.iterdir()))
def test_an_example_is_under_thirty_lines_and_one_registration(kind: str) -> None:
    project = (EXAMPLES / kind / "pyproject.toml").read_text(encoding="utf-8")
    assert project.count("[project.entry-points.") == 1
    assert len([line for line in project.partition("[project.entry-points.")[2].splitlines()[1:] if line]) == 1
    parts = [p for p in (EXAMPLES / kind).rglob("*") if p.suffix in (".py", ".toml") and p.name != "pyproject.toml"]
    assert sum(len(part.read_text(encoding="utf-8").splitlines()) for part in parts) < 30


def test_the_page_shows_the_examples_as_they_are() -> None:
    page = (ROOT / "docs" / "howto" / "write-a-plug-in.md").read_text(encoding="utf-8")
    shown = [*EXAMPLES.glob("*/*.py"), *EXAMPLES.glob("rule/*/*.toml"), EXAMPLES / "source" / "pyproject.toml"]
    assert len(shown) == 7
    assert [path.name for path in shown if path.read_text(encoding="utf-8").rstrip() not in page] == []


def test_every_name_of_the_one_import_is_there_and_has_its_line() -> None:
    page = (ROOT / "docs" / "reference" / "plugins.md").read_text(encoding="utf-8")
    assert set(plugins.__all__) == set(plugins._PLACES)
    for name in plugins.__all__:
        assert getattr(plugins, name) is not None
        assert f"| `{name}` |" in page
    with pytest.raises(AttributeError, match="Nothing"):
        plugins.Nothing  # noqa: B018
    (block,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(compile(block, "plugins.md", "exec"), {})  # noqa: S102 (the example of the page)


def test_the_one_import_loads_nothing() -> None:
    heavy = "('numpy', 'pyarrow', 'msgspec', 'starlette')"
    program = f"import sys, fairlead.plugins; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Sources


@pytest.mark.parametrize("installed", ["source"], indirect=True)
def test_the_example_source_feeds_a_lake(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(SCRATCH, encoding="utf-8")
    jobs, failed = find_ingest_traces([tmp_path / "a.txt"])
    assert not failed
    lake = Lake.open(tmp_path / "lake", create=True)
    with lake.open_writer() as writer:
        (outcome,) = ingest_jobs(writer, jobs)
    assert (outcome.source, outcome.state, outcome.rows) == ("scratch", "added", {"target": 2})


FAULTS = {
    "it raises": "raise TypeError('no such thing')",
    "it yields what is no item": "yield {'rows': 1}",
    "it yields rows of no table": "import pyarrow as pa; yield pa.record_batch({'x': [1]})",
    "it fails half-way": "from fairlead.plugins import Missing; yield Missing(kind='x', what='x', why='x'); 1 / 0",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_source_ends_its_file_not_the_run(installed: Path, tmp_path: Path, fault: str) -> None:
    _install(
        installed, "fairlead.sources", "broken", "Broken", BROKEN_SOURCE.format(accepts="True", read=FAULTS[fault])
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"BROKEN")
    good = ROOT / "examples" / "logs" / "small_512b_nn_4.darshan"
    jobs, _ = find_ingest_traces([tmp_path / "in" / "a", good])
    lake = Lake.open(tmp_path / "lake", create=True)
    with lake.open_writer() as writer:
        outcomes = {outcome.source: outcome for outcome in ingest_jobs(writer, jobs)}
    assert outcomes["darshan"].state == "added"
    error = outcomes["broken"].error
    assert outcomes["broken"].state == "failed"
    assert isinstance(error, SourceDefectError)
    assert error.where == str(tmp_path / "in" / "a")
    assert "error in the source 'broken' (package site-broken 1.0): " in error.what
    assert error.what.endswith("the file is left out")
    failures: list[inputs.Failure] = []
    for job in jobs:
        list(inputs.read_job_inputs(job, failures))
    assert [failure.path.name for failure in failures] == ["a"]


def test_a_source_that_cannot_look_at_a_file_spoils_no_other_source(installed: Path, tmp_path: Path) -> None:
    _install(installed, "fairlead.sources", "broken", "Broken", BROKEN_SOURCE.format(accepts="1 / 0", read="yield"))
    (tmp_path / "a").write_bytes(b"BROKEN")
    good = ROOT / "examples" / "logs" / "small_512b_nn_4.darshan"
    files, failures = inputs.discover_input_files([tmp_path / "a", good])
    assert [file.path for file in files] == [good]
    assert "ZeroDivisionError" in str(failures[0].error)


def test_a_source_that_cannot_be_imported_is_named_once(installed: Path, tmp_path: Path) -> None:
    _install(installed, "fairlead.sources", "broken", "Broken", "import no_such_module_at_all\n")
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / name).write_bytes(b"what is this")
    shutil_log = ROOT / "examples" / "logs" / "small_512b_nn_4.darshan"
    (tmp_path / "in" / "c.darshan").write_bytes(shutil_log.read_bytes())
    files, failures = inputs.discover_input_files([tmp_path / "in"])
    assert [file.path.name for file in files] == ["c.darshan"]
    assert len(failures) == 1
    assert "ModuleNotFoundError" in str(failures[0].error)


def test_the_command_ends_with_the_code_for_part_of_the_inputs(installed: Path, tmp_path: Path) -> None:
    _install(
        installed,
        "fairlead.sources",
        "broken",
        "Broken",
        BROKEN_SOURCE.format(accepts="True", read="raise TypeError('no')"),
    )
    (tmp_path / "a").write_bytes(b"BROKEN")
    good = str(ROOT / "examples" / "logs" / "small_512b_nn_4.darshan")
    done = _run(installed, "ingest", "--lake", str(tmp_path / "lake"), str(tmp_path / "a"), good)
    assert done.returncode == 4, done.stderr
    assert "error in the source 'broken' (package site-broken 1.0): TypeError: no" in done.stderr
    assert "Traceback" not in done.stderr


def _run(installed: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(installed), str(ROOT / "src")])
    return subprocess.run(
        [sys.executable, "-m", "fairlead", *words],
        env={**os.environ, "PYTHONPATH": path},
        cwd=installed.parent,
        capture_output=True,
        text=True,
        check=False,
    )


# Probes


def _zram(root: Path) -> None:
    folder = root / "sys" / "block" / "zram0"
    folder.mkdir(parents=True)
    (folder / "stat").write_text("4 0 8 0 2 0 16 0 0 0 0\n", encoding="ascii")


@pytest.mark.parametrize("by_file", [True, False], ids=["file in the settings", "entry point"])
@pytest.mark.parametrize("installed", ["probe"], indirect=True)
def test_the_example_probe_is_run_by_the_agent(installed: Path, tmp_path: Path, by_file: bool) -> None:
    _zram(tmp_path)
    installed.chmod(0o755)
    file = installed / "site_zram.py"
    file.chmod(0o644)
    options = (("file", str(file)),) if by_file else ()
    ((name, probe),) = make_named_probes(["zram"], str(tmp_path), "n1", [("zram", ProbeSettings(options=options))])
    outcome = run_probe_in_thread(name, probe, lambda: 0, lambda: 0)
    assert (name, outcome.state, probe.period_s) == ("zram", OK, 10.0)
    assert outcome.found is not None
    assert outcome.found.readings[0].rows == {("n1", "zram0", "zram"): [4, 4096, 2, 8192]}


PROBE = "from fairlead.see.probes.base import *\nclass Mine(Probe):\n    def read(self, now_ns):\n        {body}\n"
PROBE_FAULTS = {
    "return None": "read() returned NoneType, not ProbeResult",
    "raise KeyError('x')": "defect: KeyError",
    "return ProbeResult([Reading('nothing', ('a',), (), (), {})])": "unknown table 'nothing'",
    "return ProbeResult([Reading('device', ('node',), ('read_ops',), (), {('n',): [1, 2]})])": "a row does not fit",
}


@pytest.mark.parametrize("body", PROBE_FAULTS)
def test_a_faulty_probe_is_failing_and_says_why(tmp_path: Path, body: str) -> None:
    outcome = _run_file(tmp_path, PROBE.format(body=body))
    assert (outcome.state, outcome.found) == (FAILING, None)
    assert PROBE_FAULTS[body] in outcome.text


@pytest.mark.parametrize("text", ["import nothing_of_this_name\n", "def (:\n", "x = 1\n"])
def test_a_probe_that_cannot_be_loaded_is_failing(tmp_path: Path, text: str) -> None:
    outcome = _run_file(tmp_path, text)
    assert outcome.state == FAILING
    assert f"error in the probe 'mine' ({tmp_path}/mine.py)" in outcome.text


def _run_file(folder: Path, text: str) -> object:
    file = folder / "mine.py"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o644)
    folder.chmod(0o755)
    section = ("mine", ProbeSettings(options=(("file", str(file)),)))
    made = make_named_probes(["disks"], str(folder), "n1", [section])
    assert [name for name, _ in made] == ["disks", "mine"]
    return run_probe_in_thread("mine", dict(made)["mine"], lambda: 0, lambda: 0)


def test_a_file_that_others_can_change_is_not_run(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("raise SystemExit\n", encoding="utf-8")
    tmp_path.chmod(0o755)
    for path, mode, why in (
        (str(file), 0o666, "other users can change it"),
        ("mine.py", 0o644, "give an absolute path"),
        (str(tmp_path / "absent.py"), 0o644, "No such file"),
        (str(tmp_path), 0o755, "not a regular file"),
    ):
        if why != "not a regular file":
            file.chmod(mode)
        with pytest.raises(SettingError, match=why):
            make_named_probes([], "/", "n1", [("mine", ProbeSettings(options=(("file", path),)))])


# Policies


def _decide(name: str) -> object:
    apps = Applications.from_columns([1, 2, 4], [[1.0, 2.0, 3.0]] * 2, [10.0] * 2, [5.0] * 2, [8.0] * 2)
    made = find_registered_policy(name)
    pool = build_allocation_pool(4, 64.0)
    made.arrive(apps.select_rows([0]), Running(4, apps.counts), pool, np.random.default_rng(0))
    return made.decide(apps, pool, np.random.default_rng(0))


@pytest.mark.parametrize("installed", ["policy"], indirect=True)
def test_the_example_policy_decides(installed: Path) -> None:
    assert "halves" in list_registered_policies()
    decision = _decide("halves")
    assert decision.choice.tolist() == [1, 1]  # type: ignore[attr-defined]
    assert decision.resources.tolist() == [[0, 1, -1, -1], [2, 3, -1, -1]]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    [
        "class Bad:\n    def decide(self, *a): return self.nothing\n    def arrive(self, *a): return self.nothing\n",
        "class Bad:\n    def __init__(self): raise ValueError('x')\n",
        "import nothing_of_this_name\n",
    ],
)
def test_a_faulty_policy_is_named(installed: Path, text: str) -> None:
    _install(installed, "fairlead.policies", "bad", "Bad", text)
    with pytest.raises(PluginError, match=r"error in the policy 'bad' \(package site-bad 1.0\)"):
        _decide("bad")


# Rules


@pytest.mark.parametrize("installed", ["rule"], indirect=True)
def test_the_example_rule_is_taken(installed: Path) -> None:
    assert load_rule_set()["many_file_opens"].severity == "warning"


def test_faulty_rules_of_a_package_are_left_out(installed: Path, caplog: pytest.LogCaptureFixture) -> None:
    package = installed / "site_bad_rules"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "x.toml").write_text('id = "x"\nwhen = "nothing > 1"\n', encoding="utf-8")
    from installed_plugins import write_dist_info

    write_dist_info(installed, "site-bad-rules", "fairlead.rules", "bad", "site_bad_rules")
    with on_path(installed):
        assert "x" not in load_rule_set()
        assert "seek_heavy" in load_rule_set()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert "error in the rules 'bad' (package site-bad-rules 1.0)" in told[0]


# Questions


def _lake(tmp_path: Path) -> Lake:
    lake = Lake.open(tmp_path / "lake", create=True)
    jobs = build_table_batch(
        TABLES["jobs"],
        {
            "job_id": ["1", "2"],
            "user": ["ada", "bob"],
            "partition": ["p", "p"],
            "submit_ns": [10**18, 10**18],
            "start_ns": [10**18 + 10**9, 10**18 + 2 * 10**9],
            "end_ns": [10**18 + 10**10, 10**18 + 10**10],
        },
    )
    with lake.open_writer() as writer:
        batch = writer.open_batch("x")
        batch.add(pa.Table.from_batches([jobs]).to_batches()[0])
        batch.commit()
    return lake


NOW = 10**18 + 60 * 10**9


@pytest.mark.parametrize("installed", ["question"], indirect=True)
def test_the_example_question_is_answered_for_support_only(installed: Path, tmp_path: Path) -> None:
    asking = Asking(_lake(tmp_path))
    answer = answer_question(asking, "queue", "", parse_question_parameters("queue", {"last": "1h"}), Sight(), NOW)
    assert [(wait.partition, wait.jobs, wait.longest_s) for wait in answer.waits] == [("p", 2, 2.0)]  # type: ignore[attr-defined]
    with pytest.raises(NotForYouError):
        answer_question(asking, "queue", "", parse_question_parameters("queue", {}), Sight(user="ada"), NOW)
    done = _run(installed, "ask", "queue", "last=1h", "--lake", str(tmp_path / "lake"))
    assert done.returncode == 0, done.stderr
    assert '"waits":[' in done.stdout


QUESTION = """
from fairlead.plugins import Answer, TimeParameters, Question
class Other(Answer):
    x: int
def answer(asking, name, asked, sight, now_ns):
    {body}
Q = Question("{path}", TimeParameters, Other, "x", answer)
"""


@pytest.mark.parametrize("body", ["return 1", "raise KeyError('x')"])
def test_a_faulty_question_is_named_and_others_are_answered(installed: Path, tmp_path: Path, body: str) -> None:
    _install(installed, "fairlead.questions", "bad", "Q", QUESTION.format(body=body, path="site/bad"))
    asking = Asking(_lake(tmp_path))
    with pytest.raises(PluginError, match=r"error in the question 'bad' \(package site-bad 1.0\)"):
        answer_question(asking, "bad", "", parse_question_parameters("bad", {}), Sight(), NOW)
    asked = parse_question_parameters("jobs", {"last": "1h"})
    assert answer_question(asking, "jobs", "", asked, Sight(), NOW).total == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text", ["import nothing_of_this_name", "Q = 1", QUESTION.format(body="return 1", path="jobs/{name}")]
)
def test_a_question_that_cannot_be_used_is_left_out(
    installed: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    _install(installed, "fairlead.questions", "bad", "Q", text)
    assert list_questions().keys() == QUESTIONS.keys()
    assert "error in the question 'bad'" in caplog.text


# Pages


@pytest.mark.parametrize("installed", ["page"], indirect=True)
def test_the_example_page_shows_what_its_reader_may_see(installed: Path, tmp_path: Path) -> None:
    asking = Asking(_lake(tmp_path))
    (page,) = load_site_pages()[0].values()
    everything, own = (
        draw_site_page(
            "waiting", page, lambda q, n, asked, s=sight: answer_question(asking, q, n, asked, s, NOW)
        ).decode()
        for sight in (Sight(), Sight(user="ada"))
    )
    assert "<td>bob</td>" in everything
    assert "<td>ada</td>" in own
    assert "bob" not in own


def test_what_a_page_says_is_text(tmp_path: Path) -> None:
    html = render_site_page("<b>", [Text("<script>"), Table(("<i>",), [("<img>",), (None,)] * MAX_ROWS)])
    assert "<script>" not in html
    assert "<img>" not in html
    assert "&lt;b&gt;" in html
    assert f"{MAX_ROWS} more rows" in html


@pytest.mark.parametrize("draw", [lambda _: 1 / 0, lambda _: [1], lambda ask: [ask("no such question")]])
def test_a_faulty_page_is_a_refusal_that_names_it(draw: object) -> None:
    with pytest.raises(RefusedError, match="error in the page 'mine'") as caught:
        draw_site_page("mine", Page("x", draw), lambda *_: None)  # type: ignore[arg-type, return-value]
    assert caught.value.status == 500


# All of them


@pytest.mark.parametrize("installed", ["source"], indirect=True)
def test_the_doctor_lists_plug_ins_and_their_defects(installed: Path) -> None:
    _install(installed, "fairlead.policies", "bad", "Bad", "import nothing_of_this_name\n")
    with on_path(installed):
        found = {check.name: check for check in doctor_plugins.check_plugins(Machine())}
    assert found["source scratch"].status == "ok"
    assert found["source scratch"].found == "package site-scratch 1.0"
    assert found["policy bad"].status == "missing"
    assert "ModuleNotFoundError" in found["policy bad"].found


def test_nothing_is_taken_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_example(tmp_path, "source")
    monkeypatch.chdir(tmp_path)
    find_extensions.cache_clear()
    assert all("scratch" not in find_extensions(group) for group in KINDS)
    assert "ask" in COMMANDS

"""`fairlead report` as it is called: options, output for people and for programs, several traces and jobs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from fairlead.cli.main import main
from fairlead.core.model.job import Job
from fairlead.see.sources import inputs
from fairlead.show.report import report_builder as reporting
from report_inputs import LOGS, ROOT, SMALL, STRIDED, renumbered, report, started

Capture = pytest.CaptureFixture[str]
WIDTHS = (60, 80, 120, 200)
DAY_NS = 86_400 * 10**9


# -- output for programs -----------------------------------------------------------------------------------------------


def test_json_on_stdout_is_json_alone(tmp_path: Path) -> None:
    broken = tmp_path / "broken.darshan"
    broken.write_bytes(b"")
    done = started("report", SMALL, broken, "--json", "-", "--html", tmp_path / "page.html")
    assert done.code == 4
    assert done.json["schema"] == "fairlead.report/1"
    assert str(broken) in done.err
    assert "page.html" in done.err


def test_json_to_a_file_leaves_the_terminal_to_people(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "new" / "folder" / "report.json"
    done = report(capsys, SMALL, "--json", out)
    assert (done.code, done.err) == (0, "")
    assert json.loads(out.read_text())["job"]["id"] == "32062"
    assert "What to change" in done.out


def test_nothing_is_written_where_nothing_could_be_reported(tmp_path: Path, capsys: Capture) -> None:
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    done = report(capsys, empty, "--json", tmp_path / "out.json", "--html", tmp_path / "out.html")
    assert done.code == 3
    assert [p.name for p in tmp_path.iterdir()] == ["empty"]
    assert report(capsys, empty, "--json", "-").out == ""


def test_quiet_leaves_errors_alone(tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "page.html"
    capsys.readouterr()
    assert main(["-q", "report", str(SMALL), "--html", str(page)]) == 0
    assert capsys.readouterr().err == ""
    assert page.stat().st_size > 10_000
    assert report(capsys, SMALL, "--html", page).err == f"page: {page}\n"
    assert main(["-q", "report", str(tmp_path / "none")]) == 3
    assert "no such file" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--json", "-"], ["--explain", "tiny_requests"]], ids=str)
@pytest.mark.parametrize("jobs", [1, 4])
def test_a_reader_that_goes_away_is_no_error_of_ours(arguments: list[str], jobs: int) -> None:
    logs = sorted(LOGS.glob("*.darshan"))[:jobs]
    process = subprocess.Popen(
        [sys.executable, "-m", "fairlead", "report", *logs, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (141, b"")


def test_pages_of_several_jobs_have_names_of_their_own(tmp_path: Path, capsys: Capture) -> None:
    done = report(capsys, LOGS, "--html", tmp_path / "page.html", "--json", tmp_path / "all.json")
    verdicts = json.loads((tmp_path / "all.json").read_text())["reports"]
    pages = sorted(p.name for p in tmp_path.glob("*.html"))
    assert pages == sorted(f"page-{v['job']['id']}-{v['job']['start_ns']}.html" for v in verdicts)
    assert len(pages) == len(list(LOGS.glob("*.darshan")))
    assert done.err.splitlines() == [f"page: {tmp_path / name}" for name in sorted(pages, key=done.err.index)]


def test_two_jobs_that_look_alike_do_not_share_a_page(tmp_path: Path, capsys: Capture) -> None:
    """Two traces of other formats than Darshan's carry no number."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        shutil.copy(ROOT / "tests" / "fixtures" / "darshan" / "python_1.darshan", tmp_path / name / "x.darshan")
    (tmp_path / "b" / "x.darshan").write_bytes(renumbered((tmp_path / "b" / "x.darshan").read_bytes(), 7))
    (tmp_path / "a" / "x.darshan").write_bytes(renumbered((tmp_path / "a" / "x.darshan").read_bytes(), 8))
    out = tmp_path / "out"
    assert report(capsys, tmp_path / "a", tmp_path / "b", "--html", out / "p.html").code == 0
    assert len(list(out.iterdir())) == 2


# -- what cannot be done -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--html", "--json"])
def test_a_verdict_is_shown_though_its_file_cannot_be_written(tmp_path: Path, capsys: Capture, option: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    for place in (tmp_path, tmp_path / "file" / "x.html", Path("/dev/full"), Path("/proc/none/x.html")):
        done = report(capsys, SMALL, option, place)
        assert done.code == 2
        assert f"error: {place}: cannot be written" in done.err
        assert "→ name another file" in done.err
        assert "What to change" in done.out


def test_explain_names_an_unknown_rule_before_reading_anything(capsys: Capture) -> None:
    done = report(capsys, "/dev/zero", "--explain", "no_such_rule")
    assert (done.code, done.out) == (2, "")
    assert "there is no rule 'no_such_rule'" in done.err
    assert "fairlead rule list" in done.err


@pytest.mark.parametrize(
    ("rule", "result"),
    [("tiny_requests", "it fires"), ("random_reads", "it stays quiet"), ("collective_writes", "")],
)
def test_explain_says_what_the_rule_saw(capsys: Capture, rule: str, result: str) -> None:
    done = report(capsys, SMALL, "--explain", rule)
    assert done.code == 0
    assert done.out.startswith(f"{rule} (")
    assert f"job 32062 (ior): {result}" in done.out
    assert "It asks: " in done.out


def test_explain_on_many_jobs_answers_for_each(capsys: Capture) -> None:
    done = report(capsys, LOGS, "--explain", "tiny_requests")
    assert done.out.count("tiny_requests (") == 1
    assert len(re.findall(r"^job \d+ \(\w+\): it ", done.out, re.MULTILINE)) == len(list(LOGS.glob("*.darshan")))


def test_broken_rules_and_a_broken_platform_are_named(tmp_path: Path, capsys: Capture) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "mine.toml").write_text("id = [")
    cases = [("--rules", rules, "mine.toml"), ("--rules", tmp_path / "none", "none"), ("--rules", SMALL, SMALL.name)]
    for name, content in (
        ("syntax", b"a ="),
        ("bytes", b"\xff\xfe"),
        ("key", b'nodez = "x"'),
        ("type", b'nodes = "x"'),
    ):
        (tmp_path / name).write_bytes(content)
        cases.append(("--platform", tmp_path / name, name))
    cases += [("--platform", tmp_path, str(tmp_path)), ("--platform", tmp_path / "gone", "gone")]
    for option, path, named in cases:
        done = report(capsys, SMALL, option, path)
        assert (done.code, done.out) == (5, ""), path
        assert named in done.err
        assert "\n  → " in done.err


def test_compare_takes_one_job_on_each_side(tmp_path: Path, capsys: Capture) -> None:
    many = report(capsys, SMALL, STRIDED, "--compare", STRIDED)
    assert (many.code, many.out) == (2, "")
    assert "2 jobs were given" in many.err
    other = report(capsys, SMALL, "--compare", LOGS)
    assert (other.code, other.out) == (2, "")
    assert f"{LOGS}: the --compare trace holds" in other.err


@pytest.mark.parametrize("broken", ["before", "after"])
def test_compare_reports_the_one_that_can_be_read(tmp_path: Path, capsys: Capture, broken: str) -> None:
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    pair = (empty, SMALL) if broken == "before" else (SMALL, empty)
    done = report(capsys, pair[0], "--compare", pair[1], "--json", "-")
    assert done.code == 4
    assert f"{empty}: the file is empty" in done.err
    assert done.json["schema"] == "fairlead.report/1"
    assert done.json["inputs"] == [str(SMALL)]
    assert report(capsys, empty, "--compare", empty).code == 3


def test_compare_shows_what_changed(tmp_path: Path, capsys: Capture) -> None:
    done = report(capsys, STRIDED, "--compare", SMALL, "--html", tmp_path / "both.html")
    assert done.code == 0
    assert "after / before" in done.out
    assert re.search(r"^mended: Processes interleave", done.out, re.MULTILINE)
    assert (tmp_path / "both.html").exists()
    data = report(capsys, STRIDED, "--compare", SMALL, "--json", "-").json
    assert data["schema"] == "fairlead.comparison/1"
    assert (data["before"]["job"]["id"], data["after"]["job"]["id"]) == ("31994", "32062")
    same = report(capsys, SMALL, "--compare", SMALL, "--json", "-").json["comparison"]
    assert same["findings"]["gone"] == same["findings"]["new"] == []
    assert {row["ratio"] for row in same["rows"]} <= {1.0, None}


# -- output for people -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    calls = [[SMALL, "--all"], [STRIDED], [LOGS], [SMALL, "--explain", "tiny_requests"], [SMALL, "--compare", STRIDED]]
    calls += [[path, "--all"] for path in LOGS.glob("*.darshan")]
    for arguments in calls:
        done = report(capsys, *arguments)
        assert done.code == 0
        assert max(cell_len(line) for line in done.out.splitlines()) <= width
        assert "\x1b" not in done.out


def test_everything_of_the_verdict_is_on_the_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for path in sorted(LOGS.glob("*.darshan")):
        verdict = report(capsys, path, "--json", "-").json
        text = " ".join(report(capsys, path, "--all").out.split())
        assert f" {verdict['grade']} " in text
        for said in (verdict["headline"], verdict["grade_reason"], f"job {verdict['job']['id']}"):
            assert said in text
        for finding in verdict["findings"]:
            assert finding["title"] in text
            if finding["severity"] not in ("ok", "info"):
                assert finding["rule"] in text
                for advice in finding["advice"]:
                    assert " ".join(advice["text"].split()) in text
        for missing in verdict["missing"]:
            assert missing["why"] in text


def test_three_findings_are_shown_and_the_rest_is_named(capsys: Capture) -> None:
    done = report(capsys, SMALL)
    bad = [f for f in report(capsys, SMALL, "--json", "-").json["findings"] if f["severity"] not in ("ok", "info")]
    assert re.findall(r"^ (\d)\. ", done.out, re.MULTILINE) == [str(n) for n in range(1, min(len(bad), 3) + 1)]
    if len(bad) > 3:
        assert f"{len(bad) - 3} more, shown with --all" in done.out


def test_colours_only_where_they_are_wanted() -> None:
    assert "\x1b" not in started("report", SMALL).out
    assert "\x1b[" in started("report", SMALL, environment={"FORCE_COLOR": "1", "TERM": "xterm-256color"}).out
    plain = started("report", SMALL, environment={"FORCE_COLOR": "1", "TERM": "xterm-256color", "NO_COLOR": "1"}).out
    assert not re.search(r"\x1b\[[0-9;]*(3[0-9]|4[0-9]|38;|48;)", plain)


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
    ids=str,
)
def test_a_terminal_without_unicode_gets_signs_it_has(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", "report", STRIDED], env={**os.environ, **environment}, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode("latin-1")
    assert "\\u" not in text
    assert "    > Write through MPI-IO" in text
    assert re.search(r"write over time +#[.:=+#-]", text)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80


def test_two_runs_of_the_command_say_the_same(capsys: Capture) -> None:
    assert report(capsys, LOGS, "--json", "-").out == report(capsys, LOGS, "--json", "-").out


# -- several traces ----------------------------------------------------------------------------------------------------


def test_a_folder_is_what_its_files_are(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    a, b = tmp_path / "a.darshan", tmp_path / "deep" / "er" / "b.darshan"
    shutil.copy(SMALL, a)
    shutil.copy(STRIDED, b)
    (tmp_path / ".hidden.darshan").write_bytes(b"")
    assert report(capsys, tmp_path, "--json", "-").out == report(capsys, a, b, "--json", "-").out
    assert report(capsys, a, tmp_path, a, b, "--json", "-").out == report(capsys, a, b, "--json", "-").out


@pytest.mark.shared_data
def test_the_logs_of_one_job_are_one_report(shared_data: Path, capsys: Capture) -> None:
    folder = shared_data / "darshan" / "dlio_logs"
    logs = sorted(folder.glob("*.darshan"))
    assert len(logs) > 5
    whole = report(capsys, folder, "--json", "-").json
    assert whole["schema"] == "fairlead.report/1"
    assert whole["inputs"] == [str(path) for path in logs]
    parts = [report(capsys, path, "--json", "-").json for path in logs]
    for name, total in whole["totals"].items():
        assert total == sum(part["totals"][name] for part in parts), name
    assert whole["job"]["start_ns"] == min(part["job"]["start_ns"] for part in parts)
    assert whole["job"]["end_ns"] == max(part["job"]["end_ns"] for part in parts)


@pytest.mark.shared_data
def test_a_folder_of_dftracer_files_is_one_job(shared_data: Path, capsys: Capture) -> None:
    folder = shared_data / "dftracer" / "cm1_1_48_20240926"
    files = sorted(folder.iterdir())
    whole = report(capsys, folder, "--json", "-").json
    assert whole["source"] == "dftracer"
    assert whole["job"]["processes"] == len(files) == len(whole["inputs"])
    parts = [report(capsys, path, "--json", "-").json["totals"] for path in files]
    for name in ("read_bytes", "write_bytes", "read_ops", "write_ops"):
        assert whole["totals"][name] == sum(part[name] for part in parts), name
    assert report(capsys, *files, "--json", "-").json["totals"] == whole["totals"]


def _accounted(job: Job, **run: object) -> str | None:
    """The user of a report of SMALL when accounting holds these runs."""
    found, failures = inputs.discover_input_files([SMALL])
    (one,) = inputs.group_input_files(found)
    runs = [Job(job_id="32062", user=str(user), start_ns=start, end_ns=end) for user, (start, end) in run.items()]  # type: ignore[misc]
    result = reporting.build_report(one, reporting.load_report_setup(), {"32062": runs}, failures)
    assert result is not None
    return result.verdict.job.user


def test_accounting_joins_the_run_of_that_time_not_another_of_that_number(capsys: Capture) -> None:
    traced = report(capsys, SMALL, "--json", "-").json["job"]
    start, end = traced["start_ns"], traced["end_ns"]
    before = (start - 400 * DAY_NS, start - 399 * DAY_NS)
    around = (start - 60 * 10**9, end + 60 * 10**9)
    later = (start + 300 * DAY_NS, start + 301 * DAY_NS)
    job = Job(job_id="32062")
    assert _accounted(job, old=before, right=around, new=later) == "right"
    assert _accounted(job, new=later, right=around, old=before) == "right"
    assert _accounted(job, old=before, new=later) == traced["user"]
    # Accounting in local time that was taken for UTC is hours off.
    assert _accounted(job, shifted=(start - 9 * 3600 * 10**9, start - 8 * 3600 * 10**9)) == "shifted"


def test_damaged_accounting_is_said(tmp_path: Path, capsys: Capture) -> None:
    import gzip

    text = "JobID|User|Start|End|State\n" + "".join(
        f"{n}|ada|2024-01-01T00:00:00|2024-01-01T01:00:00|COMPLETED\n" for n in range(20_000)
    )
    path = tmp_path / "sacct.gz"
    path.write_bytes(gzip.compress(text.encode())[:-400])
    done = report(capsys, SMALL, path, "--json", "-")
    assert done.code == 4
    assert str(path) in done.err
    assert done.json["inputs"] == [str(SMALL)]


# -- what it costs to start --------------------------------------------------------------------------------------------

NOT_NEEDED = ("scipy.signal", "sklearn", "pandas", "duckdb", "deltalake", "numba", "matplotlib", "darshan", "dask")


@pytest.mark.parametrize("log", ["phases_nn_4x3.darshan", "md_heavy_8.darshan"])
def test_a_report_imports_nothing_heavy(tmp_path: Path, log: str) -> None:
    script = (
        "import sys\n"
        "from fairlead.cli.main import main\n"
        f"code = main(['report', {str(LOGS / log)!r}, '--all', '--html', 'page.html', '--json', 'out.json'])\n"
        f"loaded = [n for n in {NOT_NEEDED!r} if n in sys.modules]\n"
        "sys.exit(f'loaded: {loaded}' if loaded else code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").exists()

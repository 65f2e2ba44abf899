"""`fairlead report` on broken, hostile and odd input: a clear error that names the file, the rest still reported."""

from __future__ import annotations

import gzip
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import dftracer_writing as pfw
from darshan_writing import START_S
from fairlead.cli import terminal
from fairlead.show.report import report_builder as reporting
from report_inputs import LOGS, SMALL, STRIDED, Done, renumbered, report, started, written

Capture = pytest.CaptureFixture[str]
NOBODY = 65534
MIB = 1 << 20


def assert_refused(done: Done, where: object, what: str, code: int = 3) -> None:
    assert done.code == code, done.err
    assert str(where) in done.err
    assert what in done.err
    assert "\n  → " in done.err
    assert "Traceback" not in done.err


@contextmanager
def as_nobody() -> Iterator[None]:
    """Permissions count: root, who may read everything, becomes nobody for a while."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that nobody can reach (pytest's own are the user's alone)."""
    folder = Path(tempfile.mkdtemp(prefix="fairlead-test-"))
    folder.chmod(0o755)
    yield folder
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


# -- one input that cannot be used -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("empty.darshan", b"", "the file is empty"),
        ("text.darshan", b"hello\n", "not a known trace format"),
        ("noise", bytes(range(256)) * 40, "not a known trace format"),
        ("zeros.darshan", bytes(100_000), "not a known trace format"),
        ("almost.darshan", SMALL.read_bytes()[:15], "not a known trace format"),
        ("magic.darshan", SMALL.read_bytes()[:16], "ends within its header"),
        ("whole.darshan.gz", gzip.compress(SMALL.read_bytes(), mtime=0), "compressed with gzip as a whole"),
        ("cut.pfw.gz", gzip.compress(b"[\n", mtime=0)[:5], ""),
        ("broken.gz", b"\x1f\x8b" + bytes(range(200)), "its gzip data is broken"),
        ("page.html", b"<!doctype html><p>Log in to see the log.</p>\n", "not a known trace format"),
        ("brackets.pfw", b"[" * 100_000, "not a known trace format"),
        ("sacct.txt", b"JobID|State|Start|End\n7|COMPLETED|2024-01-01T00:00:00|2024-01-01T01:00:00\n", "no I/O trace"),
    ],
)
def test_one_file_that_is_no_trace(tmp_path: Path, capsys: Capture, name: str, content: bytes, what: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    done = report(capsys, path)
    assert_refused(done, path, what)
    assert done.out == ""


def test_a_future_version_is_told_from_damage(tmp_path: Path, capsys: Capture) -> None:
    path = written(tmp_path, version="9.99")
    done = report(capsys, path)
    assert_refused(done, path, "log format 9.99 is newer than 3.41")
    assert "update fairlead" in done.err


def test_what_is_not_a_file_is_not_read(tmp_path: Path, capsys: Capture) -> None:
    pipe, bound, looped, gone = (tmp_path / name for name in ("pipe", "socket", "loop", "gone"))
    os.mkfifo(pipe)
    looped.symlink_to(looped)
    gone.symlink_to(tmp_path / "nowhere")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(bound))
        assert_refused(report(capsys, pipe), pipe, "this is a pipe, not a file")
        assert_refused(report(capsys, bound), bound, "this is a socket, not a file")
        assert_refused(report(capsys, "/dev/zero"), "/dev/zero", "this is a device, not a file")
        assert_refused(report(capsys, looped), looped, "symbolic links")
        assert_refused(report(capsys, gone), gone, "no such file")
        assert_refused(report(capsys, tmp_path / ("x" * 300)), "xxx", "file name too long")
        assert_refused(report(capsys, SMALL / "inside"), SMALL / "inside", "not a directory")
        # In a folder they are passed over, and do not hold up the log beside them.
        shutil.copy(SMALL, tmp_path)
        done = report(capsys, tmp_path, "--json", "-")
    assert (done.code, done.err) == (0, "")
    assert done.json["inputs"] == [str(tmp_path / SMALL.name)]


def test_a_folder_that_leads_back_to_itself_ends(tmp_path: Path, capsys: Capture) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "up").symlink_to(tmp_path, target_is_directory=True)
    shutil.copy(SMALL, inner)
    done = report(capsys, tmp_path, "--json", "-")
    assert done.code == 0
    assert done.json["inputs"] == [str(inner / SMALL.name)]


def test_a_folder_deeper_than_python_recurses(tmp_path: Path, capsys: Capture) -> None:
    home = Path.cwd()
    try:
        os.chdir(tmp_path)
        for _ in range(1200):
            os.mkdir("d")  # noqa: PTH102  (a path of 1,200 parts grows beyond what one call takes)
            os.chdir("d")
        done = report(capsys, tmp_path)
    finally:
        os.chdir(home)
        subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)
    assert_refused(done, tmp_path, "the directory holds no known trace")


@pytest.mark.parametrize("inside", [[], ["a.txt", "b.log", "__init__.py"]])
def test_a_folder_without_traces(tmp_path: Path, capsys: Capture, inside: list[str]) -> None:
    for name in inside:
        (tmp_path / name).write_bytes(b"" if name == "__init__.py" else b"nothing here\n")
    done = report(capsys, tmp_path)
    assert_refused(done, tmp_path, "the directory holds no known trace")
    assert done.err.count("error: ") == 1


def test_a_folder_misses_what_is_named_like_a_trace_and_nothing_else(tmp_path: Path, capsys: Capture) -> None:
    shutil.copy(SMALL, tmp_path)
    for name in ("job.err", "notes.txt", "lost.darshan", "half.pfw.gz"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "archive.tar.gz").write_bytes(b"\x1f\x8bno gzip")
    done = report(capsys, tmp_path, "--json", "-")
    assert done.code == 4
    assert done.json["inputs"] == [str(tmp_path / SMALL.name)]
    assert [line.partition(": ")[2] for line in done.err.splitlines() if "is empty" in line] == [
        f"{tmp_path / name}: the file is empty" for name in ("half.pfw.gz", "lost.darshan")
    ]
    assert "archive" not in done.err


# -- broken in part ----------------------------------------------------------------------------------------------------


def test_a_log_cut_anywhere_is_refused_or_said_to_be_damaged(tmp_path: Path, capsys: Capture) -> None:
    whole = SMALL.read_bytes()
    path = tmp_path / "cut.darshan"
    codes = set()
    for cut in [*range(16, len(whole), len(whole) // 60), len(whole) - 9, len(whole) - 1]:
        path.write_bytes(whole[:cut])
        done = report(capsys, path, "--json", "-")
        assert done.code in (3, 4), cut
        assert_refused(done, path, "", done.code)
        codes.add(done.code)
        if done.code == 4:
            assert done.json["totals"]["read_bytes"] in range(MIB + 1)
            assert any(m["kind"] == "truncated" and m["where"] == str(path) for m in done.json["missing"])
            assert "damaged, reported as far as readable" in done.err
        else:
            assert done.out == ""
    assert codes == {3, 4}


def test_other_inputs_are_reported_beside_broken_ones(tmp_path: Path, capsys: Capture) -> None:
    empty, text, cut = (tmp_path / name for name in ("empty", "text", "cut"))
    empty.write_bytes(b"")
    text.write_text("no trace\n")
    cut.write_bytes(STRIDED.read_bytes()[:500])
    done = report(capsys, empty, SMALL, text, cut, "--json", "-")
    assert_refused(done, empty, "3 inputs are broken or could not be used", code=4)
    assert str(text) in done.err
    assert str(cut) in done.err
    assert done.json == report(capsys, SMALL, "--json", "-").json


def test_of_many_errors_the_first_are_shown_and_all_are_counted(tmp_path: Path, capsys: Capture) -> None:
    for number in range(50):
        (tmp_path / f"{number}.darshan").write_bytes(b"")
    done = report(capsys, tmp_path)
    assert_refused(done, tmp_path / "0.darshan", "50 inputs are broken")
    assert done.err.count("the file is empty") == 20
    assert "... and 30 more" in done.err


def test_unreadable_files_and_folders(open_folder: Path, capsys: Capture) -> None:
    secret, shut = open_folder / "secret.darshan", open_folder / "shut"
    shutil.copy(SMALL, secret)
    shutil.copy(STRIDED, open_folder / "fine.darshan")
    (open_folder / "fine.darshan").chmod(0o644)
    shut.mkdir()
    shutil.copy(SMALL, shut / "inside.darshan")
    report(capsys, STRIDED, "--json", "-")  # all modules are loaded before permissions go
    secret.chmod(0)
    shut.chmod(0)
    with as_nobody():
        alone = report(capsys, secret)
        within = report(capsys, shut / "inside.darshan")
        unlisted = report(capsys, shut)
        beside = report(capsys, open_folder, "--json", "-")
    for done, path in ((alone, secret), (within, shut / "inside.darshan"), (unlisted, shut)):
        assert_refused(done, path, "permission denied")
        assert "ask its owner" in done.err
    assert_refused(beside, secret, "2 inputs", code=4)
    assert f"{shut}: permission denied" in beside.err
    assert beside.json["inputs"] == [str(open_folder / "fine.darshan")]


# -- odd jobs ----------------------------------------------------------------------------------------------------------


def test_a_job_of_no_length_has_no_grade(tmp_path: Path, capsys: Capture) -> None:
    path = written(tmp_path, end=(START_S, 123_456_789))
    verdict = report(capsys, path, "--json", "-").json
    assert verdict["job"]["run_time_s"] == 0
    assert verdict["grade"] is None
    assert verdict["metrics"]["io_time_share"] is None
    assert verdict["totals"]["write_bytes"] == 100 * MIB
    shown = report(capsys, path)
    assert (shown.code, shown.err) == (0, "")
    assert not {"inf", "nan", "None"} & set(shown.out.split())


def test_a_clock_that_runs_backwards_is_said_and_not_graded(tmp_path: Path, capsys: Capture) -> None:
    path = written(tmp_path, end=(START_S - 60, 0))
    verdict = report(capsys, path, "--json", "-").json
    assert (verdict["job"]["run_time_s"], verdict["grade"]) == (None, None)
    assert any(m["kind"] == "clock" and "backwards" in m["why"] for m in verdict["missing"])
    shown = report(capsys, path)
    assert shown.code == 0
    assert "ran backwards" in shown.out
    assert "run time unknown" in shown.out


def test_a_log_of_four_million_processes_takes_no_more_memory_than_a_small_one(tmp_path: Path, capsys: Capture) -> None:
    verdict = report(capsys, written(tmp_path, processes=1 << 22), "--json", "-").json
    assert verdict["job"]["processes"] == 1 << 22
    assert verdict["io_mode"]["write"] == "N-1"


def test_an_impossible_number_of_processes_is_damage(tmp_path: Path, capsys: Capture) -> None:
    path = written(tmp_path, processes=1 << 40)
    done = report(capsys, path, "--json", "-")
    assert_refused(done, path, "number of processes", code=4)
    assert done.json["totals"]["write_bytes"] == 100 * MIB


# -- very many, very much ----------------------------------------------------------------------------------------------


def test_ten_thousand_files_in_a_folder(tmp_path: Path, capsys: Capture) -> None:
    for number in range(10_000):
        (tmp_path / f"file{number}").write_bytes(b"line %d\n" % number)
    for log in (SMALL, STRIDED):
        shutil.copy(log, tmp_path)
    done = report(capsys, tmp_path, "--json", "-")
    assert (done.code, done.err) == (0, "")
    assert [r["inputs"] for r in done.json["reports"]] == [[str(tmp_path / log.name)] for log in (STRIDED, SMALL)]


def test_three_hundred_jobs_are_a_line_each_and_not_kept(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = SMALL.read_bytes()
    for number in range(300):
        (tmp_path / f"{number}.darshan").write_bytes(renumbered(content, 1000 + number))
    alive: list[weakref.ref[object]] = []
    most = 0
    build = reporting.build_report

    def counted(*arguments: object, **more: object) -> reporting.Report | None:
        nonlocal most
        most = max(most, sum(ref() is not None for ref in alive))
        one = build(*arguments, **more)  # type: ignore[arg-type]
        assert one is not None
        alive.append(weakref.ref(one.profile))
        return one

    monkeypatch.setattr(reporting, "build_report", counted)
    monkeypatch.setenv("COLUMNS", "80")
    done = report(capsys, tmp_path, "--json", tmp_path / "all.json")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("300 jobs")
    jobs = [line.split()[1] for line in lines[2:302]]
    assert sorted(jobs) == [str(1000 + n) for n in range(300)]
    assert max(map(len, lines[:302])) <= 80
    assert len(alive) == 300
    assert most <= terminal.MANY + 1


def test_copies_of_a_log_count_once(tmp_path: Path, capsys: Capture) -> None:
    for name in ("a.darshan", "b.darshan", "c.darshan"):
        shutil.copy(SMALL, tmp_path / name)
    verdict = report(capsys, tmp_path, "--json", "-").json
    assert verdict["totals"] == report(capsys, SMALL, "--json", "-").json["totals"]
    assert verdict["job"]["processes"] == 4
    assert any(m["kind"] == "copy" for m in verdict["missing"])


def limited(memory: int, *arguments: object) -> Done:
    """The command with at most `memory` bytes of address space."""
    return started(*arguments, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory)))


def zeros(members: int) -> bytes:
    """Gzip data of `members` × 16 MiB zeros: a few kilobytes for each."""
    return gzip.compress(bytes(16 * MIB), mtime=0) * members


def test_a_gzip_bomb_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(zeros(300))
    assert_refused(limited(2 << 30, "report", path), path, "not a known trace format")


@pytest.mark.parametrize("members", [20, pytest.param(300, marks=pytest.mark.slow)])
def test_a_gzip_bomb_behind_a_sound_line_is_read_in_bounded_memory(tmp_path: Path, members: int) -> None:
    path = tmp_path / "bomb.pfw.gz"
    first = pfw.text([pfw.event("write", pfw.T0_US, ret=4096)]).rstrip(b"]")
    path.write_bytes(gzip.compress(first) + zeros(members))
    done = limited(3 << 30, "report", path, "--json", "-")
    assert_refused(done, path, "", code=4)
    assert done.json["totals"]["write_ops"] == 1


@pytest.mark.slow
def test_a_trace_larger_than_the_memory_allowed(tmp_path: Path) -> None:
    trace = tmp_path / "large.pfw"
    maker = Path(__file__).parents[3] / "benchmarks" / "make_pfw.py"
    made = subprocess.run(
        [sys.executable, maker, "--bytes", "2500M", trace], capture_output=True, text=True, check=True
    )
    assert trace.stat().st_size > 2_400_000_000
    done = limited(2 << 30, "report", trace, "--json", "-")
    assert done.code == 0, done.err
    truth, totals = json.loads(made.stdout), done.json["totals"]
    assert (totals["read_bytes"], totals["write_bytes"]) == (truth["read_bytes"], truth["written_bytes"])


# -- names and content that are not what they seem ---------------------------------------------------------------------

HOSTILE_NAMES = [
    b"two\nlines.darshan",
    b"not\xff\xfeutf8.darshan",
    b"\x1b[2J\x1b]0;title\x07.darshan",
    b"[red]x[bold].darshan",
    b"[\\].darshan",
    b"turn\xe2\x80\xaeed.darshan",
    b":smile:\t\x9b.darshan",
    b"-q",
    b"%s {0}.darshan",
]


def control_characters(text: str) -> set[str]:
    return {c for c in text if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 or 0x202A <= ord(c) <= 0x202E}


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_file_names_are_inert(tmp_path: Path, capsys: Capture, name: bytes) -> None:
    folder = os.fsencode(tmp_path)
    whole, cut, page = (Path(os.fsdecode(folder + b"/" + part + b"/" + name)) for part in (b"whole", b"cut", b"page"))
    for path in (whole, cut):
        path.parent.mkdir()
    shutil.copy(SMALL, whole)
    cut.write_bytes(STRIDED.read_bytes()[:3000])
    page = page.with_name(page.name + ".html")
    done = report(capsys, whole, cut, "--html", page)
    assert done.code == 4
    assert not control_characters(done.out + done.err)
    assert done.err.count("error: ") == 2
    assert "\n 1." in done.out
    # The page of one of two jobs is named after both.
    assert len(list(page.parent.iterdir())) == 2
    data = report(capsys, whole, "--json", "-").json
    readable = os.fsencode(whole).decode("utf-8", "backslashreplace")
    assert data["inputs"] == [readable]


def test_what_a_log_says_is_inert(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07[red]a[/bold]\u202e\x9b"
    path = written(
        tmp_path,
        executable=f"{evil} -x",
        names={1: f"/scratch/{evil}\n 1. Nothing to change was found.", 2: "b"},
        metadata=f"lib_ver={evil}\n",
        mounts=(("lustre", f"/{evil}"),),
    )
    for width in ("60", "100"):
        monkeypatch.setenv("COLUMNS", width)
        done = report(capsys, path, "--all")
        assert done.code == 0
        assert not control_characters(done.out + done.err)
        assert "[red]a" in done.out
        assert not any(line.startswith(" 1. Nothing to change") for line in done.out.splitlines())
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = report(capsys, path, "--all")
    assert "\x1b[" in coloured.out
    assert "\x1b[2J" not in coloured.out
    assert "\x1b]0" not in coloured.out
    for option in ("--html", "--json"):
        assert report(capsys, path, option, tmp_path / "out").code == 0


def test_what_a_dftracer_trace_says_is_inert(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "evil.pfw"
    name = "/scratch/\x1b[2J[red]\udcff\n"
    events = [
        pfw.meta("FH", name, "77"),
        pfw.meta("PR", "app", "\x1b]0;owned\x07"),
        *(pfw.event("write", pfw.T0_US + n * 10, ret=512, fhash="77") for n in range(200)),
    ]
    path.write_bytes(pfw.text(events))
    done = report(capsys, path, "--all")
    assert done.code in (0, 4)
    assert not control_characters(done.out + done.err)
    assert report(capsys, path, "--json", "-").json["totals"]["write_bytes"] == 200 * 512


def test_the_bundled_logs_are_sound(capsys: Capture) -> None:
    """What the other tests compare with."""
    done = report(capsys, LOGS)
    assert (done.code, done.err) == (0, "")

"""`fairlead simulate`: the same rows on any number of processes, going on after kill -9, pages, refusals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import dedent

import msgspec
import pyarrow as pa
import pytest

from fairlead.cli.main import main
from fairlead.decide.sim.experiments.experiment_spec import Experiment
from fairlead.decide.sim.experiments.scheduling_study import build_joint_study
from fairlead.decide.sim.runs.run_experiments import read_experiment_file, run_experiments
from fairlead.decide.sim.runs.stored_results import KEY, build_case
from fairlead.explain.batch.workers import LocalWorkers
from fairlead.store.lake import Lake

SPEC = """
name = "small"
allocations = ["n-sys", "random"]
placements = ["greedy-clairvoyant"]
sets = 10
[workload]
kind = "published"
applications = [6]
loads = [0.5, 1.0]
[machine]
resources = 3
cores = 72
"""
OWN = """
name = "own"
policies = ["static+greedy-clairvoyant", "best-bandwidth+greedy-clairvoyant"]
sets = 3
[workload]
kind = "applications"
counts = [1, 2]
rows = [
  { name = "<b>a</b>", volume_bytes = 1e12, compute_s = 900, cores = 40, bandwidth_bytes_per_s = [1e9, 2e9] },
  { name = "b", volume_bytes = 2e12, compute_s = 300, cores = 10, phases = 2, bandwidth_bytes_per_s = [1e9, 1.5e9] },
]
[machine]
resources = 2
cores = 64
"""


def _read_rows(lake: Lake, experiments: Sequence[Experiment]) -> pa.Table:
    """The rows of experiments as they are in the table."""
    wanted = {
        (build_case(one).digest, name, information)
        for one in experiments
        for name in one.chosen
        for information in one.information
    }
    order = ", ".join(KEY)
    table = lake.query(
        f"SELECT * EXCLUDE (day, made_ns) FROM simulation WHERE case_id IN (SELECT unnest($cases))"  # noqa: S608
        f" AND set_number < $sets ORDER BY {order}",
        {"cases": sorted({case for case, _, _ in wanted}), "sets": max((one.sets for one in experiments), default=0)},
    )
    names = zip(*(table.column(name).to_pylist() for name in ("case_id", "policy", "information")), strict=True)
    return table.filter(pa.array([one in wanted for one in names], pa.bool_()))


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SPEC)
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def test_what_is_there_is_not_simulated_again(spec: Path, tmp_path: Path) -> None:
    experiments = [read_experiment_file(spec)]
    first = run_experiments(experiments, tmp_path / "lake", LocalWorkers())
    again = run_experiments(experiments, tmp_path / "lake", LocalWorkers())
    assert (first.made, first.before, again.made, again.before) == (40, 0, 0, 40)


def test_a_run_that_is_broken_off_goes_on_and_gives_the_rows_of_a_whole_one(spec: Path, tmp_path: Path) -> None:
    experiments = [read_experiment_file(spec)]

    def tell(done: int, _whole: int) -> None:
        if done >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiments(experiments, tmp_path / "lake", LocalWorkers(), tell=tell)
    rest = run_experiments(experiments, tmp_path / "lake", LocalWorkers())
    assert (rest.before, rest.made) == (20, 20)
    whole = run_experiments(experiments, tmp_path / "whole", LocalWorkers())
    assert _read_rows(rest.lake, experiments).equals(_read_rows(whole.lake, experiments))


@pytest.mark.slow
def test_a_killed_run_on_two_processes_goes_on_and_gives_the_rows_of_one(spec: Path, tmp_path: Path) -> None:
    """Killed with SIGKILL as soon as it told of 30 of 40 runs; its workers end with it. What it had told of is there,
    the rest is made by this process alone, and the rows are those of a run on one process."""
    script = dedent(f"""
        import os, signal
        from multiprocessing import active_children
        from pathlib import Path
        from fairlead.decide.sim.runs.processes import start_processes
        from fairlead.decide.sim.runs.run_experiments import read_experiment_file, run_experiments

        def tell(done, whole):
            if done >= 30:
                print(done, *(child.pid for child in active_children()), flush=True)
                os.kill(os.getpid(), signal.SIGKILL)

        if __name__ == "__main__":
            with start_processes(2) as crew:
                experiments = [read_experiment_file(Path({str(spec)!r}))]
                run_experiments(experiments, Path({str(tmp_path / "lake")!r}), crew, tell=tell)
    """)
    file = tmp_path / "killed.py"
    file.write_text(script)
    # Its workers hold the pipe as well: the call returns when they too have ended.
    killed = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    told, *children = map(int, killed.stdout.split())
    assert len(children) == 2
    experiments = [read_experiment_file(spec)]
    rest = run_experiments(experiments, tmp_path / "lake", LocalWorkers())
    assert rest.before >= told
    assert rest.made == 40 - rest.before
    assert rest.made > 0
    whole = run_experiments(experiments, tmp_path / "whole", LocalWorkers())
    assert _read_rows(rest.lake, experiments).equals(_read_rows(whole.lake, experiments))


def test_a_spec_is_run_told_and_drawn(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    path, lake = tmp_path / "own.toml", tmp_path / "lake"
    path.write_text(OWN)
    code, out, _ = run("simulate", path, "--lake", lake, "--jobs", 1, "--json")
    assert code == 0
    answer = json.loads(out)
    assert (answer["schema"], answer["simulated"]) == ("fairlead.simulation/1", True)
    assert answer["experiments"][0]["seed"] == 1
    line = answer["experiments"][0]["pictures"][0]["panels"][0]["lines"][0]
    assert line["points"][0]["sets"] == 3
    code, out, _ = run("simulate", path, "--lake", lake, "--jobs", 1)
    assert code == 0
    assert "simulated; seed 1, 3 sets per point" in out
    code, out, _ = run("simulate", "list", "--lake", lake)
    assert code == 0
    assert "own" in out
    code, out, _ = run("simulate", "plot", "own", "--lake", lake, "--out", tmp_path / "drawn")
    assert code == 0
    page = Path(out.strip()).read_text()
    assert "<script" not in page
    assert "<b>a</b>" not in page
    drawn = sorted((tmp_path / "drawn").glob("*.svg"))
    assert len(drawn) == 4  # slowdown, idle time, and a run under each policy
    assert "waiting for others" in "".join(one.read_text() for one in drawn)
    assert Lake.open(lake).read("experiment").num_rows == 2


TRACE = """
name = "month"
policies = ["static-map", "dfra", "joint-light"]
sets = 2
[workload]
kind = "swf"
path = "jobs.swf"
forwarders = 3
days = 0.2
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    jobs = [f"{n} {n * 900} 0 3600 512 -1 -1 512 -1 -1 1 {n % 3} 1 {n % 3} 1 1 -1 -1" for n in range(1, 41)]
    (tmp_path / "jobs.swf").write_text("; a trace\n" + "\n".join([*jobs, "no job at all"]) + "\n")
    path = tmp_path / "month.toml"
    path.write_text(TRACE)
    return path


def test_a_spec_may_name_a_trace_whose_replays_are_rows_like_any_other(
    run: Callable[..., tuple[int, str, str]], trace: Path, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    code, out, err = run("simulate", trace, "--lake", lake, "--jobs", 1, "--json")
    assert (code, "6 runs simulated" in err) == (0, True)
    [told] = json.loads(out)["experiments"]
    assert "40 of 41 jobs; dropped: 1" in told["note"]
    panel = told["pictures"][0]["panels"][0]
    assert (panel["of"], panel["applications"], told["window"]) == ("jobs", 20, "whole")  # those of the first 4.8 h
    assert all(line["points"][0]["mean"] >= 1 for line in panel["lines"])
    assert panel["lines"][0]["points"][0]["load_sys"] is None
    table = Lake.open(lake).read("simulation")
    drawn = {row["set_number"]: row["core_hours_lost"] for row in table.to_pylist() if row["policy"] == "static-map"}
    assert drawn[0] != drawn[1]  # I/O is drawn anew in each set
    assert set(table["unfinished"].to_pylist()) == {0}
    # What was replayed is known by what is in the file, wherever it lies.
    (tmp_path / "jobs.swf").rename(tmp_path / "other.swf")
    trace.write_text(TRACE.replace("jobs.swf", "other.swf"))
    assert "0 runs simulated, 6 were already there" in run("simulate", trace, "--lake", lake, "--jobs", 1)[2]
    with (tmp_path / "other.swf").open("a") as file:
        file.write("41 999 0 3600 512 -1 -1 512 -1 -1 1 1 1 1 1 1 -1 -1\n")
    assert "6 runs simulated; kept" in run("simulate", trace, "--lake", lake, "--jobs", 1)[2]
    assert run("simulate", "plot", "month", "--lake", lake, "--out", tmp_path / "drawn")[0] == 0


def test_a_table_of_jobs_is_replayed_as_well(
    run: Callable[..., tuple[int, str, str]], trace: Path, tmp_path: Path
) -> None:
    names = "start_time,end_time,nprocs,POSIX_BYTES_READ,POSIX_BYTES_WRITTEN"
    lines = [f"{1000 + 60 * n},{4000 + 60 * n},{42 * n},{n}e9,{n}e10" for n in range(1, 9)]
    (tmp_path / "jobs.csv").write_text("\n".join([names, *lines]) + "\n")
    text = TRACE.replace('"swf"', '"table"').replace("jobs.swf", "jobs.csv").replace("sets = 2", "")
    trace.write_text(text)
    code, out, _ = run("simulate", trace, "--lake", tmp_path / "lake", "--jobs", 1)
    assert code == 0
    assert "1 set per point" in out
    assert "8 jobs" in out
    trace.write_text(text.replace("days = 0.2", 'content = "0123456789abcdef"'))
    code, _, err = run("simulate", trace, "--lake", tmp_path / "lake")
    assert (code, "workload.content: the jobs" in err) == (5, True)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"jobs.swf"', '"none.swf"', "workload.path"),
        ('"jobs.swf"', '"month.toml"', "workload.path: none of"),
        ("forwarders = 3", "forwarders = 0", "workload.forwarders"),
        ("days = 0.2", "days = nan", "workload.days"),
        ("days = 0.2", 'machine = "summit"', "workload.machine"),
        ("days = 0.2", 'layer = "both"', "layer"),
        ('"dfra"', '"dfar"', "policies: there is no policy 'dfar'"),
        ('"dfra"', '"as it was"', "policies: there is no policy 'as it was'"),
        ("[workload]", "[machine]\nresources = 3\n[workload]", "machine: a replay has no such table"),
        ("[workload]", "[noise]\nshare = 0.1\n[workload]", "noise: a replay has no such table"),
        ("sets = 2", 'information = ["class-mean"]', "information"),
    ],
)
def test_bad_replays_are_refused_naming_the_field(
    old: str, new: str, said: str, run: Callable[..., tuple[int, str, str]], trace: Path, tmp_path: Path
) -> None:
    trace.write_text(TRACE.replace(old, new))
    code, _, err = run("simulate", trace, "--lake", tmp_path / "lake", "--jobs", 1)
    assert code == 5
    assert said in err


def test_ours_stands_beside_the_published(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    experiment = build_joint_study()
    small = msgspec.structs.replace(
        experiment, sets=1, workload=msgspec.structs.replace(experiment.workload, applications=(30,), loads=(0.6,))
    )
    run_experiments([small], tmp_path / "lake", LocalWorkers())
    code, out, _ = run("simulate", "plot", "ours", "--lake", tmp_path / "lake", "--out", tmp_path / "drawn")
    assert code == 0
    page = Path(out.strip()).read_text()
    assert all(name in page for name in ("joint-light", "TCPU, Greedy-NC", "Machine idle time", "90th"))


def test_one_figure_and_the_conclusions_are_told(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    words = ("simulate", "scheduling-study", "--sets", 1, "-k", 30, "--jobs", 1, "--lake", tmp_path / "lake")
    code, out, _ = run(*words, "--figure", 9)
    assert code == 0
    assert "Machine idle time by allocation" in out
    code, out, _ = run("simulate", "scheduling-study", "--figure", 5, "--lake", tmp_path / "lake")
    assert code == 0
    assert [line.split()[-5:] for line in out.splitlines() if line.startswith("max")] == [
        ["62", "12", "83", "15", "17"]
    ]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("scheduling-studi",), 2, "perhaps scheduling-study"),
        (("scheduling-study", "--figure", "11"), 2, "no figure 11"),
        (("scheduling-study", "-k", "20", "--figure", "7"), 5, "20 applications on 20 resources have no load"),
        (("nowhere.toml",), 2, "cannot be read"),
        (("plot", "nothing", "--lake", "nowhere"), 2, "nothing was simulated here"),
    ],
)
def test_wrong_calls_are_refused(
    words: tuple[str, ...],
    code: int,
    said: str,
    run: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    found, _, err = run("simulate", *words)
    assert said in err
    assert found == code


def test_a_trace_is_replayed_and_says_what_it_dropped(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    jobs = [f"{n} {n * 900} 0 3600 512 -1 -1 512 -1 -1 1 {n % 3} 1 {n % 3} 1 1 -1 -1" for n in range(1, 41)]
    file = tmp_path / "small.swf"
    file.write_text("; a trace\n" + "\n".join([*jobs, "no job at all"]) + "\n")
    code, out, _ = run("simulate", "trace", file, "--policy", "static-map", "--lake", tmp_path / "lake", "--json")
    assert code == 0
    answer = json.loads(out)
    assert answer["lines"][0] == {**answer["lines"][0], "setting": "static-map", "value": 40.0}
    assert "40 of 41 jobs; dropped: 1" in answer["notes"][0]
    code, out, _ = run("simulate", "plot", "small.swf", "--lake", tmp_path / "lake", "--out", tmp_path / "drawn")
    assert code == 0
    assert "mean I/O slowdown" in Path(out.strip()).read_text()
    code, _, err = run("simulate", "trace", file, "--policy", "dfr", "--lake", tmp_path / "lake")
    assert (code, "perhaps dfra" in err) == (2, True)
    file.write_text("; nothing\n")
    code, _, err = run("simulate", "trace", file, "--lake", tmp_path / "lake")
    assert code == 3

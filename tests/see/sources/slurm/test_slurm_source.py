"""The Slurm source on outputs of a real small cluster and on written ones of other versions."""

from __future__ import annotations

import gzip
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from fairlead.core.errors import CorruptInputError, FairleadError, InputError, UnknownFormatError, UsageError
from fairlead.core.model.missing import Missing
from fairlead.see.sources.slurm import SlurmSource, json_jobs

NS = 1_000_000_000
HEADER = "JobID|JobIDRaw|Cluster|JobName|State|Submit|Start|End|NNodes|AllocCPUS|NTasks|NodeList|Comment"


def rows_of(items: Any) -> tuple[list[dict[str, Any]], dict[str, Missing]]:
    rows: list[dict[str, Any]] = []
    gaps: dict[str, Missing] = {}
    for item in items:
        if isinstance(item, pa.RecordBatch):
            item.validate(full=True)
            assert item.schema.metadata[b"fairlead.table"] == b"jobs"
            assert not item["job_id"].null_count
            rows += item.to_pylist()
        else:
            assert item.where
            gaps[item.kind] = item
    return rows, gaps


def read(path: Path, **options: Any) -> tuple[list[dict[str, Any]], dict[str, Missing]]:
    return rows_of(SlurmSource(**options).read(path))


@pytest.fixture
def folder(fixtures: Path) -> Path:
    return fixtures / "slurm"


def written(tmp_path: Path, *lines: str, header: str = HEADER) -> Path:
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def line(
    job: str,
    *,
    raw: str = "",
    state: str = "COMPLETED",
    start: str = "2024-01-01T00:00:10",
    tasks: str = "",
    name: str = "a",
    nodes: str = "n1",
    comment: str = "",
    end: str = "2024-01-01T00:01:00",
) -> str:
    return f"{job}|{raw or job}|c|{name}|{state}|2024-01-01T00:00:00|{start}|{end}|1|4|{tasks}|{nodes}|{comment}"


ALL_FORMS = ("sacct_P.txt", "sacct_P_all.txt", "squeue.json", "scontrol_show_job.txt", "jobcomp_filetxt.txt")


@pytest.mark.parametrize("name", ALL_FORMS)
def test_every_form_tells_the_same_of_one_cluster(folder: Path, name: str) -> None:
    rows = {row["job_id"]: row for row in read(folder / name, time_zone="UTC")[0]}
    assert sorted(rows) == ["1", "2", "3", "4", "5"]
    one = rows["1"]
    assert (one["name"], one["nodes"], one["state"]) == ("ior_demo", ["n1", "n2"], "COMPLETED")
    assert (one["submit_ns"], one["start_ns"], one["end_ns"]) == (1795249726 * NS, 1795249729 * NS, 1795249732 * NS)
    assert one["nodes_count"] == 2


def test_steps_fold_into_processes(folder: Path) -> None:
    rows = {row["job_id"]: row for row in read(folder / "sacct_P_all.txt")[0]}
    assert (rows["1"]["processes"], rows["1"]["cores"], rows["1"]["cluster"]) == (2, 2, "feas")
    assert (rows["2"]["processes"], rows["2"]["project"]) == (1, "root")


def test_external_steps_are_no_processes_and_far_steps_find_their_job(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        line("7"),
        line("7.batch", tasks="1"),
        line("7.extern", tasks="64"),
        line("7.0", tasks="12"),
        line("8"),
        line("7.1", tasks="16"),
        line("9.0", tasks="3"),
    )
    rows, gaps = read(path)
    assert {row["job_id"]: row["processes"] for row in rows} == {"7": 16, "8": None}
    assert "1 step" in gaps["steps_without_job"].what


def test_array_and_heterogeneous_jobs_have_their_own_numbers(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        line("40_1", raw="41"),
        line("40_1.0", raw="41.0", tasks="8"),
        line("40_[2-9%2]", raw="40"),
        line("50+0", raw="50"),
        line("50+1", raw="51"),
        line("50+1.0", raw="51.0", tasks="5"),
    )
    rows, gaps = read(path)
    assert [(row["job_id"], row["processes"]) for row in rows] == [("41", 8), ("40", None), ("50", None), ("51", 5)]
    assert "raw_job_ids" not in gaps
    bare = written(tmp_path, "40_1|COMPLETED", "40_1.0|COMPLETED", "50+1|FAILED", header="JobID|State")
    rows, gaps = read(bare)
    assert [row["job_id"] for row in rows] == ["40_1", "50+1"]
    assert "2 array" in gaps["raw_job_ids"].what


def test_requeued_jobs_are_several_and_repeated_rows_one(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        line("7", state="NODE_FAIL"),
        line("7", start="2024-01-02T00:00:00", state="RUNNING"),
        line("7", start="2024-01-02T00:00:00", state="COMPLETED"),
    )
    rows, _ = read(path)
    assert [row["state"] for row in rows] == ["NODE_FAIL", "COMPLETED"]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("CANCELLED by 380693", "CANCELLED"),
        ("CANCELLED+", "CANCELLED"),
        ("CD", "COMPLETED"),
        ("timeout", "TIMEOUT"),
        ("OUT_OF_MEMORY", "OUT_OF_MEMORY"),
        ("Unknown", None),
    ],
)
def test_states(tmp_path: Path, text: str, state: str | None) -> None:
    assert read(written(tmp_path, line("7", state=text)))[0][0]["state"] == state


def test_what_is_still_to_come_is_not_told(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        line("1", state="RUNNING"),
        line("2", state="PENDING", nodes="None assigned"),
        line("3", state="CANCELLED by 5", start="None", nodes="None assigned"),
    )
    running, pending, cancelled = read(path)[0]
    assert running["end_ns"] is None
    assert running["cores"] == 4
    for row in (pending, cancelled):
        assert [row[name] for name in ("start_ns", "nodes", "nodes_count", "cores")] == [None] * 4


def test_times(tmp_path: Path) -> None:
    starts = [
        "2024-07-01T12:00:00",
        "1719835200",
        "2024-07-01T12:00:00+0200",
        "2024-07-01T10:00:00Z",
        "Unknown",
        "1970-01-01T01:00:00",
        "Today 08:00",
        "9999-01-01T00:00:00",
    ]
    path = written(tmp_path, *(line(str(i + 1), start=s) for i, s in enumerate(starts)))
    rows, gaps = read(path, time_zone="Europe/Berlin")
    noon = 1719828000 * NS
    assert [row["start_ns"] for row in rows] == [noon, 1719835200 * NS, noon, noon, None, None, None, None]
    assert "2 fields" in gaps["unreadable_times"].what
    assert "time_zone_assumed" not in gaps
    rows, gaps = read(path)
    assert rows[0]["start_ns"] == noon + 7200 * NS
    assert "time_zone_assumed" in gaps


def test_times_around_a_clock_change(tmp_path: Path) -> None:
    path = written(tmp_path, line("1", start="2024-03-31T01:59:59"), line("2", start="2024-03-31T03:00:00"))
    rows, _ = read(path, time_zone="Europe/Berlin")
    assert rows[1]["start_ns"] - rows[0]["start_ns"] == NS


def test_free_text_may_hold_separators_and_line_ends(tmp_path: Path) -> None:
    header = "JobID|SubmitLine|JobName|State|Start|NodeList"
    tail = "COMPLETED|2024-01-01T00:00:10|n[1-2]"
    path = written(
        tmp_path,
        f"1|sbatch a|x|{tail}",
        f"2|srun a | tail -1 | cat|y|{tail}",
        f"3|sbatch --wrap=one\ntwo\n three|z|{tail}",
        f"4|plain|na|me|{tail}",
        "5|nonsense|a|b|c",
        f"6|sbatch b|w|{tail}",
        header=header,
    )
    rows, gaps = read(path)
    assert [row["job_id"] for row in rows] == ["1", "2", "3", "4", "6"]
    assert [row["name"] for row in rows][:3] == ["x", "y", "z"]
    assert {tuple(row["nodes"]) for row in rows} == {("n1", "n2")}
    assert gaps["unreadable_lines"].what == "1 line"
    assert "line 8" in gaps["unreadable_lines"].why


def test_separators_at_the_end_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    path.write_bytes(b"JobID|State|NodeList|\r\n1|COMPLETED|n1|\r\n\r\nJobID|State|NodeList|\r\n2|FAILED|n2|\r\n")
    rows, gaps = read(path)
    assert [(row["job_id"], row["state"], row["nodes"]) for row in rows] == [
        ("1", "COMPLETED", ["n1"]),
        ("2", "FAILED", ["n2"]),
    ]
    assert "unreadable_lines" not in gaps


def test_columns_of_a_header_less_file_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "n.txt"
    path.write_text("5;COMPLETED;c[1-3]\n6;FAILED;c4\n")
    with pytest.raises(UnknownFormatError, match="not a Slurm output"):
        read(path)
    rows, _ = read(path, columns=["JobID", "State", "NodeList"], separator=";")
    assert [(row["job_id"], len(row["nodes"])) for row in rows] == [("5", 3), ("6", 1)]


def test_allocated_resources_are_read_from_tres(tmp_path: Path) -> None:
    path = written(tmp_path, "1|COMPLETED|billing=8,cpu=8,gres/gpu=2,node=3", header="JobID|State|AllocTRES")
    assert [(row["cores"], row["nodes_count"]) for row in read(path)[0]] == [(8, 3)]


def test_a_hostile_node_list_is_a_gap(tmp_path: Path) -> None:
    path = written(tmp_path, line("1", nodes="n[0-999999999]"), line("2", nodes="n[1-"), line("3", nodes="n[1-2]"))
    rows, gaps = read(path)
    assert [row["nodes"] for row in rows] == [None, None, ["n1", "n2"]]
    assert "n[0-999999999]" in gaps["node_list_too_large"].why
    assert "n[1-" in gaps["node_list_malformed"].why


def test_batches_of_many_nodes_are_split(tmp_path: Path) -> None:
    path = written(tmp_path, *(line(str(i), nodes="n[1-100000]") for i in range(1, 31)))
    sizes = [
        (item.num_rows, len(item["nodes"].flatten()))
        for item in SlurmSource().read(path)
        if isinstance(item, pa.RecordBatch)
    ]
    assert sum(rows for rows, _ in sizes) == 30
    assert max(names for _, names in sizes) <= (1 << 20) + 100_000


def test_newer_accounting_json(folder: Path) -> None:
    rows, gaps = read(folder / "sacct_v0041.json")
    done, waits = rows
    assert (done["job_id"], done["user"], done["project"], done["cluster"]) == ("127", "bob", "phys", "hpc1")
    assert done["nodes"] == ["c001", "c002", "d7"]
    assert (done["cores"], done["nodes_count"], done["processes"], done["state"]) == (96, 3, 48, "COMPLETED")
    assert (done["submit_ns"], done["start_ns"], done["end_ns"]) == (1715000000 * NS, 1715000010 * NS, 1715000070 * NS)
    assert (waits["user"], waits["start_ns"], waits["nodes"], waits["cores"]) == ("eve", None, None, None)
    assert not gaps


def test_newer_controller_json(folder: Path) -> None:
    running, pending = read(folder / "squeue_v0041.json")[0]
    assert (running["nodes"], running["cores"], running["processes"]) == (["n3", "n5"], 8, 4)
    assert (running["end_ns"], running["start_ns"]) == (None, 1715000010 * NS)
    assert (pending["start_ns"], pending["nodes_count"], pending["processes"]) == (None, None, None)


def test_json_job_by_job_gives_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = ("sacct_v0041.json", "squeue_v0041.json", "squeue.json")
    whole = {name: read(folder / name) for name in names}
    monkeypatch.setattr(json_jobs, "_WHOLE_BYTES", 0)
    for name in names:
        assert read(folder / name) == whole[name]
        (tmp_path / "x").write_bytes(gzip.compress((folder / name).read_bytes()))
        assert read(tmp_path / "x")[0] == whole[name][0]


def test_a_cut_document_gives_its_whole_jobs(folder: Path, tmp_path: Path) -> None:
    document = json.loads((folder / "squeue.json").read_text())
    compact = json.dumps({"jobs": document["jobs"], "meta": document["meta"]})
    ends = [match.start() for match in re.finditer(r'\}, \{"account"', compact)]
    path = tmp_path / "cut.json"
    path.write_text(compact[: ends[2] + 1])
    rows, gaps = read(path)
    assert [row["job_id"] for row in rows] == ["1", "2", "3"]
    assert "truncated" in gaps


def test_odd_shapes_of_single_jobs_do_not_hide_the_others(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(
        '{"jobs": [{"job_id": 1}, 7, {"job_id": 2, "steps": "none"}, {"job_id": null}, {"job_id": 3, "state": 5,'
        ' "time": {"start": 1e300}, "tres": {"allocated": "x"}}], "meta": {"Slurm": {}}}'
    )
    rows, gaps = read(path)
    assert [row["job_id"] for row in rows] == ["1", "3"]
    assert "3 jobs" in gaps["unreadable_records"].what


def test_one_line_records(folder: Path, tmp_path: Path) -> None:
    text = (folder / "scontrol_show_job.txt").read_text()
    records = [" ".join(block.split()) for block in text.split("\n\n") if block.strip()]
    path = tmp_path / "oneliner.txt"
    path.write_text("\n".join(records).replace("JobName=rootjob", "JobName=two words") + "\n")
    rows, _ = read(path)
    assert len(rows) == 5
    assert rows[1]["name"] == "two words"
    assert {row["user"] for row in rows} == {"alice", "root"}
    running = [row for row in rows if row["state"] == "RUNNING"]
    assert running
    assert {row["end_ns"] for row in running} == {None}


def test_kept_sacct_rows(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    row = {"jobidraw": "5", "start": "2017-03-20T01:59:02", "end": "2017-03-20T02:11:38", "nodelist": ["a1", "a2"]}
    path.write_text(json.dumps({"5.0": {**row, "jobidraw": "5.0"}, "5": row}))
    rows, gaps = read(path, time_zone="America/Los_Angeles")
    wanted = datetime(2017, 3, 20, 1, 59, 2, tzinfo=ZoneInfo("America/Los_Angeles")).timestamp()
    assert [(r["job_id"], r["nodes"], r["start_ns"]) for r in rows] == [("5", ["a1", "a2"], int(wanted) * NS)]
    assert not gaps


@pytest.mark.parametrize("name", [*ALL_FORMS, "squeue_all.txt", "sacct_v0041.json", "squeue_v0041.json"])
def test_accepts_by_content(folder: Path, name: str) -> None:
    assert SlurmSource().accepts((folder / name).read_bytes()[:8192], Path("x"))


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\0\1",
        b"a|b|c\n1|2|3\n",
        b'{"jobs": 5}',
        b'{"jobs": [{"name": "x"}]}',
        b"NodeName=n1\n",
        b"1795249729 nonsense job=1\n",
        b"1|2\n",
        b'[{"id": 1, "name": "open"}\n',
        b"JobId\n",
        b"[2018-09-10 14:16:52] T OPEN() /x || 2018-09-10T06:16:53Z || h\n",
    ],
)
def test_accepts_nothing_else(head: bytes) -> None:
    assert not SlurmSource().accepts(head, Path("sacct.txt"))


def test_empty_results_and_clear_errors(tmp_path: Path) -> None:
    rows, gaps = read(written(tmp_path))
    assert (rows, "no_jobs" in gaps) == ([], True)
    path = tmp_path / "x"
    for content, error in (
        (b"", CorruptInputError),
        (b" \n", CorruptInputError),
        (b"hello\n", UnknownFormatError),
        (b"\x1f\x8b\x08\x00no", CorruptInputError),
    ):
        path.write_bytes(content)
        with pytest.raises(error) as caught:
            read(path)
        assert caught.value.where == str(path)
        assert caught.value.remedy
    path.write_text("JobID           State\n------------ ----------\n1             COMPLETED\n")
    assert SlurmSource().accepts(path.read_bytes(), path)
    with pytest.raises(UnknownFormatError, match="aligned") as caught:
        read(path)
    assert "sacct -P" in (caught.value.remedy or "")
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "absent")
    with pytest.raises(UsageError, match="time zone"):
        SlurmSource(time_zone="Mars/Olympus")
    with pytest.raises(UsageError, match="separator"):
        SlurmSource(separator="||")


def test_an_unterminated_last_line_is_read_when_whole(tmp_path: Path) -> None:
    path = written(tmp_path, line("1"), line("2"))
    path.write_text(path.read_text().rstrip("\n"))
    rows, gaps = read(path)
    assert len(rows) == 2
    assert "unterminated_line" in gaps
    path.write_text(path.read_text()[:-20])
    rows, gaps = read(path)
    assert [row["job_id"] for row in rows] == ["1"]
    assert "unreadable_lines" in gaps


@pytest.mark.parametrize("name", [*ALL_FORMS, "squeue_all.txt", "sacct_v0041.json"])
def test_every_truncation_gives_jobs_or_one_clear_error(folder: Path, tmp_path: Path, name: str) -> None:
    raw = (folder / name).read_bytes()
    whole = {row["job_id"] for row in read(folder / name)[0]}
    path = tmp_path / "cut"
    faults: list[FairleadError] = []
    for end in range(0, len(raw), max(1, len(raw) // 150)):
        path.write_bytes(raw[:end])
        try:
            got = {row["job_id"] for row in read(path)[0]}
        except FairleadError as error:
            faults.append(error)
        else:
            assert len(got - whole) <= (name == "jobcomp_filetxt.txt"), end
    assert faults
    assert all(error.remedy and error.where for error in faults)


@pytest.mark.parametrize("block_bytes", [1, 300, 1000, 1 << 20])
@pytest.mark.parametrize("name", ["sacct_P.txt", "sacct_P_all.txt", "scontrol_show_job.txt"])
def test_block_size_does_not_matter(folder: Path, name: str, block_bytes: int) -> None:
    assert read(folder / name, block_bytes=block_bytes) == read(folder / name)


@pytest.mark.shared_data
def test_public_sacct_log_against_a_plain_reading(shared_data: Path) -> None:
    path = shared_data / "slurm" / "phillips.sacct.log.gz"
    plain = [text.split("|") for text in gzip.decompress(path.read_bytes()).decode().splitlines()]
    rows, gaps = read(path, time_zone="America/New_York")
    assert len(rows) == len(plain) == 4285
    zone = ZoneInfo("America/New_York")
    for row, fields in zip(rows, plain, strict=True):
        assert (row["job_id"], row["cluster"], row["user"], row["name"]) == (
            fields[1],
            fields[2],
            fields[8],
            fields[25],
        )
        assert (row["state"], row["project"]) == (fields[16].split()[0], fields[5])
        start = datetime.fromisoformat(fields[12]).replace(tzinfo=zone).timestamp()
        assert row["start_ns"] == int(start) * NS
        if row["nodes"] is not None:
            assert len(row["nodes"]) == int(fields[17]) == row["nodes_count"]
            assert row["cores"] == int(fields[18])
    assert sum(row["nodes"] is None for row in rows) == sum(fields[24] == "None assigned" for fields in plain)
    assert set(gaps) <= {"node_list_malformed"}


@pytest.mark.shared_data
def test_other_public_slurm_files(shared_data: Path) -> None:
    rest = read(shared_data / "slurm" / "slurmrestd" / "testcases" / "gather" / "responses" / "jobs.json")[0]
    document = json.loads((shared_data / "slurm/slurmrestd/testcases/gather/responses/jobs.json").read_text())
    assert [(row["job_id"], row["cores"]) for row in rest] == [(str(j["job_id"]), j["cpus"]) for j in document["jobs"]]
    kept = read(shared_data / "pytokio" / "sample.slurm")[0]
    assert [(row["job_id"], len(row["nodes"])) for row in kept] == [("4478544", 128)]
    account = {row["job_id"]: row for row in read(shared_data / "own" / "slurm" / "slurm_sacct.json")[0]}
    text = {row["job_id"]: row for row in read(shared_data / "own" / "slurm" / "slurm_sacct_P_all.txt")[0]}
    for job_id, row in account.items():
        # The old JSON leaves users out; everything else is the same.
        assert {**row, "user": None, "project": None} == {**text[job_id], "user": None, "project": None}

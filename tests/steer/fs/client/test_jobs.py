"""Job and rank of a process, from fabricated /proc entries."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.steer.fs.client.job_identity import Jobs, find_job_identity, parse_job_environment, parse_job_start_time

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("environment", "cgroup", "expected"),
    [
        ({}, b"0::/user.slice\n", ("", -1)),
        ({b"SLURM_JOB_ID": b"12", b"SLURM_PROCID": b"3"}, b"", ("12", 3)),
        ({b"SLURM_JOB_ID": b"12"}, b"0::/system.slice/slurmstepd.scope/job_34/step_0/user/task_1\n", ("34", -1)),
        ({b"FAIRLEAD_JOB_ID": b"own", b"FAIRLEAD_RANK": b"1"}, b"1:cpu:/slurm/uid_1/job_34/step_0\n", ("own", 1)),
        ({b"PBS_JOBID": b"99.server", b"OMPI_COMM_WORLD_RANK": b"7"}, b"", ("99.server", 7)),
        ({b"LSB_JOBID": b"5", b"LSB_JOBINDEX": b"2", b"PMIX_RANK": b"0"}, b"", ("5[2]", 0)),
        ({b"LSB_JOBID": b"5", b"LSB_JOBINDEX": b"0"}, b"", ("5", -1)),
        ({b"SLURM_PROCID": b"no number"}, b"", ("", -1)),
        ({}, b"0::/job_12x/y\n", ("", -1)),
    ],
)
def test_identify(environment: dict[bytes, bytes], cgroup: bytes, expected: tuple[str, int]) -> None:
    assert find_job_identity(environment, cgroup) == expected


def test_parsing() -> None:
    assert parse_job_environment(b"A=1\0B=x=y\0C=\0\0") == {b"A": b"1", b"B": b"x=y", b"C": b""}
    assert parse_job_start_time(b"12 (a) b) S " + b" ".join(b"%d" % n for n in range(1, 40))) == 19
    assert parse_job_start_time(b"") == 0


class Proc:
    """A folder like /proc."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, pid: int, started: int, environment: bytes = b"") -> None:
        place = self.folder / str(pid)
        place.mkdir(exist_ok=True)
        fields = " ".join(["0"] * 18 + [str(started)] + ["0"] * 20)
        (place / "stat").write_text(f"{pid} (program) S {fields}")
        (place / "environ").write_bytes(environment)
        (place / "cgroup").write_bytes(b"0::/\n")


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_an_index_for_each_job_rank_and_user(proc: Proc) -> None:
    jobs = Jobs(node="n1", proc=str(proc.folder))
    proc.put(10, 1, b"SLURM_JOB_ID=5\0SLURM_PROCID=0\0")
    proc.put(11, 1, b"SLURM_JOB_ID=5\0SLURM_PROCID=1\0")
    proc.put(12, 1, b"SLURM_JOB_ID=5\0SLURM_PROCID=1\0")
    proc.put(13, 1)
    assert [jobs.find(pid, 0, 0) for pid in (10, 11, 12, 13, 0, 99)] == [1, 2, 2, 0, 0, 0]
    assert jobs.find(12, 1234567, 2 * SECOND) == 2, "the process is the same"
    assert jobs.unannounced == [1, 2]
    identity = jobs.identities[2]
    assert (identity.job_id, identity.rank, identity.node, identity.user) == ("5", 1, "n1", "root")


def test_a_process_number_that_is_used_again_is_another_process(proc: Proc) -> None:
    jobs = Jobs(node="n1", proc=str(proc.folder))
    proc.put(10, 1, b"SLURM_JOB_ID=5\0")
    assert jobs.find(10, 0, 0) == 1
    proc.put(10, 2, b"SLURM_JOB_ID=6\0")
    assert jobs.find(10, 0, 2 * SECOND) == 2


def test_a_process_may_become_a_job_after_it_was_seen(proc: Proc) -> None:
    jobs = Jobs(node="n1", proc=str(proc.folder))
    proc.put(10, 1)
    assert jobs.find(10, 0, 0) == 0
    proc.put(10, 1, b"SLURM_JOB_ID=5\0")
    assert jobs.find(10, 0, 2 * SECOND) == 1


def test_the_jobless_belong_to_the_mounts_job(proc: Proc) -> None:
    jobs = Jobs(job="login", node="n1", proc=str(proc.folder))
    proc.put(10, 1)
    assert jobs.find(10, 0, 0) == 1
    assert jobs.identities[1].job_id == "login"


def test_a_fresh_hit_is_found_without_asking(proc: Proc) -> None:
    jobs = Jobs(node="n1", proc=str(proc.folder))
    proc.put(10, 1, b"SLURM_JOB_ID=5\0")
    jobs.find(10, 0, 100)
    index, until, _, _ = jobs.known[10]
    assert (index, until) == (1, 100 + SECOND)

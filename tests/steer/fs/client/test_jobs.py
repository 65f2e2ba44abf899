"""Job and rank of a process, from fabricated /proc entries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairlead.steer.fs.client.job_identity import Jobs, find_job_identity, parse_job_environment, parse_job_start_time

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("environment", "cgroup", "expected"),
    [
        ({}, b"0::/user.slice\n", ("", -1)),
        ({b"FAIRLEAD_JOB_ID": b"own"}, b"0::/system.slice/n1_slurmstepd.scope/job_34/step_0/user/task_1\n", ("34", -1)),
        # A user may name a cgroup below his own session as he likes.
        ({}, b"0::/user.slice/user-7.slice/user@7.service/system.slice/slurmstepd.scope/job_9/step_0\n", ("", -1)),
        ({}, b"4:memory:/user.slice/slurm/uid_7/job_9/step_0\n", ("", -1)),
        ({b"SLURM_JOB_ID": b"12", b"SLURM_PROCID": b"3"}, b"", ("12", 3)),
        ({b"SLURM_JOB_ID": b"12"}, b"0::/system.slice/slurmstepd.scope/job_34/step_0/user/task_1\n", ("34", -1)),
        ({b"FAIRLEAD_JOB_ID": b"own", b"FAIRLEAD_RANK": b"1"}, b"1:cpu:/slurm/uid_1/job_34/step_0\n", ("34", 1)),
        ({b"PBS_JOBID": b"99.server", b"OMPI_COMM_WORLD_RANK": b"7"}, b"", ("99.server", 7)),
        ({b"LSB_JOBID": b"5", b"LSB_JOBINDEX": b"2", b"PMIX_RANK": b"0"}, b"", ("5[2]", 0)),
        ({b"LSB_JOBID": b"5", b"LSB_JOBINDEX": b"0"}, b"", ("5", -1)),
        ({b"SLURM_PROCID": b"no number"}, b"", ("", -1)),
        ({}, b"0::/job_12x/y\n", ("", -1)),
    ],
)
def test_identify(environment: dict[bytes, bytes], cgroup: bytes, expected: tuple[str, int]) -> None:
    job, rank, source = find_job_identity(environment, cgroup)
    assert (job, rank) == expected
    assert (source == "cgroup") == (b"slurm" in cgroup and job == "34")


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


def test_another_user_s_environment_is_not_believed(proc: Proc) -> None:
    environment = b"FAIRLEAD_JOB_ID=5\0SLURM_CLUSTER_NAME=other\0"
    proc.put(10, 1, environment)
    proc.put(11, 1, environment)
    jobs = Jobs(node="n1", cluster="here", proc=str(proc.folder))
    assert jobs.find(10, 12345, 0) == 0
    assert jobs.find(11, os.geteuid(), 0) == 1
    believing = Jobs(node="n1", cluster="here", proc=str(proc.folder), all_environments=True)
    assert believing.find(10, 12345, 0) == 1
    assert believing.identities[1].source == "environment"


def test_what_a_prolog_has_signed_goes_along_if_only_root_could_write_it(proc: Proc, tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root is a prolog")
    claims = tmp_path / "claims"
    claims.mkdir(mode=0o755)
    (claims / "5").write_text("signed\n")
    (claims / "5").chmod(0o644)
    proc.put(10, 1, b"SLURM_JOB_ID=5\0")
    assert _proof(proc, claims) == "signed"
    (claims / "5").chmod(0o666)
    assert _proof(proc, claims) == ""
    (claims / "5").chmod(0o644)
    claims.chmod(0o777)
    assert _proof(proc, claims) == ""


def _proof(proc: Proc, claims: Path) -> str:
    jobs = Jobs(node="n1", proc=str(proc.folder), claims=str(claims))
    return jobs.identities[jobs.find(10, 0, 0)].proof

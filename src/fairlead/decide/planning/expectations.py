"""What arriving jobs are expected to do: earlier runs of their programs in the lake, looked up for many jobs at once.

Not here: what is made of the runs (`policies.next_run.expectation`), what the machine is like (`site`).
"""
# ruff: noqa: S608  (names of columns and numbers are ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fairlead.decide.policies.next_run.expectation import LISTS, NUMBERS, WORDS, Job, Past
from fairlead.decide.policies.next_run.expectation import build_next_run_expectation as expected_of_runs
from fairlead.decide.policies.paths.contract import ExpectedJob
from fairlead.explain.questions.lake_queries import Tables, build_day_filter, query_lake
from fairlead.explain.questions.span import DAY_NS, Span

REACH_NS = 120 * DAY_NS
"""Runs that began longer ago are not looked at."""
MOST_RUNS = 100
"""So many of the latest runs of a program by a user are looked at ..."""
MOST_OTHERS = 1000
"""... and so many of the latest by anybody, for jobs never seen."""
_OWN = "list_last(string_split(split_part(trim(program), ' ', 1), '/'))"


@dataclass(frozen=True, kw_only=True)
class Arriving:
    """A job that arrives: what is known of it before it runs. `nodes` may not be known yet."""

    job_id: str
    user: str = ""
    program: str = ""
    node_count: int = 1
    nodes: tuple[str, ...] = ()
    cores: float = 0.0
    processes: int | None = None


def _strip_program(program: str) -> str:
    """A program without its folder and arguments: what runs of it have in common."""
    return program.strip().split(" ")[0].rsplit("/", 1)[-1]


def find_expectation_runs(lake: Tables, programs: Iterable[str], at_ns: int) -> Past:
    """Runs that ended before `at_ns`, programs by their own names: the latest of these programs, and the latest of all
    that moved anything. One query. Raises LakeError."""
    span = Span(max(at_ns - REACH_NS, 0), at_ns)
    # Counters and names only; a program's folder is where somebody installed it, not what it does.
    columns = ", ".join(f'"{name}"' for name in (*NUMBERS, *WORDS, *LISTS) if name != "program")
    found = query_lake(
        lake,
        f"SELECT {columns}, program FROM (SELECT * EXCLUDE (program), {_OWN} AS program FROM job_summary"
        f" WHERE end_ns IS NOT NULL AND end_ns <= {at_ns} AND start_ns >= {span.from_ns} AND start_ns < {span.to_ns}"
        f" AND {build_day_filter(span)}) QUALIFY (program IN (SELECT unnest($programs)) AND row_number() OVER"
        f" (PARTITION BY"
        f' program, "user" ORDER BY start_ns DESC, job_id) <= {MOST_RUNS}) OR row_number() OVER (ORDER BY'
        f" coalesce(read_bytes, 0) + coalesce(write_bytes, 0) > 0 DESC, start_ns DESC, job_id) <= {MOST_OTHERS}",
        {"programs": sorted({_strip_program(program) for program in programs})},
        within=span,
    )
    return Past.from_rows(found)


def build_job_expectation(job: Arriving, runs: Past, node_ids: Sequence[int], at_ns: int) -> ExpectedJob:
    """What is expected of a job, of runs as `find_expectation_runs` gives them."""
    asked = Job(
        job_id=job.job_id,
        user=job.user,
        program=_strip_program(job.program),
        node_count=job.node_count,
        node_ids=tuple(node_ids),
        cores=job.cores,
        processes=job.processes,
        start_ns=at_ns,
    )
    return expected_of_runs(runs, asked)

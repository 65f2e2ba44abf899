"""Lines of Prolog and Epilog scripts (`SECONDS.FRACTION prolog|epilog[ctl] key=value ...`) as jobs; the log of a
burst_buffer.lua as events. Not here: the script (`deploy/slurm`), the feed that reads its files (`collector.feeds`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from fairlead.core.model.tables import EVENTS, JOBS, build_table_batch, build_table_word_column
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.see.sources.node_lists import NodeListError
from fairlead.see.sources.slurm.hostlist import expand_hostlist

HOOK = re.compile(r"(\d{9,11})(?:\.(\d{1,9}))? (prolog|epilog)(?:ctl|slurmctld)? (job=\d+(?: .*)?)$")
STAGE = re.compile(
    r"(\d{9,11}) (job_process|setup|(?:test_)?data_(?:in|out)|real_size|paths|pre_run|post_run|teardown)"
    r" (\S+)(?: (.*))?$"
)
_PAIR = re.compile(r"(?:^| )([a-z_]+)=(.*?)(?= [a-z_]+=|$)")
_EMPTY = ("", "(null)", "N/A", "unknown", "Unknown")


@dataclass(frozen=True)
class Call:
    """One run of a hook. `at_ns` is the hook's clock; `start_s` and `end_s` what Slurm told it, where it does."""

    at_ns: int
    ends: bool
    job_id: str
    values: dict[str, str] = field(default_factory=dict)

    @property
    def start_s(self) -> int | None:
        """When Slurm says the job began."""
        return _seconds(self.values.get("start"))

    @property
    def nodes(self) -> list[str]:
        """Nodes of the job, or the one node the hook ran on."""
        listed = self.values.get("nodes")
        if not listed:
            return [self.values["node"]] if "node" in self.values else []
        try:
            return expand_hostlist(listed)
        except NodeListError:
            return []


def parse_hook_call(line: str) -> Call | None:
    """The call a line tells of; None for another line."""
    match = HOOK.match(line.strip())
    if match is None:
        return None
    values = {key: value for key, value in _PAIR.findall(match.group(4)) if value not in _EMPTY}
    fraction = int((match.group(2) or "0").ljust(9, "0"))
    job_id = values.pop("job")
    return Call(int(match.group(1)) * NS_PER_S + fraction, match.group(3) == "epilog", job_id, values)


@dataclass
class HookJob:
    """What the calls of one job tell together."""

    cluster: str | None
    job_id: str
    start_ns: int | None = None
    end_ns: int | None = None
    exact: bool = False
    """Whether Slurm told the start; else it is the second of the first hook, perhaps one late."""
    values: dict[str, str] = field(default_factory=dict)
    nodes: list[str] = field(default_factory=list)

    def add(self, call: Call) -> None:
        """Counts one call in."""
        self.values |= call.values
        whole = call.nodes if "nodes" in call.values else [*self.nodes, *call.nodes]
        if len(whole) >= len(self.nodes):
            self.nodes = list(dict.fromkeys(whole))
        if call.start_s is not None:
            self.start_ns, self.exact = call.start_s * NS_PER_S, True
        elif not call.ends and not self.exact:
            second = call.at_ns // NS_PER_S * NS_PER_S
            self.start_ns = second if self.start_ns is None else min(self.start_ns, second)
        if call.ends:
            second = call.at_ns // NS_PER_S * NS_PER_S
            self.end_ns = second if self.end_ns is None else max(self.end_ns, second)


def group_hook_calls(calls: Iterable[Call]) -> list[HookJob]:
    """Jobs in the order of their first call. A prolog after a job's epilog by more than a minute begins another run."""
    runs: list[HookJob] = []
    open_runs: dict[tuple[str | None, str], HookJob] = {}
    for call in sorted(calls, key=lambda call: call.at_ns):
        key = (call.values.get("cluster"), call.job_id)
        run = open_runs.get(key)
        again = run is not None and run.end_ns is not None and not call.ends and call.at_ns > run.end_ns + 60 * NS_PER_S
        if run is None or again:
            run = open_runs[key] = HookJob(*key)
            runs.append(run)
        run.add(call)
    return runs


def build_hook_jobs(jobs: Iterable[HookJob]) -> pa.RecordBatch:
    """`jobs` rows; how a job ended is not known to a hook."""
    rows = list(jobs)

    def texts(name: str) -> list[str | None]:
        return [row.values.get(name) for row in rows]

    return build_table_batch(
        JOBS,
        {
            "cluster": [row.cluster for row in rows],
            "job_id": [row.job_id for row in rows],
            "name": texts("name"),
            "user": texts("user"),
            "project": texts("account"),
            "partition": texts("partition"),
            "start_ns": pa.array([row.start_ns for row in rows], pa.int64()),
            "end_ns": pa.array([row.end_ns for row in rows], pa.int64()),
            "nodes": [row.nodes or None for row in rows],
            "nodes_count": pa.array([len(row.nodes) or None for row in rows], pa.int64()),
            "state": [None if row.end_ns is not None else "RUNNING" for row in rows],
        },
    )


def read_hook_stages(lines: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """`events` of the steps of a burst buffer: kind `burst_buffer`, component `job:ID` where the step names one."""
    found = [match for line in lines if (match := STAGE.match(line.strip())) is not None]
    if found:
        yield build_table_batch(
            EVENTS,
            {
                "ts_ns": [int(match.group(1)) * NS_PER_S for match in found],
                "component": [
                    f"job:{match.group(3)}" if match.group(3).isdigit() else "burst_buffer" for match in found
                ],
                "kind": build_table_word_column("burst_buffer", len(found)),
                "text": [" ".join(part for part in match.groups()[1:] if part) for match in found],
            },
        )


def _seconds(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() and len(text) <= 11 else None

"""`scontrol show job` (blocks or -o lines) and the job completion plugin's filetxt lines: `Key=Value` text of jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from fairlead.see.sources.line_blocks import Block
from fairlead.see.sources.node_lists import NodeLists
from fairlead.see.sources.slurm.fields import Reading
from fairlead.see.sources.slurm.job_columns import build_text_columns, build_text_job_columns

BEGINS = re.compile(r"^JobId=", re.MULTILINE)
_NAME = re.compile(r"\s(?:Job)?Name=(.*?)(?=\n|\sUserId=|\sJobState=|$)")
_USER = re.compile(r"\sUserId=([^\s(]+)")
_VALUE = re.compile(
    r"\s(Account|Partition|Cluster|JobState|SubmitTime|StartTime|EndTime|NodeList|NumNodes|NodeCnt|NumCPUs|ProcCnt|NumTasks)"
    r"=(\S*)"
)
_FIELDS = {
    "Account": "project",
    "Partition": "partition",
    "Cluster": "cluster",
    "JobState": "state",
    "SubmitTime": "submit",
    "StartTime": "start",
    "EndTime": "end",
    "NodeList": "nodes",
    "NumNodes": "nodes_count",
    "NodeCnt": "nodes_count",
    "NumCPUs": "cores",
    "ProcCnt": "cores",
    "NumTasks": "processes",
}


class KeyValues:
    """Reads the blocks of one file; the last job of a block is held until the next begins."""

    def __init__(self, nodes: NodeLists, reading: Reading) -> None:
        self._nodes = nodes
        self._reading = reading
        self._held = ""
        self._row = 0

    def read_batches(self, block: Block) -> Iterator[pa.RecordBatch]:
        """Batches of a block. The unterminated last line belongs to the last job, whose fields it may cut."""
        text = self._held + block.data.decode("utf-8", "replace").replace("\r\n", "\n")
        starts = [match.start() for match in BEGINS.finditer(text)]
        ends = [*starts[1:], len(text)]
        self._held = ""
        if not block.last and starts:
            self._held = text[starts[-1] :]
            starts, ends = starts[:-1], ends[:-1]
        rows = []
        for start, end in zip(starts, ends, strict=True):
            self._row += 1
            row = _job(text[start:end])
            if row is None:
                self._reading.count_unreadable(self._row, text[start : min(end, start + 60)])
            else:
                rows.append(row)
        if rows:
            yield from build_text_job_columns(build_text_columns(rows), self._nodes, self._reading)


def _job(text: str) -> dict[str, str | None] | None:
    """Fields of one job; None without a number or a state."""
    head = re.match(r"JobId=(\d+)(?=\s)", text)
    if head is None:
        return None
    row: dict[str, str | None] = {"job_id": head.group(1)}
    for key, value in _VALUE.findall(text):
        row.setdefault(_FIELDS[key], value)
    name, user = _NAME.search(text), _USER.search(text)
    row["name"] = name.group(1).strip() if name else None
    row["user"] = user.group(1) if user else None
    if row.get("cluster") == "unknown":
        row["cluster"] = None
    return row if row.get("state") else None

"""What the fields of Slurm's outputs mean, whatever form they come in: names, states, times, counts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.see.sources.local_time import convert_local_to_utc_ns

NO_VALUE = ("", "None", "None assigned", "(null)", "N/A", "n/a", "Unknown", "NULL")
"""How Slurm writes that there is none."""

FIELD_OF = {
    "jobid": "job_label",
    "jobidraw": "job_id",
    "jobname": "name",
    "name": "name",
    "user": "user",
    "username": "user",
    "account": "project",
    "partition": "partition",
    "cluster": "cluster",
    "submit": "submit",
    "submittime": "submit",
    "start": "start",
    "starttime": "start",
    "end": "end",
    "endtime": "end",
    "state": "state",
    "jobstate": "state",
    "allocnodes": "nodes_count",
    "nnodes": "nodes_count",
    "nodes": "nodes_count",
    "numnodes": "nodes_count",
    "alloccpus": "cores",
    "ncpus": "cores",
    "cpus": "cores",
    "numcpus": "cores",
    "ntasks": "processes",
    "tasks": "processes",
    "numtasks": "processes",
    "nodelist": "nodes",
    "alloctres": "tres",
}
"""Our field by the column names of sacct and squeue (lower case, no underscores); earlier names win."""

XDMOD_COLUMNS = (
    "JobID",
    "JobIDRaw",
    "Cluster",
    "Partition",
    "QOS",
    "Account",
    "Group",
    "GID",
    "User",
    "UID",
    "Submit",
    "Eligible",
    "Start",
    "End",
    "Elapsed",
    "ExitCode",
    "State",
    "NNodes",
    "NCPUS",
    "ReqCPUS",
    "ReqMem",
    "ReqTRES",
    "AllocTRES",
    "Timelimit",
    "NodeList",
    "JobName",
)
"""Columns of the header-less `sacct` log that Open XDMoD documents and many sites keep."""

_SHORT_STATES = {
    "BF": "BOOT_FAIL",
    "CA": "CANCELLED",
    "CD": "COMPLETED",
    "CF": "CONFIGURING",
    "CG": "COMPLETING",
    "DL": "DEADLINE",
    "F": "FAILED",
    "NF": "NODE_FAIL",
    "OOM": "OUT_OF_MEMORY",
    "PD": "PENDING",
    "PR": "PREEMPTED",
    "R": "RUNNING",
    "RD": "RESV_DEL_HOLD",
    "RF": "REQUEUE_FED",
    "RH": "REQUEUE_HOLD",
    "RQ": "REQUEUED",
    "RS": "RESIZING",
    "RV": "REVOKED",
    "SI": "SIGNALING",
    "SE": "SPECIAL_EXIT",
    "SO": "STAGE_OUT",
    "ST": "STOPPED",
    "S": "SUSPENDED",
    "TO": "TIMEOUT",
}
STATES = frozenset(_SHORT_STATES.values()) | {"LAUNCH_FAILED", "RECONFIG_FAIL", "POWER_UP_NODE", "EXPEDITING"}
_RUNS = ("RUNNING", "SUSPENDED", "CONFIGURING", "RESIZING", "SIGNALING", "STOPPED")
_WAITS = ("PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT")
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:?\d\d)?")
_FIRST_S, _LAST_S = 86_400, 7_258_118_400
"""Times of the first day of 1970 mean `not set`; later than 2200 is no time of a job."""


@dataclass
class Reading:
    """Options and counts of one file being read. `zone` None: UTC is assumed, and `assumed` says it was needed."""

    zone: str | None
    assumed: bool = False
    unreadable_times: int = 0
    unreadable_rows: int = 0
    first_row: int | None = None
    example: str = ""
    overlong: int = 0
    orphan_steps: int = 0
    array_labels: int = 0
    jobs: int = 0
    faults: list[str] = field(default_factory=list)

    def count_unreadable(self, row: int, text: str, count: int = 1) -> None:
        """Count rows (lines or records, from 1) that could not be read; the first is kept as an example."""
        self.unreadable_rows += count
        if self.first_row is None or row < self.first_row:
            self.first_row, self.example = row, text[:60]


def parse_state_field(text: str) -> str | None:
    """`CANCELLED by 1001`, `CANCELLED+`, `CD` → the state's name; None when there is none."""
    word = text.split(" ", 1)[0].rstrip("+").upper()
    return None if word in ("", "UNKNOWN", "(NULL)") else _SHORT_STATES.get(word, word)


def find_field_label(name: str) -> str | None:
    """Our field for a column's name."""
    return FIELD_OF.get(name.strip().lower().replace("_", ""))


def parse_time_fields(column: pa.Array, reading: Reading) -> pa.Array:
    """A text column of times as epoch nanoseconds. Local ISO times, ISO with an offset and epoch seconds are read;
    null where there is none."""
    distinct = column.dictionary_encode()
    texts = distinct.dictionary
    parsed = pc.strptime(texts, format="%Y-%m-%dT%H:%M:%S", unit="s", error_is_null=True).cast(pa.int64())
    local = parsed.is_valid().to_numpy(zero_copy_only=False)
    seconds = parsed.fill_null(0).to_numpy(zero_copy_only=False)
    local &= (seconds >= _FIRST_S) & (seconds <= _LAST_S)
    ns = convert_local_to_utc_ns(np.where(local, seconds, 0), reading.zone or "UTC")
    known = local.copy()
    bad = np.zeros(len(ns), bool)
    for i in np.flatnonzero(~local).tolist():
        text = texts[i].as_py()
        value, fine = _odd_time(text or "", reading.zone or "UTC")
        known[i], bad[i] = value is not None, not fine
        ns[i] = value or 0
    reading.assumed |= reading.zone is None and bool(local.any())
    codes = distinct.indices.fill_null(0).to_numpy(zero_copy_only=False)
    if not len(texts):
        return pa.nulls(len(column), pa.int64())
    reading.unreadable_times += int(bad[codes].sum())
    return pa.array(ns[codes], mask=~known[codes] | column.is_null().to_numpy(zero_copy_only=False))


def _odd_time(text: str, zone: str) -> tuple[int | None, bool]:
    """Epoch ns of a time in another form than local ISO, and whether the text was understood."""
    text = text.strip()
    if text in NO_VALUE or text.startswith("0000"):
        return None, True
    if text.isascii() and text.isdigit() and len(text) <= 11:
        seconds = int(text)
        return (seconds * 1_000_000_000 if _FIRST_S <= seconds <= _LAST_S else None), True
    match = _ISO.fullmatch(text)
    if match is None:
        return None, False
    try:
        seconds = int(datetime.fromisoformat(match.group(1) + "+00:00").timestamp())
    except ValueError:
        return None, False
    if not _FIRST_S <= seconds <= _LAST_S:
        return None, seconds < _FIRST_S
    offset = match.group(2)
    return int(convert_local_to_utc_ns(np.array([seconds]), offset or zone)[0]), True


def parse_number_fields(column: pa.Array) -> pa.Array:
    """A text column of counts; what is no plain number is null."""
    plain = pc.match_substring_regex(column, r"^[0-9]{1,15}$")
    return pc.if_else(plain, column, pa.scalar(None, pa.string())).cast(pa.int64())


def clear_none_fields(column: pa.Array) -> pa.Array:
    """A text column with Slurm's words for `none` as null."""
    return pc.if_else(pc.is_in(column, pa.array(NO_VALUE)), pa.scalar(None, pa.string()), column)


def settle_fields_by_state(columns: dict[str, pa.Array], states: pa.Array) -> dict[str, pa.Array]:
    """What a job's state says of its other fields: an end or start still to come is an estimate, and what was asked for
    is not what it has, so these are null. `columns`: start_ns, end_ns, nodes_count, cores (each may be absent)."""
    running = _is_in(states, _RUNS)
    waiting = _is_in(states, _WAITS)
    out = dict(columns)
    if "end_ns" in out:
        out["end_ns"] = _null_where(out["end_ns"], running | waiting)
    if "start_ns" in out:
        out["start_ns"] = _null_where(out["start_ns"], waiting)
        waiting = waiting | out["start_ns"].is_null().to_numpy(zero_copy_only=False)
    for name in ("nodes_count", "cores"):
        if name in out:
            zero = pc.equal(out[name], 0).fill_null(False).to_numpy(zero_copy_only=False)
            out[name] = _null_where(out[name], waiting | zero)
    return out


def _is_in(states: pa.Array, wanted: tuple[str, ...]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.is_in(states, pa.array(wanted)).to_numpy(zero_copy_only=False)
    return found


def _null_where(column: pa.Array, mask: NDArray[np.bool_]) -> pa.Array:
    return pc.if_else(pa.array(mask), pa.scalar(None, column.type), column)

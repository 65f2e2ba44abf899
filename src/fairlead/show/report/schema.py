"""What the JSON of `fairlead report` promises: every field with its meaning, and the JSON Schema made from the structs.

Within a schema number fields are added, never renamed, removed or given another meaning. Not here: how JSON is written
(`report_builder`).
"""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from msgspec.inspect import Field, StructType, type_info

from fairlead.core.model.finding import Advice, Evidence, Finding, Subject
from fairlead.core.model.missing import Missing
from fairlead.core.model.phase import Phase
from fairlead.explain.analysis import verdict as parts
from fairlead.explain.analysis.modes import Mode
from fairlead.explain.analysis.verdict_comparison import Comparison, FindingChange, Row
from fairlead.show.report.report_builder import COMPARISON_SCHEMA, REPORTS_SCHEMA, ComparedReports, ReportList

DIALECT = "https://json-schema.org/draft/2020-12/schema"
GRADES = ("A", "B", "C", "D", "F")

DOCUMENTS: dict[type[msgspec.Struct], str] = {
    parts.Verdict: parts.SCHEMA,
    ReportList: REPORTS_SCHEMA,
    ComparedReports: COMPARISON_SCHEMA,
}
"""What a whole document may be, and the name its `schema` holds."""

_ONE_OF: dict[tuple[type[msgspec.Struct], str], tuple[str | None, ...]] = {
    **{(kind, "schema"): (name,) for kind, name in DOCUMENTS.items()},
    (parts.Modes, "read"): get_args(Mode),
    (parts.Modes, "write"): get_args(Mode),
    (parts.Verdict, "grade"): (*GRADES, None),
    (Advice, "audience"): ("user", "developer", "site"),
}
"""Fields that hold one of a few words, where their type does not say so."""

MEANINGS: dict[type[msgspec.Struct], dict[str, str]] = {
    parts.Verdict: {
        "schema": "name and number of this contract",
        "fairlead_version": "version of the fairlead that wrote it",
        "analysis_version": "raised whenever the same trace would give other findings",
        "inputs": "the files read, as they were given or found; bytes that are no UTF-8 are written as `\\xff`",
        "source": "the format read: `darshan`, `dftracer`, or the name of a plug-in",
        "job": "who ran what, when",
        "totals": "what was moved and called, exactly as the trace counts it",
        "io_mode": "who touches which file, at the lowest interface",
        "io_mode_mpiio": "the same at the MPI-IO layer; null where it does not differ or MPI-IO was not used",
        "io_processes": "processes that moved bytes",
        "grade": "A (good) to F by the share of the run time that the causes found cost; null when it cannot be told",
        "grade_reason": "why this grade, or why none, in words",
        "lost_s": "wall-clock seconds of the run lost to the causes found, as far as known; null without any I/O",
        "headline": "the verdict in one sentence",
        "summary": "the figures shown first, by name; the names are metrics, `read_period` and `write_period` hold "
        "`{period_s, confidence}`; null means not known",
        "phases": "stretches of I/O in order of time; empty when none were found or time is not known "
        "(`metrics.timeline_known` tells which)",
        "findings": "what is worth telling, most expensive first, good news last",
        "undecided": "rules that could not be decided because the trace lacks something they ask for",
        "missing": "what cannot be known from the inputs, and why",
        "metrics": "every metric by name; null means not known, never zero",
    },
    parts.JobPart: {
        "id": "number of the job; `unknown` when no input names one",
        "user": "user name, or the number the trace holds; null when not known",
        "program": "the command line as recorded; null when not known",
        "cluster": "from accounting; null when not known",
        "start_ns": "start in ns since 1970 UTC; null when not known",
        "end_ns": "end in ns since 1970 UTC; null when not known",
        "run_time_s": "seconds from start to end; null when one is not known or the clock ran backwards",
        "processes": "processes of the job, at least the ranks seen",
        "nodes": "names of the nodes, or their number when only that is known; null when not known",
    },
    parts.Totals: {
        "read_bytes": "bytes read from files; calls whose size the trace does not hold add none (`missing` names them)",
        "write_bytes": "bytes written to files; as above",
        "read_ops": "read calls on files",
        "write_ops": "write calls on files",
        "metadata_ops": "opens, stats, renames and other calls for the metadata server; no closes, seeks or syncs",
        "stream_bytes": "bytes through standard input, output and error, which are in none of the others",
    },
    parts.Modes: {
        "read": "of reads",
        "write": "of writes",
    },
    parts.Processes: {
        "read": "processes that read; null when the trace cannot tell",
        "write": "processes that wrote; null when the trace cannot tell",
    },
    Phase: {
        "kind": "`read` or `write`",
        "start_ns": "begin in ns since 1970 UTC, the edge of a time bin",
        "end_ns": "end in ns since 1970 UTC, the edge of a time bin",
        "bytes": "bytes moved between the edges",
        "bandwidth_bytes_per_s": "bytes over the length of the phase; a lower bound",
        "active_ns": "ns in bins that hold data: pauses inside the phase left out",
    },
    Finding: {
        "id": "`<job>/<rule>`",
        "rule": "the rule that fired",
        "title": "what is wrong, in a line, with its figures",
        "subject": "what it is about",
        "from_ns": "since when, in ns since 1970 UTC; null when not known",
        "to_ns": "until when; null when not known",
        "severity": "`critical`, `high`, `warning`, `info`, or `ok` for good news",
        "confidence": "how sure the rule is, 0 to 1",
        "category": "one of the categories of the rules",
        "culprits": "who causes it, where that is someone else than the subject",
        "evidence": "the facts it rests on",
        "missing": "metrics the rule could not use because the trace lacks them; they would make it surer",
        "advice": "what to do, the first thing first",
        "covers": "rules that fired, too, but say the same in more general words",
        "cost_s": "wall-clock seconds that mending this alone could win; costs overlap and do not add up; null when "
        "they cannot be known",
        "cost_basis": "what was measured and what assumed for the cost; null without a cost",
        "analysis_version": "as above",
    },
    Subject: {
        "kind": "`job`, `file`, `rank`, `node`, `target`, `forwarder`, `mds` or `port`",
        "id": "which one",
    },
    Evidence: {
        "text": "the fact for people",
        "metric": "the metric it shows; null when it is none",
        "value": "its value for programs; null when not known",
        "unit": "unit of the value: `s`, `bytes`, `bytes/s`, `share` (0 to 1), `count`, `1/s`, `ratio`, `rank`, `word` "
        "or `bool`; null without a metric",
        "files": "the files it shows in most, at most a few",
        "ranks": "the ranks it shows in",
    },
    Advice: {
        "text": "what to do, in words",
        "audience": "who can do it",
        "code": "the exact call, hint or directive; null when there is none",
        "language": "language of the code, for highlighting; null when not stated",
    },
    parts.UndecidedRule: {
        "rule": "the rule",
        "title": "what it would have said",
        "unknown": "the metrics it lacks",
    },
    Missing: {
        "kind": "a stable word for programs",
        "what": "what is not known",
        "why": "the cause, in the data",
        "remedy": "what would make it known; null when nothing would",
        "where": "the input it concerns; null when it concerns the job",
    },
    ReportList: {
        "schema": "name and number of this contract",
        "reports": "one report a job, in the order of the inputs",
    },
    ComparedReports: {
        "schema": "name and number of this contract",
        "before": "the report of the first run",
        "after": "the report of the second run",
        "comparison": "what changed",
    },
    Comparison: {
        "labels": "names of the two runs, the first first",
        "verdict": "what changed, in one sentence",
        "rows": "the figures side by side",
        "findings": "what became of the findings, good news left out",
        "modes": "I/O modes by direction (`read`, `write`), the first run's first",
        "grades": "both grades; null for a run without one",
    },
    Row: {
        "name": "what it is, for people",
        "before": "of the first run; null when not known",
        "after": "of the second run; null when not known",
        "unit": "`s`, `share` (0 to 1), `bytes`, `bytes/s` or `count`",
        "ratio": "after / before; null when one is not known or the first is 0",
        "better": "whether it became better; null when it is no question of better, or changed by less than 5 %",
    },
    FindingChange: {
        "gone": "titles of findings of the first run alone",
        "new": "titles of findings of the second run alone",
        "kept": "titles of findings of both, as the second run has them",
    },
}
"""Every struct of the contract, field by field. A test holds it against the structs."""


def list_report_schema_fields(kind: type[msgspec.Struct]) -> tuple[Field, ...]:
    """The fields of a struct in the order they are written."""
    info = type_info(kind)
    if not isinstance(info, StructType):
        raise TypeError(f"{kind} is not a struct")
    return info.fields


def list_schema_words(kind: type[msgspec.Struct], name: str) -> tuple[str | None, ...] | None:
    """The few words that a field may hold, where its type does not say so."""
    return _ONE_OF.get((kind, name))


def build_report_schema() -> dict[str, Any]:
    """The JSON Schema of all documents: one of `DOCUMENTS`. Every field is required: fairlead writes them all."""
    _, definitions = msgspec.json.schema_components(tuple(MEANINGS), ref_template="#/$defs/{name}")
    for kind, meanings in MEANINGS.items():
        definition = definitions[kind.__name__]
        definition["required"] = list(meanings)
        for name, meaning in meanings.items():
            described = definition["properties"][name]
            described.pop("default", None)
            words = list_schema_words(kind, name)
            if words is not None:
                described = {"enum": list(words)}
            definition["properties"][name] = {"description": meaning, **described}
    return {
        "$schema": DIALECT,
        "title": "What `fairlead report --json` writes",
        "oneOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in DOCUMENTS],
        "$defs": definitions,
    }

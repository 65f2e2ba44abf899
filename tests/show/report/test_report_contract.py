"""The JSON contract of reports: what is documented is what is written, and real documents keep to it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead.explain.analysis.profile import METRICS
from fairlead.explain.analysis.verdict import Verdict
from fairlead.show.report import schema as report_contract
from fairlead.show.report.report_builder import ComparedReports, ReportList
from report_inputs import LOGS, ROOT, SMALL, STRIDED, report, written

Capture = pytest.CaptureFixture[str]
Json = dict[str, Any]
SCHEMA: Json = json.loads((ROOT / "docs" / "reference" / "report.schema.json").read_text(encoding="utf-8"))
FIXTURES = ROOT / "tests" / "fixtures" / "darshan"
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}

AGREED: Json = {
    "schema": {},
    "grade": {},
    "missing": [],
    "job": {"id", "user", "program", "start_ns", "end_ns", "processes", "nodes"},
    "totals": {"read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops"},
    "io_mode": {"read", "write"},
    "phases": {"kind", "start_ns", "end_ns", "bytes", "bandwidth_bytes_per_s"},
    "findings": {
        "id",
        "rule",
        "subject",
        "from_ns",
        "to_ns",
        "severity",
        "confidence",
        "category",
        "culprits",
        "evidence",
        "missing",
        "advice",
        "cost_s",
        "analysis_version",
        "title",
    },
}
"""What was agreed with those who read reports, written here by hand: it must not vanish with a change of a struct."""


def faults(value: object, schema: Json, where: str = "$") -> Iterator[str]:
    """Where a document departs from a schema; the keywords that the schema of reports uses, no others."""
    known = {"$ref", "type", "enum", "anyOf", "oneOf", "properties", "required", "items", "additionalProperties"}
    assert set(schema) <= known | {"title", "description", "$schema", "$defs"}, schema
    if "$ref" in schema:
        yield from faults(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], where)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            fitting = sum(not list(faults(value, one, where)) for one in schema[word])
            if fitting == 0 or (word == "oneOf" and fitting > 1):
                yield f"{where}: fits {fitting} of {word}: {value!r:.60}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is none of {schema['enum']}"
    if "type" in schema and not _is_a(value, schema["type"]):
        yield f"{where}: {value!r:.60} is no {schema['type']}"
        return
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        yield from (f"{where}.{name}: absent" for name in schema.get("required", []) if name not in value)
        for name, item in value.items():
            inner = properties.get(name, schema.get("additionalProperties"))
            if isinstance(inner, dict):
                yield from faults(item, inner, f"{where}.{name}")
    if isinstance(value, list) and "items" in schema:
        for place, item in enumerate(value):
            yield from faults(item, schema["items"], f"{where}[{place}]")


def _is_a(value: object, kind: str) -> bool:
    if kind in ("integer", "number"):
        return isinstance(value, int if kind == "integer" else int | float) and not isinstance(value, bool)
    return isinstance(value, TYPES[kind])


def documents(capsys: Capture, folder: Path) -> Iterator[Json]:
    for path in [*sorted(LOGS.glob("*.darshan")), *sorted(FIXTURES.glob("*.darshan")), written(folder)]:
        yield report(capsys, path, "--json", "-").json
    yield report(capsys, written(folder, end=(1, 0)), "--json", "-").json
    yield report(capsys, LOGS, "--json", "-").json
    yield report(capsys, SMALL, "--compare", STRIDED, "--json", "-").json


def test_every_field_is_documented_and_every_documented_field_is_there() -> None:
    for kind, meanings in report_contract.MEANINGS.items():
        assert [field.encode_name for field in report_contract.list_report_schema_fields(kind)] == list(meanings), (
            kind.__name__
        )
        assert all(meanings.values())


def test_no_struct_is_left_out() -> None:
    reached = set(SCHEMA["$defs"])
    assert reached == {kind.__name__ for kind in report_contract.MEANINGS}


def test_real_documents_keep_to_the_schema(capsys: Capture, tmp_path: Path) -> None:
    seen = set()
    for document in documents(capsys, tmp_path):
        assert list(faults(document, SCHEMA)) == []
        seen.add(document["schema"])
    assert seen == set(report_contract.DOCUMENTS.values())


def test_real_documents_hold_what_was_agreed(capsys: Capture, tmp_path: Path) -> None:
    phases = findings = 0
    for document in documents(capsys, tmp_path):
        for verdict in document.get("reports") or [document.get("before", document)]:
            for name, inner in AGREED.items():
                items = verdict[name] if isinstance(verdict[name], list) else [verdict[name]]
                for item in items if inner else ():
                    assert set(inner) <= set(item), name
            assert set(verdict["io_mode"].values()) <= {"N-N", "N-M", "N-1", "1-1", "none"}
            assert set(verdict["metrics"]) == set(METRICS)
            assert {finding["subject"]["kind"] for finding in verdict["findings"]} <= {"job", "file", "rank", "target"}
            phases += len(verdict["phases"])
            findings += len(verdict["findings"])
    assert phases
    assert findings


def test_documents_can_be_read_back_into_the_structs(capsys: Capture, tmp_path: Path) -> None:
    kinds: dict[str, Any] = {name: kind for kind, name in report_contract.DOCUMENTS.items()}
    assert kinds == {
        "fairlead.report/1": Verdict,
        "fairlead.reports/1": ReportList,
        "fairlead.comparison/1": ComparedReports,
    }
    for document in documents(capsys, tmp_path):
        text = json.dumps(document).encode()
        value = msgspec.json.decode(text, type=kinds[document["schema"]])
        assert json.loads(msgspec.json.encode(value)) == document


def _changed(document: Json, path: str, value: object) -> Json:
    """A copy with one field changed; `...` takes it out."""
    changed = copy.deepcopy(document)
    at: Any = changed
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in way:
        at = at[part]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("schema", "fairlead.report/2"),
        ("schema", ...),
        ("job.id", 7),
        ("job.id", ...),
        ("job.processes", None),
        ("job.start_ns", 1.5),
        ("totals.read_bytes", None),
        ("totals.write_ops", "7"),
        ("io_mode.read", "N-2"),
        ("grade", "E"),
        ("findings.0.severity", "bad"),
        ("findings.0.cost_s", "1 s"),
        ("findings.0.subject", "job"),
        ("findings.0.evidence", None),
        ("phases.0.kind", "metadata"),
        ("phases.0.bytes", 1.5),
        ("missing", {}),
        ("metrics.files", []),
        ("io_processes.read", True),
    ],
)
def test_the_schema_refuses_what_is_not_agreed(capsys: Capture, path: str, value: object) -> None:
    document = report(capsys, SMALL, "--json", "-").json
    assert list(faults(_changed(document, path, value), SCHEMA))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("later", {"added": 1}),
        ("job.later", 1),
        ("grade", None),
        ("job.nodes", ["n1"]),
        ("job.nodes", 3),
        ("findings.0.cost_s", None),
        ("metrics.files", None),
        ("lost_s", 3),
    ],
)
def test_the_schema_allows_what_may_come(capsys: Capture, path: str, value: object) -> None:
    document = report(capsys, SMALL, "--json", "-").json
    assert list(faults(_changed(document, path, value), SCHEMA)) == []

"""A finding: one thing worth telling a person, with its evidence and what to do. The same record everywhere."""

from __future__ import annotations

from typing import Literal

import msgspec

Severity = Literal["critical", "high", "warning", "info", "ok"]
SEVERITIES: tuple[Severity, ...] = ("critical", "high", "warning", "info", "ok")


class Subject(msgspec.Struct, frozen=True):
    """What the finding is about: kind `job`, `file`, `rank`, `node`, `target`, `forwarder`, `mds`, `port`."""

    kind: str
    id: str


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One measured fact. `value` is for programs, `text` for people; `files`/`ranks` point at where it shows."""

    text: str
    metric: str | None = None
    value: float | int | str | bool | None = None
    unit: str | None = None
    files: list[str] = []
    ranks: list[int] = []


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """What to do: for whom (`user`, `developer`, `site`), in words, and the exact call, hint or directive."""

    text: str
    audience: str = "user"
    code: str | None = None
    language: str | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """See the module. `cost_s` is wall-clock seconds of the job lost to this cause; None when it cannot be known.

    Costs of different findings may overlap: the same second can be lost to small requests and to a straggler.
    `confidence` is in [0, 1]; `missing` says what would make it surer. `covers` names rules that fired, too, but say
    the same of the same fault in more general words.
    """

    id: str
    rule: str
    title: str
    subject: Subject
    from_ns: int | None
    to_ns: int | None
    severity: Severity
    confidence: float
    category: str
    culprits: list[Subject] = []
    evidence: list[Evidence] = []
    missing: list[str] = []
    advice: list[Advice] = []
    covers: list[str] = []
    cost_s: float | None = None
    cost_basis: str | None = None
    analysis_version: str

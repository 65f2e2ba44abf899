"""What a reader who sees only the own jobs is told of findings: other people's jobs are "another job", without names.

A number that stands in a text is hidden if a job of that number that ran about then is somebody else's, in whatever
cluster. What logs wrote of an event is left out. Not here: which findings such a reader sees at all
(`restricted_lake`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from fairlead.core.model.finding import Advice, Evidence, Subject
from fairlead.core.model.finding_incident_rows import StoredFinding
from fairlead.core.model.incident import Incident
from fairlead.explain.questions.job_accounts import read_all_accounts
from fairlead.explain.questions.lake_queries import Sight, Tables
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, Span
from fairlead.explain.questions.visible_lake import is_job_visible, widen_visible_lake

ANOTHER_JOB = "another job"
ANOTHER = "somebody else's"
_OPEN_NS = 400 * DAY_NS
"""What is not over may name jobs that began so long after it did."""
_TOKEN = re.compile(r"[\w.\[\]+-]*\d[\w.\[\]+-]*")
_AFTER_JOB = re.compile(rf"\bjobs? ((?:{_TOKEN.pattern}(?:, | and )?)+)", re.IGNORECASE)
_EVENT = "event"
Say = Callable[[str], str]
_Accounts = Mapping[str, Sequence[Mapping[str, Any]]]


def redact_findings(lake: Tables, told: Sequence[StoredFinding], sight: Sight) -> list[StoredFinding]:
    """The findings in the words this reader may hear. Raises LakeError."""
    if sight.everything or not told:
        return list(told)
    words = [_Words(_texts(one), _subjects(one), one.finding.from_ns, one.finding.to_ns, one.job_id) for one in told]
    accounts = _accounts(lake, words)
    return [_told(one, mine.said(accounts, sight)) for one, mine in zip(told, words, strict=True)]


def redact_incidents(lake: Tables, incidents: Sequence[Incident], sight: Sight) -> list[Incident]:
    """The incidents without other people's jobs. Raises LakeError."""
    if sight.everything or not incidents:
        return list(incidents)
    words = [
        _Words([*(e.text for e in one.evidence), *one.missing], one.jobs, one.from_ns, one.to_ns) for one in incidents
    ]
    accounts = _accounts(lake, words)
    made = []
    for one, mine in zip(incidents, words, strict=True):
        say = mine.said(accounts, sight)
        made.append(
            replace(
                one,
                jobs=[job for job in one.jobs if say(job) == job],
                evidence=[_evidence(e, say) for e in one.evidence],
                missing=[say(text) for text in one.missing],
            )
        )
    return made


class _Words:
    """What one finding or incident says. `named`: its jobs; `own`: the number of the reader's job it is about."""

    def __init__(
        self, texts: Sequence[str], named: Sequence[str], from_ns: int | None, to_ns: int | None, own: str | None = None
    ) -> None:
        begin = from_ns or 0
        self.span = Span(begin - DAY_NS, (begin + _OPEN_NS if to_ns is None else max(begin, to_ns)) + DAY_NS)
        self.then = Span(begin - HOUR_NS, (begin + _OPEN_NS if to_ns is None else max(begin, to_ns)) + HOUR_NS)
        self.own = own
        self.jobs = {*named, *(t for text in texts for m in _AFTER_JOB.findall(text) for t in _numbers(m))} - {own}
        self.tokens = {token for text in texts for token in _numbers(text)} - {own}

    def said(self, accounts: _Accounts, sight: Sight) -> Say:
        """A function that says a text without the jobs this reader may not see."""
        others, names = set(), set()
        for number in self.jobs | self.tokens:
            ran = [one for one in accounts.get(number, ()) if self._ran(one, self.span)]
            hidden = [one for one in ran if not is_job_visible(one, sight)]
            close = [is_job_visible(one, sight) for one in ran if self._ran(one, self.then)]
            if (hidden and not (close and all(close))) or (number in self.jobs and not ran):
                others.add(number)
            names |= {name for one in hidden for name in _names(one, sight)}
        return _without(others, names)

    @staticmethod
    def _ran(account: Mapping[str, Any], span: Span) -> bool:
        start, end = account["start_ns"], account["end_ns"]
        return bool(start < span.to_ns and (end is None or end >= span.from_ns))


def _accounts(lake: Tables, words: Iterable[_Words]) -> _Accounts:
    """By number, the jobs any of these texts may mean."""
    words = list(words)
    numbers = sorted(set().union(*(one.jobs | one.tokens for one in words)))
    span = Span(min(one.span.from_ns for one in words), max(one.span.to_ns for one in words))
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in read_all_accounts(widen_visible_lake(lake), numbers, span):
        found.setdefault(row["job_id"], []).append(row)
    return found


def _numbers(text: str) -> list[str]:
    """What may be a job's number, with and without what a sentence ends with."""
    return [form for token in _TOKEN.findall(text) for form in {token, token.rstrip(".")}]


def _texts(told: StoredFinding) -> list[str]:
    finding = told.finding
    texts = [finding.title, *finding.missing, finding.cost_basis or ""]
    texts += [str(e.text) for e in finding.evidence] + [e.value for e in finding.evidence if isinstance(e.value, str)]
    return texts + [advice.text for advice in finding.advice] + [advice.code or "" for advice in finding.advice]


def _subjects(told: StoredFinding) -> list[str]:
    finding = told.finding
    return [who.id for who in (finding.subject, *finding.culprits, *told.components, *told.active) if who.kind == "job"]


def _names(account: Mapping[str, Any], sight: Sight) -> list[str]:
    said = [account[name] for name in ("user", "project", "program", "name")]
    short = [(account["program"] or "").split(" ")[0].rsplit("/", 1)[-1]]
    return [name for name in (*said, *short) if name and name != sight.user and name not in sight.projects]


def _without(numbers: set[str], names: set[str]) -> Say:
    """Says a text without these, in one go: what stands for one of them is not looked at again."""
    parts = []
    if numbers:
        parts.append(rf"(?P<job>(?:\b[Jj]obs? )?(?<![\w.])(?:{_either(numbers)})(?![\w]|\.\d))")
    if names:
        parts.append(rf"(?<!\w)(?:{_either(names)})(?:'s)?(?!\w)")
    if not parts:
        return str
    pattern = re.compile("|".join(parts))
    return lambda text: pattern.sub(lambda found: ANOTHER_JOB if found.groupdict().get("job") else ANOTHER, text)


def _either(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))


def _told(told: StoredFinding, say: Say) -> StoredFinding:
    finding = told.finding
    return replace(
        told,
        components=[_subject(one, say) for one in told.components],
        active=[_subject(one, say) for one in told.active],
        finding=replace(
            finding,
            title=say(finding.title),
            subject=_subject(finding.subject, say),
            culprits=[_subject(who, say) for who in finding.culprits],
            evidence=[_evidence(one, say) for one in finding.evidence],
            missing=[say(text) for text in finding.missing],
            advice=[_advice(one, say) for one in finding.advice],
            cost_basis=None if finding.cost_basis is None else say(finding.cost_basis),
        ),
    )


def _subject(who: Subject, say: Say) -> Subject:
    return Subject(who.kind, say(who.id)) if who.kind == "job" else who


def _evidence(one: Evidence, say: Say) -> Evidence:
    if one.metric == _EVENT:
        return replace(one, text=f"{one.value}: its details are for operators only")
    return replace(one, text=say(one.text), value=say(one.value) if isinstance(one.value, str) else one.value)


def _advice(one: Advice, say: Say) -> Advice:
    return replace(one, text=say(one.text), code=None if one.code is None else say(one.code))

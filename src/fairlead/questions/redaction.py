"""What a reader who sees only the own jobs is told of findings: other people's jobs are "another job", without names.

Not here: which findings such a reader sees at all (`findings`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from fairlead.model.diagnosis import Told
from fairlead.model.finding import Advice, Evidence, Subject
from fairlead.model.incident import Incident
from fairlead.questions.accounts import accounts_of, visible
from fairlead.questions.asking import Sight, Tables
from fairlead.questions.span import Span

ANOTHER_JOB = "another job"
ANOTHER = "somebody else's"
_AFTER_JOB = re.compile(r"\bjobs? ((?:[\w.\[\]+-]+(?:, | and )?)+)", re.IGNORECASE)
_TOKEN = re.compile(r"[\w.\[\]+-]+")


def told_to(lake: Tables, told: Sequence[Told], sight: Sight) -> list[Told]:
    """The findings in the words this reader may hear."""
    if sight.everything:
        return list(told)
    return [_told(one, _hidden(lake, _texts(one), one.finding.from_ns, one.finding.to_ns, _subjects(one), sight))
            for one in told]  # fmt: skip


def incidents_to(lake: Tables, incidents: Sequence[Incident], sight: Sight) -> list[Incident]:
    """The incidents without other people's jobs."""
    if sight.everything:
        return list(incidents)
    made = []
    for one in incidents:
        texts = [evidence.text for evidence in one.evidence]
        say = _hidden(lake, texts, one.from_ns, one.to_ns, one.jobs, sight)
        mine = [job for job in one.jobs if say(job) == job]
        made.append(replace(one, jobs=mine, evidence=[_evidence(e, say) for e in one.evidence],
                            missing=[say(text) for text in one.missing]))  # fmt: skip
    return made


def _texts(told: Told) -> list[str]:
    finding = told.finding
    texts = [finding.title, *finding.missing, finding.cost_basis or ""]
    texts += [str(e.text) for e in finding.evidence] + [e.value for e in finding.evidence if isinstance(e.value, str)]
    return texts + [advice.text for advice in finding.advice] + [advice.code or "" for advice in finding.advice]


def _subjects(told: Told) -> list[str]:
    finding = told.finding
    return [who.id for who in (finding.subject, *finding.culprits, *told.components) if who.kind == "job"]


def _hidden(
    lake: Tables, texts: Iterable[str], from_ns: int | None, to_ns: int | None, named: Sequence[str], sight: Sight
) -> Callable[[str], str]:
    """A function that says a text without the jobs this reader may not see."""
    mentioned = {token for text in texts for match in _AFTER_JOB.findall(text) for token in _TOKEN.findall(match)}
    numbers = sorted({*named, *mentioned})
    begin = from_ns or 0
    accounts = accounts_of(lake, numbers, Span(begin, max(begin, to_ns or begin) + 1)) if numbers else {}
    others = {number for number in named if not visible(accounts.get(number), sight)}
    others |= {number for number, account in accounts.items() if not visible(account, sight)}
    names = {name for number in others for name in _names(accounts.get(number), sight)}
    return lambda text: _without(text, others, names)


def _names(account: Mapping[str, Any] | None, sight: Sight) -> list[str]:
    if account is None:
        return []
    said = [account[name] for name in ("user", "project", "program", "name")]
    short = [(account["program"] or "").split(" ")[0].rsplit("/", 1)[-1]]
    return [name for name in (*said, *short) if name and name != sight.user]


def _without(text: str, numbers: set[str], names: set[str]) -> str:
    for number in sorted(numbers, key=len, reverse=True):
        text = re.sub(rf"(?:\bjob )?(?<![\w.]){re.escape(number)}(?![\w]|\.\d)", ANOTHER_JOB, text)
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<![\w]){re.escape(name)}(?![\w])", ANOTHER, text)
    return text


def _told(told: Told, say: Callable[[str], str]) -> Told:
    finding = told.finding
    return replace(
        told, components=[_subject(one, say) for one in told.components],
        finding=replace(
            finding, title=say(finding.title), subject=_subject(finding.subject, say),
            culprits=[_subject(who, say) for who in finding.culprits],
            evidence=[_evidence(one, say) for one in finding.evidence],
            missing=[say(text) for text in finding.missing],
            advice=[_advice(one, say) for one in finding.advice],
            cost_basis=None if finding.cost_basis is None else say(finding.cost_basis),
        ),
    )  # fmt: skip


def _subject(who: Subject, say: Callable[[str], str]) -> Subject:
    return Subject(who.kind, say(who.id)) if who.kind == "job" else who


def _evidence(one: Evidence, say: Callable[[str], str]) -> Evidence:
    return replace(one, text=say(one.text), value=say(one.value) if isinstance(one.value, str) else one.value)


def _advice(one: Advice, say: Callable[[str], str]) -> Advice:
    return replace(one, text=say(one.text), code=None if one.code is None else say(one.code))

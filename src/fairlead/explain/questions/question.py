"""What a question is made of: its parameters' common part, what it is asked of, its path and its answer.

Not here: the questions (`question_catalog`, `catalog_pages`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

import msgspec

from fairlead.core.model.site_facts import SiteFacts
from fairlead.explain.questions import answers
from fairlead.explain.questions.lake_queries import Sight, Tables
from fairlead.explain.questions.load_distributions import DistributionCache
from fairlead.explain.questions.rollup_end import shift_to_rollup_end
from fairlead.explain.questions.span import LONGEST_NS, MAX_POINTS, Span, parse_span
from fairlead.explain.questions.visible_lake import Decision
from fairlead.store.retention import Policy

Name = Annotated[str, msgspec.Meta(max_length=256)]
When = Annotated[str, msgspec.Meta(max_length=64)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Points = Annotated[int, msgspec.Meta(ge=10, le=MAX_POINTS)]


class TimeParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When is asked about: `last` (5m, 2h, 7d) up to `to`, `from` … `to`, or `at` (a moment; `last` before it)."""

    last: When = ""
    from_: When = msgspec.field(default="", name="from")
    to: When = ""
    at: When = ""

    def span(self, now_ns: int, default: str, longest_ns: int = LONGEST_NS) -> Span:
        """The span; `default` long when nothing says. Raises UsageError."""
        return parse_span(
            now_ns=now_ns,
            default=default,
            last=self.last,
            from_=self.from_,
            to=self.to,
            at=self.at,
            longest_ns=longest_ns,
        )

    @property
    def says_when(self) -> bool:
        """Whether any of the four is given."""
        return bool(self.last or self.from_ or self.to or self.at)


class PageAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How finely a page is drawn, how many of those involved are listed."""

    points: Points = 600
    limit: Limit = 20


class LoadAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What counts as a component's full load, bytes a second; unknown: the highest seen."""

    peak: Annotated[float, msgspec.Meta(gt=0, le=1e18)] | None = None


@dataclass
class Asking:
    """What a question is asked of: a lake, what is remembered between questions, the longest span taken."""

    lake: Tables
    kept: DistributionCache = field(default_factory=DistributionCache)
    longest_ns: int = LONGEST_NS
    peaks: dict[str, float] = field(default_factory=dict)
    """Known peak of a kind of component, bytes a second (`forwarder`, `target`): of the site's description."""
    facts: SiteFacts | None = None
    """What the site's description tells; None: there is none."""
    keep: Policy | None = None
    """How long the server keeps what; None: not known (no server was asked)."""

    acknowledged: Callable[[], Collection[str]] | None = None
    """Ids of findings somebody has taken on; None: that is not known here."""

    def __post_init__(self) -> None:
        if self.facts is not None:
            self.peaks = {**self.facts.peaks, **self.peaks}


class Answering(Protocol):
    """Answers one question."""

    def __call__(self, asking: Asking, name: str, asked: Any, sight: Sight, now_ns: int) -> answers.Answer: ...


@dataclass(frozen=True)
class Question:
    """One question: its path below /api/v1 (`{name}` stands for what it is about), parameters, answer."""

    path: str
    asked: type[msgspec.Struct]
    answer: type[answers.Answer]
    about: str
    run: Answering
    decision: Decision = "machine"
    """Of a plug-in's question: who besides support and administrators may ask it. `own`: users, of the lake that holds
    what is theirs. Those of fairlead are in `visible_lake.DECISIONS`."""


def resolve_question_span(asking: Asking, asked: TimeParameters, default: str, now_ns: int) -> Span:
    """The span asked for; a short one up to now ends where the rollup does."""
    span = asked.span(now_ns, default, asking.longest_ns)
    return (span if asked.to or asked.at else shift_to_rollup_end(asking.lake, span, now_ns)).round_to_steps()

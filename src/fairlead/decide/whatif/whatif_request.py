"""What a page asks to replay, checked as the command line does: the span, what is asked, and the command for the same.

Not here: the replaying (`question`).
"""

from __future__ import annotations

import shlex
from datetime import UTC, datetime

from fairlead.core.errors import UsageError
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.decide.whatif.whatif_evaluation import WhatIfRequest, find_whatif_policies
from fairlead.explain.questions.answers_whatif_runs import WhatIfAsked
from fairlead.explain.questions.span import Span, parse_span

DEFAULT = "30d"


def _is_age(text: str) -> bool:
    """Whether it is written as a length of time: `30d`."""
    return bool(text) and text[0].isdigit() and text[-1].isalpha() and text.isalnum()


def check_whatif_request(asked: WhatIfAsked, now_ns: int) -> tuple[Span, WhatIfRequest]:
    """The span and the question. Raises UsageError for a time that is none, an unknown policy."""
    if asked.last and asked.since:
        raise UsageError("'since' and 'last' both set the start", remedy="give one of them")
    since = "" if _is_age(asked.since) else asked.since
    last = asked.last or ("" if since else asked.since)
    span = parse_span(now_ns=now_ns, default=DEFAULT, last=last, from_=since, to=asked.until)
    found = WhatIfRequest(
        policies=tuple(asked.policies),
        forwarders=asked.forwarders,
        targets=asked.targets,
        layer=asked.layer,
        price_per_core_hour=asked.price,
        limit=asked.limit,
        seed=asked.seed,
    )
    find_whatif_policies(found)
    return Span(span.from_ns, span.to_ns), found


def format_whatif_command(asked: WhatIfAsked, span: Span, *, lake: str = "", site: str = "") -> str:
    """The command line that answers the same."""
    words = ["fairlead", "whatif", "--since", _moment(span.from_ns), "--until", _moment(span.to_ns)]
    for name in asked.policies:
        words += ["--policy", name]
    for option, value in (
        ("--layer", asked.layer),
        ("--forwarders", asked.forwarders),
        ("--osts", asked.targets),
        ("--price", asked.price),
        ("--limit", asked.limit if asked.limit != 10 else None),
        ("--seed", asked.seed or None),
        ("--site", site),
        ("--lake", lake),
    ):
        if value not in (None, ""):
            words += [option, str(value)]
    return shlex.join(words)


def _moment(at_ns: int) -> str:
    if at_ns % NS_PER_S:
        return str(at_ns)
    return datetime.fromtimestamp(at_ns // NS_PER_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
